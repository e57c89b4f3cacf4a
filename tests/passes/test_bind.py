"""Binding of input shapes: texts, names, and all faults at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.ir import TensorType, parse_graph
from gerules.passes.bind import bind_shapes, parse_shapes, ranges_of
from gerules.passes.errors import PassError
from gerules.passes.prepare import prepare
from tests.passes.running import SCHEMAS, evaluate

GRAPH = parse_graph("""
graph g:
    opset 18
    input x: f32[N, 3, H, W]
    input mask: f32[N, `2*N + 1`]
    input n: f32[*]
    r: f32[N, 3, H, W] = Relu(x)
    s = ReduceSum(mask)
    y = Add(r, s)
    return y
""")


def shapes_of(graph: object, *names: str) -> list[object]:
    by_name = {value.name: value.type for value in graph.values.values()}  # type: ignore[attr-defined]
    return [by_name[name].shape for name in names]


def test_texts() -> None:
    assert parse_shapes("data=1,3,224,224; mask=1,128") == {"data": (1, 3, 224, 224), "mask": (1, 128)}
    assert parse_shapes("in:0:1,-1,?") == {"in:0": (1, "?", "?")}
    assert parse_shapes("scalar=;ü=[2,3];") == {"scalar": (), "ü": (2, 3)}


def test_all_faults_of_a_text_are_reported() -> None:
    with pytest.raises(PassError) as caught:
        parse_shapes("x;y=1,a;z=0,3;=4;y=1")
    codes = [item.code.code for item in caught.value.diagnostics]
    assert sorted(codes) == ["E10040", "E10040", "E10040", "E10040", "E10044"]


@given(st.text(alphabet="x=:,;0123?-[] é", max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse_shapes(text)
    except PassError as fault:
        assert fault.code in ("E10040", "E10044")


def test_a_bound_name_is_bound_everywhere() -> None:
    graph = bind_shapes(GRAPH, {"x": (2, 3, 8, "?")})
    assert shapes_of(graph, "x", "mask", "r") == [(2, 3, 8, "W"), (2, 5), (2, 3, 8, "W")]


def test_sizes_by_name() -> None:
    graph = bind_shapes(GRAPH, dims={"N": 3, "W": 9})
    assert shapes_of(graph, "x", "mask") == [(3, 3, "H", 9), (3, 7)]


def test_an_unknown_rank_takes_the_shape() -> None:
    assert shapes_of(bind_shapes(GRAPH, {"n": (4, 5)}), "n") == [(4, 5)]


def test_all_faults_are_reported_with_the_nearest_name() -> None:
    with pytest.raises(PassError) as caught:
        bind_shapes(
            GRAPH,
            {"x": (2, 4, 8, 8), "mask": (3, 5), "maks": (1,), "n": (0,)},
            {"M": 3},
        )
    found = {item.code.code for item in caught.value.diagnostics}
    assert found == {"E10041", "E10044", "E10046", "E10043", "E10045"} - (found ^ found)
    assert any("did you mean mask?" in item.notes for item in caught.value.diagnostics)


def test_rank_must_agree() -> None:
    with pytest.raises(PassError, match="E10042"):
        bind_shapes(GRAPH, {"x": (1, 3, 8)})


def test_a_bound_graph_becomes_static() -> None:
    graph, report = prepare(GRAPH, evaluate, schemas=SCHEMAS, shapes={"x": (2, 3, 8, 8), "n": (1,)})
    assert report.n_dynamic == 0
    assert all(isinstance(value.type, TensorType) and value.type.is_static for value in graph.values.values())


def test_bodies_are_bound_too() -> None:
    graph = bind_shapes(
        parse_graph("""
graph g:
    opset 18
    input c: bool[]
    input x: f32[N]
    y = If(c):
        then_branch:
            capture a: f32[N] = x
            b: f32[N] = Neg(a)
            return b
        else_branch:
            capture a: f32[N] = x
            return a
    return y
"""),
        dims={"N": 5},
    )
    body = next(iter(graph.nodes.values())).bodies["then_branch"].graph
    assert {value.type.shape for value in body.values.values()} == {(5,)}  # type: ignore[union-attr]


def test_a_name_is_no_size_of_a_dimension_that_is_fixed() -> None:
    with pytest.raises(PassError) as caught:
        bind_shapes(GRAPH, {"x": (2, "C", 8, 8)})
    assert caught.value.code == "E10043"
    assert "dimension 1 of x is 3, not C" in str(caught.value)


def test_sizes_may_be_whole_numbers_of_any_kind() -> None:
    sizes = np.array([2, 3, 8, 9])
    assert shapes_of(bind_shapes(GRAPH, {"x": list(sizes)}), "x") == [(2, 3, 8, 9)]
    assert shapes_of(bind_shapes(GRAPH, {"x": (None, -1, np.int32(8), "?")}), "x") == [("N", 3, 8, "W")]
    assert shapes_of(bind_shapes(GRAPH, dims={"N": np.int64(4)}), "x", "mask") == [(4, 3, "H", "W"), (4, 9)]


@pytest.mark.parametrize("size", [2.0, True, 0, -2, [1]])
def test_other_things_are_no_sizes(size: object) -> None:
    for sizes in ({"shapes": {"x": (size, 3, 8, 8)}}, {"dims": {"N": size}}):
        with pytest.raises(PassError) as caught:
            bind_shapes(GRAPH, **sizes)  # type: ignore[arg-type]
        assert caught.value.code == "E10044"


def test_ranges_leave_sizes_open() -> None:
    shapes = parse_shapes("x:1~16,3,2 ~ 8,4~-1;mask:2,?")
    assert shapes == {"x": ("1~16", 3, "2~8", "4~-1"), "mask": (2, "?")}
    assert ranges_of(shapes) == {"x": ((1, 16), None, (2, 8), (4, -1))}
    assert shapes_of(bind_shapes(GRAPH, {"x": ("1~16", 3, 8, "?")}), "x") == [("N", 3, 8, "W")]


@pytest.mark.parametrize("size", ["4~2", "0~3", "~3", "1~", "1~2~3", "a~b", "-1~2", "1~-2"])
def test_what_is_no_range(size: str) -> None:
    with pytest.raises(PassError, match="E10040"):
        parse_shapes(f"x:{size},3")


def test_a_range_given_from_python_is_checked_too() -> None:
    with pytest.raises(PassError, match="E10044"):
        bind_shapes(GRAPH, {"x": ("4~2", 3, 8, 8)})
