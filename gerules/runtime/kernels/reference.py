"""Operators without a kernel of their own, evaluated by `onnx.reference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op
from onnx.reference.ops.aionnx_preview_training import load_op as load_training_op
from onnx.reference.ops.aionnxml import load_op as load_ml_op

from gerules.ir import (
    Attr,
    Const,
    DType,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    dtype_of,
)
from gerules.runtime.kernels.contract import Array

_CACHED_NODES: Final = 1024
"""Evaluators kept; one holds the tensors of its attributes alive."""

_WITH_BODIES: Final = frozenset({"If", "Loop", "Scan", "SequenceMap"})

ELEM_TYPE: Final[Mapping[DType, int]] = {
    DType.F32: 1, DType.U8: 2, DType.I8: 3, DType.U16: 4, DType.I16: 5, DType.I32: 6, DType.I64: 7,
    DType.STRING: 8, DType.BOOL: 9, DType.F16: 10, DType.F64: 11, DType.U32: 12, DType.U64: 13,
    DType.C64: 14, DType.C128: 15, DType.BF16: 16, DType.F8E4M3FN: 17, DType.F8E4M3FNUZ: 18,
    DType.F8E5M2: 19, DType.F8E5M2FNUZ: 20, DType.U4: 21, DType.I4: 22, DType.F4E2M1: 23,
    DType.F8E8M0: 24, DType.U2: 25, DType.I2: 26, DType.UNKNOWN: 0,
}  # fmt: skip
"""ONNX's codes of element types. Source: onnx.proto, TensorProto.DataType."""


def split_op(op: str) -> tuple[str, str]:
    """Return the domain and the bare name of `Conv` or `domain::Name`."""
    domain, _, name = op.rpartition("::")
    return ("", op) if not domain else ("" if domain == "ai.onnx" else domain, name)


_LOADERS: Final[Mapping[str, Callable[[str, str, int], object]]] = {
    "": load_op,
    "ai.onnx.ml": load_ml_op,
    "ai.onnx.preview.training": load_training_op,
}


@lru_cache(maxsize=4096)
def has_reference(op: str, opset: int) -> bool:
    """Whether `onnx.reference` evaluates the operator, by itself or by its function."""
    domain, name = split_op(op)
    if name in _WITH_BODIES and not domain:
        return False
    version = _version(domain, opset)
    try:
        schema = onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return False
    # The two properties are missing from onnx's type stubs.
    if getattr(schema, "has_function", False) or getattr(schema, "has_context_dependent_function", False):
        return True
    try:
        loader = _LOADERS.get(domain)
        if loader is None:
            return False
        loader(domain, name, version)
    except (NotImplementedError, RuntimeError, ValueError):
        return False
    return True


def run_reference(
    op: str, inputs: Sequence[Array | None], attrs: Mapping[str, Attr], opset: int, n_outputs: int
) -> list[Array]:
    """Evaluate one operator. Whatever `onnx.reference` raises passes through.

    Sequences are Python lists, optionals that hold nothing are None.
    """
    kinds = tuple(_kind_of(item) for item in inputs)
    in_order = tuple(sorted(attrs.items(), key=lambda item: item[0]))
    evaluator = _evaluator(op, kinds, in_order, opset, n_outputs)
    feed = {f"i{index}": item for index, item in enumerate(inputs) if item is not None}
    with np.errstate(all="ignore"):
        return cast(list[Array], evaluator.run(None, feed))  # pyright: ignore[reportUnknownMemberType]


def _kind_of(item: object) -> DType | None:
    """Return the element type of a tensor; UNKNOWN for a list, None for what is absent."""
    if item is None:
        return None
    return dtype_of(cast(Array, item)) if isinstance(item, np.ndarray) else DType.UNKNOWN


