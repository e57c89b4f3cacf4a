"""Diagnostics: a code, its facts, and where in a text it arose; rendered with carets."""

from __future__ import annotations

import re
import string
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final, Literal

from gerules.errors.counts import agree
from gerules.errors.printable import printable, printable_columns, printable_line
from gerules.errors.table import ErrorCode

Severity = Literal["error", "warning"]

_LINE_END: Final = re.compile("\n")

_EXCERPT_COLUMNS: Final = 110
"""Longest source line shown whole; a longer one is cut around the caret."""

_LONGEST_CUT_WORD: Final = 40
"""Characters that are given up at each end of such a line so that it is cut between two words."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text that came from outside, with the name a user knows it by.

    `lines` are the numbers under which its lines are told, one for each, where the text is part of another
    file or made by one; without them its lines count from 1.
    """

    name: str
    text: str = field(repr=False)
    lines: tuple[int, ...] = field(default=(), repr=False)

    def told_line(self, number: int) -> int:
        """Return the number under which a 1-based line of the text is told."""
        return self.lines[min(number, len(self.lines)) - 1] if self.lines else number

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of a character offset."""
        offset = max(0, min(offset, len(self.text)))
        starts = _line_starts(self.text)
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of a 1-based line, without its end; empty when there is no such line."""
        starts = _line_starts(self.text)
        if not 0 < number <= len(starts):
            return ""
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r")


@lru_cache(maxsize=8)
def _line_starts(text: str) -> array[int]:
    """Return the offset of each line's first character; kept, as one text may have very many faults."""
    starts = array("q", [0])
    starts.extend(found.end() for found in _LINE_END.finditer(text))
    return starts


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters the span covers."""
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{self.source.told_line(line)}:{column}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault (or warning): which code, with which facts, and where.

    `place` names the place in words when there is no text to point at, such as a file or a node.
    """

    code: ErrorCode
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    span: Span | None = None
    place: str = ""
    notes: tuple[str, ...] = ()
    severity: Severity = "error"

    @property
    def message(self) -> str:
        """The code's message with the facts filled in."""
        return agree(_fill(self.code.message, self.facts))

    @property
    def hint(self) -> str:
        """The remedy, with the facts filled in."""
        return agree(_fill(self.code.hint, self.facts))

    def as_json(self) -> dict[str, object]:
        """Return the diagnostic as plain values, for `--json`."""
        out: dict[str, object] = {
            "code": self.code.code,
            "slug": self.code.slug,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
        }
        if self.span is not None:
            line, column = self.span.source.line_column(self.span.start)
            source = self.span.source
            out["file"], out["line"], out["column"] = source.name, source.told_line(line), column
        if self.place:
            out["place"] = self.place
        if self.notes:
            out["notes"] = list(self.notes)
        return out


class GerulesError(Exception):
    """What gerules raises for a fault of its input; carries every fault found, not only the first.

    Subclasses name the floor it came from. `diagnostics` is never empty.
    """

    exit_code: ClassVar[int] = 1
    diagnostics: tuple[Diagnostic, ...]

    def __init__(
        self,
        code: ErrorCode | Sequence[Diagnostic],
        *,
        span: Span | None = None,
        place: str = "",
        notes: Iterable[str] = (),
        **facts: object,
    ) -> None:
        if isinstance(code, ErrorCode):
            self.diagnostics = (Diagnostic(code, facts, span, place, tuple(notes)),)
        else:
            self.diagnostics = tuple(code)
        super().__init__(render(self.diagnostics))

    @property
    def code(self) -> str:
        """The code of the first fault."""
        return self.diagnostics[0].code.code

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.diagnostics,))


class Faults:
    """Collects faults so that all of one input are reported together.

    >>> from gerules.errors import table
    >>> faults = Faults()
    >>> faults.add(table.UNDEFINED_NAME, name="d")
    >>> len(faults)
    1
    """

    def __init__(self) -> None:
        self._items: list[Diagnostic] = []

    def add(
        self,
        code: ErrorCode,
        *,
        span: Span | None = None,
        place: str = "",
        notes: Iterable[str] = (),
        severity: Severity = "error",
        **facts: object,
    ) -> None:
        """Record one fault."""
        self._items.append(Diagnostic(code, facts, span, place, tuple(notes), severity))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Record faults found elsewhere."""
        self._items.extend(diagnostics)

    def __len__(self) -> int:
        return sum(1 for item in self._items if item.severity == "error")

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that was recorded, warnings included, in the order found."""
        return tuple(self._items)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings alone."""
        return tuple(item for item in self._items if item.severity == "warning")

    def raise_if_any(self, kind: type[GerulesError] = GerulesError) -> None:
        """Raise one exception with all errors, if there are any."""
        errors = [item for item in self._items if item.severity == "error"]
        if errors:
            raise kind(errors)


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """Return diagnostics as a user reads them: message, place, excerpt with carets, notes, hint."""
    return "\n".join(_render_one(item) for item in diagnostics)


def _render_one(item: Diagnostic) -> str:
    lines = [f"{item.severity}[{item.code.code}]: {printable(item.message)}"]
    gutter = 1
    if item.span is not None:
        line, _ = item.span.source.line_column(item.span.start)
        gutter = len(str(item.span.source.told_line(line)))
        lines += _excerpt(item.span, gutter)
    elif item.place:
        lines.append(f" --> {printable_line(item.place)}")
    pad = " " * gutter
    lines += [f"{pad}= note: {printable(note)}" for note in item.notes]
    if item.hint:
        lines.append(f"{pad}= hint: {printable(item.hint)}")
    return "\n".join(lines)


def _excerpt(span: Span, gutter: int) -> list[str]:
    number, column = span.source.line_column(span.start)
    shown, start, n_behind = _part(span.source.line(number), column - 1, column - 1 + span.end - span.start)
    # A tab stays a tab in the caret line, so that the caret stands under its character.
    lead = "".join("\t" if char == "\t" else " " for char in shown[:start])
    width = max(1, min(span.end - span.start, len(shown) - n_behind - start))
    pad = " " * gutter
    return [
        f"{pad}--> {printable_line(str(span))}",
        f"{pad} |",
        f"{span.source.told_line(number)} | {printable_columns(shown)}",
        f"{pad} | {lead}{'^' * width}",
    ]


def _part(line: str, start: int, end: int) -> tuple[str, int, int]:
    """Return what is shown of a line, where `start` is in that, and how many characters stand for the rest.

    A line that is too long begins and ends between two words where it has blanks, but not before `end`.
    """
    if len(line) <= _EXCERPT_COLUMNS:
        return line, start, 0
    first = max(0, min(start - _EXCERPT_COLUMNS // 2, len(line) - _EXCERPT_COLUMNS))
    last = min(len(line), first + _EXCERPT_COLUMNS)
    if first:
        gap = line.find(" ", first, start)
        first = gap + 1 if 0 <= gap <= first + _LONGEST_CUT_WORD else first
    if last < len(line):
        gap = line.rfind(" ", min(end, last), last)
        last = gap if gap >= last - _LONGEST_CUT_WORD else last
    before, behind = "... " if first else "", " ..." if last < len(line) else ""
    return f"{before}{line[first:last]}{behind}", start - first + len(before), len(behind)


class _Missing(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def _fill(template: str, facts: Mapping[str, object]) -> str:
    return string.Formatter().vformat(template, (), _Missing(facts))
