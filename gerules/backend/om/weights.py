"""WEIGHTS_DATA: where constants lie, written array by array, read back as views.

Source: hicann/ge `ge_api`/`model_helper`, weight merging: 512 zero bytes first (offset 0 means "inline"),
constants at multiples of 512, equal ones once, the end at align_up(end + 32, 512).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from gerules.backend.om.error import OmError
from gerules.errors import table
from gerules.ir.dtype import DType

ALIGN_BYTES: Final = 512
_TAIL_BYTES: Final = 32
CHUNK_BYTES: Final = 4 << 20
"""What is laid out at once of an array whose bytes do not lie in order."""

Array = npt.NDArray[np.generic]


class Weights(Protocol):
    """The bytes of WEIGHTS_DATA, wherever they come from."""

    @property
    def size_bytes(self) -> int:
        """Length of the partition; 0 when there is none."""
        ...

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes in order; together they are `size_bytes`."""
        ...

    def view(self, offset_bytes: int, size_bytes: int) -> memoryview | None:
        """Return a range of the bytes, or None when it lies outside."""
        ...


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """Weights as a file holds them: a view, nothing is copied."""

    data: memoryview

    @property
    def size_bytes(self) -> int:
        """Length of the partition."""
        return len(self.data)

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield the view itself."""
        yield self.data

    def view(self, offset_bytes: int, size_bytes: int) -> memoryview | None:
        """Return a range of the bytes, or None when it lies outside."""
        if offset_bytes < 0 or size_bytes < 0 or offset_bytes + size_bytes > len(self.data):
            return None
        return self.data[offset_bytes : offset_bytes + size_bytes]


NO_WEIGHTS: Final = StoredWeights(memoryview(b""))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a constant lies in WEIGHTS_DATA."""

    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LaidWeights:
    """Weights still in their arrays; bytes arise only while they are written."""

    pieces: Mapping[Placement, tuple[Array, DType]]
    """Arrays by their place, places rising."""
    size_bytes: int

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield gaps and arrays in order; an array that lies in order is yielded as a view."""
        at = 0
        for placement, (array, dtype) in self.pieces.items():
            yield bytes(placement.offset_bytes - at)
            yield from array_bytes(array, dtype)
            at = placement.offset_bytes + placement.size_bytes
        yield bytes(self.size_bytes - at)

    def view(self, offset_bytes: int, size_bytes: int) -> memoryview | None:
        """Return the bytes of a constant; anything but a placement of the builder gives None."""
        found = self.pieces.get(Placement(offset_bytes, size_bytes))
        return None if found is None else memoryview(b"".join(array_bytes(*found)))


class WeightsBuilder:
    """Gives each constant its place; equal bytes share one.

    >>> weights = WeightsBuilder()
    >>> weights.add(np.zeros(3, np.float32), DType.F32)
    Placement(offset_bytes=512, size_bytes=12)
    >>> weights.add(np.ones(3, np.float32), DType.F32).offset_bytes
    1024
    >>> weights.add(np.zeros((3, 1), np.float32), DType.F32).offset_bytes, weights.build().size_bytes
    (512, 1536)
    """

    def __init__(self) -> None:
        self._pieces: dict[Placement, tuple[Array, DType]] = {}
        self._places: dict[bytes, Placement] = {}
        self._end = ALIGN_BYTES

    def add(self, array: Array, dtype: DType) -> Placement:
        """Place an array in its storage form, C order; it must not change until the file is written.

        A broadcast view is never materialised. Types below 8 bits are packed, low bits first.

        Raises:
            OmError: E80021 for strings, which have no fixed size.

        Cost: one pass over the bytes for their digest.
        """
        if dtype.bits == 0 or array.dtype.kind in "OUST":
            raise OmError(table.OM_CANNOT_HOLD, what=f"a constant of {dtype}", reason="it has no fixed size")
        state = hashlib.blake2b(digest_size=20)
        for chunk in array_bytes(array, dtype):
            state.update(chunk)
        size_bytes = dtype.size_bytes(array.size)
        digest = state.digest()
        found = self._places.get(digest)
        if found is not None and found.size_bytes == size_bytes:
            return found
        placement = Placement(self._end, size_bytes)
        if size_bytes:
            self._pieces[placement] = (array, dtype)
            self._end = _up(self._end + size_bytes)
        self._places[digest] = placement
        return placement

    def build(self) -> LaidWeights:
        """Return the weights; empty when no constant has a byte."""
        if not self._pieces:
            return LaidWeights({}, 0 if not self._places else _up(ALIGN_BYTES + _TAIL_BYTES))
        last = next(reversed(self._pieces))
        size_bytes = _up(last.offset_bytes + last.size_bytes + _TAIL_BYTES)
        return LaidWeights(dict(self._pieces), size_bytes)


def array_bytes(array: Array, dtype: DType) -> Iterator[memoryview]:
    """Yield an array's bytes in C order, little-endian, sub-byte types packed.

    An array that lies in order is yielded whole, as a view; any other piece by piece of at most
    4 MiB, so that a broadcast of one element costs no memory of its size.
    """
    if array.size == 0:
        return
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    if dtype.bits >= 8:
        for piece in _pieces(array, CHUNK_BYTES // array.itemsize):
            yield piece.reshape(-1).view(np.uint8).data
        return
    # A piece that is cut between two elements of one byte would not pack; carry the odd ones over.
    per_byte = 8 // dtype.bits
    carry = np.empty(0, np.uint8)
    for piece in _pieces(array, CHUNK_BYTES):
        flat = np.concatenate((carry, piece.reshape(-1).view(np.uint8)))
        whole = len(flat) // per_byte * per_byte
        yield _pack(flat[:whole], dtype.bits).data
        carry = flat[whole:]
    if carry.size:
        yield _pack(np.pad(carry, (0, per_byte - carry.size)), dtype.bits).data


def array_from_bytes(data: memoryview, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return the array of `shape` that `array_bytes` wrote; a view, unless the type is packed.

    Raises:
        ValueError: When the byte count does not fit the shape.
    """
    n_elements = math.prod(shape)
    if dtype.bits == 0 or min(shape, default=0) < 0 or len(data) != dtype.size_bytes(n_elements):
        raise ValueError(f"{len(data)} bytes are no {dtype}{list(shape)}")
    if dtype.bits >= 8:
        return np.frombuffer(data, dtype.numpy).reshape(shape)
    return _unpack(np.frombuffer(data, np.uint8), dtype)[:n_elements].view(dtype.numpy).reshape(shape)


def _pieces(array: Array, limit: int) -> Iterator[Array]:
    if array.flags.c_contiguous:
        yield array
        return
    if array.size <= limit:
        yield np.ascontiguousarray(array)
        return
    per_row = array.size // len(array)
    step = limit // per_row
    if step == 0:
        for row in array:
            yield from _pieces(row, limit)
        return
    for start in range(0, len(array), step):
        yield np.ascontiguousarray(array[start : start + step])


def _pack(values: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    rows = values.reshape(-1, 8 // bits) & ((1 << bits) - 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(rows << shifts, axis=1).astype(np.uint8)


def _unpack(packed: npt.NDArray[np.uint8], dtype: DType) -> npt.NDArray[np.uint8]:
    bits = dtype.bits
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = (packed[:, None] >> shifts & ((1 << bits) - 1)).reshape(-1)
    if dtype.is_integer and dtype.value[0] == "i":
        # ml_dtypes keeps a negative int4 with its sign in the upper bits.
        values = values | (values >> (bits - 1)) * np.uint8(0xFF << bits & 0xFF)
    return values.astype(np.uint8)


def _up(value: int) -> int:
    return -(-value // ALIGN_BYTES) * ALIGN_BYTES
