"""Cutting tensors out of a file: nothing is lost, nothing is copied, nothing can be forged."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from gerules.frontends import ModelError, load_onnx, save_onnx
from gerules.frontends.onnx.wire import cut_tensors, varint_bytes
from tests.frontends.models import F32, MODELS, model_of

SECRET = 0x1234567


def restore(rest: bytes | memoryview, data: bytes, payloads: list[object]) -> onnx.ModelProto:
    """Put the cut tensors back, by the messages' own reader."""
    model = onnx.ModelProto.FromString(bytes(rest))

    def mend(tensor: TensorProto) -> None:
        if not tensor.HasField("segment"):
            return
        assert tensor.segment.end == SECRET
        payload = payloads[tensor.segment.begin]
        tensor.ClearField("segment")
        again = TensorProto.FromString(
            bytes([payload.field << 3 | 2]) + varint_bytes(payload.size_bytes)  # type: ignore[attr-defined]
            + data[payload.offset : payload.offset + payload.size_bytes]  # type: ignore[attr-defined]
        )  # fmt: skip
        tensor.MergeFrom(again)

    def walk(graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            mend(tensor)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    mend(attribute.t)
                if attribute.type == AttributeProto.GRAPH:
                    walk(attribute.g)

    walk(model.graph)
    return model


def heavy_model() -> onnx.ModelProto:
    """Large tensors in initializers, in a Constant, in a body, and one as `float_data`."""
    model, _ = MODELS["branches"]()
    rng = np.random.default_rng(0)
    for index, size in enumerate((10, 300, 5000)):
        array = rng.random(size, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, f"w{index}"))
        model.graph.node.append(
            helper.make_node("Constant", [], [f"c{index}"], value=numpy_helper.from_array(array))
        )
        branch = model.graph.node[1].attribute[0].g
        branch.initializer.append(numpy_helper.from_array(array, f"b{index}"))
    model.graph.initializer.append(helper.make_tensor("f32s", F32, [400], rng.random(400).tolist()))
    model.graph.initializer.append(
        helper.make_tensor("f64s", TensorProto.DOUBLE, [400], rng.random(400).tolist())
    )
    return model


@pytest.mark.parametrize("smallest_bytes", [1, 64, 1024, 10_000])
def test_what_is_cut_can_be_put_back(smallest_bytes: int) -> None:
    data = heavy_model().SerializeToString()
    rest, payloads = cut_tensors(memoryview(data), secret=SECRET, smallest_bytes=smallest_bytes)
    assert payloads
    assert len(rest) < len(data)
    assert restore(rest, data, list(payloads)) == heavy_model()


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(1, 64))
def test_any_bytes_can_be_walked(data: bytes, smallest_bytes: int) -> None:
    """What the parser takes, it takes after the cut too, and what it refuses it goes on refusing."""
    rest, payloads = cut_tensors(memoryview(data), secret=SECRET, smallest_bytes=smallest_bytes)
    if not payloads:
        assert bytes(rest) == data


def test_weights_are_views_into_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(heavy_model().SerializeToString())
    graph = load_onnx(path)
    large = [const.array for const in graph.consts.values() if const.array.size >= 300]
    assert len(large) == 6
    for array in large:
        base: object = array
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base, memoryview)
        assert isinstance(base.obj, mmap.mmap)
        assert not array.flags.writeable
    want = {item.name: numpy_helper.to_array(item) for item in heavy_model().graph.initializer}
    for value, const in graph.consts.items():
        if (name := graph.values[value].name) in want:
            np.testing.assert_array_equal(const.array, want[name])


def test_a_model_may_be_saved_over_the_file_its_weights_lie_in(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_onnx(load_onnx(heavy_model()), path, external_data=True)
    want = {item.name: numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}
    assert (tmp_path / "m.onnx.data").stat().st_size > 20_000
    for external_data in (True, False, True):
        save_onnx(load_onnx(path), path, external_data=external_data)
        for item in onnx.load(path).graph.initializer:
            np.testing.assert_array_equal(numpy_helper.to_array(item), want[item.name])
    assert sorted(item.name for item in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]


def test_a_segment_cannot_be_forged() -> None:
    model = model_of("g (float[3] x) => (float[3] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(2000, np.float32), "big"))
    forged = model.graph.initializer.add(name="w", dims=[3], data_type=F32)
    forged.segment.begin, forged.segment.end = 0, SECRET
    with pytest.raises(ModelError) as caught:
        load_onnx(model.SerializeToString())
    assert caught.value.code == "E10023"
