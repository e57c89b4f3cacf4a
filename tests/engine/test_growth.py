"""Growth of the engine's work, by counting: nothing here looks at a clock."""

from __future__ import annotations

import pytest

from bench.engine import Bench, graph_of
from gerules.engine.define import define_extra, make_infer
from gerules.engine.rewrite import rewrite
from gerules.engine.trace import Trace
from gerules.ir import Graph
from gerules.pipeline.toolchain import own_rules

BENCH = Bench(own_rules(), "fuse,fold,cleanup,canonical")
PLANS = BENCH.plans()


def _run(graph: Graph) -> tuple[Graph, Trace]:
    extra = define_extra(BENCH.book.defines, schemas=BENCH.schemas, context=BENCH.context)
    infer = make_infer(BENCH.schemas, graph.opsets, extra)
    return rewrite(graph, PLANS, schemas=BENCH.schemas, infer=infer)


@pytest.mark.parametrize("kind", ["transformer", "resnet", "noop_chain", "wide"])
def test_a_second_run_changes_nothing_and_work_grows_with_nodes(kind: str) -> None:
    attempts: list[float] = []
    for n_nodes in (150, 600):
        after, trace = _run(graph_of(kind, n_nodes))
        assert trace.applications
        attempts.append(sum(count.attempts for count in trace.rules.values()) / n_nodes)
        again, second = _run(after)
        assert again is after and not second.applications
    assert attempts[1] <= 1.3 * attempts[0]


def test_groups_merge_level_by_level() -> None:
    after, trace = _run(graph_of("wide", 600))
    depth: dict[int, int] = {}
    for node in after.nodes.values():
        below = max((depth.get(value, 0) for value in node.reads()), default=0)
        depth.update(dict.fromkeys(node.writes(), below + (node.op == "Split")))
    assert max(depth.values()) <= 4  # 8 at a time: not one Split below another 80 times
    sizes = sum(len(item.sources) for item in trace.applications)
    assert sizes <= 5 * 600
