"""The main job on real models: compile, write, read, execute by plan, and equal onnxruntime."""

from __future__ import annotations

from pathlib import Path

import pytest

import gerules
from bench import zoo
from gerules.runtime.executor import load_om
from tests.models.catalogue import find
from tests.models.oracle import assert_close, ort_outputs

FP32_RTOL = 1e-4
FP16_RTOL = 2e-2

FP16_RTOL_OF = {"filled_resnet50": 5e-2}
"""Measured 2.9e-2: its largest logits are about 20, and softmax makes 3 % of an error of 0.03 in one."""


@pytest.mark.parametrize("name", zoo.NAMES)
@pytest.mark.parametrize(
    ("device", "precision", "rtol"),
    [("host", "fp32", FP32_RTOL), ("ascend910b", "fp16", FP16_RTOL)],
    ids=["host-fp32", "ascend910b-fp16"],
)
def test_a_compiled_model_equals_the_original(
    name: str, device: str, precision: str, rtol: float, tmp_path: Path
) -> None:
    path = find(name)
    feeds = zoo.inputs(path, 1)
    want = ort_outputs(path, feeds)
    shapes = {key: array.shape for key, array in feeds.items()}
    model = gerules.compile(path, device=device, precision=precision, input_shapes=shapes)
    plan = model.memory_plan
    assert plan is not None
    assert plan.peak_bytes >= plan.lower_bound_bytes
    out = tmp_path / "m.om"
    model.save(out)
    got = load_om(out).run(feeds, poison=True)
    assert got.keys() == want.keys()
    assert_close(got, want, FP16_RTOL_OF.get(name, rtol) if precision == "fp16" else rtol)
