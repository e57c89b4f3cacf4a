"""Operators that pick or place elements by index: gather, scatter, top-k, one-hot, non-zero, triangles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_int, read_text
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, normalize_axis, optional, required
from gerules.runtime.kernels.precision import round_to, widen

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]

_COMBINE: Final[Mapping[str, np.ufunc]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def gather(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Gather whole slices along one axis; a negative index counts from the end."""
    x, indices = required(inputs, 0), required(inputs, 1)
    axis = normalize_axis(read_int(attrs, "axis", 0), x.ndim)
    if indices.ndim == 0:
        return [x[(slice(None),) * axis + (int(indices),)]]
    return [x.take(indices, axis=axis)]


def gather_elements(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """GatherElements; the indices may be smaller than the data in the other axes."""
    x, indices = required(inputs, 0), required(inputs, 1)
    axis = normalize_axis(read_int(attrs, "axis", 0), x.ndim)
    return [np.take_along_axis(_cropped(x, indices, axis), indices, axis=axis)]


def _cropped(x: Array, indices: Array, axis: int) -> Array:
    if indices.ndim != x.ndim:
        raise ValueError(f"indices {list(indices.shape)} have not the rank of {list(x.shape)}")
    return x[tuple(slice(None) if at == axis else slice(size) for at, size in enumerate(indices.shape))]


def gather_nd(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """GatherND: the last axis of the indices names a place; leading batch axes go along."""
    x, indices = required(inputs, 0), required(inputs, 1)
    batch = read_int(attrs, "batch_dims", 0)
    places: list[Array] = []
    for axis in range(batch):
        shape = [1] * (indices.ndim - 1)
        shape[axis] = -1
        steps = np.arange(x.shape[axis], dtype=np.int64)
        places.append(steps.reshape(shape))
    return [x[(*places, *np.moveaxis(indices, -1, 0))]]


def scatter_elements(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """ScatterElements (and its elder, Scatter), replacing or combining."""
    x, indices, updates = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    axis = normalize_axis(read_int(attrs, "axis", 0), x.ndim)
    mode = read_text(attrs, "reduction", "none")
    if mode == "none":
        result = x.copy()
        np.put_along_axis(_cropped(result, indices, axis), indices, updates, axis=axis)
        return [result]
    result = widen(x).copy()
    places = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    places[axis] = indices
    _COMBINE[mode].at(result, tuple(places), widen(updates))
    return [round_to(result, x.dtype)]


def scatter_nd(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """ScatterND, replacing or combining."""
    x, indices, updates = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    mode = read_text(attrs, "reduction", "none")
    places = tuple(np.moveaxis(indices, -1, 0))
    if mode == "none":
        result = x.copy()
        result[places] = updates
        return [result]
    result = widen(x).copy()
    _COMBINE[mode].at(result, places, widen(updates))
    return [round_to(result, x.dtype)]


def top_k(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """TopK: the k largest or smallest in order; of equals the lower index first."""
    x = required(inputs, 0)
    k = read_int(attrs, "k", 1) if len(inputs) < 2 else int(required(inputs, 1).reshape(-1)[0])
    axis = normalize_axis(read_int(attrs, "axis", -1), x.ndim)
    size = x.shape[axis]
    if not 0 <= k <= size:
        raise ValueError(f"k is {k}, but the axis has {size} elements")
    keys = widen(x)
    if read_flag(attrs, "largest", True):
        # A stable sort of the reversed axis, read backwards: descending, equals in their order.
        order = size - 1 - np.flip(np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis=axis, kind="stable")
    order = order[(slice(None),) * axis + (slice(k),)].astype(np.int64)
    return [np.take_along_axis(x, order, axis=axis), order]


def one_hot(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """OneHot; an index outside the depth gives a row of off values."""
    indices, values = required(inputs, 0), required(inputs, 2)
    depth = int(required(inputs, 1).reshape(-1)[0])
    axis = normalize_axis(read_int(attrs, "axis", -1), indices.ndim + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    context.check_size(shape, values.dtype)
    places = indices.astype(np.int64)
    places = np.where((places < 0) & (places >= -depth), places + depth, places)
    levels = np.arange(depth).reshape(-1, *(1,) * (indices.ndim - axis))
    return [np.where(np.expand_dims(places, axis) == levels, values[1], values[0])]


def non_zero(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """NonZero: one row of positions for each axis."""
    x = required(inputs, 0)
    if x.ndim == 0:
        return [np.zeros((0, int(bool(x))), np.int64)]
    return [np.stack(np.nonzero(widen(x))).astype(np.int64)]


def trilu(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Trilu: the upper or lower triangle of the last two axes."""
    x, shift = required(inputs, 0), optional(inputs, 1)
    k = 0 if shift is None else int(shift.reshape(-1)[0])
    k = max(-(1 << 40), min(1 << 40, k))
    rows = np.arange(x.shape[-2], dtype=np.int64)
    columns = np.arange(x.shape[-1], dtype=np.int64)
    distance = columns - rows[:, None]
    kept = distance >= k if read_flag(attrs, "upper", True) else distance <= k
    return [np.where(kept, x, x.dtype.type(0))]


def compress(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Compress: the slices whose condition holds; a short condition drops the rest."""
    x, condition = required(inputs, 0), required(inputs, 1)
    if "axis" not in attrs:
        return [x.reshape(-1)[: condition.size][condition[: x.size]]]
    axis = normalize_axis(read_int(attrs, "axis", 0), x.ndim)
    return [x.take(np.flatnonzero(condition), axis=axis)]


def reverse_sequence(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """ReverseSequence: the first elements of every batch entry in reverse."""
    x, lengths = required(inputs, 0), required(inputs, 1)
    time, batch = read_int(attrs, "time_axis", 0), read_int(attrs, "batch_axis", 1)
    steps = np.arange(x.shape[time], dtype=np.int64).reshape(-1, 1)
    order = np.where(steps < lengths, lengths - 1 - steps, steps)
    order = order if time < batch else order.T
    order = order.reshape(*order.shape, *(1,) * (x.ndim - 2))
    return [np.take_along_axis(x, order, axis=time)]


KERNELS: Final[Mapping[str, Kernel]] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "Scatter": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
    "OneHot": one_hot,
    "NonZero": non_zero,
    "Trilu": trilu,
    "Compress": compress,
    "ReverseSequence": reverse_sequence,
}
