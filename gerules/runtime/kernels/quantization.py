"""Quantized operators: to and from integers and small floats, and products of integers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from gerules.ir import Attr, dtype_of
from gerules.runtime.kernels.attributes import read_dtype, read_flag, read_int
from gerules.runtime.kernels.contract import (
    Array,
    Kernel,
    KernelContext,
    UnsupportedCaseError,
    normalize_axis,
    optional,
    required,
)
from gerules.runtime.kernels.conversion import convert
from gerules.runtime.kernels.convolution import check_conv, convolve
from gerules.runtime.kernels.precision import F32, is_float, round_to, widen
from gerules.runtime.kernels.products import (
    exact_float,
    largest_magnitude,
    multiply_integers,
    without_zero_points,
)

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]


def _spread(values: Array, shape: Sequence[int], axis: int, block: int) -> Array:
    """Return a scale or zero point so that it broadcasts to `shape`: one, one a slice, or one a block."""
    if values.size == 1:
        return values.reshape(())
    axis = normalize_axis(axis, len(shape))
    if not block:
        if values.ndim != 1 or values.size != shape[axis]:
            raise ValueError(f"{list(values.shape)} scales do not fit axis {axis} of {list(shape)}")
        return values.reshape(-1, *(1,) * (len(shape) - 1 - axis))
    return np.repeat(values, block, axis=axis)[(slice(None),) * axis + (slice(shape[axis]),)]


def _integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.iinfo(dtype)
    return int(limits.min), int(limits.max)


def quantize(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """QuantizeLinear: round(x / scale) + zero point, saturated; by tensor, axis or block."""
    x, scale, zero = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    named = read_dtype(attrs, "output_dtype")
    target = zero.dtype if zero is not None else (named.numpy if named is not None else np.dtype(np.uint8))
    axis, block = read_int(attrs, "axis", 1), read_int(attrs, "block_size", 0)
    precision = read_dtype(attrs, "precision")
    spread = _spread(scale, x.shape, axis, block)
    if precision is not None:
        ratio = widen(np.divide(x.astype(precision.numpy), spread.astype(precision.numpy)))
    else:
        ratio = widen(x.astype(spread.dtype) / spread if is_float(x.dtype) else x.astype(F32) / widen(spread))
    if is_float(target):
        if zero is not None and target == ml_dtypes.float4_e2m1fn:
            ratio = ratio + widen(_spread(zero, x.shape, axis, block))
        return [convert(ratio, dtype_of(target), saturate=read_flag(attrs, "saturate", True))]
    low, high = _integer_range(target)
    rounded = np.rint(ratio)
    if zero is not None:
        rounded = rounded + _spread(zero, x.shape, axis, block).astype(F32)
    return [np.clip(rounded, low, high).astype(np.int32).astype(target)]


def dequantize(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """DequantizeLinear: (x - zero point) * scale; by tensor, axis or block."""
    x, scale, zero = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    axis, block = read_int(attrs, "axis", 1), read_int(attrs, "block_size", 0)
    named = read_dtype(attrs, "output_dtype")
    # f32 holds every integer up to 16 bits; an i32 (a bias) only f64 does.
    wide = np.dtype(np.float64) if x.dtype.kind in "iu" and x.dtype.itemsize > 2 else F32
    values = x.astype(wide)
    if zero is not None and not is_float(x.dtype):
        values = values - _spread(zero, x.shape, axis, block).astype(wide)
    values = values * widen(_spread(scale, x.shape, axis, block))
    return [round_to(values, scale.dtype if named is None else named.numpy)]


def quantize_dynamically(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """DynamicQuantizeLinear: u8 with a scale and a zero point from the range of the data and 0."""
    x = required(inputs, 0)
    low = np.minimum(x.min(initial=0), x.dtype.type(0))
    high = np.maximum(x.max(initial=0), x.dtype.type(0))
    spread = high - low
    scale = (spread if spread > 0 else x.dtype.type(255)) / x.dtype.type(255)
    if spread <= 0:
        scale = x.dtype.type(1) / x.dtype.type(255)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    values = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    return [values, np.asarray(scale, x.dtype), np.asarray(zero).astype(np.uint8)]


def _requantize(total: Array, factor: Array, zero: Array | None, target: np.dtype[Any]) -> Array:
    """Return round(total * factor) + zero, saturated: integers back in their narrow type."""
    values = np.rint(total * factor)
    if zero is not None:
        values = values + zero.astype(values.dtype)
    if is_float(target):
        raise UnsupportedCaseError
    return np.clip(values, *_integer_range(target)).astype(target)


def qlinear_matmul(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """QLinearMatMul: integers in, integers out, scaled by rows of A and columns of B."""
    a, b = required(inputs, 0), required(inputs, 3)
    if is_float(a.dtype) or is_float(b.dtype):
        raise UnsupportedCaseError
    a_scale, b_scale, y_scale = (widen(required(inputs, index)) for index in (1, 4, 6))
    y_zero = required(inputs, 7)
    b_zero = optional(inputs, 5)
    right = b.astype(np.int32)
    if b_zero is not None:
        right = right - b_zero.astype(np.int32)
    total = multiply_integers(without_zero_points(inputs, 0, 2), right)
    if a_scale.ndim == 1 and a_scale.size > 1:
        a_scale = a_scale.reshape(-1, 1)
    return [_requantize(total.astype(np.float64), a_scale * b_scale / y_scale, y_zero, y_zero.dtype)]


def _convolve_integers(x: Array, weight: Array, attrs: Attrs) -> Array:
    """Return the exact convolution of two i32 tensors as i64."""
    windows, groups = check_conv(x, weight, attrs)
    depth = weight.shape[1] * math.prod(windows.kernel)
    kind = exact_float(largest_magnitude(x) * largest_magnitude(weight) * depth)
    out = np.empty((x.shape[0], weight.shape[0], *windows.out), kind)
    convolve(x.astype(kind), weight.astype(kind), windows, groups, out)
    return out.astype(np.int64)


def _shifted_weight(weight: Array, zero: Array | None) -> Array:
    values = weight.astype(np.int32)
    if zero is None:
        return values
    return values - zero.astype(np.int32).reshape(-1, *(1,) * (weight.ndim - 1))


def conv_integer(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """ConvInteger: i32 convolution after subtracting the zero points."""
    x, weight, x_zero = required(inputs, 0).astype(np.int32), required(inputs, 1), optional(inputs, 2)
    if x_zero is not None:
        x = x - x_zero.astype(np.int32).reshape(())
    return [_convolve_integers(x, _shifted_weight(weight, optional(inputs, 3)), attrs).astype(np.int32)]


def qlinear_conv(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """QLinearConv: integers in, integers out, with scales per output channel and an i32 bias."""
    x, weight, y_zero = required(inputs, 0), required(inputs, 3), required(inputs, 7)
    bias = optional(inputs, 8)
    x_scale, w_scale, y_scale = (widen(required(inputs, index)) for index in (1, 4, 6))
    shifted = x.astype(np.int32) - required(inputs, 2).astype(np.int32).reshape(())
    total = _convolve_integers(shifted, _shifted_weight(weight, optional(inputs, 5)), attrs)
    per_channel = (-1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total += bias.reshape(per_channel)
    factor = x_scale.reshape(()) * w_scale.reshape(per_channel) / y_scale.reshape(())
    return [_requantize(total.astype(np.float64), factor, y_zero, y_zero.dtype)]


KERNELS: Final[Mapping[str, Kernel]] = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": quantize_dynamically,
    "QLinearMatMul": qlinear_matmul,
    "QLinearConv": qlinear_conv,
    "ConvInteger": conv_integer,
}
