"""Reading what is right of a text: items that are at fault are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gerules.dsl.declarations import RuleFile
from gerules.dsl.transform import read_file
from gerules.dsl.tree import RuleError
from gerules.errors import Diagnostic, Faults, GerulesError, Source
from gerules.text.parse import item_starts

MAX_ROUNDS: Final = 12
"""Times that a text is read without what was at fault before; then the rest of it is not looked at."""

NO_LINE_END: Final = re.compile(r"[^\r\n]")
"""What is replaced by blanks, so that offsets and lines stay."""

_RULE: Final = re.compile(r"rule\s+(\w+)")


def without_items(text: str, diagnostics: Iterable[Diagnostic]) -> str:
    """Return the text with blanks for the items that faults point into; for all where one has no place."""
    starts = item_starts(text)
    ends = [*starts[1:], len(text)]
    places = [item.span.start if item.span is not None else None for item in diagnostics]
    if None in places:
        return NO_LINE_END.sub(" ", text)
    bad = {sum(1 for start in starts[1:] if start <= place) for place in places if place is not None}
    pieces = [
        NO_LINE_END.sub(" ", text[start:end]) if number in bad else text[start:end]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return "".join(pieces)


def read_sound_rules(source: Source, faults: Faults, *, later: bool = False) -> tuple[RuleFile, set[str]]:
    """Read a file without the rules that cannot be read.

    Returns:
        The file, and the names of the rules left out; their faults are recorded.

    Raises:
        GerulesError: when something else than a rule is at fault: what it declares would be missed elsewhere.

    Cost: one reading for a text without faults, at most twelve for any other.
    """
    text, left_out = source.text, set[str]()
    own = Faults()
    for _ in range(MAX_ROUNDS):
        try:
            file = read_file(Source(source.name, text, source.lines), later=later)
        except GerulesError as error:
            own.extend(error.diagnostics)
            mended = without_items(text, error.diagnostics)
            starts = item_starts(text)
            gone = [
                text[start:end]
                for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
                if text[start:end].strip() and not mended[start:end].strip()
            ]
            names = [_RULE.match(item) for item in gone]
            if not gone or None in names:
                raise type(error)(own.diagnostics) from None
            left_out |= {name[1] for name in names if name is not None}
            text = mended
        else:
            faults.extend(own.diagnostics)
            return file, left_out
    raise RuleError(own.diagnostics)
