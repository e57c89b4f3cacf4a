"""register_fx_node_ge_converter: users' own translations of aten operators, written with `torchair.ge`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, cast

import numpy as np

from gerules.compat.torchair.error import ConfigError
from gerules.errors import table

Converter = Callable[..., Any]

_OPSET: Final = 20
"""What torch's ONNX exporter writes. Source: torch, onnx/_constants.py, ONNX_DEFAULT_OPSET."""

_CONVERTERS: Final[dict[Any, Converter]] = {}
_IS_CONVERTING: Final[ContextVar[bool]] = ContextVar("is_converting", default=False)


def register_fx_node_ge_converter(aten_op: Any) -> Callable[[Converter], Converter]:
    """Register the function under this decorator as what makes GE operators of an aten operator.

    It gets tensors and numbers in the order of the operator's schema, and `meta_outputs`: None, since
    types are inferred here. It returns one tensor, or several.

    Raises:
        ConfigError: E10116 for what is no overload of an operator, such as `torch.ops.aten.add`.
    """
    if not hasattr(aten_op, "_schema"):
        raise ConfigError(table.NOT_REGISTERED, what="the converter", reason=_why_no_operator(aten_op))

    def register(converter: Converter) -> Converter:
        if not callable(converter):
            reason = f"{converter!r} is no function"
            raise ConfigError(table.NOT_REGISTERED, what=f"the converter of {aten_op}", reason=reason)
        _CONVERTERS[aten_op] = converter
        return converter

    return register


def _why_no_operator(given: Any) -> str:
    if hasattr(given, "overloads"):
        return f"{given} has several overloads; name one of {', '.join(given.overloads())}"
    return f"{given!r} is no operator such as torch.ops.aten.add.Tensor"


def translations() -> Mapping[Any, Callable[..., Any]]:
    """Return what has been registered, as torch's ONNX exporter takes it."""
    return {op: _as_translation(op, converter) for op, converter in _CONVERTERS.items()}


def _as_translation(op: Any, converter: Converter) -> Callable[..., Any]:
    def translate(*args: Any, **kwargs: Any) -> Any:
        token = _IS_CONVERTING.set(True)
        try:
            return converter(*args, **kwargs, meta_outputs=None)
        finally:
            _IS_CONVERTING.reset(token)

    # The exporter asks a translation for its parameters: they are those of the operator.
    keyword, positional = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(
            argument.name,
            keyword if argument.kwarg_only else positional,
            default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
        )
        for argument in op._schema.arguments
    ]
    translate.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    translate.__name__ = str(op._schema.name).replace("::", "_")
    return translate


def emit(op_type: str, inputs: Sequence[Any], attrs: Mapping[str, Any], n_outputs: int) -> Any:
    """Make an operator in the graph that is being exported.

    An operator of ONNX with this name and these attributes is that; any other is one of `ge::`, which
    rules have to define.

    Raises:
        ConfigError: E10114 outside of a converter.
    """
    if not _IS_CONVERTING.get():
        raise ConfigError(table.NOT_CONVERTING, op=op_type)
    onnx: Any = import_module("onnx")
    evaluator: Any = import_module("onnxscript.evaluator").default()
    schema = _schema_of(onnx, op_type, len(inputs), attrs, n_outputs)
    return evaluator.eval(schema, [_as_input(item) for item in inputs], dict(attrs))


def _schema_of(onnx: Any, op_type: str, n_inputs: int, attrs: Mapping[str, Any], n_outputs: int) -> Any:
    defs: Any = onnx.defs
    if defs.has(op_type, max_inclusive_version=_OPSET):
        schema = defs.get_schema(op_type, max_inclusive_version=_OPSET)
        fits = schema.min_input <= n_inputs <= schema.max_input and set(attrs) <= set(schema.attributes)
        if fits and schema.min_output <= n_outputs <= schema.max_output:
            return schema
    form: Any = defs.OpSchema
    every = sorted(form.all_tensor_types() if hasattr(form, "all_tensor_types") else _TYPES)
    constraints = [(f"T{at}", every, "any") for at in range(n_inputs + n_outputs)]
    return form(
        op_type,
        "ge",
        1,
        inputs=[form.FormalParameter(f"x{at}", f"T{at}") for at in range(n_inputs)],
        outputs=[form.FormalParameter(f"y{at}", f"T{n_inputs + at}") for at in range(n_outputs)],
        type_constraints=constraints,
        attributes=[form.Attribute(name, _attr_type(form, value)) for name, value in attrs.items()],
    )


_TYPES: Final = tuple(
    f"tensor({name})"
    for name in ("float", "float16", "bfloat16", "double", "int8", "int16", "int32", "int64", "uint8", "bool")
)


def _attr_type(form: Any, value: object) -> Any:
    kinds = form.AttrType
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        first = items[0] if items else 0
        return (
            kinds.FLOATS
            if isinstance(first, float)
            else kinds.STRINGS
            if isinstance(first, str)
            else kinds.INTS
        )
    return kinds.FLOAT if isinstance(value, float) else kinds.STRING if isinstance(value, str) else kinds.INT


def _as_input(item: object) -> Any:
    if isinstance(item, bool | int | float | np.ndarray | list):
        return make_constant(item)
    return item


def make_constant(value: Any, dtype: Any = None) -> Any:
    """Make a constant of a number, a list or an array; numbers with a point are float32."""
    onnx: Any = import_module("onnx")
    array = np.asarray(value, dtype)
    if array.dtype == np.float64 and dtype is None:
        array = array.astype(np.float32)
    return emit("Constant", [], {"value": onnx.numpy_helper.from_array(array)}, 1)
