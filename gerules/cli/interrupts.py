"""What Ctrl-C does before a command has begun: it ends the process at once, with nothing open yet."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit code of an interrupted program."""


def leave_at_interrupts() -> None:
    """End at once from here on. Modules that are half read may swallow an exception, or change it."""
    signal.signal(signal.SIGINT, _leave)


def let_commands_hear() -> None:
    """Let an interrupt be an exception again: from here on a command knows what it has open."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.stderr.write("interrupted; nothing was left half-written\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
