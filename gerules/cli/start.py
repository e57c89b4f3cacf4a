"""Where the program begins: an interrupt counts from the first moment on, also while modules are read."""

from __future__ import annotations

import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def main() -> int:
    """Run the program and return its exit code; the entry point of the `gerules` script."""
    signal.signal(signal.SIGINT, leave_at_once)
    from gerules.cli.app import main as run

    return run()


def let_commands_hear() -> None:
    """Let an interrupt be an exception again: from here on a command knows what it has open."""
    if signal.getsignal(signal.SIGINT) is leave_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave_at_once(number: int, frame: FrameType | None) -> None:
    """End the process: nothing is open yet."""
    # Modules that are half read may swallow an exception, or turn it into another.
    sys.stderr.write("interrupted; nothing was left half-written\n")
    sys.stderr.flush()
    import os

    os._exit(_INTERRUPTED)
