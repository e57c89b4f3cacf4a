"""Reductions over axes, and the positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_int, read_ints
from gerules.runtime.kernels.contract import (
    Array,
    Kernel,
    KernelContext,
    ints_of,
    normalize_axes,
    normalize_axis,
    optional,
    required,
)
from gerules.runtime.kernels.precision import is_float, round_to, widen, widen_to_float
from gerules.runtime.kernels.rows import sum_rows

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]
Reduce = Callable[[Array, tuple[int, ...], bool], Array]


def _reduction(function: Reduce, *, on_reals: bool = False) -> Kernel:
    """Make a kernel; the axes are an input in newer opsets, an attribute in older ones."""

    def kernel(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
        x, given = required(inputs, 0), optional(inputs, 1)
        named = read_ints(attrs, "axes") if given is None else ints_of(given)
        if not named and read_flag(attrs, "noop_with_empty_axes"):
            axes: tuple[int, ...] = ()
        else:
            axes = normalize_axes(named, x.ndim) if named else tuple(range(x.ndim))
        wide = widen_to_float(x) if on_reals else widen(x)
        return [round_to(function(wide, axes, read_flag(attrs, "keepdims", True)), x.dtype)]

    return kernel


def _sum(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if axes == (x.ndim - 1,) and x.dtype.kind == "f":
        total = sum_rows(x)
        return total if keep else total[..., 0]
    return np.add.reduce(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _mean(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    count = math.prod(x.shape[axis] for axis in axes)
    if is_float(x.dtype):
        return np.divide(_sum(x, axes, keep), x.dtype.type(count))
    total = _sum(x.astype(np.int64), axes, keep)
    return (total - np.fmod(total, count)) // count


def _product(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.multiply.reduce(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _largest(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if x.dtype == np.bool_:
        return np.logical_or.reduce(x, axis=axes, keepdims=keep)
    return np.maximum.reduce(x, axis=axes, keepdims=keep, initial=None if x.size else _bound(x.dtype, -1))


def _smallest(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if x.dtype == np.bool_:
        return np.logical_and.reduce(x, axis=axes, keepdims=keep)
    return np.minimum.reduce(x, axis=axes, keepdims=keep, initial=None if x.size else _bound(x.dtype, 1))


def _bound(dtype: np.dtype[Any], sign: int) -> float | int:
    if is_float(dtype):
        return sign * np.inf
    return int(np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min)


def _l1(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return _sum(np.abs(x), axes, keep)


def _sum_square(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return _sum(np.square(x), axes, keep)


def _l2(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.sqrt(_sum_square(x, axes, keep))


def _log_sum(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.log(_sum(x, axes, keep))


def _log_sum_exp(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if not x.size:
        return np.log(_sum(x, axes, keep))
    top = np.maximum.reduce(x, axis=axes, keepdims=True)
    # An infinite top would give inf - inf.
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.log(_sum(np.exp(x - top), axes, True)) + top
    return total if keep else np.squeeze(total, axes)


def arg_max(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """ArgMax: the first, or with `select_last_index` the last, largest element."""
    return [_position(inputs, attrs, np.argmax)]


def arg_min(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """ArgMin: the first, or with `select_last_index` the last, smallest element."""
    return [_position(inputs, attrs, np.argmin)]


def _position(inputs: Inputs, attrs: Attrs, find: Callable[..., Array]) -> Array:
    x = widen(required(inputs, 0))
    axis, keep = normalize_axis(read_int(attrs, "axis", 0), x.ndim), read_flag(attrs, "keepdims", True)
    if not read_flag(attrs, "select_last_index"):
        return np.asarray(find(x, axis=axis, keepdims=keep), np.int64)
    backward = np.asarray(find(np.flip(x, axis), axis=axis, keepdims=keep), np.int64)
    return x.shape[axis] - 1 - backward


KERNELS: Final[Mapping[str, Kernel]] = {
    "ReduceSum": _reduction(_sum),
    "ReduceMean": _reduction(_mean),
    "ReduceProd": _reduction(_product),
    "ReduceMax": _reduction(_largest),
    "ReduceMin": _reduction(_smallest),
    "ReduceL1": _reduction(_l1),
    "ReduceL2": _reduction(_l2, on_reals=True),
    "ReduceSumSquare": _reduction(_sum_square),
    "ReduceLogSum": _reduction(_log_sum, on_reals=True),
    "ReduceLogSumExp": _reduction(_log_sum_exp, on_reals=True),
    "ArgMax": arg_max,
    "ArgMin": arg_min,
}
