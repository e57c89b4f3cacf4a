"""Streams: which tasks queue behind one another, by rules of their engines and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from gerules.backend.schedule.errors import ScheduleError
from gerules.backend.schedule.tasks import Task, TaskGraph
from gerules.errors import table

MAX_STREAMS: Final = 1024
"""Streams of a device. Source: max_stream_num of the platform files."""


@dataclass(frozen=True, slots=True)
class EngineRule:
    """How tasks of one engine get their stream.

    `queue` tasks follow a predecessor of their engine, or branch off while the engine has fewer than
    `max_parallel` streams; `attach` tasks ride the stream of whom they depend on; `independent`
    tasks have a stream of their own for each engine and label.
    """

    kind: Literal["queue", "attach", "independent"] = "queue"
    max_parallel: int = 1


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the user asks for.

    Attributes:
        rules: By engine; an engine without one has the default rule.
        is_single: All on stream 0.
        is_auto: Streams are to be found by the compiler; excludes `is_single`.
        max_streams: What the device has.
    """

    rules: Mapping[str, EngineRule] = field(default_factory=lambda: MappingProxyType(dict[str, EngineRule]()))
    is_single: bool = False
    is_auto: bool = False
    max_streams: int = MAX_STREAMS


_QUEUE: Final = EngineRule()


def assign_streams(graph: TaskGraph, steps: Sequence[int], options: StreamOptions) -> tuple[int, ...]:
    """Return the stream of each step of an order; ids are dense and rise by first use.

    The order itself is not changed. A queue task takes, in turn: the stream of its latest same-engine
    predecessor, unless that one has several branches and the engine may have another stream; an idle
    stream of the engine (its last task is known to be done); a new stream; the shortest stream of the engine.

    Raises:
        ScheduleError: E60023 for a single stream together with labels or automatic streams; E60022 when
            the device has too few.

    Cost: O(n * streams).
    """
    if options.is_single:
        if options.is_auto:
            raise ScheduleError(table.STREAM_OPTIONS_CONFLICT, other="automatic parallel streams")
        labels = sorted({task.label for task in graph.tasks if task.label})
        if labels:
            raise ScheduleError(table.STREAM_OPTIONS_CONFLICT, other=f"the stream label {labels[0]!r}")
        return (0,) * len(steps)
    assigner = _Assigner(graph, steps, options)
    return tuple(assigner.assign(step) for step in range(len(steps)))


class _Assigner:
    """Walks the order once; knows for each step which steps of each stream are done before it."""

    def __init__(self, graph: TaskGraph, steps: Sequence[int], options: StreamOptions) -> None:
        self._graph, self._steps, self._options = graph, steps, options
        self._step_of = [0] * len(steps)
        for step, at in enumerate(steps):
            self._step_of[at] = step
        self._n_branches = self._count_branches()
        self._stream_of: list[int] = []
        self._tail: list[int] = []
        self._length_us: list[float] = []
        self._clock_of_stream: list[list[int]] = []
        self._clock_of_step: dict[int, list[int]] = {}
        self._n_asking = [len(graph.feeds[at]) for at in steps]
        self._named: dict[tuple[str, str, str], int] = {}
        self._of_engine: dict[str, list[int]] = {}
        self._has_free_start = False

    def assign(self, step: int) -> int:
        """Choose the stream of the next step."""
        at = self._steps[step]
        task = self._graph.tasks[at]
        before = [self._step_of[other] for other in self._graph.needs[at]]
        known: list[int] = []
        for other in before:
            _raise_to(known, self._clock_of_step[other])
            self._n_asking[other] -= 1
            if not self._n_asking[other]:
                del self._clock_of_step[other]
        stream = self._choose(task, before, known)
        _raise_to(known, self._clock_of_stream[stream])
        known += [-1] * (stream + 1 - len(known))
        known[stream] = step
        self._clock_of_stream[stream] = known
        if self._n_asking[step]:
            self._clock_of_step[step] = known
        self._tail[stream] = step
        self._length_us[stream] += task.cost_us
        self._stream_of.append(stream)
        return stream

    def _count_branches(self) -> list[int]:
        """For each step, how many steps have it as their latest predecessor.

        A join that also reads something further up is no branch of that: it has to wait anyway.
        """
        count = [0] * len(self._steps)
        for needs in self._graph.needs:
            if needs:
                count[max(self._step_of[other] for other in needs)] += 1
        return count

    def _choose(self, task: Task, before: Sequence[int], known: Sequence[int]) -> int:
        rule = self._options.rules.get(task.engine, _QUEUE)
        if rule.kind == "independent":
            return self._open_named(("engine", task.engine, task.label))
        if task.label:
            return self._open_named(("label", "", task.label))
        if rule.kind == "attach":
            return self._attach(before)
        return self._queue(task.engine, rule, before, known)

    def _attach(self, before: Sequence[int]) -> int:
        if before:
            return self._stream_of[max(before)]
        if not self._tail:
            self._has_free_start = True
            return self._open()
        return 0

    def _queue(self, engine: str, rule: EngineRule, before: Sequence[int], known: Sequence[int]) -> int:
        own = self._of_engine.setdefault(engine, [])
        if not own and self._has_free_start:
            # Tasks that ride along opened stream 0; the first that does not owns it.
            self._has_free_start = False
            own.append(0)
            return 0
        latest = max((other for other in before if self._stream_of[other] in own), default=-1)
        may_open = len(own) < rule.max_parallel
        if latest >= 0 and (self._n_branches[latest] <= 1 or rule.max_parallel == 1):
            return self._stream_of[latest]
        if latest < 0 or not may_open:
            idle = [s for s in own if s < len(known) and known[s] >= self._tail[s]]
            if idle:
                home = self._stream_of[latest] if latest >= 0 else idle[0]
                return home if home in idle else idle[0]
        if may_open or not own:
            own.append(self._open())
            return own[-1]
        return min(own, key=lambda s: (self._length_us[s], s))

    def _open_named(self, key: tuple[str, str, str]) -> int:
        if key not in self._named:
            self._named[key] = self._open()
        return self._named[key]

    def _open(self) -> int:
        limit = self._options.max_streams
        if len(self._tail) >= limit:
            raise ScheduleError(table.TOO_MANY_STREAMS, needed=f"at least {limit + 1}", limit=limit)
        self._tail.append(-1)
        self._length_us.append(0.0)
        self._clock_of_stream.append([])
        return len(self._tail) - 1


def _raise_to(known: list[int], other: Sequence[int]) -> None:
    """Take the later of two clocks, in place; a clock says nothing of the streams it is too short for."""
    known += [-1] * (len(other) - len(known))
    for stream, step in enumerate(other):
        if step > known[stream]:
            known[stream] = step
