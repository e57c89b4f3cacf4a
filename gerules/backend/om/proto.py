"""The protobuf messages of `.om` files, built from a table at import; no protoc, no generated code.

Each entry is `field number type`, with `*` for repeated and `{X}` for map<string, X>. `|` before a
field puts it into the message's one oneof. Messages that gerules does not look into are `bytes`:
on the wire the two are the same, and so their content survives.

Source: hicann/metadef `proto/ge_ir.proto`, `proto/task.proto`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, EncodeError

from gerules.backend.om.error import OmError
from gerules.errors import table

Wire = Any
"""A message whose fields exist at run time only. It goes no further than the codecs of this package."""

MAX_MESSAGE_BYTES: Final = (1 << 31) - 1
"""Source: protobuf's own limit on a serialized message."""

_GE: Final = {
    "ModelDef": "name 1 string, version 2 uint32, custom_version 3 string, graph 7 GraphDef*, "
    "attr 11 {AttrDef}, attr_groups 12 bytes",
    "GraphDef": "name 1 string, input 4 string*, output 5 string*, op 6 OpDef*, attr 11 {AttrDef}, "
    "attr_groups 12 bytes",
    "OpDef": "name 1 string, type 2 string, input 5 string*, attr 10 {AttrDef}, attr_groups 11 bytes, "
    "has_out_attr 20 bool, id 21 int64, stream_id 22 int64, input_name 23 string*, src_name 24 string*, "
    "src_index 25 int64*, dst_name 26 string*, dst_index 27 int64*, input_i 28 int64*, "
    "output_i 29 int64*, workspace 30 int64*, workspace_bytes 31 int64*, is_input_const 32 bool*, "
    "input_desc 33 TensorDescriptor*, output_desc 34 TensorDescriptor*, subgraph_name 35 string*",
    "TensorDescriptor": "name 1 string, dtype 2 int32, shape 3 ShapeDef, layout 4 string, "
    "attr 5 {AttrDef}, attr_groups 6 bytes, has_out_attr 9 bool, size 10 int64, weight_size 11 int64, "
    "reuse_input 12 bool, output_tensor 13 bool, device_type 14 string, input_tensor 15 bool, "
    "real_dim_cnt 16 int64, reuse_input_index 17 int64, data_offset 18 int64, cmps_size 19 int64, "
    "cmps_tab 20 string, cmps_tab_offset 21 int64",
    "ShapeDef": "dim 1 int64*",
    "TensorDef": "desc 1 TensorDescriptor, data 2 bytes",
    "NamedAttrs": "name 1 string, attr 2 {AttrDef}",
    "AttrDef": "|list 1 ListValue, |s 2 bytes, |i 3 int64, |f 4 float, |b 5 bool, |bt 7 bytes, "
    "|func 10 NamedAttrs, |td 11 TensorDescriptor, |t 12 TensorDef, |g 13 GraphDef, "
    "|list_list_int 14 ListListInt, |dt 15 int64, |list_list_float 16 ListListFloat, |expression 17 bytes",
    "ListValue": "s 2 bytes*, i 3 int64*, f 4 float*, b 5 bool*, bt 7 bytes*, td 8 TensorDescriptor*, "
    "t 9 TensorDef*, g 10 GraphDef*, na 11 NamedAttrs*, dt 12 int64*, val_type 20 int32",
    "ListListInt": "list_list_i 1 ListInt*",
    "ListInt": "list_i 1 int64*",
    "ListListFloat": "list_list_f 1 ListFloat*",
    "ListFloat": "list_f 1 float*",
}

