"""Random task graphs, and happens-before by transitive closure, for the tests of the schedule."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
from hypothesis import strategies as st

from gerules.backend.schedule import EngineRule, Schedule, StreamOptions, Task, TaskGraph, build_task_graph


@st.composite
def task_graphs(
    draw: st.DrawFn, max_size: int = 14, engines: Sequence[str] = ("cube", "vector")
) -> TaskGraph:
    n = draw(st.integers(1, max_size))
    tasks: list[Task] = []
    sizes = {100: draw(st.integers(0, 9)), 101: draw(st.integers(0, 9))}
    for i in range(n):
        choices = [100, 101, *range(i)]
        reads = draw(st.lists(st.sampled_from(choices[-6:]), max_size=3))
        after = draw(st.lists(st.integers(0, i - 1), max_size=1)) if i else []
        engine = draw(st.sampled_from(engines))
        workspace = draw(st.sampled_from([0, 0, 5]))
        tasks.append(Task(i, tuple(reads), (i,), engine, workspace_bytes=workspace, after=tuple(after)))
        sizes[i] = draw(st.integers(0, 9))
    outputs = draw(st.sets(st.sampled_from([100, *range(n)]), max_size=2))
    return build_task_graph(tasks, sizes, outputs=outputs)


@st.composite
def stream_options(draw: st.DrawFn) -> StreamOptions:
    kinds = st.sampled_from(["queue", "queue", "attach", "independent"])
    rule = st.builds(EngineRule, kinds, st.integers(1, 4))
    return StreamOptions(draw(st.dictionaries(st.sampled_from(["cube", "vector"]), rule)))


def happens_before(schedule: Schedule) -> nx.DiGraph:
    """The closure of stream order and events, over steps."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(schedule.steps)))
    tail: dict[int, int] = {}
    for step, stream in enumerate(schedule.streams):
        if stream in tail:
            graph.add_edge(tail[stream], step)
        tail[stream] = step
    graph.add_edges_from(schedule.waits)
    return nx.transitive_closure_dag(graph)
