"""The schedule: order, streams and events together, and an independent check that they suffice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from gerules.backend.schedule.events import Event, find_events
from gerules.backend.schedule.order import choose_order
from gerules.backend.schedule.streams import StreamOptions, assign_streams
from gerules.backend.schedule.tasks import TaskGraph


@dataclass(frozen=True, slots=True)
class Schedule:
    """When tasks are issued, on which stream, and what waits for what.

    Attributes:
        steps: Positions in `TaskGraph.tasks`, in the order of issue; a step is an index into this.
        streams: The stream of each step.
        events: Recorded after one step and waited for before a later one.
    """

    steps: tuple[int, ...]
    streams: tuple[int, ...]
    events: tuple[Event, ...]

    @property
    def n_streams(self) -> int:
        """How many streams are used."""
        return max(self.streams, default=-1) + 1

    @property
    def waits(self) -> tuple[tuple[int, int], ...]:
        """The events as pairs of steps."""
        return tuple((event.record, event.wait) for event in self.events)


@dataclass(frozen=True, slots=True)
class ScheduleFlaw:
    """What is wrong with a schedule: `step` has the fault, `other` is what it should have waited for."""

    kind: Literal["not a permutation", "stream missing", "bad event", "unordered"]
    step: int
    other: int


def build_schedule(
    graph: TaskGraph, options: StreamOptions | None = None, *, keep_order: bool = False
) -> Schedule:
    """Order the tasks for a low peak, give them streams, and find the fewest events.

    Args:
        keep_order: Issue the tasks in the order given.

    Raises:
        ScheduleError: E60022, E60023; see `assign_streams`.
    """
    steps = tuple(range(len(graph.tasks))) if keep_order else choose_order(graph).steps
    streams = assign_streams(graph, steps, options or StreamOptions())
    return Schedule(steps, streams, find_events(graph, steps, streams))


def check_schedule(graph: TaskGraph, schedule: Schedule) -> list[ScheduleFlaw]:
    """Return every dependency that nothing enforces, and every event that makes no sense.

    Independent of how events are found: the schedule is replayed, each step remembering what it has seen.

    Cost: O((n + events + dependencies) x streams).
    """
    n = len(graph.tasks)
    if sorted(schedule.steps) != list(range(n)):
        return [ScheduleFlaw("not a permutation", -1, -1)]
    if len(schedule.streams) != n or min(schedule.streams, default=0) < 0:
        return [ScheduleFlaw("stream missing", len(schedule.streams), -1)]
    flaws: list[ScheduleFlaw] = []
    waits: defaultdict[int, list[int]] = defaultdict(list)
    ids: set[int] = set()
    for event in schedule.events:
        # Waiting for what is issued later could wait forever.
        if event.id in ids or not 0 <= event.record < event.wait < n:
            flaws.append(ScheduleFlaw("bad event", event.wait, event.record))
            continue
        ids.add(event.id)
        waits[event.wait].append(event.record)
    step_of = {at: step for step, at in enumerate(schedule.steps)}
    recorded = {event.record for event in schedule.events}
    snapshots: dict[int, dict[int, int]] = {}
    running: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for step, at in enumerate(schedule.steps):
        seen = running[schedule.streams[step]]
        for record in waits.get(step, ()):
            for stream, last in snapshots[record].items():
                seen[stream] = max(last, seen.get(stream, -1))
        for other in graph.needs[at]:
            before = step_of[other]
            if seen.get(schedule.streams[before], -1) < before:
                flaws.append(ScheduleFlaw("unordered", step, before))
        seen[schedule.streams[step]] = step
        if step in recorded:
            snapshots[step] = dict(seen)
    return flaws
