"""Schemas of `define`d operators: inputs, outputs and attributes, read off the definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gerules.dsl import expr as dsl
from gerules.dsl.book import SchemaSource
from gerules.dsl.check_ops import calls_of, passed_on
from gerules.dsl.expressions import Ref
from gerules.dsl.syntax import BuildCall, BuildLine, BuildRef, Define, PlainOp
from gerules.engine.candidate import Refused
from gerules.engine.constants import attr_of_value
from gerules.ir import Attr, DType
from gerules.ops import AttrSpec, OpSchema, Param, ParamKind, Schemas

_KINDS: Mapping[type, str] = {bool: "int", int: "int", float: "float", str: "string", DType: "dtype"}


def register_defines(defines: Iterable[Define], schemas: Schemas, scope: dsl.Scope | None = None) -> None:
    """Add a schema for each definition; `scope` gives the values of `$NAME`s in defaults.

    Raises:
        RuleError: E40110 when a default has no value.
    """
    waiting = list(defines)
    names = {define.name.name for define in waiting}
    # A definition passes attributes on to operators that may be defined too: those first.
    while waiting:
        ready = [item for item in waiting if not (passed_on(item) & (names - {item.name.name}))] or waiting
        for define in ready:
            schemas.define(schema_of_define(define, schemas, scope or dsl.Scope()))
            names.discard(define.name.name)
        waiting = [item for item in waiting if item.name.name in names]


def schema_of_define(define: Define, schemas: SchemaSource, scope: dsl.Scope) -> OpSchema:
    """Return the schema of one definition; `**a` accepts what the operators accept that it is passed to."""
    inputs = [
        Param(param.name.name, ParamKind.OPTIONAL if param.is_optional else ParamKind.REQUIRED)
        for param in define.params
        if param.default is None
    ]
    if define.rest_inputs is not None:
        inputs.append(Param(define.rest_inputs.name, ParamKind.VARIADIC, min_count=0))
    attrs: dict[str, AttrSpec] = {}
    for op in sorted(passed_on(define)):
        inner = schemas.get(op)
        attrs |= dict(inner.attrs) if inner is not None else {}
    for param in define.params:
        if param.default is None:
            continue
        name = param.name.name
        value = dsl.evaluate(param.default, scope)
        kind = _kind(value) or _kind_in_use(define, name, schemas)
        attrs[name] = AttrSpec(name, kind, None if value is None else _attr(value, name))
    outputs = [Param(name.name) for name in define.results]
    if define.rest_results is not None:
        outputs.append(Param(define.rest_results.name, ParamKind.VARIADIC))
    twin = _twin(define, schemas)
    return OpSchema(
        define.name.name,
        1,
        tuple(inputs),
        tuple(outputs),
        attrs,
        is_commutative=twin is not None and twin.is_commutative,
        is_associative=twin is not None and twin.is_associative,
    )


def _twin(define: Define, schemas: SchemaSource) -> OpSchema | None:
    """The operator that a definition is another name of: one call with all its inputs."""
    if len(define.body) != 1 or len(define.results) != 1 or define.rest_results or define.rest_inputs:
        return None
    line, inputs = define.body[0], [param.name.name for param in define.params if param.default is None]
    if not isinstance(line, BuildLine) or not isinstance(line.build, BuildCall) or len(line.targets) != 1:
        return None
    call = line.build
    args = [arg.name for arg in call.args if isinstance(arg, BuildRef)]
    if not isinstance(call.op, PlainOp) or len(args) != len(call.args) or sorted(args) != sorted(inputs):
        return None
    return schemas.get(call.op.name)


def _attr(value: dsl.Value, name: str) -> Attr | None:
    try:
        return attr_of_value(value, None, name)
    except Refused:
        return None


def _kind(value: dsl.Value) -> str:
    if isinstance(value, tuple) and value:
        return {"int": "ints", "float": "floats", "string": "strings"}.get(_kind(value[0]), "")
    return _KINDS.get(type(value), "")


def _kind_in_use(define: Define, name: str, schemas: SchemaSource) -> str:
    """The kind that an operator of the body has for a keyword to which the parameter is given as it is."""
    for line in define.body:
        for call in calls_of(line.build) if isinstance(line, BuildLine) else ():
            inner = schemas.get(call.op.name) if isinstance(call.op, PlainOp) else None
            for keyword, value in call.attrs if inner is not None else ():
                if isinstance(value, Ref) and value.name == name and inner is not None:
                    if keyword.name in inner.attrs:
                        return inner.attrs[keyword.name].kind
                    return "ints"  # a list that became an input: axes, shape, pads
    return ""
