"""Declared types of values, read once for each distinct type."""

from __future__ import annotations

from onnx import TypeProto, ValueInfoProto

from gerules.errors import table
from gerules.frontends.onnx.findings import Findings, text_of
from gerules.ir import UNKNOWN, ValueType
from gerules.ops.onnx_types import DTYPE_OF_CODE, type_of_proto


class ValueTypes:
    """Reads the types of one model's values."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        # Models have many values and few types; a dict look-up beats taking a message apart.
        self._known: dict[bytes, ValueType] = {b"": UNKNOWN}

    def read(self, proto: ValueInfoProto, place: str) -> ValueType:
        """Return a value's declared type; unknown when it declares none. A senseless one is reported."""
        declared = proto.type
        key = declared.SerializeToString()
        found = self._known.get(key)
        if found is None:
            self._check(declared, proto.name, place)
            found = self._known[key] = type_of_proto(declared)
        return found

    def _check(self, proto: TypeProto, name: str, place: str) -> None:
        kind = proto.WhichOneof("value")
        while kind in ("sequence_type", "optional_type", "map_type"):
            if kind == "map_type":
                proto = proto.map_type.value_type
            else:
                proto = (proto.sequence_type if kind == "sequence_type" else proto.optional_type).elem_type
            kind = proto.WhichOneof("value")
        if kind != "tensor_type":
            return
        tensor = proto.tensor_type
        if tensor.elem_type not in DTYPE_OF_CODE:
            reason = f"element type {tensor.elem_type} is unknown"
            self._findings.add(table.BAD_TYPE, place=place, name=name, reason=reason)
        for dim in tensor.shape.dim:
            text_of(dim.dim_param)
        # Some exporters write -1 for a dimension that is not known.
        if any(dim.dim_value < -1 for dim in tensor.shape.dim):
            sizes = [dim.dim_value for dim in tensor.shape.dim]
            reason = f"its shape {sizes} has a negative dimension"
            self._findings.add(table.BAD_TYPE, place=place, name=name, reason=reason)
