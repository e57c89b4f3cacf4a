"""Sizes in bytes as people write them."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_SIZE: Final = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*(B|KiB|MiB|GiB|TiB)?\s*", re.ASCII)


def parse_size(text: str) -> int | None:
    """Return a size in bytes, or None for a text that is none, or less than one byte.

    >>> parse_size("512MiB"), parse_size("1.5 KiB"), parse_size("many")
    (536870912, 1536, None)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    return int(float(found[1]) * 1024 ** _UNITS.index(found[2] or "B")) or None
