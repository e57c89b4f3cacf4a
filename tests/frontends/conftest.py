"""What the front ends' tests share: one way to run a model with onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

Run = Callable[[onnx.ModelProto | str | Path, dict[str, npt.NDArray[np.generic]]], list[object]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a model with onnxruntime, unoptimised, and return its outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def run_model(
        model: onnx.ModelProto | str | Path, feeds: dict[str, npt.NDArray[np.generic]]
    ) -> list[object]:
        source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else os.fspath(model)
        return list(onnxruntime.InferenceSession(source, options).run(None, feeds))

    return run_model
