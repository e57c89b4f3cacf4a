"""Dives again and again: static orders first, then orders learnt from where dives got stuck."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from gerules.backend.memory.cliques import Packing
from gerules.backend.memory.orders import BASE_ORDERS, invert, rank_by
from gerules.backend.memory.skyline import Dive, Skyline

_PULL: Final = 0.2
"""How far one conflict pulls a buffer forward, as a share of the order's length."""

_DECAY: Final = (0.98, 0.999)
"""What is left of a weight after one more dive: one memory shared by all orders forgets faster."""

_NOISE: Final = (0.0, 0.02)
"""Random shift of a buffer, as a share of the order's length, for the shared and the separate weights."""


@dataclass(slots=True)
class Budget:
    """Work allowed and done: steps of dives, not seconds, so that every machine finds the same plan."""

    n_steps: int
    n_tries: int = 0

    def spend(self, dive: Dive, n: int) -> None:
        """Count one dive over `n` buffers; one that fails at once still sets up and sorts."""
        self.n_steps -= dive.n_steps + n + 50
        self.n_tries += 1


class Search:
    """Orders and weights over one packing, kept between targets."""

    def __init__(self, packing: Packing, seed: int) -> None:
        self._packing = packing
        self._skyline = Skyline(packing)
        self._random = Random(seed)
        self._bases: dict[str, list[int]] = {}
        n = len(packing.size)
        self._shared = [0.0] * n
        self._separate: dict[str, list[float]] = {}
        self._turn = 0

    def try_orders(self, target_bytes: int, n_orders: int, budget: Budget) -> list[int]:
        """Dive by the static orders; return the offsets of the first that ends, else nothing."""
        for key in BASE_ORDERS[:n_orders]:
            if budget.n_steps <= 0:
                return []
            dive = self._skyline.dive(self._base(key), target_bytes, max_steps=budget.n_steps)
            budget.spend(dive, len(self._shared))
            if dive.offsets:
                return dive.offsets
            self._learn(self._shared, _DECAY[0], dive)
        return []

    def pile(self, budget: Budget) -> list[int]:
        """Dive without a target, which gets stuck nowhere; nothing when the steps do not suffice."""
        if budget.n_steps <= 0:
            return []
        dive = self._skyline.dive(
            self._base(BASE_ORDERS[0]), sum(self._packing.size), max_steps=budget.n_steps
        )
        budget.spend(dive, len(self._shared))
        return dive.offsets

    def restart(self, target_bytes: int, n_restarts: int, budget: Budget) -> list[int]:
        """Dive by weighted orders; return the offsets of the first that ends, else nothing."""
        for key, kind in self._kinds(n_restarts):
            if budget.n_steps <= 0:
                return []
            separate = self._separate.setdefault(key, [0.0] * len(self._shared))
            weights = separate if kind else self._shared
            rank = self._mix(self._base(key), weights, _NOISE[kind])
            dive = self._skyline.dive(rank, target_bytes, max_steps=budget.n_steps)
            budget.spend(dive, len(self._shared))
            if dive.offsets:
                return dive.offsets
            self._learn(weights, _DECAY[kind], dive)
        return []

    def _kinds(self, n_restarts: int) -> Iterator[tuple[str, int]]:
        for _ in range(n_restarts):
            turn = self._turn
            self._turn += 1
            yield BASE_ORDERS[turn // 2 % len(BASE_ORDERS)], turn % 2

    def _base(self, key: str) -> list[int]:
        if key not in self._bases:
            self._bases[key] = rank_by(self._packing, key)
        return self._bases[key]

    def _mix(self, base: list[int], weights: list[float], noise: float) -> list[int]:
        n, random = len(base), self._random.random
        key = [base[i] / n - _PULL * weights[i] + noise * random() for i in range(n)]
        return invert(sorted(range(n), key=key.__getitem__))

    def _learn(self, weights: list[float], decay: float, dive: Dive) -> None:
        for i, weight in enumerate(weights):
            weights[i] = weight * decay
        begin, end = dive.stuck
        low, high = self._packing.low, self._packing.high
        for i in dive.unplaced:
            if low[i] < end and high[i] > begin:
                weights[i] += 1.0
