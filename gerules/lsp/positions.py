"""Positions: offsets in a text, and the lines and code units by which editors count."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]
"""What a `character` of a position counts."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
"""The protocol knows these three line ends, and no others of Unicode."""


@dataclass(frozen=True)
class Lines:
    """The lines of a text, for translating positions in both directions.

    >>> lines = Lines("a𝄞b\\nc", "utf-16")
    >>> lines.position(2), lines.offset(0, 3)
    ((0, 3), 2)
    """

    text: str
    encoding: Encoding = "utf-16"

    @cached_property
    def starts(self) -> list[int]:
        """The offset of the first character of each line."""
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and character of an offset, both from 0; one outside is moved to the nearest end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset) - 1
        return line, self._units(self.text[self.starts[line] : offset])

    def offset(self, line: int, character: int) -> int:
        """Return the offset of a position; one beyond its line or inside a character is moved left."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.text)
        start, end = self.starts[line], self.line_end(line)
        if self.encoding == "utf-32":
            return min(start + max(0, character), end)
        at, units = start, 0
        while at < end:
            units += self._units(self.text[at])
            if units > character:
                break
            at += 1
        return at

    def line_end(self, line: int) -> int:
        """Return the offset behind the last character of a line, its end not counted."""
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        start = self.starts[line]
        return start + len(self.text[start:end].rstrip("\r\n"))

    def _units(self, piece: str) -> int:
        if self.encoding == "utf-32" or piece.isascii():
            return len(piece)
        if self.encoding == "utf-8":
            return len(piece.encode("utf-8", "surrogatepass"))
        return len(piece.encode("utf-16-le", "surrogatepass")) // 2
