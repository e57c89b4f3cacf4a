"""Activations: elementwise functions with parameters, and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_float, read_int, read_text
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, normalize_axis, required
from gerules.runtime.kernels.error_function import erf
from gerules.runtime.kernels.precision import round_to, widen, widen_to_float
from gerules.runtime.kernels.rows import max_rows, sum_rows

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]

# Source: Klambauer et al., 2017, arXiv:1706.02515, as f32 constants of the ONNX operator Selu.
_SELU_ALPHA: Final = 1.67326319217681884765625
_SELU_GAMMA: Final = 1.05070102214813232421875


def _activation(function: Callable[[Array, Attrs, Array | None], Array]) -> Kernel:
    """Make a kernel of a function of the widened input, the attributes and a place for the result."""

    def kernel(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
        x = required(inputs, 0)
        wide = widen_to_float(x)
        fits = context.out is not None and context.out.shape == x.shape and context.out.dtype == wide.dtype
        return [round_to(function(wide, attrs, context.out if fits else None), x.dtype)]

    return kernel


def relu(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Relu, of floats and integers."""
    x = required(inputs, 0)
    out = context.destination(x.shape, x.dtype)
    if x.dtype.kind == "f":
        # numpy's clip is three times as fast as its maximum with a scalar.
        return [np.clip(x, x.dtype.type(0), x.dtype.type(np.inf), out=out)]
    return [np.maximum(x, x.dtype.type(0), out=out)]


def _sigmoid(x: Array, attrs: Attrs, out: Array | None) -> Array:
    # Not 0.5 + 0.5 tanh(x / 2): it loses the tail below -10, where only exp is exact.
    with np.errstate(over="ignore"):
        result = np.asarray(np.negative(x, out=out))
        np.exp(result, out=result)
        result += 1
        return np.divide(1, result, out=result)


def _leaky_relu(x: Array, attrs: Attrs, out: Array | None) -> Array:
    alpha = read_float(attrs, "alpha", 0.01)
    if 0 <= alpha <= 1:
        return np.maximum(x, x * x.dtype.type(alpha), out=out)
    return np.where(x < 0, x * x.dtype.type(alpha), x)


def _exp_below_zero(x: Array) -> Array:
    """Return exp(x) - 1 where x is negative, 0 elsewhere."""
    return np.expm1(np.minimum(x, x.dtype.type(0)))


def _elu(x: Array, attrs: Attrs, out: Array | None) -> Array:
    return np.maximum(x, x.dtype.type(0)) + x.dtype.type(read_float(attrs, "alpha", 1.0)) * _exp_below_zero(x)


def _selu(x: Array, attrs: Attrs, out: Array | None) -> Array:
    kind = x.dtype.type
    alpha = kind(read_float(attrs, "alpha", _SELU_ALPHA))
    return kind(read_float(attrs, "gamma", _SELU_GAMMA)) * (
        np.maximum(x, kind(0)) + alpha * _exp_below_zero(x)
    )


def _celu(x: Array, attrs: Attrs, out: Array | None) -> Array:
    alpha = x.dtype.type(read_float(attrs, "alpha", 1.0))
    return np.maximum(x, x.dtype.type(0)) + alpha * _exp_below_zero(x / alpha)


def _gelu(x: Array, attrs: Attrs, out: Array | None) -> Array:
    if read_text(attrs, "approximate", "none") == "tanh":
        result = np.asarray(x * x)
        result *= 0.044715
        result += 1
        result *= x
        result *= math.sqrt(2 / math.pi)
        np.tanh(result, out=result)
    else:
        result = erf(np.asarray(x * x.dtype.type(math.sqrt(0.5))))
    result += 1
    result *= x
    return np.multiply(result, 0.5, out=result)


def _hard_sigmoid(x: Array, attrs: Attrs, out: Array | None) -> Array:
    kind = x.dtype.type
    result = np.asarray(np.multiply(x, kind(read_float(attrs, "alpha", 0.2)), out=out))
    result += kind(read_float(attrs, "beta", 0.5))
    return np.clip(result, kind(0), kind(1), out=result)


def _hard_swish(x: Array, attrs: Attrs, out: Array | None) -> Array:
    result = np.asarray(x * x.dtype.type(1 / 6))
    result += 0.5
    np.clip(result, 0, 1, out=result)
    return np.multiply(result, x, out=out)


def _swish(x: Array, attrs: Attrs, out: Array | None) -> Array:
    alpha = x.dtype.type(read_float(attrs, "alpha", 1.0))
    return np.multiply(_sigmoid(np.asarray(x * alpha), attrs, None), x, out=out)


