"""Inference: the types of what one node gives, from the types of what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gerules.errors import Diagnostic, GerulesError, table
from gerules.errors.counts import count_text
from gerules.ir import (
    UNKNOWN,
    Attr,
    Body,
    Const,
    DType,
    MapType,
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)
from gerules.ops.bodies import BODY_RULES, through_body
from gerules.ops.call import HIGHEST_RANK, Call, Misfit, Rule, Vector
from gerules.ops.dims import LARGEST_DIM
from gerules.ops.onnx_inference import infer_by_onnx
from gerules.ops.registry import Schemas, Signature, split_op
from gerules.ops.schema import OpSchema, Param, ParamKind
from gerules.ops.shapes_elementwise import RULES as ELEMENTWISE_RULES
from gerules.ops.shapes_index import RULES as INDEX_RULES
from gerules.ops.shapes_layout import RULES as LAYOUT_RULES
from gerules.ops.shapes_make import RULES as MAKE_RULES
from gerules.ops.shapes_matrix import RULES as MATRIX_RULES
from gerules.ops.shapes_reduce import RULES as REDUCE_RULES
from gerules.ops.shapes_window import RULES as WINDOW_RULES
from gerules.ops.type_memory import Key, Known, TypeMemory
from gerules.ops.vectors import VECTOR_RULES, vectors_of

Extra = Callable[[Node, Sequence[ValueType | None], Sequence[Const | None]], Sequence[ValueType] | None]
"""Inference for operators that only a higher floor can read, such as `define`s; None when it cannot say."""

RULES: Final[dict[str, Rule]] = {
    **ELEMENTWISE_RULES,
    **WINDOW_RULES,
    **MATRIX_RULES,
    **REDUCE_RULES,
    **LAYOUT_RULES,
    **INDEX_RULES,
    **MAKE_RULES,
}
"""Our own rules; what is not here goes to `Extra`, or to onnx's inference."""

_ATTR_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (float, int),
    "string": (str, bytes),
    "dtype": (DType,),
    "tensor": (Const,),
    "sparse_tensor": (Const,),
    "type": (TensorType, SequenceType, OptionalType, MapType),
}
"""What an attribute of each kind holds; the kinds `ints`, `floats` ... hold tuples of it."""

_LONGEST_LIST: Final = 8
"""Input types that a fault names."""


class ShapeError(GerulesError):
    """Types or shapes that cannot be: codes E30001 to E30049."""


def infer(
    node: Node,
    inputs: Sequence[ValueType | None],
    consts: Sequence[Const | None],
    schemas: Schemas,
    opset: int,
    *,
    vectors: Sequence[Vector | None] = (),
    bodies: Mapping[str, Body] | None = None,
    extra: Extra | None = None,
    memory: TypeMemory | None = None,
) -> Sequence[ValueType]:
    """Return the types of a node's outputs; what cannot be told is unknown.

    Storage formats are not looked at, results are in plain layout.

    Args:
        node: The node; of its ids only their number counts.
        inputs: The type of each input, None where an optional one is absent.
        consts: The array of each input that is known at compile time.
        schemas: Where operators are looked up.
        opset: The version of the operator's domain.
        vectors: What is known of the entries of each input, beyond `consts`.
        bodies: Bodies with inferred types, in place of the node's own.
        extra: Asked for operators that have no rule here.
        memory: What was found before, with the same `schemas`, `opset` of each domain, and `extra`.

    Raises:
        ShapeError: E30002 to E30008 when the node cannot be applied to these inputs.
    """
    try:
        types, _ = infer_with_vector(
            node, inputs, consts, schemas, opset, vectors=vectors, bodies=bodies, extra=extra, memory=memory
        )
    except Misfit as fault:
        raise ShapeError([diagnose(fault, node, inputs, opset)]) from None
    return types


def infer_with_vector(
    node: Node,
    inputs: Sequence[ValueType | None],
    consts: Sequence[Const | None],
    schemas: Schemas,
    opset: int,
    *,
    vectors: Sequence[Vector | None],
    bodies: Mapping[str, Body] | None,
    extra: Extra | None,
    memory: TypeMemory | None = None,
) -> Known:
    """Infer as `infer` does, and say what is known of the entries of the first output.

    Raises:
        Misfit: When the node cannot be applied; the caller knows the node.
    """
    key: Key | None = None
    if memory is not None and not node.bodies and not bodies:
        key = memory.key(node, inputs, vectors)
        known = memory.get(key, consts)
        if known is not None:
            return known
    signature = schemas.signature(node.op, opset)
    call = _call(node, inputs, consts, vectors, signature, opset)
    types = _types(node, call, schemas, signature, bodies, extra)
    vector_rule = VECTOR_RULES.get(node.op)
    vector = vectors_of(vector_rule, call, types) if vector_rule is not None and types else None
    found = tuple(types), vector
    if memory is not None and key is not None:
        memory.keep(key, consts if call.is_by_contents else None, found)
    return found


