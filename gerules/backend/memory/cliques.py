"""Cliques: lifetimes written over the sets of values that are alive together, instead of over steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gerules.backend.memory.lifetimes import Lifetime


@dataclass(frozen=True, slots=True)
class Packing:
    """What the placers work on: buffers as ranges of cliques, sizes already aligned.

    Buffer `i` takes `[low[i], high[i])` of the `n_cliques` cliques and `size[i]` bytes in each; it
    lives for `width[i]` steps. Two buffers overlap in time exactly when their ranges of cliques do.
    `total[s]` is the sum of sizes in clique `s`; the largest is a lower bound on every height.
    """

    low: list[int]
    high: list[int]
    size: list[int]
    width: list[int]
    n_cliques: int
    total: list[int]

    @property
    def lower_bound(self) -> int:
        """The most bytes alive at one time."""
        return max(self.total, default=0)


@dataclass(frozen=True, slots=True)
class Part:
    """A packing that shares no moment with the others, and which of the given buffers it holds."""

    members: list[int]
    packing: Packing


def align_up(size_bytes: int, align_bytes: int) -> int:
    """Round up to a multiple of the alignment."""
    return -(-size_bytes // align_bytes) * align_bytes


def build_parts(lifetimes: Sequence[Lifetime], align_bytes: int) -> list[Part]:
    """Compress lifetimes to cliques and cut where nothing is alive on both sides.

    Values of size zero are left out. `members` of a part index `lifetimes`.

    Cost: O(n log n).
    """
    ids = [i for i, life in enumerate(lifetimes) if life.size_bytes > 0]
    births = sorted(ids, key=lambda i: (lifetimes[i].first, i))
    deaths = sorted(ids, key=lambda i: (lifetimes[i].last, i))
    parts: list[Part] = []
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    members: list[int] = []
    clique, n_dead, was_birth = 0, 0, False
    n_births = len(births)
    for n_born in range(n_births + 1):
        now = lifetimes[births[n_born]].first if n_born < n_births else None
        # Deaths come first at equal times: the bytes are free from `last + 1` on.
        while n_dead < len(deaths) and (now is None or lifetimes[deaths[n_dead]].last < now):
            if was_birth:
                clique, was_birth = clique + 1, False
            high[deaths[n_dead]] = clique
            n_dead += 1
        if n_dead == n_born and members:
            parts.append(_build_part(lifetimes, members, low, high, clique, align_bytes))
            low, high, members, clique = {}, {}, [], 0
        if now is not None:
            low[births[n_born]] = clique
            members.append(births[n_born])
            was_birth = True
    return parts


def _build_part(
    lifetimes: Sequence[Lifetime],
    members: list[int],
    low: dict[int, int],
    high: dict[int, int],
    n_cliques: int,
    align_bytes: int,
) -> Part:
    sizes = [align_up(lifetimes[i].size_bytes, align_bytes) for i in members]
    change = [0] * (n_cliques + 1)
    for i, size in zip(members, sizes, strict=True):
        change[low[i]] += size
        change[high[i]] -= size
    total, alive = list[int](), 0
    for delta in change[:-1]:
        alive += delta
        total.append(alive)
    widths = [lifetimes[i].end - lifetimes[i].first for i in members]
    lows, highs = [low[i] for i in members], [high[i] for i in members]
    return Part(members, Packing(lows, highs, sizes, widths, n_cliques, total))
