"""Streams: stdout is for the protocol alone, and a message from outside is bounded."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from typing import BinaryIO, Final

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""Largest message that is read; a text of the largest size has a few megabytes in JSON."""

_MAX_HEADER_BYTES: Final = 8192
_LENGTH: Final = re.compile(rb"content-length:[ \t]*([0-9]{1,15})[ \t]*\r?\n$", re.IGNORECASE)
_SKIPPED: Final = b"Skipped: yes\r\n"
"""A header that says nothing, for one that must not be read."""

_LOG: Final = logging.getLogger(__name__)
_NOTHING: Final = b"null"
"""What is read in place of a message that is too large: JSON without a meaning."""


def take_stdout() -> BinaryIO:
    """Return stdout for the protocol; whatever else writes there from now on goes to stderr."""
    sys.stdout.flush()
    taken = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return taken


class BoundedInput(io.BufferedReader):
    """Stdin, of which headers and bodies of messages are read, of bounded size."""

    def __init__(self) -> None:
        super().__init__(io.FileIO(sys.stdin.fileno(), closefd=False))
        self._has_length = False
        """Whether the header under way has told a length, be it a good one or none."""

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line of a header, or the first 8 KiB of a longer one.

        A header without a length, or with one that is none, is told in the log. What follows is read past
        up to the next length, also where that stands behind the body that nobody knew the end of.
        """
        line = super().readline(_MAX_HEADER_BYTES)
        if (found := _LENGTH.search(line)) is not None:
            self._has_length = True
            return b"Content-Length: %b\r\n" % found[1]
        if line.lower().startswith(b"content-length:"):
            self._has_length = True
            _LOG.error("a message has the length %s, which is none; it is skipped", _shown(line))
            return _SKIPPED
        if line and not line.strip():
            if not self._has_length:
                _LOG.error("a message has no length; it is skipped")
            self._has_length = False
        return line

    def read(self, size: int | None = -1, /) -> bytes:
        """Read a message of `size` bytes. One that is too large is read past."""
        left = size or 0
        if left <= MAX_MESSAGE_BYTES:
            return super().read(max(0, left))
        while left > 0 and (piece := super().read(min(left, 1 << 20))):
            left -= len(piece)
        return _NOTHING


def _shown(header: bytes) -> str:
    return repr(header.partition(b":")[2].strip()[:40].decode("ascii", "replace"))
