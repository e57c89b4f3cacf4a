"""Graph text: what is printed is read back as it was, and every fault of a text has a place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.errors import GerulesError
from gerules.ir import (
    Const,
    DType,
    Format,
    Graph,
    GraphEditor,
    OptionalType,
    SequenceType,
    TensorType,
    empty_graph,
)
from gerules.ir.printing import print_graph
from gerules.ir.reading import parse_graph, read_graph_text
from gerules.ir.verify import broken_invariants

STEM = """\
graph stem:
    opset 17
    opset "com.microsoft" 1
    meta "producer" = "hand"
    input x: f32[N, 3, 224, 224] @NCHW
    W: const f16[64, 3, 7, 7] @FRACTAL_Z = fill(0.5)
    c: f16[N, 64, 112, 112] @NC1HWC0 = Conv(x, none, W, strides=[2, 2])  {engine="AIcoreEngine", at=17408}
    `layer1/relu.0`: f16[N, 64, 112, 112] @NC1HWC0 = Relu(c)  {name="relu", rules=["conv_bn"], phase="fold"}
    return `layer1/relu.0`
"""

BRANCH = """\
graph branch:
    opset 21
    input cond: bool[]
    input x: f32[2, `2*N`]
    y: f32[2, ?] = If(cond):
        then_branch:
            capture a: f32[2, `2*N`] = x
            t: f32[2, `2*N`] = Relu(a)
            return t
        else_branch:
            capture b: f32[2, `2*N`] = x
            u: f32[2, `2*N`], none = Dropout(b)
            return u
    return y
"""


@pytest.mark.parametrize("text", [STEM, BRANCH])
def test_print_is_the_inverse_of_parse(text: str) -> None:
    found = read_graph_text(text)
    assert print_graph(found.graph, marks=found.marks) == text
    assert broken_invariants(found.graph) == []


def test_every_kind_of_attribute_and_constant_survives() -> None:
    editor = GraphEditor(empty_graph("kinds", {"": 21}))
    x = editor.add_input(TensorType(DType.F32, ("N", "?")), "x", None)
    attrs = {
        "i": 3, "f": 1.0, "big": 1e30, "inf": float("-inf"), "s": 'a "quoted" \\ text\n', "u": "größe",
        "b": b"\xff\x00", "to": DType.BF16, "ints": (1, -2), "floats": (1.0, 2.5), "strings": ("a", "b"),
        "t": Const(np.array([1.5, -2], np.float16)), "none": (),
        "type": SequenceType(OptionalType(TensorType(DType.I64))),
    }  # fmt: skip
    consts = [
        np.array(2.5, np.float32), np.array([0.1, 1e-40], np.float32), np.array([True, False]),
        np.array(["ä", "b"], object), np.zeros((0, 3), np.int64), np.array([1 + 2j], np.complex64),
        np.array([2**63], np.uint64), np.arange(3).astype(DType.I4.numpy),
        np.arange(3).astype(DType.BF16.numpy), np.broadcast_to(np.float32(0.25), (100, 100)),
    ]  # fmt: skip
    values = [editor.add_const(array, f"k{i}") for i, array in enumerate(consts)]
    node = editor.add_node("my.domain::Op", [x, *values], attrs=attrs, name="größe/1")
    editor.set_outputs([v for v in node.outputs if v is not None])
    graph = editor.commit()
    again = parse_graph(print_graph(graph))
    assert print_graph(again) == print_graph(graph)
    (one,) = again.nodes.values()
    for key, want in attrs.items():
        got = one.attrs[key]
        assert got.equals(want) if isinstance(want, Const) and isinstance(got, Const) else got == want, key
        assert type(got) is type(want)
    for value, want in zip(one.inputs[1:], consts, strict=True):
        assert value is not None
        got = again.consts[value].array
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_large_constants_are_stored_beside_the_text() -> None:
    editor = GraphEditor(empty_graph("large"))
    weights = np.random.default_rng(0).standard_normal((30, 30)).astype(np.float32)
    w = editor.add_const(weights, "W")
    editor.set_outputs([w])
    graph = editor.commit()
    kept: dict[str, bytes] = {}

    def store(name: str, const: Const) -> str:
        kept[name] = const.array.tobytes()
        return f'file("{name}", 0)'

    text = print_graph(graph, store=store)
    again = parse_graph(text, load=lambda name, offset, size: kept[name][offset : offset + size])
    np.testing.assert_array_equal(next(iter(again.consts.values())).array, weights)
    with pytest.raises(GerulesError, match="E40014"):
        parse_graph(print_graph(graph))


FAULTS = """\
graph bad:
    input x: f33[2]
    y = Relu(z)
    y = Neg(x)
    k: const f32[3] = [1, 2]
    w: f32[2] @NOPE = Abs(x)
    q: const i8[2] = "text"
    return y
