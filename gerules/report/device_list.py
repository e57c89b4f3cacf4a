"""The devices that can be compiled for, with their engines and the numbers that weigh most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gerules.report.quantities import bytes_text
from gerules.report.tables import Column, Grid
from gerules.target import Device


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device. Numbers that its text does not give are None, whatever the cost model assumes."""

    name: str
    doc: str
    engines: tuple[tuple[str, int], ...]
    """Name, and operators it has; best first."""
    features: tuple[str, ...]
    n_lacking: int
    n_kernels: int
    n_cube_cores: float | None
    n_vector_cores: float | None
    clock_mhz: float | None
    peak_f16_tflops: float | None
    l1_bytes: float | None
    ub_bytes: float | None
    l2_bytes: float | None
    memory_bytes: float | None

    def as_json(self) -> dict[str, object]:
        """Return the row as plain values."""
        return {
            "device": self.name,
            "doc": self.doc,
            "engines": [{"engine": name, "n_ops": n_ops} for name, n_ops in self.engines],
            "features": list(self.features),
            "n_lacking_ops": self.n_lacking,
            "n_kernel_variants": self.n_kernels,
            "n_cube_cores": self.n_cube_cores,
            "n_vector_cores": self.n_vector_cores,
            "clock_mhz": self.clock_mhz,
            "peak_f16_tflops": self.peak_f16_tflops,
            "l1_bytes": self.l1_bytes,
            "ub_bytes": self.ub_bytes,
            "l2_bytes": self.l2_bytes,
            "memory_bytes": self.memory_bytes,
        }


def describe_device(device: Device) -> DeviceRow:
    """Return what a list says of a device."""
    engines = sorted(device.engines, key=lambda engine: (engine.priority, engine.name))
    cores, clock = _number(device, "n_cube_cores"), _number(device, "clock_mhz")
    peak = None
    if cores is not None and clock is not None:
        peak = cores * device.number("cube_flops_per_clock") * clock * 1e6 / 1e12
    return DeviceRow(
        device.name,
        device.doc,
        tuple((engine.name, len(engine.ops)) for engine in engines),
        tuple(sorted(device.features)),
        len(device.lacks_ops),
        len(device.kernels),
        cores,
        _number(device, "n_vector_cores"),
        clock,
        None if peak is None else round(peak, 1),
        _number(device, "l1_bytes"),
        _number(device, "ub_bytes"),
        _number(device, "l2_bytes"),
        _number(device, "memory_bytes"),
    )


def device_grid(rows: Sequence[DeviceRow]) -> Grid:
    """Return the list as a table."""
    columns = (
        Column("device", style="bold"),
        Column("what it is"),
        Column("cube", "right"),
        Column("vector", "right"),
        Column("MHz", "right"),
        Column("f16 TFLOPS", "right"),
        Column("UB", "right"),
        Column("L1", "right"),
        Column("L2", "right"),
        Column("memory", "right"),
    )
    cells = [
        (
            row.name,
            row.doc,
            _count(row.n_cube_cores),
            _count(row.n_vector_cores),
            _count(row.clock_mhz),
            "-" if row.peak_f16_tflops is None else f"{row.peak_f16_tflops:g}",
            _size(row.ub_bytes),
            _size(row.l1_bytes),
            _size(row.l2_bytes),
            _size(row.memory_bytes),
        )
        for row in rows
    ]
    return Grid(columns, cells, "Devices")


def engine_grid(rows: Sequence[DeviceRow]) -> Grid:
    """Return how many operators each engine of each device has."""
    names = list(dict.fromkeys(name for row in rows for name, _ in row.engines))
    columns = (Column("engine", style="bold"), *(Column(row.name, "right") for row in rows))
    counts = [dict(row.engines) for row in rows]
    cells = [(name, *(str(one.get(name, "-")) for one in counts)) for name in names]
    lacking = ("operators that it lacks", *(str(row.n_lacking) for row in rows))
    return Grid(columns, [*cells, lacking], "Operators by engine")


def _number(device: Device, name: str) -> float | None:
    value = device.numbers.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _size(value: float | None) -> str:
    return "-" if value is None else bytes_text(int(value))
