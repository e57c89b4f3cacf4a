"""Events: exactly the cross-stream edges of the transitive reduction, and a checker that misses none."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from gerules.backend.schedule import (
    Event,
    Schedule,
    ScheduleFlaw,
    Task,
    TaskGraph,
    build_task_graph,
    check_schedule,
    find_events,
)
from tests.backend.schedule.graphs import happens_before, task_graphs


@st.composite
def cases(draw: st.DrawFn) -> tuple[TaskGraph, tuple[int, ...], tuple[int, ...]]:
    graph = draw(task_graphs(max_size=20))
    n = len(graph.tasks)
    waits, steps = [len(needs) for needs in graph.needs], list[int]()
    while len(steps) < n:
        at = draw(st.sampled_from([at for at in range(n) if not waits[at] and at not in steps]))
        steps.append(at)
        for other in graph.feeds[at]:
            waits[other] -= 1
    n_streams = draw(st.integers(1, 5))
    streams = draw(st.lists(st.integers(0, n_streams - 1), min_size=n, max_size=n))
    return graph, tuple(steps), tuple(streams)


def dependencies(graph: TaskGraph, steps: tuple[int, ...], streams: tuple[int, ...]) -> nx.DiGraph:
    step_of = {at: step for step, at in enumerate(steps)}
    out = nx.DiGraph()
    out.add_nodes_from(range(len(steps)))
    out.add_edges_from((step_of[other], step_of[at]) for at in step_of for other in graph.needs[at])
    tail: dict[int, int] = {}
    for step, stream in enumerate(streams):
        if stream in tail:
            out.add_edge(tail[stream], step)
        tail[stream] = step
    return out


@given(cases())
def test_events_are_the_transitive_reduction_between_streams(
    case: tuple[TaskGraph, tuple[int, ...], tuple[int, ...]],
) -> None:
    graph, steps, streams = case
    reduced = nx.transitive_reduction(dependencies(graph, steps, streams))
    want = {(a, b) for a, b in reduced.edges if streams[a] != streams[b]}
    events = find_events(graph, steps, streams)
    assert {(event.record, event.wait) for event in events} == want
    assert [event.id for event in events] == list(range(len(want)))


@given(cases(), st.data())
def test_the_checker_finds_what_the_closure_lacks(
    case: tuple[TaskGraph, tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    graph, steps, streams = case
    full = Schedule(steps, streams, find_events(graph, steps, streams))
    assert check_schedule(graph, full) == []
    dropped = data.draw(st.sets(st.sampled_from(full.events or (Event(0, 0, 0),))))
    schedule = replace(full, events=tuple(event for event in full.events if event not in dropped))
    order = happens_before(schedule)
    want = {
        (b, a)
        for a, b in dependencies(graph, steps, streams).edges
        if streams[a] != streams[b] and not order.has_edge(a, b)
    }
    assert {(flaw.step, flaw.other) for flaw in check_schedule(graph, schedule)} == want
    # Every event of a minimal set is missed.
    assert bool(want) == (len(schedule.events) < len(full.events))


def test_three_readers_on_another_stream_need_one_event() -> None:
    tasks = [Task(0, (), (0,), "a"), *(Task(i, (0,), (i,), "b") for i in (1, 2, 3))]
    graph = build_task_graph(tasks, {})
    assert find_events(graph, range(4), (0, 1, 1, 1)) == (Event(0, 0, 1),)


def test_bad_schedules_are_named() -> None:
    graph = build_task_graph([Task(0, (), (0,), "a"), Task(1, (0,), (1,), "a")], {})
    assert check_schedule(graph, Schedule((0, 0), (0, 0), ()))[0].kind == "not a permutation"
    assert check_schedule(graph, Schedule((0, 1), (0,), ()))[0].kind == "stream missing"
    assert check_schedule(graph, Schedule((1, 0), (0, 0), ())) == [ScheduleFlaw("unordered", 0, 1)]
    backwards = Schedule((0, 1), (0, 1), (Event(0, 1, 0),))
    assert {flaw.kind for flaw in check_schedule(graph, backwards)} == {"bad event", "unordered"}
    twice = Schedule((0, 1), (0, 1), (Event(0, 0, 1), Event(0, 0, 1)))
    assert [flaw.kind for flaw in check_schedule(graph, twice)] == ["bad event"]
