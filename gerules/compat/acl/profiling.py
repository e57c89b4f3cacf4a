"""Profiling: what is recorded between start and stop, of which calls, operators and ranges of the script."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gerules.compat.acl.codes as codes
from gerules.backend.definitions import graphs_in
from gerules.compat.acl.calling import GATE, AclFault, fault
from gerules.compat.acl.handles import Kind
from gerules.compat.acl.models import LoadedModel
from gerules.compat.acl.profile_files import CallRecord, OpRecord, Profile, write_profile
from gerules.errors import table
from gerules.ir import Graph, TensorType, ValueType
from gerules.runtime.executor import OpTime
from gerules.runtime.interpreter import place_of

CONFIG: Final = Kind("profiling configuration", "create_config")
STAMP: Final = Kind("stamp", "create_stamp")

ACL_API: Final = 0x1
TASK_TIME: Final = 0x2
AICORE_METRICS: Final = 0x4
MSPROFTX: Final = 0x80
"""What a configuration asks for, as bits. Source: CANN, ACL_PROF_*."""

_DEFAULT_FOLDER: Final = "."


@dataclass(eq=False)
class ProfileConfig:
    """What is to be recorded."""

    data_type: int
    devices: tuple[int, ...]
    metrics: int


@dataclass(eq=False)
class Stamp:
    """A mark of the script: what it says, and when it began."""

    message: str = ""
    began_ns: int = 0


class Profiler:
    """The profiler of a process."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._running: ProfileConfig | None = None
        self._profile = Profile()
        self._runs = itertools.count(1)
        self._ranges: dict[int, Stamp] = {}
        self._range_numbers = itertools.count(1)
        self._pushed = threading.local()
        self._lock = threading.Lock()
        self.written: Path | None = None
        """Where the last profile was written."""

    # ------------------------------------------------------------ begin and end
    def configure(self, section: Mapping[str, object]) -> None:
        """Begin as the configuration file of init asks for."""
        if section.get("switch") == "on":
            output = section.get("output")
            self.begin(output if isinstance(output, str) and output else _DEFAULT_FOLDER)
            self.start(ProfileConfig(ACL_API | TASK_TIME | MSPROFTX, (0,), 0xFF))

    def begin(self, folder: str) -> None:
        """Say where profiles go. Raises 100042 when that was said, 100000 for no folder."""
        if self._folder is not None:
            raise fault(
                codes.PROF_ALREADY_RUN, table.ACL_PROFILING, reason="profiling is initialized already",
                remedy="call acl.prof.finalize first",
            )  # fmt: skip
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise fault(codes.INVALID_PARAM, table.CANNOT_WRITE, path=folder, reason=str(error)) from None
        self._folder = path

    def start(self, config: ProfileConfig) -> None:
        """Record from now on. Raises 100042 when it does, 100043 before `begin`."""
        self._need_folder()
        if self._running is not None:
            raise fault(
                codes.PROF_ALREADY_RUN, table.ACL_PROFILING, reason="profiling has started already",
                remedy="call acl.prof.stop first",
            )  # fmt: skip
        self._running = config
        if config.data_type & ACL_API:
            GATE.watch = self._record_call

    def stop(self, config: ProfileConfig) -> None:
        """Record no more. Raises 100043 unless started, 100010 for another configuration."""
        if self._running is None:
            raise fault(
                codes.PROF_NOT_RUN, table.ACL_PROFILING, reason="profiling has not started",
                remedy="call acl.prof.start first",
            )  # fmt: skip
        if self._running is not config:
            raise fault(
                codes.PROFILING_CONFIG, table.ACL_PROFILING,
                reason="profiling was started by another configuration",
                remedy="pass the configuration of acl.prof.start",
            )  # fmt: skip
        self._running = None
        GATE.watch = None

    def finish(self) -> None:
        """Write what was recorded, and forget it.

        Raises 100043 before `begin`, 100004 when the disk refuses.
        """
        folder = self._need_folder()
        self._running = None
        GATE.watch = None
        profile, self._profile, self._folder = self._profile, Profile(), None
        if profile.is_empty:
            return
        try:
            self.written = write_profile(profile, folder)
        except OSError as error:
            raise fault(codes.WRITE_FILE, table.CANNOT_WRITE, path=folder, reason=str(error)) from None

    def close(self) -> None:
        """Write what is left, when pyACL ends; what goes wrong is kept for get_recent_err_msg."""
        if self._folder is not None:
            try:
                self.finish()
            except AclFault as failed:
                GATE.errors.add("acl.finalize", failed)
        self._ranges.clear()

    # ------------------------------------------------------------ what is recorded
    @property
    def wants_ops(self) -> bool:
        """Whether runs are to be timed by operator."""
        return self._running is not None and bool(self._running.data_type & (TASK_TIME | AICORE_METRICS))

    def record_run(self, model: LoadedModel, times: Sequence[OpTime], began_ns: int) -> None:
        """Add the operators of a run."""
        nodes = _nodes_of(model)
        run = next(self._runs)
        start_us = began_ns / 1e3
        records: list[OpRecord] = []
        for item in times:
            inputs, outputs = nodes.get((item.name, item.op), ((), ()))
            records.append(
                OpRecord(
                    model.facts.name,
                    model.number,
                    item.name,
                    item.op,
                    item.stream,
                    run,
                    start_us,
                    item.took_us,
                    *_texts(inputs),
                    *_texts(outputs),
                )
            )
            start_us += item.took_us
        with self._lock:
            self._profile.ops += records

    def _record_call(self, name: str, began_ns: int, ended_ns: int) -> None:
        self._add(name, "acl", began_ns, ended_ns)

    def _add(self, name: str, level: str, began_ns: int, ended_ns: int) -> None:
        record = CallRecord(name, level, began_ns / 1e3, (ended_ns - began_ns) / 1e3, threading.get_ident())
        with self._lock:
            self._profile.calls.append(record)

    # ------------------------------------------------------------ marks of the script
    def push(self, stamp: Stamp) -> None:
        """Begin a range that ends with the next `pop` of this thread."""
        stamp.began_ns = time.perf_counter_ns()
        stack: list[Stamp] = self._pushed.__dict__.setdefault("stack", [])
        stack.append(stamp)

    def pop(self) -> None:
        """End the range of the last `push`. Raises 100000 when there is none."""
        stack: list[Stamp] = self._pushed.__dict__.setdefault("stack", [])
        if not stack:
            raise fault(
                codes.INVALID_PARAM, table.ACL_PROFILING, reason="no range of this thread is open",
                remedy="call acl.prof.push first",
            )  # fmt: skip
        self._end(stack.pop())

    def range_start(self, stamp: Stamp) -> int:
        """Begin a range, and return its number."""
        stamp.began_ns = time.perf_counter_ns()
        number = next(self._range_numbers)
        self._ranges[number] = stamp
        return number

    def range_stop(self, number: int) -> None:
        """End a range by its number. Raises 100000 when there is none."""
        stamp = self._ranges.pop(number, None)
        if stamp is None:
            raise fault(
                codes.INVALID_PARAM, table.ACL_PROFILING, reason=f"there is no range {number}",
                remedy="pass what acl.prof.range_start returned, once",
            )  # fmt: skip
        self._end(stamp)

    def mark(self, stamp: Stamp) -> None:
        """Mark a moment."""
        stamp.began_ns = time.perf_counter_ns()
        self._end(stamp)

    def _end(self, stamp: Stamp) -> None:
        if self._running is not None and self._running.data_type & MSPROFTX:
            self._add(stamp.message or "stamp", "msproftx", stamp.began_ns, time.perf_counter_ns())

    def _need_folder(self) -> Path:
        if self._folder is None:
            raise fault(
                codes.PROF_NOT_RUN, table.ACL_PROFILING, reason="profiling is not initialized",
                remedy="call acl.prof.init with a folder first",
            )  # fmt: skip
        return self._folder


