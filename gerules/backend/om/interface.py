"""MODEL_INOUT_INFO: inputs, outputs and gears of a model as tagged blocks.

A block is u32 type, u32 length, value; all numbers are little-endian.
Source: hicann/ge, `ModelIntroduction`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from gerules.backend.om.error import OmError
from gerules.backend.om.model import OmGraph, OmInterface, OmOp, OmPort, OmTensor
from gerules.backend.om.numbers import external_of_proto, format_name, format_number, proto_of_external
from gerules.errors import table

_HEAD: Final = struct.Struct("<II")
_PORT: Final = struct.Struct("<QiiIIII")
_COUNT: Final = struct.Struct("<I")
_NO_FORMAT: Final = 2
"""What a layout without a number is written as: ND."""


class _Block(IntEnum):
    INPUTS = 0
    OUTPUTS = 1
    DYNAMIC_BATCH = 2
    DYNAMIC_HW = 3
    DYNAMIC_DIMS = 4
    OUTPUT_SHAPES = 5
    INPUT_ORDER = 6


class _Cursor:
    """Reads a range of bytes front to back; asking for more than there is ends in one error."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    @property
    def n_left(self) -> int:
        return len(self._data) - self._at

    def take(self, size_bytes: int) -> memoryview:
        if size_bytes > self.n_left:
            raise ValueError(f"{size_bytes} bytes are announced but {self.n_left} are left")
        found = self._data[self._at : self._at + size_bytes]
        self._at += size_bytes
        return found

    def count(self) -> int:
        return _COUNT.unpack(self.take(4))[0]

    def counts(self) -> tuple[int, ...]:
        return _words(self.take(4 * self.count()), "I", 4)

    def words(self, size_bytes: int) -> tuple[int, ...]:
        return _words(self.take(size_bytes), "q", 8)


def _words(data: memoryview, code: str, width: int) -> tuple[int, ...]:
    if len(data) % width:
        raise ValueError(f"{len(data)} bytes are no whole numbers")
    return struct.unpack(f"<{len(data) // width}{code}", data)


def read_interface(data: memoryview, *, place: str = "") -> OmInterface:
    """Decode MODEL_INOUT_INFO. Raises OmError E80012 when its lengths contradict each other."""
    try:
        return _read(data)
    except (ValueError, UnicodeDecodeError) as fault:
        raise OmError(table.OM_BAD_INTERFACE, place=place, reason=fault) from None


def _read(data: memoryview) -> OmInterface:
    blocks: dict[int, memoryview] = {}
    cursor = _Cursor(data)
    while cursor.n_left:
        type, size_bytes = _HEAD.unpack(cursor.take(_HEAD.size))
        if type in blocks:
            raise ValueError(f"block {type} comes twice")
        blocks[type] = cursor.take(size_bytes)
    empty = memoryview(b"")
    return OmInterface(
        _read_ports(blocks.get(_Block.INPUTS, empty)),
        _read_ports(blocks.get(_Block.OUTPUTS, empty)),
        _read_batch(blocks.get(_Block.DYNAMIC_BATCH, empty)),
        _read_rows(blocks.get(_Block.DYNAMIC_HW, empty)),
        _read_rows(blocks.get(_Block.DYNAMIC_DIMS, empty)),
        _read_texts(blocks.get(_Block.OUTPUT_SHAPES, empty)),
        _read_texts(blocks.get(_Block.INPUT_ORDER, empty)),
    )


def _read_ports(data: memoryview) -> tuple[OmPort, ...]:
    if not data:
        return ()
    cursor = _Cursor(data)
    ports: list[OmPort] = []
    for _ in range(cursor.count()):
        size, format, dtype, n_name, n_dims, n_origin, n_ranges = _PORT.unpack(cursor.take(_PORT.size))
        name = bytes(cursor.take(n_name)).decode()
        dims, origin, flat = cursor.words(n_dims), cursor.words(n_origin), cursor.words(n_ranges)
        if len(flat) % 2:
            raise ValueError("a range has no upper end")
        ranges = tuple(zip(flat[::2], flat[1::2], strict=True))
        # Attributes pack more into the number; here only the format counts.
        layout = format_name(format & 0xFF)
        ports.append(OmPort(name, size, proto_of_external(dtype), layout, dims, origin, ranges))
    return tuple(ports)


def _read_batch(data: memoryview) -> tuple[int, ...]:
    if not data:
        return ()
    cursor = _Cursor(data)
    return cursor.words(8 * cursor.count())


