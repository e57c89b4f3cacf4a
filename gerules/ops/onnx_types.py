"""ONNX's types and ours: element codes, and TypeProto in both directions."""

from __future__ import annotations

from typing import Final

from onnx import TensorProto, TensorShapeProto, TypeProto

from gerules.ir import UNKNOWN, Dim, DType, MapType, OptionalType, SequenceType, Shape, TensorType, ValueType

DTYPE_OF_CODE: Final[dict[int, DType]] = {
    TensorProto.UNDEFINED: DType.UNKNOWN,
    TensorProto.FLOAT: DType.F32,
    TensorProto.UINT8: DType.U8,
    TensorProto.INT8: DType.I8,
    TensorProto.UINT16: DType.U16,
    TensorProto.INT16: DType.I16,
    TensorProto.INT32: DType.I32,
    TensorProto.INT64: DType.I64,
    TensorProto.STRING: DType.STRING,
    TensorProto.BOOL: DType.BOOL,
    TensorProto.FLOAT16: DType.F16,
    TensorProto.DOUBLE: DType.F64,
    TensorProto.UINT32: DType.U32,
    TensorProto.UINT64: DType.U64,
    TensorProto.COMPLEX64: DType.C64,
    TensorProto.COMPLEX128: DType.C128,
    TensorProto.BFLOAT16: DType.BF16,
    TensorProto.FLOAT8E4M3FN: DType.F8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ: DType.F8E4M3FNUZ,
    TensorProto.FLOAT8E5M2: DType.F8E5M2,
    TensorProto.FLOAT8E5M2FNUZ: DType.F8E5M2FNUZ,
    TensorProto.UINT4: DType.U4,
    TensorProto.INT4: DType.I4,
    TensorProto.FLOAT4E2M1: DType.F4E2M1,
    # Codes newer than the oldest onnx release we accept have no name there.
    24: DType.F8E8M0,
    25: DType.U2,
    26: DType.I2,
}
"""The element type of each `TensorProto.DataType` code. Source: onnx.proto, TensorProto.DataType."""

CODE_OF_DTYPE: Final[dict[DType, int]] = {dtype: code for code, dtype in DTYPE_OF_CODE.items()}

DTYPE_OF_ONNX_NAME: Final[dict[str, DType]] = {
    "float": DType.F32,
    "double": DType.F64,
    "float16": DType.F16,
    "bfloat16": DType.BF16,
    "float8e4m3fn": DType.F8E4M3FN,
    "float8e4m3fnuz": DType.F8E4M3FNUZ,
    "float8e5m2": DType.F8E5M2,
    "float8e5m2fnuz": DType.F8E5M2FNUZ,
    "float8e8m0": DType.F8E8M0,
    "float4e2m1": DType.F4E2M1,
    "int64": DType.I64,
    "int32": DType.I32,
    "int16": DType.I16,
    "int8": DType.I8,
    "int4": DType.I4,
    "int2": DType.I2,
    "uint64": DType.U64,
    "uint32": DType.U32,
    "uint16": DType.U16,
    "uint8": DType.U8,
    "uint4": DType.U4,
    "uint2": DType.U2,
    "bool": DType.BOOL,
    "string": DType.STRING,
    "complex64": DType.C64,
    "complex128": DType.C128,
}
"""The element type of each name inside `tensor(...)` of a schema. Source: onnx/defs/data_type_utils.cc."""

_DEEPEST_TYPE: Final = 16
"""Sequences and optionals nest no deeper in any operator; a hostile file may try."""


def dims_of_proto(shape: TensorShapeProto) -> Shape:
    """Return the dims of a TensorShapeProto; names that are empty or odd become unknown."""
    dims: list[Dim] = []
    for dim in shape.dim:
        if dim.HasField("dim_value"):
            dims.append(dim.dim_value if dim.dim_value >= 0 else "?")
        else:
            dims.append(dim.dim_param or "?")
    return tuple(dims)


def type_of_proto(proto: TypeProto, depth: int = 0) -> ValueType:
    """Return our type of a TypeProto; what has no counterpart is an unknown tensor."""
    kind = proto.WhichOneof("value")
    if depth > _DEEPEST_TYPE or kind is None:
        return UNKNOWN
    if kind == "sequence_type":
        return SequenceType(type_of_proto(proto.sequence_type.elem_type, depth + 1))
    if kind == "optional_type":
        return OptionalType(type_of_proto(proto.optional_type.elem_type, depth + 1))
    if kind == "map_type":
        key = DTYPE_OF_CODE.get(proto.map_type.key_type, DType.UNKNOWN)
        return MapType(key, type_of_proto(proto.map_type.value_type, depth + 1))
    tensor = proto.sparse_tensor_type if kind == "sparse_tensor_type" else proto.tensor_type
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return UNKNOWN
    dtype = DTYPE_OF_CODE.get(tensor.elem_type, DType.UNKNOWN)
    return TensorType(dtype, dims_of_proto(tensor.shape) if tensor.HasField("shape") else None)


def proto_of_type(type: ValueType) -> TypeProto:
    """Return the TypeProto of one of our types; storage formats are not written."""
    proto = TypeProto()
    _fill(proto, type)
    return proto


def _fill(proto: TypeProto, type: ValueType) -> None:
    if isinstance(type, SequenceType):
        _fill(proto.sequence_type.elem_type, type.element)
    elif isinstance(type, OptionalType):
        _fill(proto.optional_type.elem_type, type.element)
    elif isinstance(type, MapType):
        proto.map_type.key_type = CODE_OF_DTYPE[type.key]
        _fill(proto.map_type.value_type, type.value)
    else:
        tensor = proto.tensor_type
        tensor.elem_type = CODE_OF_DTYPE[type.dtype]
        if type.shape is None:
            return
        tensor.shape.SetInParent()
        for dim in type.shape:
            entry = tensor.shape.dim.add()
            if isinstance(dim, int):
                entry.dim_value = dim
            elif dim != "?":
                entry.dim_param = dim
