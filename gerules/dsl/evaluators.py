"""Expressions as closures: each part is looked at once, and then only computes.

A closure takes the scope and returns the value. It raises `RuleError` E40110 with the place of the innermost
part that has no value, and `Reject` for what is not known when compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

import numpy as np

from gerules.dsl.arithmetic import compare, compute, contains, negate
from gerules.dsl.expressions import (
    Attribute,
    Binary,
    BoolOp,
    CallExpr,
    Compare,
    Comparison,
    Expr,
    IfElse,
    Index,
    IsNone,
    ListExpr,
    Literal,
    MapExpr,
    Membership,
    Negate,
    Not,
    ParamRef,
    Ref,
    Slice,
)
from gerules.dsl.external import FunctionError, FunctionFailed
from gerules.dsl.members import readers_of
from gerules.dsl.read_pattern import DTYPES
from gerules.dsl.registry import Function
from gerules.dsl.scope import Scope
from gerules.dsl.tree import RuleError
from gerules.dsl.values import (
    Array,
    DeviceRef,
    EvalError,
    Reject,
    Value,
    as_int,
    as_items,
    as_text,
    as_truth,
    check_list,
    check_total,
    describe,
    is_array_like,
    raw_array,
)
from gerules.errors import GerulesError, Span, table

Compute = Callable[[Scope], Value]

_MOST_KEPT: Final = 20_000
"""Closures kept; the rules of one book have some thousands."""

_kept: dict[int, tuple[Expr, Compute]] = {}
"""By the identity of the expression, which the entry keeps alive."""


def compiled(expr: Expr) -> Compute:
    """Return what computes an expression; made once for each."""
    known = _kept.get(id(expr))
    if known is not None:
        return known[1]
    made = _MAKERS[type(expr)](expr)
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[id(expr)] = expr, made
    return made


def is_true(value: Value, span: Span) -> bool:
    """Return a condition's value; a list or an array of several elements is a fault, not a guess."""
    if value is True or value is False:
        return value
    try:
        return as_truth(value)
    except EvalError as error:
        raise fault_at(span, str(error)) from None


def _truth_of(expr: Expr) -> Callable[[Scope], bool]:
    value_of, span = compiled(expr), expr.span
    return lambda scope: is_true(value_of(scope), span)


def fault_at(span: Span, reason: str) -> RuleError:
    """Return E40110 for a part of an expression."""
    return RuleError(table.NO_VALUE, span=span, text=_shorten(span.text), reason=reason)


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:57] + "..."


# ---------------------------------------------------------------- names and literals
def _literal(expr: Literal) -> Compute:
    value = expr.value
    return lambda _: value


def _ref(expr: Ref) -> Compute:
    name, span = expr.name, expr.span

    def ref(scope: Scope) -> Value:
        names = scope.names
        if name in names:
            return names[name]
        if name in DTYPES:
            return DTYPES[name]
        if name in scope.opsets:
            return scope.opsets[name]
        raise fault_at(span, f"{name} has no value here")

    return ref


def _param(expr: ParamRef) -> Compute:
    name, span = expr.name, expr.span

    def param(scope: Scope) -> Value:
        if name in scope.params:
            return scope.params[name]
        raise fault_at(span, f"${name} is not set")

    return param


def _list(expr: ListExpr) -> Compute:
    parts, span = tuple([compiled(item) for item in expr.items]), expr.span

    def make_list(scope: Scope) -> Value:
        items: list[Value] = []
        try:
            for part in parts:
                value = part(scope)
                items.append(value)
                if isinstance(value, np.ndarray | tuple):
                    check_total(items)
            check_list(items)
        except EvalError as error:
            raise fault_at(span, str(error)) from None
        return tuple(items)

    return make_list


def _map(expr: MapExpr) -> Compute:
    pairs = [(key.span, compiled(key), compiled(value)) for key, value in expr.pairs]

    def make_map(scope: Scope) -> Value:
        return {_as_text_at(span, key(scope)): value(scope) for span, key, value in pairs}

    return make_map


# ---------------------------------------------------------------- operators
def _negate(expr: Negate) -> Compute:
    operand, span = compiled(expr.operand), expr.span

    def negated(scope: Scope) -> Value:
        value = operand(scope)
        try:
            return negate(value)
        except EvalError as error:
            raise fault_at(span, str(error)) from None

    return negated


def _not(expr: Not) -> Compute:
    holds = _truth_of(expr.operand)
    return lambda scope: not holds(scope)


