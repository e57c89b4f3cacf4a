"""acl.prof: profiles in msprof's files, ranges of the script, subscriptions to models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, cast

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import fault, returns_code, returns_pair, returns_value, text_of, whole
from gerules.compat.acl.memory import Bytes
from gerules.compat.acl.process import PROCESS
from gerules.compat.acl.profiling import CONFIG, PROFILER, STAMP, ProfileConfig, Stamp
from gerules.compat.acl.subscriptions import (
    RECORD_BYTES,
    SUBSCRIPTION,
    SeenOp,
    SubscribeConfig,
    Subscription,
    read_op,
)
from gerules.errors import table

__all__ = [
    "create_config",
    "create_stamp",
    "create_subscribe_config",
    "destroy_config",
    "destroy_stamp",
    "destroy_subscribe_config",
    "finalize",
    "get_model_id",
    "get_op_desc_size",
    "get_op_duration",
    "get_op_end",
    "get_op_name",
    "get_op_name_v2",
    "get_op_num",
    "get_op_start",
    "get_op_type",
    "get_op_type_v2",
    "init",
    "mark",
    "model_subscribe",
    "model_unsubscribe",
    "pop",
    "push",
    "range_start",
    "range_stop",
    "set_config",
    "set_stamp_trace_message",
    "start",
    "stop",
]

_SETTINGS: Final = 6
"""Kinds of settings that `set_config` knows. Source: CANN, aclprofConfigType."""


def __dir__() -> list[str]:
    return list(__all__)


# ---------------------------------------------------------------- a profile
@returns_code("acl.prof.init")
def init(prof_result_path: str) -> None:
    """Say in which folder profiles are written. Returns 0, 100000, 100042 the second time."""
    PROFILER.begin(text_of(prof_result_path, "prof_result_path"))


@returns_code("acl.prof.finalize")
def finalize() -> None:
    """Write `PROF_.../mindstudio_profiler_output` with what was recorded. Returns 0, 100004, 100043."""
    PROFILER.finish()


@returns_value("acl.prof.create_config", int)
def create_config(device_list: Sequence[int], aicore_metrics: int, aicore_events: int, data_type: int) -> int:
    """Return what is to be recorded; 0 when an argument is none.

    Args:
        aicore_metrics, aicore_events: Counters of the device, of which this machine has none.
        data_type: Bits: 1 calls, 2 times of operators, 0x80 ranges of the script.
    """
    if not isinstance(cast(object, device_list), list | tuple):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="device_list", value=type(device_list).__name__,
            reason="it is no list", remedy="pass [0]",
        )  # fmt: skip
    devices = tuple(whole(item, "device_list") for item in device_list)
    whole(aicore_events, "aicore_events")
    return PROCESS.handles.add(
        ProfileConfig(whole(data_type, "data_type"), devices, whole(aicore_metrics, "aicore_metrics"))
    )


@returns_code("acl.prof.destroy_config")
def destroy_config(profiler_config: int) -> None:
    """Forget a configuration. Returns 0 or 100000."""
    PROCESS.handles.remove(profiler_config, ProfileConfig, CONFIG)


@returns_code("acl.prof.set_config")
def set_config(config_type: int, config: str) -> None:
    """Take a setting of the device's profiler.

    There is nothing of it to set on this machine. Returns 0 or 100000.
    """
    if whole(config_type, "config_type", least=1) > _SETTINGS:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="config_type", value=config_type,
            reason=f"settings are 1 to {_SETTINGS}", remedy="pass one of them",
        )  # fmt: skip
    text_of(config, "config")


@returns_code("acl.prof.start")
def start(profiler_config: int) -> None:
    """Record from now on. Returns 0, 100000, 100042 when it does, 100043 before init."""
    PROFILER.start(PROCESS.handles.get(profiler_config, ProfileConfig, CONFIG))


@returns_code("acl.prof.stop")
def stop(profiler_config: int) -> None:
    """Record no more. Returns 0, 100000, 100010 for another configuration, 100043 unless started."""
    PROFILER.stop(PROCESS.handles.get(profiler_config, ProfileConfig, CONFIG))


# ---------------------------------------------------------------- ranges of the script
@returns_value("acl.prof.create_stamp", int)
def create_stamp() -> int:
    """Return a new stamp, 0 before init."""
    return PROCESS.handles.add(Stamp())


@returns_value("acl.prof.destroy_stamp", lambda: None)
def destroy_stamp(stamp: int) -> None:
    """Forget a stamp; returns nothing."""
    PROCESS.handles.remove(stamp, Stamp, STAMP)


@returns_code("acl.prof.set_stamp_trace_message")
def set_stamp_trace_message(stamp: int, msg: str, msg_len: int) -> None:
    """Say what a stamp stands for, in `msg_len` characters. Returns 0 or 100000."""
    found = PROCESS.handles.get(stamp, Stamp, STAMP)
    found.message = text_of(msg, "msg")[: whole(msg_len, "msg_len")]


@returns_code("acl.prof.push")
def push(stamp: int) -> None:
    """Begin a range that the next `pop` of this thread ends. Returns 0 or 100000."""
    PROFILER.push(PROCESS.handles.get(stamp, Stamp, STAMP))


@returns_code("acl.prof.pop")
def pop() -> None:
    """End the range of the last `push`. Returns 0 or 100000."""
    PROFILER.pop()


@returns_pair("acl.prof.range_start", int)
def range_start(stamp: int) -> int:
    """Begin a range that any thread may end; return its number, and 0 or 100000."""
    return PROFILER.range_start(PROCESS.handles.get(stamp, Stamp, STAMP))


@returns_code("acl.prof.range_stop")
def range_stop(range_id: int) -> None:
    """End a range. Returns 0 or 100000."""
    PROFILER.range_stop(whole(range_id, "range_id"))


@returns_code("acl.prof.mark")
def mark(stamp: int) -> None:
    """Mark a moment. Returns 0 or 100000."""
    PROFILER.mark(PROCESS.handles.get(stamp, Stamp, STAMP))


# ---------------------------------------------------------------- subscriptions
@returns_value("acl.prof.create_subscribe_config", int)
def create_subscribe_config(time_info_switch: int, aicore_metrics: int, fd: int) -> int:
    """Return where records of operators go: a pipe's end for writing, which `model_unsubscribe` closes."""
    whole(aicore_metrics, "aicore_metrics")
    file = whole(fd, "fd")
    try:
        os.fstat(file)
    except (OSError, OverflowError):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="fd", value=file, reason="it is no open file",
            remedy="pass the second end of os.pipe()",
        ) from None  # fmt: skip
    return PROCESS.handles.add(SubscribeConfig(bool(whole(time_info_switch, "time_info_switch")), file))


