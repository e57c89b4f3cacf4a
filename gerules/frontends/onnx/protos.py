"""Constants, attributes and types as the messages that ONNX files are made of."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, TensorProto, TypeProto

from gerules.frontends.onnx.tensors import pack
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
    dtype_of,
    from_storage,
)
from gerules.ops.onnx_types import CODE_OF_DTYPE, proto_of_type

Array = npt.NDArray[np.generic]

_TYPE_OF_KIND: Final[dict[str, AttributeProto.AttributeType]] = {
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
}


def logical_array(const: Const, type: ValueType) -> Array:
    """Return a constant in plain layout; a stored weight may lie in a device format."""
    if isinstance(type, TensorType) and type.format is not Format.ND and type.is_static:
        return from_storage(const.array, type.static_shape, type.format, type.dtype, groups=type.groups)
    return const.array


def fill_header(proto: TensorProto, array: Array) -> DType:
    """Set shape and element type, and for texts the elements too."""
    dtype = dtype_of(array)
    proto.dims.extend(array.shape)
    proto.data_type = CODE_OF_DTYPE[dtype]
    if dtype is DType.STRING:
        flat: list[object] = array.reshape(-1).tolist()
        proto.string_data.extend(item if isinstance(item, bytes) else str(item).encode() for item in flat)
    return dtype


def payload_of(array: Array, dtype: DType) -> memoryview:
    """Return the elements as ONNX stores them in `raw_data`; a view where they lie so already."""
    if 0 < dtype.bits < 8:
        return pack(array, dtype).data
    # A file may hold big-endian arrays of a caller.
    plain = np.ascontiguousarray(array).astype(dtype.numpy, copy=False)
    return plain.reshape(-1).view(np.uint8).data


def fill_tensor(proto: TensorProto, array: Array) -> None:
    """Set a whole tensor."""
    dtype = fill_header(proto, array)
    if dtype is not DType.STRING:
        proto.raw_data = bytes(payload_of(array, dtype))


def fill_attribute(proto: AttributeProto, name: str, value: Attr, wanted: str | None) -> None:
    """Set an attribute. The schema's kind decides where the value alone leaves it open."""
    proto.name = name
    if isinstance(value, tuple):
        _fill_list(proto, value, wanted)
    elif isinstance(value, DType):
        proto.type = AttributeProto.INT
        proto.i = CODE_OF_DTYPE[value]
    elif isinstance(value, int) and wanted != "float":
        proto.type = AttributeProto.INT
        proto.i = value
    elif isinstance(value, (int, float)):
        proto.type = AttributeProto.FLOAT
        proto.f = value
    elif isinstance(value, (str, bytes)):
        proto.type = AttributeProto.STRING
        proto.s = value if isinstance(value, bytes) else value.encode()
    elif isinstance(value, Const):
        proto.type = AttributeProto.TENSOR
        fill_tensor(proto.t, value.array)
    else:
        proto.type = AttributeProto.TYPE_PROTO
        proto.tp.CopyFrom(proto_of_type(value))


def _fill_list(
    proto: AttributeProto,
    value: tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | tuple[bytes, ...] | tuple[Const, ...],
    wanted: str | None,
) -> None:
    if not value:
        proto.type = _TYPE_OF_KIND.get(wanted or "", AttributeProto.INTS)
        return
    for item in value:
        if isinstance(item, Const):
            proto.type = AttributeProto.TENSORS
            fill_tensor(proto.tensors.add(), item.array)
        elif isinstance(item, (str, bytes)):
            proto.type = AttributeProto.STRINGS
            proto.strings.append(item if isinstance(item, bytes) else item.encode())
        elif wanted == "floats" or any(isinstance(number, float) for number in value):
            proto.type = AttributeProto.FLOATS
            proto.floats.append(item)
        else:
            proto.type = AttributeProto.INTS
            proto.ints.append(int(item))


def dtypes_in(type: ValueType) -> set[DType]:
    """Return the element types a type mentions; `UNKNOWN` among them when it is not fully known."""
    if isinstance(type, (SequenceType, OptionalType)):
        return dtypes_in(type.element)
    if isinstance(type, MapType):
        return {type.key} | dtypes_in(type.value)
    return {type.dtype}


class TypeProtos:
    """Each distinct type as a message, made once, and the element types met on the way."""

    def __init__(self) -> None:
        self._known: dict[ValueType, TypeProto | None] = {}
        self.dtypes: set[DType] = set()

    def get(self, type: ValueType) -> TypeProto | None:
        """Return the message of a type, or None when its element type is unknown."""
        if type not in self._known:
            mentioned = dtypes_in(type)
            self.dtypes |= mentioned
            self._known[type] = None if DType.UNKNOWN in mentioned else proto_of_type(type)
        return self._known[type]