def _binary(expr: Binary) -> Compute:
    op, left, right, span = expr.op, compiled(expr.left), compiled(expr.right), expr.span

    def binary(scope: Scope) -> Value:
        one, two = left(scope), right(scope)
        try:
            return compute(op, one, two)
        except EvalError as error:
            raise fault_at(span, str(error)) from None

    return binary


def _bool(expr: BoolOp) -> Compute:
    """`and`, `or`: a side that is not known does not matter when the other decides."""
    decisive = expr.op == "or"
    left, right = _truth_of(expr.left), _truth_of(expr.right)

    def both(scope: Scope) -> Value:
        try:
            if left(scope) is decisive:
                return decisive
        except Reject:
            if right(scope) is decisive:
                return decisive
            raise
        return right(scope)

    return both


def _compare(expr: Compare) -> Compute:
    first, span = compiled(expr.first), expr.span
    rest: list[tuple[Comparison, Compute]] = [(op, compiled(side)) for op, side in expr.rest]
    is_chain = len(rest) > 1

    def compared(scope: Scope) -> Value:
        left = first(scope)
        result: bool | Array = True
        for op, side in rest:
            right = side(scope)
            try:
                result = compare(op, left, right)
                if is_chain:
                    result = as_truth(result)
            except EvalError as error:
                raise fault_at(span, str(error)) from None
            if result is False:
                return False
            left = right
        return result

    return compared


def _membership(expr: Membership) -> Compute:
    item, container = compiled(expr.item), compiled(expr.container)
    is_negated, span = expr.is_negated, expr.span

    def member(scope: Scope) -> Value:
        value, holder = item(scope), container(scope)
        try:
            return contains(value, holder) is not is_negated
        except EvalError as error:
            raise fault_at(span, str(error)) from None

    return member


def _is_none(expr: IsNone) -> Compute:
    operand, is_negated = compiled(expr.operand), expr.is_negated
    return lambda scope: (operand(scope) is None) is not is_negated


def _if_else(expr: IfElse) -> Compute:
    condition = _truth_of(expr.condition)
    then, otherwise = compiled(expr.then), compiled(expr.otherwise)
    return lambda scope: then(scope) if condition(scope) else otherwise(scope)


# ---------------------------------------------------------------- attributes
def _attribute(expr: Attribute) -> Compute:
    operand, name, span = compiled(expr.operand), expr.name.name, expr.span
    readers = readers_of(name)

    def attribute(scope: Scope) -> Value:
        owner = operand(scope)
        read = readers.get(np.ndarray if isinstance(owner, np.ndarray) else type(owner))
        if read is None:
            raise fault_at(span, f"{describe(owner)} has no {name}")
        try:
            return read(owner)
        except EvalError as error:
            raise fault_at(span, str(error)) from None

    return attribute


# ---------------------------------------------------------------- items
def _index(expr: Index) -> Compute:
    if isinstance(expr.index, Slice):
        return _slice(expr, expr.index)
    operand, index, span = compiled(expr.operand), compiled(expr.index), expr.span

    def item(scope: Scope) -> Value:
        owner, place = operand(scope), index(scope)
        try:
            if isinstance(owner, Mapping):
                return _lookup(cast("Mapping[str, Value]", owner), as_text(place, "the key"))
            at = as_int(place, "the index")
            if is_array_like(owner):
                return _element(raw_array(owner), at, owner)
            items = as_items(owner, "what is indexed")
            if not -len(items) <= at < len(items):
                raise EvalError(f"index {at} is outside a list of {len(items)}")
            return items[at]
        except EvalError as error:
            raise fault_at(span, str(error)) from None

    return item


def _slice(expr: Index, part: Slice) -> Compute:
    operand, span = compiled(expr.operand), expr.span
    bounds = [None if item is None else compiled(item) for item in (part.start, part.stop, part.step)]

    def items(scope: Scope) -> Value:
        owner = operand(scope)
        found = [None if bound is None else bound(scope) for bound in bounds]
        try:
            start, stop, step = (None if item is None else as_int(item, "a bound") for item in found)
            if step == 0:
                raise EvalError("the step is zero")
            if isinstance(owner, str):
                return owner[start:stop:step]
            if is_array_like(owner):
                array = raw_array(owner)
                if array.ndim == 0:
                    raise EvalError(f"{describe(owner)} has no first axis")
                return array[start:stop:step]
            return as_items(owner, "what is indexed")[start:stop:step]
        except EvalError as error:
            raise fault_at(span, str(error)) from None

    return items


