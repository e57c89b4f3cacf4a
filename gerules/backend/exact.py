"""Types and attributes in exact form as JSON text, and back: what `.om` descriptions round or cannot say.

Source: design of our own, for attributes whose names begin with `_gerules_`. A value is a list that begins
with its kind; constants are named by number and stored beside the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from gerules.ir import (
    Attr,
    Const,
    DType,
    Format,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)

Json = int | float | str | bool | None | list["Json"] | dict[str, "Json"]

_DEEPEST = 32
"""Types inside types."""


def write_attrs(attrs: Mapping[str, Attr]) -> tuple[str, list[Const]]:
    """Return attributes as text, and the constants that it names by their place in the list."""
    consts: list[Const] = []
    found = {name: _attr_out(value, consts) for name, value in attrs.items()}
    return json.dumps(found, separators=(",", ":"), ensure_ascii=True), consts


def read_attrs(text: str, consts: Sequence[Const]) -> dict[str, Attr]:
    """Turn `write_attrs` back. Raises ValueError for a text that it did not write."""
    found = _load(text)
    if not isinstance(found, dict):
        raise ValueError("attributes are no object")
    return {name: _attr_in(value, consts) for name, value in found.items()}


def write_type(type: ValueType) -> str:
    """Return a type as text."""
    return json.dumps(_type_out(type), separators=(",", ":"))


def read_type(text: str) -> ValueType:
    """Turn `write_type` back. Raises ValueError for a text that it did not write."""
    return _type_in(_load(text))


def write_texts(values: Mapping[str, object]) -> str:
    """Return a table of texts or numbers as text."""
    return json.dumps(dict(values), separators=(",", ":"), ensure_ascii=True)


def read_numbers(text: str) -> dict[str, int]:
    """Read a table of integers. Raises ValueError."""
    found = _load(text)
    if not isinstance(found, dict) or not all(type(item) is int for item in found.values()):
        raise ValueError("this is no table of numbers")
    return cast("dict[str, int]", found)


def read_table(text: str) -> dict[str, str]:
    """Read a table of texts. Raises ValueError."""
    found = _load(text)
    if not isinstance(found, dict) or not all(isinstance(item, str) for item in found.values()):
        raise ValueError("this is no table of texts")
    return cast("dict[str, str]", found)


def write_strings(items: Sequence[object]) -> bytes:
    """Return the elements of a string tensor as bytes."""
    plain = [["b", item.hex()] if isinstance(item, bytes) else str(item) for item in items]
    return json.dumps(plain).encode()


def read_strings(data: bytes) -> list[str | bytes]:
    """Turn `write_strings` back. Raises ValueError."""
    found = _load(data.decode())
    if not isinstance(found, list):
        raise ValueError("strings are no list")
    out: list[str | bytes] = []
    for item in found:
        match item:
            case str():
                out.append(item)
            case ["b", str(text)]:
                out.append(bytes.fromhex(text))
            case _:
                raise ValueError("an element is no string")
    return out


def _load(text: str) -> Json:
    try:
        return cast(Json, json.loads(text))
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _attr_out(value: Attr, consts: list[Const]) -> Json:
    if isinstance(value, bool):
        return ["i", int(value)]
    if isinstance(value, int):
        return ["i", value]
    if isinstance(value, float):
        # Hexadecimal keeps every bit, infinities and NaN included.
        return ["f", value.hex()]
    if isinstance(value, str):
        return ["s", value]
    if isinstance(value, bytes):
        return ["b", value.hex()]
    if isinstance(value, DType):
        return ["d", value.value]
    if isinstance(value, Const):
        consts.append(value)
        return ["c", len(consts) - 1]
    if isinstance(value, tuple):
        return ["l", [_attr_out(item, consts) for item in value]]
    return ["t", _type_out(value)]


def _attr_in(value: Json, consts: Sequence[Const]) -> Attr:
    if isinstance(value, list) and len(value) == 2 and value[0] == "l" and isinstance(value[1], list):
        if any(isinstance(item, list) and item[:1] == ["l"] for item in value[1]):
            raise ValueError("a list holds lists")
        items = [_attr_in(item, consts) for item in value[1]]
        if not any(all(isinstance(item, kind) for item in items) for kind in (int, float, str, bytes, Const)):
            raise ValueError("a list mixes kinds")
        return cast("tuple[int, ...]", tuple(items))
    match value:
        case ["i", int(number)]:
            return number
        case ["f", str(text)]:
            return float.fromhex(text)
        case ["s", str(text)]:
            return text
        case ["b", str(text)]:
            return bytes.fromhex(text)
        case ["d", str(text)]:
            return DType(text)
        case ["c", int(place)] if 0 <= place < len(consts):
            return consts[place]
        case ["t", inner]:
            return _type_in(inner)
        case _:
            raise ValueError("an attribute has no known form")


def _type_out(type: ValueType) -> Json:
    if isinstance(type, TensorType):
        dims: list[Json] | None = None if type.shape is None else [*type.shape]
        return ["tensor", type.dtype.value, dims, type.format.name, type.groups]
    if isinstance(type, SequenceType):
        return ["seq", _type_out(type.element)]
    if isinstance(type, OptionalType):
        return ["optional", _type_out(type.element)]
    return ["map", type.key.value, _type_out(type.value)]


def _type_in(value: Json, depth: int = 0) -> ValueType:
    if depth > _DEEPEST:
        raise ValueError("a type nests too deeply")
    match value:
        case ["tensor", str(dtype), dims, str(format), int(groups)] if groups >= 1:
            if format not in Format.__members__:
                raise ValueError(f"{format} is no format")
            return TensorType(DType(dtype), _dims_in(dims), Format[format], groups)
        case ["seq", element]:
            return SequenceType(_type_in(element, depth + 1))
        case ["optional", element]:
            return OptionalType(_type_in(element, depth + 1))
        case ["map", str(key), element]:
            return MapType(DType(key), _type_in(element, depth + 1))
        case _:
            raise ValueError("a type has no known form")


def _dims_in(dims: Json) -> tuple[int | str, ...] | None:
    if dims is None:
        return None
    if not isinstance(dims, list):
        raise ValueError("a shape is no list")
    found: list[int | str] = []
    for dim in dims:
        if isinstance(dim, str) or (type(dim) is int and dim >= 0):
            found.append(dim)
        else:
            raise ValueError("a dimension is no size and no name")
    return tuple(found)
