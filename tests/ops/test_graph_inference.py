"""Inference over graphs: shape computations, bodies, declared types, and the incremental form."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx.parser
import pytest

from gerules.ir import (
    Attr,
    Body,
    DType,
    Format,
    Graph,
    GraphEditor,
    Node,
    TensorType,
    ValueType,
    empty_graph,
)
from gerules.ops import OpSchema, Param, Schemas, ShapeError, infer_graph, infer_nodes
from tests.ops.node_models import graph_of

SCHEMAS = Schemas()


def read(text: str, opset: int = 18) -> Graph:
    head = f'<ir_version: 8, opset_import: ["": {opset}]>\n'
    return graph_of(onnx.parser.parse_model(head + text))


def types_of(graph: Graph) -> dict[str, str]:
    found = infer_graph(graph, SCHEMAS)
    return {value.name: str(value.type) for value in found.values.values() if value.name}


def codes(graph: Graph) -> list[str]:
    with pytest.raises(ShapeError) as caught:
        infer_graph(graph, SCHEMAS)
    for item in caught.value.diagnostics:
        assert "{" not in item.message + item.hint, item.message
    return [item.code.code for item in caught.value.diagnostics]


def test_a_head_split_keeps_its_names() -> None:
    types = types_of(
        read("""
        attention (float[N, S, 768] x, float[768, 768] w) => (float[N, S, 768] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[1] heads = {12}, int64[1] size = {64},
         int64[1] rest = {-1}>
        {
            q = MatMul(x, w)
            s = Shape(q)
            n = Gather(s, zero)
            l = Gather(s, one)
            n1 = Unsqueeze(n, axis)
            l1 = Unsqueeze(l, axis)
            to = Concat<axis=0>(n1, l1, heads, size)
            apart = Reshape(q, to)
            t = Transpose<perm=[0, 2, 1, 3]>(apart)
            k = Transpose<perm=[0, 1, 3, 2]>(t)
            p = MatMul(t, k)
            a = Softmax<axis=-1>(p)
            o = MatMul(a, t)
            b = Transpose<perm=[0, 2, 1, 3]>(o)
            back = Concat<axis=0>(n1, l1, rest)
            y = Reshape(b, back)
        }""")
    )
    assert types["apart"] == "f32[N, S, 12, 64]"
    assert types["p"] == "f32[N, 12, S, S]"
    assert types["y"] == "f32[N, S, 768]"


def test_a_grown_cache_has_a_sum_for_its_length() -> None:
    types = types_of(
        read("""
        cache (float[N, 8, P, 64] past, float[N, 8, S, 64] now) => (float[N, 8, T, 64] all)
        <int64 two = {2}, int64[1] axis = {0}, int64 step = {1}, int64 start = {0}>
        {
            all = Concat<axis=2>(past, now)
            s = Shape(all)
            t = Gather(s, two)
            positions = Range(start, t, step)
            n = Size(now)
        }""")
    )
    assert types["all"] == "f32[N, 8, P+S, 64]"
    assert types["positions"] == "i64[P+S]"


def test_the_expand_idiom_of_exporters() -> None:
    types = types_of(
        read("""
        masks (float[N, 1, 1, S] x) => (float[N, H, S, S] y)
        <int64[4] to = {-1, 1, 7, -1}, int64[4] all = {-1, -1, -1, -1}, int64[1] four = {4}>
        {
            ones = ConstantOfShape<value = int64[1] {1}>(four)
            test = Equal(to, all)
            sizes = Where(test, ones, to)
            y = Expand(x, sizes)
        }""")
    )
    assert types["y"] == "f32[N, 1, 7, S]"


def test_a_flattened_batch_divides_again() -> None:
    types = types_of(
        read("""
        flat (float[N, 64, 7, 7] x) => (float[N, M] y)
        <int64[2] to = {0, -1}, int64[4] back = {-1, 64, 7, 7}>
        { f = Flatten(x)  y = Reshape(x, to)  z = Reshape(f, back) }""")
    )
    assert (types["f"], types["y"], types["z"]) == ("f32[N, 3136]", "f32[N, 3136]", "f32[N, 64, 7, 7]")


def test_branches_are_joined() -> None:
    types = types_of(
        read("""
        choice (bool c, float[N, 3] x, float[N, 4] z) => (float[N, M] y)
        {
            y = If(c) <
                then_branch = t () => (float[A, B] a) { a = Relu(x) },
                else_branch = e () => (float[C, D] b) { b = Neg(z) }
            >
        }""")
    )
    assert types["y"] == "f32[N, ?]"


def test_a_loop_whose_state_grows_has_no_fixed_length() -> None:
    text = """
        grow (int64 n, bool c, float[2, 3] x) => (float[A, B] y, float[T, C, D] all)
        {{
            y, all = Loop(n, c, x) <body = b (int64 i, bool go, float[U, V] s)
                => (bool g, float[P, Q] o, float[R, W] e)
                {{ g = Identity(go)  o = {step}  e = Identity(s) }}>
        }}"""
    steady = types_of(read(text.format(step="Relu(s)")))
    assert (steady["y"], steady["all"]) == ("f32[2, 3]", "f32[?, 2, 3]")
    growing = types_of(read(text.format(step="Concat<axis=0>(s, s)")))
    assert (growing["y"], growing["all"]) == ("f32[?, 3]", "f32[?, ?, 3]")


def test_all_faults_are_told_at_once() -> None:
    graph = read("""
        bad (float[2, 3] x, float[4, 5] w, int64[2, 3] i) => (float[2, 5] y)
        { y = MatMul(x, w)  z = Add(x, i)  t = Transpose<perm=[0, 0]>(x)  k = Conv(x)  r = Relu(t) }""")
    assert codes(graph) == ["E30002", "E30005", "E30003", "E30004"]


def test_a_declared_type_that_cannot_be() -> None:
    editor = GraphEditor(empty_graph("g", {"": 18}))
    x = editor.add_input(TensorType(DType.F32, (2, 3)), "x")
    y = editor.add_value(TensorType(DType.F32, (2, 4)), "y")
    editor.add_node("Relu", [x], [y])
    editor.set_outputs([y])
    with pytest.raises(ShapeError, match=r"makes y f32\[2, 3\], but the model declares f32\[2, 4\]"):
        infer_graph(editor.commit(), SCHEMAS)


@pytest.mark.parametrize(
    ("opset", "call", "faults"),
    [
        (17, "Split<axis=1>(x)", []),
        (18, "Split<axis=1>(x)", ["E30002"]),
        (18, "Split<axis=1, num_outputs=2>(x)", []),
        (18, "Split<axis=1, num_outputs=2>(x, sizes)", ["E30002"]),
        (18, "Split<axis=1>(x, sizes)", []),
    ],
)
def test_a_split_says_its_parts_in_one_way(opset: int, call: str, faults: list[str]) -> None:
    head = "g (float[2, 6] x, int64[2] sizes) => (float[2, N] y, float[2, M] z)"
    graph = read(f"{head} {{ y, z = {call} }}", opset)
    if faults:
        assert codes(graph) == faults
    else:
        assert types_of(graph)["y"] == ("f32[2, ?]" if "sizes" in call else "f32[2, 3]")


@pytest.mark.parametrize("shape", [(-1, 2), (2**63,), (1,) * 65])
def test_dims_beyond_any_tensor(shape: tuple[int, ...]) -> None:
    editor = GraphEditor(empty_graph("g", {"": 18}))
    editor.set_outputs([editor.add_input(TensorType(DType.F32, shape), "x")])
    assert codes(editor.commit()) == ["E30006"]


def test_dims_that_grow_beyond_any_tensor() -> None:
    graph = read("g (float[4611686018427387904, 3] x) => (float[N] y) { y = Flatten<axis=2>(x) }")
    assert codes(graph) == ["E30006"]


def test_deeply_nested_bodies_are_refused() -> None:
    inner = empty_graph("leaf", {"": 18})
    for _ in range(300):
        editor = GraphEditor(empty_graph("level", {"": 18}))
        c = editor.add_input(TensorType(DType.BOOL, ()), "c")
        made = editor.add_node(
            "If", [c], bodies={"then_branch": Body(inner), "else_branch": Body(inner)}, n_outputs=0
        )
        assert made.outputs == ()
        inner = editor.commit()
    editor = GraphEditor(empty_graph("top", {"": 18}))
    c = editor.add_input(TensorType(DType.BOOL, ()), "c")
    editor.add_node("Loop", [None, c], bodies={"body": Body(inner)}, n_outputs=0)
    with pytest.raises(ShapeError):
        infer_graph(editor.commit(), SCHEMAS)


def test_the_format_of_a_value_stays() -> None:
    editor = GraphEditor(empty_graph("g", {"": 18}))
    x = editor.add_input(TensorType(DType.F16, (1, 32, 8, 8), Format.NC1HWC0), "x")
    y = editor.add_value(TensorType(DType.F16, None, Format.NC1HWC0), "y")
    z = editor.add_node("Relu", [x], [y]).outputs[0]
    editor.set_outputs([y])
    found = infer_graph(editor.commit(), SCHEMAS)
    assert z is not None
    assert str(found.values[z].type) == "f16[1, 32, 8, 8] @NC1HWC0"


def test_a_defined_operator_asks_the_floor_above() -> None:
    schemas = Schemas()
    schemas.define(OpSchema("ge::Twice", 1, (Param("x"),), (Param("y"),), {}))
    editor = GraphEditor(empty_graph("g", {"": 18}))
    x = editor.add_input(TensorType(DType.F32, ("N", 3)), "x")
    y = editor.add_node("ge::Twice", [x]).outputs[0]
    z = editor.add_node("ge::Unheard", [y]).outputs[0]
    w = editor.add_node("Relu", [z]).outputs[0]
    assert y is not None and z is not None and w is not None
    editor.set_outputs([w])

    def told(node: Node, inputs: object, consts: object) -> list[ValueType] | None:
        return [TensorType(DType.F32, ("N", 6))] if node.op == "ge::Twice" else None

    found = infer_graph(editor.commit(), schemas, extra=told)
    assert str(found.values[y].type) == "f32[N, 6]"
    assert found.values[w].type == TensorType()


def attrs(**given: Attr) -> Mapping[str, Attr]:
    return given


def test_what_a_rewrite_changed_is_inferred_as_far_as_it_reaches() -> None:
    editor = GraphEditor(empty_graph("g", {"": 18}))
    x = editor.add_input(TensorType(DType.F32, ("N", 8)), "x")
    w = editor.add_const(np.zeros((8, 4), np.float32), "w")
    first = editor.add_node("MatMul", [x, w])
    chain = [first]
    for _ in range(5):
        chain.append(editor.add_node("Relu", [chain[-1].outputs[0]]))
    last = chain[-1].outputs[0]
    aside = editor.add_node("Neg", [x])
    assert last is not None
    editor.set_outputs([last])
    touched: list[int] = []
    editor.on_touch = touched.append
    assert infer_nodes(editor, [first.id, 10**9], SCHEMAS) == 6
    assert str(editor.values[last].type) == "f32[N, 4]"
    assert {node.id for node in chain[1:]} <= set(touched)
    assert aside.id not in touched
    assert infer_nodes(editor, [first.id], SCHEMAS) == 1


def test_vectors_are_kept_for_later_rewrites() -> None:
    editor = GraphEditor(
        read("""
        g (float[N, S, 8] x) => (int64[2] two)
        <int64[1] a = {0}, int64[1] b = {2}> { s = Shape(x)  two = Slice(s, a, b) }""")
    )
    vectors: dict[int, tuple[int | str, ...]] = {}
    graph = infer_graph(editor.commit(), SCHEMAS, vectors=vectors)
    assert vectors[graph.outputs[0]] == ("N", "S")
    editor = GraphEditor(graph)
    flat = editor.add_node("Reshape", [graph.inputs[0], graph.outputs[0]], attrs=attrs(allowzero=0))
    infer_nodes(editor, [flat.id], SCHEMAS, vectors=vectors)
    assert flat.outputs[0] is not None
    assert str(editor.values[flat.outputs[0]].type) == "f32[N, S]"