def _lookup(owner: Mapping[str, Value], key: str) -> Value:
    if key not in owner:
        raise EvalError(f'there is no "{key}" in the map')
    return owner[key]


def _element(array: Array, at: int, owner: Value) -> Value:
    if array.ndim == 0:
        raise EvalError(f"{describe(owner)} has no first axis")
    if not -array.shape[0] <= at < array.shape[0]:
        raise EvalError(f"index {at} is outside an axis of {array.shape[0]}")
    if array.ndim > 1:
        return array[at]
    return as_items(array[at : at + 1 if at != -1 else None])[0]


# ---------------------------------------------------------------- calls
def _call(expr: CallExpr) -> Compute:
    callee, span = expr.callee, expr.span
    if isinstance(callee, Attribute):
        return _method(expr, callee)
    if not isinstance(callee, Ref):
        return _without_value(callee.span, "only a function can be called")
    name = callee.name
    known: Function | None = None
    args: tuple[Compute, ...] = ()
    kwargs: tuple[tuple[str, Compute], ...] = ()

    def call(scope: Scope) -> Value:
        nonlocal known, args, kwargs
        function = scope.functions.get(name)
        if function is None:
            raise fault_at(callee.span, f"there is no function {name}")
        if function is not known:
            if misfit := function.misfit(len(expr.args), [key.name for key, _ in expr.kwargs]):
                raise fault_at(span, f"{name}: {misfit}")
            args = tuple([_argument(function, place, arg) for place, arg in enumerate(expr.args)])
            kwargs = tuple([(key.name, _argument(function, key.name, arg)) for key, arg in expr.kwargs])
            known = function
        given = [arg(scope) for arg in args]
        named = {key: arg(scope) for key, arg in kwargs}
        try:
            if not function.needs_graph:
                return function.run(*given, **named)
            if scope.graph is None:
                raise EvalError(f"{name} asks about a graph, and there is none here")
            return function.run(scope.graph, *given, **named)
        except (Reject, GerulesError):
            raise
        except EvalError as error:
            raise fault_at(span, str(error)) from None
        except FunctionFailed as failed:
            raise FunctionError(
                table.FUNCTION_FAILED, span=span, name=failed.name, what=failed.what, defined_at=failed.place
            ) from None
        except Exception as error:
            # What numpy finds wrong in hostile sizes.
            raise fault_at(span, f"{name}: {type(error).__name__}: {error}") from error

    return call


def _argument(function: Function, place: int | str, arg: Expr) -> Compute:
    value_of = compiled(arg)
    if not function.reads_ops(place) or not isinstance(arg, Ref):
        return value_of
    name = arg.name

    def ops(scope: Scope) -> Value:
        return value_of(scope) if name in scope.names else scope.opsets.get(name, frozenset({name}))

    return ops


def _method(expr: CallExpr, callee: Attribute) -> Compute:
    operand, name = compiled(callee.operand), callee.name.name
    text = compiled(expr.args[0]) if expr.args else None

    def method(scope: Scope) -> Value:
        owner = operand(scope)
        if not isinstance(owner, DeviceRef) or name not in {"has", "lacks"}:
            raise fault_at(callee.span, f"{describe(owner)} has nothing to call named {name}")
        if text is None or len(expr.args) != 1 or expr.kwargs:
            raise fault_at(expr.span, f"{name} takes one text")
        what = _as_text_at(expr.args[0].span, text(scope))
        return owner.device.has(what) if name == "has" else owner.device.lacks(what)

    return method


def _without_value(span: Span, reason: str) -> Compute:
    def fail(_: Scope) -> Value:
        raise fault_at(span, reason)

    return fail


def _as_text_at(span: Span, value: Value) -> str:
    try:
        return as_text(value)
    except EvalError as error:
        raise fault_at(span, str(error)) from None


_MAKERS: Final = cast(
    "dict[type[Expr], Callable[[Expr], Compute]]",
    {
        Literal: _literal,
        Ref: _ref,
        ParamRef: _param,
        ListExpr: _list,
        MapExpr: _map,
        Negate: _negate,
        Not: _not,
        Binary: _binary,
        BoolOp: _bool,
        Compare: _compare,
        Membership: _membership,
        IsNone: _is_none,
        IfElse: _if_else,
        Attribute: _attribute,
        Index: _index,
        CallExpr: _call,
    },
)
