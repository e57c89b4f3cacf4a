"""Counts with their nouns: made from a number, or put right in the text of a message."""

from __future__ import annotations

import re
from typing import Final

_IRREGULAR: Final = {
    "axes": "axis",
    "branches": "branch",
    "entries": "entry",
    "indices": "index",
    "matches": "match",
    "vertices": "vertex",
}
_PLURALS: Final = {one: many for many, one in _IRREGULAR.items()}
_REGULAR: Final = (
    "arguments", "arrays", "bytes", "channels", "dimensions", "elements", "events", "gears",
    "graphs", "inputs", "items", "names", "nodes", "numbers", "offsets", "operators", "options", "outputs",
    "parameters", "results", "rows", "sizes", "steps", "streams", "terms", "tensors", "values", "weights",
)  # fmt: skip

_ONE: Final = re.compile(
    rf"(?P<are>\bthere are |\bThere are )?(?<![\w.,/*-])1 (?P<noun>{'|'.join((*_IRREGULAR, *_REGULAR))})\b"
    r"(?P<verb> are\b)?"
)


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun, which is given for 1.

    >>> count_text(1, "event"), count_text(2, "event"), count_text(0, "entry"), count_text(3, "near miss")
    ('1 event', '2 events', '0 entries', '3 near misses')
    """
    ending = "es" if noun.endswith("s") else "s"
    return f"{count} {noun if count == 1 else _PLURALS.get(noun, noun + ending)}"


def there_are(count: int, noun: str) -> str:
    """Return a count as a sentence.

    >>> there_are(1, "buffer"), there_are(0, "buffer")
    ('there is 1 buffer', 'there are 0 buffers')
    """
    return f"there {'is' if count == 1 else 'are'} {count_text(count, noun)}"


def agree(text: str) -> str:
    """Return a text in which nouns behind the number 1 are singular, where its facts came as plural.

    >>> agree("there are 1 inputs, and 1 entries; it takes 11 values"), agree("1 gears, x.1 sizes")
    ('there is 1 input, and 1 entry; it takes 11 values', '1 gear, x.1 sizes')
    """
    return _ONE.sub(_singular, text)


def _singular(found: re.Match[str]) -> str:
    noun = found["noun"]
    one = _IRREGULAR.get(noun, noun[:-1])
    before, behind = ((found[name] or "").replace("are", "is") for name in ("are", "verb"))
    return f"{before}1 {one}{behind}"
