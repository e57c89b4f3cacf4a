"""Memory behind addresses: the blocks that scripts may touch, and the checks before they do."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from bisect import bisect_right, insort
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import AclFault, fault
from gerules.errors import table

Bytes = npt.NDArray[np.uint8]

_ALIGN_BYTES: Final = 64
_KEPT_BYTES: Final = 1 << 20
_KEPT_BLOCKS: Final = 64
"""Small blocks that were freed stay where they are for a while: their addresses are not given out again."""

_KNOWN_FREED: Final = 4096
_ADOPTED_MOST: Final = 256
_ADOPTED_LEAST: Final = 64
"""Of the objects whose addresses scripts asked for, so many stay known though nobody else holds them."""


class Side(Enum):
    """Where a block lies, as the kinds of memcpy see it."""

    HOST = "host memory"
    DEVICE = "device memory"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Bytes from an address on.

    `owner` is the object of the script whose bytes they are, None for what malloc gave. `view` keeps the
    bytes alive.
    """

    address: int
    view: Bytes
    side: Side
    maker: str
    owner: object = None

    @property
    def size_bytes(self) -> int:
        """How many there are."""
        return len(self.view)

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + len(self.view)


class Memory:
    """All blocks of a process by address."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._starts: list[int] = []
        self._kept: deque[Block] = deque(maxlen=_KEPT_BLOCKS)
        self._freed: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.RLock()
        self._total_bytes = _machine_bytes()
        self._used_bytes = 0

    # ------------------------------------------------------------ giving out, taking back
    @property
    def total_bytes(self) -> int:
        """What the machine has."""
        return self._total_bytes

    @property
    def used_bytes(self) -> int:
        """What malloc and malloc_host gave and nobody freed."""
        return self._used_bytes

    def allocate(self, size_bytes: int, side: Side, maker: str) -> int:
        """Return the address of new bytes, whatever they hold.

        Raises:
            AclFault: 100000 for no bytes, 207001 for more than there are.
        """
        if size_bytes <= 0:
            raise fault(
                codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="size", value=size_bytes,
                reason="there is no memory of that size", remedy="ask for at least one byte",
            )  # fmt: skip
        free = self._total_bytes - self.used_bytes
        if size_bytes > free:
            raise fault(
                codes.RT_MEMORY_ALLOCATION, table.ACL_MEMORY, size_bytes=size_bytes, reason=f"{free} are free"
            )
        try:
            raw = np.empty(size_bytes + _ALIGN_BYTES, np.uint8)
        except (MemoryError, ValueError, OverflowError):
            raise fault(
                codes.RT_MEMORY_ALLOCATION, table.ACL_MEMORY, size_bytes=size_bytes,
                reason="the system does not give them",
            ) from None  # fmt: skip
        skip = -raw.ctypes.data % _ALIGN_BYTES
        view = raw[skip : skip + size_bytes]
        with self._lock:
            self._used_bytes += size_bytes
        return self._insert(Block(view.ctypes.data, view, side, maker))

    def free(self, address: int, side: Side, call: str) -> None:
        """Take back what `allocate` gave.

        Raises:
            AclFault: 107000 when it was freed before, is no start of a block, or lies on the other side.
        """
        with self._lock:
            block = self._blocks.get(address)
            if block is None or block.owner is not None or block.side is not side:
                raise self._not_there(address, f"block of {side.value}", "ptr", remedy=f"{call} takes what "
                    f"{'malloc' if side is Side.DEVICE else 'malloc_host'} returned, once")  # fmt: skip
            self._forget(block)
            self._used_bytes -= block.size_bytes
            self._freed[address] = block.size_bytes
            while len(self._freed) > _KNOWN_FREED:
                self._freed.popitem(last=False)
            if block.size_bytes <= _KEPT_BYTES:
                self._kept.append(block)

    def adopt_bytes(self, data: bytes) -> int:
        """Return the address of the bytes of an object; it stays alive while scripts may use the address."""
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        if not data:
            return address  # there is nothing to touch
        shared = (ctypes.c_uint8 * len(data)).from_address(address)
        # A script that copies results into a bytes object works on the device, and so it does here. Objects
        # of one byte are shared by everybody: they are never written.
        view = np.frombuffer(memoryview(shared) if len(data) > 1 else data, np.uint8)
        # Whoever holds a view of the bytes holds them.
        setattr(shared, "owner", data)  # noqa: B010 - an attribute of our own on an array of ctypes
        return self._adopt(Block(address, view, Side.HOST, "bytes_to_ptr", data))

    def adopt_array(self, array: npt.NDArray[np.generic]) -> int:
        """Return the address of the elements of an array.

        It stays alive while scripts may use the address.
        """
        view = array.reshape(-1).view(np.uint8)
        return self._adopt(Block(array.ctypes.data, view, Side.HOST, "numpy_to_ptr", array))

    def clear(self) -> None:
        """Free everything."""
        with self._lock:
            self._blocks.clear()
            self._starts.clear()
            self._kept.clear()
            self._freed.clear()
            self._used_bytes = 0

    # ------------------------------------------------------------ looking at it
    def span(
        self,
        address: int,
        size_bytes: int,
        argument: str,
        *,
        side: Side | None = None,
        code: int,
        writes: bool = False,
    ) -> Bytes:
        """Return the bytes from an address on, as a view that keeps them alive.

        Args:
            argument: What the caller calls the address.
            side: Where they have to lie; None takes either.
            code: What the fault is for an address that is none, or has too few bytes behind it.
            writes: Whether they are going to be written.
        """
        with self._lock:
            block = self._find(address, size_bytes)
        expected = "address of memory" if side is None else f"address of {side.value}"
        if block is None or (side is not None and block.side is not side):
            raise self._not_there(
                address, expected, argument, code=code, found=block,
                remedy="pass an address that malloc, malloc_host, bytes_to_ptr or numpy_to_ptr returned",
            )  # fmt: skip
        start = address - block.address
        if size_bytes > block.size_bytes - start:
            raise fault(
                code, table.ACL_SIZE, what=f"{argument} {address:#x}", need_bytes=size_bytes,
                have_bytes=block.size_bytes - start,
            )  # fmt: skip
        if writes and not block.view.flags.writeable:
            raise fault(
                code, table.ACL_POINTER, argument=argument, address=f"{address:#x}",
                expected="memory to write to",
                reason="it belongs to an object that cannot be changed",
                remedy="copy into memory of malloc_host, then ptr_to_bytes",
            )  # fmt: skip
        return block.view[start : start + size_bytes]

    def copy(self, target: int, room_bytes: int, source: int, size_bytes: int, kind: int) -> None:
        """Copy bytes as memcpy does.

        Raises:
            AclFault: 100000 for no address or an unknown kind; 107000 for sizes that do not fit and for
                addresses that are not where the kind says.
        """
        if kind not in _SIDES:
            raise fault(
                codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="kind", value=kind,
                reason="kinds are 0 host to host, 1 host to device, 2 device to host, 3 device to device",
                remedy="pass one of them",
            )  # fmt: skip
        for address, name in ((target, "dst"), (source, "src")):
            if address == 0:
                raise self._not_there(address, "address", name, code=codes.INVALID_PARAM)
        if size_bytes == 0 or size_bytes > room_bytes:
            reason = f"dest_max is {room_bytes}" if size_bytes else "there is nothing to copy"
            raise fault(
                codes.RT_PARAM_INVALID, table.ACL_ARGUMENT, argument="count", value=size_bytes,
                reason=reason, remedy="pass 1 to dest_max bytes",
            )  # fmt: skip
        to, of = _SIDES[kind]
        code = codes.RT_PARAM_INVALID
        source_view = self.span(source, size_bytes, "src", side=of, code=code)
        target_view = self.span(target, size_bytes, "dst", side=to, code=code, writes=True)
        target_view[:] = source_view

    def fill(self, target: int, room_bytes: int, value: int, size_bytes: int) -> None:
        """Set bytes to a value as memset does. Raises AclFault 107000."""
        if size_bytes > room_bytes:
            raise fault(
                codes.RT_PARAM_INVALID, table.ACL_ARGUMENT, argument="count", value=size_bytes,
                reason=f"max_count is {room_bytes}", remedy="pass at most max_count",
            )  # fmt: skip
        view = self.span(target, size_bytes, "dev_ptr", code=codes.RT_PARAM_INVALID, writes=True)
        view[:] = value & 0xFF

    # ------------------------------------------------------------ the table
    def _insert(self, block: Block) -> int:
        with self._lock:
            if block.address not in self._blocks:
                insort(self._starts, block.address)
            self._blocks[block.address] = block
            self._freed.pop(block.address, None)
        return block.address

    def _forget(self, block: Block) -> None:
        del self._blocks[block.address]
        del self._starts[bisect_right(self._starts, block.address) - 1]

    def _adopt(self, block: Block) -> int:
        if not block.size_bytes:
            return block.address  # there is nothing to touch
        with self._lock:
            known = self._blocks.get(block.address)
            if known is not None and known.size_bytes >= block.size_bytes and known.side is Side.HOST:
                return block.address
            self._insert(block)
            self._sweep()
        return block.address

    def _sweep(self) -> None:
        """Forget objects that only this table holds: in pyACL their addresses would hang in the air."""
        adopted = [block for block in self._blocks.values() if block.owner is not None]
        if len(adopted) <= _ADOPTED_MOST:
            return
        for block in adopted[:-_ADOPTED_LEAST]:
            # Two of the references are those of the block and of this call; its view may have one more.
            n_own = 2 + (block.maker == "bytes_to_ptr" or block.view.base is block.owner)
            if sys.getrefcount(block.owner) <= n_own:
                self._forget(block)

    def _find(self, address: int, size_bytes: int) -> Block | None:
        place = bisect_right(self._starts, address) - 1
        block = self._blocks[self._starts[place]] if place >= 0 else None
        if block is not None and address + size_bytes <= block.end:
            return block
        # Arrays that are views of each other overlap: one that begins earlier may reach further.
        wider = (item for item in self._blocks.values() if item.owner is not None)
        fitting = (item for item in wider if item.address <= address and address + size_bytes <= item.end)
        found = next(fitting, None)
        if found is not None:
            return found
        return block if block is not None and address < block.end else None

    def _not_there(
        self, address: int, expected: str, argument: str, *, code: int = codes.RT_PARAM_INVALID,
        found: Block | None = None, remedy: str = "pass an address that malloc or malloc_host returned",
    ) -> AclFault:  # fmt: skip
        if address == 0:
            code, reason = codes.INVALID_PARAM if code == codes.RT_PARAM_INVALID else code, "it is 0"
        elif address in self._freed:
            reason = f"its {self._freed[address]} bytes were freed"
        elif (block := found or self._find(address, 0)) is not None:
            inside = "" if block.address == address else f"{address - block.address} bytes inside "
            reason = f"it is {inside}{block.side.value}, {block.size_bytes} bytes of {block.maker}"
        else:
            reason = "no call returned it"
        return fault(
            code, table.ACL_POINTER, argument=argument, address=f"{address:#x}", expected=expected,
            reason=reason, remedy=remedy,
        )  # fmt: skip


_SIDES: Final[dict[int, tuple[Side | None, Side | None]]] = {
    codes.HOST_TO_HOST: (Side.HOST, Side.HOST),
    codes.HOST_TO_DEVICE: (Side.DEVICE, Side.HOST),
    codes.DEVICE_TO_HOST: (Side.HOST, Side.DEVICE),
    codes.DEVICE_TO_DEVICE: (Side.DEVICE, Side.DEVICE),
    codes.MEMCPY_DEFAULT: (None, None),
}
"""Where the target and the source of a kind of copy lie."""


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 34
