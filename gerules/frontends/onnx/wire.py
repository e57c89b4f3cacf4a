"""Protobuf's wire format: cut the large tensors out of a model file, so that they need not be copied.

Python's protobuf copies every byte it parses, twice for `raw_data`. So the file is walked first, and the
payload of each large tensor is replaced by a short note of where it lies; what is left is parsed as
usual. The walk never judges: where bytes do not read as a message they are left to the parser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

# Messages by the fields that may lead to a tensor. Source: onnx.proto3.
_MODEL: Final[dict[int, str]] = {7: "graph", 20: "training", 25: "function"}
_FIELDS: Final[dict[str, dict[int, str]]] = {
    "model": _MODEL,
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_NESTING: Final[dict[str, dict[int, str]]] = _FIELDS | {
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 15: "sparse"},
    "attribute": _FIELDS["attribute"] | {14: "type", 15: "type"},
    "value": {2: "type"},
    "type": {4: "holder", 5: "map", 9: "holder"},
    "holder": {1: "type"},
    "map": {2: "type"},
}
"""As `_FIELDS`, with every message that can contain itself."""

_FLOATS, _RAW, _DOUBLES = 4, 9, 10
_PAYLOADS: Final = frozenset((_FLOATS, 5, 6, 7, _RAW, _DOUBLES, 11))
"""Fields of TensorProto that hold elements; those of fixed width are bytes as numpy wants them."""
_SEGMENT: Final = 3

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_DEEPEST: Final = 100
"""Messages within messages that protobuf reads. Source: protobuf, `SetRecursionLimit`."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Where the elements of a tensor lie in the file, and in which field of TensorProto (4, 9 or 10)."""

    field: int
    offset: int
    size_bytes: int


@dataclass(slots=True)
class _Frame:
    kind: str
    start: int
    end: int
    at: int
    tag_start: int
    """Where the tag that leads to this message begins, in the parent."""
    body_start: int
    copied: int
    pieces: list[memoryview | bytes] = field(default_factory=list["memoryview | bytes"])
    size: int = 0


def cut_tensors(
    data: memoryview, *, secret: int, smallest_bytes: int = 1024
) -> tuple[bytes | memoryview, list[Payload]]:
    """Return a ModelProto's bytes without its large tensors, and where those lie.

    A cut tensor has a `segment` (a field no file may use) with the index of its payload as `begin`
    and `secret` as `end`, so that no file can forge one.

    Cost: linear in the fields of messages larger than `smallest_bytes`; recursion-free.
    """
    payloads: list[Payload] = []
    if len(data) < smallest_bytes:
        return data, payloads
    stack = [_Frame("model", 0, len(data), 0, 0, 0, 0)]
    while True:
        frame = stack[-1]
        child = _next_large(data, frame, smallest_bytes)
        if child is not None:
            if child.kind != "tensor":
                stack.append(child)
                continue
            note = _cut_one(data, child, secret, payloads)
            if note is not None:
                _replace(data, frame, child, note)
            continue
        stack.pop()
        if frame.pieces:
            _append(frame, data[frame.copied : frame.end])
        if not stack:
            return (b"".join(frame.pieces) if frame.pieces else data), payloads
        if frame.pieces:
            _replace(data, stack[-1], frame, frame.pieces)


def _next_large(data: memoryview, frame: _Frame, smallest_bytes: int) -> _Frame | None:
    """Walk on to the next field that is a message large enough to look into; None at the end."""
    wanted, at, end = _FIELDS[frame.kind], frame.at, frame.end
    while at < end:
        tag_start = at
        tag = data[at]
        at += 1
        if tag >= 128:
            tag, at = _varint(data, tag_start, end)
        wire = tag & 7
        if wire == _LENGTH:
            if at >= end:
                break
            size = data[at]
            at += 1
            if size >= 128:
                size, at = _varint(data, at - 1, end)
            if at < 0 or size > end - at:
                break
            if size >= smallest_bytes and (kind := wanted.get(tag >> 3)) is not None:
                frame.at = at + size
                return _Frame(kind, at, at + size, at, tag_start, at, at)
            at += size
        else:
            at = _skip(data, at, end, wire)
        if at < 0:
            break
    frame.at = end
    return None


