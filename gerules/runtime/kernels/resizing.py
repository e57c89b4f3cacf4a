"""Resize and Upsample: one axis after the other, nearest, linear or cubic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_float, read_floats, read_ints, read_text
from gerules.runtime.kernels.contract import (
    Array,
    Kernel,
    KernelContext,
    UnsupportedCaseError,
    ints_of,
    normalize_axes,
    optional,
    required,
)
from gerules.runtime.kernels.precision import F32, is_float, round_to, widen

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]


@dataclass(frozen=True, slots=True)
class _Rule:
    """How places of the output map to places of the input, and which neighbours count."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float
    exclude_outside: bool
    extrapolation: float


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis to resize."""

    axis: int
    size: int
    out: int
    scale: float
    roi: tuple[float, float]


def resize(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Resize; before opset 11 asymmetric with inputs X and scales."""
    x = required(inputs, 0)
    if read_flag(attrs, "antialias"):
        raise UnsupportedCaseError
    if context.opset < 11:
        return [_resize_plainly(x, _floats(required(inputs, 1)), attrs, context)]
    named = read_ints(attrs, "axes")
    axes = tuple(range(x.ndim)) if named is None else normalize_axes(named, x.ndim)
    shape = [x.shape[axis] for axis in axes]
    scales, outs = _scales_and_sizes(inputs, attrs, shape)
    roi_input = optional(inputs, 1)
    roi = (0.0,) * len(axes) + (1.0,) * len(axes)
    if roi_input is not None and roi_input.size:
        roi = _floats(roi_input)
    rule = _Rule(
        read_text(attrs, "mode", "nearest"),
        read_text(attrs, "coordinate_transformation_mode", "half_pixel"),
        read_text(attrs, "nearest_mode", "round_prefer_floor"),
        read_float(attrs, "cubic_coeff_a", -0.75),
        read_flag(attrs, "exclude_outside"),
        read_float(attrs, "extrapolation_value", 0.0),
    )
    plan = [
        _Axis(axis, x.shape[axis], outs[at], scales[at], (roi[at], roi[at + len(axes)]))
        for at, axis in enumerate(axes)
    ]
    return [_apply(x, plan, rule, context)]


