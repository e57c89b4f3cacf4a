"""Events: the fewest that order every dependency between streams.

A wait is needed only if no other path, over dependencies and stream order, leads from one task to the
other. These waits are the edges between streams in the transitive reduction of both together, so
the set is unique and minimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gerules.backend.schedule.tasks import TaskGraph


@dataclass(frozen=True, slots=True)
class Event:
    """`record` and `wait` are steps: recorded when the one is done, waited for before the other starts."""

    id: int
    record: int
    wait: int


def find_events(graph: TaskGraph, steps: Sequence[int], streams: Sequence[int]) -> tuple[Event, ...]:
    """Return the fewest events for an order and its streams; ids are dense and rise by the waiting step.

    Cost: O(n + cross-stream dependencies x streams); clocks are kept only until their last use.
    """
    step_of = [0] * len(steps)
    for step, at in enumerate(steps):
        step_of[at] = step
    n_asking = [0] * len(steps)
    for at, needs in enumerate(graph.needs):
        for other in needs:
            if streams[step_of[other]] != streams[step_of[at]]:
                n_asking[step_of[other]] += 1
    # A clock holds, for each stream, its last step known to be done; steps of one stream rise.
    n_streams = max(streams, default=-1) + 1
    of_stream: list[list[int]] = [[-1] * n_streams for _ in range(n_streams)]
    of_step: dict[int, list[int]] = {}
    events: list[Event] = []
    for step, at in enumerate(steps):
        stream = streams[step]
        clock = of_stream[stream][:]
        crossing = [step_of[other] for other in graph.needs[at] if streams[step_of[other]] != stream]
        # A later step cannot be known through an earlier one, so going down each wait that counts is found
        # before those it makes needless.
        for other in sorted(crossing, reverse=True):
            if clock[streams[other]] < other:
                events.append(Event(len(events), other, step))
                clock = list(map(max, clock, of_step[other]))
        for other in crossing:
            n_asking[other] -= 1
            if not n_asking[other]:
                del of_step[other]
        clock[stream] = step
        of_stream[stream] = clock
        if n_asking[step]:
            of_step[step] = clock
    return tuple(events)
