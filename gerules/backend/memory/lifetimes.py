"""Lifetimes: from which step to which step a value needs its bytes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gerules.backend.memory.errors import MemoryPlanError
from gerules.errors import Faults, table


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The steps at which a value needs its bytes.

    A value is written at step `first` and may be read up to and including step `last`: its bytes are
    taken over the half-open range `[first, last + 1)`. The input and the output of one task
    therefore overlap, unless they are coalesced on purpose.

    Attributes:
        id: Who the value is; workspaces have negative ids (see `gerules.backend.schedule.workspace_id`).
        size_bytes: Bytes needed, before alignment.
        last_read: The step of the last reader, when `last` was moved beyond it (kept, or several streams).
        is_kept: Whether the bytes belong to the user for the whole run, so that nobody may take them over.
    """

    id: int
    size_bytes: int
    first: int
    last: int
    last_read: int | None = None
    is_kept: bool = False

    @property
    def end(self) -> int:
        """The first step at which the bytes are free again."""
        return self.last + 1


@dataclass(frozen=True, slots=True)
class LongLife:
    """A finding: bytes are held after their last reader."""

    id: int
    size_bytes: int
    last_read: int
    last: int
    is_kept: bool

    @property
    def n_steps(self) -> int:
        """How many steps the bytes are held for nothing."""
        return self.last - self.last_read


def keep(lifetimes: Sequence[Lifetime], ids: Collection[int], n_steps: int) -> list[Lifetime]:
    """Hold the values `ids` for all of `n_steps` steps, as is done for the inputs and outputs of a graph."""
    wanted, out = frozenset(ids), list[Lifetime]()
    for life in lifetimes:
        if life.id not in wanted:
            out.append(life)
            continue
        last_read = life.last if life.last_read is None else life.last_read
        held = max(life.last, n_steps - 1)
        out.append(replace(life, first=min(0, life.first), last=held, last_read=last_read, is_kept=True))
    return out


def find_long_lives(lifetimes: Sequence[Lifetime]) -> list[LongLife]:
    """Return the values whose bytes are held after their last reader, the most byte-steps first."""
    found = [
        LongLife(life.id, life.size_bytes, life.last_read, life.last, life.is_kept)
        for life in lifetimes
        if life.last_read is not None and life.last > life.last_read and life.size_bytes > 0
    ]
    return sorted(found, key=lambda item: (-item.size_bytes * item.n_steps, item.id))


def check_lifetimes(lifetimes: Sequence[Lifetime]) -> None:
    """Raise MemoryPlanError E60004 with every lifetime that makes no sense."""
    faults, seen = Faults(), set[int]()
    for life in lifetimes:
        if life.id in seen:
            faults.add(table.BAD_LIFETIME, id=life.id, reason="its id is given twice")
        seen.add(life.id)
        if life.size_bytes < 0:
            faults.add(table.BAD_LIFETIME, id=life.id, reason=f"its size is {life.size_bytes}")
        if life.last < life.first:
            faults.add(table.BAD_LIFETIME, id=life.id, reason=f"it ends at {life.last}, before {life.first}")
    faults.raise_if_any(MemoryPlanError)
