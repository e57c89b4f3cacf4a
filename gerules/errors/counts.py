"""Counts in messages: a noun behind 1 is singular, whatever the message has to say for other counts."""

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
_REGULAR: Final = (
    "arguments", "arrays", "bytes", "channels", "dimensions", "elements", "events", "gears",
    "graphs", "inputs", "items", "names", "nodes", "numbers", "offsets", "operators", "options", "outputs",
    "parameters", "results", "rows", "sizes", "steps", "streams", "terms", "tensors", "values", "weights",
)  # fmt: skip

_ONE: Final = re.compile(
    rf"(?P<are>\bthere are |\bThere are )?(?<![\w.,/*-])1 (?P<noun>{'|'.join((*_IRREGULAR, *_REGULAR))})\b"
    r"(?P<verb> are\b)?"
)


def agree(text: str) -> str:
    """Return a text in which nouns behind the number 1 are singular.

    >>> agree("there are 1 inputs, and 1 entries; it takes 11 values"), agree("1 gears, x.1 sizes")
    ('there is 1 input, and 1 entry; it takes 11 values', '1 gear, x.1 sizes')
    """
    return _ONE.sub(_singular, text)


def _singular(found: re.Match[str]) -> str:
    noun = found["noun"]
    one = _IRREGULAR.get(noun, noun[:-1])
    before, behind = ((found[name] or "").replace("are", "is") for name in ("are", "verb"))
    return f"{before}1 {one}{behind}"
