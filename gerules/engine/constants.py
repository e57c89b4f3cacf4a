"""Constants and attributes of new nodes: values of expressions in the form that an operator takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from gerules.dsl.expr import to_const
from gerules.dsl.values import (
    EvalError,
    OpView,
    Reject,
    Value,
    ValueView,
    as_int,
    as_items,
    as_number,
    as_text,
    describe,
    raw_array,
)
from gerules.engine.candidate import Refused
from gerules.ir import Attr, Const, DType, TensorType, ValueType
from gerules.ops import AttrSpec, OpSchema, Param, ParamKind


def attr_of_value(value: Value, spec: AttrSpec | None, name: str) -> Attr:
    """Return an attribute, of the kind that the schema asks for, or of the value's own without schema.

    Raises:
        Refused: The value is of another kind, or depends on a symbolic dimension.
    """
    try:
        return _convert(value, spec.kind if spec is not None else "")
    except (EvalError, Reject) as error:
        raise Refused(f"attribute {name}: {error}") from None


def _convert(value: Value, kind: str) -> Attr:
    match kind:
        case "int":
            return as_int(value)
        case "float":
            return float(as_number(value))
        case "ints":
            return tuple(as_int(item) for item in _items(value))
        case "floats":
            return tuple(float(as_number(item)) for item in _items(value))
        case "strings":
            return tuple(as_text(item) for item in _items(value))
        case "string":
            return value.op if isinstance(value, OpView) else as_text(value)
        case "dtype" if isinstance(value, DType):
            return value
        case "tensor":
            return to_const(value)
        case _:
            return _own_kind(value)


def _items(value: Value) -> Sequence[Value]:
    if isinstance(value, int | float):
        return (value,)
    return as_items(value)


def _own_kind(value: Value) -> Attr:
    match value:
        case bool() | int() | float() | str() | DType():
            return int(value) if isinstance(value, bool) else value
        case OpView():
            return value.op
        case np.ndarray() | ValueView():
            array = raw_array(value)
            if array.ndim == 0 and array.dtype.kind in "iufb":
                return cast("int | float", array.item())
            return _own_kind(as_items(value)) if array.ndim == 1 else Const(array)
        case tuple():
            items = [_own_kind(item) for item in value]
            for kind in (int, float, str):
                if all(isinstance(item, kind) for item in items):
                    return cast("Attr", tuple(items))
            if all(isinstance(item, int | float) for item in items):
                return tuple(float(cast("float", item)) for item in items)
            raise EvalError("a list of unlike things is no attribute")
        case _:
            raise EvalError(f"{describe(value)} is no attribute")


def const_of_value(value: Value, dtype: DType | None, what: str) -> Const:
    """Return an initializer, rounded once to `dtype`.

    Raises:
        Refused: The value is no array, or leaves the range of the element type.
    """
    try:
        return to_const(value, dtype)
    except (EvalError, Reject) as error:
        raise Refused(f"{what}: {error}") from None


def dtype_for_input(
    schema: OpSchema | None, index: int, types: Mapping[int, ValueType], own: DType | None
) -> DType | None:
    """Return the element type that a constant should have as input `index`.

    That of an operand which the schema ties it to; else its own when the operator takes it; else the
    only one that fits; else that of the first operand.

    Args:
        types: What is known of the other inputs, by position.
        own: The element type the constant has; None for a number as written.
    """
    known = {place: type.dtype for place, type in types.items() if isinstance(type, TensorType)}
    known = {place: dtype for place, dtype in known.items() if dtype is not DType.UNKNOWN}
    param = param_at(schema, index)
    if schema is not None and param is not None:
        if param.type_var:
            for place, dtype in known.items():
                other = param_at(schema, place)
                if other is not None and other.type_var == param.type_var:
                    return dtype
        if own is not None and (param.dtypes is None or own in param.dtypes):
            return own
        if param.dtypes is not None and len(param.dtypes) == 1:
            return next(iter(param.dtypes))
        if (
            param.dtypes is not None
            and DType.I64 in param.dtypes
            and not (set(known.values()) & param.dtypes)
        ):
            return DType.I64
        fitting = [d for d in known.values() if param.dtypes is None or d in param.dtypes]
        return fitting[0] if fitting else own
    if own is not None:
        return own
    return next(iter(known.values()), None)


def param_at(schema: OpSchema | None, index: int) -> Param | None:
    """Return what input `index` of an operator is; a variadic parameter stands for all from its place on."""
    if schema is None or not schema.inputs:
        return None
    if index < len(schema.inputs):
        return schema.inputs[index]
    return schema.inputs[-1] if schema.inputs[-1].kind is ParamKind.VARIADIC else None


def own_dtype(value: Value) -> DType | None:
    """Return the element type that a value of an expression has by itself; None for plain numbers."""
    if isinstance(value, ValueView):
        return value.dtype
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", value)
        return Const(array).dtype
    if isinstance(value, tuple) and value and all(isinstance(item, int) for item in value):
        return DType.I64
    return None
