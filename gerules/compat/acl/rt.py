"""acl.rt: devices, contexts, streams, events, memory, callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import fault, no_sizes, returns_code, returns_pair, shown, whole
from gerules.compat.acl.contexts import N_DEVICES
from gerules.compat.acl.memory import Side
from gerules.compat.acl.process import PROCESS
from gerules.compat.acl.streams import EVENT, Event
from gerules.errors import table

__all__ = [
    "create_context",
    "create_event",
    "create_stream",
    "destroy_context",
    "destroy_event",
    "destroy_stream",
    "event_elapsed_time",
    "free",
    "free_host",
    "get_context",
    "get_device",
    "get_device_count",
    "get_mem_info",
    "get_run_mode",
    "launch_callback",
    "malloc",
    "malloc_host",
    "memcpy",
    "memcpy_async",
    "memset",
    "memset_async",
    "process_report",
    "record_event",
    "reset_device",
    "set_context",
    "set_device",
    "stream_wait_event",
    "subscribe_report",
    "synchronize_device",
    "synchronize_event",
    "synchronize_stream",
    "unsubscribe_report",
]


def __dir__() -> list[str]:
    return list(__all__)


# ---------------------------------------------------------------- devices and contexts
@returns_code("acl.rt.set_device")
def set_device(device_id: int) -> None:
    """Let this thread work on a device, in its own context. Returns 0 or 107001."""
    PROCESS.contexts.set_device(whole(device_id, "device_id", code=codes.RT_DEVICE_ID))


@returns_code("acl.rt.reset_device")
def reset_device(device_id: int) -> None:
    """Destroy a device's own context once its streams have run. Returns 0 or 107001."""
    PROCESS.contexts.reset_device(whole(device_id, "device_id", code=codes.RT_DEVICE_ID))


@returns_pair("acl.rt.get_device", lambda: -1)
def get_device() -> int:
    """Return the device of this thread, and 0 or 107002."""
    return PROCESS.contexts.current().device


@returns_pair("acl.rt.get_device_count", int)
def get_device_count() -> int:
    """Return how many devices there are: one, this machine."""
    return N_DEVICES


@returns_pair("acl.rt.get_run_mode", lambda: -1)
def get_run_mode() -> int:
    """Return 1, for a host that copies to a device."""
    PROCESS.contexts.current()
    return codes.RUN_MODE_HOST


@returns_pair("acl.rt.create_context", int)
def create_context(device_id: int) -> int:
    """Return a new context, which becomes that of this thread, and 0 or 107001."""
    return PROCESS.contexts.create(whole(device_id, "device_id", code=codes.RT_DEVICE_ID))


@returns_code("acl.rt.destroy_context")
def destroy_context(context: int) -> None:
    """Destroy a context and its streams. Returns 0, 107000 for a device's own, 107002."""
    PROCESS.contexts.destroy(context)


@returns_code("acl.rt.set_context")
def set_context(context: int) -> None:
    """Let this thread work in a context. Returns 0 or 107002."""
    PROCESS.contexts.choose(context)


@returns_pair("acl.rt.get_context", int)
def get_context() -> int:
    """Return the context of this thread, and 0 or 107002."""
    return PROCESS.contexts.current().handle


@returns_code("acl.rt.synchronize_device")
def synchronize_device() -> None:
    """Wait for all streams of this thread's context. Returns the first fault of one."""
    PROCESS.contexts.current().synchronize()


# ---------------------------------------------------------------- streams and events
@returns_pair("acl.rt.create_stream", int)
def create_stream() -> int:
    """Return a new stream of this thread's context, and 0 or 107002."""
    return PROCESS.contexts.create_stream()


@returns_code("acl.rt.destroy_stream")
def destroy_stream(stream: int) -> None:
    """Destroy a stream once its tasks have run. Returns 0, 107000, or the first fault of a task."""
    PROCESS.contexts.destroy_stream(stream)


@returns_code("acl.rt.synchronize_stream")
def synchronize_stream(stream: int) -> None:
    """Wait until a stream's tasks have run. Returns 0, or the first fault of one."""
    PROCESS.contexts.stream(stream).synchronize()


@returns_pair("acl.rt.create_event", int)
def create_event() -> int:
    """Return a new event, and 0 or 107002."""
    PROCESS.contexts.current()
    return PROCESS.handles.add(Event())


