"""onnx's own inference, one node at a time: for operators that no rule of ours covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx
import onnx.shape_inference
from onnx import AttributeProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from gerules.errors import table
from gerules.ir import UNKNOWN, Attr, Const, DType, MapType, OptionalType, SequenceType, TensorType, ValueType
from gerules.ops.call import Call, Misfit
from gerules.ops.onnx_types import CODE_OF_DTYPE, proto_of_type, type_of_proto
from gerules.ops.registry import raw_schema, split_op

_LARGEST_CONTENT: Final = 1024
"""Elements of a constant that onnx's inference may look at; larger ones never decide a shape."""

_ATTR_TYPES: Final = {
    "float": AttributeProto.FLOAT,
    "int": AttributeProto.INT,
    "string": AttributeProto.STRING,
    "tensor": AttributeProto.TENSOR,
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
    "type": AttributeProto.TYPE_PROTO,
}


def infer_by_onnx(call: Call, kinds: Mapping[str, str]) -> list[ValueType] | None:
    """Return what onnx infers for a node without bodies, or None when it knows nothing.

    Args:
        call: The application.
        kinds: The kind of each attribute, as the schema has it.

    Raises:
        Misfit: E30007 when onnx rejects the node and all input types are known; E30003 for an attribute
            that cannot be written as its kind.
    """
    raw = raw_schema(call.op, call.opset)
    if raw is None:
        return None
    node = _node(call, kinds)
    types: dict[str, TypeProto] = {}
    contents: dict[str, TensorProto] = {}
    for index, type in enumerate(call.inputs):
        if type is None:
            continue
        types[f"i{index}"] = proto_of_type(type)
        const = call.consts[index] if index < len(call.consts) else None
        if const is not None and const.array.size <= _LARGEST_CONTENT:
            contents[f"i{index}"] = _tensor(const)
    domain, _ = split_op(call.op)
    imports = [helper.make_opsetid(domain, max(1, call.opset))]
    try:
        found = onnx.shape_inference.infer_node_outputs(raw, node, types, contents, opset_imports=imports)
    except Exception as fault:
        # What crosses from onnx's C++ has no common base (InferenceError, ValidationError, RuntimeError ...).
        if all(type is None or _is_typed(type) for type in call.inputs):
            raise Misfit(table.INFERENCE_FAILED, reason=_first_line(fault)) from None
        return None
    return [
        type_of_proto(found[f"o{index}"]) if f"o{index}" in found else UNKNOWN
        for index in range(call.n_outputs)
    ]


def _node(call: Call, kinds: Mapping[str, str]) -> NodeProto:
    domain, name = split_op(call.op)
    node = NodeProto()
    node.op_type, node.domain = name, domain
    node.input.extend("" if type is None else f"i{index}" for index, type in enumerate(call.inputs))
    node.output.extend(f"o{index}" for index in range(call.n_outputs))
    for key, value in call.attrs.items():
        try:
            kind = "int" if isinstance(value, DType) else kinds.get(key, "")
            made = helper.make_attribute(key, _plain(value), attr_type=_ATTR_TYPES.get(kind))
        except (TypeError, ValueError, KeyError, OverflowError, AssertionError):
            raise Misfit(table.BAD_ATTRIBUTE, attr=key, reason="has another kind of value") from None
        node.attribute.append(made)
    return node


def _plain(value: Attr) -> int | float | str | bytes | TensorProto | TypeProto | Sequence[object]:
    if isinstance(value, DType):
        return CODE_OF_DTYPE[value]
    if isinstance(value, Const):
        return _tensor(value)
    if isinstance(value, TensorType | SequenceType | OptionalType | MapType):
        return proto_of_type(value)
    if isinstance(value, tuple):
        return [_tensor(entry) if isinstance(entry, Const) else entry for entry in value]
    return value


def _tensor(const: Const) -> TensorProto:
    array = const.array
    if array.dtype.kind == "O":
        texts = TensorProto(data_type=TensorProto.STRING, dims=array.shape)
        texts.string_data.extend(map(_encoded, array.reshape(-1).tolist()))
        return texts
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))


def _encoded(entry: object) -> bytes:
    return entry if isinstance(entry, bytes) else str(entry).encode()


def _is_typed(type: ValueType) -> bool:
    return not isinstance(type, TensorType) or type.dtype is not DType.UNKNOWN


def _first_line(fault: Exception) -> str:
    text = str(fault).strip()
    return text.splitlines()[0][:300] if text else type(fault).__name__
