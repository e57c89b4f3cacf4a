"""What inference remembers changes no answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from gerules.frontends.onnx import load_onnx
from gerules.ir import NO_ATTRS, Attr, Const, DType, Graph, GraphEditor, Node, TensorType
from gerules.ops import Schemas, ShapeError, infer_graph, infer_nodes
from gerules.ops.call import Vector
from gerules.ops.inference import infer
from gerules.ops.type_memory import TypeMemory, contents_of

SCHEMAS = Schemas()
LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


def one_by_one(graph: Graph) -> Graph:
    """Infer each node alone, so that nothing can be remembered from another."""
    editor = GraphEditor(graph)
    vectors: dict[int, Vector] = {}
    for node in graph.nodes:
        infer_nodes(editor, [node], SCHEMAS, vectors=vectors)
    return editor.commit()


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_a_graph_has_the_types_of_its_nodes_one_by_one(path: Path) -> None:
    graph = load_onnx(path)
    wanted = {value.id: value.type for value in one_by_one(graph).values.values()}
    found = infer_graph(graph, SCHEMAS).values
    assert {value: found[value].type for value in wanted} == wanted


def ask(
    memory: TypeMemory,
    op: str,
    inputs: list[TensorType],
    consts: list[Const | None],
    attrs: dict[str, Attr] | None = None,
) -> str:
    node = Node(0, op, tuple(range(len(inputs))), (9,), attrs or NO_ATTRS)
    (type,) = infer(node, inputs, consts, SCHEMAS, 18, memory=memory)
    return str(type)


def test_constants_are_told_apart_by_what_they_hold() -> None:
    memory = TypeMemory()
    x, shape = TensorType(DType.F32, (4, 6)), TensorType(DType.I64, (2,))
    for dims in ((2, 12), (12, 2), (2, 12), (3, 8)):
        found = ask(memory, "Reshape", [x, shape], [None, Const(np.array(dims, np.int64))])
        assert found == f"f32[{dims[0]}, {dims[1]}]"
    assert ask(memory, "Reshape", [x, shape], [None, None]) == "f32[?, ?]"


def test_large_constants_are_told_apart_by_identity() -> None:
    memory = TypeMemory()
    x, shape = TensorType(DType.F32, (1,) * 9 + (4,)), TensorType(DType.I64, (10,))
    for place in (0, 9, 3):
        dims = np.ones(10, np.int64)
        dims[place] = 4
        found = ask(memory, "Reshape", [x, shape], [None, Const(dims)])
        assert found == f"f32[{', '.join(map(str, dims))}]"


def test_what_many_numbers_hold_is_not_asked_for() -> None:
    def contents(array: np.ndarray) -> object:
        return contents_of(Const(array))

    assert contents(np.ones((2, 2), np.float32)) == contents(np.zeros((2, 2), np.float32))
    assert contents(np.ones(9, np.float32)) == contents(np.zeros(9, np.float32))
    assert contents(np.ones(8, np.float32)) != contents(np.zeros(8, np.float32)), "sizes have factors"
    assert contents(np.ones((2, 2), np.int64)) != contents(np.zeros((2, 2), np.int64)), "pads of a kind"
    assert contents_of(None) is None


def test_equal_numbers_of_another_kind_are_another_question() -> None:
    memory = TypeMemory()
    x = TensorType(DType.F32, (4, 6))
    assert ask(memory, "Softmax", [x], [None], {"axis": 1}) == "f32[4, 6]"
    with pytest.raises(ShapeError):
        ask(memory, "Softmax", [x], [None], {"axis": 1.0})
