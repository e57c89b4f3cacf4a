"""Plans of a whole graph: bytes are shared over streams where streams and events prove it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gerules.backend.memory import MemoryPlanError
from gerules.backend.plans import Plans, find_flaws, make_plans
from gerules.backend.schedule import EngineRule, StreamOptions
from gerules.ir import Graph, parse_graph

N_BRANCHES = 16
"""Independent branches of one input, several to a stream, as the heads of an attention are."""


def _branches() -> Graph:
    lines = ["graph g:", "    input x: f32[64, 64]"]
    for k in range(N_BRANCHES):
        lines += [
            f"    a{k}: f32[64, 64] = ge::Relu(x)",
            f"    b{k}: f32[64, 64] = ge::MatMul(a{k}, a{k})",
            f"    c{k}: f32[64, 64] = ge::MatMul(b{k}, x)",
            f"    d{k}: f32[1, 64] = ge::ReduceMax(c{k}, axes=[0], keep_dims=1)",
        ]
    ends = ", ".join(f"d{k}" for k in range(N_BRANCHES))
    lines += [f"    y: f32[{N_BRANCHES}, 64] = ge::ConcatD({ends}, concat_dim=0)", "    return y"]
    return parse_graph("\n".join(lines) + "\n")


def _plans(n_streams: int, limit_bytes: int | None = None) -> Plans:
    graph = _branches()
    streams = StreamOptions(rules={"AIcoreEngine": EngineRule(max_parallel=n_streams)})
    engines = dict.fromkeys(graph.nodes, "AIcoreEngine")
    return make_plans(graph, engines, streams=streams, limit_bytes=limit_bytes)


def test_several_streams_cost_what_runs_at_once() -> None:
    one, four = _plans(1), _plans(4)
    assert one.schedule.n_streams == 1
    assert four.schedule.n_streams == 4
    assert find_flaws(four) == []
    assert four.memory.peak_bytes <= 4 * one.memory.peak_bytes
    # Two values to a stream, and what all of them read; by lifetimes in issue order it would be more.
    assert four.memory.peak_bytes < (4 * 2 + 2) * 64 * 64 * 4


def test_the_checks_see_bytes_that_are_shared_too_early() -> None:
    plans = _plans(4)
    value_of = {value.name: value.id for value in _branches().values.values()}
    clash = {**plans.offsets, value_of["b0"]: plans.offsets[value_of["x"]]}
    assert find_flaws(replace(plans, offsets=clash))


def test_a_limit_is_compared_after_sharing() -> None:
    peak = _plans(4).memory.peak_bytes
    assert _plans(4, limit_bytes=peak).memory.peak_bytes <= peak
    with pytest.raises(MemoryPlanError) as caught:
        _plans(4, limit_bytes=2 * 64 * 64 * 4)
    assert caught.value.code == "E60003"
