"""Devices: engines, formats, sizes and rates, as data; written as `device` blocks in `rules/devices/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gerules.errors import GerulesError
from gerules.ir import DType, Format, ValueType

Number = float | int | str | bool
"""What a device can `set`."""

NodeGuard = Callable[[str, Sequence[ValueType | None], Sequence[ValueType], Mapping[str, object]], bool]
"""Whether a node may run so: (operator, input types, output types, attributes)."""


class TargetError(GerulesError):
    """A device is not known, or its description lacks something."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One place where operators run.

    The engine with the smallest `priority` number that has the operator and whose `where` holds takes
    it. An attached engine rides the stream of what comes before; an independent one has its own.
    """

    name: str
    priority: int
    ops: frozenset[str]
    where: NodeGuard | None = None
    reason: str = ""
    """What its text says where `where` does not hold."""
    is_attached: bool = False
    is_independent: bool = False


@dataclass(frozen=True, slots=True)
class FormatPort:
    """The format of one input or output of a kernel: a format, or a variable shared within the kernel."""

    name: str
    format: Format | str
    is_optional: bool = False
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel variant: the storage formats it takes and gives. Source: `formats on` tables.

    `cost` multiplies the node's time; the cheapest variant that needs no conversion wins.
    """

    engine: str
    ops: frozenset[str]
    inputs: tuple[FormatPort, ...]
    outputs: tuple[FormatPort, ...]
    where: NodeGuard | None = None
    cost: float = 1.0


@dataclass(frozen=True, slots=True)
class Device:
    """A device, everything that compiling for it depends on.

    `numbers` holds what the cost model and the planners read; `number` looks one up by name.
    """

    name: str
    doc: str = ""
    engines: tuple[Engine, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    features: frozenset[str] = frozenset()
    lacks_ops: frozenset[str] = frozenset()
    numbers: Mapping[str, Number] = field(default_factory=dict[str, "Number"])

    def has(self, feature: str) -> bool:
        """Whether the device has a feature (`fp16_matmul`) ."""
        return feature in self.features

    def lacks(self, op: str) -> bool:
        """Whether the device is known to have no kernel for an operator."""
        return op in self.lacks_ops

    def number(self, name: str) -> float:
        """Return a number of the device, or its default from `DEFAULT_NUMBERS`.

        Raises KeyError for a name that neither has: a defect of the caller, not of the input.
        """
        value = self.numbers.get(name, DEFAULT_NUMBERS.get(name))
        if value is None or isinstance(value, str):
            raise KeyError(name)
        return float(value)

    def engines_of(self, op: str) -> list[Engine]:
        """Return the engines that have an operator, best first."""
        found = [engine for engine in self.engines if op in engine.ops]
        return sorted(found, key=lambda engine: (engine.priority, engine.name))

    def kernels_of(self, op: str) -> list[Kernel]:
        """Return the kernel variants of an operator, in the order declared."""
        return [kernel for kernel in self.kernels if op in kernel.ops]


DEFAULT_NUMBERS: Final[Mapping[str, float]] = {
    "n_cube_cores": 1,
    "n_vector_cores": 1,
    "clock_mhz": 1000,
    "cube_flops_per_clock": 8192,
    "vector_lanes_f16": 128,
    "memory_bytes_per_clock": 32,
    "l2_bytes_per_clock": 110,
    "l2_bytes": 32 * 1024 * 1024,
    "l1_bytes": 1024 * 1024,
    "ub_bytes": 256 * 1024,
    "memory_bytes": 32 * 1024**3,
    "launch_us": 2.0,
    "max_streams": 1024,
    "max_events": 1024,
    "n_streams": 1,
    "align_bytes": 512,
}
"""What a device has unless its text says otherwise.

Source: Ascend platform files: a cube core does 16x16x16 f16 multiply-adds a clock, `vec_calc_size` is
128 everywhere, buffers and rates are those of Ascend910A. `launch_us` is an assumption.
"""


def compute_dtype_rate(dtype: DType) -> float:
    """How many times f16's cube work a clock does in this element type: i8 twice, f32 a quarter.

    Source: cube block sizes 16x16x16 (f16), 16x32x16 (i8), 16x64x16 (i4); f32 is an assumption (split
    in f16 parts).
    """
    return {8: 2.0, 4: 4.0, 32: 0.25, 64: 0.0625}.get(dtype.bits, 1.0)