def upsample(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Upsample, the elder of Resize: scales are an attribute in opset 7, an input in opset 9."""
    x = required(inputs, 0)
    given = optional(inputs, 1)
    scales = read_floats(attrs, "scales") if given is None else _floats(given)
    if scales is None and "height_scale" in attrs:
        scales = (1.0, 1.0, read_float(attrs, "height_scale", 1.0), read_float(attrs, "width_scale", 1.0))
    if scales is None:
        raise ValueError("the scales are missing")
    return [_resize_plainly(x, scales, attrs, context)]


def _resize_plainly(x: Array, scales: Sequence[float], attrs: Attrs, context: KernelContext) -> Array:
    if len(scales) != x.ndim:
        raise ValueError(f"{len(scales)} scales do not fit {list(x.shape)}")
    mode = read_text(attrs, "mode", "nearest")
    rule = _Rule("linear" if mode == "bilinear" else mode, "asymmetric", "simple", -0.75, False, 0.0)
    plan = [
        _Axis(axis, x.shape[axis], int(np.floor(x.shape[axis] * scale)), scale, (0.0, 1.0))
        for axis, scale in enumerate(scales)
    ]
    return _apply(x, plan, rule, context)


def _floats(array: Array) -> tuple[float, ...]:
    return tuple(float(item) for item in array.reshape(-1))


def _scales_and_sizes(inputs: Inputs, attrs: Attrs, shape: Sequence[int]) -> tuple[list[float], list[int]]:
    given, sizes = optional(inputs, 2), optional(inputs, 3)
    if given is not None and given.size:
        scales = list(_floats(given))
        if len(scales) != len(shape) or not all(0 < scale < 1e9 for scale in scales):
            raise ValueError(f"scales {scales} do not fit {list(shape)}")
        # The product in f32, as the scales are: 2.0000001 * 3 must not lose or gain an element.
        exact = np.asarray(shape, np.float32) * np.asarray(scales, np.float32)
        return scales, [int(out) for out in np.floor(exact)]
    if sizes is None or sizes.size != len(shape):
        raise ValueError("neither scales nor sizes fit the input")
    outs = list(ints_of(sizes))
    if min(outs, default=0) < 0 or not all(shape):
        raise ValueError(f"{list(shape)} cannot be resized to {outs}")
    ratios = [out / size for out, size in zip(outs, shape, strict=True)]
    policy = read_text(attrs, "keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return ratios, outs
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [ratio] * len(shape), [int(np.floor(ratio * size + 0.5)) for size in shape]


def _apply(x: Array, plan: Sequence[_Axis], rule: _Rule, context: KernelContext) -> Array:
    shape = list(x.shape)
    for item in plan:
        shape[item.axis] = item.out
    context.check_size(shape, x.dtype)
    is_cropping = rule.coordinates == "tf_crop_and_resize"
    todo = [item for item in plan if is_cropping or item.out != item.size or item.scale != 1.0]
    if rule.mode not in ("nearest", "linear", "cubic"):
        raise ValueError(f"resize mode {rule.mode} is unknown")
    result = x if rule.mode == "nearest" else (widen(x) if is_float(x.dtype) else x.astype(F32))
    outside = np.zeros((1,) * x.ndim, np.bool_)
    # Axes that shrink come first: fewer elements for those that follow.
    for item in sorted(todo, key=lambda item: item.out / max(item.size, 1)):
        places = _places(item, rule.coordinates)
        result = _resize_axis(result, places, item, rule)
        if is_cropping:
            column = [1] * x.ndim
            column[item.axis] = -1
            outside = outside | ((places < 0) | (places > item.size - 1)).reshape(column)
    if is_cropping and outside.any():
        result = np.where(outside, result.dtype.type(rule.extrapolation), result)
    if rule.mode != "nearest" and not is_float(x.dtype):
        limits = np.iinfo(x.dtype)
        result = np.clip(result, limits.min, limits.max)
    return round_to(result, x.dtype)


def _places(item: _Axis, coordinates: str) -> Array:
    """Return, for each place of the output, where in the input it lies, as f64."""
    at = np.arange(item.out, dtype=np.float64)
    # Before rounding down: onnx.reference aligns the corners of this size, not of the whole number.
    exact_out = item.scale * item.size
    if coordinates == "align_corners":
        return at * 0.0 if exact_out == 1 else at * ((item.size - 1) / (exact_out - 1))
    if coordinates == "asymmetric":
        return at / item.scale
    if coordinates == "tf_crop_and_resize":
        start, end = item.roi
        if exact_out != 1:
            return start * (item.size - 1) + at * ((end - start) * (item.size - 1) / (exact_out - 1))
        return at + 0.5 * (start + end) * (item.size - 1)
    if coordinates == "pytorch_half_pixel" and exact_out == 1:
        return at * 0.0 - 0.5
    if coordinates == "half_pixel_symmetric":
        # The centre of the input maps to the centre of the output, whose size was rounded.
        adjustment = item.out / exact_out
        return item.size / 2 * (1 - adjustment) + (at + 0.5) / item.scale - 0.5
    if coordinates in ("half_pixel", "pytorch_half_pixel"):
        return (at + 0.5) / item.scale - 0.5
    raise ValueError(f"coordinate_transformation_mode {coordinates} is unknown")


def _resize_axis(x: Array, places: Array, item: _Axis, rule: _Rule) -> Array:
    last = item.size - 1
    if rule.mode == "nearest":
        return x.take(_nearest(places, rule.nearest, item.scale).clip(0, last), axis=item.axis)
    left = np.floor(places)
    part = places - left
    if rule.mode == "linear":
        weights = [1 - part, part]
        first = 0
    else:
        weights = _cubic_weights(part, rule.cubic_a)
        first = -1
    neighbours = [left.astype(np.int64) + first + at for at in range(len(weights))]
    if rule.exclude_outside and rule.mode == "cubic":
        weights = [
            np.where((index >= 0) & (index <= last), weight, 0.0)
            for index, weight in zip(neighbours, weights, strict=True)
        ]
        total = sum(weights[1:], weights[0])
        weights = [weight / total for weight in weights]
    column = [1] * x.ndim
    column[item.axis] = -1
    result = np.zeros((), x.dtype)
    for index, weight in zip(neighbours, weights, strict=True):
        result = result + x.take(index.clip(0, last), axis=item.axis) * weight.astype(x.dtype).reshape(column)
    return result


def _nearest(places: Array, rounding: str, scale: float) -> Array:
    if rounding == "round_prefer_floor":
        return np.ceil(places - 0.5).astype(np.int64)
    if rounding == "round_prefer_ceil":
        return np.floor(places + 0.5).astype(np.int64)
    if rounding == "ceil" or (rounding == "simple" and scale < 1):
        return np.ceil(places).astype(np.int64)
    if rounding in ("floor", "simple"):
        return np.floor(places).astype(np.int64)
    raise ValueError(f"nearest_mode {rounding} is unknown")


def _cubic_weights(part: Array, a: float) -> list[Array]:
    """Return the four weights of the cubic convolution of Keys, 1981, with parameter `a`."""
    near, far = part, 1 - part

    def outer(distance: Array) -> Array:
        return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a

    def inner(distance: Array) -> Array:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1

    return [outer(near + 1), inner(near), inner(far), outer(far + 1)]


KERNELS: Final[Mapping[str, Kernel]] = {"Resize": resize, "Upsample": upsample}
