"""Devices and contexts: which one a thread works in, and what belongs to it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import fault
from gerules.compat.acl.handles import Handles, Kind
from gerules.compat.acl.streams import STREAM, Stream
from gerules.errors import table

N_DEVICES: Final = 1
"""This machine is one device."""

CONTEXT: Final = Kind("context", "create_context", codes.RT_CONTEXT_NULL)


@dataclass(eq=False)
class Context:
    """What a thread works in: a device, and streams. `handle` is its own."""

    device: int
    handle: int = 0
    is_destroyed: bool = False
    streams: dict[int, Stream] = field(default_factory=dict[int, Stream])
    _default: Stream | None = None

    @property
    def default_stream(self) -> Stream:
        """The stream that 0 stands for."""
        if self._default is None:
            self._default = Stream(self)
        return self._default

    def synchronize(self) -> None:
        """Wait for all its streams."""
        for stream in (*self.streams.values(), *([self._default] if self._default else [])):
            stream.synchronize()

    def close(self) -> None:
        """End its streams."""
        self.is_destroyed = True
        for stream in (*self.streams.values(), *([self._default] if self._default else [])):
            stream.close()
        self.streams.clear()


class _Current(threading.local):
    chosen: Context | None = None
    primary: Context | None = None


class Contexts:
    """The contexts of a process, and the current one of each thread."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._primary: dict[int, Context] = {}
        self._all: list[Context] = []
        self._current = _Current()

    def set_device(self, device: int) -> None:
        """Let this thread work in the device's own context. Raises 107001 for a device that is none."""
        _check_device(device)
        context = self._primary.get(device)
        if context is None or context.is_destroyed:
            context = self._new(device)
            self._primary[device] = context
        self._current.primary = self._current.chosen = context

    def reset_device(self, device: int) -> None:
        """Destroy the device's own context, once its streams have run. Raises 107001."""
        _check_device(device)
        context = self._primary.pop(device, None)
        if context is not None:
            try:
                context.synchronize()
            finally:
                self._close(context)

    def create(self, device: int) -> int:
        """Return a new context, which becomes this thread's. Raises 107001."""
        _check_device(device)
        context = self._new(device)
        self._current.chosen = context
        return context.handle

    def destroy(self, handle: object) -> None:
        """Destroy a context that `create` made. Raises 107002, 107000 for the device's own."""
        context = self._handles.get(handle, Context, CONTEXT)
        if context in self._primary.values():
            raise fault(
                codes.RT_PARAM_INVALID, table.ACL_ARGUMENT, argument="context", value=handle,
                reason="it is the device's own", remedy="call acl.rt.reset_device instead",
            )  # fmt: skip
        self._close(context)

    def choose(self, handle: object) -> None:
        """Let this thread work in a context. Raises 107002."""
        self._current.chosen = self._handles.get(handle, Context, CONTEXT)

    def current(self) -> Context:
        """Return this thread's context. Raises 107002 when it has none."""
        for context in (self._current.chosen, self._current.primary):
            if context is not None and not context.is_destroyed:
                return context
        raise fault(
            codes.RT_CONTEXT_NULL, table.ACL_SEQUENCE, reason="this thread has no context",
            remedy="call acl.rt.set_device, or acl.rt.set_context with a context of another thread",
        )  # fmt: skip

    def stream(self, handle: object) -> Stream:
        """Return a stream of this thread's context; 0 is its default one. Raises 107000, 107002, 107003."""
        context = self.current()
        if isinstance(handle, int) and handle == 0:
            return context.default_stream
        stream = self._handles.get(handle, Stream, STREAM)
        if stream.context is not context:
            raise fault(
                codes.RT_STREAM_CONTEXT, table.ACL_SEQUENCE, reason="the stream belongs to another context",
                remedy="call acl.rt.set_context with the context that the stream was made in",
            )  # fmt: skip
        return stream

    def create_stream(self) -> int:
        """Return a new stream of this thread's context. Raises 107002."""
        context = self.current()
        stream = Stream(context)
        handle = self._handles.add(stream)
        context.streams[handle] = stream
        return handle

    def destroy_stream(self, handle: object) -> None:
        """Destroy a stream once its tasks have run. Raises 107000."""
        stream = self._handles.remove(handle, Stream, STREAM)
        try:
            stream.synchronize()
        finally:
            stream.close()
        for context in self._all:
            context.streams = {at: item for at, item in context.streams.items() if item is not stream}

    def clear(self) -> None:
        """Destroy all contexts."""
        for context in self._all:
            context.close()
        self._all.clear()
        self._primary.clear()
        self._current = _Current()

    def _new(self, device: int) -> Context:
        context = Context(device)
        context.handle = self._handles.add(context)
        self._all.append(context)
        return context

    def _close(self, context: Context) -> None:
        for handle in (*context.streams, context.handle):
            self._handles.discard(handle)
        context.close()
        self._all = [item for item in self._all if item is not context]


def _check_device(device: int) -> None:
    if not 0 <= device < N_DEVICES:
        raise fault(
            codes.RT_DEVICE_ID, table.ACL_ARGUMENT, argument="device_id", value=device,
            reason=f"there is {N_DEVICES} device, this machine", remedy="use device 0",
        )  # fmt: skip
