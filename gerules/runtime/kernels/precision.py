"""Precision: narrow floats are computed in f32 and rounded once; f64 stays f64."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from contextvars import ContextVar
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from gerules.runtime.kernels.contract import Array

F32: Final = np.dtype(np.float32)
F64: Final = np.dtype(np.float64)

_NARROW: Final = frozenset(
    np.dtype(kind)
    for kind in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float4_e2m1fn,
    )
)


LARGEST_F16: Final = 65504.0

_SATURATES: ContextVar[bool] = ContextVar("saturates", default=False)


@contextlib.contextmanager
def saturating(wanted: bool) -> Generator[None]:
    """Let numbers beyond float16 become its largest instead of infinity, in everything computed inside.

    Source: the saturation mode of Ascend's arithmetic units; IEEE 754 overflow is the other mode.
    """
    token = _SATURATES.set(wanted)
    try:
        yield
    finally:
        _SATURATES.reset(token)


def saturate(array: Array, inputs: Iterable[object] = ()) -> Array:
    """Return a result with its infinities replaced, if `saturating` is on and it is float16.

    An infinity among the inputs is one that the model means, such as the -inf of a mask, and no overflow:
    then the result stays as it is.
    """
    if not _SATURATES.get() or array.dtype != np.float16 or not np.isinf(array).any():
        return array
    if any(_holds_infinity(item) for item in inputs):
        return array
    return np.clip(array, np.float16(-LARGEST_F16), np.float16(LARGEST_F16))


def _holds_infinity(item: object) -> bool:
    if not isinstance(item, np.ndarray):
        return False
    array = cast(Array, item)
    return is_float(array.dtype) and bool(np.isinf(widen(array)).any())


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether the type is a float of 16 bits or fewer."""
    return dtype in _NARROW


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the type is a real float of any width; ml_dtypes' own have numpy's kind `V`."""
    return dtype.kind == "f" or dtype in _NARROW


def widen(array: Array) -> Array:
    """Return the array in the type it is computed in: narrow floats as f32, anything else as it is."""
    return array.astype(F32) if array.dtype in _NARROW else array


def widen_to_float(array: Array) -> Array:
    """As `widen`, and integers as f64, for operators that are defined on reals."""
    if array.dtype in _NARROW:
        return array.astype(F32)
    return array if array.dtype.kind in "fc" else array.astype(F64)


def round_to(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the array in `dtype`; overflow becomes infinity without a warning."""
    array = np.asarray(array)
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)
