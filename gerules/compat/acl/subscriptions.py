"""Subscriptions to models: after each run its operators are written to a pipe, as records of one size."""

from __future__ import annotations

import contextlib
import os
import queue
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import fault
from gerules.compat.acl.handles import Kind
from gerules.compat.acl.memory import Bytes
from gerules.compat.acl.models import LoadedModel
from gerules.errors import table
from gerules.errors.counts import there_are
from gerules.runtime.executor import OpTime

SUBSCRIPTION: Final = Kind("subscription", "create_subscribe_config")

_RECORD: Final = struct.Struct("<I4xQQQ96s256s")
"""Model, begin, end and duration in nanoseconds, type, name. Scripts read it through the get_op calls."""

RECORD_BYTES: Final = _RECORD.size

_MOST_WAITING: Final = 1024
"""Runs that wait for a reader; of a reader that is slower than this, the newest are lost."""

_END_WAIT_S: Final = 5.0


@dataclass(eq=False)
class SubscribeConfig:
    """Where records go, and whether times are wanted."""

    wants_times: bool
    file: int


@dataclass(frozen=True, slots=True)
class SeenOp:
    """One record."""

    model: int
    start_ns: int
    end_ns: int
    took_ns: int
    type: str
    name: str


class Subscription:
    """Writes what runs of a model tell to a pipe, on a thread: readers may be slow."""

    def __init__(self, config: SubscribeConfig) -> None:
        self._config = config
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="acl subscription", daemon=True)
        self._thread.start()

    def __call__(self, model: LoadedModel, times: Sequence[OpTime], began_ns: int) -> None:
        start_ns = began_ns
        parts: list[bytes] = []
        for item in times if self._config.wants_times else ():
            took_ns = int(item.took_us * 1e3)
            type, name = item.op.removeprefix("ge::").encode()[:95], item.name.encode()[:255]
            parts.append(_RECORD.pack(model.number, start_ns, start_ns + took_ns, took_ns, type, name))
            start_ns += took_ns
        if parts:
            try:
                self._waiting.put_nowait(b"".join(parts))
            except queue.Full:
                return

    def close(self) -> None:
        """Write what waits, and close the pipe; a reader that does not read loses it."""
        try:
            self._waiting.put(None, timeout=_END_WAIT_S)
        except queue.Full:
            return
        self._thread.join(_END_WAIT_S)

    def _work(self) -> None:
        file = self._config.file
        try:
            while (data := self._waiting.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[os.write(file, view) :]
        except OSError:
            return  # the reader has gone
        finally:
            with contextlib.suppress(OSError):
                os.close(file)


def read_op(data: Bytes, index: int) -> SeenOp:
    """Return one record of those that a script read from its pipe. Raises 100000 when there is none."""
    n_ops = len(data) // RECORD_BYTES
    if index >= n_ops:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="index", value=index,
            reason=there_are(n_ops, "operator"), remedy="ask for fewer than acl.prof.get_op_num",
        )  # fmt: skip
    model, start, end, took, type, name = _RECORD.unpack_from(data.tobytes(), index * RECORD_BYTES)
    return SeenOp(model, start, end, took, _text(type), _text(name))


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
