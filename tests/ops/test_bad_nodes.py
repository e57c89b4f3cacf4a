"""Nodes that cannot be: always a coded fault or an answer, never a Python exception, never a hang."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.ir import (
    Attr,
    Const,
    Dim,
    DType,
    GraphEditor,
    MapType,
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)
from gerules.ops import Schemas, ShapeError, infer, infer_graph
from gerules.ops.inference import RULES
from tests.ops.node_models import graph_of, node_tests

SCHEMAS = Schemas()
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EDGES = (0, 1, -1, 2, 3, 7, 64, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 2**63, 10**30)
NUMBERS = st.sampled_from(EDGES) | st.integers(-3, 9)
DIMS = st.sampled_from((0, 1, 2, 3, 4, 8, 2**40, 2**63 - 1, "N", "N+1", "a-b", "?")) | st.integers(0, 5)
DTYPES = st.sampled_from((DType.F32, DType.I64, DType.F16, DType.BOOL, DType.STRING, DType.UNKNOWN, DType.U8))


def tensors() -> st.SearchStrategy[TensorType]:
    shapes = st.none() | st.lists(DIMS, max_size=5).map(tuple[Dim, ...])
    return st.builds(TensorType, DTYPES, shapes)


def types() -> st.SearchStrategy[ValueType]:
    inner = tensors()
    odd = (
        st.builds(SequenceType, inner)
        | st.builds(OptionalType, inner)
        | st.builds(MapType, st.just(DType.I64), inner)
    )
    return st.one_of(inner, inner, inner, inner, odd)


@st.composite
def consts(draw: st.DrawFn) -> Const:
    rank = draw(st.sampled_from((0, 1, 1, 1, 2)))
    shape = tuple(draw(st.lists(st.integers(0, 6), min_size=rank, max_size=rank)))
    size = int(np.prod(shape))
    if draw(st.booleans()):
        entry = st.sampled_from([one for one in EDGES if -(2**63) <= one < 2**63]) | st.integers(-3, 9)
        array = np.array(draw(st.lists(entry, min_size=size, max_size=size)), np.int64)
    else:
        reals = st.floats(width=32) | st.sampled_from((0.5, 1.0, 2.0))
        array = np.array(draw(st.lists(reals, min_size=size, max_size=size)), np.float32)
    return Const(array.reshape(shape))


def attr_values() -> st.SearchStrategy[Attr]:
    texts = st.sampled_from(
        ("NOTSET", "SAME_UPPER", "VALID", "not_larger", "ij,jk->ik", "...->", "->", "float", "é")
    )
    return st.one_of(
        NUMBERS,
        st.lists(NUMBERS, max_size=6).map(tuple[int, ...]),
        st.floats(),
        st.lists(st.floats(), max_size=3).map(tuple[float, ...]),
        texts,
        st.binary(max_size=3),
        DTYPES,
        consts(),
        types(),
    )


OPS = sorted(set(RULES) | {op for op in SCHEMAS.names() if op not in {"Gradient"}})
OWN_OPS = sorted(RULES)


@st.composite
def applications(draw: st.DrawFn) -> tuple[Node, list[ValueType | None], list[Const | None], int]:
    op = draw(st.sampled_from(OWN_OPS) | st.sampled_from(OPS))
    opset = draw(st.sampled_from((1, 6, 8, 9, 10, 11, 13, 18, 23, 10**12)))
    schema = SCHEMAS.get(op, opset)
    names = ["axis", "axes", "perm", "pads", "strides", "value"] if schema is None else sorted(schema.attrs)
    attrs: dict[str, Attr] = {}
    for name in names:
        if draw(st.booleans()):
            attrs[name] = draw(attr_values())
    n_inputs = draw(st.integers(0, 6)) if schema is None else min(len(schema.inputs), 6)
    if draw(st.integers(0, 4)) == 0:
        n_inputs = draw(st.integers(0, 9))
    inputs: list[ValueType | None] = []
    known: list[Const | None] = []
    for _ in range(n_inputs):
        const = draw(st.none() | consts())
        known.append(const)
        inputs.append(const.type if const is not None else draw(types() | st.none()))
    n_outputs = draw(st.integers(0, 3))
    outputs = tuple(range(100, 100 + n_outputs))
    return Node(0, op, tuple(range(n_inputs)), outputs, attrs, "n"), inputs, known, opset


@given(applications())
@settings(max_examples=500, deadline=None)
def test_any_node_gives_types_or_a_coded_fault(
    made: tuple[Node, list[ValueType | None], list[Const | None], int],
) -> None:
    node, inputs, known, opset = made
    try:
        found = infer(node, inputs, known, SCHEMAS, opset)
    except ShapeError as fault:
        assert fault.code.startswith("E300")
        assert "{" not in fault.diagnostics[0].message
        return
    assert len(found) == len(node.outputs)
    for type in found:
        if isinstance(type, TensorType) and type.shape is not None:
            assert all(not isinstance(dim, int) or 0 <= dim < 2**63 for dim in type.shape)


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_good_nodes_gone_bad(data: st.DataObject) -> None:
    """A node of ONNX's own tests with one attribute, type or content replaced."""
    tests = node_tests()
    test = tests[data.draw(st.integers(0, len(tests) - 1))]
    editor = GraphEditor(graph_of(test.model))
    for value, array in zip(editor.inputs, test.data_sets[0][0], strict=False):
        if isinstance(array, np.ndarray) and data.draw(st.booleans()):
            editor.consts[value] = Const(array)
    node = data.draw(st.sampled_from(list(editor.nodes.values())))
    what = data.draw(st.sampled_from(("attr", "type", "content")))
    if what == "attr" and node.attrs:
        name = data.draw(st.sampled_from(sorted(node.attrs)))
        changed = {**node.attrs, name: data.draw(attr_values())}
        editor.replace_node(
            Node(node.id, node.op, node.inputs, node.outputs, changed, node.name, node.origin, node.bodies)
        )
    elif editor.inputs:
        value = data.draw(st.sampled_from(editor.inputs))
        if what == "type":
            editor.consts.pop(value, None)
            editor.set_type(value, data.draw(types()))
        else:
            const = data.draw(consts())
            editor.consts[value] = const
            editor.set_type(value, const.type)
    try:
        infer_graph(editor.commit(), SCHEMAS)
    except ShapeError as fault:
        assert fault.code.startswith("E300")