@returns_code("acl.rt.destroy_event")
def destroy_event(event: int) -> None:
    """Forget an event. Returns 0 or 107000."""
    PROCESS.handles.remove(event, Event, EVENT)


@returns_code("acl.rt.record_event")
def record_event(event: int, stream: int) -> None:
    """Let an event pass when a stream comes to it. Returns 0 or 107000."""
    PROCESS.handles.get(event, Event, EVENT).record(PROCESS.contexts.stream(stream))


@returns_code("acl.rt.stream_wait_event")
def stream_wait_event(stream: int, event: int) -> None:
    """Let a stream wait until an event has passed. Returns 0 or 107000."""
    PROCESS.handles.get(event, Event, EVENT).hold(PROCESS.contexts.stream(stream))


@returns_code("acl.rt.synchronize_event")
def synchronize_event(event: int) -> None:
    """Wait until an event has passed. Returns 0 or 107000."""
    PROCESS.handles.get(event, Event, EVENT).wait()


@returns_pair("acl.rt.event_elapsed_time", float)
def event_elapsed_time(start: int, end: int) -> float:
    """Return the milliseconds between two events, and 0, 107000, or 107006 before both have passed."""
    return PROCESS.handles.get(start, Event, EVENT).until(PROCESS.handles.get(end, Event, EVENT))


# ---------------------------------------------------------------- memory
@returns_pair("acl.rt.malloc", int)
def malloc(size: int, policy: int) -> int:
    """Return the address of device memory of `size` bytes, and 0, 100000, 107002 or 207001."""
    whole(policy, "policy")
    PROCESS.contexts.current()
    return PROCESS.memory.allocate(whole(size, "size"), Side.DEVICE, "acl.rt.malloc")


@returns_code("acl.rt.free")
def free(dev_ptr: int) -> None:
    """Free what `malloc` returned. Returns 0, 100000 for 0, 107000 for anything else, twice too."""
    PROCESS.memory.free(whole(dev_ptr, "dev_ptr"), Side.DEVICE, "acl.rt.free")


@returns_pair("acl.rt.malloc_host", int)
def malloc_host(size: int) -> int:
    """Return the address of host memory of `size` bytes, and 0, 100000, 107002 or 207001."""
    PROCESS.contexts.current()
    return PROCESS.memory.allocate(whole(size, "size"), Side.HOST, "acl.rt.malloc_host")


@returns_code("acl.rt.free_host")
def free_host(host_ptr: int) -> None:
    """Free what `malloc_host` returned. Returns 0, 100000 for 0, 107000 for anything else."""
    PROCESS.memory.free(whole(host_ptr, "host_ptr"), Side.HOST, "acl.rt.free_host")


@returns_code("acl.rt.memcpy")
def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> None:
    """Copy `count` bytes; `kind` says between which memories.

    Returns:
        0; 100000 for address 0 or an unknown kind, 107000 for sizes and addresses that do not fit.
    """
    copy = _copy_of(dst, dest_max, src, count, kind)
    PROCESS.contexts.current()
    PROCESS.memory.copy(*copy)


@returns_code("acl.rt.memcpy_async")
def memcpy_async(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int) -> None:
    """Copy when a stream comes to it; what is wrong then is what `synchronize_stream` returns."""
    copy = _copy_of(dst, dest_max, src, count, kind)
    memory = PROCESS.memory
    PROCESS.contexts.stream(stream).submit(lambda: memory.copy(*copy))


@returns_code("acl.rt.memset")
def memset(dev_ptr: int, max_count: int, value: int, count: int) -> None:
    """Set `count` bytes to a value. Returns 0, 100000 or 107000."""
    fill = _fill_of(dev_ptr, max_count, value, count)
    PROCESS.contexts.current()
    PROCESS.memory.fill(*fill)


@returns_code("acl.rt.memset_async")
def memset_async(dev_ptr: int, max_count: int, value: int, count: int, stream: int) -> None:
    """Set bytes when a stream comes to it."""
    fill = _fill_of(dev_ptr, max_count, value, count)
    memory = PROCESS.memory
    PROCESS.contexts.stream(stream).submit(lambda: memory.fill(*fill))


