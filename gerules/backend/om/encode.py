"""From records to messages: graphs, operators, descriptors and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gerules.backend.om.error import OmError, is_full
from gerules.backend.om.escape import escape
from gerules.backend.om.model import (
    ABSENT,
    Expression,
    ExternalDType,
    FloatLists,
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
)
from gerules.backend.om.numbers import PackedFormat, dtype_name, format_number, layout_in_file
from gerules.backend.om.proto import Wire
from gerules.errors import Faults, table

_NUMERIC_LISTS: Final = {ListKind.INT: "i", ListKind.FLOAT: "f", ListKind.BOOL: "b", ListKind.BYTES: "bt"}


def encode_attrs(attrs: Mapping[str, OmAttr], wire: Wire, faults: Faults, place: str) -> None:
    """Write a map of attributes; a value that does not fit is an E80021 among the faults."""
    for name, value in attrs.items():
        try:
            _encode_attr(value, wire[name])
        except (ValueError, TypeError) as fault:
            if not is_full(faults):
                faults.add(table.OM_CANNOT_HOLD, place=place, what=f"attribute {name!r}", reason=fault)


def encode_graph(graph: OmGraph, wire: Wire, faults: Faults) -> None:
    """Write a graph; a value that does not fit is an E80021 among the faults.

    Cost: O(operators + edges + attributes).
    """
    wire.name = graph.name
    wire.input.extend(map(str, graph.inputs))
    wire.output.extend(map(str, graph.outputs))
    encode_attrs(graph.attrs, wire.attr, faults, graph.name)
    consumers = _consumers_of(graph)
    for op in graph.ops:
        if is_full(faults):
            return
        try:
            _encode_op(op, consumers[op.name], wire.op.add(), faults)
        except (ValueError, TypeError) as fault:
            faults.add(table.OM_CANNOT_HOLD, place=graph.name, what=f"operator {op.name!r}", reason=fault)


@dataclass(slots=True)
class _Consumers:
    """Who reads an operator: by output, and who only waits for it."""

    by_output: dict[int, list[tuple[str, int]]] = field(default_factory=dict[int, list[tuple[str, int]]])
    waiting: list[str] = field(default_factory=list[str])


def _consumers_of(graph: OmGraph) -> dict[str, _Consumers]:
    found = {op.name: _Consumers() for op in graph.ops}
    for op in graph.ops:
        for position, edge in enumerate(op.inputs):
            if edge is not None:
                found[edge.producer].by_output.setdefault(edge.index, []).append((op.name, position))
        for producer in op.control_inputs:
            found[producer].waiting.append(op.name)
    return found


def _encode_op(op: OmOp, consumers: _Consumers, wire: Wire, faults: Faults) -> None:
    wire.name, wire.type, wire.id, wire.stream_id = op.name, op.type, op.id, op.stream_id
    wire.has_out_attr = True
    wire.input.extend("" if edge is None else str(edge) for edge in op.inputs)
    wire.input.extend(f"{name}:-1" for name in op.control_inputs)
    encode_attrs(op.attrs, wire.attr, faults, op.name)
    _encode_names(op, wire.attr)
    wire.input_i.extend(op.input_offsets)
    wire.output_i.extend(op.output_offsets)
    wire.workspace.extend(item.offset_bytes for item in op.workspace)
    wire.workspace_bytes.extend(item.size_bytes for item in op.workspace)
    wire.is_input_const.extend(op.is_input_const)
    wire.subgraph_name.extend(op.subgraphs)
    for desc in op.input_descs:
        _encode_tensor(desc, wire.input_desc.add())
    for desc in op.output_descs:
        _encode_tensor(desc, wire.output_desc.add())
    # The edges once more, as engines and the naming of outputs read them.
    linked = [edge for edge in op.inputs if edge is not None]
    wire.src_name.extend(edge.producer for edge in linked)
    wire.src_index.extend(edge.index for edge in linked)
    if op.control_inputs:
        wire.src_name.append(":".join(op.control_inputs))
    if op.type == "NetOutput":
        return
    if consumers.waiting:
        wire.dst_name.append(":".join(consumers.waiting))
        wire.dst_index.append(-1)
    for index in range(len(op.output_descs)):
        readers = consumers.by_output.get(index, [])
        wire.dst_name.append(":".join(name for name, _ in readers))
        wire.dst_index.append(readers[-1][1] if readers else 0)


def _encode_names(op: OmOp, attrs: Wire) -> None:
    for names, stem in ((op.input_names, "_input_name"), (op.output_names, "_output_name")):
        if names:
            order = sorted(range(len(names)), key=names.__getitem__)
            _put_texts(attrs[f"{stem}_key"], (names[place] for place in order))
            _put_ints(attrs[f"{stem}_value"], order)
    if op.optional_inputs:
        _put_texts(attrs["_opt_input"], op.optional_inputs)
    if op.prototype is not None:
        _encode_prototype(op.prototype, attrs)


def _encode_prototype(prototype: Prototype, attrs: Wire) -> None:
    _put_texts(attrs["_ir_inputs_key"], (name for name, _ in prototype.inputs))
    _put_ints(attrs["_ir_inputs_value"], (kind.value for _, kind in prototype.inputs))
    _put_texts(attrs["_ir_outputs_key"], (name for name, _ in prototype.outputs))
    _put_ints(attrs["_ir_outputs_value"], (int(is_dynamic) for _, is_dynamic in prototype.outputs))
    _put_texts(attrs["_ir_attr_names"], prototype.attr_names)


def _put_texts(wire: Wire, items: Wire) -> None:
    # An empty list must say what it holds as well: loaders drop it otherwise.
    wire.list.val_type = ListKind.TEXT.value
    wire.list.s.extend(_text(item) for item in items)


def _put_ints(wire: Wire, items: Wire) -> None:
    wire.list.val_type = ListKind.INT.value
    wire.list.i.extend(items)


def _encode_tensor(desc: OmTensor, wire: Wire) -> None:
    if desc.name:
        wire.name = desc.name
    wire.dtype, wire.layout = desc.dtype, layout_in_file(desc.layout)
    if desc.is_shape_known:
        # Even a scalar needs its empty shape: viewers stumble over a missing one.
        wire.shape.SetInParent()
        wire.shape.dim.extend(desc.shape)
    wire.size, wire.weight_size, wire.data_offset = (
        desc.size_bytes, desc.weight_size_bytes, desc.data_offset,
    )  # fmt: skip
    wire.real_dim_cnt = len(desc.shape)
    wire.device_type = desc.device
    wire.input_tensor, wire.output_tensor = desc.is_graph_input, desc.is_graph_output
    if desc.reuse_input is not None:
        wire.reuse_input, wire.reuse_input_index = True, desc.reuse_input
    for name, value in desc.attrs.items():
        _encode_attr(value, wire.attr[name])
    if desc != ABSENT:
        _encode_origin(desc, wire.attr)


def _encode_origin(desc: OmTensor, attrs: Wire) -> None:
    number = format_number(desc.layout)
    if number is not None:
        attrs["format_for_int"].i = PackedFormat(number, desc.sub_format, desc.c0_code).pack()
    if desc.origin_layout:
        attrs["origin_format"].s = layout_in_file(desc.origin_layout).encode()
        number = format_number(desc.origin_layout)
        if number is not None:
            attrs["origin_format_for_int"].i = number
    if desc.origin_shape is not None:
        attrs["origin_shape_initialized"].b = True
        _put_ints(attrs["origin_shape"], desc.origin_shape)
    if desc.origin_dtype:
        attrs["origin_data_type"].s = f"DT_{dtype_name(desc.origin_dtype)}".encode()


def _encode_attr(value: OmAttr, wire: Wire) -> None:
    match value:
        case bool():
            wire.b = value
        case int():
            wire.i = value
        case float():
            wire.f = value
        case str() | RawText():
            wire.s = _text(value)
        case bytes():
            wire.bt = value
        case OmList():
            _encode_list(value, wire.list)
        case ExternalDType():
            wire.dt = value.number
        case TensorValue():
            _encode_tensor(value.desc, wire.t.desc)
            wire.t.data = value.data
        case OmTensor():
            _encode_tensor(value, wire.td)
        case NamedAttrs():
            _encode_named(value, wire.func)
        case OmGraph():
            _encode_inner_graph(value, wire.g)
        case IntLists():
            wire.list_list_int.SetInParent()
            for row in value.rows:
                wire.list_list_int.list_list_i.add().list_i.extend(row)
        case FloatLists():
            wire.list_list_float.SetInParent()
            for floats in value.rows:
                wire.list_list_float.list_list_f.add().list_f.extend(floats)
        case Expression():
            wire.expression = value.data
        case None:
            wire.SetInParent()


def _encode_list(value: OmList, wire: Wire) -> None:
    wire.val_type = value.kind.value
    wire.SetInParent()
    if (name := _NUMERIC_LISTS.get(value.kind)) is not None:
        getattr(wire, name).extend(value.items)
        return
    if value.kind is ListKind.TEXT:
        wire.s.extend(_text(item) for item in value.items)
        return
    for item in value.items:
        _encode_item(value.kind, item, wire)


def _encode_item(kind: ListKind, item: OmItem, wire: Wire) -> None:
    match kind, item:
        case ListKind.DTYPE, ExternalDType():
            wire.dt.append(item.number)
        case ListKind.TENSOR, TensorValue():
            target = wire.t.add()
            _encode_tensor(item.desc, target.desc)
            target.data = item.data
        case ListKind.DESC, OmTensor():
            _encode_tensor(item, wire.td.add())
        case ListKind.NAMED, NamedAttrs():
            _encode_named(item, wire.na.add())
        case ListKind.GRAPH, OmGraph():
            _encode_inner_graph(item, wire.g.add())
        case _:
            raise TypeError(f"a list of {kind.name} holds {type(item).__name__}")


def _encode_named(value: NamedAttrs, wire: Wire) -> None:
    wire.SetInParent()
    wire.name = value.name
    for name, item in value.attrs.items():
        _encode_attr(item, wire.attr[name])


def _encode_inner_graph(value: OmGraph, wire: Wire) -> None:
    inner = Faults()
    wire.SetInParent()
    encode_graph(value, wire, inner)
    inner.raise_if_any(OmError)


def _text(value: object) -> bytes:
    match value:
        case str():
            return escape(value.encode("utf-8", "surrogatepass"))
        case RawText():
            return escape(value.data)
        case _:
            raise TypeError(f"a text is {type(value).__name__}")
