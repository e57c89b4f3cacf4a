"""The contract of a kernel: what it is given, what it returns, and how it fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gerules.errors import GerulesError
from gerules.ir import Attr

Array = npt.NDArray[Any]
"""A tensor. `Any` because numpy's arithmetic has no types for `np.generic`."""

DEFAULT_LIMIT_BYTES: Final = 1 << 34
"""Largest result an operator may have whose size is in its data (Expand, Tile, Range, ...)."""


class RunError(GerulesError):
    """A graph cannot be run: an operator has no kernel, or its kernel refuses the inputs."""


class UnsupportedCaseError(Exception):
    """Raised by a kernel for a rare form that it leaves to `onnx.reference`; never leaves this package."""


@dataclass(frozen=True, slots=True)
class KernelContext:
    """What a kernel knows beside its inputs and attributes.

    `opset` is the version of the ONNX domain, `n_outputs` how many results are asked for. `out` is a
    place for the first result, which a kernel uses if shape and dtype fit and never reads.
    """

    opset: int
    n_outputs: int = 1
    out: Array | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    def destination(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Return `out` if it fits, else a new array; the elements are not initialized.

        Raises ValueError when it would be larger than `limit_bytes`.
        """
        self.check_size(shape, dtype)
        out = self.out
        if out is not None and out.shape == tuple(shape) and out.dtype == dtype:
            return out
        return np.empty(shape, dtype)

    def check_size(self, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        """Refuse a result larger than `limit_bytes`, before it is made. Raises ValueError."""
        # An empty axis does not make the others harmless: positions along them are computed too.
        size_bytes = math.prod(max(size, 1) for size in shape) * dtype.itemsize
        if size_bytes > self.limit_bytes:
            raise ValueError(f"the result would have {size_bytes} bytes; {self.limit_bytes} are allowed")


Kernel = Callable[[Sequence[Array | None], Mapping[str, Attr], KernelContext], list[Array]]
"""Computes the results of one operator.

It never writes to its inputs; a result may be a view of an input, or read-only. It raises ValueError,
TypeError or IndexError for inputs that do not fit, which `run_kernel` turns into a RunError.
"""


def required(inputs: Sequence[Array | None], index: int) -> Array:
    """Return an input that must be there. Raises ValueError."""
    array = inputs[index] if index < len(inputs) else None
    if array is None:
        raise ValueError(f"input {index} is missing")
    return array


def optional(inputs: Sequence[Array | None], index: int) -> Array | None:
    """Return an input that may be absent."""
    return inputs[index] if index < len(inputs) else None


def ints_of(array: Array) -> tuple[int, ...]:
    """Return a tensor of sizes, axes or positions as Python integers."""
    return tuple(int(item) for item in array.reshape(-1))


def normalize_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front. Raises ValueError when it is outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank if rank else 0


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return axes counted from the front. Raises ValueError for one outside, or named twice."""
    found = tuple(normalize_axis(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"axes {list(axes)} name an axis twice")
    return found
