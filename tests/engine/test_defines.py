"""Definitions: schemas, expansion to a body, inference through it."""

from __future__ import annotations

import numpy as np
import pytest

from gerules.dsl.tree import RuleError
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.ir import DType, Node, TensorType
from gerules.ir.verify import broken_invariants
from gerules.ops import ParamKind
from tests.engine.graphs import Maker, book_of, context_of, evaluate, ops, schemas_of

TEXT = """
define ge::ConvAct(x, W, B?, activation = "Relu", **a) -> y:
    y = Relu(Conv(x, W, B, **a))
define ge::RmsNorm(x, g, epsilon = 0.00001) -> y:
    ms = ReduceMean(Mul(x, x), axes=[-1], keepdims=1)
    y = Mul(Div(x, Sqrt(Add(ms, epsilon))), g)
define ge::SwiGLU(h) -> y:
    a, b = Split(h, axis=-1, num_outputs=2)
    y = Mul(Mul(a, Sigmoid(a)), b)
define ge::Twice(x) -> y:
    y = ge::SwiGLU(ge::SwiGLU(x))
define ge::Same(x) -> y:
    y = Identity(x)
define ge::Through(x) -> y, z:
    fold: p = [1, 0]
    z = Transpose(x, perm=p)
    y = Relu(x)
define ge::Sum(*xs, scale = 1) -> y:
    y = Mul(Sum(*xs), scale)
define ge::Loop(x) -> y:
    y = ge::Loop(x)
define ge::Parts(x, sizes?, along = 0, n = none) -> *ys:
    *ys = Split(x, sizes, axis=along, num_outputs=n)
define ge::FirstAndRest(x) -> first, *rest:
    first = Relu(x)
    *rest = Split(x, axis=0, num_outputs=2)
define ge::Plus(a, b) -> y:
    y = Add(a, b)
define ge::Most(a, b) -> y:
    y = Max(b, a)
define ge::Minus(a, b) -> y:
    y = Sub(a, b)
define ge::PlusTwice(a, b) -> y:
    y = Add(a, Add(b, b))
define ge::PlusOne(a, b) -> y:
    y = Add(a, 1)
"""
BOOK = book_of(TEXT)


def expand(op, inputs, attrs=None, n_outputs=1):
    schemas, context = schemas_of(BOOK), context_of(BOOK)
    node = Node(1000, op, tuple(range(len(inputs))), tuple(range(500, 500 + n_outputs)), attrs or {}, "n")
    types = [None if i is None else TensorType(DType.F32, i) for i in inputs]
    extra = define_extra(BOOK.defines, schemas=schemas, context=context)
    infer = make_infer(schemas, {}, extra)
    return expand_define(BOOK.defines[op], node, types, schemas=schemas, infer=infer, context=context)


def test_schemas():
    schemas = schemas_of(BOOK)
    conv = schemas.get("ge::ConvAct")
    assert [p.kind for p in conv.inputs] == [ParamKind.REQUIRED, ParamKind.REQUIRED, ParamKind.OPTIONAL]
    assert conv.attrs["activation"].default == "Relu" and conv.attrs["strides"].kind == "ints"
    total = schemas.get("ge::Sum")
    assert total.inputs[0].kind is ParamKind.VARIADIC and total.max_inputs is None


def test_an_expansion_computes_what_the_definition_says():
    graph = expand("ge::RmsNorm", [(2, 4), (4,)], {"epsilon": 0.5})
    assert not broken_invariants(graph)
    x, g = np.random.default_rng(0).random((2, 4), np.float32), np.arange(4, dtype=np.float32)
    (found,) = evaluate(graph, {"x": x, "g": g})
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5) * g
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert graph.type_of(graph.outputs[0]) == TensorType(DType.F32, (2, 4))


def test_optional_inputs_keep_their_places():
    graph = expand("ge::ConvAct", [(1, 2, 4, 4), (3, 2, 1, 1)], {"strides": (2, 2)})
    assert ops(graph) == ["Conv", "Relu"] and len(graph.inputs) == 2
    assert graph.type_of(graph.outputs[0]).shape == (1, 3, 2, 2)


