"""Precision modes: golden cases, borders, constants, and that results stay near."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.dsl import load_rules
from gerules.errors import Source
from gerules.ir import Const, DType, Graph, broken_invariants, parse_graph
from gerules.ops import infer_graph
from gerules.passes.devices import find_device
from gerules.passes.errors import PassError
from gerules.passes.narrow import narrow_const
from gerules.passes.precision import PrecisionLists, PrecisionReport, read_lists, set_precision
from gerules.passes.prepare import prepare
from tests.passes.random_graphs import graphs
from tests.passes.running import BOOK, SCHEMAS, evaluate, random_feeds, run

HOST = find_device(BOOK, "host", schemas=SCHEMAS)
LISTS = PrecisionLists(frozenset({"Conv", "MatMul"}), frozenset({"Softmax", "Exp"}))


def converted(text: str, mode: str, **options: object) -> tuple[Graph, PrecisionReport]:
    graph = infer_graph(parse_graph(text), SCHEMAS)
    options.setdefault("lists", LISTS)
    found, report = set_precision(graph, mode, device=HOST, schemas=SCHEMAS, **options)  # type: ignore[arg-type]
    assert not broken_invariants(found)
    infer_graph(found, SCHEMAS)  # every type holds
    return found, report


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes.values()]


def dtypes(graph: Graph, *names: str) -> list[str]:
    by_name = {value.name: value.type for value in graph.values.values()}
    return [by_name[name].dtype.value for name in names]  # type: ignore[union-attr]


CHAIN = """
graph g:
    opset 18
    input x: f32[2, 4]
    input i: i8[2, 4]
    w: const f32[4, 4] = random(1)
    m: f32[2, 4] = MatMul(x, w)
    s: f32[2, 4] = Softmax(m)
    r: f32[2, 4] = Relu(s)
    n: f32[2, 4] = MatMul(r, w)
    a: f32[2, 4] = Abs(n)
    j: i8[2, 4] = Add(i, i)
    return a, j
"""


def test_force_fp16_lowers_everything_but_the_border_and_integers() -> None:
    graph, report = converted(CHAIN, "force_fp16")
    assert dtypes(graph, "x", "i", "a", "j") == ["f32", "i8", "f32", "i8"]
    assert dtypes(graph, "m", "s", "r", "n") == ["f16"] * 4
    assert ops(graph).count("Cast") == 2
    assert report.n_casts == 2
    assert report.n_converted_consts == 1


@pytest.mark.parametrize("mode", ["fp32", "origin", "must_keep_origin_dtype"])
def test_keeping_modes_change_nothing(mode: str) -> None:
    graph = parse_graph(CHAIN)
    assert set_precision(graph, mode, device=HOST, schemas=SCHEMAS)[0] is graph


def test_mixed_lowers_white_keeps_black_and_lets_gray_follow() -> None:
    graph, report = converted(CHAIN, "mixed_float16")
    assert dtypes(graph, "m", "s", "r", "n") == ["f16", "f32", "f32", "f16"]
    # x and r go down, m and the output come back: four Casts, no Softmax or Relu in f16.
    assert ops(graph).count("Cast") == 4
    reasons = {graph.nodes[node].op: reason for node, reason in report.reasons.items()}
    assert reasons["Softmax"] == "it is on the black list"
    assert reasons["Relu"] == "its predecessors keep float32"
    assert reasons["Abs"] == "it follows its predecessors"


def test_one_cast_serves_all_readers_of_a_value() -> None:
    graph, _ = converted(
        """
graph g:
    opset 18
    input x: f32[4, 4]
    a = MatMul(x, x)
    b = MatMul(x, a)
    c = Softmax(b)
    d = Softmax(b, axis=0)
    e = MatMul(c, d)
    return e
""",
        "mixed_float16",
    )
    assert ops(graph).count("Cast") == 5  # x, b, c, d and the output, each once


def test_a_kept_node_keeps_its_type_by_name_by_source_and_by_operator() -> None:
    text = CHAIN.replace("Softmax(m)", 'Softmax(m)  {from=["first", "second"]}')
    for keep in (["second"], ["OpType::Softmax"]):
        graph, report = converted(text, "fp16", keep=keep)
        assert dtypes(graph, "m", "s", "n") == ["f16", "f32", "f16"]
        assert not report.unmatched
    graph, report = converted(text, "fp16", keep=["nobody"])
    assert report.unmatched == ["nobody"]
    graph, _ = converted(text, "fp16", keep=["OpType::Exp"], origin_ops={"second": "Exp", "first": "Div"})
    assert dtypes(graph, "s") == ["f32"]


def test_names_of_no_node_are_all_reported() -> None:
    with pytest.raises(PassError, match="did you mean layer1") as caught:
        converted(CHAIN, "fp16", keep=["layer", "OpType::Sofmax"], origin_ops={"layer1": "Relu"})
    assert [item.code.code for item in caught.value.diagnostics] == ["E50015", "E50015"]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(PassError, match="did you mean") as caught:
        converted(CHAIN, "force_f16")
    assert caught.value.code == "E50014"


def test_masks_saturate_and_epsilons_do_not_vanish() -> None:
    graph, report = converted(
        """
