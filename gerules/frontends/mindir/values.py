"""Attributes of MindIR as values: constants of a graph, parameters of operators, declared types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gerules.frontends.mindir.items import Array, Item, Items, Known, Monad, NodeFault
from gerules.frontends.mindir.operands import Given
from gerules.frontends.mindir.records import AttributeRecord, NodeRecord
from gerules.frontends.mindir.tensors import DTYPE_OF_CODE, DTYPE_OF_TYPE_ID, TensorFault, read_array, type_of
from gerules.frontends.onnx.external import DataFault, DataFiles
from gerules.ir import TensorType

_VALUE: Final = "value"
_SHAPE: Final = "shape"
_NAMED: Final = re.compile(r"(?:tuple|list)\[(.*)\]", re.DOTALL)
_DEEPEST: Final = 16
_TYPE_ID_OF: Final = {dtype: number for number, dtype in DTYPE_OF_TYPE_ID.items()}


def constant_of(node: NodeRecord, files: DataFiles) -> Item:
    """Return what a `Constant` node stands for. Raises NodeFault."""
    others = {attr.name: attr for attr in node.attrs}
    found = others.get(_VALUE)
    if found is None:
        raise NodeFault("it has no value")
    return _item(found, others, files, 0)


def parameters_of(attrs: Sequence[AttributeRecord], files: DataFiles) -> dict[str, Given]:
    """Return attributes as values by name; those that are no numbers or texts are left out."""
    others = {attr.name: attr for attr in attrs}
    found: dict[str, Given] = {}
    for attr in attrs:
        try:
            item = _item(attr, others, files, 0)
            found[attr.name] = _given(item)
        except NodeFault:
            continue
    return found


def declared_types(attrs: Sequence[AttributeRecord]) -> list[TensorType]:
    """Return the types that a node declares for its results; those of which nothing is said are unknown."""
    others = {attr.name: attr for attr in attrs}
    for attr in attrs:
        if attr.name == _SHAPE or attr.ref_name.startswith(_SHAPE):
            return _types(attr, others, 0)
    return []


def _types(attr: AttributeRecord, others: Mapping[str, AttributeRecord], depth: int) -> list[TensorType]:
    if depth > _DEEPEST:
        return []
    inner = attr.values or _named(attr, others)
    if inner:
        return [kind for one in inner for kind in (_types(one, others, depth + 1) or [TensorType()])]
    found: list[TensorType] = []
    for tensor in attr.tensors:
        try:
            found.append(type_of(tensor))
        except TensorFault:
            found.append(TensorType())
    return found


def _item(attr: AttributeRecord, others: Mapping[str, AttributeRecord], files: DataFiles, depth: int) -> Item:
    if depth > _DEEPEST:
        raise NodeFault("a value nests too deep")
    match attr.kind:
        case "int":
            return Known(attr.ints[0]) if len(attr.ints) == 1 else _several(attr.ints) or Known(attr.i)
        case "bool":
            return Known(bool(attr.ints[0] if attr.ints else attr.i))
        case "float":
            return (
                Known(attr.floats[0])
                if len(attr.floats) == 1
                else _several(attr.floats) or Known(attr.f or attr.d)
            )
        case "string":
            return (
                Known(attr.strings[0])
                if len(attr.strings) == 1
                else _several(attr.strings) or Known(_text(attr))
            )
        case "tuple" | "list":
            inner = attr.values or _named(attr, others)
            if inner:
                return Items(tuple(_item(one, others, files, depth + 1) for one in inner))
            return _several([*attr.ints, *attr.floats, *attr.strings]) or Items(())
        case "none":
            return Known(None)
        case "monad":
            return Monad()
        case "tensor" | "tensors":
            return _tensor(attr, files)
        case _:
            return _untold(attr, others, files, depth)


def _untold(
    attr: AttributeRecord, others: Mapping[str, AttributeRecord], files: DataFiles, depth: int
) -> Item:
    """An attribute of an old file whose kind is told by what it holds, or by `ref_attr_name`."""
    if attr.code:
        raise NodeFault(f"a value of kind {attr.code} is not read")
    if attr.tensors:
        return _tensor(attr, files)
    if inner := attr.values or _named(attr, others):
        return Items(tuple(_item(one, others, files, depth + 1) for one in inner))
    if attr.ref_name.startswith("Monad") or "monad" in attr.ref_name.lower():
        return Monad()
    numbers = [*attr.ints, *attr.floats, *attr.strings]
    if len(numbers) > 1 or _NAMED.match(attr.ref_name):
        return _several(numbers) or Items(())
    if len(attr.s):
        return Known(_text(attr))
    return Known(numbers[0] if numbers else attr.i or attr.f or attr.d)


def _several(found: Sequence[int | float | str]) -> Items | None:
    return Items(tuple(Known(item) for item in found)) if found else None


def _named(attr: AttributeRecord, others: Mapping[str, AttributeRecord]) -> list[AttributeRecord]:
    """The attributes beside it that an old file's `tuple[value0,value1,]` names."""
    found = _NAMED.match(attr.ref_name)
    if found is None:
        return []
    names = [name.strip().rpartition(":")[2] for name in found[1].split(",")]
    return [others[name] for name in names if name in others and others[name] is not attr]


def _tensor(attr: AttributeRecord, files: DataFiles) -> Item:
    if len(attr.tensors) != 1:
        raise NodeFault(f"a value of {len(attr.tensors)} tensors is not read")
    (record,) = attr.tensors
    has_data = record.raw is not None or record.location or record.ints or record.floats or record.doubles
    if not has_data and 0 not in record.dims:
        # An element type is written as a tensor without elements; operators take it by MindSpore's number.
        dtype = DTYPE_OF_CODE.get(record.data_type)
        if dtype not in _TYPE_ID_OF:
            raise NodeFault(f"element type {record.data_type} is not known")
        return Known(_TYPE_ID_OF[dtype])
    try:
        return Array(read_array(record, files))
    except (TensorFault, DataFault) as fault:
        raise NodeFault(f"a constant cannot be read: {fault}") from None


def _text(attr: AttributeRecord) -> str:
    return str(attr.s, "utf-8", "backslashreplace")


def _given(item: Item) -> Given:
    if isinstance(item, Known):
        return item.value
    if isinstance(item, Items):
        return tuple(_given(one) for one in item.items)
    raise NodeFault("it is no number")
