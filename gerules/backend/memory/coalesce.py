"""Values that share one buffer: no-copy views that must, and in-place outputs that may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from gerules.backend.memory.errors import MemoryPlanError
from gerules.backend.memory.lifetimes import Lifetime, check_lifetimes
from gerules.backend.memory.plan import MemoryPlan
from gerules.errors import Faults, table

Refusal = Literal[
    "sizes differ",
    "the input is read later",
    "the input is not older than the output",
    "the buffer was handed on already",
    "the output has a buffer already",
    "the buffer is kept",
]


@dataclass(frozen=True, slots=True)
class InPlace:
    """A wish: let `output` take over the buffer of `input`, which the task that writes it reads.

    The caller vouches that the task's kernel allows it. `is_ordered` says that every other reader of
    the input is known to be done when the task starts. With one stream the lifetimes say so by
    themselves; with several they cannot, and only wishes that are ordered may be given (see
    `gerules.backend.schedule.prove_in_place`).
    """

    output: int
    input: int
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class Coalesced:
    """Buffers to plan, in place of the values they stand for.

    `leader` gives the buffer of every value (its own id when it shares with nobody). `taken` are
    the in-place wishes that were granted, `refused` the others, each with its reason.
    """

    lifetimes: tuple[Lifetime, ...]
    leader: Mapping[int, int]
    taken: tuple[InPlace, ...]
    refused: tuple[tuple[InPlace, Refusal], ...]


def coalesce(
    lifetimes: Sequence[Lifetime],
    *,
    aliases: Iterable[tuple[int, int]] = (),
    in_place: Iterable[InPlace] = (),
) -> Coalesced:
    """Merge values that share a buffer, so that the planner sees one lifetime for each buffer.

    Aliases are obeyed: their lifetimes are united and the larger size counts. In-place wishes are granted in
    the order given, where sizes are equal, the input dies at the step that writes the output, nobody
    else took it over, and neither is kept.

    Raises:
        MemoryPlanError: E60007 for ids without a lifetime; E60004 for lifetimes that make no sense.

    Cost: nearly linear.
    """
    check_lifetimes(lifetimes)
    by_id = {life.id: life for life in lifetimes}
    pairs, wishes = list(aliases), list(in_place)
    faults = Faults()
    named = [v for pair in pairs for v in pair] + [v for wish in wishes for v in (wish.output, wish.input)]
    for value in dict.fromkeys(named):
        if value not in by_id:
            faults.add(table.BAD_ALIAS, id=value, reason="it has no lifetime")
    faults.raise_if_any(MemoryPlanError)

    alias_of = _Union(by_id)
    for one, two in pairs:
        alias_of.join(one, two)
    classes = _unite(lifetimes, alias_of)
    buffer_of = _Union(by_id)
    buffers = dict(classes)
    handed_on, filled = set[int](), set[int]()
    taken: list[InPlace] = []
    refused: list[tuple[InPlace, Refusal]] = []
    for wish in wishes:
        source, goal = alias_of.find(wish.input), alias_of.find(wish.output)
        reason = _refusal(wish, classes[source], classes[goal])
        if reason is None and source in handed_on:
            reason = "the buffer was handed on already"
        if reason is None and goal in filled:
            reason = "the output has a buffer already"
        if reason is not None:
            refused.append((wish, reason))
            continue
        handed_on.add(source)
        filled.add(goal)
        taken.append(wish)
        one, two = buffers.pop(buffer_of.find(source)), buffers.pop(buffer_of.find(goal))
        buffers[buffer_of.join(source, goal)] = _hull(one, two)
    leader = {life.id: buffer_of.find(alias_of.find(life.id)) for life in lifetimes}
    merged = tuple(replace(buffer, id=root) for root, buffer in sorted(buffers.items()))
    return Coalesced(merged, MappingProxyType(leader), tuple(taken), tuple(refused))


def spread_offsets(plan: MemoryPlan, coalesced: Coalesced) -> dict[int, int]:
    """Return the offset of every value, from a plan of the buffers they share."""
    return {value: plan.offsets[leader] for value, leader in coalesced.leader.items()}


def _refusal(wish: InPlace, source: Lifetime, goal: Lifetime) -> Refusal | None:
    if source.is_kept or goal.is_kept:
        return "the buffer is kept"
    if source.size_bytes != goal.size_bytes:
        return "sizes differ"
    if source.first >= goal.first:
        return "the input is not older than the output"
    last = source.last
    if wish.is_ordered and source.last_read is not None:
        last = source.last_read
    return "the input is read later" if last != goal.first else None


def _unite(lifetimes: Sequence[Lifetime], alias_of: _Union) -> dict[int, Lifetime]:
    out: dict[int, Lifetime] = {}
    for life in lifetimes:
        root = alias_of.find(life.id)
        out[root] = _hull(out[root], life) if root in out else life
    return out


def _hull(one: Lifetime, two: Lifetime) -> Lifetime:
    reads = [life.last if life.last_read is None else life.last_read for life in (one, two)]
    last, last_read = max(one.last, two.last), max(reads)
    return Lifetime(
        id=one.id,
        size_bytes=max(one.size_bytes, two.size_bytes),
        first=min(one.first, two.first),
        last=last,
        last_read=last_read if last_read != last else None,
        is_kept=one.is_kept or two.is_kept,
    )


class _Union:
    """Disjoint sets of ids; the smallest id leads its set, so that the outcome has no chance in it."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._up = {value: value for value in ids}

    def find(self, value: int) -> int:
        """The leader of the value's set."""
        up = self._up
        while up[value] != value:
            up[value] = up[up[value]]
            value = up[value]
        return value

    def join(self, one: int, two: int) -> int:
        """Unite two sets and return their leader."""
        one, two = sorted((self.find(one), self.find(two)))
        self._up[two] = one
        return one
