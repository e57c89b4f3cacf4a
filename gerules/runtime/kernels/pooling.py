"""Pools: windows are reduced one axis after the other, so that a k x k window costs 2k passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_int
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, required
from gerules.runtime.kernels.precision import is_float, round_to, widen
from gerules.runtime.kernels.rows import mean_over
from gerules.runtime.kernels.windows import Windows, pad_for, pool_windows

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]


def max_pool(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """MaxPool, and where each largest element was (flat over the whole tensor) if asked for."""
    x = _spatial_input(inputs)
    windows = _windows(x, attrs, context)
    wide = widen(x)
    padded = pad_for(wide, windows, _lowest(wide.dtype))
    if context.n_outputs < 2:
        return [round_to(_reduce_windows(padded, windows, np.maximum), x.dtype)]
    best, place = _locate_largest(padded, windows, column_major=read_int(attrs, "storage_order", 0) == 1)
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int64) * np.prod(x.shape[2:], dtype=np.int64)
    return [round_to(best, x.dtype), place + planes.reshape(*x.shape[:2], *(1,) * (x.ndim - 2))]


def average_pool(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """AveragePool, over the input alone or with the padding counted."""
    x = _spatial_input(inputs)
    windows = _windows(x, attrs, context)
    total = _reduce_windows(pad_for(widen(x), windows), windows, np.add)
    for axis, counts in enumerate(_counts(windows, read_flag(attrs, "count_include_pad"))):
        shape = [1] * total.ndim
        shape[2 + axis] = -1
        total = total / counts.astype(total.dtype).reshape(shape)
    return [round_to(total, x.dtype)]


def global_average_pool(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """GlobalAveragePool over all spatial axes."""
    x = _spatial_input(inputs)
    return [round_to(mean_over(widen(x), tuple(range(2, x.ndim))), x.dtype)]


def global_max_pool(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """GlobalMaxPool over all spatial axes."""
    x = _spatial_input(inputs)
    return [round_to(widen(x).max(axis=tuple(range(2, x.ndim)), keepdims=True), x.dtype)]


def _spatial_input(inputs: Inputs) -> Array:
    x = required(inputs, 0)
    if x.ndim < 3:
        raise ValueError(f"a pool needs spatial axes, the input is {list(x.shape)}")
    return x


def _windows(x: Array, attrs: Attrs, context: KernelContext) -> Windows:
    windows = pool_windows(x.shape[2:], attrs, ceil_mode=read_flag(attrs, "ceil_mode"))
    context.check_size((*x.shape[:2], *windows.padded), x.dtype)
    return windows


def _lowest(dtype: np.dtype[Any]) -> object:
    return -np.inf if is_float(dtype) else np.iinfo(dtype).min


def _reduce_windows(padded: Array, windows: Windows, ufunc: np.ufunc) -> Array:
    """Reduce every window by an associative ufunc, the last axis last: its strided reads are then fewest."""
    current = padded
    for axis in range(len(windows.kernel)):
        parts: list[Array] = []
        size, step, stride = windows.kernel[axis], windows.dilations[axis], windows.strides[axis]
        reach = (windows.out[axis] - 1) * stride + 1
        for tap in range(size):
            index = [slice(None)] * current.ndim
            index[2 + axis] = slice(tap * step, tap * step + reach, stride)
            parts.append(current[tuple(index)])
        if size == 1:
            current = parts[0]
            continue
        total = ufunc(parts[0], parts[1])
        for part in parts[2:]:
            ufunc(total, part, out=total)
        current = total
    return current


def _locate_largest(padded: Array, windows: Windows, *, column_major: bool) -> tuple[Array, Array]:
    """Return the largest element of every window and its flat position in the unpadded plane."""
    rank = len(windows.kernel)
    order = range(rank) if column_major else range(rank - 1, -1, -1)
    pitches, pitch = [0] * rank, 1
    for axis in order:
        pitches[axis] = pitch
        pitch *= windows.spatial[axis]
    start = np.zeros((1,) * rank, np.int64)
    for axis in range(rank):
        shape = [1] * rank
        shape[axis] = -1
        along = np.arange(windows.out[axis], dtype=np.int64) * windows.strides[axis] - windows.begin[axis]
        start = start + (along * pitches[axis]).reshape(shape)
    best: Array | None = None
    place = np.zeros((1,), np.int64)
    for tap in windows.taps():
        part = padded[(slice(None), slice(None), *windows.tap_slices(tap))]
        at = start + sum(
            position * step * gap for position, step, gap in zip(tap, windows.dilations, pitches, strict=True)
        )
        if best is None:
            best, place = part.copy(), np.broadcast_to(at, part.shape).copy()
            continue
        # Padding never wins over an element, not even over one that is -inf: it may sit at a wrong place.
        better = part > best
        np.copyto(best, part, where=better)
        np.copyto(place, np.broadcast_to(at, part.shape), where=better)
    if best is None:
        raise ValueError("a window has no elements")
    return best, place


def _counts(windows: Windows, include_pad: bool) -> list[Array]:
    """Return, for each axis, how many elements each window covers."""
    found: list[Array] = []
    for axis, size in enumerate(windows.spatial):
        starts = np.arange(windows.out[axis])[:, None] * windows.strides[axis] - windows.begin[axis]
        places = starts + np.arange(windows.kernel[axis])[None, :] * windows.dilations[axis]
        low = -windows.begin[axis] if include_pad else 0
        high = size + (windows.end[axis] if include_pad else 0)
        found.append(np.maximum(((places >= low) & (places < high)).sum(axis=1), 1))
    return found


def lp_pool(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """LpPool: the p-norm of every window."""
    x = _spatial_input(inputs)
    order = read_int(attrs, "p", 2)
    windows = _windows(x, attrs, context)
    powers = np.abs(pad_for(widen(x), windows)) ** order
    return [round_to(_reduce_windows(powers, windows, np.add) ** (1.0 / order), x.dtype)]


def global_lp_pool(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """GlobalLpPool: the p-norm over all spatial axes."""
    x = _spatial_input(inputs)
    order = read_int(attrs, "p", 2)
    total = (np.abs(widen(x)) ** order).sum(axis=tuple(range(2, x.ndim)), keepdims=True)
    return [round_to(total ** (1.0 / order), x.dtype)]


KERNELS: Final[Mapping[str, Kernel]] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalLpPool": global_lp_pool,
}
