"""Protobuf's wire format, field by field: bytes stay views into the file, and no size is believed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5

Payload = int | memoryview
"""A number, or the bytes of a length-delimited field; of a fixed-width one its bytes."""

_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64


class WireFault(Exception):  # noqa: N818 - it becomes a ModelError at the door
    """The bytes do not read as the message; the text says why."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Payload]]:
    """Yield number, wire type and payload of each field of a message.

    Raises:
        WireFault: for bytes that are no fields.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]  # nearly every tag, and most lengths, are one byte
        if tag < 128:
            at += 1
        else:
            tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise WireFault("a field has number 0")
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == LENGTH:
            size = data[at] if at < end else 128
            if size < 128:
                at += 1
            else:
                size, at = _varint(data, at)
        elif wire == FIXED64:
            size = 8
        elif wire == FIXED32:
            size = 4
        else:
            raise WireFault(f"a field has wire type {wire}")
        if size > end - at:
            raise WireFault(f"a field of {size} bytes has {end - at} left")
        yield number, wire, data[at : at + size]
        at += size


def signed(value: int) -> int:
    """Return a varint as the 64-bit signed number that it stands for."""
    return value - _WRAP if value & _SIGN else value


def text(payload: Payload) -> str:
    """Return the text of a field. Raises WireFault when it is none, or no UTF-8."""
    try:
        return str(view(payload), "utf-8")
    except UnicodeDecodeError:
        raise WireFault("a text is no UTF-8") from None


def view(payload: Payload) -> memoryview:
    """Return the bytes of a field. Raises WireFault when it is a number."""
    if isinstance(payload, int):
        raise WireFault("a number stands where bytes belong")
    return payload


def number(payload: Payload) -> int:
    """Return a whole number. Raises WireFault when the field holds bytes."""
    if isinstance(payload, int):
        return signed(payload)
    raise WireFault("bytes stand where a number belongs")


def real(wire: int, payload: Payload) -> float:
    """Return a number of four or eight bytes. Raises WireFault for another field."""
    data = view(payload)
    if wire == FIXED32:
        return float(struct.unpack("<f", data)[0])
    if wire == FIXED64:
        return float(struct.unpack("<d", data)[0])
    raise WireFault("a number with a fraction has another width")


def numbers(wire: int, payload: Payload) -> list[int]:
    """Return the whole numbers of a repeated field, packed or one by one."""
    if isinstance(payload, int):
        return [signed(payload)]
    if wire != LENGTH:
        raise WireFault("a whole number has a fixed width")
    found: list[int] = []
    at, end = 0, len(payload)
    while at < end:
        value, at = _varint(payload, at)
        found.append(signed(value))
    return found


def reals(wire: int, payload: Payload, width: int) -> memoryview:
    """Return the bytes of a repeated field of numbers of so many bytes, packed or one."""
    data = view(payload)
    if wire not in (LENGTH, FIXED32 if width == 4 else FIXED64) or len(data) % width:
        raise WireFault("numbers with fractions have another width")
    return data


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value, shift, end = 0, 0, len(data)
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (_WRAP - 1), at
        shift += 7
        if shift > 63:
            raise WireFault("a number has more than 64 bits")
    raise WireFault("it ends inside a number")
