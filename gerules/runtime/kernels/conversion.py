"""Casts, and operators that make a tensor from its description."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.ir import Attr, DType, dtype_of
from gerules.runtime.kernels.attributes import read_const, read_dtype, read_flag, read_int
from gerules.runtime.kernels.contract import (
    Array,
    Kernel,
    KernelContext,
    UnsupportedCaseError,
    ints_of,
    required,
)
from gerules.runtime.kernels.precision import is_float, is_narrow

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]

_CONSTANT_FORMS: Final[Mapping[str, type]] = {
    "value_float": np.float32,
    "value_int": np.int64,
    "value_floats": np.float32,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}

# Source: ONNX, docs/docsgen/source/technical/float8.md, the largest finite value of each type.
_LARGEST_F8: Final[Mapping[DType, float]] = {
    DType.F8E4M3FN: 448.0,
    DType.F8E4M3FNUZ: 240.0,
    DType.F8E5M2: 57344.0,
    DType.F8E5M2FNUZ: 57344.0,
}


def cast(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Cast to attribute `to`."""
    kind = read_dtype(attrs, "to")
    if kind is None:
        raise ValueError("attribute to is missing")
    return [convert(required(inputs, 0), kind, saturate=read_flag(attrs, "saturate", True))]


def cast_like(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """CastLike: to the element type of the second input."""
    kind = dtype_of(required(inputs, 1))
    return [convert(required(inputs, 0), kind, saturate=read_flag(attrs, "saturate", True))]


def convert(x: Array, kind: DType, *, saturate: bool = True) -> Array:
    """Return the array in another type, as ONNX's Cast does.

    Reals become integers toward zero; what lies outside an 8-bit float is its largest finite value
    with `saturate`, else infinity or NaN. The array itself is returned when the type is the same.

    Raises:
        UnsupportedCaseError: For f8e8m0, whose rounding `onnx.reference` knows.
    """
    if kind is DType.F8E8M0:
        raise UnsupportedCaseError
    if kind is DType.STRING:
        return x if x.dtype.kind == "O" else x.astype(np.str_).astype(object)
    target = kind.numpy
    if x.dtype == target:
        return x
    if x.dtype.kind in "OU":
        # Through text: an object array may hold bytes.
        return _parse(x, kind)
    with np.errstate(all="ignore"):
        if kind in _LARGEST_F8 and saturate:
            limit = _LARGEST_F8[kind]
            wide = x.astype(np.float32) if is_narrow(x.dtype) or x.dtype.kind in "iub" else x
            return np.clip(wide, -limit, limit).astype(target)
        if is_narrow(x.dtype) and not is_float(target):
            return x.astype(np.float32).astype(target)
        return x.astype(target)


def _parse(x: Array, kind: DType) -> Array:
    texts = [item.decode() if isinstance(item, bytes) else str(item) for item in x.reshape(-1).tolist()]
    if is_float(kind.numpy):
        numbers = np.array([float(text) for text in texts], np.float64)
    elif kind is DType.BOOL:
        numbers = np.array([text not in ("", "0", "False", "false") for text in texts], np.bool_)
    else:
        numbers = np.array([int(text) for text in texts], np.uint64 if kind is DType.U64 else np.int64)
    return numbers.astype(kind.numpy).reshape(x.shape)


def constant(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Constant, in any of its attribute forms."""
    value = read_const(attrs, "value")
    if value is not None:
        return [value.array]
    for name, dtype in _CONSTANT_FORMS.items():
        if name in attrs:
            return [np.asarray(attrs[name], dtype)]
    raise UnsupportedCaseError


def constant_of_shape(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """ConstantOfShape: a read-only view of one element."""
    value = read_const(attrs, "value")
    element = np.zeros((), np.float32) if value is None else value.array.reshape(())
    shape = ints_of(required(inputs, 0))
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {list(shape)} is negative")
    context.check_size(shape, element.dtype)
    return [np.broadcast_to(element, shape)]


def make_range(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Range from start toward limit, limit excluded."""
    start, limit, delta = (required(inputs, index).reshape(())[()] for index in range(3))
    dtype = required(inputs, 0).dtype
    if is_float(dtype):
        steps = (float(limit) - float(start)) / float(delta)
        count = math.ceil(steps) if math.isfinite(steps) else -1
    else:
        count = -((int(start) - int(limit)) // int(delta))
    if is_float(dtype) and count < 0 and not math.isfinite(float(start) + float(limit) + float(delta)):
        raise ValueError("start, limit and delta must be finite")
    count = max(0, count)
    context.check_size((count,), dtype)
    if is_float(dtype):
        wide = np.float64 if dtype == np.float64 else np.float32
        return [(wide(start) + np.arange(count) * wide(delta)).astype(dtype)]
    return [(int(start) + np.arange(count, dtype=np.int64) * int(delta)).astype(dtype)]


def shape_of(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Shape, or since opset 15 a part of it."""
    x = required(inputs, 0)
    start, end = read_int(attrs, "start", 0), read_int(attrs, "end", x.ndim)
    return [np.array(x.shape[start:end], np.int64)]


def size_of(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Size: the number of elements."""
    return [np.array(required(inputs, 0).size, np.int64)]


def dropout(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Dropout for inference: the input itself, and a mask of ones if asked for."""
    x = required(inputs, 0)
    training = inputs[2] if len(inputs) > 2 else None
    if training is not None and bool(training) and not (inputs[1] is not None and float(inputs[1]) == 0):
        raise UnsupportedCaseError
    mask = np.broadcast_to(np.ones((), np.bool_ if context.opset >= 10 else x.dtype), x.shape)
    return [x, mask][: max(1, context.n_outputs)]


def eye_like(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """EyeLike: ones on the k-th diagonal."""
    x = required(inputs, 0)
    kind = read_dtype(attrs, "dtype")
    rows, columns = x.shape
    return [np.eye(rows, columns, k=read_int(attrs, "k", 0)).astype(x.dtype if kind is None else kind.numpy)]


KERNELS: Final[Mapping[str, Kernel]] = {
    "Cast": cast,
    "CastLike": cast_like,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Range": make_range,
    "Shape": shape_of,
    "Size": size_of,
    "Dropout": dropout,
    "EyeLike": eye_like,
}
