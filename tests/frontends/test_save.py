"""Saving: a file is there whole or not at all; random graphs come back as they were."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gerules.frontends import ModelError, load_onnx, save_onnx, to_onnx
from gerules.frontends.onnx.structure import structure_digest
from gerules.ir import DType, Graph, GraphEditor, TensorType, empty_graph
from gerules.ir.verify import broken_invariants

DTYPES = [dtype for dtype in DType if dtype not in (DType.UNKNOWN, DType.STRING)]


def weighty() -> Graph:
    edit = GraphEditor(empty_graph("g", {"": 17}))
    x = edit.add_input(TensorType(DType.F32, (1000,)), "x")
    w = edit.add_const(np.arange(1000, dtype=np.float32), "w")
    y = edit.add_value(TensorType(DType.F32, (1000,)), "y")
    edit.add_node("Add", [x, w], [y])
    edit.set_outputs([y])
    return edit.commit()


@pytest.mark.parametrize("external_data", [False, True])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_files(
    external_data: bool, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    save_onnx(weighty(), path, external_data=external_data)
    before = {item.name: item.read_bytes() for item in tmp_path.iterdir()}
    n_before_failure = 1 if external_data else 0
    # pathlib's replace counts the backup, the data, and then the model.
    n_before_failure += 1 if external_data and call == "replace" else 0
    target = os if call == "fsync" else Path
    real, n_calls = getattr(target, call), 0

    def fail(*args: object) -> object:
        nonlocal n_calls
        n_calls += 1
        if n_calls == n_before_failure + 1:
            raise OSError(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(target, call, fail)
    with pytest.raises(ModelError) as caught:
        save_onnx(weighty(), path, external_data=external_data)
    assert caught.value.code == "E10004"
    assert "No space left" in str(caught.value)
    monkeypatch.undo()
    assert {item.name: item.read_bytes() for item in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["gone/m.onnx", ".", "x\0y.onnx"])
def test_a_place_that_cannot_be_written_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        save_onnx(weighty(), tmp_path / name)
    assert caught.value.code == "E10004"
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_what_protobuf_would_write(tmp_path: Path) -> None:
    """The streamed file reads as the message that `to_onnx` gives."""
    save_onnx(weighty(), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == to_onnx(weighty())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 1001)], ids=str)
def test_every_element_type_comes_back(dtype: DType, shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n_codes = 1 << min(dtype.bits, 7)
    codes = rng.integers(0, n_codes, shape)
    if dtype.bits < 8 and dtype.value[0] == "i":
        codes = codes - n_codes // 2
    if dtype is DType.F4E2M1:
        array = np.asarray(codes, np.uint8).view(ml_dtypes.float4_e2m1fn)
    else:
        array = np.asarray(codes % 2 if dtype is DType.BOOL else codes).astype(dtype.numpy)
    edit = GraphEditor(empty_graph("g", {"": 25}))
    edit.set_outputs([edit.add_const(array, "c")])
    graph = edit.commit()
    save_onnx(graph, tmp_path / "m.onnx")
    for again in (load_onnx(tmp_path / "m.onnx"), load_onnx(to_onnx(graph))):
        (const,) = again.consts.values()
        assert const.dtype is dtype
        assert const.array.shape == shape
        np.testing.assert_array_equal(
            const.array.view(np.uint8) if shape else const.array, array.view(np.uint8) if shape else array
        )
    if dtype not in (DType.I2, DType.U2):
        theirs = onnx.numpy_helper.to_array(onnx.load(tmp_path / "m.onnx").graph.initializer[0])
        np.testing.assert_array_equal(theirs.astype(np.complex128), array.astype(np.complex128))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small graphs with several outputs, shared and repeated names, constants, and absent inputs."""
    edit = GraphEditor(empty_graph(draw(st.text(max_size=4)), {"": 17}))
    names = st.sampled_from(["", "a", "b", "a_1", "é", "x/y:0"])
    dims = st.lists(st.one_of(st.integers(0, 4), st.sampled_from(["N", "2*N", "?"])), max_size=3)
    types = st.builds(TensorType, st.sampled_from([DType.F32, DType.I64]), dims.map(tuple))
    values = [edit.add_input(draw(types), f"in{index}") for index in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(0, 8))):
        match draw(st.integers(0, 4)):
            case 0:
                values.append(edit.add_const(np.array(draw(st.lists(st.integers(-9, 9)))), draw(names)))
                continue
            case 1:
                op, inputs, attrs = "Add", [draw(st.sampled_from(values)) for _ in "ab"], {}
            case 2:
                op, inputs = "Clip", [draw(st.sampled_from(values)), None, draw(st.sampled_from(values))]
                attrs = {}
            case 3:
                op, inputs = "Transpose", [draw(st.sampled_from(values))]
                attrs = {"perm": tuple(draw(st.permutations([0, 1, 2])))}
            case _:
                op, inputs, attrs = "Cast", [draw(st.sampled_from(values))], {"to": DType.F16}
        made = edit.add_value(draw(types), draw(names))
        edit.add_node(op, inputs, [made], attrs, name=draw(names))
        values.append(made)
    # A favour to recent values: they make deeper graphs.
    outputs = draw(st.lists(st.sampled_from(values[-4:]), min_size=1, max_size=3, unique=True))
    edit.set_outputs(outputs)
    return edit.commit()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_random_graphs_come_back(graph: Graph) -> None:
    again = load_onnx(to_onnx(graph).SerializeToString())
    assert broken_invariants(again) == []
    assert structure_digest(again) == structure_digest(graph)
    assert [node.op for node in again.nodes.values()] == [node.op for node in graph.nodes.values()]
    for mine, theirs in zip(graph.inputs, again.inputs, strict=True):
        assert graph.values[mine].name == again.values[theirs].name
