"""The skyline dive: fill the lowest gap first, and look ahead so that no clique is stranded.

The skyline cuts the cliques into plateaus of equal height. A dive takes the lowest plateau and puts the
first buffer of an order that fits between its walls; when none does, the plateau is raised to its lower
wall, and the bytes in between are wasted. A dive fails as soon as waste makes a clique too high.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import gcd
from typing import Final

from gerules.backend.memory.cliques import Packing

_FAR: Final = 1 << 62
"""Above every rank and every clique."""


@dataclass(frozen=True, slots=True)
class Dive:
    """What a dive came to.

    `offsets` is empty when it failed; then `stuck` is the range of cliques that could not be filled and
    `unplaced` holds the buffers that were left. `n_steps` counts the plateaus and buffers looked at.
    """

    offsets: list[int]
    stuck: tuple[int, int]
    unplaced: list[int]
    n_steps: int


class Skyline:
    """Dives over one packing; what does not depend on the order is computed once."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._unit = gcd(*packing.size)
        n = len(packing.size)
        self._leaves = sorted(range(n), key=lambda i: (packing.low[i], packing.high[i], i))
        self._leaf_of = [0] * n
        for leaf, i in enumerate(self._leaves):
            self._leaf_of[i] = leaf
        lows = [packing.low[i] for i in self._leaves]
        self._first_leaf = [bisect_left(lows, s) for s in range(packing.n_cliques + 1)]
        highs = [packing.high[i] for i in self._leaves]
        self._min_high = _build_tree(highs, _FAR, smallest=True)
        self._max_high = _build_tree(highs, -1, smallest=False)
        self._height = _build_tree([total // self._unit for total in packing.total], 0, smallest=False)

    def dive(self, rank: list[int], target_bytes: int) -> Dive:
        """Place the buffers below `target_bytes`, taking lower ranks first.

        `target_bytes` must be at least the packing's lower bound.

        Cost: O(n log n) in practice; one query of the candidate tree can be linear.
        """
        packing, unit = self._packing, self._unit
        low, high, n_cliques, n = packing.low, packing.high, packing.n_cliques, len(packing.size)
        target = target_bytes // unit
        waiting = _Waiting(
            self._first_leaf, self._min_high[:], self._max_high[:], [rank[i] for i in self._leaves]
        )
        sums = _Sums(self._height[:])
        offsets = [-1] * n
        stop, tall, left = [0] * n_cliques, [-1] * n_cliques, [-1] * n_cliques
        stop[0], tall[0] = n_cliques, 0
        heap, n_placed, n_steps = [(0, 0)], 0, 0
        while n_placed < n:
            height, a = heappop(heap)
            if tall[a] != height:
                continue
            b = stop[a]
            before = tall[left[a]] if left[a] >= 0 else _FAR
            after = tall[b] if b < n_cliques else _FAR
            chosen = -1
            n_steps += 1
            for leaf in waiting.candidates(a, b):
                n_steps += 1
                i = self._leaves[leaf]
                top = height + packing.size[i] // unit
                lo, hi = low[i], high[i]
                room = target - (top if top < before else before) + height
                if (
                    lo > a
                    and sums.largest(a, lo) > room
                    and not waiting.covers(a, lo, sums.where_largest(a, lo))
                ):
                    continue
                room = target - (top if top < after else after) + height
                if (
                    hi < b
                    and sums.largest(hi, b) > room
                    and not waiting.covers(hi, b, sums.where_largest(hi, b))
                ):
                    continue
                chosen = i
                break
            if chosen < 0:
                wall = before if before < after else after
                if wall == _FAR or wall - height + sums.largest(a, b) > target:
                    return Dive([], (a, b), [i for i in range(n) if offsets[i] < 0], n_steps)
                sums.add(a, b, wall - height)
                _set(a, b, wall, stop, tall, left, n_cliques, heap)
                continue
            waiting.remove(self._leaf_of[chosen])
            offsets[chosen] = height * unit
            n_placed += 1
            lo, hi = low[chosen], high[chosen]
            if hi < b:
                stop[hi], tall[hi], left[hi] = b, height, lo
                if b < n_cliques:
                    left[b] = hi
                heappush(heap, (height, hi))
            if lo > a:
                stop[a] = lo
                left[lo] = a
                heappush(heap, (height, a))
            stop[lo] = hi
            _set(lo, hi, height + packing.size[chosen] // unit, stop, tall, left, n_cliques, heap)
        return Dive(offsets, (0, 0), [], n_steps)


def _set(
    a: int,
    b: int,
    height: int,
    stop: list[int],
    tall: list[int],
    left: list[int],
    n_cliques: int,
    heap: list[tuple[int, int]],
) -> None:
    """Give the plateau `[a, b)` a height and join it with neighbours that are as high."""
    if b < n_cliques:
        if tall[b] == height:
            tall[b] = -1
            b = stop[b]
        if b < n_cliques:
            left[b] = a
    stop[a] = b
    before = left[a]
    if before >= 0 and tall[before] == height:
        tall[a] = -1
        stop[before] = b
        if b < n_cliques:
            left[b] = before
        return
    tall[a] = height
    heappush(heap, (height, a))


def _build_tree(leaves: list[int], empty: int, *, smallest: bool) -> list[int]:
    """Return a heap-shaped tree of minima or maxima; leaf `k` is at `len(tree) // 2 + k`."""
    size = 1 << max(0, len(leaves) - 1).bit_length()
    level = leaves + [empty] * (size - len(leaves))
    levels = [level]
    while len(level) > 1:
        level = list(map(min if smallest else max, level[::2], level[1::2]))
        levels.append(level)
    out = [empty]
    for level in reversed(levels):
        out += level
    return out


class _Waiting:
    """The buffers not placed yet, as leaves by (first clique, end clique)."""

    __slots__ = ("_first_leaf", "_max_high", "_min_high", "_min_rank", "_size")

    def __init__(
        self, first_leaf: list[int], min_high: list[int], max_high: list[int], ranks: list[int]
    ) -> None:
        self._first_leaf = first_leaf
        self._min_high = min_high
        self._max_high = max_high
        self._min_rank = _build_tree(ranks, _FAR, smallest=True)
        self._size = len(min_high) // 2

    def candidates(self, a: int, b: int) -> Iterator[int]:
        """Yield the leaves that lie inside `[a, b)` by rising rank, best first, each only when asked for."""
        size, min_high, min_rank = self._size, self._min_high, self._min_rank
        lo, hi = self._first_leaf[a] + size, self._first_leaf[b] + size
        heap: list[tuple[int, int]] = []
        while lo < hi:
            if lo & 1:
                if min_high[lo] <= b:
                    heap.append((min_rank[lo], lo))
                lo += 1
            if hi & 1:
                hi -= 1
                if min_high[hi] <= b:
                    heap.append((min_rank[hi], hi))
            lo >>= 1
            hi >>= 1
        heapify(heap)
        while heap:
            node = heappop(heap)[1]
            if node >= size:
                yield node - size
                continue
            node *= 2
            if min_high[node] <= b:
                heappush(heap, (min_rank[node], node))
            node += 1
            if min_high[node] <= b:
                heappush(heap, (min_rank[node], node))

    def covers(self, a: int, b: int, clique: int) -> bool:
        """Whether some leaf inside `[a, b)` is alive at `clique`."""
        size, min_high, max_high = self._size, self._min_high, self._max_high
        lo, hi = self._first_leaf[a] + size, self._first_leaf[clique + 1] + size
        stack: list[int] = []
        while lo < hi:
            if lo & 1:
                stack.append(lo)
                lo += 1
            if hi & 1:
                hi -= 1
                stack.append(hi)
            lo >>= 1
            hi >>= 1
        while stack:
            node = stack.pop()
            if min_high[node] > b or max_high[node] <= clique:
                continue
            if node >= size:
                return True
            stack += (2 * node, 2 * node + 1)
        return False

    def remove(self, leaf: int) -> None:
        """Take a leaf out."""
        min_high, max_high, min_rank = self._min_high, self._max_high, self._min_rank
        node = leaf + self._size
        min_high[node], max_high[node], min_rank[node] = _FAR, -1, _FAR
        node >>= 1
        while node:
            one, two = 2 * node, 2 * node + 1
            nearest = min_high[one] if min_high[one] < min_high[two] else min_high[two]
            farthest = max_high[one] if max_high[one] > max_high[two] else max_high[two]
            best = min_rank[one] if min_rank[one] < min_rank[two] else min_rank[two]
            if nearest == min_high[node] and farthest == max_high[node] and best == min_rank[node]:
                return
            min_high[node], max_high[node], min_rank[node] = nearest, farthest, best
            node >>= 1


class _Sums:
    """Bytes of each clique with the waste below the skyline: the height it cannot get under.

    Placing a buffer moves bytes from "to come" to "below", so only waste changes these sums.
    """

    __slots__ = ("_lazy", "_most", "_size")

    def __init__(self, tree: list[int]) -> None:
        self._most = tree
        self._lazy = [0] * len(tree)
        self._size = len(tree) // 2

    def add(self, a: int, b: int, amount: int) -> None:
        """Add to every clique of `[a, b)`."""
        most, lazy = self._most, self._lazy
        lo, hi = a + self._size, b + self._size
        one, two = lo >> 1, (hi - 1) >> 1
        while lo < hi:
            if lo & 1:
                most[lo] += amount
                lazy[lo] += amount
                lo += 1
            if hi & 1:
                hi -= 1
                most[hi] += amount
                lazy[hi] += amount
            lo >>= 1
            hi >>= 1
        while one:
            x, y = most[2 * one], most[2 * one + 1]
            most[one] = (x if x > y else y) + lazy[one]
            if two != one:
                x, y = most[2 * two], most[2 * two + 1]
                most[two] = (x if x > y else y) + lazy[two]
            one >>= 1
            two >>= 1

    def largest(self, a: int, b: int) -> int:
        """The largest sum in `[a, b)`."""
        most, lazy = self._most, self._lazy
        lo, hi = a + self._size, b + self._size
        from_left = from_right = -_FAR
        while lo < hi:
            if lo & 1:
                if most[lo] > from_left:
                    from_left = most[lo]
                lo += 1
            if hi & 1:
                hi -= 1
                if most[hi] > from_right:
                    from_right = most[hi]
            lo >>= 1
            hi >>= 1
            from_left += lazy[lo - 1]
            from_right += lazy[hi]
        # At the end `lo - 1` and `hi` are the parents of what was taken last on either side.
        lo = (lo - 1) >> 1
        hi >>= 1
        while hi:
            from_left += lazy[lo]
            from_right += lazy[hi]
            lo >>= 1
            hi >>= 1
        return from_left if from_left > from_right else from_right

    def where_largest(self, a: int, b: int) -> int:
        """The first clique of `[a, b)` with the largest sum."""
        want = self.largest(a, b)
        most, lazy, size = self._most, self._lazy, self._size
        stack = [(1, 0, size, 0)]
        while stack:
            node, begin, end, above = stack.pop()
            if end <= a or begin >= b or most[node] + above < want:
                continue
            if node >= size:
                return begin
            above += lazy[node]
            middle = (begin + end) // 2
            stack.append((2 * node + 1, middle, end, above))
            stack.append((2 * node, begin, middle, above))
        return a
