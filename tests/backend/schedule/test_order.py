"""Orders: topological, never worse than the one given, and near what trying all gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from gerules.backend.memory import lower_bound
from gerules.backend.schedule import (
    Schedule,
    ScheduleError,
    Task,
    TaskGraph,
    build_task_graph,
    choose_order,
    find_lifetimes,
    order_lower_bound,
    peak_bytes,
)
from tests.backend.schedule.graphs import task_graphs


def all_orders(graph: TaskGraph, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if len(done) == len(graph.tasks):
        yield done
    for at in range(len(graph.tasks)):
        if at not in done and all(other in done for other in graph.needs[at]):
            yield from all_orders(graph, (*done, at))


@given(task_graphs())
def test_the_order_is_topological_and_no_worse_than_the_one_given(graph: TaskGraph) -> None:
    order = choose_order(graph)
    assert sorted(order.steps) == list(range(len(graph.tasks)))
    place = {at: step for step, at in enumerate(order.steps)}
    assert all(place[other] < place[at] for at in place for other in graph.needs[at])
    assert order.lower_bound_bytes <= order.peak_bytes <= peak_bytes(graph, range(len(graph.tasks)))
    assert order.peak_bytes == min(order.peaks.values()) == peak_bytes(graph, order.steps)
    assert choose_order(graph) == order


@given(task_graphs(max_size=6))
def test_a_small_order_is_the_best_there_is(graph: TaskGraph) -> None:
    # The beam is wide enough to hold every set of tasks done, so it is exact here.
    assert choose_order(graph).peak_bytes == min(peak_bytes(graph, steps) for steps in all_orders(graph))


@given(task_graphs())
def test_the_peak_is_what_the_lifetimes_add_up_to(graph: TaskGraph) -> None:
    steps = choose_order(graph).steps
    schedule = Schedule(steps, (0,) * len(steps), ())
    assert lower_bound(find_lifetimes(graph, schedule)) == peak_bytes(graph, steps)


def test_branches_are_run_one_after_another() -> None:
    """Eight heads, given breadth first: each big value should be dropped before the next is made."""
    tasks = [Task(0, (), (0,), "cube")]
    sizes = {0: 1}
    for head in range(8):
        tasks.append(Task(1 + head, (0,), (1 + head,), "cube"))
        sizes[1 + head] = 100
    for head in range(8):
        tasks.append(Task(9 + head, (1 + head,), (9 + head,), "vector"))
        sizes[9 + head] = 1
    tasks.append(Task(17, tuple(range(9, 17)), (17,), "vector"))
    sizes[17] = 1
    graph = build_task_graph(tasks, sizes, outputs=[17])
    order = choose_order(graph)
    assert order.peaks["given"] == 801
    assert order.peak_bytes < 120
    assert order.lower_bound_bytes == order_lower_bound(graph) == 101


def test_a_given_order_at_the_bound_is_kept() -> None:
    tasks = [Task(i, (i - 1,) if i else (), (i,), "cube") for i in range(5)]
    order = choose_order(build_task_graph(tasks, dict.fromkeys(range(5), 4)))
    assert (order.method, order.steps) == ("given", (0, 1, 2, 3, 4))


def test_no_tasks_are_no_trouble() -> None:
    assert choose_order(build_task_graph([], {})).steps == ()


def test_faults_of_the_tasks_are_reported_together() -> None:
    tasks = [
        Task(0, (), (0,), "cube", workspace_bytes=-1),
        Task(0, (), (0,), "cube", after=(9,)),
        Task(2, (-5,), (), "cube", cost_us=float("nan")),
    ]
    with pytest.raises(ScheduleError) as caught:
        build_task_graph(tasks, {0: -3})
    assert {item.code.code for item in caught.value.diagnostics} == {"E60020"}
    assert len(caught.value.diagnostics) == 7


def test_a_cycle_is_no_order() -> None:
    with pytest.raises(ScheduleError, match="E60021"):
        build_task_graph([Task(0, (1,), (0,), "cube"), Task(1, (0,), (1,), "cube")], {})
    with pytest.raises(ScheduleError, match="E60021"):
        build_task_graph([Task(0, (0,), (0,), "cube")], {})
