"""Operators that move elements without computing: transpose, reshape, join, cut, repeat, pad."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_float, read_int, read_ints, read_text
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

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]


def _ints_input(inputs: Inputs, attrs: Attrs, index: int, name: str) -> tuple[int, ...] | None:
    """Return integers that are an input in newer opsets, an attribute in older ones."""
    given = optional(inputs, index)
    return read_ints(attrs, name) if given is None else ints_of(given)


def transpose(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Transpose: a view."""
    x = required(inputs, 0)
    perm = read_ints(attrs, "perm")
    return [x.transpose(perm if perm is not None else tuple(range(x.ndim))[::-1])]


def reshape(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Reshape: a view where the memory allows it. 0 keeps a dimension, -1 is what is left."""
    x = required(inputs, 0)
    wanted = _ints_input(inputs, attrs, 1, "shape")
    if wanted is None:
        raise ValueError("the shape is missing")
    if not read_flag(attrs, "allowzero"):
        if any(size == 0 and axis >= x.ndim for axis, size in enumerate(wanted)):
            raise ValueError(f"shape {list(wanted)} keeps an axis that {list(x.shape)} has not")
        wanted = tuple(x.shape[axis] if size == 0 else size for axis, size in enumerate(wanted))
    return [x.reshape(wanted)]


def flatten(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Flatten to two axes, cut before `axis`."""
    x = required(inputs, 0)
    axis = read_int(attrs, "axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return [x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))]


def squeeze(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Squeeze the named axes, or every axis of size 1."""
    x = required(inputs, 0)
    axes = _ints_input(inputs, attrs, 1, "axes")
    return [np.squeeze(x, normalize_axes(axes, x.ndim) if axes is not None else None)]


def unsqueeze(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Unsqueeze: new axes of size 1, counted in the result."""
    x = required(inputs, 0)
    axes = _ints_input(inputs, attrs, 1, "axes") or ()
    return [np.expand_dims(x, normalize_axes(axes, x.ndim + len(axes)))]


def concat(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Concat along `axis`, which was 1 by default before opset 4."""
    arrays = [required(inputs, index) for index in range(len(inputs))]
    axis = normalize_axis(read_int(attrs, "axis", 1), arrays[0].ndim)
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    return [np.concatenate(arrays, axis=axis, out=context.destination(shape, arrays[0].dtype))]


def split(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Split into views: by sizes, or evenly with a smaller last one."""
    x = required(inputs, 0)
    axis = normalize_axis(read_int(attrs, "axis", 0), x.ndim)
    sizes = _ints_input(inputs, attrs, 1, "split")
    if sizes is None:
        n_parts = read_int(attrs, "num_outputs", context.n_outputs)
        if n_parts != context.n_outputs or n_parts < 1:
            raise ValueError(f"{n_parts} parts are not the {context.n_outputs} outputs asked for")
        size = -(-x.shape[axis] // n_parts)
        sizes = tuple(max(0, min(size, x.shape[axis] - part * size)) for part in range(n_parts))
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ValueError(f"sizes {list(sizes)} do not add up to {x.shape[axis]}")
    ends = np.cumsum(sizes)
    lead = (slice(None),) * axis
    return [x[(*lead, slice(int(end) - size, int(end)))] for size, end in zip(sizes, ends, strict=True)]


def cut(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Slice: a view. Starts, ends, axes and steps are inputs since opset 10, attributes before."""
    x = required(inputs, 0)
    starts, ends = _ints_input(inputs, attrs, 1, "starts"), _ints_input(inputs, attrs, 2, "ends")
    if starts is None or ends is None:
        raise ValueError("starts or ends are missing")
    axes = normalize_axes(_ints_input(inputs, attrs, 3, "axes") or tuple(range(len(starts))), x.ndim)
    given = optional(inputs, 4)
    steps = (1,) * len(starts) if given is None else ints_of(given)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        start, end = (at + size if at < 0 else at for at in (start, end))
        if step > 0:
            index[axis] = slice(max(0, min(size, start)), max(0, min(size, end)), step)
            continue
        # Backwards ONNX clamps a start before the front to the front, where Python gives nothing; and
        # an end of -1 means past the front, which Python writes as None.
        end = min(size - 1, end)
        index[axis] = slice(max(0, min(size - 1, start)), None if end < 0 else end, step)
    return [x[tuple(index)]]


def expand(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Expand: a read-only view of the input."""
    x = required(inputs, 0)
    shape = np.broadcast_shapes(x.shape, ints_of(required(inputs, 1)))
    context.check_size(shape, x.dtype)
    return [np.broadcast_to(x, shape)]


def tile(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Tile; before opset 6 the second and third inputs are a count and an axis."""
    x = required(inputs, 0)
    repeats = ints_of(required(inputs, 1))
    if context.opset < 6:
        axis = normalize_axis(ints_of(required(inputs, 2))[0], x.ndim)
        repeats = tuple(repeats[0] if position == axis else 1 for position in range(x.ndim))
    if len(repeats) != x.ndim or min(repeats, default=0) < 0:
        raise ValueError(f"repeats {list(repeats)} do not fit {list(x.shape)}")
    context.check_size([size * times for size, times in zip(x.shape, repeats, strict=True)], x.dtype)
    return [np.tile(x, repeats)]


def depth_to_space(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """DepthToSpace, in depth-column-row order or column-row-depth."""
    x = required(inputs, 0)
    block = read_int(attrs, "blocksize", 0)
    n, channels, height, width = x.shape
    depth = channels // (block * block)
    if read_text(attrs, "mode", "DCR") == "CRD":
        parts = x.reshape(n, depth, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    else:
        parts = x.reshape(n, block, block, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    return [parts.reshape(n, depth, height * block, width * block)]


def space_to_depth(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """SpaceToDepth."""
    x = required(inputs, 0)
    block = read_int(attrs, "blocksize", 0)
    n, channels, height, width = x.shape
    parts = x.reshape(n, channels, height // block, block, width // block, block).transpose(0, 3, 5, 1, 2, 4)
    if read_text(attrs, "mode", "DCR") == "CRD":
        parts = parts.transpose(0, 3, 1, 2, 4, 5)
    return [parts.reshape(n, channels * block * block, height // block, width // block)]


def pad(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Pad in all modes; a negative amount cuts. Amounts and value are inputs since opset 11."""
    x = required(inputs, 0)
    amounts = _ints_input(inputs, attrs, 1, "pads" if context.opset >= 2 else "paddings")
    if amounts is None:
        raise ValueError("the amounts are missing")
    axes_input = optional(inputs, 3)
    axes = normalize_axes(ints_of(axes_input) if axes_input is not None else range(x.ndim), x.ndim)
    if len(amounts) != 2 * len(axes):
        raise ValueError(f"pads {list(amounts)} do not fit {len(axes)} axes")
    before, after = [0] * x.ndim, [0] * x.ndim
    for position, axis in enumerate(axes):
        before[axis], after[axis] = amounts[position], amounts[position + len(axes)]
    shape = [size + low + high for size, low, high in zip(x.shape, before, after, strict=True)]
    if min(shape, default=0) < 0:
        raise ValueError(f"pads {list(amounts)} cut more than {list(x.shape)} has")
    context.check_size(shape, x.dtype)
    mode = read_text(attrs, "mode", "constant")
    if mode == "constant":
        return [_pad_constant(x, before, shape, _pad_value(inputs, attrs, x))]
    # What is cut is not reflected or repeated: the cut comes first.
    ends = zip(before, after, x.shape, strict=True)
    kept = tuple(slice(max(0, -low), size - max(0, -high)) for low, high, size in ends)
    result = x[kept]
    for axis in range(x.ndim):
        low, high = max(0, before[axis]), max(0, after[axis])
        if low or high:
            result = result.take(_pad_positions(result.shape[axis], low, high, mode), axis=axis)
    return [result]


def _pad_value(inputs: Inputs, attrs: Attrs, x: Array) -> object:
    given = optional(inputs, 2)
    if given is not None:
        return given.reshape(-1)[0] if given.size else x.dtype.type(0)
    return "" if x.dtype.kind == "O" else np.asarray(read_float(attrs, "value", 0.0)).astype(x.dtype)


def _pad_constant(x: Array, before: Sequence[int], shape: Sequence[int], value: object) -> Array:
    result = np.full(shape, value, x.dtype)
    source: list[slice] = []
    target: list[slice] = []
    for size, low, total in zip(x.shape, before, shape, strict=True):
        start, stop = max(0, -low), min(size, total - low)
        source.append(slice(start, max(start, stop)))
        target.append(slice(start + low, max(start, stop) + low))
    result[tuple(target)] = x[tuple(source)]
    return result


def _pad_positions(size: int, low: int, high: int, mode: str) -> Array:
    if size == 0:
        raise ValueError(f"an empty axis cannot be padded in mode {mode}")
    places = np.arange(-low, size + high)
    if mode == "edge":
        return places.clip(0, size - 1)
    if mode == "wrap":
        return places % size
    if mode != "reflect":
        raise ValueError(f"pad mode {mode} is unknown")
    period = max(1, 2 * (size - 1))
    places = places % period
    return np.minimum(places, period - places) if size > 1 else places * 0


KERNELS: Final[Mapping[str, Kernel]] = {
    "Transpose": transpose,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Concat": concat,
    "Split": split,
    "Slice": cut,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Pad": pad,
}
