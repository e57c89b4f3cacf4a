"""TASK_INFO: what the device is told to do, one task after the other, stream by stream.

Source: hicann/metadef `proto/task.proto`; task numbers of the runtime's `model_task_type`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from gerules.backend.om.error import OmError
from gerules.backend.om.proto import ModelTaskDef, Wire, parse, serialize
from gerules.errors import table


class TaskType(IntEnum):
    """What a task does. Files know more kinds than these."""

    KERNEL = 0
    EVENT_RECORD = 1
    EVENT_WAIT = 2
    FUSION_START = 3
    FUSION_END = 4
    KERNEL_EX = 5
    HCCL = 6
    STREAM_SWITCH = 7
    STREAM_ACTIVE = 8
    LABEL_SET = 9
    LABEL_SWITCH = 10
    LABEL_GOTO = 11
    PROFILER_TRACE = 12
    MEMCPY_ASYNC = 13
    NOTIFY_RECORD = 14
    NOTIFY_WAIT = 15
    EVENT_RESET = 18
    END_GRAPH = 19
    MEMCPY_ADDR_ASYNC = 22
    LABEL_SWITCH_BY_INDEX = 23
    LABEL_GOTO_EX = 24
    MODEL_EXIT = 25
    ALL_KERNEL = 26
    FFTS = 28
    FFTS_PLUS = 29
    DSA = 30
    CMO = 31
    VECTOR_KERNEL = 39
    VECTOR_ALL_KERNEL = 40
    SUPER_KERNEL = 44
    FUSION_KERNEL = 47


_EVENT_TASKS: Final = {TaskType.EVENT_RECORD, TaskType.EVENT_WAIT, TaskType.EVENT_RESET}


@dataclass(frozen=True, slots=True)
class OmKernel:
    """The launch of a kernel: its name, how many cores share it, and its arguments as bytes."""

    name: str = ""
    stub: str = ""
    n_blocks: int = 1
    args: bytes = b""
    args_format: str = ""
    kernel_type: int = 0
    so_name: str = ""


@dataclass(frozen=True, slots=True)
class OmCopy:
    """A copy from one address to another."""

    source: int
    target: int
    size_bytes: int
    limit_bytes: int = 0
    kind: int = 0


@dataclass(frozen=True, slots=True)
class OmTask:
    """One step of a stream.

    `op_id` is the `OmOp.id` it belongs to, None when it belongs to none; `event_id` counts for
    event tasks, `activates` is the stream that a STREAM_ACTIVE task starts.
    """

    type: int
    stream_id: int = 0
    op_id: int | None = None
    event_id: int = 0
    kernel: OmKernel | None = None
    copy: OmCopy | None = None
    activates: int | None = None
    private: bytes = b""
    """Bytes of whoever wrote the file; devices pass over them."""

    @property
    def name(self) -> str:
        """The name of the type, `task <n>` when it has none."""
        try:
            return TaskType(self.type).name
        except ValueError:
            return f"task {self.type}"


@dataclass(frozen=True, slots=True)
class OmTasks:
    """All tasks of a model in launch order, and the addresses their arguments count from."""

    tasks: tuple[OmTask, ...] = ()
    base_address: int = 0
    weight_address: int = 0
    attrs: tuple[tuple[str, str], ...] = field(default=())
    is_stored: bool = True
    """False when the file has no TASK_INFO, or one that is no list of tasks."""


NO_TASKS: Final = OmTasks()


def read_tasks(data: memoryview, *, place: str = "") -> OmTasks:
    """Decode TASK_INFO. Raises OmError E80009 when it is no message."""
    message = parse(ModelTaskDef, data, part="TASK_INFO", place=place)
    return OmTasks(
        tuple(_read_task(task) for task in message.task),
        message.base_addr,
        message.weight_addr,
        tuple(sorted(message.attr.items())),
    )


def _read_task(task: Wire) -> OmTask:
    kernel: OmKernel | None = None
    copy: OmCopy | None = None
    activates: int | None = None
    op_id: int | None = None
    if task.HasField("kernel"):
        wire = task.kernel
        kernel = OmKernel(
            wire.kernel_name, wire.stub_func, wire.block_dim, wire.args, wire.context.args_format,
            wire.context.kernel_type, wire.so_name,
        )  # fmt: skip
        op_id = wire.context.op_index
    elif task.HasField("kernel_ex"):
        op_id = task.kernel_ex.op_index
    elif task.HasField("event_ex"):
        op_id = task.event_ex.op_index
    elif task.HasField("memcpy_async"):
        wire = task.memcpy_async
        copy = OmCopy(wire.src, wire.dst, wire.count, wire.dst_max, wire.kind)
        op_id = wire.op_index
    elif task.HasField("stream_switch"):
        op_id = task.stream_switch.op_index
    elif task.HasField("stream_active"):
        op_id = task.stream_active.op_index
        activates = task.stream_active.active_stream_id
    return OmTask(task.type, task.stream_id, op_id, task.event_id, kernel, copy, activates, task.private_def)


def pack_tasks(
    tasks: OmTasks, *, memory_size_bytes: int, weight_size_bytes: int, n_streams: int, n_events: int
) -> bytes:
    """Encode TASK_INFO; at least the number of streams is in it, for an empty message is refused.

    Raises:
        OmError: E80021 for a number or a text that does not fit its field, E80022 beyond 2 GiB.
    """
    message = ModelTaskDef(version="2")
    try:
        message.memory_size, message.weight_size = memory_size_bytes, weight_size_bytes
        message.stream_num, message.event_num = max(1, n_streams), n_events
        message.base_addr, message.weight_addr = tasks.base_address, tasks.weight_address
        for key, value in tasks.attrs:
            message.attr[key] = value
        for number, task in enumerate(tasks.tasks):
            _pack_task(message.task.add(id=number), task)
    except (ValueError, TypeError) as fault:
        raise OmError(table.OM_CANNOT_HOLD, what="a task", reason=str(fault)) from None
    return serialize(message, part="TASK_INFO")


def _pack_task(wire: Wire, task: OmTask) -> None:
    wire.type, wire.stream_id, wire.event_id = task.type, task.stream_id, task.event_id
    wire.private_def = task.private
    op_id = task.op_id or 0
    if task.kernel is not None:
        kernel = task.kernel
        wire.kernel.kernel_name, wire.kernel.stub_func = kernel.name, kernel.stub
        wire.kernel.block_dim, wire.kernel.so_name = kernel.n_blocks, kernel.so_name
        wire.kernel.args, wire.kernel.args_size = kernel.args, len(kernel.args)
        context = wire.kernel.context
        context.op_index, context.kernel_type = op_id, kernel.kernel_type
        context.args_format = kernel.args_format
        context.args_count, context.args_offset = 1, b"\0\0"
        context.origin_op_index.append(op_id)
    elif task.copy is not None:
        copy = wire.memcpy_async
        copy.src, copy.dst, copy.count = task.copy.source, task.copy.target, task.copy.size_bytes
        copy.dst_max, copy.kind, copy.op_index = task.copy.limit_bytes, task.copy.kind, op_id
    elif task.activates is not None:
        wire.stream_active.op_index = op_id
        wire.stream_active.active_stream_id = task.activates
    elif task.op_id is not None:
        if task.type not in _EVENT_TASKS:
            raise ValueError(f"{task.name} has no field for the operator it belongs to")
        wire.event_ex.op_index = op_id
        wire.event_ex.event_type = task.type