@returns_code("acl.prof.destroy_subscribe_config")
def destroy_subscribe_config(subscribe_config: int) -> None:
    """Forget where records go; subscriptions stay. Returns 0 or 100000."""
    PROCESS.handles.remove(subscribe_config, SubscribeConfig, SUBSCRIPTION)


@returns_code("acl.prof.model_subscribe")
def model_subscribe(model_id: int, subscribe_config: int) -> None:
    """Write the operators of each run of a model to a pipe.

    Returns 0, 100000, 145003, 100033 the second time.
    """
    model = PROCESS.models.get(model_id)
    config = PROCESS.handles.get(subscribe_config, SubscribeConfig, SUBSCRIPTION)
    if any(isinstance(watcher, Subscription) for watcher in model.watchers):
        raise fault(
            codes.REPEAT_SUBSCRIBE, table.ACL_PROFILING, reason="the model has a subscription already",
            remedy="call acl.prof.model_unsubscribe first",
        )  # fmt: skip
    model.watchers.append(Subscription(config))


@returns_code("acl.prof.model_unsubscribe")
def model_unsubscribe(model_id: int) -> None:
    """End the subscription of a model, and close its pipe. Returns 0, 100043, 145003."""
    model = PROCESS.models.get(model_id)
    found = [watcher for watcher in model.watchers if isinstance(watcher, Subscription)]
    if not found:
        raise fault(
            codes.PROF_NOT_RUN, table.ACL_PROFILING, reason="the model has no subscription",
            remedy="call acl.prof.model_subscribe first",
        )  # fmt: skip
    for item in found:
        model.watchers.remove(item)
        item.close()


@returns_pair("acl.prof.get_op_desc_size", int)
def get_op_desc_size() -> int:
    """Return the bytes of one record in the pipe."""
    return RECORD_BYTES


@returns_pair("acl.prof.get_op_num", int)
def get_op_num(op_info: int, op_info_len: int) -> int:
    """Return how many records there are in `op_info_len` bytes at an address."""
    return len(_records(op_info, op_info_len)) // RECORD_BYTES


@returns_value("acl.prof.get_model_id", int)
def get_model_id(op_info: int, op_info_len: int, index: int) -> int:
    """Return the model of a record."""
    return _op(op_info, op_info_len, index).model


@returns_pair("acl.prof.get_op_type", str)
def get_op_type(op_info: int, op_info_len: int, index: int, op_type_len: int) -> str:
    """Return the type of a record's operator, cut to `op_type_len`."""
    return _op(op_info, op_info_len, index).type[: whole(op_type_len, "op_type_len")]


@returns_pair("acl.prof.get_op_type_v2", str)
def get_op_type_v2(op_info: int, op_info_len: int, index: int) -> str:
    """Return the type of a record's operator."""
    return _op(op_info, op_info_len, index).type


@returns_pair("acl.prof.get_op_name", str)
def get_op_name(op_info: int, op_info_len: int, index: int, op_name_len: int) -> str:
    """Return the name of a record's operator, cut to `op_name_len`."""
    return _op(op_info, op_info_len, index).name[: whole(op_name_len, "op_name_len")]


@returns_pair("acl.prof.get_op_name_v2", str)
def get_op_name_v2(op_info: int, op_info_len: int, index: int) -> str:
    """Return the name of a record's operator."""
    return _op(op_info, op_info_len, index).name


@returns_value("acl.prof.get_op_start", int)
def get_op_start(op_info: int, op_info_len: int, index: int) -> int:
    """Return when a record's operator began, in nanoseconds."""
    return _op(op_info, op_info_len, index).start_ns


@returns_value("acl.prof.get_op_end", int)
def get_op_end(op_info: int, op_info_len: int, index: int) -> int:
    """Return when it ended, in nanoseconds."""
    return _op(op_info, op_info_len, index).end_ns


@returns_value("acl.prof.get_op_duration", int)
def get_op_duration(op_info: int, op_info_len: int, index: int) -> int:
    """Return how long it took, in nanoseconds."""
    return _op(op_info, op_info_len, index).took_ns


def _records(op_info: int, op_info_len: int) -> Bytes:
    size_bytes = whole(op_info_len, "op_info_len")
    return PROCESS.memory.span(whole(op_info, "op_info"), size_bytes, "op_info", code=codes.INVALID_PARAM)


def _op(op_info: int, op_info_len: int, index: int) -> SeenOp:
    return read_op(_records(op_info, op_info_len), whole(index, "index"))