"""


def test_all_faults_are_reported_with_their_places() -> None:
    with pytest.raises(GerulesError) as caught:
        parse_graph(FAULTS)
    found = [(d.code.code, str(d.span)) for d in caught.value.diagnostics]
    assert found == [
        ("E40102", "<graph>:2:14"),
        ("E40003", "<graph>:3:14"),
        ("E40007", "<graph>:4:5"),
        ("E40014", "<graph>:5:23"),
        ("E40012", "<graph>:6:15"),
        ("E40014", "<graph>:7:22"),
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "E40008"),
        ("graph a:\n    input x: f32[1]\n    return x\ngraph b:\n    return\n", "E40008"),
        ("graph a:\n    input x: f32[1]\n", "E40009"),
        ("graph a:\n    return\n    input x: f32[1]\n", "E40010"),
        ("graph a:\n    capture x: f32[1] = y\n    return x\n", "E40011"),
        ("graph a:\n    input x: f32[1\n    return x\n", "E40001"),
        ("graph a:\n    k: const f32[99999999999, 99] = random(1)\n    return k\n", "E40014"),
        ("graph a:\n    y = F(a=" + "[" * 500 + "]" * 500 + ")\n    return y\n", "E40006"),
    ],
)
def test_wrong_texts_have_codes(text: str, code: str) -> None:
    with pytest.raises(GerulesError, match=code):
        parse_graph(text)


def test_a_caret_points_at_the_name() -> None:
    with pytest.raises(GerulesError) as caught:
        parse_graph("graph g:\n    input x: f32[2]\n    y = Relu(d)\n    return y\n")
    assert str(caught.value) == (
        "error[E40003]: d is not defined\n"
        " --> <graph>:3:14\n"
        "  |\n"
        "3 |     y = Relu(d)\n"
        "  |              ^\n"
        " = hint: define it above its first use"
    )


names = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=6)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    editor = GraphEditor(empty_graph(draw(names), {"": 17}))
    kinds = st.sampled_from(
        [TensorType(), TensorType(DType.F16, ("N", 3), Format.NHWC), TensorType(DType.F32, ("?", 2)),
         TensorType(DType.I8, (), Format.ND), SequenceType(TensorType(DType.F32))]
    )  # fmt: skip
    values = [editor.add_input(draw(kinds), draw(names)) for _ in range(2)]
    for _ in range(draw(st.integers(1, 5))):
        inputs = [*draw(st.lists(st.sampled_from([*values, None]), max_size=2)), values[-1]]
        outputs = [editor.add_value(draw(kinds), draw(names)) for _ in range(draw(st.integers(1, 2)))]
        attrs = draw(st.dictionaries(st.sampled_from("abc"), st.one_of(
            st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.lists(st.integers()).map(tuple)
        )))  # fmt: skip
        node = editor.add_node("Op", inputs, outputs, attrs, name=draw(st.one_of(st.just(""), names)))
        values += list(node.writes())
    editor.set_outputs(draw(st.lists(st.sampled_from(values), max_size=2, unique=True)))
    return editor.commit()


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_any_graph_survives_its_text(graph: Graph) -> None:
    text = print_graph(graph)
    again = parse_graph(text)
    assert print_graph(again) == text
    assert broken_invariants(again) == []
