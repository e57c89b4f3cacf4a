"""Elements that texts give: a list, one for all, or random ones from a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gerules.ir.dtype import DType

MAX_RANDOM_ELEMENTS: Final = 1 << 28
"""Most elements that `random(...)` makes: a short text must not exhaust the memory."""

Array = npt.NDArray[np.generic]


def listed_elements(values: Sequence[int | float | str], shape: tuple[int, ...], dtype: DType) -> Array:
    """Return elements as written, in row order. Raises ValueError when they do not fit the type."""
    count = math.prod(shape)
    if dtype in (DType.C64, DType.C128):
        parts = cast("Sequence[float]", values)
        pairs = [complex(real, imaginary) for real, imaginary in zip(parts[::2], parts[1::2], strict=True)]
        values = cast("Sequence[float]", pairs)
    if len(values) != count:
        raise ValueError(f"{len(values)} elements do not fill the shape {list(shape)}")
    if dtype is DType.STRING:
        return np.array(values, object).reshape(shape)
    if any(isinstance(value, str) for value in values):
        raise ValueError(f"a text is no element of {dtype}")
    return np.array(values, _wide(dtype)).astype(dtype.numpy).reshape(shape)


def equal_elements(value: int | float | str, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return elements that are all alike; they share one place in memory."""
    return np.broadcast_to(np.array(value).astype(dtype.numpy), shape)


def random_elements(seed: int, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return reproducible elements: small reals for floats, small numbers for integers.

    Raises ValueError for texts, and beyond `MAX_RANDOM_ELEMENTS`.
    """
    if math.prod(shape) > MAX_RANDOM_ELEMENTS:
        raise ValueError(f"{math.prod(shape)} elements are too many to make up")
    rng = np.random.default_rng(abs(seed))
    if dtype.is_float:
        return (rng.standard_normal(shape, np.float32) * 0.1).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype is DType.STRING:
        raise ValueError("texts cannot be made up")
    low, high = (0, 2) if dtype.bits < 4 else (0 if dtype.value.startswith("u") else -4, 4)
    return rng.integers(low, high, shape).astype(dtype.numpy)


def _wide(dtype: DType) -> npt.DTypeLike:
    if dtype in (DType.C64, DType.C128):
        return np.complex128
    if dtype is DType.U64:
        return np.uint64
    return np.float64 if dtype.is_float else np.int64