def _nodes_of(
    model: LoadedModel,
) -> dict[tuple[str, str], tuple[tuple[ValueType, ...], tuple[ValueType, ...]]]:
    """The types that each operator of a model reads and makes."""
    return {
        (place_of(node), node.op): (_types(graph, node.reads()), _types(graph, node.writes()))
        for graph in graphs_in(model.executor.graph)
        for node in graph.nodes.values()
    }


def _types(graph: Graph, values: Iterable[int]) -> tuple[ValueType, ...]:
    return tuple(graph.type_of(value) for value in values)


def _texts(types: Sequence[ValueType]) -> tuple[str, str, str]:
    """Shapes, element types and formats as msprof joins them."""
    tensors = [type for type in types if isinstance(type, TensorType)]
    shapes = (",".join(str(dim) for dim in type.storage_shape or ()) for type in tensors)
    names = (_MSPROF_TYPES.get(type.dtype.value, type.dtype.name) for type in tensors)
    return ";".join(shapes), ";".join(names), ";".join(type.format.name for type in tensors)


_MSPROF_TYPES: Final = {
    "f32": "FLOAT", "f16": "FLOAT16", "bf16": "DT_BF16", "f64": "DOUBLE", "i8": "INT8", "i16": "INT16",
    "i32": "INT32", "i64": "INT64", "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "u64": "UINT64",
    "bool": "BOOL",
}  # fmt: skip

PROFILER: Final = Profiler()
"""The one of this process."""
