"""Plans that were broken on purpose: the checks name them, and the outputs of a poisoned run show them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gerules.backend.emit import emit
from gerules.backend.om import OmError, OmModel, OmTasks, TaskType, read_om
from gerules.backend.om.write import om_chunks
from gerules.backend.plans import Plans, find_flaws, make_plans
from gerules.backend.schedule import EngineRule, StreamOptions
from gerules.ir import Graph, parse_graph
from gerules.runtime.compare import compare
from gerules.runtime.executor import Executor
from gerules.runtime.reference import evaluate

TEXT = """
graph chain:
    opset "" 18
    input x: f32[4, 256]
    a: f32[4, 256] = Softmax(x)
    b: f32[256, 4] = Transpose(a, perm=[1, 0])
    c: f32[256, 4] = Softmax(b)
    d: f32[4, 256] = Transpose(c, perm=[1, 0])
    y: f32[4, 256] = Sub(d, a)
    return y
"""
FEEDS = {"x": np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)}


@pytest.fixture
def graph() -> Graph:
    return parse_graph(TEXT)


def _id(graph: Graph, name: str) -> int:
    return next(value.id for value in graph.values.values() if value.name == name)


def _run(graph: Graph, plans: Plans, *, poison: bool) -> float:
    model = emit(graph, plans, engines={})
    executor = Executor(read_om(b"".join(om_chunks(model))))
    return compare(executor.run(FEEDS, poison=poison), evaluate(graph, FEEDS)).max_rel


def test_the_plan_as_made_is_right(graph: Graph) -> None:
    plans = make_plans(graph, {})
    assert find_flaws(plans) == []
    assert _run(graph, plans, poison=True) < 1e-5


def test_a_lifetime_that_is_too_short_shows_under_poison(graph: Graph) -> None:
    plans = make_plans(graph, {})
    a = _id(graph, "a")
    shorter = tuple(
        replace(life, last=life.first + 1, last_read=None) if life.id == a else life
        for life in plans.lifetimes
    )
    broken = replace(plans, lifetimes=shorter, in_place=tuple(w for w in plans.in_place if w.input != a))
    # Nobody took the bytes over, so without poison the run cannot know.
    assert _run(graph, broken, poison=False) < 1e-5
    assert not _run(graph, broken, poison=True) < 1e-3


def test_two_values_over_each_other_are_found_and_show(graph: Graph) -> None:
    plans = make_plans(graph, {})
    a, c = _id(graph, "a"), _id(graph, "c")
    broken = replace(plans, offsets={**plans.offsets, c: plans.offsets[a] + 512})
    assert any("overlap" in flaw for flaw in find_flaws(broken))
    assert not _run(graph, broken, poison=True) < 1e-3


def test_an_offset_outside_the_arena_is_found_and_refused(graph: Graph) -> None:
    plans = make_plans(graph, {})
    a = _id(graph, "a")
    for offset in (plans.memory.peak_bytes, -512, 2**60):
        broken = replace(plans, offsets={**plans.offsets, a: offset})
        assert find_flaws(broken)
        with pytest.raises(OmError) as caught:
            _run(graph, broken, poison=False)
        assert caught.value.code == "E80031"


def _two_streams(graph: Graph) -> tuple[OmModel, Plans]:
    engines = {node: "ab"[at % 2] for at, node in enumerate(graph.nodes)}
    plans = make_plans(graph, engines, streams=StreamOptions(rules={"b": EngineRule()}))
    assert plans.schedule.n_streams == 2 and plans.schedule.events
    return emit(graph, plans, engines=engines), plans


def test_a_lost_wait_is_found_in_plans_and_in_files(graph: Graph) -> None:
    model, plans = _two_streams(graph)
    broken = replace(plans, schedule=replace(plans.schedule, events=plans.schedule.events[1:]))
    assert find_flaws(broken)
    tasks = tuple(task for task in model.tasks.tasks if task.type != TaskType.EVENT_WAIT)
    _refused(replace(model, tasks=OmTasks(tasks)))


@pytest.mark.parametrize("change", ["twice", "never", "early", "unknown", "kind"])
def test_orders_that_are_none_are_refused(graph: Graph, change: str) -> None:
    model, _ = _two_streams(graph)
    tasks = list(model.tasks.tasks)
    kernels = [at for at, task in enumerate(tasks) if task.type == TaskType.KERNEL]
    match change:
        case "twice":
            tasks.append(tasks[kernels[0]])
        case "never":
            del tasks[kernels[-1]]
        case "early":
            tasks = [replace(task, stream_id=0) for task in tasks]
            tasks[kernels[0]], tasks[kernels[1]] = tasks[kernels[1]], tasks[kernels[0]]
        case "unknown":
            tasks[kernels[0]] = replace(tasks[kernels[0]], op_id=12345)
        case _:
            tasks.append(replace(tasks[kernels[0]], type=TaskType.LABEL_GOTO, kernel=None, op_id=None))
    _refused(replace(model, tasks=OmTasks(tuple(tasks))))


def _refused(model: OmModel) -> None:
    with pytest.raises(OmError) as caught:
        Executor(read_om(b"".join(om_chunks(model))))
    assert caught.value.code == "E80032"


def test_a_fault_on_one_stream_ends_the_others(graph: Graph) -> None:
    model, _ = _two_streams(graph)
    executor = Executor(read_om(b"".join(om_chunks(model))))

    def fail(value: int, item: object) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        executor.run(FEEDS, threads=True, keep=fail)
    assert compare(executor.run(FEEDS, threads=True), evaluate(graph, FEEDS)).max_rel < 1e-5
