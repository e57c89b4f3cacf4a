"""Values of expressions: what a name may stand for, views of matched things, and conversions that check.

A matched value is a `ValueView`. Arithmetic happens in float64 and int64; functions that only move
elements (`transpose`, `concat`, ...) keep the element type. Nothing here writes to an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from gerules.ir import UNKNOWN_DIM, Const, DType, TensorType, ValueType, dtype_of

Array = npt.NDArray[np.generic]

_F64: Final = np.dtype(np.float64)
_F32: Final = np.dtype(np.float32)

MAX_INT_BITS: Final = 128
"""Whole numbers of an expression stay below this, so that `2 ** 10 ** 9` is a fault and not a hang."""
MAX_ITEMS: Final = 1 << 16
"""Longest list or text that an expression makes; of lists in lists, all items together."""
MAX_DEPTH: Final = 64
"""Deepest lists in lists."""
MIN_ELEMENTS: Final = 1 << 24
"""An expression may always make an array of so many elements ..."""
GROWTH: Final = 4
"""... and a larger one only up to so many times the elements of what it is made from ..."""
MAX_ELEMENTS: Final = 1 << 28
"""... but none above this, unless one of what it is made from is as large: growth on growth has no end."""


class EvalError(Exception):
    """An expression has no value. Functions raise it with the reason; the evaluator adds the place."""


class Reject(Exception):  # noqa: N818  (it is an outcome, not a fault)
    """Something needed is not known when compiling, or a result is useless: the match is not taken."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SymbolicDim:
    """A dimension known by name only; equal names are equal sizes, and `?` equals nothing."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class ValueView:
    """A matched value as guards see it. `id` is its id in the graph; `const` its array when constant."""

    id: int
    name: str
    type: ValueType
    const: Const | None = None

    @property
    def tensor_type(self) -> TensorType:
        """The type as a tensor's; EvalError for sequences, optionals and maps."""
        if not isinstance(self.type, TensorType):
            raise EvalError(f"{self.name} is no tensor but {self.type}")
        return self.type

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.tensor_type.dtype

    @property
    def shape(self) -> tuple[int | SymbolicDim, ...]:
        """The logical shape. Raises Reject when not even the rank is known."""
        dims = self.tensor_type.shape
        if dims is None:
            raise Reject(f"the rank of {self.name} is not known")
        return tuple(dim if isinstance(dim, int) else SymbolicDim(dim) for dim in dims)

    @property
    def array(self) -> Array:
        """The elements; EvalError unless constant."""
        if self.const is None:
            raise EvalError(f"{self.name} is not a constant")
        return self.const.array


@dataclass(frozen=True, slots=True)
class OpView:
    """A matched operator: its name, and the node it is."""

    op: str
    node: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class ChainView:
    """A matched path of operators, first to last, and the inputs that enter from the side."""

    ops: tuple[OpView, ...]
    side_inputs: tuple[ValueView, ...]


@dataclass(frozen=True, slots=True)
class CostView:
    """What a region costs: seconds, bytes moved, floating-point operations."""

    time: float
    bytes: float
    flops: float


class DeviceView(Protocol):
    """The device as `when` and `where` see it."""

    @property
    def name(self) -> str:
        """Its name in rule texts."""
        ...

    @property
    def lacks_list(self) -> Sequence[str]:
        """The operators it has no kernel for."""
        ...

    def has(self, feature: str, /) -> bool:
        """Whether it has a feature."""
        ...

    def lacks(self, op: str, /) -> bool:
        """Whether it has no kernel for an operator."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRef:
    """The device, wrapped so that a value's kind can be told at run time."""

    device: DeviceView


Value = (
    bool
    | int
    | float
    | str
    | None
    | DType
    | SymbolicDim
    | ValueView
    | OpView
    | ChainView
    | CostView
    | DeviceRef
    | Array
    | tuple["Value", ...]
    | frozenset[str]
    | Mapping[str, "Value"]
)


