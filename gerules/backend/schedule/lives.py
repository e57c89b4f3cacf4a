"""Lifetimes of the values of a schedule, safe for any number of streams, and their accesses for the check."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from gerules.backend.memory.coalesce import InPlace
from gerules.backend.memory.lifetimes import Lifetime, keep
from gerules.backend.memory.races import BEFORE, Access
from gerules.backend.schedule.schedule import Schedule
from gerules.backend.schedule.tasks import TaskGraph, workspace_id


def find_lifetimes(graph: TaskGraph, schedule: Schedule, *, kept: Collection[int] = ()) -> list[Lifetime]:
    """Return the lifetime of every value and workspace in the arena, in steps of the schedule.

    A lifetime ends at the first step from which on everything issued happens after all that touch the
    value. With one stream that is the step after its last reader. With several it may be later:
    then any two lifetimes that do not overlap are ordered by streams and events, so that planning by
    intervals is safe, at the price of some bytes.

    Inputs live from step 0; outputs to the step after the last, which is no step but the end of the
    run. `kept` values are held for the whole run.

    Cost: O((n + events) x streams).
    """
    n = len(schedule.steps)
    step_of = _step_of(schedule)
    horizon = find_horizons(schedule)
    lives: list[Lifetime] = []
    written = [value for at in schedule.steps for value in graph.tasks[at].writes if value in graph.sizes]
    for value in (*graph.inputs, *written):
        writer = graph.writer.get(value)
        first = step_of[writer] if writer is not None else 0
        touches = [step_of[at] for at in graph.readers.get(value, ())]
        if writer is not None:
            touches.append(first)
        last_read = max(touches, default=first)
        last = max((horizon[step] for step in touches), default=first)
        if value in graph.outputs:
            # Past the last step: even that one's output may not take over a graph's output.
            last = last_read = n
        lives.append(_lifetime(value, graph.sizes[value], first, last, last_read))
    for step, at in enumerate(schedule.steps):
        task = graph.tasks[at]
        if task.workspace_bytes:
            lives.append(_lifetime(workspace_id(task.id), task.workspace_bytes, step, horizon[step], step))
    return keep(lives, kept, n) if kept else lives


def find_touches(lifetimes: Iterable[Lifetime], accesses: Iterable[Access]) -> list[Lifetime]:
    """Return lifetimes that reach from the first touch to the last, in the order of issue.

    They do not say what may share bytes over streams: `gerules.backend.memory.find_races` does.
    """
    touches = {access.id: (access.writer, *access.readers) for access in accesses}
    out: list[Lifetime] = []
    for life in lifetimes:
        steps = touches.get(life.id, (life.first, life.last))
        out.append(replace(life, first=max(0, min(steps)), last=max(0, *steps), last_read=None))
    return out


def find_horizons(schedule: Schedule) -> list[int]:
    """For each step, the last step issued that does not happen after it; itself when all later ones do.

    Cost: O((n + events) x streams).
    """
    n, n_streams = len(schedule.steps), schedule.n_streams
    if n_streams <= 1:
        return list(range(n))
    members: list[list[int]] = [[] for _ in range(n_streams)]
    place = [0] * n
    for step, stream in enumerate(schedule.streams):
        place[step] = len(members[stream])
        members[stream].append(step)
    woken: dict[int, list[int]] = {}
    n_waits: dict[int, int] = {}
    for record, wait in schedule.waits:
        woken.setdefault(record, []).append(wait)
        n_waits[wait] = n_waits.get(wait, 0) + 1
    # For each stream, the place of its first step that happens after the current one (or is it).
    ends = [len(line) for line in members]
    of_stream = [ends[:] for _ in range(n_streams)]
    of_step: dict[int, list[int]] = {}
    horizon = [0] * n
    for step in range(n - 1, -1, -1):
        stream = schedule.streams[step]
        first = of_stream[stream][:]
        for wait in woken.get(step, ()):
            first = list(map(min, first, of_step[wait]))
            n_waits[wait] -= 1
            if not n_waits[wait]:
                del of_step[wait]
        # On its own stream all later steps happen after it.
        horizon[step] = max(
            [step] + [members[s][at - 1] for s, at in enumerate(first) if s != stream and at > 0]
        )
        first[stream] = place[step]
        of_stream[stream] = first
        if step in n_waits:
            of_step[step] = first
    return horizon


def find_accesses(graph: TaskGraph, schedule: Schedule, *, kept: Collection[int] = ()) -> list[Access]:
    """Return which steps touch each value and workspace, for `gerules.backend.memory.find_races`."""
    n = len(schedule.steps)
    step_of = _step_of(schedule)
    held = frozenset(kept)
    out: list[Access] = []
    written = [value for at in schedule.steps for value in graph.tasks[at].writes if value in graph.sizes]
    for value in (*graph.inputs, *written):
        writer = graph.writer.get(value)
        readers = [step_of[at] for at in graph.readers.get(value, ())]
        first = step_of[writer] if writer is not None else BEFORE
        if value in held and writer is not None:
            readers.append(first)
            first = BEFORE
        if value in held or value in graph.outputs:
            readers.append(n)
        out.append(Access(value, graph.sizes[value], first, tuple(sorted(readers))))
    for step, at in enumerate(schedule.steps):
        task = graph.tasks[at]
        if task.workspace_bytes:
            out.append(Access(workspace_id(task.id), task.workspace_bytes, step, ()))
    return out


def prove_in_place(graph: TaskGraph, schedule: Schedule, wishes: Iterable[InPlace]) -> list[InPlace]:
    """Return, marked as ordered, the in-place wishes whose other readers are done when the writer starts.

    With several streams only these may go to `coalesce`: a lifetime tells what runs after a
    value's readers, not whether they run before the task that wants its bytes. The outputs of the graph are
    never given away.

    Cost: O(readers of the inputs + (n + events) x streams).
    """
    step_of = _step_of(schedule)
    open_wishes: list[tuple[InPlace, int, set[int]]] = []
    asked: dict[int, set[int]] = {}
    last_reader: dict[int, int] = {}
    for wish in wishes:
        writer = graph.writer.get(wish.output)
        readers = graph.readers.get(wish.input, ())
        if writer is None or wish.input in graph.outputs or not readers:
            continue
        if wish.input not in last_reader:
            last_reader[wish.input] = max(step_of[at] for at in readers)
        step = step_of[writer]
        # Only the reader that is issued last can find all others done. The rest need no sets: of a value
        # with many readers, each with a wish, those would grow with the square.
        if step != last_reader[wish.input]:
            continue
        others = {step_of[at] for at in readers} - {step}
        open_wishes.append((wish, step, others))
        asked.setdefault(step, set()).update(others)
    done = _done_before(schedule, asked)
    return [replace(wish, is_ordered=True) for wish, step, others in open_wishes if others <= done[step]]


def _done_before(schedule: Schedule, asked: dict[int, set[int]]) -> dict[int, set[int]]:
    """Of the steps asked about, those known to be done when the step that asks starts."""
    waits: dict[int, list[int]] = {}
    n_left: dict[int, int] = {}
    for record, wait in schedule.waits:
        waits.setdefault(wait, []).append(record)
        n_left[record] = n_left.get(record, 0) + 1
    of_stream = [[-1] * schedule.n_streams for _ in range(schedule.n_streams)]
    of_step: dict[int, list[int]] = {}
    out: dict[int, set[int]] = {}
    for step, stream in enumerate(schedule.streams):
        clock = of_stream[stream][:]
        for record in waits.get(step, ()):
            clock = list(map(max, clock, of_step[record]))
            n_left[record] -= 1
            if not n_left[record]:
                del of_step[record]
        if step in asked:
            out[step] = {other for other in asked[step] if clock[schedule.streams[other]] >= other}
        clock[stream] = step
        of_stream[stream] = clock
        if step in n_left:
            of_step[step] = clock
    return out


def _lifetime(value: int, size_bytes: int, first: int, last: int, last_read: int) -> Lifetime:
    return Lifetime(value, size_bytes, first, last, last_read if last_read != last else None)


def _step_of(schedule: Schedule) -> list[int]:
    step_of = [0] * len(schedule.steps)
    for step, at in enumerate(schedule.steps):
        step_of[at] = step
    return step_of
