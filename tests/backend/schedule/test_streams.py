"""Streams by engine and label, as the graph engine's own tests expect them."""

from __future__ import annotations

import pytest
from hypothesis import given

from gerules.backend.schedule import (
    EngineRule,
    ScheduleError,
    StreamOptions,
    Task,
    TaskGraph,
    assign_streams,
    build_schedule,
    build_task_graph,
    check_schedule,
)
from tests.backend.schedule.graphs import stream_options, task_graphs

ATTACH = EngineRule("attach")


def chain(engines: str, labels: tuple[str, ...] = ()) -> TaskGraph:
    labels = labels or ("",) * len(engines)
    rows = zip(engines, labels, strict=True)
    tasks = [Task(i, (i - 1,) if i else (), (i,), e, label=label) for i, (e, label) in enumerate(rows)]
    return build_task_graph(tasks, {})


def assign(graph: TaskGraph, options: StreamOptions | None = None) -> tuple[int, ...]:
    return assign_streams(graph, range(len(graph.tasks)), options or StreamOptions())


def test_a_chain_of_one_engine_is_one_stream() -> None:
    assert assign(chain("aaaa")) == (0, 0, 0, 0)


def test_different_engines_have_different_streams() -> None:
    assert assign(chain("abc")) == (0, 1, 2)


def test_an_engine_that_comes_back_reuses_its_stream() -> None:
    assert assign(chain("abab"), StreamOptions({"a": EngineRule(max_parallel=9)})) == (0, 1, 0, 1)


def test_attached_engines_ride_along() -> None:
    assert assign(chain("axxb"), StreamOptions({"x": ATTACH})) == (0, 0, 0, 1)
    assert assign(chain("xxab"), StreamOptions({"x": ATTACH})) == (0, 0, 0, 1)


def test_equal_labels_share_a_stream() -> None:
    assert assign(chain("aaaaa", ("1", "2", "1", "2", "2"))) == (0, 1, 0, 1, 1)


def test_a_label_and_none_are_apart() -> None:
    assert assign(chain("aaaa", ("1", "1", "", ""))) == (0, 0, 1, 1)


@pytest.mark.parametrize(("limit", "want"), [(100, (0, 1, 2, 3)), (1, (0, 0, 0, 0)), (2, (0, 1, 0, 1))])
def test_branches_open_streams_up_to_the_limit(limit: int, want: tuple[int, ...]) -> None:
    tasks = [Task(0, (), (0,), "a"), *(Task(i, (0,), (i,), "a") for i in (1, 2, 3))]
    graph = build_task_graph(tasks, {})
    got = assign(graph, StreamOptions({"a": EngineRule(max_parallel=limit)}))
    assert got[:3] == want[:3]
    assert set(got) == set(want)


def test_a_residual_connection_opens_no_stream() -> None:
    tasks = [Task(0, (), (0,), "a"), Task(1, (0,), (1,), "a"), Task(2, (0, 1), (2,), "a")]
    assert assign(build_task_graph(tasks, {}), StreamOptions({"a": EngineRule(max_parallel=8)})) == (0, 0, 0)


def test_later_branches_reuse_idle_streams() -> None:
    """Two blocks of three branches and a join: three streams do for both."""
    tasks = [Task(0, (), (0,), "a")]
    for block in range(2):
        top = 4 * block
        tasks += [Task(top + k, (top,), (top + k,), "a") for k in (1, 2, 3)]
        tasks.append(Task(top + 4, (top + 1, top + 2, top + 3), (top + 4,), "a"))
    streams = assign(build_task_graph(tasks, {}), StreamOptions({"a": EngineRule(max_parallel=3)}))
    assert len(set(streams[1:4])) == 3
    assert len(set(streams[5:8])) == 3


def test_single_stream_mode_puts_all_on_stream_0() -> None:
    assert assign(chain("abc"), StreamOptions(is_single=True)) == (0, 0, 0)


def test_single_stream_mode_refuses_labels() -> None:
    with pytest.raises(ScheduleError, match="E60023") as caught:
        assign(chain("ab", ("fast", "")), StreamOptions(is_single=True))
    assert "fast" in str(caught.value)


def test_automatic_streams_are_refused_before_labels() -> None:
    with pytest.raises(ScheduleError, match="E60023") as caught:
        assign(chain("ab", ("fast", "")), StreamOptions(is_single=True, is_auto=True))
    assert "automatic" in str(caught.value)


def test_collectives_have_a_stream_of_their_own_and_wait_in_front() -> None:
    options = StreamOptions({"hccl": EngineRule("independent"), "x": ATTACH})
    tasks = [
        Task(0, (), (0,), "core"),
        Task(1, (0,), (1,), "hccl"),
        Task(2, (0,), (2,), "core"),
        Task(3, (1, 2), (3,), "core"),
    ]
    schedule = build_schedule(build_task_graph(tasks, {}), options, keep_order=True)
    assert schedule.streams == (0, 1, 0, 0)
    assert schedule.waits == ((0, 1), (1, 3))


def test_independent_engines_are_told_apart_by_label() -> None:
    options = StreamOptions({"h": EngineRule("independent")})
    assert assign(chain("hhh", ("1", "", "1")), options) == (0, 1, 0)


def test_more_streams_than_the_device_has_are_an_error() -> None:
    graph = chain("aaa", ("1", "2", "3"))
    with pytest.raises(ScheduleError, match="E60022"):
        assign(graph, StreamOptions(max_streams=2))
    assert assign(graph, StreamOptions(max_streams=3)) == (0, 1, 2)


@given(task_graphs(), stream_options())
def test_streams_are_dense_within_limits_and_one_engine_each(
    graph: TaskGraph, options: StreamOptions
) -> None:
    streams = assign(graph, options)
    assert list(dict.fromkeys(streams)) == list(range(max(streams) + 1))
    for engine in ("cube", "vector"):
        rule = options.rules.get(engine, EngineRule())
        mine = {s for s, task in zip(streams, graph.tasks, strict=True) if task.engine == engine}
        if rule.kind != "attach":
            assert len(mine) <= (1 if rule.kind == "independent" else rule.max_parallel)


@given(task_graphs(), stream_options())
def test_a_schedule_passes_its_checker(graph: TaskGraph, options: StreamOptions) -> None:
    assert check_schedule(graph, build_schedule(graph, options)) == []
