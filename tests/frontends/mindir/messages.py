"""MindIR files written by the tests: messages of either generation, and parts of real files replaced."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

EXPORTS = Path(__file__).with_name("exports.zip")


def exported() -> list[str]:
    """Names of the models that MindSpore wrote."""
    with zipfile.ZipFile(EXPORTS) as file:
        return [name.removesuffix(".mindir") for name in file.namelist() if name.endswith(".mindir")]


def export_of(name: str) -> bytes:
    """A model that MindSpore wrote."""
    with zipfile.ZipFile(EXPORTS) as file:
        return file.read(f"{name}.mindir")


def arrays_of(name: str) -> tuple[list[npt.NDArray[np.generic]], list[npt.NDArray[np.generic]]]:
    """Its inputs, and what MindSpore computes from them."""
    with zipfile.ZipFile(EXPORTS) as file, file.open(f"{name}.npz") as inner:
        stored = np.load(inner)
        return (
            [stored[key] for key in stored if key.startswith("in")],
            [stored[key] for key in stored if key.startswith("out")],
        )


# ---------------------------------------------------------------- wire format
def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def fixed(field: int, value: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", value)


CODES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def tensor(array: npt.NDArray[np.generic], name: str = "") -> bytes:
    dims = b"".join(number(1, dim) for dim in array.shape)
    return dims + number(2, CODES[array.dtype.name]) + data(7, name) + data(9, array.tobytes())


def kind(shape: Sequence[int], code: int = 1) -> bytes:
    return b"".join(number(1, dim) for dim in shape) + number(2, code)


def port(name: str, shape: Sequence[int], code: int = 1) -> bytes:
    return data(1, name) + data(2, kind(shape, code))


# ---------------------------------------------------------------- the older generation
def old_attr(name: str, value: object) -> bytes:
    """An attribute as files before 2.x have it: its kind in field 18, lists by names of others beside it."""
    match value:
        case bool():
            return data(1, name) + number(3, value) + data(15, "scalar:value0") + number(18, 9)
        case int():
            return data(1, name) + number(3, value) + data(15, "scalar:value0") + number(18, 7)
        case float():
            return data(1, name) + fixed(2, value) + data(15, "scalar:value0") + number(18, 1)
        case str():
            return data(1, name) + data(5, value) + data(15, "scalar:value0") + number(18, 8)
        case tuple():
            packed = b"".join(varint(int(item)) for item in value)
            return data(1, name) + data(10, packed) + data(15, "tuple[value0,]") + number(18, 7)
        case _:
            raise TypeError(value)


def old_node(
    op: str,
    inputs: Sequence[str],
    output: str,
    shape: Sequence[int],
    attrs: Mapping[str, object] | None = None,
) -> bytes:
    """A node that names its operator, with the operator's attributes and its type."""
    parts = [data(1, name) for name in inputs]
    parts += [data(2, output), data(3, output), data(4, op), data(7, f"Default/{op}-op0")]
    parts += [data(5, old_attr(name, value)) for name, value in (attrs or {}).items()]
    parts.append(data(5, data(1, "shape") + data(12, kind(shape)) + data(15, "shape:shape") + number(18, 19)))
    return b"".join(parts)


def old_constant(name: str, value: object) -> bytes:
    return data(2, name) + data(3, name) + data(4, "Constant") + data(5, old_attr("value", value))


def graph(
    name: str,
    nodes: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    parameters: Sequence[bytes] = (),
) -> bytes:
    parts = [data(1, node) for node in nodes] + [data(2, name)]
    parts += [data(3, item) for item in parameters] + [data(5, item) for item in inputs]
    return b"".join([*parts, *(data(6, item) for item in outputs)])


def model(main: bytes, functions: Sequence[bytes] = (), primitives: Sequence[bytes] = ()) -> bytes:
    parts = [data(1, "0.1.0"), data(2, "MindSpore"), data(3, "1.10.0"), data(7, main)]
    parts += [data(8, item) for item in functions] + [number(10, 1)]
    return b"".join([*parts, *(data(12, item) for item in primitives)])


# ---------------------------------------------------------------- parts replaced
def fields(raw: bytes) -> list[tuple[int, int, bytes | int]]:
    """The fields of a message, as they lie."""
    at, found = 0, list[tuple[int, int, bytes | int]]()

    def read() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(raw):
        tag = read()
        if tag & 7 == 0:
            found.append((tag >> 3, 0, read()))
            continue
        size = read() if tag & 7 == 2 else 8 if tag & 7 == 1 else 4
        found.append((tag >> 3, tag & 7, raw[at : at + size]))
        at += size
    return found


def joined(found: Sequence[tuple[int, int, bytes | int]]) -> bytes:
    """A message of these fields."""
    out = list[bytes]()
    for field, wire, value in found:
        if isinstance(value, int):
            out.append(number(field, value))
        else:
            out.append(data(field, value) if wire == 2 else varint(field << 3 | wire) + value)
    return b"".join(out)


def with_weights_beside(raw: bytes, location: str) -> tuple[bytes, bytes]:
    """A model whose weights stand in a file beside it, and that file."""
    beside = bytearray(b"skip")

    def moved(parameter: bytes) -> bytes:
        out = list[tuple[int, int, bytes | int]]()
        for field, wire, value in fields(parameter):
            if field == 9 and isinstance(value, bytes):
                entry = data(1, location) + number(2, len(beside)) + number(3, len(value))
                beside.extend(value)
                out.append((12, 2, entry))
            else:
                out.append((field, wire, value))
        return joined(out)

    def graph_moved(inner: bytes) -> bytes:
        return joined(
            [
                (field, wire, moved(value) if field == 3 and isinstance(value, bytes) else value)
                for field, wire, value in fields(inner)
            ]
        )

    made = [
        (field, wire, graph_moved(value) if field == 7 and isinstance(value, bytes) else value)
        for field, wire, value in fields(raw)
    ]
    return joined(made), bytes(beside)
