"""Elementwise operators that are one numpy ufunc or a few: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final, cast

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_int, read_text
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, normalize_axis, required
from gerules.runtime.kernels.precision import F64, is_float, round_to, widen

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]


def operands(inputs: Inputs, attrs: Attrs, context: KernelContext) -> tuple[Array, Array]:
    """Return the two operands, the second shaped so that numpy's broadcasting fits.

    Before opset 7 the second operand is aligned at attribute `axis` of the first.
    """
    a, b = required(inputs, 0), required(inputs, 1)
    if context.opset < 7 and read_flag(attrs, "broadcast") and "axis" in attrs:
        axis = normalize_axis(read_int(attrs, "axis", 0), a.ndim)
        b = b.reshape(b.shape + (1,) * (a.ndim - axis - b.ndim))
    return a, b


def _unary(ufunc: np.ufunc, *, is_predicate: bool = False) -> Kernel:
    def kernel(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
        x = required(inputs, 0)
        dtype = np.dtype(np.bool_) if is_predicate else x.dtype
        # numpy would compute an integer in f16 or f64 by its width.
        if x.dtype.kind in "iub" and ufunc in _REAL_ONLY:
            return [round_to(ufunc(x.astype(F64)), dtype)]
        return [ufunc(x, out=context.destination(x.shape, dtype))]

    return kernel


def _binary(ufunc: np.ufunc, *, is_predicate: bool = False) -> Kernel:
    def kernel(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
        a, b = operands(inputs, attrs, context)
        if a.dtype.kind in "OUS":
            return [np.asarray(ufunc(a, b), bool)]
        dtype = np.dtype(np.bool_) if is_predicate else a.dtype
        shape = np.broadcast_shapes(a.shape, b.shape)
        return [ufunc(a, b, out=context.destination(shape, dtype), casting="unsafe")]

    return kernel


def _variadic(ufunc: np.ufunc) -> Kernel:
    def kernel(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
        arrays = [required(inputs, index) for index in range(len(inputs))]
        dtype = arrays[0].dtype
        if len(arrays) == 1:
            return [arrays[0]]
        if len(arrays) == 2:
            shape = np.broadcast_shapes(arrays[0].shape, arrays[1].shape)
            return [ufunc(arrays[0], arrays[1], out=context.destination(shape, dtype))]
        return [round_to(reduce(ufunc, [widen(array) for array in arrays]), dtype)]

    return kernel


def mean(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Mean of any number of tensors, with broadcasting since opset 8."""
    arrays = [widen(required(inputs, index)) for index in range(len(inputs))]
    total: Array = reduce(np.add, arrays)
    return [round_to(total / len(arrays), required(inputs, 0).dtype)]


