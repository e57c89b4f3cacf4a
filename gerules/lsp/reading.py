"""Reading a text that is being typed: items that are at fault are left out, the others are read as ever."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from lark import Token, Tree

from gerules.dsl import read_file
from gerules.dsl.declarations import FormatsTable, Item, RuleFile
from gerules.errors import Diagnostic, GerulesError, Source, Span
from gerules.lsp.occurrences import Occurrence, find_occurrences
from gerules.text import check_size, parse_rules
from gerules.text.parse import item_starts

MAX_BYTES: Final = 1024 * 1024
"""Largest text that is read while it is typed; the largest shipped file is a thirtieth of it."""

_MAX_ROUNDS: Final = 12
"""Times that a text is read without what was at fault before; then the rest of it is not looked at."""

_NO_LINE_END: Final = re.compile(r"[^\r\n]")


@dataclass(frozen=True, eq=False)
class Reading:
    """A rule text, and what it says as far as it can be read.

    `file` holds the items without faults; spans in it lie in `file.source`, which has blanks where the
    others stand, so that offsets are those of `source`. `faults` point into `source`. `kept` are items of
    an earlier reading that are at fault now: names in them still mean something.
    """

    source: Source
    file: RuleFile
    faults: tuple[Diagnostic, ...] = ()
    kept: tuple[Item, ...] = ()

    @property
    def with_kept(self) -> RuleFile:
        """The file with the items that an earlier reading had."""
        return replace(self.file, items=(*self.file.items, *self.kept)) if self.kept else self.file

    @cached_property
    def tree(self) -> Tree[Token]:
        """The parse tree of the items without faults."""
        return parse_rules(self.file.source)

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every name that the items without faults mention, in the order of the text."""
        return find_occurrences(self.tree)

    def item_at(self, offset: int) -> Item | None:
        """Return the item without faults that an offset stands in."""
        return next((item for item in self.file.items if item.span.start <= offset < item.span.end), None)


def read_tolerantly(source: Source, before: Reading | None = None) -> Reading:
    """Read a text, whatever is wrong with it; nothing is raised.

    Args:
        source: The text.
        before: The reading of the same file that this one follows.

    Cost: one reading for a text without faults, at most twelve for any other.
    """
    faults: list[Diagnostic] = []
    text = source.text
    try:
        check_size(source, MAX_BYTES)
        for _ in range(_MAX_ROUNDS):
            mended = Source(source.name, text)
            try:
                file = read_file(mended)
            except GerulesError as error:
                faults += _pointing_into(source, error.diagnostics)
                text = _without_items(text, error.diagnostics)
                if text == mended.text:
                    break
            else:
                return Reading(source, file, tuple(faults), _kept(file, before) if faults else ())
    except GerulesError as error:
        faults += _pointing_into(source, error.diagnostics)
    empty = RuleFile(Source(source.name, _NO_LINE_END.sub(" ", source.text)), 1, (), ())
    return Reading(source, empty, tuple(faults), _kept(empty, before))


def _pointing_into(source: Source, diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    for item in diagnostics:
        span = item.span
        yield item if span is None else replace(item, span=Span(source, span.start, span.end))


def _without_items(text: str, diagnostics: Iterable[Diagnostic]) -> str:
    """Return the text with blanks for the items that faults point into; for all where one has no place."""
    starts = item_starts(text)
    ends = [*starts[1:], len(text)]
    places = [item.span.start if item.span is not None else None for item in diagnostics]
    if None in places:
        return _NO_LINE_END.sub(" ", text)
    bad = {sum(1 for start in starts[1:] if start <= place) for place in places if place is not None}
    pieces = [
        _NO_LINE_END.sub(" ", text[start:end]) if number in bad else text[start:end]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return "".join(pieces)


def _kept(file: RuleFile, before: Reading | None) -> tuple[Item, ...]:
    if before is None:
        return ()
    present = {_identity(item) for item in file.items}
    return tuple(
        item
        for item in (*before.file.items, *before.kept)
        if not isinstance(item, FormatsTable) and _identity(item) not in present
    )


def _identity(item: Item) -> tuple[type, str]:
    return type(item), "" if isinstance(item, FormatsTable) else item.name.name
