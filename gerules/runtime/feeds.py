"""What a run is given: arrays by input name, checked against the inputs' types, all faults at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from gerules.errors import Faults, table
from gerules.ir import UNKNOWN_DIM, DType, OptionalType, SequenceType, TensorType, ValueType, dtype_of
from gerules.runtime.kernels import Array, RunError
from gerules.runtime.torch_tensors import without_torch

Item = Array | list["Item"] | None
"""What a value holds in a run: an array, a sequence as a list, or None for an optional without content."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output as a caller sees it.

    `type` is logical: whatever the device's format, callers give and get plain arrays.
    """

    name: str
    type: ValueType
    has_default: bool = False


OtherShape = Callable[[Mapping[str, tuple[int, ...]]], RunError]
"""Gives the error for shapes, by input, that a plan was not made for."""


def check_feeds(
    ports: Sequence[Port],
    feeds: Mapping[str, object],
    *,
    other_shape: OtherShape | None = None,
) -> list[Item]:
    """Return what is given for each port, in their order; None where a default stands in.

    Anything numpy makes an array of is taken as one; element types are never converted.

    Args:
        other_shape: Gives the error for arrays that have the rank of their input, whose shape is fixed, but
            another size; without it each is E20004.

    Raises:
        RunError: E20001 to E20006, every fault of every input.
    """
    if not isinstance(cast(object, feeds), Mapping):
        kind = _kind_of(feeds)
        raise RunError(table.INPUT_KIND, name="of a run", found=kind, expected="arrays by input name")
    faults = Faults()
    names = {port.name for port in ports}
    for name in feeds:
        if name not in names:
            faults.add(table.INPUT_UNKNOWN, name=name, known=", ".join(sorted(names)) or "none")
    sizes: dict[str, tuple[int, str]] = {}
    others: dict[str, tuple[int, ...]] | None = None if other_shape is None else {}
    found: list[Item] = []
    for port in ports:
        if port.name not in feeds:
            if not port.has_default:
                faults.add(table.INPUT_MISSING, name=port.name, type=port.type)
            found.append(None)
            continue
        item = _read(port.name, port.type, feeds[port.name], sizes, faults, others)
        found.append(item)
    if other_shape is not None and others:
        faults.extend(other_shape(others).diagnostics)
    faults.raise_if_any(RunError)
    return found


def _read(
    name: str,
    type: ValueType,
    given: object,
    sizes: dict[str, tuple[int, str]],
    faults: Faults,
    others: dict[str, tuple[int, ...]] | None = None,
) -> Item:
    if isinstance(type, OptionalType):
        return None if given is None else _read(name, type.element, given, sizes, faults)
    if isinstance(type, SequenceType):
        if not isinstance(given, list | tuple):
            faults.add(table.INPUT_KIND, name=name, found=_kind_of(given), expected=type)
            return None
        items = cast("Sequence[object]", given)
        return [_read(f"{name}[{at}]", type.element, item, {}, faults) for at, item in enumerate(items)]
    if not isinstance(type, TensorType):
        faults.add(table.INPUT_KIND, name=name, found=_kind_of(given), expected=type)
        return None
    array = _as_array(given)
    if array is None:
        faults.add(table.INPUT_KIND, name=name, found=_kind_of(given), expected=type)
        return None
    _check_dtype(name, type.dtype, array, faults)
    if others is not None and type.is_static and len(array.shape) == len(type.static_shape):
        if array.shape != type.static_shape:
            others[name] = array.shape
    else:
        _check_shape(name, type, array.shape, sizes, faults)
    return array.astype(np.object_) if array.dtype.kind in "UST" else array


def _as_array(given: object) -> Array | None:
    if given is None:
        return None
    try:
        array = np.asarray(without_torch(given))
        dtype_of(array)
    except (ValueError, TypeError, KeyError):
        return None
    if array.dtype.kind == "O" and not all(isinstance(item, str | bytes) for item in array.reshape(-1)):
        return None
    return array.astype(array.dtype.newbyteorder("=")) if not array.dtype.isnative else array


def _check_dtype(name: str, expected: DType, array: Array, faults: Faults) -> None:
    found = dtype_of(array)
    if expected is not DType.UNKNOWN and found is not expected:
        faults.add(table.INPUT_DTYPE, name=name, found=found, expected=expected)


def _check_shape(
    name: str, type: TensorType, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]], faults: Faults
) -> None:
    if type.shape is None:
        return
    fixed = [(dim, size) for dim, size in zip(type.shape, shape, strict=False) if isinstance(dim, int)]
    if len(type.shape) != len(shape) or any(dim != size for dim, size in fixed):
        faults.add(table.INPUT_SHAPE, name=name, found=list(shape), expected=type)
        return
    for dim, size in zip(type.shape, shape, strict=True):
        if isinstance(dim, int) or dim == UNKNOWN_DIM:
            continue
        known, other = sizes.setdefault(dim, (size, name))
        if known != size:
            faults.add(
                table.INPUT_DIM_DISAGREES, name=name, dim=dim, found=size, other=other, other_size=known
            )


def _kind_of(given: object) -> str:
    if isinstance(given, np.ndarray):
        array = cast(Array, given)
        return f"an array of {array.dtype}{list(array.shape)}"
    return "absent" if given is None else f"a {type(given).__name__}"
