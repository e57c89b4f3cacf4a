"""Files of a profile: the tables of msprof, and a trace for chrome://tracing."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import pvariance
from typing import BinaryIO, Final

from gerules.text.files import write_files

_CORE: Final = "AI_CORE"
_AICPU: Final = "AI_CPU"
_NA: Final = "N/A"

_LAYERS: Final = (("CANN", 7), ("Ascend Hardware", 14))
"""Layers of the trace and where they stand in it. Source: msprof."""

_HOST: Final = 31
_MOST_FOLDERS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One launch of an operator; texts of types are joined by `;` as msprof does."""

    model: str
    model_number: int
    name: str
    op: str
    stream: int
    run: int
    start_us: float
    took_us: float
    input_shapes: str
    input_types: str
    input_formats: str
    output_shapes: str
    output_types: str
    output_formats: str

    @property
    def core(self) -> str:
        """The kind of core, which is all that a run on a CPU knows of it."""
        return _CORE if self.op.startswith("ge::") else _AICPU


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of pyACL, or a range that the script marked."""

    name: str
    level: str
    start_us: float
    took_us: float
    thread: int


@dataclass(slots=True)
class Profile:
    """What was seen while profiling ran."""

    ops: list[OpRecord] = field(default_factory=list[OpRecord])
    calls: list[CallRecord] = field(default_factory=list[CallRecord])

    @property
    def is_empty(self) -> bool:
        """Whether nothing was seen."""
        return not self.ops and not self.calls


def write_profile(profile: Profile, folder: Path) -> Path:
    """Write a profile into a new folder `PROF_...` and return it. Raises OSError when the disk refuses."""
    stamp = time.strftime("%Y%m%d%H%M%S")
    made = _make_folder(folder, stamp)
    inner = made / "mindstudio_profiler_output"
    inner.mkdir()
    tables: dict[str, tuple[Sequence[str], Iterable[Sequence[object]]]] = {
        "op_summary": (_SUMMARY, _summary_rows(profile.ops)),
        "op_statistic": (_STATISTIC, _statistic_rows(profile.ops)),
        "api_statistic": (_API, _api_rows(profile.calls)),
        "task_time": (_TASK_TIME, _task_rows(profile.ops)),
    }
    files = [(inner / f"{name}_{stamp}.csv", _table(*table)) for name, table in tables.items()]
    trace = json.dumps(list(_trace(profile)), ensure_ascii=False).encode()
    write_files([*files, (inner / f"msprof_{stamp}.json", _bytes(trace))])
    return made


def _make_folder(folder: Path, stamp: str) -> Path:
    for number in range(1, _MOST_FOLDERS):
        made = folder / f"PROF_{number:06d}_{stamp}_{os.getpid():08X}"
        try:
            made.mkdir(parents=True)
        except FileExistsError:
            continue
        return made
    raise OSError(17, "there are too many profiles in the folder")


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Callable[[BinaryIO], None]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return _bytes(text.getvalue().encode())


def _bytes(data: bytes) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        file.write(data)

    return write


# ---------------------------------------------------------------- tables, with the columns of msprof
_SUMMARY: Final = (
    "Device_id", "Model Name", "Model ID", "Task ID", "Stream ID", "Infer ID", "Op Name", "OP Type",
    "OP State",
    "Task Type", "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Num",
    "Mix Block Num",
    "HF32 Eligible", "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes",
    "Output Data Types",
    "Output Formats", "Context ID",
)  # fmt: skip
_STATISTIC: Final = (
    "Device_id", "Model Name", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)",
    "Avg Time(us)",
    "Max Time(us)", "Ratio(%)",
)  # fmt: skip
_API: Final = (
    "Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance",
)  # fmt: skip
_TASK_TIME: Final = (
    "Device_id", "kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)", "task_start(us)",
    "task_stop(us)",
)  # fmt: skip


def _summary_rows(ops: Sequence[OpRecord]) -> Iterable[Sequence[object]]:
    end_us: dict[int, float] = {}
    for task, op in enumerate(ops):
        waited_us = max(0.0, op.start_us - end_us.get(op.stream, op.start_us))
        end_us[op.stream] = op.start_us + op.took_us
        yield (
            0, op.model, op.model_number, task, op.stream, op.run, op.name, op.op.removeprefix("ge::"),
            "static",
            op.core, f"{op.start_us:.3f}", f"{op.took_us:.3f}", f"{waited_us:.3f}", 1, 0, "NO",
            f'"{op.input_shapes}"', op.input_types, op.input_formats, f'"{op.output_shapes}"',
            op.output_types,
            op.output_formats, _NA,
        )  # fmt: skip


def _statistic_rows(ops: Sequence[OpRecord]) -> Iterable[Sequence[object]]:
    def key(op: OpRecord) -> tuple[str, str, str]:
        return op.model, op.op.removeprefix("ge::"), op.core

    total_us = sum(op.took_us for op in ops) or 1.0
    for (model, name, core), group in itertools.groupby(sorted(ops, key=key), key):
        times = [op.took_us for op in group]
        yield (
            0, model, name, core, len(times), *_times(sum(times), min(times), sum(times) / len(times),
            max(times)),
            f"{100 * sum(times) / total_us:.3f}",
        )  # fmt: skip


def _api_rows(calls: Sequence[CallRecord]) -> Iterable[Sequence[object]]:
    def key(call: CallRecord) -> tuple[str, str]:
        return call.level, call.name

    for (level, name), group in itertools.groupby(sorted(calls, key=key), key):
        times = [call.took_us for call in group]
        total = sum(times)
        row = _times(total, total / len(times), min(times), max(times))
        yield 0, level, name, row[0], len(times), *row[1:], f"{pvariance(times):.3f}"


def _task_rows(ops: Sequence[OpRecord]) -> Iterable[Sequence[object]]:
    for task, op in enumerate(ops):
        kind = "KERNEL_AICORE" if op.core == _CORE else "KERNEL_AICPU"
        times = _times(op.took_us, op.start_us, op.start_us + op.took_us)
        yield 0, op.name, kind, op.stream, task, *times


def _times(*values: float) -> tuple[str, ...]:
    return tuple(f"{value:.3f}" for value in values)


# ---------------------------------------------------------------- the trace
def _trace(profile: Profile) -> Iterable[dict[str, object]]:
    pids = {name: os.getpid() << 10 | at << 5 | (_HOST if name == "CANN" else 0) for name, at in _LAYERS}
    for name, at in _LAYERS:
        yield {"ph": "M", "name": "process_name", "pid": pids[name], "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pids[name], "args": {"sort_index": at}}
    hardware = pids["Ascend Hardware"]
    for stream in sorted({op.stream for op in profile.ops}):
        yield {
            "ph": "M", "name": "thread_name", "pid": hardware, "tid": stream,
            "args": {"name": f"Stream {stream}"},
        }  # fmt: skip
    for task, op in enumerate(profile.ops):
        yield {
            "ph": "X", "name": op.name, "pid": hardware, "tid": op.stream, "ts": f"{op.start_us:.3f}",
            "dur": round(op.took_us, 3),
            "args": {
                "Model Id": op.model_number, "Task Type": op.core, "Physic Stream Id": op.stream,
                "Task Id": task,
                "Batch Id": 0, "Subtask Id": 0,
            },
        }  # fmt: skip
    for call in profile.calls:
        yield {
            "ph": "X", "name": call.name, "pid": pids["CANN"], "tid": call.thread,
            "ts": f"{call.start_us:.3f}",
            "dur": round(call.took_us, 3), "args": {"level": call.level},
        }  # fmt: skip
