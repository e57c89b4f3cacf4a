"""Orders in which a placer takes buffers, by static keys."""

from __future__ import annotations

from typing import Final

from gerules.backend.memory.cliques import Packing

BASE_ORDERS: Final = ("TWA", "TZW", "TCD", "TW", "WAT", "TA", "DCT", "TZC")
"""Keys, largest first: T clique sum, W steps, A steps x size, C cliques, D cliques x size, Z size."""

BRANCH_ORDERS: Final = ("TWA", "TCD", "TC", "TA")
"""The orders the exact search tries in turn."""


def rank_by(packing: Packing, key: str) -> list[int]:
    """Return the rank of each buffer, 0 first, by the letters of `key`; ties go by index."""
    columns = [_column(packing, letter) for letter in key]
    order = sorted(range(len(packing.size)), key=lambda i: (*[-column[i] for column in columns], i))
    return invert(order)


def invert(order: list[int]) -> list[int]:
    """Return each buffer's position in an order."""
    rank = [0] * len(order)
    for position, i in enumerate(order):
        rank[i] = position
    return rank


def _column(packing: Packing, letter: str) -> list[int]:
    cliques = [high - low for low, high in zip(packing.low, packing.high, strict=True)]
    if letter == "W":
        return packing.width
    if letter == "C":
        return cliques
    if letter == "Z":
        return packing.size
    if letter == "A":
        return [width * size for width, size in zip(packing.width, packing.size, strict=True)]
    if letter == "D":
        return [width * size for width, size in zip(cliques, packing.size, strict=True)]
    return _largest_sums(packing)


def _largest_sums(packing: Packing) -> list[int]:
    """The largest clique sum over each buffer's life, by a sparse table of range maxima."""
    levels = [packing.total]
    while 2 << (len(levels) - 1) <= packing.n_cliques:
        below, half = levels[-1], 1 << (len(levels) - 1)
        levels.append(list(map(max, below, below[half:])))
    out: list[int] = []
    for low, high in zip(packing.low, packing.high, strict=True):
        level = (high - low).bit_length() - 1
        row = levels[level]
        out.append(max(row[low], row[high - (1 << level)]))
    return out