graph g:
    opset 18
    input x: f32[2]
    mask: const f32[2] = [-3.4e38, 0.0]
    eps: const f32[] = 1e-12
    a = Add(x, mask)
    b = Add(a, eps)
    return b
""",
        "fp16",
    )
    consts = {graph.values[value].name: const.array for value, const in graph.consts.items()}
    assert consts["mask_f16"].tolist() == [-65504, 0]
    assert float(consts["eps_f16"]) > 0
    assert report.saturated == ["mask"]
    assert report.raised == ["eps"]


def test_casts_of_the_model_follow_and_needless_ones_go() -> None:
    graph, _ = converted(
        """
graph g:
    opset 18
    input i: i64[2]
    input x: f32[2]
    f = Cast(i, to=f32)
    h = Cast(x, to=f16)
    w = Cast(h, to=f32)
    a = Add(f, w)
    k = Cast(a, to=i64)
    return k
""",
        "fp16",
    )
    # i to f16, x to f16, the sum to i64.
    assert ops(graph) == ["Cast", "Cast", "Add", "Cast"]
    assert dtypes(graph, "a", "k") == ["f16", "i64"]


def test_what_reads_a_needless_cast_of_the_model_reads_its_input() -> None:
    """Also where the reader itself has nothing to lower, since it is in float16 already."""
    graph, _ = converted(
        """
graph g:
    opset 18
    input x: f16[2, 4]
    g: const f16[4] = fill(2.0)
    w = Cast(x, to=f32)
    s = Sigmoid(w)
    n = Cast(s, to=f16)
    y: f16[2, 4] = Mul(n, g)
    return y
""",
        "force_fp16",
    )
    assert ops(graph) == ["Sigmoid", "Mul"]
    made = {value for node in graph.nodes.values() for value in node.writes()}
    read = {value for node in graph.nodes.values() for value in node.reads()}
    assert read <= made | set(graph.inputs) | set(graph.consts)


def test_double_becomes_single() -> None:
    graph, _ = converted(
        "graph g:\n    opset 18\n    input x: f64[2]\n    a = Neg(x)\n    b = Abs(a)\n    return b\n", "fp16"
    )
    assert dtypes(graph, "x", "a", "b") == ["f64", "f32", "f64"]


def test_parameters_that_take_no_f16_keep_f32() -> None:
    graph, _ = converted(
        """
graph g:
    opset 18
    input x: f32[1, 1, 2, 2]
    s: const f32[4] = [1.0, 1.0, 2.0, 2.0]
    y = Resize(x, none, s)
    return y
""",
        "fp16",
    )
    node = next(node for node in graph.nodes.values() if node.op == "Resize")
    assert [graph.type_of(value).dtype for value in node.inputs if value] == [DType.F16, DType.F32]  # type: ignore[union-attr]


DEVICE = """
device d:
    engine a priority 1: {Relu, MatMul} where x.dtype == f16
    engine b priority 2: {Relu, Cast, Exp} where x.dtype == f32 or op == "Cast"
"""


def test_allow_takes_f16_only_where_f32_is_not_supported() -> None:
    book = load_rules([Source("d.ger", DEVICE.replace('op == "Cast"', "x.dtype == i32"))], schemas=None)
    device = find_device(book, "d", schemas=SCHEMAS)
    graph = infer_graph(
        parse_graph("""
graph g:
    opset 18
    input x: f32[4, 4]
    a = Relu(x)
    b = MatMul(a, a)
    c = Exp(b)
    return c
"""),
        SCHEMAS,
    )
    found, report = set_precision(graph, "allow_fp32_to_fp16", device=device, schemas=SCHEMAS)
    assert dtypes(found, "a", "b", "c") == ["f32", "f16", "f32"]
    found, report = set_precision(graph, "fp16", device=device, schemas=SCHEMAS)
    assert dtypes(found, "a", "b", "c") == ["f16", "f16", "f32"]
    assert "nothing on the device takes it in float16" in report.reasons.values()


IF_GRAPH = """
graph g:
    opset 18
    input c: bool[]
    input x: f32[2, 2]
    r: f32[2, 2] = Relu(x)
    y: f32[2, 2] = If(c):
        then_branch:
            capture a: f32[2, 2] = r
            b: f32[2, 2] = MatMul(a, a)
            return b
        else_branch:
            capture a: f32[2, 2] = r
            return a
    z: f32[2, 2] = Abs(y)
    return z
