"""Normalizations: batch, layer, instance, group, RMS, local response, Lp and mean-variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.ir import Attr, DType
from gerules.runtime.kernels.attributes import read_flag, read_float, read_int, read_ints
from gerules.runtime.kernels.contract import (
    Array,
    Kernel,
    KernelContext,
    UnsupportedCaseError,
    normalize_axis,
    optional,
    required,
)
from gerules.runtime.kernels.precision import round_to, widen
from gerules.runtime.kernels.rows import mean_over

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]


def batch_normalization(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """BatchNormalization for inference: one multiply and one add an element.

    Before opset 7 `is_test` chose inference; a missing one is taken as inference too, as every
    exported model means it. `spatial=0` (opset below 9) gives each element its own statistics.
    """
    if read_flag(attrs, "training_mode") or context.n_outputs > 1:
        raise UnsupportedCaseError
    x = required(inputs, 0)
    scale, bias, mean, variance = (widen(required(inputs, index)) for index in range(1, 5))
    if x.ndim < 2:
        raise ValueError(f"the input {list(x.shape)} has no channels")
    wide = widen(x)
    is_spatial = context.opset >= 9 or read_flag(attrs, "spatial", True)
    shape = (-1, *(1,) * (x.ndim - 2)) if is_spatial else x.shape[1:]
    factor = scale / np.sqrt(variance + variance.dtype.type(read_float(attrs, "epsilon", 1e-5)))
    shift = bias - mean * factor
    out = context.destination(x.shape, wide.dtype)
    np.multiply(wide, factor.reshape(shape).astype(wide.dtype), out=out)
    out += shift.reshape(shape).astype(wide.dtype)
    return [round_to(out, x.dtype)]


def _standardize(
    x: Array, axes: tuple[int, ...], epsilon: float, out: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return (x - mean) / sqrt(variance + epsilon), the mean, and the inverse deviation."""
    mean = mean_over(x, axes)
    centred = np.subtract(x, mean, out=out)
    variance = mean_over(np.square(centred), axes)
    inverse = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    centred *= inverse
    return centred, mean, inverse


def layer_normalization(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """LayerNormalization over the axes from `axis` on, with mean and inverse deviation if asked for."""
    x, scale, bias = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    axes = tuple(range(normalize_axis(read_int(attrs, "axis", -1), x.ndim), x.ndim))
    wide = widen(x)
    epsilon = read_float(attrs, "epsilon", 1e-5)
    out, mean, inverse = _standardize(wide, axes, epsilon, context.destination(x.shape, wide.dtype))
    out *= widen(scale)
    if bias is not None:
        out += widen(bias)
    # The type of mean and deviation: f32, written as a type or as ONNX's code of it, unless said otherwise.
    stash = wide.dtype if attrs.get("stash_type", DType.F32) in (DType.F32, 1) else x.dtype
    results = [round_to(out, x.dtype), round_to(mean, stash), round_to(inverse, stash)]
    return results[: max(1, context.n_outputs)]


def rms_normalization(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """RMSNormalization over the axes from `axis` on."""
    x, scale = required(inputs, 0), required(inputs, 1)
    axes = tuple(range(normalize_axis(read_int(attrs, "axis", -1), x.ndim), x.ndim))
    wide = widen(x)
    out = np.square(wide, out=context.destination(x.shape, wide.dtype))
    power = mean_over(out, axes)
    np.multiply(wide, 1 / np.sqrt(power + wide.dtype.type(read_float(attrs, "epsilon", 1e-5))), out=out)
    # Scale joins in the type of the input before the scale, as the operator's function says.
    return [round_to(out * widen(scale), scale.dtype)]


def instance_normalization(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """InstanceNormalization: over the spatial axes of each channel of each image."""
    x, scale, bias = required(inputs, 0), widen(required(inputs, 1)), widen(required(inputs, 2))
    per_channel = (-1, *(1,) * (x.ndim - 2))
    out, _, _ = _standardize(widen(x), tuple(range(2, x.ndim)), read_float(attrs, "epsilon", 1e-5))
    out *= scale.reshape(per_channel)
    out += bias.reshape(per_channel)
    return [round_to(out, x.dtype)]


def group_normalization(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """GroupNormalization; scale and bias are one per group before opset 21, one per channel since."""
    x, scale, bias = required(inputs, 0), widen(required(inputs, 1)), widen(required(inputs, 2))
    groups = read_int(attrs, "num_groups", 1)
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ValueError(f"{list(x.shape)} cannot be split into {groups} groups of channels")
    grouped = widen(x).reshape(x.shape[0], groups, -1)
    out, _, _ = _standardize(grouped, (2,), read_float(attrs, "epsilon", 1e-5))
    if scale.size == groups and groups != x.shape[1]:
        out = out * scale.reshape(-1, 1) + bias.reshape(-1, 1)
        return [round_to(out.reshape(x.shape), x.dtype)]
    per_channel = (-1, *(1,) * (x.ndim - 2))
    out = out.reshape(x.shape) * scale.reshape(per_channel) + bias.reshape(per_channel)
    return [round_to(out, x.dtype)]


def mean_variance_normalization(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """MeanVarianceNormalization over `axes`, by default all but the channels."""
    x = required(inputs, 0)
    axes = read_ints(attrs, "axes") or (0, 2, 3)
    wide = widen(x)
    centred = wide - mean_over(wide, axes)
    deviation = np.sqrt(mean_over(np.square(centred), axes))
    return [round_to(centred / (deviation + wide.dtype.type(1e-9)), x.dtype)]


def local_response(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """LRN: divide by a power of the sum of squares over neighbouring channels."""
    x = required(inputs, 0)
    size = read_int(attrs, "size", 1)
    if size < 1 or x.ndim < 2:
        raise ValueError(f"size {size} does not fit {list(x.shape)}")
    wide = widen(x)
    squares = np.square(wide)
    before, channels = (size - 1) // 2, x.shape[1]
    total = np.zeros_like(squares)
    for shift in range(max(-before, 1 - channels), min(size - before, channels)):
        low, high = max(0, -shift), min(channels, channels - shift)
        total[:, low:high] += squares[:, low + shift : high + shift]
    kind = wide.dtype.type
    total *= kind(read_float(attrs, "alpha", 1e-4) / size)
    total += kind(read_float(attrs, "bias", 1.0))
    return [round_to(wide / _raise(total, read_float(attrs, "beta", 0.75)), x.dtype)]


def _raise(base: Array, exponent: float) -> Array:
    """Return base ** exponent; 3/4, which every model has, without libm's pow."""
    if exponent == 0.75:
        root = np.sqrt(base)
        return root * np.sqrt(root)
    return base ** base.dtype.type(exponent)


def lp_normalization(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """LpNormalization along one axis; a zero vector stays zero."""
    x = required(inputs, 0)
    axis, order = read_int(attrs, "axis", -1), read_int(attrs, "p", 2)
    wide = widen(x)
    norm: Array = (np.abs(wide) ** order).sum(axis=axis, keepdims=True) ** (1.0 / order)
    norm[norm == 0] = 1
    return [round_to(wide / norm, x.dtype)]


KERNELS: Final[Mapping[str, Kernel]] = {
    "BatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "InstanceNormalization": instance_normalization,
    "GroupNormalization": group_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "LRN": local_response,
    "LpNormalization": lp_normalization,
}
