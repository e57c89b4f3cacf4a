"""Folding: golden cases, and that no graph changes its meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.backend.test
import pytest
from hypothesis import given, settings

from gerules.errors import GerulesError
from gerules.frontends import load
from gerules.ir import Const, Graph, GraphEditor, TensorType, broken_invariants, empty_graph, parse_graph
from gerules.ops import Vectors, infer_graph
from gerules.passes.fold import FoldReport, fold_constants
from gerules.passes.prepare import prepare
from tests.passes.random_graphs import graphs
from tests.passes.running import SCHEMAS, evaluate, random_feeds, run

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"


def folded(text: str, **options: object) -> tuple[Graph, FoldReport]:
    vectors: Vectors = {}
    graph = infer_graph(parse_graph(text), SCHEMAS, vectors=vectors)
    found, report = fold_constants(graph, evaluate, schemas=SCHEMAS, vectors=vectors, **options)  # type: ignore[arg-type]
    assert not broken_invariants(found)
    return found, report


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes.values()]


SHAPE_RESHAPE = """
graph g:
    opset 18
    input x: f32[{n}, 6]
    s = Shape(x)
    r = Relu(x)
    y = Reshape(r, s)
    return y
"""


def test_shape_of_a_static_value_folds() -> None:
    graph, report = folded(SHAPE_RESHAPE.format(n=4))
    assert ops(graph) == ["Relu", "Reshape"]
    assert report.n_folded == 1
    reshape = list(graph.nodes.values())[1]
    assert graph.consts[reshape.inputs[1]].array.tolist() == [4, 6]  # type: ignore[index]


def test_shape_of_a_dynamic_value_stays() -> None:
    assert "Shape" in ops(folded(SHAPE_RESHAPE.format(n="N"))[0])


def test_folding_off_only_infers() -> None:
    graph, report = prepare(parse_graph(SHAPE_RESHAPE.format(n=4)), evaluate, schemas=SCHEMAS, folds=False)
    assert "Shape" in ops(graph)
    assert not report.rounds


def test_known_entries_of_a_partly_known_shape_fold() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    input x: f32[N, 6, 5]
    s = Shape(x)
    i: const i64[] = 1
    d = Gather(s, i)
    k: const i64[1] = [0]
    u = Unsqueeze(d, k)
    m: const i64[1] = [-1]
    c = Concat(m, u, axis=0)
    y = Reshape(x, c)
    return y
""")
    assert ops(graph) == ["Reshape"]
    reshape = next(iter(graph.nodes.values()))
    assert graph.consts[reshape.inputs[1]].array.tolist() == [-1, 6]  # type: ignore[index]


@pytest.mark.parametrize("name", ["_do_not_constant_folding", "no_need_constant_folding"])
def test_a_node_may_opt_out(name: str) -> None:
    graph, _ = folded(f"""
graph g:
    opset 18
    input x: f32[2]
    k: const f32[2] = [1.0, 2.0]
    n = Neg(k, `{name}`=1)
    y = Add(x, n)
    return y
""")
    assert ops(graph) == ["Neg", "Add"]


IF = """
graph g:
    opset 18
    input x: f32[2]
    c: const bool[] = {condition}
    y, z = If(c):
        then_branch:
            capture a: f32[2] = x
            n = Neg(a)
            return n, n
        else_branch:
            capture a: f32[2] = x
            k: const f32[2] = [5.0, 6.0]
            return a, k
    return y, z
"""


@pytest.mark.parametrize(("condition", "want"), [(1, ["Neg", "Identity"]), (0, ["Identity", "Identity"])])
def test_if_with_a_known_condition_becomes_its_branch(condition: int, want: list[str]) -> None:
    text = IF.format(condition=condition)
    graph, report = folded(text)
    assert sorted(ops(graph)) == sorted(want)
    assert report.n_branches == 1
    feeds = {"x": np.float32([1, 2])}
    for one, two in zip(run(parse_graph(text), feeds), run(graph, feeds), strict=True):
        np.testing.assert_array_equal(one, two)