"""


def test_branches_keep_their_border_and_convert_inside() -> None:
    graph, _ = converted(IF_GRAPH, "fp16")
    node = next(node for node in graph.nodes.values() if node.op == "If")
    body = node.bodies["then_branch"].graph
    assert ops(body) == ["Cast", "MatMul", "Cast"]
    assert dtypes(graph, "r", "y", "z") == ["f16", "f32", "f32"]
    feeds = {"c": np.array(True), "x": np.float32([[1, 2], [3, 4]])}
    np.testing.assert_allclose(run(graph, feeds)[0], run(parse_graph(IF_GRAPH), feeds)[0], rtol=1e-2)


def test_a_fused_body_is_converted_inside() -> None:
    text = """
graph g:
    opset 18
    input x: f32[2, 2]
    w: const f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
    y: f32[2, 2] = ge::Block(x, w):
        body:
            input a: f32[2, 2]
            input b: f32[2, 2]
            m: f32[2, 2] = MatMul(a, b)
            n: f32[2, 2] = Relu(m)
            return n
    z: f32[2, 2] = Neg(y)
    return z
"""
    graph, _ = converted(text, "fp16")
    node = next(node for node in graph.nodes.values() if node.op == "ge::Block")
    assert "MatMul" in ops(node.bodies["body"].graph)
    assert dtypes(graph, "y", "z") == ["f16", "f32"]
    feeds = random_feeds(graph)
    np.testing.assert_allclose(run(graph, feeds)[0], run(parse_graph(text), feeds)[0], rtol=1e-2, atol=1e-2)


def test_lists_of_a_book_can_be_changed() -> None:
    lists = read_lists(BOOK, white=["Softmax"], gray=["Conv"])
    assert "Softmax" in lists.white
    assert "Softmax" not in lists.black
    assert "Conv" not in lists.white | lists.black


@given(st.lists(st.floats(width=32), min_size=1, max_size=4))
@settings(max_examples=200)
def test_narrow_constants_stay_finite_where_they_were(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    narrow = narrow_const(Const(array), DType.F16).const.array
    assert narrow.dtype == np.float16
    np.testing.assert_array_equal(np.isfinite(narrow), np.isfinite(array))
    np.testing.assert_array_equal(np.isnan(narrow), np.isnan(array))
    inside = np.isfinite(array) & (np.abs(array) <= 65504)
    np.testing.assert_allclose(narrow[inside], array[inside], rtol=1e-3, atol=1e-7)


@given(graphs(), st.sampled_from(["fp16", "mixed_float16"]))
@settings(deadline=None, max_examples=120)
def test_modes_keep_the_meaning_nearly(text: str, mode: str) -> None:
    before, _ = prepare(parse_graph(text), evaluate, schemas=SCHEMAS)
    lists = PrecisionLists(frozenset({"Mul", "Tanh", "Max"}), frozenset({"Sigmoid", "Sub"}))
    after, report = set_precision(before, mode, device=HOST, schemas=SCHEMAS, lists=lists)
    assert not broken_invariants(after)
    infer_graph(after, SCHEMAS)
    for value in (*before.inputs, *before.outputs):
        assert after.type_of(value) == before.type_of(value) if value in after.values else True
    # One Cast for each value and type.
    casts = [(node.inputs, node.attrs["to"]) for node in after.nodes.values() if node.op == "Cast"]
    assert len(casts) == len(set(casts)) == report.n_casts
    feeds = {name: np.clip(array, -2, 2) for name, array in random_feeds(before).items()}
    for one, two in zip(run(before, feeds), run(after, feeds), strict=True):
        assert one.dtype == two.dtype
        if np.abs(one).max() < 100:
            np.testing.assert_allclose(two, one, rtol=0.05, atol=0.5)


def test_what_sequences_and_optionals_hold_keeps_its_type() -> None:
    graph, report = converted(
        """
graph g:
    opset 18
    input x: f32[2, 4]
    w: const f32[4, 4] = random(1)
    zero: const i64[] = 0
    m: f32[2, 4] = MatMul(x, w)
    s: seq(f32[2, 4]) = SequenceConstruct(m, m)
    c: f32[4, 4] = ConcatFromSequence(s, axis=0)
    n: f32[4, 4] = MatMul(c, w)
    t = SplitToSequence(n, axis=0)
    e = SequenceAt(t, zero)
    p: optional(f32[2, 4]) = Optional(m)
    q: f32[2, 4] = OptionalGetElement(p)
    y: f32[2, 4] = Abs(q)
    return y, e
""",
        "force_fp16",
    )
    assert dtypes(graph, "m", "n", "y") == ["f16", "f16", "f32"]
    assert dtypes(graph, "c", "e", "q") == ["f32", "f32", "f32"]
    packing = ("SequenceConstruct", "ConcatFromSequence", "SplitToSequence", "Optional", "OptionalGetElement")
    for node in graph.nodes.values():
        if node.op in packing:
            tensors = [graph.type_of(value) for value in (*node.inputs, *node.outputs) if value is not None]
            assert "f16" not in " ".join(map(str, tensors)), node.op
            assert report.reasons[node.id] == "it packs tensors, or unpacks them"