def test_several_results_and_variadic_inputs():
    graph = expand("ge::Through", [(2, 3)], n_outputs=2)
    assert [graph.type_of(v).shape for v in graph.outputs] == [(2, 3), (3, 2)]
    graph = expand("ge::Sum", [(2,), (2,), (2,)], {"scale": 3})
    assert ops(graph) == ["Sum", "Mul"]


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_as_many_results_as_the_node_has(n_outputs):
    graph = expand("ge::Parts", [(2, 6)], {"along": 1, "n": n_outputs}, n_outputs)
    assert not broken_invariants(graph)
    assert [graph.type_of(v).shape for v in graph.outputs] == [(2, 6 // n_outputs)] * n_outputs
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for got, want in zip(evaluate(graph, {"x": x}), np.split(x, n_outputs, axis=1), strict=True):
        np.testing.assert_array_equal(got, want)


def test_named_results_stand_before_those_with_a_star():
    graph = expand("ge::FirstAndRest", [(4, 3)], n_outputs=3)
    assert [graph.type_of(v).shape for v in graph.outputs] == [(4, 3), (2, 3), (2, 3)]
    (first, *rest) = schemas_of(BOOK).get("ge::FirstAndRest").outputs
    assert first.kind is ParamKind.REQUIRED and [p.kind for p in rest] == [ParamKind.VARIADIC]


def test_a_node_with_another_number_of_outputs_is_a_fault():
    with pytest.raises(RuleError) as caught:
        expand("ge::FirstAndRest", [(4, 3)], n_outputs=4)
    assert caught.value.code == "E40038"


@pytest.mark.parametrize(
    ("op", "commutes"),
    [("Plus", True), ("Most", True), ("Minus", False), ("PlusTwice", False), ("PlusOne", False)],
)
def test_another_name_for_an_operator_commutes_as_it_does(op, commutes):
    assert schemas_of(BOOK).get(f"ge::{op}").is_commutative is commutes


def test_patterns_over_defined_operators_commute():
    from tests.engine.graphs import run

    text = TEXT + "rule r in s: ge::Plus(Neg(x), y) => Sub(y, x)\n"
    m = Maker(schemas=schemas_of(BOOK))
    x, y = m.input("x", 2), m.input("y", 2)
    after, _ = run(text, m.graph(m.op("ge::Plus", y, m.op("Neg", x))))
    assert ops(after) == ["Sub"]


def test_definitions_inside_definitions_are_inferred_through():
    graph = expand("ge::Twice", [(2, 8)])
    assert graph.type_of(graph.outputs[0]).shape == (2, 2)


def test_a_definition_that_needs_itself_ends():
    graph = expand("ge::Loop", [(2,)])
    assert ops(graph) == ["ge::Loop"]


@pytest.mark.parametrize(
    ("op", "inputs"),
    [("ge::RmsNorm", [(2, 4)]), ("ge::SwiGLU", [(2, 4), (2,)]), ("ge::RmsNorm", [(2, 4), (3,)])],
)
def test_what_does_not_fit_is_a_fault(op, inputs):
    with pytest.raises(RuleError) as caught:
        expand(op, inputs)
    assert caught.value.code == "E40038"


def test_rules_build_defined_operators_with_types():
    from tests.engine.graphs import run

    text = TEXT + "rule r in s: Relu(Conv(x, W, B?, **a)) => ge::ConvAct(x, W, B, **a)\n"
    m = Maker()
    conv = m.op("Conv", m.input("x", 1, 2, 4, 4), m.const(np.ones((3, 2, 1, 1))), strides=(2, 2))
    before = m.graph(m.op("Relu", conv))
    after, _ = run(text, before)
    assert ops(after) == ["ge::ConvAct"]
    x = np.random.default_rng(0).random((1, 2, 4, 4), np.float32)
    np.testing.assert_allclose(evaluate(after, {"x": x}, book_of(text))[0], evaluate(before, {"x": x})[0])
