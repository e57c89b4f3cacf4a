"""Memory plans of generated networks: how far above the lower bound, and the time beside plain first fit.

Run `python bench/memory.py [n_buffers ...]`; prints Markdown. Times are of the processor, and given as ratios
to first fit by size of the same buffers in the same process, so that they mean the same on every
machine; us/buffer is of this one.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from gerules.backend.memory import Lifetime, check_plan, find_races, plan_memory, share_by_order
from gerules.backend.memory.cliques import build_parts
from gerules.backend.memory.firstfit import place_first_fit
from gerules.backend.schedule import (
    EngineRule,
    StreamOptions,
    Task,
    TaskGraph,
    build_schedule,
    build_task_graph,
    check_schedule,
    choose_order,
    find_accesses,
    find_lifetimes,
)

ALIGN_BYTES = 512

PLANTED_LIMIT = 10_000
"""Planted cases above this are left out: the whole budget is spent on each."""

T = TypeVar("T")


class Net:
    """A network under construction: each call appends one task and returns the value it writes."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.sizes: dict[int, int] = {}

    def op(self, reads: Sequence[int], size_bytes: int, *, engine: str = "cube", workspace: int = 0) -> int:
        value = len(self.tasks)
        self.tasks.append(Task(value, tuple(reads), (value,), engine, workspace_bytes=workspace))
        self.sizes[value] = size_bytes
        return value

    def graph(self, outputs: Sequence[int]) -> TaskGraph:
        return build_task_graph(self.tasks, self.sizes, outputs=outputs)


