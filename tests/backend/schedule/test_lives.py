"""Lifetimes of schedules: safe over several streams, exact over one; races as the closure has them."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.backend.memory import (
    InPlace,
    Lifetime,
    check_plan,
    coalesce,
    find_long_lives,
    find_races,
    plan_memory,
    share_by_order,
    spread_offsets,
)
from gerules.backend.schedule import (
    EngineRule,
    Schedule,
    StreamOptions,
    Task,
    TaskGraph,
    build_schedule,
    build_task_graph,
    find_accesses,
    find_events,
    find_horizons,
    find_lifetimes,
    prove_in_place,
    workspace_id,
)
from tests.backend.schedule.graphs import happens_before, stream_options, task_graphs


@given(task_graphs(), st.data())
def test_horizons_are_what_the_closure_says(graph: TaskGraph, data: st.DataObject) -> None:
    n = len(graph.tasks)
    streams = tuple(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    schedule = Schedule(tuple(range(n)), streams, find_events(graph, range(n), streams))
    order = happens_before(schedule)
    want = [max([s] + [t for t in range(s, n) if t != s and not order.has_edge(s, t)]) for s in range(n)]
    assert find_horizons(schedule) == want


@given(task_graphs(), st.data(), st.booleans())
def test_plans_of_many_streams_have_no_races(
    graph: TaskGraph, data: st.DataObject, is_in_place: bool
) -> None:
    n = len(graph.tasks)
    streams = tuple(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    schedule = Schedule(tuple(range(n)), streams, find_events(graph, range(n), streams))
    kept = data.draw(st.sets(st.sampled_from([*graph.inputs, *range(n)]), max_size=2))
    lives = find_lifetimes(graph, schedule, kept=kept)
    wishes = [InPlace(i, v) for i, t in enumerate(graph.tasks) for v in t.reads] if is_in_place else []
    known = {life.id for life in lives}
    wishes = [wish for wish in wishes if {wish.input, wish.output} <= known]
    shared = coalesce(lives, in_place=prove_in_place(graph, schedule, wishes))
    offsets = spread_offsets(plan_memory(shared.lifetimes, align_bytes=1), shared)
    assert check_plan(lives, offsets, in_place=shared.taken) == []
    pairs = [(wish.output, wish.input) for wish in shared.taken]
    accesses = find_accesses(graph, schedule, kept=kept)
    assert find_races(accesses, offsets, streams, schedule.waits, in_place=pairs) == []


@given(task_graphs(), st.data())
def test_races_are_found_exactly_when_the_closure_has_one(graph: TaskGraph, data: st.DataObject) -> None:
    n = len(graph.tasks)
    streams = tuple(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    schedule = Schedule(tuple(range(n)), streams, find_events(graph, range(n), streams))
    accesses = find_accesses(graph, schedule)
    offsets = {access.id: data.draw(st.integers(0, 25)) for access in accesses}
    order = happens_before(schedule)

    def is_before(a: int, b: int) -> bool:
        if a == -1:
            return b != -1
        return a < n and b != -1 and order.has_edge(a, b)

    racing = False
    for k, one in enumerate(accesses):
        for two in accesses[:k]:
            low = max(offsets[one.id], offsets[two.id])
            if low >= min(offsets[one.id] + one.size_bytes, offsets[two.id] + two.size_bytes):
                continue
            steps_one, steps_two = (one.writer, *one.readers), (two.writer, *two.readers)
            is_ordered = all(is_before(s, two.writer) for s in steps_one) or all(
                is_before(s, one.writer) for s in steps_two
            )
            racing = racing or not is_ordered
    assert bool(find_races(accesses, offsets, streams, schedule.waits)) == racing


def two_branches() -> tuple[TaskGraph, Schedule]:
    """Stream 0 writes and reads value 1; stream 1 runs beside it, not ordered against it."""
    tasks = [
        Task(0, (), (0,), "a"),
        Task(1, (0,), (1,), "a"),
        Task(2, (1,), (2,), "a"),
        Task(3, (0,), (3,), "b"),
        Task(4, (2, 3), (4,), "a"),
    ]
    graph = build_task_graph(tasks, dict.fromkeys(range(5), 512), outputs=[4])
    return graph, build_schedule(graph, keep_order=True)


def test_issue_order_alone_would_reuse_too_early() -> None:
    graph, schedule = two_branches()
    assert schedule.streams == (0, 0, 0, 1, 0)
    # By issue order value 1 is dead at step 3, but step 3 may run before step 2 has read it.
    naive = {0: 0, 1: 512, 2: 1024, 3: 512, 4: 0}
    (race,) = {
        (r.old, r.new, r.reader, r.writer)
        for r in find_races(find_accesses(graph, schedule), naive, schedule.streams, schedule.waits)
        if r.reader == 2
    }
    assert race == (1, 3, 2, 3)
    lives = {life.id: life for life in find_lifetimes(graph, schedule)}
    assert (lives[1].last, lives[1].last_read) == (3, 2)
    assert [item.id for item in find_long_lives(list(lives.values()))] == [1]


def test_one_stream_has_exact_lifetimes() -> None:
    graph, _ = two_branches()
    schedule = build_schedule(graph, StreamOptions(is_single=True), keep_order=True)
    assert find_lifetimes(graph, schedule) == [
        Lifetime(0, 512, 0, 3),
        Lifetime(1, 512, 1, 2),
        Lifetime(2, 512, 2, 4),
        Lifetime(3, 512, 3, 4),
        Lifetime(4, 512, 4, 5),
    ]


def test_workspaces_live_for_one_step_and_inputs_from_the_start() -> None:
    tasks = [Task(0, (7,), (0,), "a", workspace_bytes=64), Task(1, (0, 7, 9), (1,), "a")]
    graph = build_task_graph(tasks, {7: 10, 0: 20, 1: 30}, outputs=[1])
    assert graph.inputs == (7,)
    lives = find_lifetimes(graph, build_schedule(graph))
    assert lives[0] == Lifetime(7, 10, 0, 1)
    assert lives[-1] == Lifetime(workspace_id(0), 64, 0, 0)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_in_place_over_streams_needs_the_other_readers_done(is_ordered: bool) -> None:
    tasks = [
        Task(0, (), (0,), "a"),
        Task(1, (0,), (1,), "b"),
        Task(2, (0, 1) if is_ordered else (0,), (2,), "a"),
        Task(3, (1, 2), (3,), "a"),
    ]
    graph = build_task_graph(tasks, dict.fromkeys(range(4), 512), outputs=[3])
    schedule = build_schedule(graph, keep_order=True)
    assert schedule.streams == (0, 1, 0, 0)
    wishes = prove_in_place(graph, schedule, [InPlace(2, 0)])
    assert wishes == ([InPlace(2, 0, is_ordered=True)] if is_ordered else [])
    shared = coalesce(find_lifetimes(graph, schedule), in_place=wishes)
    assert bool(shared.taken) == is_ordered
    races = find_races(
        find_accesses(graph, schedule),
        {0: 0, 1: 512, 2: 0, 3: 1024},
        schedule.streams,
        schedule.waits,
        in_place=[(2, 0)],
    )
    assert bool(races) != is_ordered


@given(task_graphs(max_size=25), stream_options())
def test_built_schedules_plan_without_races(graph: TaskGraph, options: StreamOptions) -> None:
    schedule = build_schedule(graph, options)
    lives = find_lifetimes(graph, schedule)
    plan = plan_memory(lives)
    assert find_races(find_accesses(graph, schedule), plan.offsets, schedule.streams, schedule.waits) == []


@given(task_graphs(), st.data(), st.booleans())
def test_sharing_by_order_has_no_races_and_no_higher_peak(
    graph: TaskGraph, data: st.DataObject, is_in_place: bool
) -> None:
    n = len(graph.tasks)
    streams = tuple(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    schedule = Schedule(tuple(range(n)), streams, find_events(graph, range(n), streams))
    kept = data.draw(st.sets(st.sampled_from([*graph.inputs, *range(n)]), max_size=2))
    lives = find_lifetimes(graph, schedule, kept=kept)
    known = {life.id for life in lives}
    wishes = [InPlace(i, v) for i, t in enumerate(graph.tasks) for v in t.reads] if is_in_place else []
    wishes = [wish for wish in wishes if {wish.input, wish.output} <= known]
    shared = coalesce(lives, in_place=prove_in_place(graph, schedule, wishes))
    by_lives = plan_memory(shared.lifetimes, align_bytes=1)
    accesses = find_accesses(graph, schedule, kept=kept)
    plan = share_by_order(by_lives, accesses, streams, schedule.waits, leader=shared.leader)
    assert plan.peak_bytes <= by_lives.peak_bytes
    assert plan.lower_bound_bytes <= plan.peak_bytes
    assert check_plan(plan.lifetimes, plan.offsets, align_bytes=1, limit_bytes=plan.peak_bytes) == []
    pairs = [(wish.output, wish.input) for wish in shared.taken]
    offsets = spread_offsets(plan, shared)
    assert find_races(accesses, offsets, streams, schedule.waits, in_place=pairs) == []


def test_sharing_by_order_lets_a_chain_alternate_beside_another_stream() -> None:
    """Task 8 is issued after the chain 1 to 7 but may run before it, and so stretches all its lifetimes."""
    tasks = [Task(0, (), (0,), "a"), *(Task(i, (i - 1,), (i,), "a") for i in range(1, 8))]
    tasks += [Task(8, (0,), (8,), "b"), Task(9, (7, 8), (9,), "a")]
    graph = build_task_graph(tasks, dict.fromkeys(range(10), 512), outputs=[9])
    schedule = build_schedule(graph, keep_order=True)
    assert schedule.streams == (0,) * 8 + (1, 0)
    by_lives = plan_memory(find_lifetimes(graph, schedule))
    accesses = find_accesses(graph, schedule)
    plan = share_by_order(by_lives, accesses, schedule.streams, schedule.waits)
    assert find_races(accesses, plan.offsets, schedule.streams, schedule.waits) == []
    # All of 0 to 8 at once; or 0 and 8, and the chain in two buffers by turns.
    assert (by_lives.peak_bytes, plan.peak_bytes) == (9 * 512, 4 * 512)


def test_the_last_task_cannot_take_over_an_output() -> None:
    tasks = [Task(0, (), (0,), "a"), Task(1, (0,), (1,), "a")]
    graph = build_task_graph(tasks, {0: 512, 1: 512}, outputs=[0, 1])
    schedule = build_schedule(graph)
    assert coalesce(find_lifetimes(graph, schedule), in_place=[InPlace(1, 0)]).taken == ()
    assert prove_in_place(graph, schedule, [InPlace(1, 0)]) == []


def test_a_rule_that_is_not_given_is_a_queue_of_one() -> None:
    assert EngineRule() == EngineRule("queue", 1)


def test_views_of_one_value_race_with_nobody_among_themselves() -> None:
    tasks = [Task(0, (), (0,), "a"), Task(1, (0,), (1,), "a"), Task(2, (1,), (2,), "a")]
    graph = build_task_graph(tasks, dict.fromkeys(range(3), 512), outputs=[2])
    schedule = build_schedule(graph)
    accesses, offsets = find_accesses(graph, schedule), {0: 0, 1: 0, 2: 512}
    assert find_races(accesses, offsets, schedule.streams, schedule.waits, aliases=[(0, 1)]) == []
    assert find_races(accesses, offsets, schedule.streams, schedule.waits) != []
    # A view that is still to be read keeps the bytes it shares.
    over = {0: 0, 1: 0, 2: 0}
    races = find_races(accesses, over, schedule.streams, schedule.waits, aliases=[(0, 1)])
    assert [(race.new, race.writer) for race in races] == [(2, 2)]


@given(task_graphs(), st.data())
def test_in_place_wishes_are_granted_as_the_closure_says(graph: TaskGraph, data: st.DataObject) -> None:
    n = len(graph.tasks)
    streams = tuple(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    schedule = Schedule(tuple(range(n)), streams, find_events(graph, range(n), streams))
    order = happens_before(schedule)
    wishes = [InPlace(i, v) for i, task in enumerate(graph.tasks) for v in task.reads]
    want = [
        wish
        for wish in wishes
        if wish.input not in graph.outputs
        and all(order.has_edge(at, wish.output) for at in graph.readers[wish.input] if at != wish.output)
    ]
    granted = prove_in_place(graph, schedule, wishes)
    assert [(wish.output, wish.input) for wish in granted] == [(wish.output, wish.input) for wish in want]


def test_many_readers_of_one_value_that_all_wish_for_it_cost_no_square() -> None:
    n = 20_000
    graph = build_task_graph(
        [Task(at, (n,), (at,), "a") for at in range(n)], dict.fromkeys(range(n + 1), 512), outputs=range(n)
    )
    schedule = build_schedule(graph, keep_order=True)
    tracemalloc.start()
    granted = prove_in_place(graph, schedule, [InPlace(at, n) for at in range(n)])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [wish.output for wish in granted] == [n - 1]
    assert peak_bytes < 64 << 20
