"""What Ctrl-C does before a command has begun: it ends the process at once, with nothing open yet."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit code of an interrupted program. Source: the convention of shells, 128 + SIGINT."""

_told: list[bool] = []


def leave_at_interrupts() -> None:
    """End at once from here on. Modules that are half read may swallow an exception, or change it."""
    signal.signal(signal.SIGINT, _leave)


def let_commands_hear() -> None:
    """Let an interrupt be an exception again: from here on a command knows what it has open."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, _raise)


def tell_interrupted() -> None:
    """Say once that Ctrl-C was heard."""
    if not _told:
        _told.append(True)
        print("interrupted; nothing was left half-written", file=sys.stderr, flush=True)


def end_interrupted() -> None:
    """End now. Python itself would end by the signal where the interrupt met an `exec` on its way."""
    tell_interrupted()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(INTERRUPTED)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not into a module that is being read: compiled ones abort on it."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            end_interrupted()
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    end_interrupted()
