"""Formats: golden cases, the independent check, the cheapest choice by brute force, meaning kept."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.dsl import load_rules
from gerules.errors import Source
from gerules.ir import DType, Format, Graph, TensorType, broken_invariants, parse_graph
from gerules.ops import infer_graph
from gerules.passes.devices import find_device
from gerules.passes.format_check import check_formats
from gerules.passes.format_choice import choose_options
from gerules.passes.format_costs import FormatState, steps_between
from gerules.passes.format_options import blocks_agree, find_options
from gerules.passes.formats import FormatReport, choose_formats
from gerules.target import CostModel, Device
from tests.passes.running import SCHEMAS, random_feeds, run

DEVICE_TEXT = """
ops UNARY = {Relu, Abs, Cast, Neg}
ops BINARY = {Add, Mul}
device d:
    engine core priority 1: UNARY + BINARY + {Conv, MatMul, Softmax, MaxPool, Concat, If, Shape, Identity}
formats on d.core:
    Conv(X: NC1HWC0, W: FRACTAL_Z, B?: ND) -> NC1HWC0
    MaxPool(X: NC1HWC0) -> NC1HWC0, NC1HWC0
    MatMul(A: ND, B: ND) -> ND
    MatMul(A: FRACTAL_NZ, B: FRACTAL_NZ) -> FRACTAL_NZ cost {nz_cost}
    _@UNARY(*: f) -> f
    _@BINARY(*: f) -> f
    Softmax(*: ND) -> ND
"""


def device_of(nz_cost: float = 1.0):
    text = "gerules 1\n" + DEVICE_TEXT.replace("{nz_cost}", str(nz_cost))
    return find_device(load_rules([Source("d.ger", text)], schemas=None), "d", schemas=SCHEMAS)


DEVICE = device_of()


def graph_of(text: str) -> Graph:
    return infer_graph(parse_graph("graph g:\n    opset 18\n" + text), SCHEMAS)


def chosen(text: str, device: Device = DEVICE, **options: object) -> tuple[Graph, FormatReport]:
    before = graph_of(text)
    after, report = choose_formats(before, device, **options)  # type: ignore[arg-type]
    assert not broken_invariants(after)
    assert check_formats(after, device) == []
    n_found = sum(node.op == "ge::TransData" for node in after.nodes.values())
    assert report.n_transdata == n_found
    for value in before.values:
        if value in after.values:
            one, two = before.type_of(value), after.type_of(value)
            assert isinstance(one, TensorType)
            assert isinstance(two, TensorType)
            assert (one.shape, one.dtype) == (two.shape, two.dtype)
    return after, report


def conversions(graph: Graph) -> list[str]:
    return [
        f"{node.attrs['src_format']}>{node.attrs['dst_format']}"
        for node in graph.nodes.values()
        if node.op == "ge::TransData"
    ]


CONV = "    w: const f16[32, 32, 1, 1] = random(1)\n    x1: f16[1, 32, 8, 8] = Conv({}, w)\n"
X = "    input x: f16[1, 32, 8, 8]\n"


def test_a_region_has_one_conversion_in_and_one_out() -> None:
    graph, report = chosen(
        X
        + """
    w: const f16[32, 32, 3, 3] = random(1)
    a = Conv(x, w, pads=[1, 1, 1, 1])
    b = Relu(a)
    c = Conv(b, w, pads=[1, 1, 1, 1])
    d = Add(c, b)
    e = Relu(d)
    return e
"""
    )
    assert conversions(graph) == ["ND>NC1HWC0", "NC1HWC0>ND"]
    assert [type.format for type in map(graph.type_of, (*graph.inputs, *graph.outputs))] == [  # type: ignore[union-attr]
        Format.ND,
        Format.ND,
    ]
    (weight,) = graph.consts
    assert graph.type_of(weight).format is Format.FRACTAL_Z  # type: ignore[union-attr]
    assert graph.consts[weight].array.shape == (32, 32, 3, 3), "the constant itself stays logical"
    assert any("cheapest for its region" in reason for reason in report.reasons.values())


def test_readers_of_one_value_share_its_conversion() -> None:
    graph, _ = chosen(
        X
        + """
    w: const f16[32, 32, 1, 1] = random(1)
    a = Conv(x, w)
    b = Conv(x, w)
    c = Softmax(a)
    d = Softmax(a, axis=1)
    e = MatMul(c, d)
    f = Softmax(b)
    return e, f
