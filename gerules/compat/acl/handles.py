"""What the integers that pyACL hands out stand for: contexts, streams, events, descriptions, data sets."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, TypeVar

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import fault, shown
from gerules.errors import table

T = TypeVar("T")

_FIRST: Final = 0x10000
_STEP: Final = 0x40
"""Handles look like addresses, and lie below all memory that a process has."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of handle as messages name it: what it is, and which call makes it."""

    name: str
    maker: str
    code: int = codes.INVALID_PARAM
    """What a call returns for a handle that is none."""


class Handles:
    """The handles of a process. One is never given out twice, so that a destroyed one is told as such."""

    def __init__(self) -> None:
        self._items: dict[int, object] = {}
        self._next = _FIRST
        self._lock = threading.Lock()

    def add(self, item: object) -> int:
        """Return a new handle for an item."""
        with self._lock:
            handle = self._next
            self._next += _STEP
            self._items[handle] = item
        return handle

    def get(self, handle: object, type: type[T], kind: Kind) -> T:
        """Return what a handle stands for. Raises the code of `kind` when it is none of that type."""
        item = self._items.get(handle) if isinstance(handle, int) else None
        if isinstance(item, type):
            return item
        raise fault(
            kind.code, table.ACL_HANDLE, value=shown(handle), kind=kind.name, maker=kind.maker,
            reason=self._why_not(handle, item),
        )  # fmt: skip

    def remove(self, handle: object, type: type[T], kind: Kind) -> T:
        """Return what a handle stands for, and forget it. Raises as `get`."""
        item = self.get(handle, type, kind)
        if isinstance(handle, int):
            self._items.pop(handle, None)
        return item

    def discard(self, handle: int) -> None:
        """Forget a handle, if it is there."""
        self._items.pop(handle, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def _why_not(self, handle: object, item: object) -> str:
        if item is not None:
            return f"it stands for a {type(item).__name__}"
        if not isinstance(handle, int):
            return "handles are integers"
        was_given = _FIRST <= handle < self._next and not (handle - _FIRST) % _STEP
        return "it was destroyed" if was_given else "no call returned it"
