"""Elements of one type as another: only where the other can hold them."""

from __future__ import annotations

from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.types import DataType, member_of
from gerules.errors import table
from gerules.ir import DType, dtype_of

Array = npt.NDArray[np.generic]

_LONGEST: Final = 60


def converted(array: Array, data_type: DataType) -> Array:
    """Return elements as another type; floats are rounded to floats, nothing else changes its value.

    Raises:
        GeError: E41007 for texts, for what is no whole number where the type holds whole ones, for what is
            out of its range, and for a type that is none.
    """
    dtype = numpy_type_of(data_type)
    source = array.dtype
    if source == dtype:
        return array
    if source.kind == "O":  # whole numbers of more than 64 bits, or what is no number at all
        raise _fault(array, data_type, "the type does not hold the value")
    if source.kind in "SU" or dtype.kind in "OSU":
        raise _fault(array, data_type, "texts and numbers are not converted")
    if source.kind == "c" and dtype.kind != "c":
        raise _fault(array, data_type, "the type has no imaginary part")
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
        kind = dtype_of(dtype)
        if kind is DType.BOOL or kind.is_integer:
            lost = ~_holds(array, kind)
        else:
            lost = np.isfinite(_wide(array)) & ~np.isfinite(_wide(made))
    if np.any(lost):
        raise _fault(array[lost], data_type, "the type does not hold the value")
    return made


def numpy_type_of(data_type: DataType) -> np.dtype[np.generic]:
    """Return numpy's type. Raises GeError E41007 for what has none here."""
    found = member_of(DataType, data_type)
    try:
        return found.ir.numpy
    except (KeyError, ValueError, TypeError):
        raise GeError(
            table.GE_BAD_TENSOR, reason=f"no elements are {found.name} here",
            remedy="choose another element type",
        ) from None  # fmt: skip


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, of Python or of numpy, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def shown(value: object) -> str:
    """Return a value as a message shows it, cut."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _wide(array: Array) -> npt.NDArray[np.inexact]:
    # Types of their own are asked as one that numpy knows.
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _holds(array: Array, dtype: DType) -> npt.NDArray[np.bool_]:
    """Where elements are whole numbers, or truth values, that a type holds."""
    least, most = _range_of(dtype)
    source = dtype_of(array)
    if source is DType.BOOL or source.is_integer:
        # Small types of their own do not compare with numbers beyond them.
        whole = array.astype(np.uint64 if source is DType.U64 else np.int64)
        return (whole >= least) & (whole <= most)
    wide = array.astype(np.float64)
    return cast("npt.NDArray[np.bool_]", (wide == np.trunc(wide)) & (wide >= least) & (wide < most + 1))


def _range_of(dtype: DType) -> tuple[int, int]:
    if dtype is DType.BOOL:
        return 0, 1
    is_signed = dtype.value.startswith("i")
    return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if is_signed else (0, (1 << dtype.bits) - 1)


def _fault(examples: Array, data_type: DataType, reason: str) -> GeError:
    items = cast("list[object]", examples.reshape(-1)[:1].tolist())
    what = shown(items[0]) if items else "an element"
    return GeError(
        table.GE_BAD_TENSOR, reason=f"{what} cannot be {DataType(data_type).name}: {reason}",
        remedy="choose a type that holds the value, or convert the value first",
    )  # fmt: skip
