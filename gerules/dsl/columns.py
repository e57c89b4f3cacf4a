"""Columns of rule files: what adjacent lines say in the same place stands one below the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from gerules.dsl.tokens import CLOSE, OPEN, Token

MAX_PADDING: Final = 48
"""Most blanks that a column may cost a line; a line that would need more stays out of it."""

_DECLARATIONS: Final = frozenset({"ops", "const", "param", "pipeline"})


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a file in cells; `heads` says how each cell but the first begins."""

    indent: int
    cells: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    comment: str = ""

    @property
    def text(self) -> str:
        """The line; a comment behind it keeps two blanks' distance."""
        code = " ".join(self.cells)
        behind = "  " if code and self.comment else ""
        return f"{' ' * self.indent if code or self.comment else ''}{code}{behind}{self.comment}"


def find_columns(tokens: Sequence[Token]) -> dict[int, str]:
    """Return which tokens of a statement begin a cell, and the head that each of them is.

    Those are the value and the text of a declaration, the priority of an engine and its operators,
    the formats that an operator gives back, and the reason of a guard.

    Cost: linear.
    """
    first = tokens[0].text
    found: dict[int, str] = {}
    depth = 0
    for place, token in enumerate(tokens):
        text = token.text
        depth += (text in OPEN) - (text in CLOSE)
        if depth or not place:
            continue
        is_last = place == len(tokens) - 1
        if first in _DECLARATIONS:
            if text == "=" and not found:
                found[place] = text
            elif first == "param" and token.kind == "text" and is_last:
                found[place] = "text"
        elif first == "engine":
            if text == "priority" or tokens[place - 1].text == ":":
                found[place] = "priority" if text == "priority" else ":"
        elif first == "define":
            return {}
        elif text == "if":
            return {}  # the `else` behind it is that of a value
        elif text == "->" or (text == "else" and tokens[-1].kind == "text" and place == len(tokens) - 2):
            found[place] = text
    return found


def align(rows: Sequence[Row], max_columns: int) -> Iterator[str]:
    """Yield the text of each row, cells and comments of adjacent rows below each other.

    No row is made longer than `max_columns`.

    Cost: n log n in rows.
    """
    aligned = list(rows)
    for column in range(max((len(row.heads) for row in rows), default=0)):
        _align(aligned, lambda row, column=column: row.heads[column : column + 1], column, max_columns)
    _align(aligned, lambda row: "#" if row.cells and row.comment else "", -1, max_columns)
    yield from (row.text for row in aligned)


def _align(rows: list[Row], key: Callable[[Row], object], column: int, max_columns: int) -> None:
    """Pad the cells of one column in adjacent rows of one indent and key; rows whose key is empty stay."""
    start = 0
    for (_, found), group in groupby(rows, lambda row: (row.indent, key(row))):
        run = list(group)
        if found and len(run) > 1:
            rows[start : start + len(run)] = _pad(run, column, max_columns)
        start += len(run)


def _pad(run: Sequence[Row], column: int, max_columns: int) -> Iterator[Row]:
    """Yield the rows with that cell padded in as many of them as one width serves."""
    places = [column % len(row.cells) for row in run]
    widths = [len(" ".join(row.cells[: place + 1])) for row, place in zip(run, places, strict=True)]
    most = [
        min(width + MAX_PADDING, max_columns - len(row.text) + width)
        for row, width in zip(run, widths, strict=True)
    ]
    target = _most_served(widths, most)
    for row, place, width, limit in zip(run, places, widths, most, strict=True):
        cells = list(row.cells)
        if width <= target <= limit:
            cells[place] += " " * (target - width)
        yield replace(row, cells=tuple(cells))


def _most_served(least: Sequence[int], most: Sequence[int]) -> int:
    """The smallest of the numbers that lie in the largest count of the ranges from `least` to `most`."""
    ranges = [pair for pair in zip(least, most, strict=True) if pair[0] <= pair[1]]
    starts, ends = sorted(start for start, _ in ranges), sorted(end for _, end in ranges)
    counts = {start: bisect_right(starts, start) - bisect_left(ends, start) for start in starts}
    return max(counts, key=lambda start: (counts[start], -start), default=0)
