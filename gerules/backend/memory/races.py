"""An independent check of reuse over several streams: who shares bytes has to be ordered.

A plan made from lifetimes in issue order is safe only if the streams and events order every reuse. Here
each byte's owners are followed in issue order, and each change of owner is proven or reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BEFORE: Final = -1
"""The step of what is written before the run, such as a graph's inputs."""


@dataclass(frozen=True, slots=True)
class Access:
    """Which steps touch a value.

    `writer` is `BEFORE` for a graph's input; a value that must survive the run has a reader at
    the number of steps.
    """

    id: int
    size_bytes: int
    writer: int
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Race:
    """Step `writer` overwrites bytes of value `old`, though step `reader` may not be done with them."""

    old: int
    reader: int
    new: int
    writer: int


def find_races(
    accesses: Sequence[Access],
    offsets: Mapping[int, int],
    streams: Sequence[int],
    waits: Iterable[tuple[int, int]],
    *,
    aliases: Iterable[tuple[int, int]] = (),
    in_place: Iterable[tuple[int, int]] = (),
) -> list[Race]:
    """Return every reuse of bytes that streams and events do not order.

    Two values may share bytes only if all that touch the older happen before the newer is written. Only
    neighbours in time are compared at each byte: the order is transitive.

    Args:
        streams: The stream of each step, in issue order.
        waits: (recorded after step, waited for before step).
        aliases: Pairs that are one value in two shapes.
        in_place: (output, input): the output may overwrite the input in the very step that reads it.

    Cost: O(n log n + steps x streams), with clocks kept only while somebody needs them.
    """
    values = _merge_aliases(accesses, aliases)
    root_of = {member: root for root, members in values.items() for member in members}
    granted = {(root_of[new], root_of[old]) for new, old in in_place if new in root_of and old in root_of}
    by_id = {access.id: access for access in accesses}
    born: defaultdict[int, list[int]] = defaultdict(list)
    touched: dict[int, list[int]] = {}
    for root, members in values.items():
        steps = [step for member in members for step in (by_id[member].writer, *by_id[member].readers)]
        touched[root] = steps
        if any(by_id[member].size_bytes and member in offsets for member in members):
            born[min(steps)].append(root)
    clocks = _Clocks(streams, waits)
    owners = _Owners()
    races: list[Race] = []

    def take(root: int, step: int) -> None:
        ranges = {
            (offsets[member], offsets[member] + by_id[member].size_bytes)
            for member in values[root]
            if member in offsets and by_id[member].size_bytes
        }
        for low, high in sorted(ranges):
            for old in owners.paint(low, high, root):
                if old == root:
                    continue
                for touch in sorted(set(touched[old])):
                    if touch == BEFORE and step != BEFORE:
                        continue
                    if touch == step and step != BEFORE and (root, old) in granted:
                        continue
                    if not clocks.is_done(touch):
                        races.append(Race(old, touch, root, step))

    for root in born[BEFORE]:
        take(root, BEFORE)
    for step in range(len(streams)):
        clocks.advance(step)
        for root in born.get(step, ()):
            take(root, step)
    return races


def _merge_aliases(accesses: Sequence[Access], aliases: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    near: defaultdict[int, list[int]] = defaultdict(list)
    known = {access.id for access in accesses}
    for one, two in aliases:
        if one in known and two in known:
            near[one].append(two)
            near[two].append(one)
    seen: set[int] = set()
    out: dict[int, list[int]] = {}
    for access in accesses:
        if access.id in seen:
            continue
        members, stack = list[int](), [access.id]
        seen.add(access.id)
        while stack:
            value = stack.pop()
            members.append(value)
            for other in near.get(value, ()):
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        out[access.id] = members
    return out


class _Clocks:
    """What is known to be done when a step starts: for each stream, how many of its steps."""

    def __init__(self, streams: Sequence[int], waits: Iterable[tuple[int, int]]) -> None:
        self._streams = streams
        self._place: list[int] = []
        count: defaultdict[int, int] = defaultdict(int)
        for stream in streams:
            self._place.append(count[stream])
            count[stream] += 1
        self._waits: defaultdict[int, list[int]] = defaultdict(list)
        self._last_wait: dict[int, int] = {}
        for record, wait in waits:
            self._waits[wait].append(record)
            self._last_wait[record] = max(wait, self._last_wait.get(record, -1))
        self._on_stream: dict[int, dict[int, int]] = {}
        self._recorded: dict[int, dict[int, int]] = {}
        self._now: dict[int, int] = {}

    def advance(self, step: int) -> None:
        """Start the next step in issue order."""
        stream = self._streams[step]
        now = dict(self._on_stream.get(stream, {}))
        for record in self._waits.get(step, ()):
            # A wait for something issued later orders nothing by the time the step runs.
            for other, count in self._recorded.get(record, {}).items():
                now[other] = max(count, now.get(other, 0))
            if self._last_wait[record] == step:
                self._recorded.pop(record, None)
        self._now = now
        after = {**now, stream: self._place[step] + 1}
        self._on_stream[stream] = after
        if step in self._last_wait:
            self._recorded[step] = after

    def is_done(self, step: int) -> bool:
        """Whether `step` happens before the step started last."""
        if not 0 <= step < len(self._streams):
            return False
        return self._now.get(self._streams[step], 0) > self._place[step]


class _Owners:
    """Who wrote each byte last, as disjoint ranges."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._ranges: list[tuple[int, int, int]] = []

    def paint(self, low: int, high: int, owner: int) -> list[int]:
        """Give `[low, high)` to `owner`; return whom it was taken from, each once."""
        first = max(0, bisect_right(self._lows, low) - 1)
        if first < len(self._ranges) and self._ranges[first][1] <= low:
            first += 1
        last = first
        keep: list[tuple[int, int, int]] = []
        before: dict[int, None] = {}
        while last < len(self._ranges) and self._ranges[last][0] < high:
            begin, end, old = self._ranges[last]
            before[old] = None
            if begin < low:
                keep.append((begin, low, old))
            if end > high:
                keep.append((high, end, old))
            last += 1
        keep.append((low, high, owner))
        keep.sort()
        self._ranges[first:last] = keep
        self._lows[first:last] = [item[0] for item in keep]
        return list(before)
