"""Operators beyond ONNX are written as functions, so that any runtime executes the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from gerules.frontends import ModelError, load_onnx, to_onnx
from gerules.ir import Body, DType, Graph, GraphEditor, Node, TensorType, ValueType, empty_graph
from tests.frontends.conftest import Run

F32 = TensorType(DType.F32, (3,))
X = np.array([1.0, -2.0, 3.0], np.float32)


def unary(*ops: str, scale: float | None = None) -> Graph:
    """A graph that applies operators one after the other, and then a factor held as a constant."""
    edit = GraphEditor(empty_graph("meaning", {"": 17}))
    value = edit.add_input(F32, "x")
    for op in ops:
        made = edit.add_value(F32)
        edit.add_node(op, [value], [made])
        value = made
    if scale is not None:
        made = edit.add_value(F32)
        edit.add_node("Mul", [value, edit.add_const(np.array(scale, np.float32), "k")], [made])
        value = made
    edit.set_outputs([value])
    return edit.commit()


def calls(*nodes: tuple[str, dict[str, int], Graph | None]) -> Graph:
    """A chain of nodes beyond ONNX, each with its body when it has one."""
    edit = GraphEditor(empty_graph("g", {"": 17}))
    value = edit.add_input(F32, "x")
    for op, attrs, body in nodes:
        made = edit.add_value(F32)
        edit.add_node(op, [value], [made], attrs, bodies={"body": Body(body)} if body is not None else {})
        value = made
    edit.set_outputs([value])
    edit.values[value] = replace(edit.values[value], name="y")
    return edit.commit()


def check_and_run(model: onnx.ModelProto, run: Run) -> np.ndarray:
    onnx.checker.check_model(model, full_check=True)
    got = np.asarray(run(model, {"x": X})[0])
    np.testing.assert_allclose(np.asarray(ReferenceEvaluator(model).run(None, {"x": X})[0]), got, rtol=1e-6)
    return got


def test_equal_bodies_share_a_function(run: Run) -> None:
    graph = calls(
        ("ge::Fused", {}, unary("Neg", "Abs")),
        ("ge::Fused", {}, unary("Neg", "Abs")),
        ("ge::Fused", {}, unary("Neg", scale=3.0)),
        ("ge::Fused", {}, unary("Neg", scale=4.0)),
    )
    model = to_onnx(graph)
    assert [function.name for function in model.functions] == ["Fused", "Fused__2", "Fused__3"]
    np.testing.assert_allclose(check_and_run(model, run), 12 * np.abs(X))


def test_kept_functions_read_back_the_same() -> None:
    graph = calls(("ge::Fused", {"n": 1}, unary("Neg")), ("ge::Fused", {"n": 1}, unary("Abs")))
    kept = load_onnx(to_onnx(graph), kept_domains=["ge"])
    assert [node.op for node in kept.nodes.values()] == ["ge::Fused", "ge::Fused"]
    assert [[n.op for n in node.bodies["body"].graph.nodes.values()] for node in kept.nodes.values()] == [
        ["Neg"],
        ["Abs"],
    ]
    assert [dict(node.attrs) for node in kept.nodes.values()] == [{"n": 1}, {"n": 1}]
    assert [node.op for node in load_onnx(to_onnx(graph)).nodes.values()] == ["Neg", "Abs"]


def test_a_define_gives_the_meaning(run: Run) -> None:
    asked: list[tuple[str, dict[str, object], list[ValueType]]] = []

    def define(node: Node, types: list[ValueType]) -> Graph | None:
        asked.append((node.op, dict(node.attrs), types))
        scale = node.attrs.get("times", 1)
        assert isinstance(scale, int)
        if node.op == "ge::Outer":
            return calls(("ge::Scale", {"times": 5}, None))
        return unary(scale=float(scale)) if node.op == "ge::Scale" else None

    graph = calls(
        ("ge::Scale", {"times": 2}, None),
        ("ge::Scale", {"times": 2}, None),
        ("ge::Scale", {"times": 3}, None),
        ("ge::Outer", {}, None),
    )
    model = to_onnx(graph, define_body=define)
    assert len(asked) == 4
    assert asked[0] == ("ge::Scale", {"times": 2}, [F32])
    np.testing.assert_allclose(check_and_run(model, run), 60 * X)


def test_a_define_without_end_is_an_error() -> None:
    def define(node: Node, types: list[ValueType]) -> Graph | None:
        times = node.attrs["times"]
        assert isinstance(times, int)
        return calls(("ge::Scale", {"times": times + 1}, None))

    with pytest.raises(ModelError) as caught:
        to_onnx(calls(("ge::Scale", {"times": 1}, None)), define_body=define)
    assert caught.value.code == "E10031"


def test_a_body_may_return_its_input_or_one_value_twice(run: Run) -> None:
    edit = GraphEditor(empty_graph("twice", {"": 17}))
    x = edit.add_input(F32, "x")
    neg = edit.add_value(F32)
    edit.add_node("Neg", [x], [neg])
    edit.set_outputs([x, neg, neg])
    body = edit.commit()
    edit = GraphEditor(empty_graph("g", {"": 17}))
    x = edit.add_input(F32, "x")
    outputs = [edit.add_value(F32, name) for name in "abc"]
    edit.add_node("ge::Three", [x], outputs, bodies={"body": Body(body)})
    edit.set_outputs([*outputs, outputs[0]])
    model = to_onnx(edit.commit())
    onnx.checker.check_model(model, full_check=True)
    assert len({item.name for item in model.graph.output}) == 4
    for got, want in zip(run(model, {"x": X}), [X, -X, -X, X], strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_outputs_that_nobody_asked_for_get_names_where_onnx_wants_them(run: Run) -> None:
    edit = GraphEditor(empty_graph("g", {"": 17}))
    x = edit.add_input(F32, "x")
    indices = edit.add_value(TensorType(DType.I64, (1,)), "i")
    edit.add_node("TopK", [x, edit.add_const(np.array([1], np.int64))], [None, indices])
    edit.set_outputs([indices])
    model = to_onnx(edit.commit())
    onnx.checker.check_model(model, full_check=True)
    assert np.asarray(run(model, {"x": X})[0]).tolist() == [2]


def test_a_branch_may_return_a_value_from_outside(run: Run) -> None:
    branch = Graph("b", (), (0,), {0: GraphEditor(unary()).values[0]}, {}, {}, next_id=1)
    edit = GraphEditor(empty_graph("g", {"": 17}))
    x = edit.add_input(F32, "x")
    cond = edit.add_const(np.array(True))
    y = edit.add_value(F32, "y")
    body = Body(branch, ((x, 0),))
    edit.add_node("If", [cond], [y], bodies={"then_branch": body, "else_branch": body})
    edit.set_outputs([y])
    model = to_onnx(edit.commit())
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_array_equal(np.asarray(run(model, {"x": X})[0]), X)


@pytest.mark.parametrize("value", [2**70, "\ud800"], ids=["number", "text"])
def test_what_onnx_cannot_hold_is_an_error(value: int | str) -> None:
    edit = GraphEditor(empty_graph("g", {"": 17}))
    x = edit.add_input(F32, "x")
    node = edit.add_node("ge::Odd", [x], attrs={"a": value})
    edit.set_outputs([v for v in node.outputs if v is not None])
    with pytest.raises(ModelError) as caught:
        to_onnx(edit.commit())
    assert caught.value.code == "E10031"