def get_mem_info(attr: int) -> tuple[int, int, int]:
    """Return free and total bytes, and 0, 100000 or 107002.

    `attr` is 0 for DDR, 1 for HBM; both are this machine's.
    """
    (free_bytes, total_bytes), code = _mem_info(attr)
    return free_bytes, total_bytes, code


@returns_pair("acl.rt.get_mem_info", no_sizes)
def _mem_info(attr: int) -> tuple[int, int]:
    whole(attr, "attr")
    PROCESS.contexts.current()
    memory = PROCESS.memory
    return max(0, memory.total_bytes - memory.used_bytes), memory.total_bytes


def _copy_of(dst: int, dest_max: int, src: int, count: int, kind: int) -> tuple[int, int, int, int, int]:
    return (
        whole(dst, "dst"), whole(dest_max, "dest_max"), whole(src, "src"), whole(count, "count"),
        whole(kind, "kind"),
    )  # fmt: skip


def _fill_of(dev_ptr: int, max_count: int, value: int, count: int) -> tuple[int, int, int, int]:
    return (
        whole(dev_ptr, "dev_ptr"), whole(max_count, "max_count"), whole(value, "value", least=-(1 << 31)),
        whole(count, "count"),
    )  # fmt: skip


# ---------------------------------------------------------------- callbacks
@returns_code("acl.rt.subscribe_report")
def subscribe_report(thread_id: int, stream: int) -> None:
    """Let a thread run the callbacks of a stream. Returns 0, 107000, 100033 when another one does."""
    thread = whole(thread_id, "thread_id", least=1)
    found = PROCESS.contexts.stream(stream)
    if found.subscriber is not None:
        raise fault(
            codes.REPEAT_SUBSCRIBE, table.ACL_CALLBACK, reason="a thread is subscribed to the stream already",
            remedy="call acl.rt.unsubscribe_report first",
        )  # fmt: skip
    found.subscriber = thread
    PROCESS.reports.subscribe(thread)


@returns_code("acl.rt.unsubscribe_report")
def unsubscribe_report(thread_id: int, stream: int) -> None:
    """Undo `subscribe_report`. Returns 0, 107000, 107012 when the thread is not subscribed to the stream."""
    found = PROCESS.contexts.stream(stream)
    if found.subscriber != whole(thread_id, "thread_id"):
        raise fault(
            codes.RT_THREAD_SUBSCRIBE, table.ACL_CALLBACK,
            reason="the thread is not subscribed to the stream",
            remedy="pass the thread and the stream of acl.rt.subscribe_report",
        )  # fmt: skip
    found.subscriber = None
    PROCESS.reports.unsubscribe(thread_id)


@returns_code("acl.rt.launch_callback")
def launch_callback(
    fn: Callable[[object], object], user_data_list: object, block_type: int, stream: int
) -> None:
    """Let `fn(user_data_list)` run on the subscribed thread when a stream comes to it.

    Args:
        block_type: 1 lets the stream wait for it, 0 not.

    Returns:
        0; 100000, 107000, 107015 when no thread is subscribed.
    """
    if not callable(cast(object, fn)):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="fn", value=shown(fn),
            reason="it is no function",
            remedy="pass a function of one argument",
        )  # fmt: skip
    blocks = whole(block_type, "block_type")
    if blocks > 1:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="block_type", value=blocks,
            reason="there are 0 and 1", remedy="pass 1 to let the stream wait",
        )  # fmt: skip
    PROCESS.contexts.stream(stream).launch(fn, user_data_list, bool(blocks), PROCESS.reports)


@returns_code("acl.rt.process_report")
def process_report(timeout: int) -> None:
    """Run the callbacks that are due for this thread, or wait for one.

    Args:
        timeout: Milliseconds, more than 0; -1 waits without end.

    Returns:
        0; 100000, 107012 when the thread is subscribed to nothing, 507012 when nothing came in time,
        500001 when a callback raised.
    """
    milliseconds = whole(timeout, "timeout", least=-1)
    if milliseconds == 0 or milliseconds > threading.TIMEOUT_MAX * 1000:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="timeout", value=timeout,
            reason="it is no time to wait", remedy="pass milliseconds, or -1 to wait without end",
        )  # fmt: skip
    PROCESS.reports.process(threading.get_ident(), milliseconds)
