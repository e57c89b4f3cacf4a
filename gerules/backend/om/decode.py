"""From messages to records: graphs, operators, descriptors and attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from gerules.backend.om.compression import NO_TABLES, NameTables
from gerules.backend.om.error import is_full
from gerules.backend.om.escape import unescape
from gerules.backend.om.model import (
    NO_ATTRS,
    Edge,
    Expression,
    ExternalDType,
    FloatLists,
    InputKind,
    IntLists,
    ListKind,
    NamedAttrs,
    OmAttr,
    OmGraph,
    OmItem,
    OmList,
    OmOp,
    OmTensor,
    Prototype,
    RawText,
    TensorValue,
    Workspace,
)
from gerules.backend.om.numbers import format_name, layout_from_file, proto_of_name, unpack_format
from gerules.backend.om.proto import Wire
from gerules.errors import Faults, table

_LIST_FIELDS: Final = {
    ListKind.TEXT: "s",
    ListKind.INT: "i",
    ListKind.FLOAT: "f",
    ListKind.BOOL: "b",
    ListKind.BYTES: "bt",
    ListKind.DESC: "td",
    ListKind.TENSOR: "t",
    ListKind.GRAPH: "g",
    ListKind.NAMED: "na",
    ListKind.DTYPE: "dt",
}

_SHORT_BYTES: Final = 256
"""Longer lists are data, not the words that a model says over and over."""

_NAME_TABLES: Final = (
    ("_input_name_key", "_input_name_value"),
    ("_output_name_key", "_output_name_value"),
)


class Decoder:
    """Decodes the graphs of one model; faults are collected, not raised.

    Args:
        tables: How attribute names are compressed.
        is_escaped: Whether texts were escaped by `gerules`.
    """

    def __init__(
        self, faults: Faults, place: str, tables: NameTables = NO_TABLES, *, is_escaped: bool = False
    ) -> None:
        self._faults = faults
        self._place = place
        self._tables = tables
        self._is_escaped = is_escaped
        # A model repeats its few names, descriptions and short lists a million times. Records are
        # frozen, so that one of each serves all; it is found by its bytes.
        self._known: dict[str, str] = {}
        self._known_tensors: dict[bytes, OmTensor] = {}
        self._known_lists: dict[bytes, OmList] = {}

    def graph(self, wire: Wire) -> OmGraph:
        """Decode a graph; edges are checked for their form, not for what they point at."""
        ops: list[OmOp] = []
        name = wire.name
        for item in wire.op:
            if is_full(self._faults):
                break
            ops.append(self._op(item, name))
        return OmGraph(
            name,
            tuple(ops),
            self._edges(wire.input, name),
            self._edges(wire.output, name),
            self.attrs(wire.attr),
        )

    def attrs(self, wire: Mapping[str, Wire]) -> Mapping[str, OmAttr]:
        """Decode a map of attributes, sorted by name; compressed names and texts come back in full."""
        if not wire:
            return NO_ATTRS
        found: dict[str, OmAttr] = {}
        for key in sorted(wire):
            value = wire[key]
            if not key.startswith("\0"):
                found[self._known.setdefault(key, key)] = self._attr(value)
                continue
            try:
                name, texts = self._tables.expand(key)
                found[name] = self._attr(value) if texts is None else self._text_values(value, texts)
            except ValueError as fault:
                self._faults.add(table.OM_BAD_COMPRESSION, place=self._place, reason=fault)
        return found

    def _text_values(self, wire: Wire, texts: Iterable[bytes]) -> OmAttr:
        listed = list(texts)

        def text_of(index: int) -> str | RawText:
            if not 0 <= index < len(listed):
                raise ValueError(f"text {index} is not among the {len(listed)} listed")
            return self._text(listed[index])

        if wire.WhichOneof("value") == "i":
            return text_of(wire.i)
        if wire.WhichOneof("value") == "list" and (wire.list.i or not wire.list.s):
            return OmList(ListKind.TEXT, tuple(text_of(index) for index in wire.list.i))
        return self._attr(wire)

    def _attr(self, wire: Wire) -> OmAttr:
        match wire.WhichOneof("value"):
            case "i":
                return wire.i
            case "s":
                return self._text(wire.s)
            case "b":
                return wire.b
            case "f":
                return wire.f
            case "list":
                return self._list(wire.list)
            case "bt":
                return wire.bt
            case "t":
                return self._tensor_value(wire.t)
            case "dt":
                return ExternalDType(wire.dt)
            case "td":
                return self.tensor(wire.td)
            case "func":
                return NamedAttrs(wire.func.name, self.attrs(wire.func.attr))
            case "g":
                return self.graph(wire.g)
            case "list_list_int":
                return IntLists(tuple(tuple(row.list_i) for row in wire.list_list_int.list_list_i))
            case "list_list_float":
                return FloatLists(tuple(tuple(row.list_f) for row in wire.list_list_float.list_list_f))
            case "expression":
                return Expression(wire.expression)
            case _:
                return None

    def _list(self, wire: Wire) -> OmList:
        key = wire.SerializeToString() if wire.ByteSize() < _SHORT_BYTES else b""
        found = self._known_lists.get(key)
        if found is None:
            found = self._decode_list(wire)
            if key:
                self._known_lists[key] = found
        return found

    def _decode_list(self, wire: Wire) -> OmList:
        try:
            kind = ListKind(wire.val_type)
        except ValueError:
            kind = ListKind.NONE
        if kind is ListKind.NONE:
            # Name tables, and files of old tools, do not say what their lists hold.
            kind = next((one for one, name in _LIST_FIELDS.items() if getattr(wire, name)), kind)
        if kind is ListKind.NONE:
            return OmList(kind)
        items = getattr(wire, _LIST_FIELDS[kind])
        read: Callable[[Wire], OmItem]
        match kind:
            case ListKind.TEXT:
                read = self._text
            case ListKind.DESC:
                read = self.tensor
            case ListKind.TENSOR:
                read = self._tensor_value
            case ListKind.GRAPH:
                read = self.graph
            case ListKind.NAMED:
                return OmList(kind, tuple(NamedAttrs(item.name, self.attrs(item.attr)) for item in items))
            case ListKind.DTYPE:
                read = ExternalDType
            case _:
                return OmList(kind, tuple(items))
        return OmList(kind, tuple(read(item) for item in items))

    def _text(self, raw: bytes) -> str | RawText:
        if self._is_escaped:
            raw = unescape(raw)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return RawText(raw)
        return self._known.setdefault(text, text) if len(text) < 64 else text

    def _tensor_value(self, wire: Wire) -> TensorValue:
        return TensorValue(self.tensor(wire.desc), wire.data)

    def tensor(self, wire: Wire) -> OmTensor:
        """Decode a descriptor; what attributes repeat of its format moves into fields."""
        key = wire.SerializeToString()
        found = self._known_tensors.get(key)
        if found is None:
            found = self._known_tensors[key] = self._decode_tensor(wire)
        return found

    def _decode_tensor(self, wire: Wire) -> OmTensor:
        attrs = self.attrs(wire.attr)
        layout = layout_from_file(wire.layout)
        origin_shape: tuple[int, ...] | None = None
        origin_layout, origin_dtype, sub_format, c0_code = "", 0, 0, 0
        if attrs:
            rest = dict(attrs)
            number = _pop_int(rest, "format_for_int")
            if number is not None and number >= 0:
                packed = unpack_format(number)
                layout, sub_format, c0_code = format_name(packed.format), packed.sub_format, packed.c0_code
            origin_shape, origin_layout, origin_dtype = _pop_origin(rest)
            attrs = rest or NO_ATTRS
        return OmTensor(
            wire.dtype,
            tuple(wire.shape.dim),
            self._known.setdefault(layout, layout),
            wire.name,
            wire.size,
            wire.weight_size,
            wire.data_offset,
            origin_shape,
            self._known.setdefault(origin_layout, origin_layout),
            origin_dtype,
            sub_format,
            c0_code,
            attrs,
            self._known.setdefault(wire.device_type, wire.device_type),
            wire.reuse_input_index if wire.reuse_input else None,
            wire.input_tensor,
            wire.output_tensor,
            wire.HasField("shape"),
        )

    def _op(self, wire: Wire, graph: str) -> OmOp:
        name = wire.name
        if not name:
            self._bad(graph, f"operator {wire.id} has no name")
        inputs: list[Edge | None] = []
        controls: list[str] = []
        for text in wire.input:
            edge = _edge_of(text)
            if text and edge is None:
                self._bad(graph, f"input {text!r} of {name} is not producer:index")
            elif edge is not None and edge.index < 0:
                controls.append(edge.producer)
            else:
                inputs.append(edge)
        attrs = dict(self.attrs(wire.attr))
        input_names, output_names = (self._pop_names(attrs, *keys) for keys in _NAME_TABLES)
        optional = _pop_texts(attrs, "_opt_input")
        prototype = _pop_prototype(attrs)
        workspace: list[Workspace] = []
        # HiAI and old files give sizes without offsets, or the other way round.
        for index in range(max(len(wire.workspace), len(wire.workspace_bytes))):
            offset = wire.workspace[index] if index < len(wire.workspace) else 0
            size = wire.workspace_bytes[index] if index < len(wire.workspace_bytes) else 0
            workspace.append(Workspace(offset, size))
        return OmOp(
            name,
            self._known.setdefault(wire.type, wire.type),
            tuple(inputs),
            tuple(controls),
            tuple(self.tensor(desc) for desc in wire.input_desc),
            tuple(self.tensor(desc) for desc in wire.output_desc),
            attrs or NO_ATTRS,
            input_names,
            output_names,
            optional,
            prototype,
            tuple(wire.input_i),
            tuple(wire.output_i),
            tuple(workspace),
            tuple(wire.is_input_const),
            tuple(wire.subgraph_name),
            wire.stream_id,
            wire.id,
        )

    def _pop_names(self, attrs: dict[str, OmAttr], key: str, value: str) -> tuple[str, ...]:
        names, places = attrs.get(key), attrs.get(value)
        if not isinstance(names, OmList) or not isinstance(places, OmList):
            return ()
        pairs = list(zip(names.items, places.items, strict=False))
        if sorted(place for _, place in pairs if isinstance(place, int)) != list(range(len(names.items))):
            # A table that is no numbering of the slots says nothing; it stays an attribute.
            return ()
        found: list[str] = [""] * len(pairs)
        for name, place in pairs:
            if isinstance(name, str) and isinstance(place, int):
                found[place] = self._known.setdefault(name, name)
        del attrs[key], attrs[value]
        return tuple(found)

    def _edges(self, wire: Iterable[str], graph: str) -> tuple[Edge, ...]:
        found: list[Edge] = []
        for text in wire:
            edge = _edge_of(text)
            if edge is None:
                self._bad(graph, f"{text!r} is not producer:index")
            else:
                found.append(edge)
        return tuple(found)

    def _bad(self, graph: str, reason: str) -> None:
        if not is_full(self._faults):
            self._faults.add(table.OM_BAD_GRAPH, place=self._place, graph=graph, reason=reason)


def _edge_of(text: str) -> Edge | None:
    """Split `producer:index` at the last colon; None when it is no such text."""
    producer, colon, index = text.rpartition(":")
    if not colon or not producer or not index.isascii() or len(index) > 9:
        return None
    if index == "-1":
        return Edge(producer, -1)
    return Edge(producer, int(index)) if index.isdigit() else None


def _pop_int(attrs: dict[str, OmAttr], name: str) -> int | None:
    value = attrs.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        del attrs[name]
        return value
    return None


def _pop_origin(attrs: dict[str, OmAttr]) -> tuple[tuple[int, ...] | None, str, int]:
    shape = attrs.get("origin_shape")
    is_set = attrs.get("origin_shape_initialized")
    origin_shape: tuple[int, ...] | None = None
    if isinstance(shape, OmList) and shape.kind in (ListKind.INT, ListKind.NONE):
        del attrs["origin_shape"]
        if is_set is not False:
            origin_shape = tuple(dim for dim in shape.items if isinstance(dim, int))
    if isinstance(is_set, bool):
        del attrs["origin_shape_initialized"]
    layout = attrs.get("origin_format")
    number = _pop_int(attrs, "origin_format_for_int")
    origin_layout = "" if number is None or number < 0 else format_name(unpack_format(number).format)
    if isinstance(layout, str):
        del attrs["origin_format"]
        origin_layout = origin_layout or layout
    dtype = attrs.get("origin_data_type")
    origin_dtype = 0
    if isinstance(dtype, str):
        del attrs["origin_data_type"]
        origin_dtype = proto_of_name(dtype)
    return origin_shape, layout_from_file(origin_layout), origin_dtype


def _pop_texts(attrs: dict[str, OmAttr], name: str) -> tuple[str, ...]:
    value = attrs.get(name)
    if not isinstance(value, OmList) or value.kind not in (ListKind.TEXT, ListKind.NONE):
        return ()
    found = tuple(item for item in value.items if isinstance(item, str))
    if len(found) == len(value.items):
        del attrs[name]
        return found
    return ()


_PROTOTYPE_LISTS: Final = ("_ir_inputs_key", "_ir_inputs_value", "_ir_outputs_key", "_ir_outputs_value")


def _pop_prototype(attrs: dict[str, OmAttr]) -> Prototype | None:
    names = _pop_texts(attrs, "_ir_attr_names")
    lists = [attrs.get(name) for name in _PROTOTYPE_LISTS]
    if not names and all(item is None for item in lists):
        return None
    columns = [item.items if isinstance(item, OmList) else () for item in lists]
    inputs = tuple(
        (name, InputKind(kind))
        for name, kind in zip(columns[0], columns[1], strict=False)
        if isinstance(name, str) and isinstance(kind, int) and 0 <= kind <= 2
    )
    outputs = tuple(
        (name, kind == 1)
        for name, kind in zip(columns[2], columns[3], strict=False)
        if isinstance(name, str) and kind in (0, 1)
    )
    for name in _PROTOTYPE_LISTS:
        attrs.pop(name, None)
    return Prototype(inputs, outputs, names)