def _call(
    node: Node,
    inputs: Sequence[ValueType | None],
    consts: Sequence[Const | None],
    vectors: Sequence[Vector | None],
    signature: Signature | None,
    opset: int,
) -> Call:
    """Return the application of an operator, checked against its schema.

    Raises:
        Misfit: When it does not go with that.
    """
    op, n_outputs = node.op, len(node.outputs)
    dtypes: Sequence[DType] = ()
    if signature is not None:
        dtypes = _checked_dtypes(signature, inputs, n_outputs, opset)
        if node.attrs or signature.required_attrs:
            _check_attrs(signature, node.attrs)
    elif op in RULES and inputs and isinstance(inputs[0], TensorType):
        # Operators of other domains that we know without a schema keep their first input's type.
        dtypes = (inputs[0].dtype,) * max(n_outputs, 1)
    if not dtypes:
        dtypes = (DType.UNKNOWN,)
    return Call(op, opset, node.attrs, inputs, consts, vectors, n_outputs, dtypes)


def _types(
    node: Node,
    call: Call,
    schemas: Schemas,
    signature: Signature | None,
    bodies: Mapping[str, Body] | None,
    extra: Extra | None,
) -> list[ValueType]:
    rule = RULES.get(node.op)
    if rule is not None and not schemas.is_defined(node.op):
        found = list(rule(call))
    else:
        found = _without_rule(
            node, call, schemas, signature, node.bodies if bodies is None else bodies, extra
        )
    n_outputs = call.n_outputs
    if len(found) != n_outputs:
        del found[n_outputs:]
        found += [_of_dtype(call.dtypes, place) for place in range(len(found), n_outputs)]
    _check_dims(found)
    return found


def _of_dtype(dtypes: Sequence[DType], place: int) -> TensorType:
    return TensorType(dtypes[place]) if place < len(dtypes) else UNKNOWN


def _without_rule(
    node: Node,
    call: Call,
    schemas: Schemas,
    signature: Signature | None,
    bodies: Mapping[str, Body],
    extra: Extra | None,
) -> list[ValueType]:
    if extra is not None:
        told = extra(node, call.inputs, call.consts)
        if told is not None:
            return list(told)
    if bodies:
        body_rule = BODY_RULES.get(node.op)
        return body_rule(call, bodies) if body_rule is not None else through_body(call, bodies)
    if signature is None or schemas.is_defined(node.op):
        return []
    if any(param.kind is ParamKind.REQUIRED for param in signature.schema.inputs) and not call.inputs:
        return []
    kinds = {name: spec.kind for name, spec in signature.schema.attrs.items()}
    return infer_by_onnx(call, kinds) or []


def _checked_dtypes(
    signature: Signature, inputs: Sequence[ValueType | None], n_outputs: int, opset: int
) -> list[DType]:
    """Check number and element types of the inputs, and return the element types of the outputs.

    Raises:
        Misfit: E30004 for the number, E30005 for a type.
    """
    schema = signature.schema
    n = len(inputs)
    if not signature.takes(n):
        raise _wrong_count(signature, n, opset)
    bound: dict[str, DType] = {}
    for index, type in enumerate(inputs):
        param = signature.param(index)
        if type is None:
            if param.kind is ParamKind.REQUIRED:
                raise Misfit(table.WRONG_INPUTS, reason=f"lacks its input {param.name}", opset=opset)
            continue
        if not isinstance(type, TensorType):
            if param.dtypes is not None:
                raise Misfit(
                    table.TYPE_NOT_ACCEPTED, param=param.name, found=type, reason="a tensor is needed"
                )
            continue
        dtype = type.dtype
        if dtype is DType.UNKNOWN:
            continue
        if param.dtypes is not None and dtype not in param.dtypes:
            raise _unaccepted(param, dtype)
        if param.type_var:
            known = bound.setdefault(param.type_var, dtype)
            if known is not dtype:
                reason = f"another input that must have the same type is {known}"
                raise Misfit(table.TYPE_NOT_ACCEPTED, param=param.name, found=dtype, reason=reason)
    return [_output_dtype(schema, bound, place) for place in range(max(n_outputs, 1))]