def test_if_of_an_unknown_condition_keeps_both_and_folds_inside() -> None:
    graph, report = folded("""
graph g:
    opset 18
    input c: bool[]
    input x: f32[2]
    k: const f32[2] = [1.0, 2.0]
    y = If(c):
        then_branch:
            capture b: f32[2] = k
            capture a: f32[2] = x
            n = Neg(b)
            m = Add(n, a)
            return m
        else_branch:
            capture a: f32[2] = x
            return a
    return y
""")
    node = next(iter(graph.nodes.values()))
    body = node.bodies["then_branch"]
    assert ops(body.graph) == ["Add"]
    assert len(body.captures) == 1, "a capture that is folded away is dropped"
    assert report.n_folded == 1


def test_equal_nodes_merge_and_unlike_ones_do_not() -> None:
    graph, report = folded("""
graph g:
    opset 18
    input x: f32[2, 2]
    input y: f32[2, 2]
    a = Add(x, y)
    b = Add(y, x)
    c = Sub(x, y)
    d = Sub(y, x)
    e = Softmax(x, axis=0)
    f = Softmax(x, axis=1)
    g = LeakyRelu(x, alpha=0.0)
    h = LeakyRelu(x, alpha=-0.0)
    r = RandomNormalLike(x)
    s = RandomNormalLike(x)
    z = Sum(a, b, c, d, e, f, g, h, r, s)
    return z
""")
    assert report.n_merged_nodes == 1
    assert len(graph.nodes) == 10


def test_a_merged_node_answers_to_both_names() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    input x: f32[2]
    a = Neg(x)  {from=["one"]}
    b = Neg(x)  {from=["two"]}
    c = Neg(x)  {from=["three"]}
    y = Sum(a, b, c)
    return y
""")
    assert next(iter(graph.nodes.values())).origin.sources == ("one", "two", "three")


def test_two_outputs_that_are_equal_both_stay() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    input x: f32[2]
    a = Neg(x)
    b = Neg(x)
    return a, b
""")
    assert [graph.values[value].name for value in graph.outputs] == ["a", "b"]


def test_a_constant_output_is_still_produced() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    input x: f32[2]
    k: const f32[2] = [1.0, 2.0]
    y = Neg(k)
    return y
""")
    assert ops(graph) == ["Identity"]
    np.testing.assert_array_equal(run(graph, {"x": np.zeros(2, np.float32)})[0], [-1, -2])
    again, report = fold_constants(graph, evaluate, schemas=SCHEMAS)
    assert not report.n_changes
    assert ops(again) == ["Identity"]


def test_equal_constants_become_one() -> None:
    graph, report = folded("""
graph g:
    opset 18
    input x: f32[2]
    a: const f32[2] = [0.0, 2.0]
    b: const f32[2] = [0.0, 2.0]
    c: const f32[2] = [-0.0, 2.0]
    p = Add(x, a)
    q = Mul(p, b)
    r = Div(q, c)
    return r
""")
    assert report.n_merged_consts == 1
    assert len(graph.consts) == 2


def test_equal_constants_that_are_both_returned_stay() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    a: const f32[2] = [1.0, 2.0]
    b: const f32[2] = [1.0, 2.0]
    return a, b
""")
    assert [graph.values[value].name for value in graph.outputs] == ["a", "b"]


def test_constants_that_differ_outside_the_sample_stay_apart() -> None:
    editor = GraphEditor(empty_graph("g", {"": 18}))
    x = editor.add_input(TensorType(Const(np.float32([1])).dtype, (1000,)), "x")
    first = np.zeros(1000, np.float32)
    second = first.copy()
    second[1] = 1
    value = x
    for array in (first, second, first.copy()):
        value = editor.add_node("Add", [value, editor.add_const(array)]).outputs[0] or 0
    editor.set_outputs([value])
    graph, report = fold_constants(infer_graph(editor.commit(), SCHEMAS), evaluate, schemas=SCHEMAS)
    assert report.n_merged_consts == 1
    assert len(graph.consts) == 2


def test_large_results_are_not_stored_unless_they_replace_more() -> None:
    text = """
graph g:
    opset 18
    input x: f32[64, 64]
    a: const f32[64, 1] = random(1)
    b: const f32[1, 64] = random(2)
    s = Add(a, b)
    w: const f32[64, 64] = random(3)
    t = Transpose(w, perm=[1, 0])
    y = Sum(x, s, t)
    return y
"""
    graph, report = folded(text, limit_bytes=1000)
    assert ops(graph) == ["Add", "Sum"], "the transpose replaces its input, the sum makes more of less"
    assert any("are allowed" in reason for _, reason in report.kept)


