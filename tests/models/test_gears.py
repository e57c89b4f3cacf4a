"""Gears of real models: each equals onnxruntime, weights are there once, the arena is the largest gear's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import gerules
from bench import zoo
from gerules.runtime.executor import Executor, load_om
from tests.models.catalogue import find
from tests.models.oracle import assert_close, ort_outputs

RTOL = 1e-4


def compiled(path: Path, tmp_path: Path, **options: Any) -> Executor:
    """Compile to a file, check what all gears share, and load the file."""
    model = gerules.compile(path, **options)
    out = tmp_path / "m.om"
    om_bytes = model.save(out)
    gears = model.summary().gears
    peaks = [gear.peak_bytes for gear in gears]
    assert model.om.memory_size_bytes == max(peaks)
    one = gerules.compile(path, input_shapes=gears[-1].shapes)
    assert peaks[-1] == one.om.memory_size_bytes
    one_bytes = one.save(tmp_path / "one.om")
    weights, once = model.om.weights.size_bytes, one.om.weights.size_bytes
    # A gear adds its operators and the constants of its shapes, not the weights.
    assert weights < 1.02 * once and om_bytes < 1.05 * one_bytes
    return load_om(out)


@pytest.mark.parametrize("batch", [1, 2, 4, 8])
def test_resnet50_by_batch(batch: int, resnet50: Executor) -> None:
    feeds = zoo.inputs(find("resnet50_ts_dyn"), batch, dims={"batch": batch})
    assert resnet50.gears is not None
    gear = resnet50.gears.find_values([batch])
    assert gear is not None and resnet50.gear_of(feeds) == gear
    assert_close(resnet50.run(feeds, poison=True), ort_outputs(find("resnet50_ts_dyn"), feeds), RTOL)


@pytest.fixture(scope="module")
def resnet50(tmp_path_factory: pytest.TempPathFactory) -> Executor:
    path = find("resnet50_ts_dyn")
    return compiled(path, tmp_path_factory.mktemp("resnet50"), dynamic_batch_size="1,2,4,8")


def test_bert_by_sequence_length(tmp_path: Path) -> None:
    path = find("bert_mini_ts_seq")
    shapes = "input_ids:1,-1;attention_mask:1,-1"
    executor = compiled(path, tmp_path, input_shapes=shapes, dynamic_dims="16,16;64,64;128,128")
    for length in (16, 64, 128, 16):
        feeds = zoo.inputs(path, length, dims={"batch": 1, "sequence": length})
        assert_close(executor.run(feeds, poison=True), ort_outputs(path, feeds), RTOL)
    with pytest.raises(gerules.GerulesError, match="E20008"):
        executor.run(zoo.inputs(path, 0, dims={"batch": 1, "sequence": 32}))


def test_bert_of_any_length(tmp_path: Path) -> None:
    """Gears and a plan of any shape."""
    path = find("bert_mini_ts_seq")
    options: dict[str, Any] = {"dynamic_dims": "1,16,1,16;2,64,2,64", "compile_hybrid_mode": True}
    model = gerules.compile(path, **options)
    out = tmp_path / "m.om"
    model.save(out)
    executor = load_om(out)
    for batch, length in ((1, 16), (2, 64), (3, 21)):
        feeds = zoo.inputs(path, length, dims={"batch": batch, "sequence": length})
        assert_close(executor.run(feeds, poison=True), ort_outputs(path, feeds), RTOL)


def test_open_sizes_keep_fused_operators() -> None:
    """Sizes are names; what rules need to be equal is known to be."""
    model = gerules.compile(find("bert_mini_ts_seq"))
    counts = Counter(node.op for node in model.graph.nodes.values())
    n_layers = 4
    assert counts["ge::AddLayerNorm"] == 2 * n_layers
    assert sum(n for op, n in counts.items() if op.startswith("ge::Attention")) == n_layers
    assert counts["ge::MatMulBiasGelu"] == n_layers
    assert counts["Softmax"] == counts["MatMul"] == counts["LayerNormalization"] == 0
    assert str(model.graph.type_of(model.graph.outputs[0])) == "f32[batch, sequence, 256]"