def divide(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Div; integers are divided toward zero, as C does."""
    a, b = operands(inputs, attrs, context)
    out = context.destination(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    if is_float(a.dtype) or a.dtype.kind == "c":
        return [np.divide(a, b, out=out)]
    if a.dtype.kind == "V":  # ml_dtypes' small integers know no fmod
        wide = [a.astype(np.int32), b.astype(np.int32)]
        return [_divide_toward_zero(wide[0], wide[1]).astype(a.dtype)]
    out[...] = _divide_toward_zero(a, b)
    return [out]


def _divide_toward_zero(a: Array, b: Array) -> Array:
    return (a - np.fmod(a, b)) // b


def modulo(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Mod: the sign follows the divisor, or with `fmod` the dividend."""
    a, b = operands(inputs, attrs, context)
    ufunc = np.fmod if read_flag(attrs, "fmod") else np.mod
    return [round_to(ufunc(widen(a), widen(b)), a.dtype)]


def power(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Pow; the result has the type of the base, whatever the type of the exponent."""
    base, exponent = operands(inputs, attrs, context)
    x, y = widen(base), widen(exponent)
    if exponent.size == 1 and is_float(base.dtype) and exponent.ndim <= base.ndim:
        # libm's pow is an order slower than what it comes to for the two common exponents.
        value = float(exponent.reshape(-1)[0])
        if value == 2.0:
            return [round_to(np.multiply(x, x), base.dtype)]
        if value == 0.5:
            return [round_to(np.sqrt(x), base.dtype)]
    if not is_float(base.dtype) and (is_float(exponent.dtype) or bool(np.any(exponent < 0))):
        x = x.astype(F64)
        y = y.astype(F64)
    elif is_float(base.dtype):
        y = y.astype(x.dtype)
    return [round_to(np.power(x, y), base.dtype)]


def bit_shift(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """BitShift; a shift by the width or more gives 0."""
    a, b = operands(inputs, attrs, context)
    ufunc = np.right_shift if read_text(attrs, "direction", "") == "RIGHT" else np.left_shift
    return [ufunc(a, b)]


def is_inf(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """IsInf, of either sign or of one."""
    x = widen(required(inputs, 0))
    found = np.isinf(x)
    if not read_flag(attrs, "detect_positive", True):
        found &= x < 0
    if not read_flag(attrs, "detect_negative", True):
        found &= x > 0
    return [found]


def sign(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Sign."""
    x = required(inputs, 0)
    return [round_to(np.sign(widen(x)), x.dtype)]


def where(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Where, with broadcasting of all three."""
    return [np.where(required(inputs, 0), required(inputs, 1), required(inputs, 2))]


def clip(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Clip; the bounds are inputs since opset 11, attributes before. `max` wins over `min`."""
    x = required(inputs, 0)
    low: object = inputs[1] if len(inputs) > 1 else attrs.get("min")
    high: object = inputs[2] if len(inputs) > 2 else attrs.get("max")
    out = context.destination(x.shape, x.dtype)
    source = x
    if low is not None:
        source = np.maximum(source, np.asarray(low).astype(x.dtype).reshape(()), out=out)
    if high is not None:
        source = np.minimum(source, np.asarray(high).astype(x.dtype).reshape(()), out=out)
    return [source]


def identity(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Identity: the input itself, which may be a sequence, or an optional that holds nothing."""
    return [cast(Array, inputs[0] if inputs else None)]


_REAL_ONLY: Final = frozenset({
    np.sqrt, np.exp, np.log, np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh,
    np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh, np.rint,
    np.floor, np.ceil, np.reciprocal,
})  # fmt: skip

KERNELS: Final[Mapping[str, Kernel]] = {
    "Abs": _unary(np.absolute),
    "Neg": _unary(np.negative),
    "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil),
    "Round": _unary(np.rint),
    "Sqrt": _unary(np.sqrt),
    "Exp": _unary(np.exp),
    "Log": _unary(np.log),
    "Reciprocal": _unary(np.reciprocal),
    "Sin": _unary(np.sin),
    "Cos": _unary(np.cos),
    "Tan": _unary(np.tan),
    "Sinh": _unary(np.sinh),
    "Cosh": _unary(np.cosh),
    "Tanh": _unary(np.tanh),
    "Asin": _unary(np.arcsin),
    "Acos": _unary(np.arccos),
    "Atan": _unary(np.arctan),
    "Asinh": _unary(np.arcsinh),
    "Acosh": _unary(np.arccosh),
    "Atanh": _unary(np.arctanh),
    "Not": _unary(np.logical_not, is_predicate=True),
    "IsNaN": _unary(np.isnan, is_predicate=True),
    "BitwiseNot": _unary(np.invert),
    "IsInf": is_inf,
    "Sign": sign,
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": divide,
    "Mod": modulo,
    "Pow": power,
    "BitShift": bit_shift,
    "BitwiseAnd": _binary(np.bitwise_and),
    "BitwiseOr": _binary(np.bitwise_or),
    "BitwiseXor": _binary(np.bitwise_xor),
    "And": _binary(np.logical_and, is_predicate=True),
    "Or": _binary(np.logical_or, is_predicate=True),
    "Xor": _binary(np.logical_xor, is_predicate=True),
    "Equal": _binary(np.equal, is_predicate=True),
    "Greater": _binary(np.greater, is_predicate=True),
    "GreaterOrEqual": _binary(np.greater_equal, is_predicate=True),
    "Less": _binary(np.less, is_predicate=True),
    "LessOrEqual": _binary(np.less_equal, is_predicate=True),
    "Max": _variadic(np.maximum),
    "Min": _variadic(np.minimum),
    "Sum": _variadic(np.add),
    "Mean": mean,
    "Where": where,
    "Clip": clip,
    "Identity": identity,
}

ALIAS_SAFE: Final = frozenset({
    "Abs", "Neg", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log", "Reciprocal", "Sin", "Cos", "Tan",
    "Sinh", "Cosh", "Tanh", "Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh", "Not", "IsNaN",
    "Add", "Sub", "Mul", "And", "Or", "Xor", "Equal", "Greater", "Less",
})  # fmt: skip
"""Operators that are a single ufunc: numpy keeps them right when the result overlaps an input."""
