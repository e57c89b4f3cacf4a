"""Types as patterns: const, element types and shapes, with names that unify over the whole rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import ml_dtypes
import numpy as np

from gerules.dsl.syntax import ANY, DimName, DimPattern, DimRest, DimSeq, DimSize, TypePattern
from gerules.engine.binding import UNBOUND, Match
from gerules.engine.site import Site
from gerules.ir import UNKNOWN_DIM, Const, Dim, DType, TensorType

TypeCheck = Callable[[Match, int], bool]

_FEW_ULP = 4.0
"""How far a constant may be from a number of a rule, in units of the last place of its element type."""


def compile_type(pattern: TypePattern, slots: Mapping[str, int], site: Site) -> TypeCheck:
    """Return the check that a value has a type; it binds dimension and element type names."""
    is_const, dtypes, dims = pattern.is_const, pattern.dtypes, pattern.dims
    dtype_slot = slots.get(pattern.dtype_name) if pattern.dtype_name not in (None, ANY) else None
    format_name = pattern.format.name if pattern.format is not None else None
    check_dims = None if dims is None else _compile_dims(dims, slots)
    needs_tensor = not (dtypes is None and dtype_slot is None and check_dims is None and format_name is None)

    def check(m: Match, value: int) -> bool:
        if is_const and value not in site.consts:
            return False
        if not needs_tensor:
            return True
        type = site.values[value].type
        if not isinstance(type, TensorType):
            return False
        if dtypes is not None and type.dtype not in dtypes:
            return False
        if dtype_slot is not None and not _bind_dtype(m, dtype_slot, type.dtype):
            return False
        if format_name is not None and type.format.name != format_name:
            return False
        return check_dims is None or check_dims(m, type.shape)

    return check


def _bind_dtype(m: Match, slot: int, dtype: DType) -> bool:
    known = m.slots[slot]
    if known is UNBOUND:
        m.bind(slot, dtype)
        return True
    # Two types that are not inferred yet are not known to be one.
    return known is dtype and dtype is not DType.UNKNOWN


def _compile_dims(
    dims: tuple[DimPattern, ...], slots: Mapping[str, int]
) -> Callable[[Match, tuple[Dim, ...] | None], bool]:
    rest = next((place for place, dim in enumerate(dims) if isinstance(dim, DimRest | DimSeq)), None)
    head = dims if rest is None else dims[:rest]
    tail = () if rest is None else dims[rest + 1 :]
    middle = dims[rest] if rest is not None else None
    n_fixed = len(head) + len(tail)
    middle_slot = slots[middle.name] if isinstance(middle, DimSeq) and middle.name != ANY else None

    def check(m: Match, shape: tuple[Dim, ...] | None) -> bool:
        if shape is None:
            return n_fixed == 0 and rest is not None and middle_slot is None
        if len(shape) < n_fixed or (rest is None and len(shape) != n_fixed):
            return False
        end = len(shape) - len(tail)
        for want, dim in zip(head, shape, strict=False):
            if not _bind_dim(m, want, dim, slots):
                return False
        for want, dim in zip(tail, shape[end:], strict=True):
            if not _bind_dim(m, want, dim, slots):
                return False
        return middle_slot is None or _bind_seq(m, middle_slot, shape[len(head) : end])

    return check


def _bind_dim(m: Match, want: DimPattern, dim: Dim, slots: Mapping[str, int]) -> bool:
    if isinstance(want, DimSize):
        return dim == want.size
    if not isinstance(want, DimName) or want.name == ANY:
        return True
    slot = slots[want.name]
    known = m.slots[slot]
    if known is UNBOUND:
        m.bind(slot, dim)
        return True
    return known == dim and dim != UNKNOWN_DIM


def _bind_seq(m: Match, slot: int, dims: tuple[Dim, ...]) -> bool:
    known = m.slots[slot]
    if known is UNBOUND:
        m.bind(slot, dims)
        return True
    return known == dims and UNKNOWN_DIM not in dims


def is_number(const: Const, wanted: float, tolerance: float | None) -> bool:
    """Whether a constant is one element with a value; compared after rounding to its element type."""
    array = const.array
    if array.size != 1 or array.dtype.kind in "OSUTc":
        return False
    found = array.reshape(-1)[0]
    if array.dtype.kind in "iub" or const.dtype.is_integer:
        value = int(found)
        return value == wanted if tolerance is None else abs(value - wanted) <= tolerance * abs(wanted)
    value = float(found)
    with np.errstate(over="ignore"):
        rounded = float(np.float64(wanted).astype(array.dtype))
    if value == rounded:
        return True
    spread = tolerance if tolerance is not None else _FEW_ULP * _epsilon(array.dtype)
    return abs(value - rounded) <= spread * abs(rounded)


def _epsilon(dtype: np.dtype[np.generic]) -> float:
    return float(cast("float", ml_dtypes.finfo(dtype.name).eps))  # pyright: ignore[reportUnknownMemberType]
