"""The registry: operator schemas by name and version, from `onnx.defs` and from `define`s."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx
import onnx.defs
from onnx import AttributeProto

from gerules.ir import Attr, Const, DType
from gerules.ops.onnx_types import DTYPE_OF_CODE, DTYPE_OF_ONNX_NAME, type_of_proto
from gerules.ops.schema import AttrSpec, OpSchema, Param, ParamKind

_ASSOCIATIVE: Final = frozenset(
    ("Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
)
"""Associative over the reals; that floats round is the business of the rule that uses it."""

_COMMUTATIVE: Final = _ASSOCIATIVE | {"Mean", "Equal"}

_RANDOM: Final = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"]
)
_RENAMED: Final = {
    ("Pad", "value"): "constant_value",
    ("Pad", "paddings"): "pads",
    ("TopK", "k"): "K",
    ("Upsample", "height_scale"): "scales",
    ("Upsample", "width_scale"): "scales",
}
"""Attributes that became inputs (or other attributes) under another name. Source: onnx Changelog.md."""

_DTYPE_ATTRS: Final = frozenset(
    ["to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision", "precision"]
)
"""Integer attributes whose value is a code of TensorProto.DataType, in every operator that has them."""

_AttrType = onnx.defs.OpSchema.AttrType

_KINDS: Final = {
    _AttrType.FLOAT: "float",
    _AttrType.INT: "int",
    _AttrType.STRING: "string",
    _AttrType.TENSOR: "tensor",
    _AttrType.GRAPH: "graph",
    _AttrType.SPARSE_TENSOR: "sparse_tensor",
    _AttrType.TYPE_PROTO: "type",
    _AttrType.FLOATS: "floats",
    _AttrType.INTS: "ints",
    _AttrType.STRINGS: "strings",
    _AttrType.TENSORS: "tensors",
    _AttrType.GRAPHS: "graphs",
    _AttrType.SPARSE_TENSORS: "sparse_tensors",
    _AttrType.TYPE_PROTOS: "types",
}


@dataclass(frozen=True, slots=True)
class Keyword:
    """What a keyword means at one version of an operator: an attribute, or the input at `input_index`."""

    name: str
    input_index: int | None = None

    @property
    def is_attr(self) -> bool:
        """Whether the keyword is an attribute at this version."""
        return self.input_index is None


@dataclass(frozen=True, slots=True)
class Signature:
    """A schema, prepared for checking many nodes against it."""

    schema: OpSchema
    min_inputs: int
    max_inputs: int | None
    required_attrs: frozenset[str]

    def takes(self, n_inputs: int) -> bool:
        """Whether a node may have so many inputs."""
        return n_inputs >= self.min_inputs and (self.max_inputs is None or n_inputs <= self.max_inputs)

    def param(self, index: int) -> Param:
        """Return what the input at `index` is; the last one again for variadic inputs."""
        inputs = self.schema.inputs
        return inputs[index] if index < len(inputs) else inputs[-1]


def _signature(schema: OpSchema) -> Signature:
    # Graphs are bodies of a node, not attributes.
    required = frozenset(
        name for name, spec in schema.attrs.items() if spec.is_required and not spec.kind.startswith("graph")
    )
    return Signature(schema, schema.min_inputs, schema.max_inputs, required)


class Schemas:
    """Every operator known, by name and version.

    An operator is `Conv` in the ONNX domain and `domain::Name` in any other. Versions count per
    domain.
    """

    def __init__(self) -> None:
        self._cache: dict[tuple[str, int | None], OpSchema | None] = {}
        self._by_since: dict[tuple[str, int], OpSchema] = {}
        self._defined: dict[str, OpSchema] = {}
        self._signatures: dict[tuple[str, int | None], Signature | None] = {}
        self._keywords: dict[tuple[str, str, int | None], Keyword | None] = {}

    @property
    def latest_opset(self) -> int:
        """The newest version of the ONNX domain that the installed `onnx` knows."""
        return onnx.defs.onnx_opset_version()

    def get(self, op: str, opset: int | None = None) -> OpSchema | None:
        """Return the schema of an operator at a version of its domain, or None when there is none.

        Without `opset` it is the newest. An operator that a `define` gave has one version only.
        """
        key = (op, opset)
        try:
            return self._cache[key]
        except KeyError:
            found = self._cache[key] = self._find(op, opset)
            return found

    def define(self, schema: OpSchema) -> None:
        """Add an operator that a `define` describes; it hides one of the same name."""
        self._defined[schema.op] = schema
        self._cache = {key: known for key, known in self._cache.items() if key[0] != schema.op}
        self._signatures = {key: known for key, known in self._signatures.items() if key[0] != schema.op}
        self._keywords = {key: known for key, known in self._keywords.items() if key[0] != schema.op}

    def signature(self, op: str, opset: int | None = None) -> Signature | None:
        """Return the schema of an operator in the form that inference checks nodes with."""
        key = (op, opset)
        if key not in self._signatures:
            schema = self.get(op, opset)
            self._signatures[key] = None if schema is None else _signature(schema)
        return self._signatures[key]

    def is_defined(self, op: str) -> bool:
        """Whether a `define` gave the operator."""
        return op in self._defined

    def names(self) -> frozenset[str]:
        """Return the names of all operators, in every domain."""
        return frozenset(_history()) | self._defined.keys()

    def attr_or_input(self, op: str, name: str, opset: int | None = None) -> Keyword | None:
        """Say what keyword `name` means for `op` at a version: an attribute, or one of the inputs.

        A name from another version leads to what replaced it (`TopK.k` to input `K`, `Pad.value` to
        input `constant_value`). None when this version has no such parameter.

        >>> Schemas().attr_or_input("ReduceMean", "axes", 13)
        Keyword(name='axes', input_index=None)
        >>> Schemas().attr_or_input("ReduceMean", "axes", 18)
        Keyword(name='axes', input_index=1)
        """
        key = (op, name, opset)
        if key not in self._keywords:
            schema = self.get(op, opset)
            self._keywords[key] = None if schema is None else _keyword(schema, name)
        return self._keywords[key]

    def moved(self, op: str) -> frozenset[str]:
        """Return the names that are an attribute at one version of `op` and an input at another."""
        versions = [_converted(schema) for schema in _history().get(op, ())]
        attrs = {name for schema in versions for name in schema.attrs}
        inputs = {param.name for schema in versions for param in schema.inputs}
        return frozenset(name for name in attrs if name in inputs or _RENAMED.get((op, name)) in inputs)

    def _find(self, op: str, opset: int | None) -> OpSchema | None:
        if op in self._defined:
            return self._defined[op]
        domain, name = split_op(op)
        try:
            if opset is None:
                raw = onnx.defs.get_schema(name, domain)
            else:
                raw = onnx.defs.get_schema(name, max(0, min(opset, _LARGEST_OPSET)), domain)
        except onnx.defs.SchemaError:
            return None
        key = (op, raw.since_version)
        if key not in self._by_since:
            self._by_since[key] = _converted(raw)
        return self._by_since[key]


_LARGEST_OPSET: Final = 2**31 - 1
"""onnx takes versions as C ints."""


def split_op(op: str) -> tuple[str, str]:
    """Return the domain (`""` for ONNX) and the name of an operator."""
    domain, _, name = op.rpartition("::")
    return domain, name


def raw_schema(op: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return onnx's own schema of an operator, or None when it has none."""
    domain, name = split_op(op)
    try:
        return onnx.defs.get_schema(name, max(0, min(opset, _LARGEST_OPSET)), domain)
    except onnx.defs.SchemaError:
        return None