"""
    )
    assert Counter(conversions(graph)) == {"ND>NC1HWC0": 1, "NC1HWC0>ND": 2}


def test_groups_go_into_the_weight_and_its_conversion() -> None:
    text = X + "    {}\n    a = Conv(x, w, group=4)\n    return a\n"
    graph, _ = chosen(text.format("w: const f16[32, 8, 1, 1] = random(1)"))
    (weight,) = graph.consts
    assert graph.type_of(weight).groups == 4  # type: ignore[union-attr]
    graph, _ = chosen(text.format("input w: f16[32, 8, 1, 1]"))
    found = [
        node.attrs["groups"] for node in graph.nodes.values() if node.attrs.get("dst_format") == "FRACTAL_Z"
    ]
    assert found == [4]


def test_a_constant_in_two_formats_is_there_twice() -> None:
    graph, _ = chosen(
        X
        + """
    k: const f16[1, 32, 8, 8] = random(3)
    w: const f16[32, 32, 1, 1] = random(1)
    a = Conv(k, w)
    b = Add(a, x)
    c = Softmax(k)
    return b, c
"""
    )
    formats = Counter(graph.type_of(value).format.name for value in graph.consts)  # type: ignore[union-attr]
    assert formats == {"FRACTAL_Z": 1, "NC1HWC0": 1, "ND": 1}


@pytest.mark.parametrize(
    ("operand", "is_kept"),
    [
        ("f16[]", True),
        ("f16[1, 1, 1, 1]", True),
        ("f16[1, 32, 1, 1]", True),
        ("f16[1, 32, 8, 1]", True),
        ("f16[1, 1, 8, 8]", False),
        ("f16[32, 1, 1]", False),
        ("f16[8]", False),
    ],
)
def test_broadcast_operands_meet_blocks_or_the_region_ends(operand: str, is_kept: bool) -> None:
    graph, _ = chosen(
        X
        + CONV.format("x")
        + f"    k: const {operand} = random(5)\n    a = Add(x1, k)\n    b = Conv(a, w)\n    return b\n"
    )
    assert (len(conversions(graph)) == 2) is is_kept


@pytest.mark.parametrize(
    ("left", "right", "want"),
    [
        ((32, 64), (32, 64), True),
        ((32, 64), (1, 64), False),
        ((32, 64), (64,), False),
        ((32, 64), (1, 1), True),
        ((2, 32, 64), (1, 32, 64), True),
        ((2, 32, 60), (1, 32, 60), False),
    ],
)
def test_blocks_of_matrices(left: tuple[int, ...], right: tuple[int, ...], want: bool) -> None:
    one, two = TensorType(DType.F16, left), TensorType(DType.F16, right)
    assert blocks_agree(Format.FRACTAL_NZ, [one, two], [one]) is want


def test_products_stay_in_fractals_where_that_pays() -> None:
    text = """
    input x: f16[512, 512]
    a = MatMul(x, x)
    b = Relu(a)
    c = MatMul(b, b)
    d = Abs(c)
    e = MatMul(d, d)
    return e
