"""Schemas of the operators that a rule book defines, beside those of ONNX."""

from __future__ import annotations

from typing import Final, cast

from gerules.dsl.book import RuleBook
from gerules.dsl.expr import Scope, evaluate
from gerules.dsl.syntax import BuildArg, BuildCall, BuildLine, Define, DefineParam, PlainOp
from gerules.ir import Attr, DType
from gerules.ops import AttrSpec, OpSchema, Param, ParamKind, Schemas

_KINDS: Final[dict[type, str]] = {int: "int", bool: "int", float: "float", str: "string"}


def schemas_of(book: RuleBook) -> Schemas:
    """Return schemas that know every `define` of a book.

    A definition that is one ONNX operator is commutative when that is, and takes its attributes along
    with `**rest`.
    """
    schemas = Schemas()
    for define in book.defines.values():
        schemas.define(_schema(define, schemas))
    return schemas


def _schema(define: Define, schemas: Schemas) -> OpSchema:
    inputs = [_param(param) for param in define.params if param.default is None]
    if define.rest_inputs is not None:
        inputs.append(Param(define.rest_inputs.name, ParamKind.VARIADIC))
    attrs: dict[str, AttrSpec] = {}
    if define.rest_attrs is not None:
        for call in _calls(define):
            inner = schemas.get(call.op.name) if isinstance(call.op, PlainOp) else None
            if inner is not None and any(rest.name == define.rest_attrs.name for rest in call.rests):
                attrs |= inner.attrs
    attrs |= {param.name.name: _attr(param) for param in define.params if param.default is not None}
    alias = _alias(define, schemas)
    return OpSchema(
        define.name.name,
        1,
        tuple(inputs),
        tuple(Param(result.name) for result in define.results),
        attrs,
        is_commutative=alias is not None and alias.is_commutative,
        is_associative=alias is not None and alias.is_associative,
    )


def _param(param: DefineParam) -> Param:
    return Param(param.name.name, ParamKind.OPTIONAL if param.is_optional else ParamKind.REQUIRED)


def _attr(param: DefineParam) -> AttrSpec:
    value = None if param.default is None else evaluate(param.default, Scope())
    kind = "dtype" if isinstance(value, DType) else _KINDS.get(type(value), "ints")
    return AttrSpec(param.name.name, kind, cast("Attr | None", value))


def _alias(define: Define, schemas: Schemas) -> OpSchema | None:
    """The schema of the one operator that a definition consists of; None when it is more than that."""
    calls = list(_calls(define))
    if len(calls) != 1 or not isinstance(calls[0].op, PlainOp):
        return None
    return schemas.get(calls[0].op.name)


def _calls(define: Define) -> list[BuildCall]:
    found: list[BuildCall] = []
    pending: list[BuildArg] = [line.build for line in define.body if isinstance(line, BuildLine)]
    while pending:
        build = pending.pop()
        if isinstance(build, BuildCall):
            found.append(build)
            pending += build.args
    return found
