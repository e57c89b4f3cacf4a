"""Torch's tracers and exporters, used by one thread of the process at a time."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

_LOCK: Final = threading.RLock()


@contextmanager
def alone() -> Generator[None]:
    """Keep other threads from exporting, and from compiling by TorchDynamo, meanwhile.

    Torch says in variables of the whole process that it is exporting, and puts them back when it is done:
    two threads that overlap would leave them set for good.
    """
    convert_frame: Any = import_module("torch._dynamo.convert_frame")
    # Tracing control flow takes the lock of TorchDynamo, so that both are always taken in this order.
    with _LOCK, convert_frame.compile_lock:
        yield
