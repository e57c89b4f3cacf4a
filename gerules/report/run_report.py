"""What a run gave: outputs in numbers, how they compare, where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gerules.ir import dtype_of
from gerules.report.comparison import Array, OutputDifference, unpack
from gerules.report.quantities import error_text, time_text
from gerules.report.tables import Column, Grid
from gerules.runtime.program import OpTime

_N_LAUNCHES_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """One input or output in numbers; the extremes are of its finite elements, None where there are none."""

    name: str
    type: str
    source: str
    least: float | None
    mean: float | None
    most: float | None
    n_not_finite: int

    def as_json(self) -> dict[str, object]:
        """Return the row as plain values."""
        return {
            "name": self.name,
            "type": self.type,
            "source": self.source,
            "min": self.least,
            "mean": self.mean,
            "max": self.most,
            "n_not_finite": self.n_not_finite,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """How the outputs compare with those of the model they were compiled from.

    `sizes` are those of made-up inputs whose sizes the model leaves open, such as `x[1, 3, 2, 2]`.
    """

    model: str
    against: str
    rtol_reason: str
    differences: Sequence[OutputDifference]
    sizes: str = ""

    @property
    def is_good(self) -> bool:
        """Whether every output is close enough."""
        return all(item.is_close for item in self.differences)

    def as_json(self) -> dict[str, object]:
        """Return the check as plain values."""
        found: dict[str, object] = {
            "model": self.model,
            "against": self.against,
            "rtol_reason": self.rtol_reason,
            "ok": self.is_good,
            "outputs": [item.as_json() for item in self.differences],
        }
        return found | ({"made_up": self.sizes} if self.sizes else {})


def check_grid(checks: Sequence[Check]) -> Grid:
    """Return checks against one model as a table."""
    columns = (
        Column("judge"),
        Column("output", style="bold"),
        Column("type"),
        Column("max abs error", "right"),
        Column("max rel error", "right"),
        Column("allowed", "right"),
        Column("verdict"),
    )
    rows = [
        (
            check.against,
            row.name,
            row.type,
            error_text(row.max_abs),
            error_text(row.max_rel),
            f"{row.rtol:g}",
            ("ok" if row.is_close else "DIFFERENT") + (f": {row.reason}" if row.reason else ""),
        )
        for check in checks
        for row in check.differences
    ]
    reasons = ", ".join(dict.fromkeys(check.rtol_reason for check in checks))
    notes = (
        "relative error: the largest difference over the largest magnitude of the wanted output; "
        f"allowed: {reasons}",
        *(f"the model leaves sizes open, and was run with {check.sizes}" for check in checks if check.sizes),
    )
    models = ", ".join(dict.fromkeys(check.model for check in checks))
    return Grid(columns, rows, f"Compared with {models}", notes)


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run of one file. `times` is empty unless launches were timed."""

    file: str
    how: str
    took_us: float
    inputs: Sequence[ArrayRow]
    outputs: Sequence[ArrayRow]
    check: Check | None = None
    times: Sequence[OpTime] = field(default_factory=tuple)

    def as_json(self) -> dict[str, object]:
        """Return the report: `file`, `how`, `took_us`, `inputs`, `outputs`, `check`, `launches`."""
        return {
            "file": self.file,
            "how": self.how,
            "took_us": round(self.took_us, 1),
            "inputs": [row.as_json() for row in self.inputs],
            "outputs": [row.as_json() for row in self.outputs],
            "check": None if self.check is None else self.check.as_json(),
            "launches": [
                {"name": one.name, "op": one.op, "stream": one.stream, "took_us": round(one.took_us, 1)}
                for one in self.times
            ],
        }

    def array_grid(self) -> Grid:
        """Return inputs and outputs as a table."""
        columns = (
            Column(""),
            Column("name", style="bold"),
            Column("type"),
            Column("from"),
            Column("min", "right"),
            Column("mean", "right"),
            Column("max", "right"),
        )
        rows = [("in", *_cells(row)) for row in self.inputs] + [("out", *_cells(row)) for row in self.outputs]
        notes = [
            f"{row.name}: {row.n_not_finite} elements are NaN or infinite"
            for row in (*self.inputs, *self.outputs)
            if row.n_not_finite
        ]
        return Grid(columns, rows, f"{self.file}, {self.how}, {time_text(self.took_us)}", notes)

    def op_grid(self) -> Grid:
        """Return the time by operator, longest first."""
        total_us = sum(one.took_us for one in self.times) or 1.0
        by_op: dict[str, list[float]] = {}
        for one in self.times:
            by_op.setdefault(one.op, []).append(one.took_us)
        ranked = sorted(by_op.items(), key=lambda item: -sum(item[1]))
        columns = (
            Column("operator", style="bold"),
            Column("launches", "right"),
            Column("took", "right"),
            Column("share", "right"),
            Column("longest", "right"),
        )
        rows = [
            (op, str(len(us)), time_text(sum(us)), f"{100 * sum(us) / total_us:.1f} %", time_text(max(us)))
            for op, us in ranked
        ]
        note = f"{len(self.times)} launches, {time_text(total_us)} in them"
        return Grid(columns, rows, "Time by operator", (note,))

    def launch_grid(self) -> Grid:
        """Return the longest launches."""
        ranked = sorted(self.times, key=lambda one: -one.took_us)[:_N_LAUNCHES_SHOWN]
        columns = (
            Column("launch", style="bold"),
            Column("operator"),
            Column("stream", "right"),
            Column("took", "right"),
        )
        rows = [(one.name, one.op, str(one.stream), time_text(one.took_us)) for one in ranked]
        return Grid(columns, rows, f"The {len(rows)} longest launches")


def describe_arrays(arrays: Mapping[str, object], source: Mapping[str, str] | str = "") -> list[ArrayRow]:
    """Return inputs or outputs in numbers; sequences item by item, what is absent by its name alone."""
    found: list[ArrayRow] = []
    for name, value in arrays.items():
        origin = source if isinstance(source, str) else source.get(name, "")
        items = unpack({name: value})
        found += [_describe(item, array, origin) for item, array in items.items()]
        if not items:
            kind = "none" if value is None else "an empty sequence"
            found.append(ArrayRow(name, kind, origin, None, None, None, 0))
    return found


def _describe(name: str, array: Array, source: str) -> ArrayRow:
    type = f"{dtype_of(array)}{list(array.shape)}"
    if array.dtype.kind in "OUSTc" or not array.size:
        return ArrayRow(name, type, source, None, None, None, 0)
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    n_lost = wide.size - finite.size
    if not finite.size:
        return ArrayRow(name, type, source, None, None, None, n_lost)
    return ArrayRow(
        name, type, source, float(finite.min()), float(finite.mean()), float(finite.max()), n_lost
    )


def _cells(row: ArrayRow) -> tuple[str, ...]:
    return (row.name, row.type, row.source, _short(row.least), _short(row.mean), _short(row.most))


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
