"""What torch's exporters say on the way kept from the user, without keeping anything from other threads."""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO


class _OtherThreads(logging.Filter):
    """Lets records of all threads pass but that of its maker."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread


class _Muted(io.TextIOBase):
    """A stream that takes nothing from the thread that made it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, s: str, /) -> int:
        return len(s) if threading.get_ident() == self._thread else self._stream.write(s)

    def flush(self) -> None:
        self._stream.flush()


def _handlers() -> list[logging.Handler]:
    """What prints records of torch: its loggers have handlers of their own, some of them far down."""
    loggers = [logging.getLogger()]
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "torch":
            loggers.append(logging.getLogger(name))
    found = [handler for logger in loggers for handler in logger.handlers]
    return found if logging.lastResort is None else [*found, logging.lastResort]


@contextmanager
def quiet(torch: Any) -> Generator[None]:
    """Both exporters warn about themselves and about constants that they trace, and print when they fail."""
    native: Any = torch._C
    was_logging = bool(native._jit_is_onnx_log_enabled())
    handlers = _handlers()
    others = _OtherThreads()
    for handler in handlers:
        handler.addFilter(others)
    native._jit_set_onnx_log_enabled(False)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(_Muted(sys.stdout)),
            redirect_stderr(_Muted(sys.stderr)),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        native._jit_set_onnx_log_enabled(was_logging)
        for handler in handlers:
            handler.removeFilter(others)
