"""Tables in the one style of all reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gerules.errors.printable import printable_line

LINE_END: Final = "\x1e"
"""Ends a line inside a cell; newlines of names are written out instead."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, and how it is set. Names are never cut: what does not fit is folded."""

    head: str
    align: Literal["left", "right"] = "left"
    style: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as data: columns, rows of texts, a title and lines below it."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = field(default_factory=tuple)

    def __rich__(self) -> Group:
        # Above and below the table and no part of it, which would fold them to its width.
        title = [Text(printable_line(self.title), "bold")] if self.title else []
        notes = [Text(printable_line(note), "dim") for note in self.notes]
        return Group(*title, make_table(self), *notes)


def make_table(grid: Grid) -> Table:
    """Return the columns and rows of a grid; texts are never taken for markup."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for column in grid.columns:
        table.add_column(
            Text(column.head),
            justify=column.align,
            style=column.style,
            overflow="fold",
            no_wrap=column.align == "right",
        )
    for row in grid.rows:
        table.add_row(*(Text("\n".join(map(printable_line, cell.split(LINE_END)))) for cell in row))
    return table


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return names and values in two columns without a head."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(printable_line(name)), Text(printable_line(value)))
    return table
