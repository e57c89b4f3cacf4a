"""First fit in any order, exactly, without a list of conflicts.

A segment tree over the cliques keeps, at each node, the bytes taken anywhere below it (`used`) and
those taken by buffers that cover all of it (`whole`), as sorted disjoint ranges. What blocks a buffer is
`used` of the nodes that make up its life and `whole` of their ancestors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
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


class _Tops:
    """The highest byte taken over each range of cliques, as a segment tree."""

    def __init__(self, n_leaves: int) -> None:
        self._highest = [0] * (2 * n_leaves)
        self._whole = [0] * (2 * n_leaves)

    def over(self, nodes: Sequence[int], above: Collection[int]) -> int:
        """The highest byte over the nodes, whose ancestors are `above`."""
        top = max(self._highest[node] for node in nodes)
        return max(top, max((self._whole[node] for node in above), default=0))

    def lift(self, nodes: Sequence[int], above: Collection[int], end: int) -> None:
        """Take the bytes below `end` over the nodes."""
        highest, whole = self._highest, self._whole
        for node in nodes:
            whole[node] = max(whole[node], end)
            highest[node] = max(highest[node], end)
        for node in above:
            if highest[node] < end:
                highest[node] = end


def place_first_fit(packing: Packing, order: list[int], *, max_looks: int | None = None) -> list[int]:
    """Give each buffer, in `order`, the lowest offset that is free over its life.

    Args:
        max_looks: Nodes and ranges that may be looked at. Thousands of long lives at once cut the unions
            to pieces, and the cost becomes quadratic; once the looks are used up, each buffer left is
            put on top of all there is over its life, so that the call ends whatever the lives are.

    Cost: O(n log n) times the pieces a union falls into; few, for the unions are almost solid.
    """
    size = 1 << max(0, packing.n_cliques - 1).bit_length()
    used: dict[int, _Ranges] = {}
    whole: dict[int, _Ranges] = {}
    offsets = [-1] * len(packing.size)
    n_looks = 0
    for n_placed, i in enumerate(order):
        if max_looks is not None and n_looks >= max_looks:
            _pile_up(packing, order[:n_placed], order[n_placed:], offsets)
            break
        nodes, above = _cover(packing.low[i] + size, packing.high[i] + size)
        lists = [used[node] for node in nodes if node in used]
        lists += [whole[node] for node in above if node in whole]
        offset, spent = _lowest(lists, packing.size[i])
        n_looks += spent + len(nodes) + len(above)
        offsets[i] = offset
        end = offset + packing.size[i]
        for node in nodes:
            used.setdefault(node, _Ranges()).add(offset, end)
            whole.setdefault(node, _Ranges()).add(offset, end)
        for node in above:
            used.setdefault(node, _Ranges()).add(offset, end)
    return offsets


def _pile_up(packing: Packing, placed: list[int], order: list[int], offsets: list[int]) -> None:
    """Put each buffer of `order` on top of what is there over its life; O(n log n)."""
    size = 1 << max(0, packing.n_cliques - 1).bit_length()
    tops = _Tops(size)
    for i in placed:
        tops.lift(*_cover(packing.low[i] + size, packing.high[i] + size), offsets[i] + packing.size[i])
    for i in order:
        nodes, above = _cover(packing.low[i] + size, packing.high[i] + size)
        offsets[i] = tops.over(nodes, above)
        tops.lift(nodes, above, offsets[i] + packing.size[i])


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
    """The lowest place where `size` bytes are free in every list, and the ranges looked at."""
    cursor, n_agreed, turn, n_looks = 0, 0, 0, 0
    while n_agreed < len(lists):
        begins, ends = lists[turn].begins, lists[turn].ends
        lifted, at, n_ranges = cursor, bisect_right(ends, cursor), len(begins)
        n_looks += 1
        while at < n_ranges and begins[at] < lifted + size:
            lifted = ends[at]
            at += 1
            n_looks += 1
        n_agreed = n_agreed + 1 if lifted == cursor else 1
        cursor = lifted
        turn = turn + 1 if turn + 1 < len(lists) else 0
    return cursor, n_looks


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
