"""Where the program begins: an interrupt counts from the first moment on, also while modules are read."""

from __future__ import annotations

import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def main() -> int:
    """Run the program and return its exit code; the entry point of the `gerules` script."""
    before = signal.signal(signal.SIGINT, _leave)
    from gerules.cli.app import main as run

    signal.signal(signal.SIGINT, before)
    return run()


def _leave(number: int, frame: FrameType | None) -> None:
    # Modules that are half read may swallow an exception, or turn it into another. Nothing is open yet.
    sys.stderr.write("interrupted; nothing was left half-written\n")
    sys.stderr.flush()
    import os

    os._exit(_INTERRUPTED)
