"""What Ctrl-C and SIGTERM do: before a command has begun they end the process, with nothing open yet."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_told: list[bool] = []
_heard: list[int] = []
"""Numbers of the signals that came."""


def interrupted_code() -> int:
    """Return the exit code of an interrupted program: 130 by Ctrl-C, 143 by SIGTERM.

    Source: the convention of shells, 128 and the number of the signal.
    """
    return 128 + (_heard[0] if _heard else signal.SIGINT)


def leave_at_interrupts() -> None:
    """End at once from here on. Modules that are half read may swallow an exception, or change it."""
    for number in _SIGNALS:
        signal.signal(number, _leave)


def let_commands_hear() -> None:
    """Let an interrupt be an exception again: from here on a command knows what it has open."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _leave:
            signal.signal(number, _raise)


def tell_interrupted() -> None:
    """Say once that an interrupt was heard."""
    if not _told:
        _told.append(True)
        print("interrupted; nothing was left half-written", file=sys.stderr, flush=True)


def end_interrupted() -> None:
    """End now. Python itself would end by the signal where the interrupt met an `exec` on its way."""
    tell_interrupted()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(interrupted_code())


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not into a module that is being read: compiled ones abort on it."""
    _heard.append(number)
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            end_interrupted()
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    _heard.append(number)
    end_interrupted()
