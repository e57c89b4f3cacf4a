"""Texts from outside made safe to print: a name must not move the cursor, colour, or reverse what follows."""

from __future__ import annotations

from typing import Final

# C0 without tab and newline, DEL, C1; marks and overrides of direction; other line ends.
_UNSAFE: Final = (
    *range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)  # fmt: skip
_ESCAPES: Final = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _UNSAFE}
_MARKS: Final = dict.fromkeys(_UNSAFE, "\ufffd")
_ESCAPES_IN_A_LINE: Final = _ESCAPES | {ord("\n"): "\\n"}


def printable(text: str) -> str:
    """Return a text with what steers a terminal written out, as in `\\x1b`; tabs and newlines stay."""
    return text.translate(_ESCAPES)


def printable_line(text: str) -> str:
    """Return a text as `printable` does, newlines written out too."""
    return text.translate(_ESCAPES_IN_A_LINE)


def printable_columns(text: str) -> str:
    """Return a text in which a mark stands for each such character, so that columns stay where they are."""
    return text.translate(_MARKS)
