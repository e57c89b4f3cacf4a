"""Functions over constant arrays: moving elements (element type kept) and computing (float64, int64)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from gerules.dsl.functions_shape import axis_in, permutation_between
from gerules.dsl.registry import builtin
from gerules.dsl.values import (
    Array,
    EvalError,
    Reject,
    Value,
    as_dtype,
    as_int,
    as_ints,
    as_items,
    as_number,
    as_text,
    check_elements,
    describe,
    is_all_finite,
    is_array_like,
    quietly,
    raw_array,
    wide_array,
)
from gerules.ir import DType, Format, dtype_of, to_storage


def round_to(array: Array, dtype: DType) -> Array:
    """Round an array to an element type, once.

    Raises EvalError when the array holds no numbers, a fraction or too large a number goes into an
    integer type, or a finite number leaves the range of a float type.
    """
    if dtype is DType.STRING or dtype is DType.UNKNOWN:
        raise EvalError(f"nothing can be cast to {dtype}")
    if array.dtype.kind in "OSUT":
        raise EvalError("texts cannot be cast to numbers")
    target = dtype.numpy
    if array.dtype == target:
        return array
    if dtype is DType.BOOL:
        return cast("Array", np.not_equal(array, 0))
    wide = wide_array(array)
    if dtype.is_integer:
        return _round_to_integer(wide, dtype)
    result = quietly(wide.astype, target)
    if result.size and not is_all_finite(result):
        is_lost = np.isfinite(wide.astype(np.float64)) & ~np.isfinite(result.astype(np.float64))
        if np.any(is_lost):
            raise Reject(f"a value leaves the range of {dtype}")
    return result


def _round_to_integer(wide: Array, dtype: DType) -> Array:
    if not wide.size:
        return wide.astype(dtype.numpy)
    low, high = integer_range(dtype)
    if wide.dtype.kind == "f":
        floats = wide.astype(np.float64)
        if not np.all(np.isfinite(floats)):
            raise Reject(f"a value that is not finite goes into {dtype}")
        # As Cast does: towards zero.
        wide = cast("Array", np.trunc(floats))
    smallest, largest = wide.min().item(), wide.max().item()
    if cast("float", smallest) < low or cast("float", largest) > high:
        raise Reject(f"a value leaves the range of {dtype}")
    return wide.astype(dtype.numpy)


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    if dtype.value[0] == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


# ---------------------------------------------------------------- moving elements
@builtin("arrays")
def _cast(x: Value, dtype: Value) -> Value:
    """The elements rounded once to an element type; out of range rejects the match."""
    return round_to(raw_array(x), as_dtype(dtype, "the element type"))


@builtin("arrays")
def _reshape(x: Value, shape: Value) -> Value:
    """The elements in another shape; one dimension may be -1."""
    array, dims = raw_array(x), as_ints(shape, "the shape")
    if sum(1 for dim in dims if dim < 0) > 1 or any(dim < -1 for dim in dims):
        raise EvalError(f"{list(dims)} is no shape")
    known = math.prod(dim for dim in dims if dim >= 0)
    fits = known == array.size if -1 not in dims else known > 0 and array.size % known == 0
    if not fits:
        raise EvalError(f"{describe(x)} does not fit the shape {list(dims)}")
    return array.reshape(dims)


@builtin("arrays")
def _transpose(x: Value, perm: Value = None) -> Value:
    """The axes in another order; without one, reversed."""
    array = raw_array(x)
    if perm is None:
        return array.transpose()
    order = as_ints(perm, "the permutation")
    if sorted(order) != list(range(array.ndim)):
        raise EvalError(f"{list(order)} is no permutation of {array.ndim} axes")
    return array.transpose(order)


@builtin("arrays")
def _concat(xs: Value, axis: Value = 0) -> Value:
    """Arrays, or lists of numbers, joined along an axis."""
    arrays = _same_dtype([raw_array(item) for item in as_items(xs, "the list")])
    place = axis_in(as_int(axis, "the axis"), arrays[0].ndim)
    rest = {array.shape[:place] + array.shape[place + 1 :] for array in arrays}
    if len(rest) != 1 or any(array.ndim != arrays[0].ndim for array in arrays):
        raise EvalError(f"shapes {[list(array.shape) for array in arrays]} do not join along axis {place}")
    return np.concatenate(arrays, axis=place)


@builtin("arrays")
def _stack(xs: Value, axis: Value = 0) -> Value:
    """Arrays of one shape joined along a new axis."""
    arrays = _same_dtype([raw_array(item) for item in as_items(xs, "the list")])
    if len({array.shape for array in arrays}) != 1:
        raise EvalError("only arrays of one shape can be stacked")
    place = axis_in(as_int(axis, "the axis"), arrays[0].ndim + 1)
    return np.stack(arrays, axis=place)


@builtin("arrays")
def _split(x: Value, sizes: Value, axis: Value = 0) -> Value:
    """A list of pieces of these sizes along an axis."""
    array, pieces = raw_array(x), as_ints(sizes, "the sizes")
    place = axis_in(as_int(axis, "the axis"), array.ndim)
    if any(size < 0 for size in pieces) or sum(pieces) != array.shape[place]:
        raise EvalError(f"sizes {list(pieces)} do not add up to {array.shape[place]}")
    return tuple(np.split(array, np.cumsum(pieces)[:-1], axis=place))


@builtin("arrays", name="slice")
def _slice(x: Value, starts: Value, ends: Value, axes: Value = None, steps: Value = None) -> Value:
    """A part of an array, with the meaning of ONNX Slice."""
    array = raw_array(x)
    first, last = as_ints(starts, "starts"), as_ints(ends, "ends")
    places = tuple(range(len(first))) if axes is None else as_ints(axes, "axes")
    strides = (1,) * len(first) if steps is None else as_ints(steps, "steps")
    if not len(first) == len(last) == len(places) == len(strides) or 0 in strides:
        raise EvalError("starts, ends, axes and steps do not go together")
    index = [slice(None)] * array.ndim
    for start, end, place, step in zip(first, last, places, strides, strict=True):
        axis = axis_in(place, array.ndim)
        # Below the first element, a backward slice takes it too; Python writes that end as None.
        stop = None if step < 0 and end < -array.shape[axis] else end
        index[axis] = slice(start, stop, step)
    return array[tuple(index)]


@builtin("arrays")
def _pad(x: Value, pads: Value, value: Value = 0) -> Value:
    """The array with a border; pads as ONNX has them: all begins, then all ends."""
    array, widths = raw_array(x), as_ints(pads, "pads")
    if len(widths) != 2 * array.ndim or any(width < 0 for width in widths):
        raise EvalError(f"pads {list(widths)} do not fit {array.ndim} axes")
    begins, ends = widths[: array.ndim], widths[array.ndim :]
    shape = [begin + dim + end for begin, dim, end in zip(begins, array.shape, ends, strict=True)]
    check_elements(math.prod(shape), array)
    out = np.full(shape, as_number(value, "the value"), array.dtype)
    out[tuple(slice(begin, begin + dim) for begin, dim in zip(begins, array.shape, strict=True))] = array
    return cast("Array", out)


@builtin("arrays")
def _tile(x: Value, repeats: Value) -> Value:
    """The array repeated along each axis."""
    array, times = raw_array(x), as_ints(repeats, "the repeats")
    if len(times) != array.ndim or any(item < 0 for item in times):
        raise EvalError(f"repeats {list(times)} do not fit {array.ndim} axes")
    check_elements(array.size * math.prod(times), array)
    return np.tile(array, times)


@builtin("arrays")
def _broadcast(x: Value, shape: Value) -> Value:
    """The array repeated to a shape, by the rules of broadcasting."""
    array, dims = raw_array(x), as_ints(shape, "the shape")
    if any(dim < 0 for dim in dims):
        raise EvalError(f"{list(dims)} is no shape")
    check_elements(math.prod(dims), array)
    try:
        return np.broadcast_to(array, dims)
    except ValueError:
        raise EvalError(f"{describe(x)} does not broadcast to {list(dims)}") from None


@builtin("arrays")
def _squeeze(x: Value, axes: Value = None) -> Value:
    """The array without axes of size one."""
    array = raw_array(x)
    if axes is None:
        return array.squeeze()
    places = tuple(axis_in(axis, array.ndim) for axis in as_ints(axes, "the axes"))
    if any(array.shape[place] != 1 for place in places):
        raise EvalError(f"{describe(x)} has an axis of {list(places)} that is not of size one")
    return array.reshape([dim for place, dim in enumerate(array.shape) if place not in places])


@builtin("arrays")
def _unsqueeze(x: Value, axes: Value) -> Value:
    """The array with new axes of size one at these places."""
    array, wanted = raw_array(x), as_ints(axes, "the axes")
    rank = array.ndim + len(wanted)
    places = {axis_in(axis, rank) for axis in wanted}
    if len(places) != len(wanted):
        raise EvalError(f"the axes {list(wanted)} repeat each other")
    dims = iter(array.shape)
    return array.reshape([1 if place in places else next(dims) for place in range(rank)])


@builtin("arrays")
def _flip(x: Value, axes: Value) -> Value:
    """The array reversed along axes."""
    array = raw_array(x)
    return np.flip(array, tuple(axis_in(axis, array.ndim) for axis in as_ints(axes, "the axes")))


@builtin("arrays")
def _relayout(x: Value, src: Value, dst: Value) -> Value:
    """A constant laid out for another storage format."""
    array = raw_array(x)
    source, target = as_text(src, "the source format"), as_text(dst, "the target format")
    if source == target:
        return array
    if (order := permutation_between(source, target)) is not None:
        if len(order) != array.ndim:
            raise EvalError(f"{describe(x)} has not the {len(order)} axes of {source}")
        return array.transpose(order)
    if target not in Format.__members__ or source not in {"ND", "NCHW", "NCDHW"}:
        raise EvalError(f"how to lay out {source} as {target} is not known")
    return to_storage(array, Format[target], dtype_of(array))


@builtin("arrays")
def _zeros(shape: Value, dtype: Value = None) -> Value:
    """An array of zeros; float64 unless an element type is given."""
    return _full(shape, 0.0, dtype)


@builtin("arrays")
def _ones(shape: Value, dtype: Value = None) -> Value:
    """An array of ones; float64 unless an element type is given."""
    return _full(shape, 1.0, dtype)


@builtin("arrays")
def _full(shape: Value, value: Value, dtype: Value = None) -> Value:
    """An array of one number."""
    dims = as_ints(shape, "the shape")
    if any(dim < 0 for dim in dims):
        raise EvalError(f"{list(dims)} is no shape")
    check_elements(math.prod(dims))
    element = np.asarray(raw_array(as_number(value, "the value")))
    if dtype is not None:
        element = round_to(element, as_dtype(dtype, "the element type"))
    return np.broadcast_to(element, dims)


def _same_dtype(arrays: Sequence[Array]) -> list[Array]:
    """Arrays that are joined, in one element type; EvalError when the result would be too large."""
    if not arrays:
        raise EvalError("an empty list joins to nothing")
    check_elements(sum(array.size for array in arrays), *arrays)
    if len({array.dtype for array in arrays}) == 1:
        return list(arrays)
    return [wide_array(array) for array in arrays]


# ---------------------------------------------------------------- computing
def _map(
    ufunc: Callable[[Array], Array], scalar: Callable[[float], float], x: Value, *, domain: str = ""
) -> Value:
    """Apply to numbers and arrays alike; a number outside the domain is a fault, in an array it is NaN."""
    if is_array_like(x) or isinstance(x, tuple):
        return quietly(ufunc, wide_array(x).astype(np.float64, copy=False))
    try:
        return scalar(as_number(x, "the argument"))
    except (ValueError, OverflowError, ZeroDivisionError):
        raise EvalError(f"{describe(x)} {domain or 'is out of range'}") from None


def _ufunc(ufunc: np.ufunc) -> Callable[[Array], Array]:
    return lambda array: cast("Array", ufunc(array))


@builtin("numbers")
def _sqrt(x: Value) -> Value:
    """Square root, element by element."""
    return _map(_ufunc(np.sqrt), math.sqrt, x, domain="has no square root")


@builtin("numbers")
def _exp(x: Value) -> Value:
    """Exponential, element by element."""
    return _map(_ufunc(np.exp), math.exp, x)


@builtin("numbers")
def _log(x: Value) -> Value:
    """Natural logarithm, element by element."""
    return _map(_ufunc(np.log), math.log, x, domain="has no logarithm")


@builtin("numbers")
def _tanh(x: Value) -> Value:
    """Hyperbolic tangent, element by element."""
    return _map(_ufunc(np.tanh), math.tanh, x)


def _rounding(ufunc: np.ufunc, scalar: Callable[[float], int], x: Value) -> Value:
    if is_array_like(x) or isinstance(x, tuple):
        array = wide_array(x)
        return array if array.dtype.kind in "ib" else quietly(ufunc, array)
    number = as_number(x, "the argument")
    if isinstance(number, int):
        return number
    if not math.isfinite(number):
        raise EvalError(f"{number} has no whole number beside it")
    return scalar(number)


@builtin("numbers")
def _floor(x: Value) -> Value:
    """The next whole number below."""
    return _rounding(np.floor, math.floor, x)


@builtin("numbers")
def _ceil(x: Value) -> Value:
    """The next whole number above."""
    return _rounding(np.ceil, math.ceil, x)


@builtin("numbers")
def _round(x: Value) -> Value:
    """The nearest whole number; halves go to the even one, as ONNX Round does."""
    return _rounding(np.rint, round, x)


@builtin("numbers")
def _abs(x: Value) -> Value:
    """Absolute value, element by element."""
    if is_array_like(x) or isinstance(x, tuple):
        return quietly(np.absolute, wide_array(x))
    return abs(as_number(x, "the argument"))


def _pairwise(ufunc: np.ufunc, pick: Callable[[float, float], float], a: Value, b: Value) -> Value:
    if not any(is_array_like(item) or isinstance(item, tuple) for item in (a, b)):
        return pick(as_number(a, "the first argument"), as_number(b, "the second argument"))
    one, two = wide_array(a), wide_array(b)
    try:
        check_elements(math.prod(np.broadcast_shapes(one.shape, two.shape)), one, two)
    except ValueError:
        raise EvalError(f"shapes {list(one.shape)} and {list(two.shape)} do not broadcast") from None
    return quietly(ufunc, one, two)


@builtin("numbers")
def _maximum(a: Value, b: Value) -> Value:
    """The larger of two, element by element."""
    return _pairwise(np.maximum, max, a, b)


@builtin("numbers")
def _minimum(a: Value, b: Value) -> Value:
    """The smaller of two, element by element."""
    return _pairwise(np.minimum, min, a, b)


def _reduce(x: Value, what: str) -> Array:
    array = wide_array(x)
    if not array.size:
        raise EvalError(f"{describe(x)} has no elements, so no {what}")
    return array


@builtin("numbers")
def _minimum_of(x: Value) -> Value:
    """The smallest element."""
    return cast("int | float", _reduce(x, "smallest one").min().item())


@builtin("numbers")
def _maximum_of(x: Value) -> Value:
    """The largest element."""
    return cast("int | float", _reduce(x, "largest one").max().item())


@builtin("numbers")
def _max_abs(x: Value) -> Value:
    """The largest absolute value of an array; 0 when it has no elements."""
    array = wide_array(x)
    return float(np.absolute(array.astype(np.float64)).max()) if array.size else 0.0


@builtin("numbers")
def _sum(x: Value, axes: Value = None, keepdims: Value = False) -> Value:
    """The sum of a list, or of an array over axes (all unless given)."""
    return _over_axes(x, axes, keepdims, np.sum)


@builtin("numbers")
def _prod(x: Value, axes: Value = None, keepdims: Value = False) -> Value:
    """The product of a list, or of an array over axes (all unless given)."""
    return _over_axes(x, axes, keepdims, np.prod)


@builtin("numbers")
def _mean(x: Value, axes: Value = None, keepdims: Value = False) -> Value:
    """The mean of an array over axes (all unless given)."""
    _reduce(x, "mean")
    return _over_axes(x, axes, keepdims, np.mean)


def _over_axes(x: Value, axes: Value, keepdims: Value, reduce: Callable[..., object]) -> Value:
    if isinstance(x, tuple) and axes is None:
        # Whole numbers of a list stay exact.
        numbers = [as_number(item, "every item") for item in x]
        if reduce is np.sum:
            return sum(numbers)
        if reduce is np.prod and all(isinstance(item, int) for item in numbers):
            return _exact_product(numbers)
    array = wide_array(x)
    places = None if axes is None else tuple(axis_in(axis, array.ndim) for axis in as_ints(axes, "the axes"))
    with np.errstate(all="ignore"):
        result = np.asarray(reduce(array, axis=places, keepdims=bool(keepdims)))
    return cast("int | float", result.item()) if places is None and not keepdims else np.asarray(result)


def _exact_product(numbers: Sequence[int | float]) -> int | float:
    product: int | float = 1
    for number in numbers:
        product *= number
        if abs(product) >= 1 << 127:
            raise EvalError("the product is beyond 128 bits")
    return product