def test_fills_are_views() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    input x: f32[1]
    s: const i64[3] = [1024, 1024, 256]
    k = ConstantOfShape(s, value=tensor(f32[1], [0.5]))
    n = Neg(k)
    t = Transpose(n, perm=[2, 0, 1])
    y = Add(x, t)
    return y
""")
    assert ops(graph) == ["Add"]
    (array,) = [const.array for const in graph.consts.values() if const.array.size > 3]
    assert array.shape == (256, 1024, 1024)
    assert not any(array.strides)
    assert array[0, 0, 0] == -0.5


@pytest.mark.parametrize("op", ["ReduceSum(k, keepdims=0)", "NonZero(k)", "MatMul(k, k)", "Softmax(k)"])
def test_a_huge_fill_is_not_walked(op: str) -> None:
    graph, report = folded(f"""
graph g:
    opset 18
    s: const i64[2] = [30000, 30000]
    k = ConstantOfShape(s, value=tensor(f32[1], [0.5]))
    y = {op}
    return y
""")
    assert len(graph.nodes) == 1
    assert report.kept


def test_a_fill_beyond_all_memory_stays_a_node() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    s: const i64[3] = [1000000, 1000000, 1000000]
    k = ConstantOfShape(s)
    y = Neg(k)
    return y
""")
    assert ops(graph) == ["ConstantOfShape", "Neg"]


def test_quantized_weights_stay_quantized() -> None:
    graph, _ = folded("""
graph g:
    opset 18
    input x: f32[2]
    q: const i8[2] = [1, 2]
    s: const f32[] = 0.5
    d = DequantizeLinear(q, s)
    y = Add(x, d)
    return y
""")
    assert "DequantizeLinear" in ops(graph)


def test_what_cannot_be_computed_stays_and_is_reported() -> None:
    def refuse(*_: object) -> list[np.ndarray]:
        from gerules.errors import table

        raise GerulesError(table.NO_KERNEL, op="Neg", opset=18)

    graph = infer_graph(
        parse_graph("""
graph g:
    opset 18
    input x: f32[2]
    k: const f32[2] = [1.0, 2.0]
    n = Neg(k)
    y = Add(x, n)
    return y
"""),
        SCHEMAS,
    )
    found, report = fold_constants(graph, refuse, schemas=SCHEMAS)  # type: ignore[arg-type]
    assert ops(found) == ["Neg", "Add"]
    assert len(report.kept) == 1


@pytest.mark.parametrize("path", sorted(LIGHT.glob("light_*.onnx")), ids=lambda path: path.stem)
def test_weights_of_light_models_fold(path: Path) -> None:
    graph, _ = prepare(load(path), evaluate, schemas=SCHEMAS)
    assert "ConstantOfShape" not in ops(graph)
    assert not broken_invariants(graph)


def test_a_prepared_network_gives_the_same_numbers() -> None:
    graph = load(LIGHT / "light_squeezenet.onnx")
    prepared, _ = prepare(graph, evaluate, schemas=SCHEMAS)
    feeds = random_feeds(prepared)
    for one, two in zip(run(graph, feeds), run(prepared, feeds), strict=True):
        np.testing.assert_array_equal(one, two)


@given(graphs())
@settings(deadline=None, max_examples=120)
def test_folding_keeps_the_meaning(text: str) -> None:
    before = parse_graph(text)
    after, _ = prepare(before, evaluate, schemas=SCHEMAS)
    assert not broken_invariants(after)
    names = [before.values[value].name for value in before.outputs]
    assert [after.values[value].name for value in after.outputs] == names
    assert "Shape" not in ops(after)
    feeds = random_feeds(before)
    for one, two in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)


@given(graphs())
@settings(deadline=None, max_examples=60)
def test_one_pass_is_a_fixed_point(text: str) -> None:
    _, report = prepare(parse_graph(text), evaluate, schemas=SCHEMAS)
    assert [entry.n_folded for entry in report.rounds[1:]] == [0] * (len(report.rounds) - 1)
