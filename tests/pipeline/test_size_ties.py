"""Sizes that belong together: those that meet in an operator that wants them alike, and no others."""

from __future__ import annotations

import pytest

from gerules.ir import UNKNOWN_DIM, TensorType, parse_graph
from gerules.ops import infer_graph
from gerules.pipeline.size_ties import Ties, first_refusal, tie_sizes
from gerules.pipeline.toolchain import make_toolchain, shipped_rules


def ties(body: str, outputs: str = "y") -> tuple[Ties, dict[tuple[str, int], int]]:
    """The ties of all inputs and floating constants, and the number of each axis by name."""
    graph = parse_graph(f"graph g:\n    opset 17\n{body}    return {outputs}\n")
    tools = make_toolchain(shipped_rules(), graph.opsets)
    graph = infer_graph(graph, tools.schemas, extra=tools.extra)
    axes = {
        (value, axis): dim
        for value in (*graph.inputs, *graph.consts)
        if isinstance(type := graph.type_of(value), TensorType) and type.dtype.is_float
        for axis, dim in enumerate(type.shape or ())
        if dim not in (1, UNKNOWN_DIM)
    }
    found = tie_sizes(graph, list(graph.nodes.values()), axes, tools.infer)
    return found, {
        (graph.values[value].name, axis): number for (value, axis), number in found.group_of.items()
    }


def parts(body: str, outputs: str = "y") -> tuple[list[str], list[str]]:
    """The axes that belong together, as `x0 W1`, and those that are as they are for good."""
    found, numbers = ties(body, outputs)
    groups: dict[int, list[str]] = {}
    for (name, axis), number in numbers.items():
        groups.setdefault(number, []).append(f"{name}{axis}")
    together = sorted(" ".join(names) for names in groups.values() if len(names) > 1)
    pinned = sorted(f"{name}{axis}" for (name, axis), number in numbers.items() if number in found.pinned)
    return together, pinned


@pytest.mark.parametrize(
    ("body", "together", "pinned"),
    [
        ("    input x: f32[8, 8]\n    y = Relu(x)\n", [], []),
        ("    input x: f32[8, 8]\n    input z: f32[8, 8]\n    y = Add(x, z)\n", ["x0 z0", "x1 z1"], []),
        ("    input x: f32[8, 8]\n    input z: f32[8]\n    y = Add(x, z)\n", ["x1 z0"], []),
        ("    input x: f32[8, 8]\n    input z: f32[8, 8]\n    y = MatMul(x, z)\n", ["x1 z0"], []),
        (
            "    input x: f32[8, 8]\n    input z: f32[8, 8]\n    t = Transpose(z, perm=[1, 0])\n"
            "    y = MatMul(x, t)\n",
            ["x1 z1"],
            [],
        ),
        (
            "    input x: f32[8, 8, 8]\n    W: const f32[8, 8] = random(1)\n    b: const f32[8] = random(2)\n"
            "    V: const f32[8, 8] = random(3)\n    m = MatMul(x, W)\n    a = Add(m, b)\n"
            "    y = MatMul(a, V)\n",
            ["W1 b0 V0", "x2 W0"],
            [],
        ),
        (
            "    input x: f32[3, 3, 9, 9]\n    W: const f32[3, 3, 3, 3] = random(1)\n"
            "    y = Conv(x, W, pads=[1, 1, 1, 1])\n",
            ["x1 W1"],
            [],
        ),
        (
            "    input x: f32[3, 3, 9, 9]\n    W: const f32[3, 3, 3, 3] = random(1)\n"
            "    c = Conv(x, W, pads=[1, 1, 1, 1], kernel_shape=[3, 3])\n    y = Add(c, x)\n",
            ["x1 W0 W1"],
            ["W2", "W3"],
        ),
        (
            "    input x: f32[2, 4, 8, 8]\n    input r: f32[2, 4, 4, 4]\n"
            "    W: const f32[4, 4, 2, 2] = random(1)\n"
            "    c = Conv(x, W, strides=[2, 2], kernel_shape=[2, 2])\n    y = Add(c, r)\n",
            ["x0 r0", "x1 W1", "r1 W0"],
            ["W2", "W3"],
        ),
        (
            "    input x: f32[4, 16]\n    s: const i64[3] = [0, 4, 4]\n    y = Reshape(x, s)\n",
            [],
            ["x1"],
        ),
        # Whether N is M is not known, so everything stays.
        ("    input x: f32[N, N]\n    input z: f32[M, 8]\n    y = MatMul(x, z)\n", ["x0 x1"], ["z1"]),
    ],
)
def test_what_meets_in_an_operator_belongs_together(
    body: str, together: list[str], pinned: list[str]
) -> None:
    found = parts(body)
    assert (found[0], found[1]) == (sorted(together), pinned)


def test_a_region_that_nothing_can_be_changed_in_stays_as_it_is() -> None:
    chain = "".join(f"    s{n} = Reshape(x, to{n})\n" for n in range(2))
    consts = "    to0: const i64[2] = [8, 6]\n    to1: const i64[2] = [6, 8]\n"
    assert parts(f"    input x: f32[4, 12]\n{consts}{chain}", "s0, s1") == ([], ["x0", "x1"])


def test_the_first_node_that_does_not_take_the_sizes_is_found() -> None:
    graph = parse_graph(
        "graph g:\n    opset 17\n    input x: f32[2, 3]\n    W: const f32[3, 4] = random(1)\n"
        "    r = Relu(x)\n    m = MatMul(r, W)\n    y = Abs(m)\n    return y\n"
    )
    tools = make_toolchain(shipped_rules(), graph.opsets)
    graph = infer_graph(graph, tools.schemas, extra=tools.extra)
    (x,), (weight,), nodes = graph.inputs, graph.consts, list(graph.nodes.values())
    assert first_refusal(graph, nodes, {(x, 1): 5, (weight, 0): 5}, tools.infer) is None
    found = first_refusal(graph, nodes, {(x, 1): 5}, tools.infer)
    assert found is not None and found.node.op == "MatMul"
    assert [str(type) for type in found.read] == ["f32[2, 5]", "f32[3, 4]"]
    assert found.error.diagnostics[0].message