@lru_cache(maxsize=_CACHED_NODES)
def _evaluator(
    op: str, kinds: tuple[DType | None, ...], attrs: tuple[tuple[str, Attr], ...], opset: int, n_outputs: int
) -> ReferenceEvaluator:
    domain, name = split_op(op)
    names = ["" if kind is None else f"i{index}" for index, kind in enumerate(kinds)]
    while names and not names[-1]:
        names.pop()
    node = onnx.NodeProto(op_type=name, domain=domain, input=names)
    node.output.extend(f"o{index}" for index in range(n_outputs))
    node.attribute.extend(to_onnx_attribute(key, value) for key, value in attrs)
    graph = onnx.GraphProto(name=name)
    graph.node.append(node)
    for index, kind in enumerate(kinds):
        if kind is None:
            continue
        info = onnx.ValueInfoProto(name=f"i{index}")
        if kind is not DType.UNKNOWN:
            info.type.tensor_type.elem_type = ELEM_TYPE[kind]
        graph.input.append(info)
    graph.output.extend(onnx.ValueInfoProto(name=f"o{index}") for index in range(n_outputs))
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph)
    model.opset_import.add(domain="", version=opset)
    if domain:
        model.opset_import.add(domain=domain, version=_version(domain, opset))
    return ReferenceEvaluator(model)


def _version(domain: str, opset: int) -> int:
    """Return the version a domain is run at: the model's for ONNX, the newest for any other."""
    return opset if not domain else _newest_versions().get(domain, 1)


@lru_cache(maxsize=1)
def _newest_versions() -> Mapping[str, int]:
    found: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas():
        found[schema.domain] = max(found.get(schema.domain, 1), schema.since_version)
    return found


def to_onnx_attribute(name: str, value: Attr) -> onnx.AttributeProto:
    """Return an attribute as ONNX writes it. Raises TypeError for a value ONNX has no form of."""
    proto = onnx.AttributeProto(name=name)
    if isinstance(value, DType):
        proto.type, proto.i = onnx.AttributeProto.INT, ELEM_TYPE[value]
    elif isinstance(value, int):
        proto.type, proto.i = onnx.AttributeProto.INT, value
    elif isinstance(value, float):
        proto.type, proto.f = onnx.AttributeProto.FLOAT, value
    elif isinstance(value, (str, bytes)):
        proto.type, proto.s = onnx.AttributeProto.STRING, _as_bytes(value)
    elif isinstance(value, Const):
        proto.type = onnx.AttributeProto.TENSOR
        proto.t.CopyFrom(onnx.numpy_helper.from_array(value.array))
    elif isinstance(value, tuple):
        _set_list(proto, name, value)
    else:
        proto.type = onnx.AttributeProto.TYPE_PROTO
        proto.tp.CopyFrom(_to_onnx_type(value))
    return proto


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _set_list(proto: onnx.AttributeProto, name: str, values: tuple[object, ...]) -> None:
    # An empty list has lost its kind; ONNX's operators have empty lists of integers only.
    if all(isinstance(item, int) for item in values):
        proto.type = onnx.AttributeProto.INTS
        proto.ints.extend(item for item in values if isinstance(item, int))
    elif all(isinstance(item, (int, float)) for item in values):
        proto.type = onnx.AttributeProto.FLOATS
        proto.floats.extend(float(item) for item in values if isinstance(item, (int, float)))
    elif all(isinstance(item, (str, bytes)) for item in values):
        proto.type = onnx.AttributeProto.STRINGS
        proto.strings.extend(_as_bytes(item) for item in values if isinstance(item, (str, bytes)))
    elif all(isinstance(item, Const) for item in values):
        proto.type = onnx.AttributeProto.TENSORS
        arrays = [item.array for item in values if isinstance(item, Const)]
        proto.tensors.extend(onnx.numpy_helper.from_array(array) for array in arrays)
    else:
        raise TypeError(f"attribute {name} mixes kinds")


def _to_onnx_type(value: ValueType) -> onnx.TypeProto:
    proto = onnx.TypeProto()
    if isinstance(value, TensorType):
        proto.tensor_type.elem_type = ELEM_TYPE[value.dtype]
        for dim in value.shape or ():
            if isinstance(dim, int):
                proto.tensor_type.shape.dim.add(dim_value=dim)
            else:
                proto.tensor_type.shape.dim.add(dim_param=dim)
    elif isinstance(value, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(_to_onnx_type(value.element))
    elif isinstance(value, OptionalType):
        proto.optional_type.elem_type.CopyFrom(_to_onnx_type(value.element))
    else:
        assert isinstance(value, MapType)
        proto.map_type.key_type = ELEM_TYPE[value.key]
        proto.map_type.value_type.CopyFrom(_to_onnx_type(value.value))
    return proto
