"""AttributeProto to attribute values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from onnx import AttributeProto

from gerules.errors import table
from gerules.frontends.onnx.findings import Findings, shorten
from gerules.frontends.onnx.operators import OpFacts, closest
from gerules.frontends.onnx.tensors import Tensors, text_or_bytes
from gerules.ir import Attr, Const, DType
from gerules.ops.onnx_types import DTYPE_OF_CODE, type_of_proto

_INT: Final = AttributeProto.INT
_INTS: Final = AttributeProto.INTS
_FLOAT: Final = AttributeProto.FLOAT
_FLOATS: Final = AttributeProto.FLOATS
_STRING: Final = AttributeProto.STRING

KIND_OF_TYPE: Final[dict[int, str]] = {
    AttributeProto.FLOAT: "float",
    AttributeProto.INT: "int",
    AttributeProto.STRING: "string",
    AttributeProto.TENSOR: "tensor",
    AttributeProto.GRAPH: "graph",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "type",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "types",
}
"""As `AttrSpec.kind` names them. Source: onnx.proto, AttributeProto.AttributeType."""

_KIND_OF_FIELD: Final = {
    "f": "float", "i": "int", "s": "string", "t": "tensor", "g": "graph", "floats": "floats", "ints": "ints",
    "strings": "strings", "tensors": "tensors", "graphs": "graphs", "sparse_tensor": "sparse_tensor",
    "sparse_tensors": "sparse_tensors", "tp": "type", "type_protos": "types",
}  # fmt: skip


def kind_of(proto: AttributeProto) -> str:
    """Return the kind of an attribute; files of IR version 1 leave it to the field in use."""
    kind = KIND_OF_TYPE.get(proto.type)
    if kind is not None:
        return kind
    if proto.type:
        return "unknown"
    in_use = [_KIND_OF_FIELD[field.name] for field, _ in proto.ListFields() if field.name in _KIND_OF_FIELD]
    return in_use[0] if len(in_use) == 1 else "unknown"


class Attributes:
    """Reads the attributes of one model's nodes, except graphs."""

    def __init__(self, tensors: Tensors, findings: Findings) -> None:
        self._tensors = tensors
        self._findings = findings

    def read(
        self, proto: AttributeProto, name: str, wanted: str | None, place: Callable[[], str]
    ) -> Attr | None:
        """Return an attribute's value, or None when it is faulty (and reported).

        Args:
            name: The attribute's name at the node.
            wanted: The kind that the operator defines; None when any is taken.
            place: Names the node, when there is something to report.
        """
        type_ = proto.type
        if type_ == _INT:
            if wanted == "int" or wanted is None:
                return proto.i
            if wanted == "dtype":
                dtype = DTYPE_OF_CODE.get(proto.i)
                return self._dtype_fault(proto.i, name, place) if dtype is None else dtype
        elif type_ == _INTS and (wanted == "ints" or wanted is None):
            return tuple(proto.ints)
        elif type_ == _FLOAT and (wanted == "float" or wanted is None):
            return proto.f
        elif type_ == _STRING and (wanted == "string" or wanted is None):
            return text_or_bytes(proto.s)
        kind = kind_of(proto)
        if wanted is not None and kind != ("int" if wanted == "dtype" else wanted):
            return self._mistyped(name, kind, wanted, place)
        return self._read_rare(proto, name, kind, wanted, place)

    def _read_rare(
        self, proto: AttributeProto, name: str, kind: str, wanted: str | None, place: Callable[[], str]
    ) -> Attr | None:
        match kind:
            case "int" if wanted == "dtype":
                dtype = DTYPE_OF_CODE.get(proto.i)
                return self._dtype_fault(proto.i, name, place) if dtype is None else dtype
            case "int":
                return proto.i
            case "ints":
                return tuple(proto.ints)
            case "float":
                return proto.f
            case "floats":
                return tuple(proto.floats)
            case "string":
                return text_or_bytes(proto.s)
            case "strings":
                texts = [text_or_bytes(raw) for raw in proto.strings]
                if all(isinstance(text, str) for text in texts):
                    return tuple(text for text in texts if isinstance(text, str))
                return tuple(bytes(raw) for raw in proto.strings)
            case "tensor":
                return Const(self._tensors.read(proto.t, name, place))
            case "sparse_tensor":
                return Const(self._tensors.read_sparse(proto.sparse_tensor, name, place))
            case "tensors":
                return tuple(Const(self._tensors.read(tensor, name, place)) for tensor in proto.tensors)
            case "type":
                return type_of_proto(proto.tp)
            case _:
                return self._mistyped(name, kind, wanted or "a number, text, tensor or type", place)

    def _mistyped(self, name: str, found: str, wanted: str, place: Callable[[], str]) -> None:
        self._findings.add(table.MISTYPED_ATTRIBUTE, place=place(), attr=name, found=found, expected=wanted)

    def _dtype_fault(self, code: int, name: str, place: Callable[[], str]) -> DType | None:
        self._mistyped(name, f"the number {code}", "the code of an element type", place)
        return None

    def unknown(self, name: str, facts: OpFacts, place: str, opset: int) -> None:
        """Report an attribute that the operator does not have."""
        close = closest(name, facts.kinds)
        self._findings.add(
            table.UNKNOWN_MODEL_ATTRIBUTE,
            place=place,
            op=facts.op,
            attr=shorten(name),
            opset=opset,
            remedy=f"did you mean {close}?" if close else "export the model again",
        )
