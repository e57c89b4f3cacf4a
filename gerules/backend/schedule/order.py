"""The order of execution: several ways to order tasks, of which the one with the lowest peak is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, Literal

from gerules.backend.schedule.tasks import TaskGraph

OrderMethod = Literal["given", "reverse depth first", "least growth", "beam"]

_BEAM_TASKS: Final = 2_000
"""Tasks up to which the beam is tried: its states hold a bit for each task."""

_BEAM_EXPANSIONS: Final = 400_000
"""Tasks tried over the whole beam; sets its width."""

_BEAM_WIDTH: Final = 64


@dataclass(frozen=True, slots=True)
class Order:
    """Positions of tasks in the order to issue them, and the peak of live bytes it gives.

    `peaks` has the peak of each order that was tried. `lower_bound_bytes` is what the hungriest task
    needs by itself, which no order can avoid.
    """

    steps: tuple[int, ...]
    peak_bytes: int
    lower_bound_bytes: int
    method: OrderMethod
    peaks: Mapping[OrderMethod, int]


def choose_order(graph: TaskGraph) -> Order:
    """Return the order with the lowest peak among {given, reverse DFS, least growth, beam}.

    Never worse than the order given; among equals the given one stays, then the simpler.

    Cost: O((n + reads) log n), and for small graphs a beam of bounded width on top.
    """
    given = tuple(range(len(graph.tasks)))
    bound = order_lower_bound(graph)
    best, method, peak = given, "given", peak_bytes(graph, given)
    peaks: dict[OrderMethod, int] = {"given": peak}
    ways: tuple[OrderMethod, ...] = ("reverse depth first", "least growth", "beam")
    for way in ways:
        if peak <= bound:
            break
        steps = _order_by(graph, way)
        if not steps:
            continue
        peaks[way] = peak_bytes(graph, steps)
        if peaks[way] < peak:
            best, method, peak = tuple(steps), way, peaks[way]
    return Order(best, peak, bound, method, peaks)


def peak_bytes(graph: TaskGraph, steps: Sequence[int]) -> int:
    """The most bytes alive at one step of an order: inputs, outputs and workspaces included."""
    left = {value: len(readers) for value, readers in graph.readers.items()}
    sizes = graph.sizes
    alive = sum(sizes[value] for value in graph.inputs)
    peak = alive
    for at in steps:
        task = graph.tasks[at]
        alive += sum(sizes.get(value, 0) for value in task.writes)
        peak = max(peak, alive + task.workspace_bytes)
        for value in dict.fromkeys(task.reads):
            left[value] -= 1
            if not left[value] and value not in graph.outputs:
                alive -= sizes.get(value, 0)
        for value in task.writes:
            if value not in left and value not in graph.outputs:
                alive -= sizes.get(value, 0)
    return peak


def order_lower_bound(graph: TaskGraph) -> int:
    """What no order can avoid: the hungriest task alone, all inputs at the start, all outputs at the end."""
    sizes = graph.sizes
    bound = max(
        sum(sizes[value] for value in graph.inputs),
        sum(sizes.get(value, 0) for value in graph.outputs),
    )
    for task in graph.tasks:
        values = {*task.reads, *task.writes}
        bound = max(bound, sum(sizes.get(value, 0) for value in values) + task.workspace_bytes)
    return bound


def _order_by(graph: TaskGraph, way: OrderMethod) -> list[int]:
    if way == "reverse depth first":
        return _reverse_depth_first(graph)
    if way == "least growth":
        return _least_growth(graph)
    return _beam(graph)


def _reverse_depth_first(graph: TaskGraph) -> list[int]:
    """From the ends backwards: each task as late as those that need it allow."""
    is_seen = bytearray(len(graph.tasks))
    out: list[int] = []
    for end in range(len(graph.tasks)):
        if graph.feeds[end] or is_seen[end]:
            continue
        is_seen[end] = 1
        stack = [(end, iter(graph.needs[end]))]
        while stack:
            at, rest = stack[-1]
            for before in rest:
                if not is_seen[before]:
                    is_seen[before] = 1
                    stack.append((before, iter(graph.needs[before])))
                    break
            else:
                out.append(at)
                stack.pop()
    return out


def _least_growth(graph: TaskGraph) -> list[int]:
    """Always the ready task that adds the fewest bytes; among equals the one that frees most."""
    sizes, tasks = graph.sizes, graph.tasks
    left = {value: len(readers) for value, readers in graph.readers.items()}
    # The sum of the readers left tells who the last one is, once only one is left.
    left_sum = {value: sum(readers) for value, readers in graph.readers.items()}
    waits = [len(needs) for needs in graph.needs]
    frees = [0] * len(tasks)
    takes = [0] * len(tasks)
    for at, task in enumerate(tasks):
        for value in task.writes:
            size = sizes.get(value, 0)
            takes[at] += size
            if value not in left and value not in graph.outputs:
                frees[at] += size
        for value in dict.fromkeys(task.reads):
            if left[value] == 1 and value not in graph.outputs:
                frees[at] += sizes.get(value, 0)
    heap = [(takes[at] - frees[at], -frees[at], at) for at in range(len(tasks)) if not waits[at]]
    heapify(heap)
    out: list[int] = []
    is_done = bytearray(len(tasks))
    while heap:
        _, freed, at = heappop(heap)
        if is_done[at] or -freed != frees[at]:
            continue
        is_done[at] = 1
        out.append(at)
        for value in dict.fromkeys(tasks[at].reads):
            left[value] -= 1
            left_sum[value] -= at
            if left[value] != 1 or value in graph.outputs or not sizes.get(value):
                continue
            last = left_sum[value]
            frees[last] += sizes[value]
            if not waits[last]:
                heappush(heap, (takes[last] - frees[last], -frees[last], last))
        for other in graph.feeds[at]:
            waits[other] -= 1
            if not waits[other]:
                heappush(heap, (takes[other] - frees[other], -frees[other], other))
    return out


@dataclass(frozen=True, slots=True)
class _Trail:
    """The last task done, and the trail before it; states share what they have in common."""

    at: int
    before: _Trail | None


@dataclass(frozen=True, slots=True)
class _State:
    """A set of tasks done, and how it was reached."""

    done: int
    live: int
    peak: int
    ready: tuple[int, ...]
    trail: _Trail | None


def _beam(graph: TaskGraph) -> list[int]:
    """Breadth first over sets of tasks done, keeping the few with the lowest peaks; empty if too large."""
    n = len(graph.tasks)
    if not 0 < n <= _BEAM_TASKS:
        return []
    width = min(_BEAM_WIDTH, _BEAM_EXPANSIONS // (4 * n))
    needs = [_mask(before) for before in graph.needs]
    readers = {value: _mask(at) for value, at in graph.readers.items()}
    start = tuple(at for at in range(n) if not needs[at])
    alive = sum(graph.sizes[value] for value in graph.inputs)
    states = [_State(0, alive, alive, start, None)]
    n_left = _BEAM_EXPANSIONS
    for _ in range(n):
        best: dict[int, _State] = {}
        for state in states:
            n_left -= len(state.ready)
            for at in state.ready:
                _extend(graph, state, at, needs, readers, best)
        states = sorted(best.values(), key=lambda state: (state.peak, state.live, state.done))[:width]
        if n_left < 0:
            # Many ready tasks make states dear: go on with the best one alone.
            width = 1
    out: list[int] = []
    trail = states[0].trail
    while trail is not None:
        out.append(trail.at)
        trail = trail.before
    return out[::-1]


def _extend(
    graph: TaskGraph,
    state: _State,
    at: int,
    needs: Sequence[int],
    readers: Mapping[int, int],
    best: dict[int, _State],
) -> None:
    task, sizes = graph.tasks[at], graph.sizes
    done = state.done | 1 << at
    live = state.live + sum(sizes.get(value, 0) for value in task.writes)
    peak = max(state.peak, live + task.workspace_bytes)
    for value in {*task.reads, *task.writes}:
        if value not in graph.outputs and not readers.get(value, 0) & ~done:
            live -= sizes.get(value, 0)
    known = best.get(done)
    if known is not None and (known.peak, known.live) <= (peak, live):
        return
    woken = tuple(other for other in graph.feeds[at] if not needs[other] & ~done)
    ready = tuple(other for other in state.ready if other != at) + woken
    best[done] = _State(done, live, peak, ready, _Trail(at, state.trail))


def _mask(positions: Iterable[int]) -> int:
    mask = 0
    for at in positions:
        mask |= 1 << at
    return mask
