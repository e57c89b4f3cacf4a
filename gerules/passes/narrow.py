"""Constants in a narrower element type: finite numbers stay finite, and what divides does not become zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gerules.ir import Const, DType

_LIMITS: Final = {
    DType.F16: (65504.0, 2.0**-24),
    DType.F32: (float(np.finfo(np.float32).max), 2.0**-149),
}
"""Largest finite number and smallest number above zero. Source: IEEE 754."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A converted constant; how many numbers left the range, how many would have become zero."""

    const: Const
    n_saturated: int = 0
    n_raised: int = 0


def narrow_const(const: Const, dtype: DType) -> Narrowed:
    """Convert a constant.

    A finite number beyond the range becomes the largest one, so that a mask of -3.4e38 does not become
    -inf, and a row that is masked whole does not become NaN. A single number that would vanish becomes
    the smallest one above zero: it is an epsilon that keeps a divisor from zero. Infinities and NaN stay.
    """
    array = const.array
    if not dtype.is_float or const.dtype is dtype or array.dtype.kind not in "f":
        return Narrowed(Const(array.astype(dtype.numpy)))
    repeats = array.size > 1 and not any(array.strides)
    source = array.reshape(-1)[:1] if repeats else array
    limits = _LIMITS.get(dtype)
    n_saturated = n_raised = 0
    if limits is not None and source.size:
        largest = limits[0]
        too_large = np.isfinite(source) & (np.abs(source) > largest)
        n_saturated = int(np.count_nonzero(too_large))
        if n_saturated:
            source = np.where(too_large, np.copysign(largest, source), source)
    narrow = source.astype(dtype.numpy)
    if limits is not None and source.size == 1 and not narrow.any() and source.any():
        narrow = np.copysign(limits[1], source).astype(dtype.numpy)
        n_raised = 1
    if repeats:
        narrow = np.broadcast_to(narrow, array.shape)
    return Narrowed(Const(narrow), n_saturated, n_raised)
