"""`gerules demo`: the whole way, on two devices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from gerules.cli import demo_model
from gerules.cli.demo_model import make_demo_model
from tests.cli.conftest import Run


def test_the_demo_compiles_runs_and_holds(run_json: Callable[..., Any], run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    runs = run_json("demo", "-o", folder)["runs"]
    assert [
        (one["compile"]["summary"]["device"], one["compile"]["summary"]["precision"]) for one in runs
    ] == [
        ("ascend910b", "fp16"),
        ("host", "fp32"),
    ]
    for one in runs:
        assert {check["against"] for check in one["checks"]} == {"reference", "onnxruntime"}
        assert all(check["ok"] for check in one["checks"])
        assert one["top_class"]["om"] == one["top_class"]["reference"]
        fusions = one["compile"]["summary"]["fusions"]
        assert (fusions["conv_bn"], fusions["conv_relu"], fusions["conv_add_relu"]) == (53, 33, 16)
    half, full = (one["checks"][0]["outputs"][0]["max_rel"] for one in runs)
    assert full < 1e-5 < half
    assert {path.name for path in folder.iterdir()} == {"resnet50.onnx", "ascend910b_fp16.om", "host_fp32.om"}
    # What is kept can be gone on with.
    again = run("run", folder / "host_fp32.om", "--check", folder / "resnet50.onnx", "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["check"]["ok"]


def test_the_network_is_sound_and_spread() -> None:
    model = make_demo_model()
    onnx.checker.check_model(model, full_check=True)
    weights = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 53
    # Source: He et al., 2015: ResNet-50 has 25.6 million parameters; with the running statistics of 53
    # normalizations.
    assert sum(array.size for array in weights.values()) == pytest.approx(25.6e6, rel=0.01)
    kernels = [array for array in weights.values() if array.ndim == 4]
    assert all(np.std(array) > 0 for array in kernels)
    assert (
        numpy_helper.to_array(make_demo_model().graph.initializer[0]).tobytes()
        == numpy_helper.to_array(model.graph.initializer[0]).tobytes()
    )


def test_an_onnx_package_without_the_network_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_model, "_FILE", "backend/test/data/light/gone.onnx")
    result = run("demo")
    assert result.exit_code == 1
    assert "error[E10001]" in result.stderr and "has no test data" in result.stderr
