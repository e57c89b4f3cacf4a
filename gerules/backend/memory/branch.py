"""Exact search: place buffers by rising offset, cut branches that cannot stay below the target.

Sub-problems are generators driven by a stack of our own, so that depth is not bounded by the interpreter.
Source: M. D. Moffitt, MiniMalloc, ASPLOS 2023, for the canonical order, its dominance and decomposition.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

from gerules.backend.memory.cliques import Packing

Verdict = Literal["placed", "impossible", "undecided"]

_Solve = Generator["_Solve", bool, bool]


@dataclass(frozen=True, slots=True)
class Branching:
    """What the search found: offsets when `verdict` is "placed", a proof when it is "impossible"."""

    verdict: Verdict
    offsets: list[int]
    n_nodes: int


def branch_and_bound(packing: Packing, rank: list[int], target_bytes: int, *, node_limit: int) -> Branching:
    """Place all buffers below `target_bytes`, or prove that it cannot be done.

    Cost: O(n + overlaps) a node, at most `node_limit` nodes; memory O(depth * n). Meant for n <= 600.
    """
    search = _Tree(packing, rank, target_bytes, node_limit)
    n = len(packing.size)
    order = sorted(range(n), key=rank.__getitem__)
    start = search.solve(order, [0] * n, [0] * packing.n_cliques, list(packing.total), 0, -1)
    stack, answer = [start], False
    pending: bool | None = None
    while stack:
        try:
            child = next(stack[-1]) if pending is None else stack[-1].send(pending)
        except StopIteration as done:
            stack.pop()
            answer = bool(done.value)
            pending = answer
            continue
        stack.append(child)
        pending = None
    if answer:
        return Branching("placed", search.offsets, search.n_nodes)
    return Branching("undecided" if search.n_nodes > node_limit else "impossible", [], search.n_nodes)


class _Tree:
    def __init__(self, packing: Packing, rank: list[int], target: int, node_limit: int) -> None:
        self.packing, self.rank, self.target, self.node_limit = packing, rank, target, node_limit
        self.offsets = [-1] * len(packing.size)
        self.n_nodes = 0

    def solve(
        self,
        todo: list[int],
        lowest: list[int],
        floor: list[int],
        total: list[int],
        last: int,
        last_rank: int,
    ) -> _Solve:
        """Place `todo` at or above (`last`, `last_rank`); the lists are this node's own."""
        if not todo:
            return True
        self.n_nodes += 1
        if self.n_nodes > self.node_limit:
            return False
        size, rank = self.packing.size, self.rank
        ceiling = min(lowest[i] + size[i] for i in todo)
        options = sorted(
            (lowest[i], rank[i], i)
            for i in todo
            if lowest[i] < ceiling and (lowest[i], rank[i]) > (last, last_rank)
        )
        for offset, own_rank, i in options:
            self.offsets[i] = offset
            rest = [j for j in todo if j != i]
            below, base, left = lowest[:], floor[:], total[:]
            overlaps = self._put(i, offset, rest, below, base, left)
            if self._fits(rest, below, base, left, offset):
                solved = True
                for side in self._split(rest):
                    solved = yield self.solve(side, below, base, left, offset, own_rank)
                    if not solved:
                        break
                if solved:
                    return True
            if not overlaps or self.n_nodes > self.node_limit:
                # Nothing left touches it: another place for it changes nothing.
                return False
        return False

    def _put(
        self, i: int, offset: int, rest: list[int], below: list[int], base: list[int], left: list[int]
    ) -> bool:
        packing = self.packing
        low, high, top = packing.low[i], packing.high[i], offset + packing.size[i]
        overlaps = False
        for j in rest:
            if packing.low[j] < high and packing.high[j] > low:
                overlaps = True
                if below[j] < top:
                    below[j] = top
        for s in range(low, high):
            base[s] = top
            left[s] -= packing.size[i]
        return overlaps

    def _fits(self, rest: list[int], below: list[int], base: list[int], left: list[int], offset: int) -> bool:
        """Whether no clique is too high already, resting on the lowest start of what is to come there."""
        packing, target = self.packing, self.target
        start = [-1] * packing.n_cliques
        for j in rest:
            if below[j] + packing.size[j] > target:
                return False
            mine = below[j] if below[j] > offset else offset
            for s in range(packing.low[j], packing.high[j]):
                if start[s] < 0 or mine < start[s]:
                    start[s] = mine
        return all(at < 0 or max(at, base[s]) + left[s] <= target for s, at in enumerate(start))

    def _split(self, rest: list[int]) -> list[list[int]]:
        """Cut where no buffer of `rest` lives on both sides; each side keeps the order by rank."""
        low, high = self.packing.low, self.packing.high
        sides: list[list[int]] = []
        end = -1
        for j in sorted(rest, key=low.__getitem__):
            if low[j] >= end:
                sides.append([])
            sides[-1].append(j)
            end = max(end, high[j])
        return sides