def _cut_one(
    data: memoryview, tensor: _Frame, secret: int, payloads: list[Payload]
) -> list[memoryview | bytes] | None:
    """Return the tensor's bytes with its one payload replaced by a segment; None to leave it alone."""
    at, end = tensor.start, tensor.end
    found: tuple[int, int, int, int] | None = None
    while at < end:
        tag_start = at
        tag, at = _varint(data, at, end)
        if at < 0:
            return None
        number, wire = tag >> 3, tag & 7
        if number == _SEGMENT:
            return None
        if wire != _LENGTH:
            if number in _PAYLOADS:
                return None
            at = _skip(data, at, end, wire)
            if at < 0:
                return None
            continue
        size, at = _varint(data, at, end)
        if at < 0 or size > end - at:
            return None
        if number in _PAYLOADS:
            if found is not None or number not in (_FLOATS, _RAW, _DOUBLES):
                return None
            found = number, tag_start, at, size
        at += size
    if found is None:
        return None
    number, tag_start, offset, size = found
    inner = b"\x08" + varint_bytes(len(payloads)) + b"\x10" + varint_bytes(secret)
    payloads.append(Payload(number, offset, size))
    note = bytes([_SEGMENT << 3 | _LENGTH]) + varint_bytes(len(inner)) + inner
    return [data[tensor.start : tag_start], note, data[offset + size : end]]


def _replace(data: memoryview, parent: _Frame, child: _Frame, pieces: list[memoryview | bytes]) -> None:
    size = sum(len(piece) for piece in pieces) if child.kind == "tensor" else child.size
    _append(parent, data[parent.copied : child.tag_start])
    tag, _ = _varint(data, child.tag_start, child.body_start)
    _append(parent, varint_bytes(tag) + varint_bytes(size))
    parent.pieces += pieces
    parent.size += size
    parent.copied = child.end


def _append(frame: _Frame, piece: memoryview | bytes) -> None:
    frame.pieces.append(piece)
    frame.size += len(piece)


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return a varint and the place after it; the place is -1 when there is none."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 0, -1


def _skip(data: memoryview, at: int, end: int, wire: int) -> int:
    """Return the place after a field of fixed or varint form; -1 when it does not end."""
    if at < 0:
        return -1
    if wire == _VARINT:
        return _varint(data, at, end)[1]
    width = 8 if wire == _FIXED64 else 4 if wire == _FIXED32 else -1
    return at + width if width > 0 and at + width <= end else -1


def varint_bytes(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def explain_damage(data: memoryview) -> str:
    """Say why bytes are no ModelProto: where they break off, or that messages nest too deeply.

    Cost: linear in the fields of the file; recursion-free.
    """
    stack: list[tuple[str, int, int]] = [("model", 0, len(data))]
    while stack:
        kind, at, end = stack.pop()
        if len(stack) >= _DEEPEST:
            return f"messages nest more than {_DEEPEST} deep at byte {at}"
        wanted = _NESTING[kind]
        while at < end:
            field_start = at
            tag, at = _varint(data, at, end)
            if at < 0 or tag >> 3 == 0 or tag & 7 in (6, 7):
                return f"byte {field_start} begins no field of a {kind}"
            if tag & 7 != _LENGTH:
                at = _skip(data, at, end, tag & 7)
                if at < 0:
                    return f"the field at byte {field_start} has no end"
                continue
            size, at = _varint(data, at, end)
            if at < 0:
                return f"the field at byte {field_start} has no end"
            if size > end - at:
                return (
                    f"the field at byte {field_start} claims {size} bytes where {end - at} are left; "
                    "the file may be cut off"
                )
            if (inner := wanted.get(tag >> 3)) is not None:
                stack += [(kind, at + size, end), (inner, at, at + size)]
                break
            at += size
    return "its bytes do not read as a ModelProto"