def _read_rows(data: memoryview) -> tuple[tuple[int, ...], ...]:
    if not data:
        return ()
    cursor = _Cursor(data)
    lengths = cursor.counts()
    # Tools differ in whether a length counts numbers or bytes; the block's own length tells.
    width = 1 if sum(lengths) == cursor.n_left else 8
    return tuple(cursor.words(length * width) for length in lengths)


def _read_texts(data: memoryview) -> tuple[str, ...]:
    if not data:
        return ()
    cursor = _Cursor(data)
    return tuple(bytes(cursor.take(length)).decode() for length in cursor.counts())


def pack_interface(interface: OmInterface) -> bytes:
    """Encode MODEL_INOUT_INFO; inputs and outputs always, gears only where there are any.

    Raises:
        OmError: E80021 for a number that does not fit its field.
    """
    try:
        return _pack(interface)
    except (struct.error, UnicodeEncodeError) as fault:
        raise OmError(table.OM_CANNOT_HOLD, what="the interface", reason=fault) from None


def _pack(interface: OmInterface) -> bytes:
    parts = [
        _block(_Block.INPUTS, _pack_ports(interface.inputs)),
        _block(_Block.OUTPUTS, _pack_ports(interface.outputs)),
    ]
    if batch := interface.dynamic_batch:
        parts.append(_block(_Block.DYNAMIC_BATCH, struct.pack(f"<I{len(batch)}Q", len(batch), *batch)))
    for type, rows in (
        (_Block.DYNAMIC_HW, interface.dynamic_hw),
        (_Block.DYNAMIC_DIMS, interface.dynamic_dims),
    ):
        if rows:
            flat = [value for row in rows for value in row]
            head = struct.pack(f"<I{len(rows)}I", len(rows), *map(len, rows))
            parts.append(_block(type, head + struct.pack(f"<{len(flat)}q", *flat)))
    for type, texts in (
        (_Block.OUTPUT_SHAPES, interface.dynamic_output_shapes),
        (_Block.INPUT_ORDER, interface.input_order),
    ):
        if texts:
            raw = [text.encode() for text in texts]
            head = struct.pack(f"<I{len(raw)}I", len(raw), *map(len, raw))
            parts.append(_block(type, head + b"".join(raw)))
    return b"".join(parts)


def _block(type: _Block, value: bytes) -> bytes:
    return _HEAD.pack(type, len(value)) + value


def _pack_ports(ports: Sequence[OmPort]) -> bytes:
    parts = [_COUNT.pack(len(ports))]
    for port in ports:
        name = port.name.encode()
        number = format_number(port.layout)
        numbers = (*port.shape, *port.origin_shape, *(end for pair in port.ranges for end in pair))
        parts.append(
            _PORT.pack(
                port.size_bytes, _NO_FORMAT if number is None else number, external_of_proto(port.dtype),
                len(name), 8 * len(port.shape), 8 * len(port.origin_shape), 16 * len(port.ranges),
            )
        )  # fmt: skip
        parts.append(name + struct.pack(f"<{len(numbers)}q", *numbers))
    return b"".join(parts)


def derive_interface(root: OmGraph, out_names: Sequence[str] = ()) -> OmInterface:
    """Describe a graph by its `Data` and `NetOutput` operators, as GE does.

    Args:
        out_names: Names of the outputs; one that is missing becomes `output_<i>_<producer>_<index>`.
    """
    inputs: list[tuple[int, OmPort]] = []
    outputs: list[OmPort] = []
    for op in root.ops:
        if op.type == "Data" and (descs := op.output_descs or op.input_descs):
            index = op.attrs.get("index")
            place = index if isinstance(index, int) else len(inputs)
            inputs.append((place, _port(op.name, descs[0])))
        elif op.type == "NetOutput":
            outputs = [
                _port(_out_name(op, index, out_names), desc) for index, desc in enumerate(op.input_descs)
            ]
    inputs.sort(key=lambda item: item[0])
    return OmInterface(tuple(port for _, port in inputs), tuple(outputs))


def _out_name(op: OmOp, index: int, names: Sequence[str]) -> str:
    if index < len(names):
        return names[index]
    edge = op.inputs[index] if index < len(op.inputs) else None
    return f"output_{index}" + ("" if edge is None else f"_{edge.producer}_{edge.index}")


def _port(name: str, desc: OmTensor) -> OmPort:
    n_elements, dtype = desc.n_elements, desc.ir_dtype
    plain = 0 if n_elements is None or dtype is None else dtype.size_bytes(n_elements)
    return OmPort(name, plain or max(0, desc.size_bytes), desc.dtype, desc.layout, desc.shape, desc.shape)
