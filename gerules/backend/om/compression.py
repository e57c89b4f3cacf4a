r"""Attribute names as numbers: undoing what GE does to make offline models smaller.

A name becomes NUL and the digits of its index in base 127, least significant first, each digit + 1;
the value of an attribute that holds texts becomes an index into a second table. The known-shape
parts of a dynamic model go through it twice: their table holds names the root's table explains.

Source: hicann/ge, `attr_name_enum`, `attr_value_enum`, `attrs_use_string_value`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_BASE: Final = 127
_MAX_DIGITS: Final = 5


@dataclass(frozen=True, slots=True)
class NameTables:
    """The tables of one model; `outer` are those of the root model around it."""

    names: Sequence[str] = ()
    texts: Sequence[bytes] = ()
    has_text_value: Sequence[bool] = ()
    outer: NameTables | None = field(default=None)

    def expand(self, name: str) -> tuple[str, Sequence[bytes] | None]:
        """Return the full name, and the table its text values index (None when values are plain).

        Raises:
            ValueError: With the reason, when a name points outside the tables.
        """
        tables: NameTables | None = self
        values: Sequence[bytes] | None = None
        while tables is not None and name.startswith("\0"):
            index = _index_of(name)
            if index >= len(tables.names):
                raise ValueError(f"name {index} is not among the {len(tables.names)} listed")
            if index < len(tables.has_text_value) and tables.has_text_value[index]:
                values = tables.texts
            name = tables.names[index]
            tables = tables.outer
        return name, values


NO_TABLES: Final = NameTables()


def _index_of(name: str) -> int:
    digits = name[1:]
    if not 1 <= len(digits) <= _MAX_DIGITS:
        raise ValueError(f"{name!r} is no compressed name")
    index = 0
    for digit in reversed(digits):
        if not 1 <= ord(digit) <= _BASE:
            raise ValueError(f"{name!r} is no compressed name")
        index = index * _BASE + ord(digit) - 1
    return index
