"""The skyline dive: fill the lowest gap first, and look ahead so that no clique is stranded.

The skyline cuts the cliques into plateaus of equal height. A dive takes the lowest plateau and puts the
first buffer of an order that fits between its walls; when none does, the plateau is raised to its lower
wall, and the bytes in between are wasted. A dive fails as soon as waste makes a clique too high.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import gcd
from typing import Final

from gerules.backend.memory.cliques import Packing

_FAR: Final = 1 << 62
"""Above every rank and every clique."""

_VISITS_A_STEP: Final = 16
"""Nodes of a tree that cost as much to look at as one step of a dive."""

_STEPS_A_BUFFER: Final = 6
"""Steps a dive may take for each buffer: networks need three or four."""

_FEWEST_STEPS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Dive:
    """What a dive came to.

    `offsets` is empty when it failed; then `stuck` is the range of cliques that could not be filled and
    `unplaced` holds the buffers that were left. `n_steps` counts the plateaus and buffers looked at, and
    more when they are hard to find. A dive that runs out of steps is stuck nowhere, with nothing unplaced.
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
        self._shelves = _build_shelves(packing)
        self._place_of = [(0, 0)] * len(packing.size)
        for at, shelf in enumerate(self._shelves):
            for leaf, i in enumerate(shelf.leaves):
                self._place_of[i] = at, leaf
        self._height = _build_tree([total // self._unit for total in packing.total], 0, smallest=False)

    def dive(self, rank: list[int], target_bytes: int, *, max_steps: int | None = None) -> Dive:
        """Place the buffers below `target_bytes`, taking lower ranks first.

        `target_bytes` must be at least the packing's lower bound.

        Cost: O(n log n): the dive gives up when its buffers are too hard to find.
        """
        packing, unit = self._packing, self._unit
        low, high, n_cliques, n = packing.low, packing.high, packing.n_cliques, len(packing.size)
        target = target_bytes // unit
        waiting = _Waiting(self._shelves, rank)
        sums = _Sums(self._height[:])
        offsets = [-1] * n
        stop, tall, left = [0] * n_cliques, [-1] * n_cliques, [-1] * n_cliques
        stop[0], tall[0] = n_cliques, 0
        heap, n_placed = [(0, 0)], 0
        most = _STEPS_A_BUFFER * n + _FEWEST_STEPS
        max_visits = _VISITS_A_STEP * (most if max_steps is None else min(most, max_steps))
        while n_placed < n:
            if waiting.n_visits > max_visits:
                return Dive([], (0, 0), [], waiting.n_steps)
            height, a = heappop(heap)
            if tall[a] != height:
                continue
            b = stop[a]
            before = tall[left[a]] if left[a] >= 0 else _FAR
            after = tall[b] if b < n_cliques else _FAR
            chosen = -1
            waiting.n_visits += _VISITS_A_STEP
            for i in waiting.candidates(a, b):
                waiting.n_visits += _VISITS_A_STEP
                if waiting.n_visits > max_visits:
                    break
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
                    unplaced = [i for i in range(n) if offsets[i] < 0]
                    return Dive([], (a, b), unplaced, waiting.n_steps)
                sums.add(a, b, wall - height)
                _set(a, b, wall, stop, tall, left, n_cliques, heap)
                continue
            waiting.remove(*self._place_of[chosen])
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
        return Dive(offsets, (0, 0), [], waiting.n_steps)


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


class _Shelf:
    """Buffers of about the same width, as leaves by (first clique, end clique).

    Wide buffers come early in every order and seldom fit; among narrow ones they would hide those that do.
    """

    __slots__ = ("least", "leaves", "lows", "max_high", "min_high", "most", "n_left", "size")

    def __init__(self, packing: Packing, members: list[int]) -> None:
        low, high = packing.low, packing.high
        self.leaves = sorted(members, key=lambda i: (low[i], high[i], i))
        self.lows = [low[i] for i in self.leaves]
        widths = [high[i] - low[i] for i in members]
        self.least, self.most = min(widths), max(widths)
        highs = [high[i] for i in self.leaves]
        self.min_high = _build_tree(highs, _FAR, smallest=True)
        self.max_high = _build_tree(highs, -1, smallest=False)
        self.size = len(self.min_high) // 2
        self.n_left = len(members)

    def copy(self) -> _Shelf:
        """The same shelf, to be emptied by one dive."""
        other = object.__new__(_Shelf)
        other.leaves, other.lows, other.size, other.n_left = self.leaves, self.lows, self.size, self.n_left
        other.least, other.most = self.least, self.most
        other.min_high, other.max_high = self.min_high[:], self.max_high[:]
        return other


def _build_shelves(packing: Packing) -> list[_Shelf]:
    """Sort the buffers by width, each shelf up to sixteen times as wide as the one before."""
    members: dict[int, list[int]] = {}
    for i, (low, high) in enumerate(zip(packing.low, packing.high, strict=True)):
        members.setdefault((high - low).bit_length() // 4, []).append(i)
    return [_Shelf(packing, members[level]) for level in sorted(members)]


class _Waiting:
    """The buffers not placed yet; `n_visits` counts the nodes looked at."""

    __slots__ = ("_min_rank", "_shelves", "n_visits")

    def __init__(self, shelves: list[_Shelf], rank: list[int]) -> None:
        self._shelves = [shelf.copy() for shelf in shelves]
        self._min_rank = [
            _build_tree([rank[i] for i in shelf.leaves], _FAR, smallest=True) for shelf in shelves
        ]
        self.n_visits = 0

    @property
    def n_steps(self) -> int:
        """The visits in steps of a dive."""
        return self.n_visits // _VISITS_A_STEP

    def candidates(self, a: int, b: int) -> Iterator[int]:
        """Yield the buffers that lie inside `[a, b)` by rising rank, best first, each only when asked for."""
        heap: list[tuple[int, int, int]] = []
        width = b - a
        for at, shelf in enumerate(self._shelves):
            if shelf.least > width:
                break
            if not shelf.n_left:
                continue
            lows, size, min_high, min_rank = shelf.lows, shelf.size, shelf.min_high, self._min_rank[at]
            lo = bisect_left(lows, a)
            hi = bisect_right(lows, b - shelf.least, lo) + size
            lo += size
            while lo < hi:
                if lo & 1:
                    if min_high[lo] <= b:
                        heap.append((min_rank[lo], lo, at))
                    lo += 1
                if hi & 1:
                    hi -= 1
                    if min_high[hi] <= b:
                        heap.append((min_rank[hi], hi, at))
                lo >>= 1
                hi >>= 1
        heapify(heap)
        while heap:
            best, node, at = heappop(heap)
            shelf = self._shelves[at]
            size, min_high, min_rank = shelf.size, shelf.min_high, self._min_rank[at]
            while node < size:
                self.n_visits += 1
                # The child that has the node's rank is still the best of all, if it fits.
                node *= 2
                other = node + 1
                if min_rank[node] != best:
                    node, other = other, node
                if min_high[other] <= b:
                    heappush(heap, (min_rank[other], other, at))
                if min_high[node] > b:
                    break
            else:
                yield shelf.leaves[node - size]

    def covers(self, a: int, b: int, clique: int) -> bool:
        """Whether some buffer inside `[a, b)` is alive at `clique`."""
        stack: list[int] = []
        for shelf in self._shelves:
            if shelf.least > b - a:
                break
            if not shelf.n_left:
                continue
            lows, size, min_high, max_high = shelf.lows, shelf.size, shelf.min_high, shelf.max_high
            lo = bisect_left(lows, max(a, clique + 1 - shelf.most))
            hi = bisect_right(lows, min(clique, b - shelf.least), lo) + size
            lo += size
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
                self.n_visits += 1
                if min_high[node] > b or max_high[node] <= clique:
                    continue
                if node >= size:
                    return True
                stack += (2 * node, 2 * node + 1)
        return False

    def remove(self, at: int, leaf: int) -> None:
        """Take a leaf out of shelf `at`."""
        shelf, min_rank = self._shelves[at], self._min_rank[at]
        shelf.n_left -= 1
        min_high, max_high = shelf.min_high, shelf.max_high
        node = leaf + shelf.size
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
            x, y = most[2 * one], most[2 * one + 1]
            most[one] = (x if x > y else y) + lazy[one]
            if two != one:
                x, y = most[2 * two], most[2 * two + 1]
                most[two] = (x if x > y else y) + lazy[two]
            one >>= 1
            two >>= 1
        # Above the range a node changes only with what is below it.
        while one:
            x, y = most[2 * one], most[2 * one + 1]
            new = (x if x > y else y) + lazy[one]
            is_same = new == most[one]
            most[one] = new
            if two != one:
                x, y = most[2 * two], most[2 * two + 1]
                new = (x if x > y else y) + lazy[two]
                is_same = is_same and new == most[two]
                most[two] = new
            if is_same:
                return
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