def describe(value: Value) -> str:
    """Say in a few words what a value is, for messages."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int() | float() | DType() | SymbolicDim():
            return str(value)[:40]
        case str():
            return f'the text "{value[:40]}"'
        case ValueView():
            return f"the value {value.name}" if value.const is None else f"the constant {value.name}"
        case OpView():
            return f"the operator {value.op}"
        case ChainView():
            return "a chain of operators"
        case CostView():
            return "a cost"
        case DeviceRef():
            return f"the device {value.device.name}"
        case tuple():
            return f"a list of {len(value)}"
        case frozenset():
            return "a set of operators"
        case np.ndarray():
            return f"an array of shape {list(value.shape)}"
        case _:
            return "a map"


# ---------------------------------------------------------------- numpy without warnings
_is_quiet: Final = ContextVar("is_quiet", default=False)


@contextmanager
def quiet_arithmetic() -> Generator[None]:
    """Let numpy pass over infinities and NaN without a word while many expressions are evaluated."""
    token = _is_quiet.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _is_quiet.reset(token)


def quietly(function: Callable[..., object], *args: object) -> Array:
    """Call a function of numpy that may make infinities and NaN, and return the array it gives.

    Of arrays without axes numpy gives numbers of its own kinds, which are no values here: they become arrays.
    """
    if _is_quiet.get():
        return np.asarray(function(*args))
    with np.errstate(all="ignore"):
        return np.asarray(function(*args))


# ---------------------------------------------------------------- conversions that check
def raw_array(value: Value) -> Array:
    """The elements as they are, element type kept; lists and numbers become float64, int64 or bool arrays."""
    match value:
        case np.ndarray():
            return value
        case ValueView():
            return value.array
        case bool() | int() | float():
            return _from_numbers(value)
        case tuple():
            numbers = [_number_item(item) for item in value]
            return _from_numbers(numbers) if numbers else np.zeros(0, np.int64)
        case _:
            raise EvalError(f"{describe(value)} is no array")


def wide_array(value: Value) -> Array:
    """The elements in float64, int64 or bool, for arithmetic."""
    array = value if isinstance(value, np.ndarray) else raw_array(value)
    dtype = array.dtype
    if dtype == _F64:
        return array
    if dtype == _F32:
        return array.astype(_F64)
    kind = dtype.kind
    if kind == "b" or (dtype.itemsize == 8 and kind in "fi"):
        return array
    if kind == "u" and array.dtype.itemsize == 8 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise EvalError(f"{describe(value)} holds numbers beyond 64-bit integers")
    if kind in "iu":
        return array.astype(np.int64)
    if kind in "cOSUT":
        raise EvalError(f"{describe(value)} holds no real numbers")
    return array.astype(np.int64 if dtype_of(array).is_integer else np.float64)


def is_all_finite(array: Array) -> bool:
    """Whether no element of an array of floating-point numbers is infinite or NaN."""
    # The sum is finite when all are, and needs no array of its own; only then look closer.
    if array.dtype.kind == "f" and math.isfinite(quietly(np.add.reduce, array, None, _F64)):
        return True
    return bool(np.all(np.isfinite(array.astype(_F64))))


def is_array_like(value: Value) -> bool:
    """Whether a value takes part in array arithmetic."""
    return isinstance(value, np.ndarray | ValueView)


def as_int(value: Value, what: str = "this") -> int:
    """A whole number; one-element integer arrays count. Raises Reject for a symbolic dimension."""
    if isinstance(value, SymbolicDim):
        raise Reject(f"the dimension {value} is not known when compiling")
    if isinstance(value, int):
        return int(value)
    if is_array_like(value):
        array = wide_array(value)
        if array.size == 1 and array.dtype.kind in "ib":
            return int(cast("int", array.reshape(-1)[0].item()))
    raise EvalError(f"{what} must be a whole number, not {describe(value)}")


def as_number(value: Value, what: str = "this") -> int | float:
    """A number; one-element arrays count. Raises Reject for a symbolic dimension."""
    if type(value) is int or isinstance(value, float):
        return value
    if is_array_like(value):
        array = wide_array(value)
        if array.size == 1:
            return cast("int | float", array.reshape(-1)[0].item())
        raise EvalError(f"{what} must be one number, not {describe(value)}")
    if isinstance(value, int | SymbolicDim):
        return as_int(value, what)
    raise EvalError(f"{what} must be a number, not {describe(value)}")


def as_ints(value: Value, what: str = "this") -> tuple[int, ...]:
    """A list of whole numbers; rank-1 integer arrays count. Raises Reject for symbolic dimensions."""
    return tuple(as_int(item, f"every item of {what}") for item in as_items(value, what))


def as_items(value: Value, what: str = "this") -> tuple[Value, ...]:
    """The items of a list, or of an array along its first axis."""
    match value:
        case tuple():
            return value
        case ChainView():
            return value.ops
        case np.ndarray() | ValueView():
            array = raw_array(value)
            if array.ndim == 0:
                raise EvalError(f"{what} must be a list, not {describe(value)}")
            check_items(array.shape[0])
            if array.ndim > 1:
                return tuple(array[place] for place in range(array.shape[0]))
            if array.dtype.kind in "OSUT":
                return tuple(str(item) for item in cast("list[object]", array.tolist()))
            return tuple(cast("list[int | float | bool]", wide_array(value).tolist()))
        case _:
            raise EvalError(f"{what} must be a list, not {describe(value)}")


def as_text(value: Value, what: str = "this") -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise EvalError(f"{what} must be a text, not {describe(value)}")


def as_dtype(value: Value, what: str = "this") -> DType:
    """An element type that is known. Raises Reject when it is not inferred yet."""
    if isinstance(value, DType):
        if value is DType.UNKNOWN:
            raise Reject("an element type is not known when compiling")
        return value
    raise EvalError(f"{what} must be an element type, not {describe(value)}")


def as_view(value: Value, what: str = "this") -> ValueView:
    """A matched value."""
    if isinstance(value, ValueView):
        return value
    raise EvalError(f"{what} must be a matched value, not {describe(value)}")


def as_shape(value: Value, what: str = "this") -> tuple[int | SymbolicDim, ...]:
    """The shape of a matched value or an array."""
    match value:
        case ValueView():
            return value.shape
        case np.ndarray():
            return value.shape
        case bool() | int() | float():
            return ()
        case _:
            raise EvalError(f"{what} must be a value, not {describe(value)}")


def as_truth(value: Value) -> bool:
    """Whether a condition holds; a list or an array of several elements is a fault, not a guess."""
    match value:
        case bool():
            return value
        case int() if value in (0, 1):
            return bool(value)
        case np.ndarray() | ValueView():
            array = raw_array(value)
            if array.size == 1 and array.dtype.kind in "biu":
                return bool(array.reshape(-1)[0])
            raise EvalError(f"{describe(value)} is neither true nor false; use all(...) or any(...)")
        case _:
            raise EvalError(f"{describe(value)} is neither true nor false")


# ---------------------------------------------------------------- bounds
def check_items(n_items: int) -> None:
    """Raise EvalError when a list or text would be longer than `MAX_ITEMS`."""
    if n_items > MAX_ITEMS:
        raise EvalError(f"the result would have {n_items} items; at most {MAX_ITEMS} are made")


def check_list(items: Sequence[Value], n_times: int = 1) -> None:
    """Raise EvalError when a list of these, so many times over, would be too long or too deep.

    Lists in lists share their parts, so a short text can write one that nothing could walk through.
    """
    check_items(_n_leaves(items, MAX_DEPTH) * max(0, n_times))


def _n_leaves(items: Sequence[Value], depth: int) -> int:
    if depth == 0:
        raise EvalError(f"the result would be lists in lists, deeper than {MAX_DEPTH}")
    return sum(max(1, _n_leaves(item, depth - 1)) if isinstance(item, tuple) else 1 for item in items)


def check_int(value: int) -> int:
    """Return a whole number, or raise EvalError when it has more than `MAX_INT_BITS` bits."""
    if value.bit_length() > MAX_INT_BITS:
        raise EvalError(f"the result has more than {MAX_INT_BITS} bits")
    return value


def check_elements(n_elements: int, *made_from: Array) -> None:
    """Raise EvalError when an array would be far larger than what it is made from.

    An array that is there several times counts once: it takes no more memory, and anyone can repeat it.
    """
    if n_elements <= MIN_ELEMENTS:
        return
    sizes = {id(array): array.size for array in made_from}.values()
    limit = max(MIN_ELEMENTS, min(GROWTH * sum(sizes), MAX_ELEMENTS), *sizes)
    if n_elements > limit:
        raise EvalError(f"the result would have {n_elements} elements; at most {limit} are made")


def check_total(values: Iterable[Value], n_free: int = 0) -> None:
    """Raise EvalError when arrays that expressions made are too large together.

    Args:
        n_free: So many elements may be made in any case; by default `MAX_ELEMENTS`.
    """
    sizes: dict[int, int] = {}
    _add_sizes(values, sizes)
    limit = max(MAX_ELEMENTS, n_free)
    if sum(sizes.values()) > limit:
        raise EvalError(f"the results together would have more than {limit} elements")


def _add_sizes(values: Iterable[Value], sizes: dict[int, int]) -> None:
    for value in values:
        if isinstance(value, np.ndarray):
            sizes[id(value)] = value.size
        elif isinstance(value, tuple):
            _add_sizes(value, sizes)


def is_unknown(dim: SymbolicDim) -> bool:
    """Whether nothing at all is known of a dimension."""
    return dim.name == UNKNOWN_DIM


def _number_item(value: Value) -> int | float | bool | list[int | float | bool]:
    if isinstance(value, bool | float):
        return value
    if isinstance(value, tuple):
        return [as_number(item) for item in value]
    if is_array_like(value) and raw_array(value).size != 1:
        raise EvalError("a list of arrays is no array; use concat or stack")
    return as_number(value)


def _from_numbers(value: object) -> Array:
    try:
        array = cast("Array", np.array(value))
    except (ValueError, OverflowError):
        raise EvalError("the list is no array: its rows differ in length") from None
    if array.dtype.kind not in "ifb":
        raise EvalError("the list holds numbers beyond 64 bits")
    return array