_DOMI: Final = {
    "ModelTaskDef": "version 1 string, attr 9 {string}, task 10 TaskDef*, memory_size 11 uint64, "
    "stream_num 12 uint32, event_num 13 uint32, weight_size 14 uint64, op 15 bytes*, base_addr 16 uint64, "
    "weight_addr 17 uint64, batch_num 18 uint32",
    "TaskDef": "id 1 uint32, type 2 uint32, stream_id 10 uint32, event_id 11 uint32, notify_id 12 uint32, "
    "sqe_num 13 uint32, kernel 20 KernelDef, kernel_ex 21 KernelExDef, event_ex 26 EventExDef, "
    "label_id 30 uint32, memcpy_async 31 MemcpyAsyncDef, stream_switch 32 StreamSwitchDef, "
    "stream_active 33 StreamActiveDef, private_def 34 bytes, ops_kernel_store_ptr 35 uint64",
    "KernelDef": "context 1 KernelContext, is_block_task_prefetch 2 bool, stub_func 10 string, "
    "block_dim 11 uint32, args_size 12 uint32, args 13 bytes, sm_desc 14 bytes, flowtable 15 bytes, "
    "so_name 16 string, kernel_name 17 string, kernel_ext_info 18 bytes, kernel_ext_info_size 19 uint32, "
    "args_info 20 bytes*, schedule_mode 21 uint32, block_dim_offset 22 uint32",
    "KernelContext": "kernel_type 1 uint32, op_id 2 uint32, kernel_func_id 3 uint32, op_index 4 uint32, "
    "is_flowtable 5 bool, args_offset 6 bytes, args_count 7 uint32, origin_op_index 8 uint32*, "
    "args_format 10 string",
    "KernelExDef": "flags 1 uint32, op_index 4 uint32, args_size 12 uint32, args 13 bytes, "
    "task_info 14 bytes, task_info_size 15 uint32, kernel_ext_info 16 bytes, kernel_ext_info_size 17 uint32",
    "EventExDef": "op_index 1 uint32, event_type 2 uint32",
    "MemcpyAsyncDef": "dst 1 uint64, dst_max 2 uint64, src 3 uint64, count 4 uint64, kind 5 uint32, "
    "op_index 6 uint32, args_format 7 string",
    "StreamSwitchDef": "op_index 1 uint32, true_stream_id 2 uint32, value 3 int64, value_ptr 4 uint64, "
    "data_type 5 int64",
    "StreamActiveDef": "op_index 1 uint32, active_stream_id 2 uint32",
}

_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "float": _FIELD.TYPE_FLOAT,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64,
}


def _describe(package: str, messages: dict[str, str]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"gerules/{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            field, number, kind = text.split(" ")
            _add_field(message, f".{package}", field, int(number), kind)
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto, package: str, name: str, number: int, kind: str
) -> None:
    field = message.field.add(name=name.removeprefix("|"), number=number, label=_FIELD.LABEL_OPTIONAL)
    if name.startswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        field.oneof_index = 0
    if kind.endswith("*"):
        field.label = _FIELD.LABEL_REPEATED
        kind = kind[:-1]
    if not kind.startswith("{"):
        _set_type(field, package, kind)
        return
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
    _set_type(entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL), package, kind.strip("{}"))
    field.label = _FIELD.LABEL_REPEATED
    _set_type(field, package, f"{message.name}.{entry.name}")


def _set_type(field: descriptor_pb2.FieldDescriptorProto, package: str, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f"{package}.{kind}"


_POOL: Final = descriptor_pool.DescriptorPool()
"""A pool of its own, so that a program which also loads Huawei's generated code does not clash."""

_POOL.Add(_describe("ge.proto", _GE))  # pyright: ignore[reportUnknownMemberType]
_POOL.Add(_describe("domi", _DOMI))  # pyright: ignore[reportUnknownMemberType]


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


ModelDef: Final = _class("ge.proto.ModelDef")
GraphDef: Final = _class("ge.proto.GraphDef")
OpDef: Final = _class("ge.proto.OpDef")
AttrDef: Final = _class("ge.proto.AttrDef")
TensorDescriptor: Final = _class("ge.proto.TensorDescriptor")
ModelTaskDef: Final = _class("domi.ModelTaskDef")


def parse(kind: Any, data: memoryview | bytes, *, part: str, place: str = "") -> Wire:
    """Decode one message.

    Args:
        kind: A message class of this module.
        part: The partition it comes from, for messages.

    Raises:
        OmError: E80009 when the bytes do not decode or nest too deep; E80022 beyond 2 GiB.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise OmError(
            table.OM_PART_TOO_LARGE, place=place, part=part, size_bytes=len(data),
            limit_bytes=MAX_MESSAGE_BYTES,
        )  # fmt: skip
    name = kind.DESCRIPTOR.full_name
    try:
        return kind.FromString(bytes(data))
    except RecursionError:
        raise OmError(
            table.OM_BAD_MESSAGE, place=place, part=part, message=name, reason="it nests too deep"
        ) from None
    except (DecodeError, ValueError) as fault:
        raise OmError(table.OM_BAD_MESSAGE, place=place, part=part, message=name, reason=str(fault)) from None


def serialize(message: Wire, *, part: str) -> bytes:
    """Encode one message; equal messages give equal bytes.

    Raises:
        OmError: E80022 beyond 2 GiB; E80021 when it cannot be encoded.
    """
    size_bytes = message.ByteSize()
    if size_bytes > MAX_MESSAGE_BYTES:
        raise OmError(
            table.OM_PART_TOO_LARGE, part=part, size_bytes=size_bytes, limit_bytes=MAX_MESSAGE_BYTES
        )
    try:
        return message.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as fault:
        raise OmError(table.OM_CANNOT_HOLD, what=part, reason=str(fault)) from None
