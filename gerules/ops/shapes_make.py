"""Types of what makes tensors from attributes, shapes and numbers, and of quantization."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gerules.ir import Attr, Const, Dim, DType, Shape, TensorType, ValueType
from gerules.ops.call import HIGHEST_RANK, Call, Rule, axis_in, bad_attr, misfit
from gerules.ops.dims import add_dims, floordiv_dim


def _constant(call: Call) -> list[ValueType]:
    return [constant_type(call)]


def constant_type(call: Call) -> TensorType:
    """Return the type of a Constant. Raises Misfit (E30003) unless exactly one value is given."""
    given = [
        (name, value) for name, value in call.attrs.items() if name.startswith(("value", "sparse_value"))
    ]
    if len(given) != 1:
        raise bad_attr("value", f"must be given once, not {len(given)} times")
    name, value = given[0]
    found = _type_of_attr(name, value)
    if found is None:
        raise bad_attr(name, "has another kind of value")
    return found


def _type_of_attr(name: str, value: Attr) -> TensorType | None:
    if isinstance(value, Const):
        return value.type
    match name:
        case "value_int" if isinstance(value, int):
            return TensorType(DType.I64, ())
        case "value_float" if isinstance(value, int | float):
            return TensorType(DType.F32, ())
        case "value_string" if isinstance(value, str | bytes):
            return TensorType(DType.STRING, ())
        case "value_ints" if isinstance(value, tuple):
            return TensorType(DType.I64, (len(value),))
        case "value_floats" if isinstance(value, tuple):
            return TensorType(DType.F32, (len(value),))
        case "value_strings" if isinstance(value, tuple):
            return TensorType(DType.STRING, (len(value),))
        case _:
            return None


def _shape(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    if shape is None:
        return [TensorType(DType.I64, ("?",))]
    start, end = shape_range(call, len(shape))
    return [TensorType(DType.I64, (max(0, end - start),))]


def shape_range(call: Call, rank: int) -> tuple[int, int]:
    """Return which axes Shape lists, clamped to the rank."""
    start, end = call.int_attr("start", 0), call.int_attr("end", rank)
    start += rank if start < 0 else 0
    end += rank if end < 0 else 0
    return min(max(start, 0), rank), min(max(end, 0), rank)


def _size(call: Call) -> list[ValueType]:
    call.tensor(0)
    return [TensorType(DType.I64, ())]


def _constant_of_shape(call: Call) -> list[ValueType]:
    value = call.attrs.get("value")
    if value is not None and not isinstance(value, Const):
        raise bad_attr("value", "is no tensor")
    dtype = DType.F32 if value is None else value.dtype
    return [TensorType(dtype, _listed_shape(call, 0))]


def _listed_shape(call: Call, index: int) -> Shape | None:
    known = call.vector(index)
    if known is None:
        listed = call.shape(index)
        if listed is None or len(listed) != 1 or not isinstance(listed[0], int):
            return None
        if listed[0] > HIGHEST_RANK:
            raise misfit(f"{listed[0]} dims are more than a tensor has")
        return ("?",) * listed[0]
    if any(isinstance(dim, int) and dim < 0 for dim in known):
        raise misfit("a dim is negative")
    return known


def _range(call: Call) -> list[ValueType]:
    numbers = [call.floats(index) for index in range(3)]
    exact = [call.vector(index) for index in range(3)]
    size: Dim = "?"
    if all(entry is not None and len(entry) == 1 for entry in exact):
        start, limit, step = (entry[0] for entry in exact if entry is not None)
        if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int):
            _check_step(step)
            size = max(0, -(-(limit - start) // step))
        elif start == 0 and step == 1:
            size = limit
    elif all(entry is not None and len(entry) == 1 for entry in numbers):
        begin, stop, stride = (entry[0] for entry in numbers if entry is not None)
        _check_step(stride)
        if call.dtypes[0] not in (DType.F32, DType.F64):
            # How half precision rounds the difference decides the count, and kernels do not agree on it.
            return [TensorType(call.dtypes[0], ("?",))]
        span = stop - begin if call.dtypes[0] is DType.F64 else float(np.float32(stop) - np.float32(begin))
        count = span / stride
        if not math.isfinite(count):
            raise misfit("the limits are no finite numbers")
        size = max(0, math.ceil(count))
    return [TensorType(call.dtypes[0], (size,))]


def _check_step(step: float) -> None:
    if step == 0:
        raise misfit("the step is 0")


def _random(call: Call) -> list[ValueType]:
    shape, dtype = call.ints_attr("shape"), call.dtype_attr("dtype")
    if shape is None:
        raise bad_attr("shape", "is missing")
    return [TensorType(DType.F32 if dtype is DType.UNKNOWN else dtype, shape)]


def _multinomial(call: Call) -> list[ValueType]:
    shape, dtype = call.shape(0), call.dtype_attr("dtype")
    rows: Dim = "?" if shape is None or not shape else shape[0]
    out = (rows, call.int_attr("sample_size", 1))
    return [TensorType(DType.I32 if dtype is DType.UNKNOWN else dtype, out)]


def _stft(call: Call) -> list[ValueType]:
    """`[batch, length, 1 or 2] -> [batch, frames, bins, 2]`.

    Ours because onnx's own rule takes an absent `onesided` for 0, where the operator's default is 1.
    """
    shape, step = call.shape(0), call.vector(1)
    frame: Dim = "?"
    listed = call.vector(3)
    window = call.shape(2)
    if listed is not None and len(listed) == 1:
        frame = listed[0]
    elif window is not None and len(window) == 1:
        frame = window[0]
    bins = add_dims(floordiv_dim(frame, 2), 1) if call.int_attr("onesided", 1) else frame
    batch: Dim = shape[0] if shape else "?"
    length: Dim = shape[1] if shape is not None and len(shape) > 1 else "?"
    frames: Dim = "?"
    if isinstance(length, int) and isinstance(frame, int) and step is not None and len(step) == 1:
        hop = step[0]
        if isinstance(hop, int):
            if hop < 1 or frame > length:
                raise misfit(f"frames of {frame} every {hop} do not fit {length} samples")
            frames = (length - frame) // hop + 1
    return [TensorType(call.dtypes[0], (batch, frames, bins, 2))]


# ---------------------------------------------------------------- quantization
def _quantize(call: Call) -> list[ValueType]:
    wanted = call.dtype_attr("output_dtype")
    dtype = call.tensor(2).dtype if call.has(2) else DType.U8 if wanted is DType.UNKNOWN else wanted
    _check_scale(call)
    return [TensorType(dtype, call.shape(0))]


def _dequantize(call: Call) -> list[ValueType]:
    wanted = call.dtype_attr("output_dtype")
    scale = call.tensor(1).dtype
    dtype = (DType.F32 if call.opset < 19 else scale) if wanted is DType.UNKNOWN else wanted
    _check_scale(call)
    return [TensorType(dtype, call.shape(0))]


def _check_scale(call: Call) -> None:
    """One scale for all, one for each entry of the axis, or one for each block."""
    shape, scale = call.shape(0), call.shape(1)
    if shape is None or scale is None or len(scale) != 1 or call.int_attr("block_size", 0):
        return
    if not shape:
        return
    axis = call.int_attr("axis", 1)
    if len(shape) == 1 and axis == 1:
        axis = 0
    size, count = shape[axis_in(axis, len(shape))], scale[0]
    if isinstance(size, int) and isinstance(count, int) and count not in (1, size):
        raise misfit(f"{count} scales are given for axis {axis} of {size}")


def _dynamic_quantize(call: Call) -> list[ValueType]:
    return [TensorType(DType.U8, call.shape(0)), TensorType(DType.F32, ()), TensorType(DType.U8, ())]


RULES: Final[dict[str, Rule]] = {
    "Constant": _constant,
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "RandomNormal": _random,
    "RandomUniform": _random,
    "Multinomial": _multinomial,
    "STFT": _stft,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
}
