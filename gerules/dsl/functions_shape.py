"""Functions over shapes, axes, permutations, lists and element types."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gerules.dsl.arithmetic import equals
from gerules.dsl.registry import builtin
from gerules.dsl.values import (
    ChainView,
    DeviceRef,
    EvalError,
    OpView,
    Reject,
    SymbolicDim,
    Value,
    ValueView,
    as_dtype,
    as_int,
    as_ints,
    as_items,
    as_number,
    as_shape,
    as_text,
    as_truth,
    check_items,
    describe,
    is_array_like,
    raw_array,
    wide_array,
)
from gerules.ir import DType, c0_of

_AXES: Final = {"NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN"}


def axis_in(axis: int, rank: int) -> int:
    """An axis counted from the front; EvalError when there is none such."""
    if not -rank <= axis < rank:
        raise EvalError(f"axis {axis} is outside the {rank} axes")
    return axis % rank if rank else 0


def permutation_between(src: str, dst: str) -> tuple[int, ...] | None:
    """The permutation that takes one layout of named axes to another; None when they are not such layouts."""
    if src in _AXES and dst in _AXES and sorted(src) == sorted(dst):
        return tuple(src.index(axis) for axis in dst)
    return None


# ---------------------------------------------------------------- shapes
@builtin("shapes")
def _numel(x: Value) -> Value:
    """Number of elements of a value."""
    return math.prod(as_int(dim) for dim in as_shape(x, "the argument"))


@builtin("shapes")
def _nbytes(x: Value) -> Value:
    """Bytes of a value in plain layout; a group of values gives a list."""
    if isinstance(x, tuple):
        return tuple(_nbytes(item) for item in x)
    if isinstance(x, ValueView):
        n_elements = math.prod(as_int(dim) for dim in x.shape)
        return as_dtype(x.dtype).size_bytes(n_elements)
    return raw_array(x).nbytes


@builtin("shapes")
def _dims(xs: Value, axis: Value) -> Value:
    """The sizes of several values along one axis, as an array."""
    place, sizes = as_int(axis, "the axis"), list[int]()
    for item in as_items(xs, "the first argument"):
        shape = as_shape(item, "every item")
        sizes.append(as_int(shape[axis_in(place, len(shape))], "every size"))
    return np.array(sizes, dtype=np.int64)


@builtin("shapes")
def _same_shape(a: Value, b: Value) -> Value:
    """Whether two values have equal shapes; names of dimensions count as known."""
    return equals(as_shape(a, "the first argument"), as_shape(b, "the second argument"))


@builtin("shapes")
def _is_scalar(x: Value) -> Value:
    """Whether a value has exactly one element."""
    if isinstance(x, ValueView | np.ndarray):
        dims = as_shape(x)
        if any(isinstance(dim, int) and dim != 1 for dim in dims):
            return False
        return all(as_int(dim) == 1 for dim in dims)
    return isinstance(x, int | float)


@builtin("shapes")
def _scalar(x: Value) -> Value:
    """The one element of a constant, as a number."""
    return as_number(x, "the argument")


@builtin("shapes")
def _normalize_axis(axis: Value, rank: Value) -> Value:
    """An axis counted from the front, whether it was negative or not."""
    return axis_in(as_int(axis, "the axis"), as_int(rank, "the rank"))


@builtin("shapes")
def _normalize_axes(axes: Value, rank: Value) -> Value:
    """Axes counted from the front, in rising order."""
    n_axes = as_int(rank, "the rank")
    return tuple(sorted(axis_in(axis, n_axes) for axis in as_ints(axes, "the axes")))


@builtin("shapes")
def _is_trailing(axes: Value, rank: Value) -> Value:
    """Whether axes are the last ones, all of them and each once."""
    n_axes, places = as_int(rank, "the rank"), as_ints(axes, "the axes")
    found = sorted(axis_in(axis, n_axes) for axis in places)
    return found == list(range(n_axes - len(places), n_axes))


@builtin("shapes")
def _is_identity(perm: Value) -> Value:
    """Whether a permutation moves nothing."""
    order = as_ints(perm, "the permutation")
    return order == tuple(range(len(order)))


@builtin("shapes")
def _compose(p: Value, q: Value) -> Value:
    """The permutation of Transpose(Transpose(x, p), q)."""
    first, second = as_ints(p, "the first permutation"), as_ints(q, "the second permutation")
    if len(first) != len(second) or sorted(second) != list(range(len(first))):
        raise EvalError(f"{list(first)} and {list(second)} are not permutations of the same axes")
    return tuple(first[place] for place in second)


@builtin("shapes")
def _invert(perm: Value) -> Value:
    """The permutation that undoes a permutation."""
    order = as_ints(perm, "the permutation")
    if sorted(order) != list(range(len(order))):
        raise EvalError(f"{list(order)} is no permutation")
    return tuple(order.index(place) for place in range(len(order)))


@builtin("shapes")
def _layout_perm(src: Value, dst: Value, rank: Value = None) -> Value:
    """The permutation that takes one layout to another (NCHW, NHWC, HWCN, and their 3D forms)."""
    source, target = as_text(src, "the source format"), as_text(dst, "the target format")
    if source == target:
        n_axes = len(source) if source in _AXES else None if rank is None else as_int(rank, "the rank")
        if n_axes is None:
            raise EvalError(f"the number of axes of {source} is not known; give the rank")
        check_items(n_axes)
        return tuple(range(n_axes))
    order = permutation_between(source, target)
    if order is None:
        raise EvalError(f"no permutation leads from {source} to {target}")
    return order


@builtin("shapes")
def _broadcast_shape(a: Value, b: Value) -> Value:
    """The shape that two shapes broadcast to."""
    one, two = as_ints(a, "the first shape"), as_ints(b, "the second shape")
    try:
        return tuple(int(dim) for dim in np.broadcast_shapes(one, two))
    except ValueError:
        raise EvalError(f"shapes {list(one)} and {list(two)} do not broadcast") from None


# ---------------------------------------------------------------- truth over arrays and lists
@builtin("tests")
def _all_zero(x: Value) -> Value:
    """Whether every element is zero."""
    return not bool(np.any(wide_array(x)))


@builtin("tests")
def _all_equal(x: Value, value: Value) -> Value:
    """Whether every element equals a number."""
    return bool(np.all(np.equal(wide_array(x), as_number(value, "the value"))))


@builtin("tests")
def _all_finite(x: Value) -> Value:
    """Whether no element is infinite or NaN."""
    return bool(np.all(np.isfinite(wide_array(x).astype(np.float64))))


@builtin("tests")
def _close(a: Value, b: Value, rtol: Value = 1e-5, atol: Value = 0.0) -> Value:
    """Whether two values agree within a relative and an absolute tolerance; shapes must broadcast."""
    one, two = wide_array(a), wide_array(b)
    try:
        np.broadcast_shapes(one.shape, two.shape)
    except ValueError:
        return False
    return bool(
        np.allclose(
            one.astype(np.float64), two.astype(np.float64), float(as_number(rtol)), float(as_number(atol))
        )
    )


@builtin("tests", name="all")
def _all(x: Value) -> Value:
    """Whether every element, or every item of a list, is true."""
    if is_array_like(x):
        return bool(np.all(wide_array(x)))
    return all(as_truth(item) for item in as_items(x, "the argument"))


@builtin("tests", name="any")
def _any(x: Value) -> Value:
    """Whether some element, or some item of a list, is true."""
    if is_array_like(x):
        return bool(np.any(wide_array(x)))
    return any(as_truth(item) for item in as_items(x, "the argument"))


@builtin("tests")
def _default(x: Value, otherwise: Value) -> Value:
    """The first argument unless it is none, then the second."""
    return otherwise if x is None else x


@builtin("tests")
def _is_const(x: Value) -> Value:
    """Whether a value is known when compiling."""
    return x.const is not None if isinstance(x, ValueView) else is_array_like(x) or isinstance(x, int | float)


# ---------------------------------------------------------------- lists
@builtin("lists", name="len")
def _len(x: Value) -> Value:
    """Number of items of a list, of a chain, or along the first axis of an array."""
    match x:
        case tuple() | str() | frozenset():
            return len(x)
        case ChainView():
            return len(x.ops)
        case ValueView() | np.ndarray():
            dims = as_shape(x)
            if not dims:
                raise EvalError(f"{describe(x)} has no first axis")
            return dims[0]
        case _:
            raise EvalError(f"{describe(x)} has no length")


@builtin("lists", name="range")
def _range(start: Value, stop: Value = None, step: Value = 1) -> Value:
    """Whole numbers from start to before stop; range(n) counts from 0."""
    first, last = (
        (0, as_int(start, "stop")) if stop is None else (as_int(start, "start"), as_int(stop, "stop"))
    )
    stride = as_int(step, "step")
    if stride == 0:
        raise EvalError("the step is zero")
    check_items(max(0, -(-(last - first) // stride)))
    return tuple(range(first, last, stride))


@builtin("lists", name="sorted")
def _sorted(x: Value) -> Value:
    """The numbers of a list in rising order."""
    return tuple(sorted(as_number(item, "every item") for item in as_items(x, "the argument")))


@builtin("lists")
def _reversed(x: Value) -> Value:
    """A list from its end."""
    return as_items(x, "the argument")[::-1]


@builtin("lists")
def _unique(x: Value) -> Value:
    """Whether no item of a list comes twice."""
    items = as_items(x, "the argument")
    if len(items) > 1000:
        raise EvalError("the list is too long to compare every pair")
    return not any(equals(one, two) for place, one in enumerate(items) for two in items[:place])


@builtin("lists")
def _list(x: Value) -> Value:
    """The numbers of an array of rank 1 as a list, as an attribute takes them."""
    return as_items(x, "the argument")


# ---------------------------------------------------------------- element types
@builtin("element types")
def _lossless(src: Value, dst: Value) -> Value:
    """Whether every value of one element type is kept exactly by another."""
    return is_lossless(as_dtype(src, "the source type"), as_dtype(dst, "the target type"))


@builtin("element types")
def _dtype_min(dtype: Value) -> Value:
    """The smallest finite number of an element type."""
    return dtype_limits(as_dtype(dtype, "the argument"))[0]


@builtin("element types")
def _dtype_max(dtype: Value) -> Value:
    """The largest finite number of an element type."""
    return dtype_limits(as_dtype(dtype, "the argument"))[1]


@builtin("element types")
def _c0(dtype: Value) -> Value:
    """Elements in the innermost block of a format in blocks: 16 for f16, 32 for i8."""
    return c0_of(as_dtype(dtype, "the argument"))


@builtin("element types")
def _is_float(dtype: Value) -> Value:
    """Whether an element type holds real numbers."""
    return as_dtype(dtype, "the argument").is_float


@builtin("element types")
def _is_integer(dtype: Value) -> Value:
    """Whether an element type holds whole numbers."""
    return as_dtype(dtype, "the argument").is_integer


_FLOATS: Final = {
    # Bits of the significand (the hidden one included), smallest and largest exponent of normal numbers.
    DType.F64: (53, -1022, 1023),
    DType.F32: (24, -126, 127),
    DType.F16: (11, -14, 15),
    DType.BF16: (8, -126, 127),
    DType.F8E4M3FN: (4, -6, 8),
    DType.F8E4M3FNUZ: (4, -7, 7),
    DType.F8E5M2: (3, -14, 15),
    DType.F8E5M2FNUZ: (3, -15, 15),
    DType.F4E2M1: (2, 0, 2),
    DType.F8E8M0: (1, -127, 127),
}
"""Source: IEEE 754, and the float8 and float4 pages of the ONNX documentation."""


def is_lossless(src: DType, dst: DType) -> bool:
    """Whether every value of `src` is exactly a value of `dst`, infinities and NaN included."""
    if src is dst:
        return True
    if DType.STRING in {src, dst} or src.value[0] == "c":
        return src is DType.C64 and dst is DType.C128
    if src is DType.BOOL:
        return dst is not DType.F8E8M0
    if dst is DType.BOOL:
        return False
    if dst.value[0] == "c":
        return is_lossless(src, DType.F32 if dst is DType.C64 else DType.F64)
    if src.is_integer:
        is_signed = src.value[0] == "i"
        n_bits = src.bits - 1 if is_signed else src.bits
        if dst.is_integer:
            if dst.value[0] == "u":
                return not is_signed and dst.bits >= src.bits
            return dst.bits - 1 >= n_bits
        digits, _, top = _FLOATS[dst]
        return dst is not DType.F8E8M0 and digits >= n_bits and top >= n_bits
    if dst.is_integer:
        return False
    digits, low, top = _FLOATS[src]
    wide_digits, wide_low, wide_top = _FLOATS[dst]
    if dst.bits <= 8:
        # The small types differ in which of infinity, NaN and negative zero they have.
        return src is DType.F4E2M1 and dst in {DType.F8E4M3FN, DType.F8E5M2} and wide_digits >= digits
    return wide_digits >= digits and wide_top >= top and wide_low - wide_digits <= low - digits


def dtype_limits(dtype: DType) -> tuple[int | float, int | float]:
    """The smallest and the largest finite number of an element type."""
    if dtype is DType.BOOL:
        return 0, 1
    if dtype.is_integer:
        if dtype.value[0] == "u":
            return 0, (1 << dtype.bits) - 1
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    if not dtype.is_float:
        raise EvalError(f"{dtype} has no smallest and largest number")
    largest = _LARGEST[dtype]
    return (2.0**-127 if dtype is DType.F8E8M0 else -largest), largest


_LARGEST: Final[dict[DType, float]] = {
    DType.F64: float(np.finfo(np.float64).max),
    DType.F32: float(np.finfo(np.float32).max),
    DType.F16: 65504.0,
    DType.BF16: (2 - 2.0**-7) * 2.0**127,
    DType.F8E4M3FN: 448.0,
    DType.F8E4M3FNUZ: 240.0,
    DType.F8E5M2: 57344.0,
    DType.F8E5M2FNUZ: 57344.0,
    DType.F8E8M0: 2.0**127,
    DType.F4E2M1: 6.0,
}


# ---------------------------------------------------------------- operators and the device
@builtin("operators")
def _opname(op: Value) -> Value:
    """The name of a matched operator, without its domain."""
    if not isinstance(op, OpView):
        raise EvalError(f"{describe(op)} is no matched operator")
    return op.op.rpartition("::")[2]


@builtin("operators")
def _supports(device: Value, op: Value) -> Value:
    """Whether a device has a kernel for an operator."""
    if not isinstance(device, DeviceRef):
        raise EvalError(f"{describe(device)} is no device")
    return not device.device.lacks(op.op if isinstance(op, OpView) else as_text(op, "the operator"))


@builtin("shapes")
def _is_static(x: Value) -> Value:
    """Whether every dimension of a value is a known number."""
    try:
        return not any(isinstance(dim, SymbolicDim) for dim in as_shape(x, "the argument"))
    except Reject:
        return False
