"""An independent check of a memory plan: it shares no code with the planner, only the records.

Time runs in half steps: a value written at step `f` and last read at `l` holds its bytes over `[2f, 2l + 2)`.
A granted in-place output takes over in the middle of its step, so the two never overlap.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gerules.backend.memory.coalesce import InPlace
from gerules.backend.memory.lifetimes import Lifetime

FlawKind = Literal[
    "overlap",
    "no offset",
    "negative offset",
    "misaligned",
    "above the limit",
    "alias apart",
    "in place apart",
]


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong with a plan.

    `other`, `first_step` and `last_step` say with whom and when, for flaws between two values.
    """

    kind: FlawKind
    id: int
    other: int | None = None
    first_step: int | None = None
    last_step: int | None = None


def lower_bound(lifetimes: Iterable[Lifetime], align_bytes: int = 1) -> int:
    """The most bytes alive at one step, each size rounded up to the alignment.

    Cost: O(n log n).
    """
    change: defaultdict[int, int] = defaultdict(int)
    for life in lifetimes:
        padded = (life.size_bytes + align_bytes - 1) // align_bytes * align_bytes
        change[life.first] += padded
        change[life.last + 1] -= padded
    most = alive = 0
    for step in sorted(change):
        alive += change[step]
        most = max(most, alive)
    return most


def check_plan(
    lifetimes: Sequence[Lifetime],
    offsets: Mapping[int, int],
    *,
    align_bytes: int = 1,
    limit_bytes: int | None = None,
    aliases: Iterable[tuple[int, int]] = (),
    in_place: Iterable[InPlace] = (),
    max_flaws: int = 1_000,
) -> list[Flaw]:
    """Return everything that is wrong with `offsets`, at most `max_flaws` flaws.

    `lifetimes` are those of the values themselves, not of the buffers they were coalesced to. `aliases` have
    to be at one offset; `in_place` are the wishes that were granted, which excuse the step they name.

    Cost: O(n log n + flaws).
    """
    flaws: list[Flaw] = []
    placed: list[Lifetime] = []
    for life in lifetimes:
        if life.size_bytes == 0:
            continue
        offset = offsets.get(life.id)
        if offset is None:
            flaws.append(Flaw("no offset", life.id))
            continue
        if offset < 0:
            flaws.append(Flaw("negative offset", life.id))
        if offset % align_bytes:
            flaws.append(Flaw("misaligned", life.id))
        if limit_bytes is not None and offset + life.size_bytes > limit_bytes:
            flaws.append(Flaw("above the limit", life.id))
        placed.append(life)
    known = {life.id: life for life in placed}
    group = _groups(known, aliases)
    for value, root in group.items():
        if offsets[value] != offsets[root]:
            flaws.append(Flaw("alias apart", value, root))
    spans = _spans(placed, group, offsets)
    _excuse(spans, group, known, offsets, in_place, flaws)
    _sweep(spans, flaws, max_flaws)
    return flaws[:max_flaws]


@dataclass(slots=True)
class _Span:
    """Bytes `[low, high)` held over half steps `[begin, end)`."""

    id: int
    low: int
    high: int
    begin: int
    end: int


def _groups(known: Mapping[int, Lifetime], aliases: Iterable[tuple[int, int]]) -> dict[int, int]:
    near: defaultdict[int, list[int]] = defaultdict(list)
    for one, two in aliases:
        if one in known and two in known:
            near[one].append(two)
            near[two].append(one)
    group: dict[int, int] = {}
    for start in near:
        if start in group:
            continue
        group[start], stack = start, [start]
        while stack:
            for value in near[stack.pop()]:
                if value not in group:
                    group[value] = start
                    stack.append(value)
    return group


def _spans(
    placed: Sequence[Lifetime], group: Mapping[int, int], offsets: Mapping[int, int]
) -> dict[tuple[int, int], _Span]:
    """One span for each alias group at each offset: members at one offset count as one."""
    spans: dict[tuple[int, int], _Span] = {}
    for life in placed:
        low = offsets[life.id]
        key = (group.get(life.id, life.id), low)
        begin, end, high = 2 * life.first, 2 * life.last + 2, low + life.size_bytes
        span = spans.get(key)
        if span is None:
            spans[key] = _Span(life.id, low, high, begin, end)
            continue
        span.begin, span.end, span.high = min(span.begin, begin), max(span.end, end), max(span.high, high)
    return spans


def _excuse(
    spans: Mapping[tuple[int, int], _Span],
    group: Mapping[int, int],
    known: Mapping[int, Lifetime],
    offsets: Mapping[int, int],
    in_place: Iterable[InPlace],
    flaws: list[Flaw],
) -> None:
    """Let each granted in-place output take over in the middle of its step."""
    for wish in in_place:
        if wish.input not in known or wish.output not in known:
            continue
        source = spans[group.get(wish.input, wish.input), offsets[wish.input]]
        goal = spans[group.get(wish.output, wish.output), offsets[wish.output]]
        if (source.low, source.high) != (goal.low, goal.high):
            flaws.append(Flaw("in place apart", wish.output, wish.input))
            continue
        step = goal.begin // 2
        life = known[wish.input]
        is_held_for_order = wish.is_ordered and life.last_read == step
        is_given_up = source.end == 2 * step + 2 or is_held_for_order
        # A second output, or one that begins in the middle already, gets no excuse and shows as an overlap.
        if is_given_up and source.begin < goal.begin and goal.begin == 2 * step and not life.is_kept:
            source.end, goal.begin = 2 * step + 1, 2 * step + 1


def _sweep(spans: Mapping[tuple[int, int], _Span], flaws: list[Flaw], max_flaws: int) -> None:
    order = sorted(spans.values(), key=lambda span: (span.begin, span.low, span.id))
    leaving = sorted(range(len(order)), key=lambda k: order[k].end)
    live: list[tuple[int, int]] = []
    n_left, widest = 0, 0
    has_overlap = False
    for k, span in enumerate(order):
        while n_left < len(leaving) and order[leaving[n_left]].end <= span.begin:
            gone = leaving[n_left]
            del live[bisect_left(live, (order[gone].low, gone))]
            n_left += 1
        at = bisect_left(live, (span.low, -1))
        hits: list[int] = []
        right = at
        while right < len(live) and live[right][0] < span.high:
            hits.append(live[right][1])
            right += 1
        left = at - 1
        # Without overlaps so far, only the nearest one to the left can reach in.
        while left >= 0 and live[left][0] + widest > span.low:
            if order[live[left][1]].high > span.low:
                hits.append(live[left][1])
            if not has_overlap:
                break
            left -= 1
        for other in hits:
            end = min(order[other].end, span.end)
            flaws.append(Flaw("overlap", span.id, order[other].id, span.begin // 2, (end - 1) // 2))
            has_overlap = True
        if len(flaws) >= max_flaws:
            return
        insort(live, (span.low, k))
        widest = max(widest, span.high - span.low)