"""
    assert conversions(chosen(text, device_of(1.0))[0]) == []
    assert conversions(chosen(text, device_of(0.2))[0]) == ["ND>FRACTAL_NZ", "FRACTAL_NZ>ND"]


def test_between_two_formats_in_blocks_the_way_is_plain() -> None:
    assert steps_between(Format.NC1HWC0, Format.FRACTAL_NZ) == [
        (Format.NC1HWC0, Format.ND),
        (Format.ND, Format.FRACTAL_NZ),
    ]


@pytest.mark.parametrize("shape", ["N, 32, 8, 8", "1, 32, H, W"])
def test_unknown_sizes_stay_plain_and_say_so(shape: str) -> None:
    text = (X + CONV.format("x")).replace("f16[1, 32, 8, 8]", f"f16[{shape}]")
    graph, report = chosen(text + "    return x1\n")
    assert conversions(graph) == []
    assert any("not with these sizes" in reason for reason in report.reasons.values())


def test_convolutions_of_another_rank_and_empty_tensors_stay_plain() -> None:
    text = """
    input x: f16[1, 4, 8]
    input z: f16[0, 32, 8, 8]
    w: const f16[4, 4, 1] = random(1)
    v: const f16[32, 32, 1, 1] = random(1)
    a = Conv(x, w)
    b = Conv(z, v)
    return a, b
"""
    assert conversions(chosen(text)[0]) == []


def test_borders_can_be_asked_for() -> None:
    text = X + CONV.format("x") + "    return x1\n"
    graph, _ = chosen(text, borders={"x": Format.NC1HWC0, "x1": Format.NC1HWC0})
    assert conversions(graph) == []
    assert graph.type_of(graph.inputs[0]).format is Format.NC1HWC0  # type: ignore[union-attr]
    graph, _ = chosen(text, borders={"x": Format.NC1HWC0})
    assert conversions(graph) == ["NC1HWC0>ND"]
    assert [graph.values[value].name for value in graph.outputs] == ["x1"]


def test_what_a_body_captures_is_plain_and_bodies_choose_inside() -> None:
    text = (
        X
        + CONV.format("x")
        + """
    input c: bool[]
    y: f16[1, 32, 8, 8] = If(c):
        then_branch:
            capture a: f16[1, 32, 8, 8] = x1
            v: const f16[32, 32, 1, 1] = random(2)
            b: f16[1, 32, 8, 8] = Conv(a, v)
            r: f16[1, 32, 8, 8] = Relu(b)
            return r
        else_branch:
            capture a: f16[1, 32, 8, 8] = x1
            return a
    z = Conv(x1, w)
    return y, z