def _keyword(schema: OpSchema, name: str) -> Keyword | None:
    if name in schema.attrs:
        return Keyword(name)
    for index, param in enumerate(schema.inputs):
        if param.name == name:
            return Keyword(name, index)
    other = _RENAMED.get((schema.op, name))
    return None if other is None else _keyword(schema, other)


@functools.cache
def _history() -> dict[str, list[onnx.defs.OpSchema]]:
    found: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault(_op_name(schema), []).append(schema)
    return found


def _op_name(schema: onnx.defs.OpSchema) -> str:
    return f"{schema.domain}::{schema.name}" if schema.domain else schema.name


def _converted(schema: onnx.defs.OpSchema) -> OpSchema:
    is_onnx = schema.domain == ""
    return OpSchema(
        _op_name(schema),
        schema.since_version,
        tuple(_param(param, schema) for param in schema.inputs),
        tuple(_param(param, schema) for param in schema.outputs),
        {name: _attr(name, attr) for name, attr in sorted(schema.attributes.items())},
        is_commutative=is_onnx and schema.name in _COMMUTATIVE,
        is_associative=is_onnx and schema.name in _ASSOCIATIVE,
        # Whether Dropout draws depends on its inputs; the cautious answer holds for the operator.
        is_deterministic=not is_onnx or (schema.name not in _RANDOM and not _may_train(schema)),
        doc=str(schema.doc or "").strip(),
        is_deprecated=schema.deprecated,
    )


def _may_train(schema: onnx.defs.OpSchema) -> bool:
    """Dropout draws in training; versions that can have a `training_mode` input or an `is_test` attribute."""
    if schema.name != "Dropout":
        return False
    return "is_test" in schema.attributes or any(param.name == "training_mode" for param in schema.inputs)


def _param(param: onnx.defs.OpSchema.FormalParameter, schema: onnx.defs.OpSchema) -> Param:
    option = param.option
    if option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
        kind = ParamKind.VARIADIC
    elif option == onnx.defs.OpSchema.FormalParameterOption.Optional:
        kind = ParamKind.OPTIONAL
    else:
        kind = ParamKind.REQUIRED
    is_var = any(constraint.type_param_str == param.type_str for constraint in schema.type_constraints)
    # A heterogeneous variadic (Loop's carried values) uses one variable for unlike types.
    type_var = param.type_str if is_var and param.is_homogeneous else ""
    return Param(param.name, kind, _dtypes(param.types), type_var, param.min_arity)


def _dtypes(types: set[str]) -> frozenset[DType] | None:
    """The element types of `tensor(...)`; None when sequences, maps or optionals are accepted too."""
    found: set[DType] = set()
    for name in types:
        if not name.startswith("tensor("):
            return None
        dtype = DTYPE_OF_ONNX_NAME.get(name[len("tensor(") : -1])
        if dtype is not None:
            found.add(dtype)
    return frozenset(found)


def _attr(name: str, attr: onnx.defs.OpSchema.Attribute) -> AttrSpec:
    kind = _KINDS[attr.type]
    if kind == "int" and name in _DTYPE_ATTRS:
        kind = "dtype"
    return AttrSpec(name, kind, _default(attr.default_value, kind), attr.required)


def _default(proto: AttributeProto, kind: str) -> Attr | None:
    if proto.type == AttributeProto.UNDEFINED:
        return None
    match kind:
        case "dtype":
            return DTYPE_OF_CODE[proto.i]
        case "int":
            return proto.i
        case "float":
            return proto.f
        case "string":
            return proto.s.decode()
        case "ints":
            return tuple(proto.ints)
        case "floats":
            return tuple(proto.floats)
        case "strings":
            return tuple(text.decode() for text in proto.strings)
        case "tensor":
            return None if not proto.t.data_type else Const(np.asarray(onnx.numpy_helper.to_array(proto.t)))
        case "type":
            return type_of_proto(proto.tp)
        case _:
            return None
