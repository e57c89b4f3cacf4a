"""Streams: stdout is for the protocol alone, and a message from outside is bounded."""

from __future__ import annotations

import io
import os
import sys
from typing import BinaryIO, Final

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""Largest message that is read; a text of the largest size has a few megabytes in JSON."""

_MAX_HEADER_BYTES: Final = 8192
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

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line, or the first 8 KiB of a longer one."""
        return super().readline(_MAX_HEADER_BYTES)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read a message of `size` bytes. One that is too large is read past."""
        left = size or 0
        if left <= MAX_MESSAGE_BYTES:
            return super().read(max(0, left))
        while left > 0 and (piece := super().read(min(left, 1 << 20))):
            left -= len(piece)
        return _NOTHING