"""
    )
    graph, report = chosen(text)
    assert Counter(conversions(graph)) == {"ND>NC1HWC0": 1, "NC1HWC0>ND": 2}
    body = next(node for node in graph.nodes.values() if node.op == "If").bodies["then_branch"].graph
    assert conversions(body) == ["ND>NC1HWC0", "NC1HWC0>ND"]
    assert len(report.bodies) == 2


def test_the_check_finds_what_is_broken() -> None:
    graph, _ = chosen(X + CONV.format("x") + "    a = Relu(x1)\n    return a\n")
    for value in graph.values:
        type = graph.type_of(value)
        assert isinstance(type, TensorType)
        other = Format.FRACTAL_NZ if type.format is Format.ND else Format.ND
        values = dict(graph.values)
        values[value] = replace(values[value], type=type.with_format(other))
        assert check_formats(replace(graph, values=values), DEVICE), values[value]


@st.composite
def networks(draw: st.DrawFn, most: int = 10) -> str:
    lines = [
        "    input x: f16[1, 16, 16, 16]",
        "    input y: f16[1, 16, 16, 16]",
        "    w: const f16[16, 16, 1, 1] = random(1)",
        "    k: const f16[1, 16, 1, 1] = random(2)",
        "    t: const f16[1, 1, 16, 16] = random(3)",
        "    s: const f16[] = 0.5",
    ]
    values = ["x", "y"]
    for place in range(draw(st.integers(1, most))):
        pick = st.sampled_from(values[-3:] if draw(st.booleans()) else values)
        one = draw(pick)
        text = draw(
            st.sampled_from(
                [
                    f"Conv({one}, w)",
                    f"Relu({one})",
                    f"Abs({one})",
                    f"Add({one}, {draw(pick)})",
                    f"Mul({one}, {draw(pick)})",
                    f"Add({one}, k)",
                    f"Add({one}, t)",
                    f"Mul(s, {one})",
                    f"MatMul({one}, {draw(pick)})",
                    f"Softmax({one})",
                    f"MaxPool({one}, kernel_shape=[1, 1])",
                ]
            )
        )
        lines.append(f"    v{place} = {text}")
        values.append(f"v{place}")
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3, unique=True))
    return "\n".join([*lines, f"    return {', '.join(outputs)}", ""])


@given(networks(), st.sampled_from([1.0, 0.3]))
@settings(deadline=None, max_examples=150)
def test_formats_fit_everywhere_and_change_no_meaning(text: str, nz_cost: float) -> None:
    before = graph_of(text)
    after, _ = chosen(text, device_of(nz_cost) if nz_cost != 1.0 else DEVICE)
    infer_graph(after, SCHEMAS)
    made = [
        (node.inputs, node.attrs["dst_format"]) for node in after.nodes.values() if node.op == "ge::TransData"
    ]
    assert len(made) == len(set(made)), "one conversion for each value and format"
    assert [after.values[value].name for value in after.outputs] == [
        before.values[value].name for value in before.outputs
    ]
    feeds = random_feeds(before)
    for one, two in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(one, two)


def costs_of(text: str, nz_cost: float) -> tuple[float, float, float]:
    """Return what a choice costs: chosen, by brute force, everything plain where it can be."""
    graph = graph_of(text)
    device = device_of(nz_cost)
    state = FormatState(graph, CostModel(device), {})
    for value in graph.outputs:
        state.need(value, Format.ND)
    options = {
        node.id: find_options(graph, node, device.kernels_of(node.op)) for node in graph.nodes.values()
    }

    def total() -> float:
        nodes = sum(state.node_us(node, state.option[node.id]) for node in graph.nodes.values())
        return nodes + state.conversions_us(graph.values)

    choose_options(graph, options, state)
    found = total()
    best = plain = float("inf")
    for place, picks in enumerate(itertools.product(*(options[node] for node in graph.nodes))):
        for node, option in zip(graph.nodes.values(), picks, strict=True):
            state.choose(node, option)
        best = min(best, total())
        if place == 0:
            plain = total()
    return found, best, plain


@given(networks(most=6), st.sampled_from([1.0, 0.3]))
@settings(deadline=None, max_examples=60)
def test_the_choice_is_near_the_best_of_all(text: str, nz_cost: float) -> None:
    found, best, plain = costs_of(text, nz_cost)
    assert best <= found + 1e-6
    assert found <= plain + 1e-6
    assert found <= best * 1.25


def test_a_conversion_that_does_not_say_its_groups_has_one() -> None:
    graph, _ = chosen(X + CONV.format("x") + "    a = Relu(x1)\n    return a\n")
    silent = {
        key: replace(node, attrs={name: value for name, value in node.attrs.items() if name != "groups"})
        for key, node in graph.nodes.items()
    }
    assert Counter(conversions(graph)) and check_formats(replace(graph, nodes=silent), DEVICE) == []
    two = {
        key: replace(node, attrs={**node.attrs, "groups": 2}) if node.op == "ge::TransData" else node
        for key, node in graph.nodes.items()
    }
    assert check_formats(replace(graph, nodes=two), DEVICE)


@pytest.mark.parametrize(
    ("one", "two", "made", "is_right"),
    [("/2", "/2", "/2", True), ("/2", "/2", "", False), ("/2", "/4", "/2", False), ("", "", "", True)],
)
def test_what_a_kernel_takes_in_one_format_has_the_same_groups(
    one: str, two: str, made: str, is_right: bool
) -> None:
    weights = "f16[64, 8, 3, 3] @FRACTAL_Z"
    graph = parse_graph(
        f"graph g:\n    opset 18\n    input a: {weights}{one}\n    input b: {weights}{two}\n"
        f"    y: {weights}{made} = Add(a, b)\n    return y\n"
    )
    assert (check_formats(graph, DEVICE) == []) is is_right
