"""First fit in any order, exactly, without a list of conflicts.

A segment tree over the cliques keeps, at each node, the bytes taken anywhere below it (`used`) and
those taken by buffers that cover all of it (`whole`), as sorted disjoint ranges. What blocks a buffer is
`used` of the nodes that make up its life and `whole` of their ancestors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush

from gerules.backend.memory.cliques import Packing


class _Ranges:
    """Disjoint, sorted, merged ranges of bytes."""

    __slots__ = ("begins", "ends")

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Unite with `[begin, end)`."""
        i, j = bisect_left(self.ends, begin), bisect_right(self.begins, end)
        if i < j:
            begin, end = min(begin, self.begins[i]), max(end, self.ends[j - 1])
        self.begins[i:j] = [begin]
        self.ends[i:j] = [end]

    def lift(self, begin: int, size: int) -> int:
        """The lowest place at or above `begin` where `size` bytes are free."""
        begins, ends = self.begins, self.ends
        i = bisect_right(ends, begin)
        while i < len(begins) and begins[i] < begin + size:
            begin = ends[i]
            i += 1
        return begin


def place_first_fit(packing: Packing, order: list[int], *, max_lifts: int | None = None) -> list[int]:
    """Give each buffer, in `order`, the lowest offset that is free over its life.

    Args:
        max_lifts: Look-ups allowed; returns nothing when they do not suffice. Thousands of long lives at
            once cut the unions to pieces, and the cost becomes quadratic.

    Cost: O(n log n) times the pieces a union falls into; few, for the unions are almost solid.
    """
    size = 1 << max(0, packing.n_cliques - 1).bit_length()
    used: dict[int, _Ranges] = {}
    whole: dict[int, _Ranges] = {}
    offsets = [-1] * len(packing.size)
    n_lifts = 0
    for i in order:
        nodes, above = _cover(packing.low[i] + size, packing.high[i] + size)
        lists = [used[node] for node in nodes if node in used]
        lists += [whole[node] for node in above if node in whole]
        offset, spent = _lowest(lists, packing.size[i])
        n_lifts += spent
        if max_lifts is not None and n_lifts > max_lifts:
            return []
        offsets[i] = offset
        end = offset + packing.size[i]
        for node in nodes:
            used.setdefault(node, _Ranges()).add(offset, end)
            whole.setdefault(node, _Ranges()).add(offset, end)
        for node in above:
            used.setdefault(node, _Ranges()).add(offset, end)
    return offsets


def colour_equal_sizes(packing: Packing) -> list[int]:
    """Place buffers that are all of one size: optimal, by interval colouring."""
    size = packing.size[0]
    offsets = [-1] * len(packing.size)
    free: list[int] = []
    taken: list[tuple[int, int]] = []
    n_slots = 0
    for i in sorted(range(len(offsets)), key=lambda i: (packing.low[i], i)):
        while taken and taken[0][0] <= packing.low[i]:
            heappush(free, heappop(taken)[1])
        if free:
            slot = heappop(free)
        else:
            slot, n_slots = n_slots, n_slots + 1
        heappush(taken, (packing.high[i], slot))
        offsets[i] = slot * size
    return offsets


def _lowest(lists: list[_Ranges], size: int) -> tuple[int, int]:
    cursor, n_agreed, turn, n_lifts = 0, 0, 0, 0
    while n_agreed < len(lists):
        lifted = lists[turn].lift(cursor, size)
        n_lifts += 1
        n_agreed = n_agreed + 1 if lifted == cursor else 1
        cursor = lifted
        turn = turn + 1 if turn + 1 < len(lists) else 0
    return cursor, n_lifts


def _cover(begin: int, end: int) -> tuple[list[int], set[int]]:
    """The nodes that make up `[begin, end)`, and all their ancestors."""
    nodes: list[int] = []
    while begin < end:
        if begin & 1:
            nodes.append(begin)
            begin += 1
        if end & 1:
            end -= 1
            nodes.append(end)
        begin >>= 1
        end >>= 1
    above: set[int] = set()
    for node in nodes:
        node >>= 1
        while node and node not in above:
            above.add(node)
            node >>= 1
    return nodes, above