def _check_attrs(signature: Signature, attrs: Mapping[str, Attr]) -> None:
    """Raise Misfit (E30003) for an attribute of another kind than declared, or one that is missing."""
    specs = signature.schema.attrs
    for name, value in attrs.items():
        spec = specs.get(name)
        if spec is not None and not _is_of_kind(value, spec.kind):
            raise Misfit(table.BAD_ATTRIBUTE, attr=name, reason=f"has a value that is no {spec.kind}")
    if not signature.required_attrs <= attrs.keys():
        name = min(signature.required_attrs - attrs.keys())
        raise Misfit(table.BAD_ATTRIBUTE, attr=name, reason="is missing")


def _is_of_kind(value: Attr, kind: str) -> bool:
    accepted = _ATTR_KINDS.get(kind)
    if accepted is not None:
        return isinstance(value, accepted)
    if not kind.endswith("s") or not isinstance(value, tuple):
        return False
    accepted = _ATTR_KINDS.get(kind[:-1], ())
    return len([entry for entry in value if isinstance(entry, accepted)]) == len(value)


def _output_dtype(schema: OpSchema, bound: Mapping[str, DType], place: int) -> DType:
    params = schema.outputs
    if place >= len(params):
        if not params or params[-1].kind is not ParamKind.VARIADIC:
            return DType.UNKNOWN
        place = -1
    param = params[place]
    dtype = bound.get(param.type_var)
    if dtype is not None:
        return dtype
    if param.dtypes is not None and len(param.dtypes) == 1:
        return next(iter(param.dtypes))
    return DType.UNKNOWN


def _wrong_count(signature: Signature, n: int, opset: int) -> Misfit:
    low, high = signature.min_inputs, signature.max_inputs
    exactly = str(low) if low == high else f"{low} to {high}"
    wanted = f"at least {low}" if high is None else exactly
    return Misfit(table.WRONG_INPUTS, reason=f"has {count_text(n, 'input')} and takes {wanted}", opset=opset)


def _unaccepted(param: Param, dtype: DType) -> Misfit:
    accepted = ", ".join(sorted(kind.value for kind in param.dtypes or ()))
    return Misfit(table.TYPE_NOT_ACCEPTED, param=param.name, found=dtype, reason=f"it takes {accepted}")


def _check_dims(types: Sequence[ValueType]) -> None:
    for type in types:
        if not isinstance(type, TensorType) or type.shape is None:
            continue
        if len(type.shape) > HIGHEST_RANK:
            reason = f"rank {len(type.shape)} is beyond {HIGHEST_RANK}"
            raise Misfit(table.DIM_OUT_OF_RANGE, reason=reason)
        for dim in type.shape:
            if isinstance(dim, int) and not 0 <= dim <= LARGEST_DIM:
                raise Misfit(table.DIM_OUT_OF_RANGE, reason=f"it gives a dim of {dim}")


def check_declared(type: ValueType) -> Misfit | None:
    """Return the fault of a declared type whose dims cannot be, if it has one."""
    try:
        _check_dims([type])
    except Misfit as fault:
        return fault
    return None


def diagnose(
    fault: Misfit, node: Node, inputs: Sequence[ValueType | None], opset: int, **facts: object
) -> Diagnostic:
    """Return the diagnostic of a fault, with the node, its operator and its inputs named."""
    shown = [("none" if type is None else str(type)) for type in inputs[:_LONGEST_LIST]]
    shown += ["..."] if len(inputs) > _LONGEST_LIST else []
    known: dict[str, object] = {
        "node": node_name(node),
        "op": node.op,
        "inputs": ", ".join(shown) or "none",
        "opset": opset,
        **fault.facts,
        **facts,
    }
    return Diagnostic(fault.error_code, known, place=f"node {node_name(node)}")


def node_name(node: Node) -> str:
    """Return how users know a node: its name, the first of its sources, or its number."""
    return node.name or (node.origin.sources[0] if node.origin.sources else f"#{node.id}")


def opset_of(op: str, opsets: Mapping[str, int], schemas: Schemas) -> int:
    """Return the version of an operator's domain in a graph; the newest one when the graph names none."""
    domain, _ = split_op(op)
    found = opsets.get(domain)
    if found is not None:
        return found
    if not domain:
        return schemas.latest_opset
    schema = schemas.get(op)
    return 1 if schema is None else schema.since
