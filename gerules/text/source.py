"""Sources: a text read from a file, bounded in size and known to be UTF-8."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gerules.errors import GerulesError, Source, table
from gerules.text.files import open_regular

MAX_TEXT_BYTES: Final = 4 * 1024 * 1024
"""Largest text read; the largest rule file anybody wrote by hand is far below a hundredth of it."""


class TextError(GerulesError):
    """A text cannot be read, or does not follow its grammar."""


def read_source(path: Path, *, name: str = "", limit_bytes: int = MAX_TEXT_BYTES) -> Source:
    """Read a file as a `Source`; `name` is what diagnostics call it (default: the path as given).

    Raises:
        TextError: E10001 when it cannot be read, E10005 when it is too large, E40005 when it is no UTF-8.
    """
    name = name or str(path)
    try:
        # One byte more than allowed is enough to know, even of a file that grows while it is read.
        with open_regular(path) as file:
            raw = file.read(limit_bytes + 1)
            size_bytes = len(raw) if len(raw) <= limit_bytes else max(len(raw), path.stat().st_size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TextError(table.FILE_NOT_FOUND, place=name, path=name, reason=reason) from None
    if len(raw) > limit_bytes:
        raise _too_large(name, size_bytes, limit_bytes)
    try:
        return Source(name, raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise TextError(table.NOT_UTF8, place=name, path=name, at_byte=error.start) from None


def check_size(source: Source, limit_bytes: int = MAX_TEXT_BYTES) -> None:
    """Raise TextError E10005 when a text is larger than `limit_bytes`."""
    # A character is at most four bytes, so most texts need no encoding to be known small.
    if len(source.text) * 4 <= limit_bytes:
        return
    size_bytes = len(source.text.encode("utf-8", "surrogatepass"))
    if size_bytes > limit_bytes:
        raise _too_large(source.name, size_bytes, limit_bytes)


def _too_large(name: str, size_bytes: int, limit_bytes: int) -> TextError:
    return TextError(
        table.FILE_TOO_LARGE, place=name, path=name, size_bytes=size_bytes, limit_bytes=limit_bytes
    )
