"""Comparing runs: sizes of gaps, and the first node where two runs part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gerules.ir import Graph, Origin, parse_graph
from gerules.runtime.compare import compare, find_parting, match_by_origin, measure
from gerules.runtime.reference import evaluate

TEXT = """
graph g:
    opset "" 18
    input x: f32[3]
    a: f32[3] = Neg(x)
    b: f32[3] = {op}(a)
    c: f32[3] = Exp(b)
    return c
"""


def _graph(op: str = "Tanh") -> Graph:
    graph = parse_graph(TEXT.format(op=op))
    nodes = {
        key: replace(node, origin=Origin((f"layer/{node.op}" if node.op in ("Neg", "Exp") else "layer/mid",)))
        for key, node in graph.nodes.items()
    }
    return replace(graph, nodes=nodes)


@pytest.mark.parametrize(
    ("one", "two", "kind", "rel"),
    [
        ([1.0, 2.0], [1.0, 4.0], "values", 0.5),
        ([0.0], [0.0], "none", 0.0),
        ([1.0], [np.nan], "not a number", np.inf),
        ([np.nan], [np.nan], "none", 0.0),
        ([np.inf, 1.0], [-np.inf, 1.0], "not a number", np.inf),
        ([1.0, 2.0], [1.0], "shape", np.inf),
        ([], [], "none", 0.0),
    ],
)
def test_gaps(one: list[float], two: list[float], kind: str, rel: float) -> None:
    gap = measure("y", np.asarray(one, np.float32), np.asarray(two, np.float32))
    assert (gap.kind, gap.max_rel) == (kind, rel)


def test_other_kinds() -> None:
    f32, f64 = np.zeros(2, np.float32), np.zeros(2)
    assert measure("y", f32, f64).kind == "dtype"
    assert measure("y", [f32], [f32, f32]).kind == "shape"
    assert measure("y", [f32], [f32 + 1]).kind == "values"
    assert measure("y", None, f32).kind == "kind"
    assert measure("y", None, None).max_rel == 0
    words = np.asarray(["a", "b"], object)
    assert measure("y", words, words).max_rel == 0 and measure("y", words, words[::-1]).exceeds(1.0)
    large = np.asarray([2**63 - 1], np.int64)
    assert measure("y", large - 1000, large).kind == "none" or measure("y", large - 10**9, large).max_abs > 0


def test_missing_outputs_are_told() -> None:
    result = compare({"a": np.zeros(1), "b": np.zeros(1)}, {"a": np.zeros(1), "c": np.zeros(1)})
    assert result.missing == ("c", "b") and result.max_rel == np.inf and not result.is_close(1.0)


def test_the_first_node_that_parts() -> None:
    feeds = {"x": np.asarray([1, 2, 3], np.float32)}
    good, bad = _graph(), _graph("Sigmoid")
    one, two = {}, {}
    evaluate(bad, feeds, keep=one)
    evaluate(good, feeds, keep=two)
    found = find_parting(bad, one, two, 1e-3, match=match_by_origin(bad, good))
    assert found is not None and (found.origin, found.op) == ("layer/mid", "Sigmoid")
    assert find_parting(good, two, two, 0.0) is None
