"""Types of what picks elements or adds some: slices, gathers, pads, resizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from gerules.ir import UNKNOWN_DIM, Dim, DType, TensorType, ValueType
from gerules.ops.call import Call, Rule, Vector, axes_in, axis_in, bad_attr, misfit, unknown_shape
from gerules.ops.dims import add_dims, at_most, mul_dims

_END: Final = 2**31 - 1
"""An end at or beyond this means all the rest, also when the dim is only a name."""


def _slice(call: Call) -> list[ValueType]:
    shape, dtype = call.shape(0), call.dtypes[0]
    if shape is None:
        return [TensorType(dtype)]
    steps: Vector | None = None
    if call.opset < 10:
        starts, ends, axes = call.ints_attr("starts"), call.ints_attr("ends"), call.ints_attr("axes")
        if starts is None or ends is None:
            raise bad_attr("starts" if starts is None else "ends", "is missing")
    else:
        starts, ends, axes = call.vector(1), call.vector(2), call.ints(3)
        steps = call.vector(4)
        if call.has(3) and axes is None:
            return [TensorType(dtype, unknown_shape(len(shape)))]
    n = next((len(given) for given in (starts, ends, axes) if given is not None), None)
    if n is None:
        return [TensorType(dtype, unknown_shape(len(shape)))]
    unknown: Vector = ("?",) * n
    places = axes_in(range(n) if axes is None else axes, len(shape))
    starts = unknown if starts is None else starts
    ends = unknown if ends is None else ends
    steps = (unknown if call.has(4) else (1,) * n) if steps is None else steps
    if not len(starts) == len(ends) == len(places) == len(steps):
        raise misfit("starts, ends, axes and steps differ in length")
    out = list(shape)
    for place, start, end, step in zip(places, starts, ends, steps, strict=True):
        out[place] = sliced_dim(out[place], start, end, step)
    return [TensorType(dtype, tuple(out))]


def sliced_dim(dim: Dim, start: Dim, end: Dim, step: Dim) -> Dim:
    """Return how many entries `start:end:step` leaves. Raises Misfit (E30002) for a step of 0."""
    if step == 0:
        raise misfit("a step is 0")
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return slice_length(dim, start, end, step)
    if dim == 0:
        return 0
    takes_all = start == 0 and step == 1 and ((isinstance(end, int) and end >= _END) or end == dim)
    if takes_all and dim != UNKNOWN_DIM:
        return dim
    if step == -1 and start == -1 and isinstance(end, int) and end <= -_END:
        return dim
    if start == 0 and step == 1 and isinstance(dim, int) and isinstance(end, str) and end.isidentifier():
        return at_most(end, dim)  # a name alone is that of a size, and no size is negative
    return UNKNOWN_DIM


def slice_length(size: int, start: int, end: int, step: int) -> int:
    """Return how many of `size` entries a slice takes, ends clamped as ONNX does."""
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    if step > 0:
        start, end = min(max(start, 0), size), min(max(end, 0), size)
    else:
        start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return max(0, -(-(end - start) // step))


def _gather(call: Call) -> list[ValueType]:
    data, picks, dtype = call.shape(0), call.shape(1), call.dtypes[0]
    if data is None:
        return [TensorType(dtype)]
    if not data:
        raise misfit("a scalar has nothing to gather")
    axis = call.axis_attr("axis", 0, len(data))
    if picks is None:
        return [TensorType(dtype)]
    known, size = call.ints(1), data[axis]
    if known is not None and isinstance(size, int):
        for entry in known:
            if not -size <= entry < size:
                raise misfit(f"index {entry} is outside axis {axis} of {size}")
    return [TensorType(dtype, (*data[:axis], *picks, *data[axis + 1 :]))]


def _gather_elements(call: Call) -> list[ValueType]:
    data, picks = call.shape(0), call.shape(1)
    if data is not None:
        call.axis_attr("axis", 0, len(data))
        if picks is not None and len(picks) != len(data):
            raise misfit(f"the indices have rank {len(picks)}, the data {len(data)}")
    return [TensorType(call.dtypes[0], picks)]


def _gather_nd(call: Call) -> list[ValueType]:
    data, picks = call.shape(0), call.shape(1)
    n_batch = call.int_attr("batch_dims", 0)
    if data is None or picks is None:
        return [TensorType(call.dtypes[0])]
    if not picks or not 0 <= n_batch < min(len(data), len(picks)):
        raise bad_attr("batch_dims", f"is {n_batch} for ranks {len(data)} and {len(picks)}")
    width = picks[-1]
    if not isinstance(width, int):
        return [TensorType(call.dtypes[0])]
    if not 0 <= width <= len(data) - n_batch:
        raise misfit(f"indices of {width} entries reach beyond rank {len(data)}")
    return [TensorType(call.dtypes[0], (*picks[:-1], *data[n_batch + width :]))]


def _pad(call: Call) -> list[ValueType]:
    shape, dtype = call.shape(0), call.dtypes[0]
    if shape is None:
        return [TensorType(dtype)]
    if call.opset < 11:
        pads: Vector | None = call.ints_attr("pads" if call.opset >= 2 else "paddings")
    else:
        pads = call.vector(1)
    axes: Sequence[int] | None = call.ints(3)
    if pads is None or (call.has(3) and axes is None):
        return [TensorType(dtype, unknown_shape(len(shape)))]
    places = axes_in(range(len(shape)) if axes is None else axes, len(shape))
    if len(pads) != 2 * len(places):
        raise misfit(f"{len(pads)} pads are given for {len(places)} axes")
    out = list(shape)
    for place, before, after in zip(places, pads, pads[len(places) :], strict=False):
        size = add_dims(add_dims(out[place], before), after)
        if isinstance(size, int) and size < 0:
            raise misfit(f"the pads leave {size} entries of axis {place}")
        out[place] = size
    return [TensorType(dtype, tuple(out))]


def _resize(call: Call) -> list[ValueType]:
    """Sizes, or scales times the input; opset 18 may name axes and keep the aspect ratio."""
    shape, dtype = call.shape(0), call.dtypes[0]
    if shape is None:
        return [TensorType(dtype)]
    unknown = TensorType(dtype, unknown_shape(len(shape)))
    if call.op == "Upsample" or call.opset < 11:
        scales = call.floats(1) if call.has(1) else call.floats_attr("scales")
        return [unknown if scales is None else TensorType(dtype, _scaled(shape, range(len(shape)), scales))]
    axes = axes_in(call.ints_attr("axes") or range(len(shape)), len(shape))
    if call.has(3):
        sizes = call.vector(3)
        if sizes is None:
            sizes = ("?",) * len(axes)
        if len(sizes) != len(axes):
            raise misfit(f"{len(sizes)} sizes are given for {len(axes)} axes")
        return [TensorType(dtype, _resized(call, list(shape), axes, sizes))]
    scales = call.floats(2)
    if not scales:
        return [TensorType(dtype, _resized(call, list(shape), axes, ("?",) * len(axes)))]
    return [TensorType(dtype, _scaled(shape, axes, scales))]


def _scaled(shape: tuple[Dim, ...], axes: Sequence[int], scales: Sequence[float]) -> tuple[Dim, ...]:
    if len(scales) != len(axes):
        raise misfit(f"{len(scales)} scales are given for {len(axes)} axes")
    out = list(shape)
    for axis, scale in zip(axes, scales, strict=True):
        if not (math.isfinite(scale) and scale > 0):
            raise misfit(f"the scale {scale} is no positive number")
        dim = out[axis]
        if isinstance(dim, int):
            # In single precision, as onnx and onnxruntime do: 10 times 0.7f is 7 there, and 6.9999 in double.
            out[axis] = math.floor(float(np.float32(dim) * np.float32(scale)))
        else:
            out[axis] = mul_dims(dim, int(scale)) if scale == int(scale) else UNKNOWN_DIM
    return tuple(out)


def _resized(call: Call, out: list[Dim], axes: Sequence[int], sizes: Vector) -> tuple[Dim, ...]:
    policy = call.text_attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        for axis, size in zip(axes, sizes, strict=True):
            out[axis] = size
        return tuple(out)
    ratios: list[float] = []
    for axis, size in zip(axes, sizes, strict=True):
        dim = out[axis]
        if not isinstance(dim, int) or not isinstance(size, int) or dim == 0:
            for place in axes:
                out[place] = UNKNOWN_DIM
            return tuple(out)
        ratios.append(size / dim)
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    for axis in axes:
        dim = out[axis]
        # Half away from zero, as the specification's round_int.
        out[axis] = math.floor(dim * ratio + 0.5) if isinstance(dim, int) else UNKNOWN_DIM
    return tuple(out)


def _non_zero(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    return [TensorType(DType.I64, ("?" if shape is None else len(shape), "?"))]


def _compress(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    if "axis" not in call.attrs:
        return [TensorType(call.dtypes[0], ("?",))]
    if shape is None:
        return [TensorType(call.dtypes[0])]
    axis = axis_in(call.int_attr("axis", 0), len(shape))
    return [TensorType(call.dtypes[0], (*shape[:axis], "?", *shape[axis + 1 :]))]


RULES: Final[dict[str, Rule]] = {
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Resize": _resize,
    "Upsample": _resize,
    "NonZero": _non_zero,
    "Compress": _compress,
}
