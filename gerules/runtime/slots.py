"""Where a value is while an offline model runs: in the arena as it is stored, in the weights, on the heap."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gerules.backend.om.weights import array_bytes, array_from_bytes
from gerules.errors import table
from gerules.ir import Const, DType, TensorType, ValueType, from_storage, to_storage
from gerules.runtime.feeds import Item
from gerules.runtime.kernels import Array, RunError

FLOAT_POISON: Final = 0xFF
"""A byte that makes every float a NaN."""

OTHER_POISON: Final = 0xA5
"""A byte that makes integers far from any index or size."""


class Slot:
    """One value's place.

    `fixed` is the logical array where it always has the same memory: a constant, or a view of the arena
    whose elements lie in order. Values in other formats are taken apart at each read and laid out at
    each write.
    """

    __slots__ = ("_arena", "fixed", "is_const", "item", "packed", "storage", "type")

    def __init__(self, type: ValueType, arena: npt.NDArray[np.uint8]) -> None:
        self.type = type
        self._arena = arena
        self.fixed: Array | None = None
        self.storage: Array | None = None
        self.packed: npt.NDArray[np.uint8] | None = None
        self.item: Item = None
        self.is_const = False

    @property
    def is_on_heap(self) -> bool:
        """Whether the value has no memory of its own before it is computed."""
        return self.fixed is None and self.storage is None and self.packed is None

    def read(self) -> Item:
        """Return the logical value."""
        if self.fixed is not None:
            return self.fixed
        type = self.type
        if self.storage is not None:
            assert isinstance(type, TensorType)
            return from_storage(self.storage, type.static_shape, type.format, type.dtype, groups=type.groups)
        if self.packed is not None:
            assert isinstance(type, TensorType)
            stored = array_from_bytes(self.packed.data, type.dtype, type.storage_shape)
            return from_storage(stored, type.static_shape, type.format, type.dtype, groups=type.groups)
        return self.item

    def write(self, item: Item, op: str) -> None:
        """Store a logical value.

        Raises:
            RunError: E70003 when it is not what the place was planned for.
        """
        if self.is_on_heap:
            self.item = _detached(item, self._arena)
            return
        type = self.type
        assert isinstance(type, TensorType)
        shape = type.static_shape
        if not isinstance(item, np.ndarray) or item.shape != shape or item.dtype != type.dtype.numpy:
            found = f"{item.dtype}{list(item.shape)}" if isinstance(item, np.ndarray) else "no tensor"
            raise RunError(table.RESULT_DOES_NOT_FIT, op=op, found=found, planned=type)
        if self.fixed is not None:
            if item is not self.fixed:
                np.copyto(self.fixed, item)
            return
        stored = to_storage(item, type.format, type.dtype, groups=type.groups)
        if self.storage is not None:
            np.copyto(self.storage, stored)
        elif self.packed is not None:
            data = b"".join(array_bytes(stored, type.dtype))
            self.packed[:] = np.frombuffer(data, np.uint8)

    def snapshot(self) -> Item:
        """Return the value in memory that no later run writes to."""
        found = self.read()
        owned = self.fixed is not None or self.storage is not None
        return np.array(found) if owned and isinstance(found, np.ndarray) and not self.is_const else found


def _detached(item: Item, arena: npt.NDArray[np.uint8]) -> Item:
    """The same value without views of the arena, whose bytes will soon be those of other values."""
    if isinstance(item, np.ndarray):
        return item.copy() if np.may_share_memory(item, arena) else item
    return [_detached(entry, arena) for entry in item] if item is not None else None


def heap_slot(type: ValueType, arena: npt.NDArray[np.uint8]) -> Slot:
    """Return a place on the heap; what is written there never is a view of `arena`."""
    return Slot(type, arena)


def const_slot(const: Const, type: ValueType, stored: Array | None, arena: npt.NDArray[np.uint8]) -> Slot:
    """Return the place of a constant; `stored` is its storage form where that is another array."""
    slot = Slot(type, arena)
    slot.fixed = const.array
    slot.storage = stored
    slot.is_const = True
    return slot


def arena_slot(type: TensorType, arena: npt.NDArray[np.uint8], offset: int) -> Slot:
    """Return a place in the arena; the range was checked before."""
    slot = Slot(type, arena)
    region = arena[offset : offset + type.size_bytes]
    if type.dtype.bits < 8:
        slot.packed = region
        return slot
    storage: npt.NDArray[Any] = region.view(type.dtype.numpy).reshape(type.storage_shape)
    slot.storage = storage
    logical = from_storage(storage, type.static_shape, type.format, type.dtype, groups=type.groups)
    # Products of matrices whose axes lie apart miss BLAS, so only what lies in order is used as it is.
    if logical.flags.c_contiguous and (logical.size == 0 or np.may_share_memory(logical, storage)):
        slot.fixed = logical
    return slot


def poison_byte(type: ValueType) -> int:
    """Return the byte that spoils a value of a type most visibly."""
    is_float = isinstance(type, TensorType) and (type.dtype.is_float or type.dtype in (DType.C64, DType.C128))
    return FLOAT_POISON if is_float else OTHER_POISON