def transformer(n_buffers: int, *, is_trained: bool, n_heads: int = 4) -> TaskGraph:
    """Layers of attention, head by head, and a feed-forward part; trained ones go back over all they made."""
    net, wide, hidden = Net(), 2048 * 1024 * 2, 2048 * 4096 * 2
    per_layer = (8 + 4 * n_heads) * (2 if is_trained else 1)
    x = net.op([], wide)
    forward: list[tuple[int, list[int]]] = []
    for layer in range(max(1, n_buffers // per_layer)):
        # Vocabulary of sizes as real models have them: padded heads differ a little from layer to layer.
        score = 2048 * 2048 * 2 + 4096 * (layer % 7)
        made = [net.op([x], wide, engine="vector")]
        heads: list[int] = []
        for _ in range(n_heads):
            qkv = net.op([made[0]], 3 * wide // n_heads, workspace=65_536)
            scores = net.op([qkv], score)
            soft = net.op([scores], score, engine="vector")
            heads.append(net.op([soft, qkv], wide // n_heads))
            made += [qkv, soft]
        joined = net.op(heads, wide, engine="vector")
        attended = net.op([joined], wide)
        summed = net.op([x, attended], wide, engine="vector")
        normed = net.op([summed], wide, engine="vector")
        up = net.op([normed], hidden)
        act = net.op([up], hidden, engine="vector")
        down = net.op([act], wide)
        made += [joined, summed, normed, up, act]
        forward.append((x, made))
        x = net.op([summed, down], wide, engine="vector")
    if not is_trained:
        return net.graph([x])
    grad = net.op([x], wide, engine="vector")
    for source, made in reversed(forward):
        for value in reversed(made):
            grad = net.op([grad, value], net.sizes[value])
            net.op([grad, value], 1 + net.sizes[value] // 8)
        grad = net.op([grad, source], wide, engine="vector")
    return net.graph([grad])


def branched(n_buffers: int) -> TaskGraph:
    """Blocks of four branches of uneven depth and a concat, as in inception."""
    net, random = Net(), Random(1)
    x = net.op([], 1 << 20)
    while len(net.tasks) < n_buffers:
        ends: list[int] = []
        for depth in (1, 2, 3, 2):
            value = x
            for _ in range(depth):
                value = net.op(
                    [value], 4096 * random.randrange(16, 256), workspace=4096 * random.randrange(8)
                )
            ends.append(value)
        x = net.op(ends, sum(net.sizes[end] for end in ends), engine="vector")
    return net.graph([x])


def lives_of(graph: TaskGraph) -> list[Lifetime]:
    return find_lifetimes(graph, build_schedule(graph, StreamOptions(is_single=True), keep_order=True))


def lives_over_streams(graph: TaskGraph) -> list[Lifetime]:
    """Lifetimes over eight streams for matrices and one for the rest: many nest over thousands of steps."""
    rules = {"cube": EngineRule(max_parallel=8), "vector": EngineRule(max_parallel=1)}
    return find_lifetimes(graph, build_schedule(graph, StreamOptions(rules), keep_order=True))


def random_lives(n_buffers: int, width: int = 40) -> list[Lifetime]:
    """Sizes without a pattern and short lives: nothing a network would do, and hard to pack."""
    random, out = Random(n_buffers), list[Lifetime]()
    for i in range(n_buffers):
        first = random.randrange(n_buffers)
        out.append(Lifetime(i, random.randrange(1, 1 << 20), first, first + random.randrange(width)))
    return out


def planted_lives(n_buffers: int) -> list[Lifetime]:
    """A full rectangle cut at random, so that a placement without any gap exists: the hardest there is."""
    random = Random(n_buffers)
    pieces = [(0, 4 * n_buffers, ALIGN_BYTES * 4 * n_buffers)]
    while len(pieces) < n_buffers:
        at = random.randrange(len(pieces))
        first, end, size = pieces[at]
        if random.random() < 0.5 and end - first > 1:
            cut = random.randrange(first + 1, end)
            pieces[at] = (first, cut, size)
            pieces.append((cut, end, size))
        elif size > ALIGN_BYTES:
            part = ALIGN_BYTES * random.randrange(1, size // ALIGN_BYTES)
            pieces[at] = (first, end, part)
            pieces.append((first, end, size - part))
    return [Lifetime(i, size, first, end - 1) for i, (first, end, size) in enumerate(pieces)]


NETS: dict[str, Callable[[int], list[Lifetime]]] = {
    "transformer inference": lambda n: lives_of(transformer(n, is_trained=False)),
    "transformer training": lambda n: lives_of(transformer(n, is_trained=True)),
    "transformer training, 9 streams": lambda n: lives_over_streams(transformer(n, is_trained=True)),
    "branched convolutions": lambda n: lives_of(branched(n)),
    "random lives": random_lives,
    "planted without gaps": planted_lives,
}


def timed(call: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def first_fit_peak(lives: list[Lifetime]) -> int:
    peak = 0
    for part in build_parts(lives, ALIGN_BYTES):
        size = part.packing.size
        order = sorted(range(len(size)), key=lambda i: (-size[i], i))
        offsets = place_first_fit(part.packing, order)
        peak = max(peak, *(at + size[i] for i, at in enumerate(offsets)))
    return peak


def breadth_first(graph: TaskGraph) -> TaskGraph:
    """The same tasks in the order of a queue, as a framework that issues what is ready would give them."""
    waits = [len(needs) for needs in graph.needs]
    queue = deque(at for at, n in enumerate(waits) if not n)
    tasks: list[Task] = []
    while queue:
        at = queue.popleft()
        tasks.append(graph.tasks[at])
        for other in graph.feeds[at]:
            waits[other] -= 1
            if not waits[other]:
                queue.append(other)
    return build_task_graph(tasks, graph.sizes, outputs=graph.outputs)


def print_row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_placement(counts: Sequence[int]) -> None:
    head = "lives of", "buffers", "peak / bound", "first fit / bound", "found by", "tries", "us/buffer"
    print_row(*head, "time / first fit")
    print_row(*["---"] * (len(head) + 1))
    for name, make in NETS.items():
        for count in counts:
            if make is planted_lives and count > PLANTED_LIMIT:
                continue
            lives = make(count)
            plan, took = timed(lambda lives=lives: plan_memory(lives, align_bytes=ALIGN_BYTES))
            peak, plain = timed(lambda lives=lives: first_fit_peak(lives))
            if check_plan(lives, plan.offsets, align_bytes=ALIGN_BYTES, limit_bytes=plan.peak_bytes):
                raise SystemExit(f"{name}: the checker refused the plan")
            above = f"{plan.ratio:.5f}", f"{peak / plan.lower_bound_bytes:.5f}"
            times = f"{took / len(lives) * 1e6:.1f}", f"{took / plain:.2f}"
            print_row(name, len(lives), *above, plan.method, plan.n_tries, *times)


def print_schedules(count: int) -> None:
    head = "graph", "tasks", "order peak / breadth first", "peak / bound", "order by", "streams"
    print_row(*head, "cross edges", "events", "plan by lifetimes / one-stream peak", "by proven order")
    print_row(*["---"] * (len(head) + 4))
    graphs = {
        "transformer inference": transformer(count, is_trained=False, n_heads=16),
        "transformer training": transformer(count, is_trained=True),
        "branched convolutions": branched(count),
    }
    rules = {"cube": EngineRule(max_parallel=3), "vector": EngineRule(max_parallel=1)}
    for name, made in graphs.items():
        graph = breadth_first(made)
        order = choose_order(graph)
        schedule = build_schedule(graph, StreamOptions(rules))
        stream_of = dict(zip(schedule.steps, schedule.streams, strict=True))
        crossing = sum(
            stream_of[at] != stream_of[other] for at, needs in enumerate(graph.needs) for other in needs
        )
        by_lives = plan_memory(find_lifetimes(graph, schedule))
        accesses = find_accesses(graph, schedule)
        plan = share_by_order(by_lives, accesses, schedule.streams, schedule.waits)
        races = find_races(accesses, plan.offsets, schedule.streams, schedule.waits)
        if races or check_schedule(graph, schedule):
            raise SystemExit(f"{name}: a checker refused the plan")
        peaks = (
            f"{order.peak_bytes / order.peaks['given']:.3f}",
            f"{order.peak_bytes / order.lower_bound_bytes:.3f}",
        )
        cost = f"{by_lives.peak_bytes / order.peak_bytes:.3f}", f"{plan.peak_bytes / order.peak_bytes:.3f}"
        events = schedule.n_streams, crossing, len(schedule.events)
        print_row(name, len(graph.tasks), *peaks, order.method, *events, *cost)


if __name__ == "__main__":
    print_placement([int(word) for word in sys.argv[1:]] or [1_000, 10_000, 100_000])
    print()
    print_schedules(1_000)
