"""Operators of expressions: arithmetic and comparison over numbers, lists, shapes and arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Final, cast

import numpy as np

from gerules.dsl.expressions import Comparison, Operator
from gerules.dsl.values import (
    MAX_INT_BITS,
    Array,
    EvalError,
    OpView,
    Reject,
    SymbolicDim,
    Value,
    ValueView,
    as_int,
    as_number,
    check_elements,
    check_int,
    check_items,
    check_list,
    describe,
    is_array_like,
    is_unknown,
    quietly,
    raw_array,
    wide_array,
)
from gerules.ir import DType


def compute(op: Operator, left: Value, right: Value) -> Value:
    """Return `left op right`.

    Raises:
        EvalError: the two do not go together, a division by zero, or a result out of bounds.
        Reject: a symbolic dimension takes part whose size would be needed.
    """
    if isinstance(left, SymbolicDim) or isinstance(right, SymbolicDim):
        return _symbolic(op, left, right)
    if is_array_like(left) or is_array_like(right):
        return _arrays(op, left, right)
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _lists(op, left, right)
    if isinstance(left, str) and isinstance(right, str) and op == "+":
        check_items(len(left) + len(right))
        return left + right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _numbers(op, left, right)
    raise EvalError(f"`{op}` does not go with {describe(left)} and {describe(right)}")


def negate(value: Value) -> Value:
    """Return `-value`."""
    if isinstance(value, int | float):
        return -value
    if is_array_like(value):
        return quietly(np.negative, _numeric(value))
    if isinstance(value, SymbolicDim):
        raise Reject(f"the dimension {value} is not known when compiling")
    raise EvalError(f"`-` does not go with {describe(value)}")


def compare(op: Comparison, left: Value, right: Value) -> bool | Array:
    """Return `left op right`.

    `==` and `!=` speak of whole values: equal shape and equal elements; one element equals an array
    when it equals all of it. The orderings work element by element when a side has several.

    Raises Reject when the answer depends on a dimension that is not known.
    """
    if op == "==":
        return equals(left, right)
    if op == "!=":
        return not equals(left, right)
    if isinstance(left, SymbolicDim) or isinstance(right, SymbolicDim):
        if isinstance(left, SymbolicDim) and left == right and not is_unknown(left):
            return op in {"<=", ">="}
        raise Reject(f"{_show(left)} {op} {_show(right)} is not known when compiling")
    if is_array_like(left) or is_array_like(right):
        one, two = _operands(left, right)
        if one.size == two.size == 1:
            return compare(op, as_number(one), as_number(two))
        return cast("Array", _ARRAY_ORDER[op](one, two))
    if isinstance(left, str) and isinstance(right, str):
        return _in_order(op, (left > right) - (left < right))
    one, two = as_number(left, f"the left side of `{op}`"), as_number(right, f"the right side of `{op}`")
    if one != one or two != two:
        return False  # a NaN stands in no order
    return _in_order(op, (one > two) - (one < two))


def _in_order(op: Comparison, sign: int) -> bool:
    return sign in {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}[op]


def equals(left: Value, right: Value) -> bool:
    """Whether two values are equal. Raises Reject when that depends on a dimension that is not known."""
    if left is None or right is None:
        return left is right
    if isinstance(left, SymbolicDim) or isinstance(right, SymbolicDim):
        return _dims_equal(left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _lists_equal(left, right)
    if isinstance(left, ValueView) and left is right:
        return True
    if (
        isinstance(left, ValueView)
        and isinstance(right, ValueView)
        and (left.const is None or right.const is None)
    ):
        return left.id == right.id
    if is_array_like(left) or is_array_like(right):
        return _arrays_equal(left, right)
    if isinstance(left, DType) or isinstance(right, DType):
        return _dtypes_equal(left, right)
    if isinstance(left, OpView) and isinstance(right, str | OpView):
        return left.op == (right.op if isinstance(right, OpView) else right)
    if isinstance(right, OpView) and isinstance(left, str):
        return right.op == left
    if isinstance(left, str) != isinstance(right, str):
        raise EvalError(f"{describe(left)} cannot be compared with {describe(right)}")
    return left == right


def contains(item: Value, container: Value) -> bool:
    """Return `item in container`, for lists, arrays, texts, operator sets and maps."""
    if isinstance(container, frozenset):
        return (item.op if isinstance(item, OpView) else item) in container
    if isinstance(container, str):
        if isinstance(item, str):
            return item in container
        raise EvalError(f"{describe(item)} is never in a text")
    if isinstance(container, tuple):
        unknown: Reject | None = None
        for other in container:
            try:
                if equals(item, other):
                    return True
            except Reject as reject:
                unknown = reject
        if unknown is not None:
            raise unknown
        return False
    if is_array_like(container):
        return bool(np.any(np.equal(wide_array(container), as_number(item, "the item"))))
    if isinstance(container, dict):
        return item in container
    raise EvalError(f"{describe(container)} holds no items")


# ---------------------------------------------------------------- numbers
def _numbers(op: Operator, left: int | float, right: int | float) -> int | float:
    if op in {"/", "//", "%"} and right == 0:
        raise EvalError("division by zero")
    if op == "**":
        return _power(left, right)
    try:
        result = _NUMBER[op](left, right)
    except OverflowError:
        raise EvalError("the result is beyond what a number holds") from None
    return check_int(result) if isinstance(result, int) else result


def _power(base: int | float, exponent: int | float) -> int | float:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if abs(base) > 1 and exponent * (abs(base).bit_length() - 1) > MAX_INT_BITS:
            raise EvalError(f"the result has more than {MAX_INT_BITS} bits")
        return check_int(int(base**exponent))
    if base == 0 and exponent < 0:
        raise EvalError("division by zero")
    if base < 0 and not float(exponent).is_integer():
        raise EvalError("a negative number has no such power")
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError):
        raise EvalError("the result is beyond what a number holds") from None


def _symbolic(op: Operator, left: Value, right: Value) -> Value:
    if op == "*" and (isinstance(left, int) or isinstance(right, int)) and 1 in (left, right):
        return right if left == 1 else left
    if op in {"+", "-"} and right == 0:
        return left
    if op == "-" and left == right and isinstance(left, SymbolicDim) and not is_unknown(left):
        return 0
    raise Reject(f"{_show(left)} {op} {_show(right)} is not known when compiling")


def _show(value: Value) -> str:
    return str(value) if isinstance(value, SymbolicDim) else describe(value)


# ---------------------------------------------------------------- lists
def _lists(op: Operator, left: Value, right: Value) -> Value:
    if op == "+" and isinstance(left, tuple) and isinstance(right, tuple):
        both = left + right
        check_list(both)
        return both
    if op == "*":
        items, times = (left, right) if isinstance(left, tuple) else (right, left)
        if isinstance(items, tuple):
            n_times = as_int(times, "the number of repetitions")
            check_list(items, n_times)
            return items * max(0, n_times)
    raise EvalError(f"`{op}` does not go with {describe(left)} and {describe(right)}")


def _lists_equal(left: tuple[Value, ...], right: tuple[Value, ...]) -> bool:
    if len(left) != len(right):
        return False
    unknown: Reject | None = None
    for one, two in zip(left, right, strict=True):
        try:
            if not equals(one, two):
                return False
        except Reject as reject:
            unknown = reject
    if unknown is not None:
        raise unknown
    return True


def _dims_equal(left: Value, right: Value) -> bool:
    if isinstance(left, SymbolicDim) and left == right and not is_unknown(left):
        return True
    raise Reject(f"whether {_show(left)} equals {_show(right)} is not known when compiling")


def _dtypes_equal(left: Value, right: Value) -> bool:
    for side in (left, right):
        if side is DType.UNKNOWN:
            raise Reject("an element type is not known when compiling")
        if not isinstance(side, DType):
            raise EvalError(f"an element type cannot be compared with {describe(side)}")
    return left is right


# ---------------------------------------------------------------- arrays
def _arrays(op: Operator, left: Value, right: Value) -> Array:
    one, two = _operands(left, right)
    if op == "/" and not (one.dtype.kind == "f" or two.dtype.kind == "f"):
        one = one.astype(np.float64)
    if op in {"//", "%"} and np.any(np.equal(two, 0)):
        raise EvalError("division by zero")
    if op == "**" and one.dtype.kind != "f" and two.dtype.kind != "f":
        # Whole powers overflow 64 bits without a word; the float result says how large it would be.
        if two.size and int(cast("int", two.min())) < 0:
            one = one.astype(np.float64)
        elif np.any(np.abs(np.power(one.astype(np.float64), two)) >= 2.0**63):
            raise EvalError("the result is beyond 64-bit integers")
    return quietly(_ARRAY[op], one, two)


def _operands(left: Value, right: Value) -> tuple[Array, Array]:
    one, two = _numeric(left), _numeric(right)
    if _covers(one.shape, two.shape) or _covers(two.shape, one.shape):
        return one, two
    try:
        shape = np.broadcast_shapes(one.shape, two.shape)
    except ValueError:
        raise EvalError(f"shapes {list(one.shape)} and {list(two.shape)} do not broadcast") from None
    check_elements(math.prod(shape), one, two)
    return one, two


def _covers(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast to the first of them."""
    if shape == other or not other:
        return True
    if len(other) > len(shape):
        return False
    return all(two in (1, one) for one, two in zip(shape[len(shape) - len(other) :], other, strict=True))


def _numeric(value: Value) -> Array:
    array = wide_array(value)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _arrays_equal(left: Value, right: Value) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        raw = [raw_array(side) for side in (left, right) if not isinstance(side, str)]
        text = left if isinstance(left, str) else right
        return raw[0].dtype.kind in "OSUT" and raw[0].size == 1 and str(raw[0].reshape(-1)[0]) == text
    one, two = wide_array(left), wide_array(right)
    if one.shape != two.shape and one.size != 1 and two.size != 1:
        return False
    if one.size == 0 or two.size == 0:
        return one.size == two.size
    return bool(np.all(np.equal(one, two)))


_NUMBER: Final[dict[str, Callable[[int | float, int | float], int | float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right,
    "//": lambda left, right: left // right,
    "%": operator.mod,
}
_ARRAY: Final[dict[str, np.ufunc]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "**": np.power,
}
_ARRAY_ORDER: Final[dict[str, np.ufunc]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
