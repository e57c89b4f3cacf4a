"""Reading a text that is being typed: items that are at fault are left out, the others are read as ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

from lark import Token, Tree

from gerules.dsl import read_file
from gerules.dsl.declarations import FormatsTable, Item, RuleFile
from gerules.dsl.sound_items import MAX_ROUNDS, NO_LINE_END, without_items
from gerules.errors import Diagnostic, GerulesError, Source, Span
from gerules.lsp.occurrences import Occurrence, find_occurrences
from gerules.text import check_size, parse_rules
from gerules.text.parse import item_starts, open_brackets

MAX_BYTES: Final = 1024 * 1024
"""Largest text that is read while it is typed; the largest shipped file is a thirtieth of it."""


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

    @cached_property
    def mended(self) -> Reading:
        """The text without the statements at fault, for the names that stand beside them.

        It knows the text, the tree and the occurrences, and no items.

        Cost: at most twelve readings of each item that is at fault.
        """
        text = self.source.text if len(self.source.text) <= MAX_BYTES else ""
        file = RuleFile(Source(self.source.name, _without_statements(text)), 1, (), ())
        return Reading(self.source, file)

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
        for _ in range(MAX_ROUNDS):
            mended = Source(source.name, text)
            try:
                file = read_file(mended)
            except GerulesError as error:
                faults += _pointing_into(source, error.diagnostics)
                text = without_items(text, error.diagnostics)
                if text == mended.text:
                    break
            else:
                return Reading(source, file, tuple(faults), _kept(file, before) if faults else ())
    except GerulesError as error:
        faults += _pointing_into(source, error.diagnostics)
    empty = RuleFile(Source(source.name, NO_LINE_END.sub(" ", source.text)), 1, (), ())
    return Reading(source, empty, tuple(faults), _kept(empty, before))


def _pointing_into(source: Source, diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    for item in diagnostics:
        span = item.span
        yield item if span is None else replace(item, span=Span(source, span.start, span.end))


def _without_statements(text: str) -> str:
    """Return the text with blanks for the statements that do not follow the grammar."""
    starts = item_starts(text)
    return "".join(_mend(text[start:end]) for start, end in pairwise([*starts, len(text)]))


def _mend(item: str) -> str:
    """Return an item with blanks for the lines at fault; nothing but blanks where that is not enough."""
    for _ in range(MAX_ROUNDS):
        try:
            parse_rules(Source("", item))
        except GerulesError as error:
            span = error.diagnostics[0].span
            if span is None:
                break
            # A bracket that is not closed takes in what follows: it is the line of the bracket that is wrong.
            opened = open_brackets(item, 0, span.start)
            place = opened[0] if opened else min(span.start, len(item.rstrip()) - 1)
            start = item.rfind("\n", 0, place) + 1
            end = item.find("\n", place)
            line = item[start : end if end >= 0 else len(item)]
            if not line.strip():
                break
            item = item[:start] + NO_LINE_END.sub(" ", line) + item[start + len(line) :]
        else:
            return item
    return NO_LINE_END.sub(" ", item)


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