def _mish(x: Array, attrs: Attrs, out: Array | None) -> Array:
    # tanh(log(1 + n)) is n(n + 2) / (n(n + 2) + 2); past the cap it is 1 in either type.
    grown = np.asarray(np.exp(np.minimum(x, x.dtype.type(20))))
    grown *= grown + 2
    return np.multiply(x, np.where(x < 20, grown / (grown + 2), x.dtype.type(1)), out=out)


def _softplus(x: Array, attrs: Attrs, out: Array | None) -> Array:
    return np.add(np.maximum(x, x.dtype.type(0)), np.log1p(np.exp(-np.abs(x))), out=out)


def _softsign(x: Array, attrs: Attrs, out: Array | None) -> Array:
    return np.divide(x, 1 + np.abs(x), out=out)


def _thresholded_relu(x: Array, attrs: Attrs, out: Array | None) -> Array:
    return np.where(x > x.dtype.type(read_float(attrs, "alpha", 1.0)), x, x.dtype.type(0))


def _shrink(x: Array, attrs: Attrs, out: Array | None) -> Array:
    bias, lambd = read_float(attrs, "bias", 0.0), read_float(attrs, "lambd", 0.5)
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, x.dtype.type(0)))


def _erf(x: Array, attrs: Attrs, out: Array | None) -> Array:
    return erf(x, out)


def prelu(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """PRelu; the slope broadcasts to the input. Before opset 7 a slope is one per channel."""
    x, slope = required(inputs, 0), required(inputs, 1)
    if context.opset < 7 and slope.ndim == 1 and x.ndim > 1:
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    wide = widen(x)
    return [round_to(np.where(wide < 0, wide * widen(slope), wide), x.dtype)]


def softmax_rows(x: Array, axis: int) -> Array:
    """Return softmax over one axis; a row that is all -inf gives NaN."""
    is_last = axis == x.ndim - 1
    result = np.subtract(x, max_rows(x) if is_last else x.max(axis=axis, keepdims=True))
    np.exp(result, out=result)
    result /= sum_rows(result) if is_last else result.sum(axis=axis, keepdims=True)
    return result


def _over_axis(
    x: Array, attrs: Attrs, context: KernelContext, function: Callable[[Array, int], Array]
) -> Array:
    """Apply along `axis`; before opset 13 all axes from `axis` on (by default 1) are one."""
    if context.opset >= 13:
        return function(x, normalize_axis(read_int(attrs, "axis", -1), x.ndim))
    axis = read_int(attrs, "axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    rows = math.prod(x.shape[:axis])
    return function(x.reshape(rows, math.prod(x.shape[axis:])), 1).reshape(x.shape)


def softmax(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Softmax."""
    x = required(inputs, 0)
    if not x.size:
        return [x]
    return [round_to(_over_axis(widen(x), attrs, context, softmax_rows), x.dtype)]


def log_softmax(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """LogSoftmax."""
    x = required(inputs, 0)
    if not x.size:
        return [x]
    return [round_to(_over_axis(widen(x), attrs, context, _log_softmax_rows), x.dtype)]


def _log_softmax_rows(x: Array, axis: int) -> Array:
    shifted: Array = x - x.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def hardmax(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Hardmax: 1 at the first largest element."""
    x = required(inputs, 0)
    return [round_to(_over_axis(widen(x), attrs, context, _hardmax_rows), x.dtype)]


def _hardmax_rows(x: Array, axis: int) -> Array:
    result = np.zeros_like(x)
    np.put_along_axis(result, x.argmax(axis=axis, keepdims=True), 1, axis=axis)
    return result


KERNELS: Final[Mapping[str, Kernel]] = {
    "Relu": relu,
    "Sigmoid": _activation(_sigmoid),
    "LeakyRelu": _activation(_leaky_relu),
    "PRelu": prelu,
    "Elu": _activation(_elu),
    "Selu": _activation(_selu),
    "Celu": _activation(_celu),
    "Gelu": _activation(_gelu),
    "HardSigmoid": _activation(_hard_sigmoid),
    "HardSwish": _activation(_hard_swish),
    "Swish": _activation(_swish),
    "Mish": _activation(_mish),
    "Softplus": _activation(_softplus),
    "Softsign": _activation(_softsign),
    "ThresholdedRelu": _activation(_thresholded_relu),
    "Shrink": _activation(_shrink),
    "Erf": _activation(_erf),
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "Hardmax": hardmax,
}
