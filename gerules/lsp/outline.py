"""Outline: the items of a file, what folds away, and the colours of names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gerules.dsl.declarations import FormatsTable, Item
from gerules.dsl.syntax import Rule
from gerules.errors import Span
from gerules.lsp.occurrences import Role
from gerules.lsp.reading import Reading

ItemKind = str
"""The word that begins an item: "rule", "ops", ..."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An item of a file: its kind, name, doc string or set, and where the whole and the name stand."""

    kind: ItemKind
    name: str
    detail: str
    start: int
    end: int
    name_start: int
    name_end: int
    n_tests: int = 0


def entries(reading: Reading) -> Iterator[Entry]:
    """Yield the items of a file that can be read, in their order."""
    for item in reading.file.items:
        span = _trimmed(item.span)
        word = span.text.split(None, 1)[0]
        if isinstance(item, FormatsTable):
            place, detail = item.engine.span, ""
        else:
            place, detail = item.name.span, _detail(item)
        n_tests = len(item.tests) if isinstance(item, Rule) else 0
        yield Entry(word, place.text, detail, span.start, span.end, place.start, place.end, n_tests)


def _detail(item: Item) -> str:
    return item.ruleset if isinstance(item, Rule) else str(getattr(item, "doc", ""))


def _trimmed(span: Span) -> Span:
    """A block takes the line end and the comments with it that follow; they are no part of it."""
    lines = span.text.split("\n")
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return Span(span.source, span.start, span.start + len("\n".join(lines).rstrip()))


def folds(text: str) -> Iterator[tuple[int, int]]:
    """Yield first and last line of every block, by indentation alone, so that broken texts fold too.

    Cost: linear.
    """
    opened: list[tuple[int, int]] = []
    last = 0
    for number, line in enumerate(text.split("\n")):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        column = len(line) - len(line.lstrip())
        while opened and opened[-1][0] >= column:
            _, first = opened.pop()
            if last > first:
                yield first, last
        opened.append((column, number))
        last = number
    for _, first in reversed(opened):
        if last > first:
            yield first, last


TOKEN_TYPES: Final = (
    *("variable", "function", "method", "property", "parameter", "type", "enumMember"),
    *("class", "namespace", "macro", "struct"),
)
"""The protocol's names for kinds of names; their places in this list are what is sent."""

_TOKEN_TYPE: Final[dict[Role, str]] = {
    "local": "variable",
    "operator": "function",
    "ops": "macro",
    "attribute": "property",
    "parameter": "parameter",
    "member": "property",
    "function": "method",
    "param": "enumMember",
    "rule": "class",
    "ruleset": "namespace",
    "switch": "namespace",
    "phase": "class",
    "pipeline": "class",
    "profile": "struct",
    "device": "struct",
    "engine": "struct",
    "feature": "enumMember",
    "format": "type",
    "axis": "variable",
    "mark": "property",
    "dtype": "type",
}


@dataclass(frozen=True, slots=True)
class ColouredName:
    """A name, and the place of its kind in `TOKEN_TYPES`."""

    start: int
    end: int
    type: int
    is_declaration: bool


def coloured_names(reading: Reading) -> Iterator[ColouredName]:
    """Yield the names whose kind the text alone tells; of those in expressions the local ones."""
    bound = {(item.item, item.name) for item in reading.occurrences if item.role == "local"}
    for item in reading.occurrences:
        role: Role = item.role
        if role == "ref":
            if (item.item, item.name) not in bound:
                continue
            role = "local"
        yield ColouredName(item.start, item.end, TOKEN_TYPES.index(_TOKEN_TYPE[role]), item.is_declaration)
