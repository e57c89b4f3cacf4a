"""The evaluator of expressions: guards, folds, gates, static conditions and measures.

Nothing of a user's text is ever executed by Python: names, functions and attributes come from fixed
tables, and every result is bounded. A fault of the text is a diagnostic with its place; what cannot
be known when compiling rejects the match with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from gerules.dsl.arithmetic import compare, compute, contains, negate
from gerules.dsl.expressions import (
    Attribute,
    Binary,
    BoolOp,
    CallExpr,
    Compare,
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
    walk,
)
from gerules.dsl.external import FunctionError, FunctionFailed
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.functions_array import round_to
from gerules.dsl.read_pattern import DTYPES
from gerules.dsl.registry import Function, MatchContext
from gerules.dsl.syntax import Condition, FoldLine
from gerules.dsl.tree import RuleError
from gerules.dsl.values import (
    GROWTH,
    Array,
    ChainView,
    CostView,
    DeviceRef,
    EvalError,
    OpView,
    Reject,
    Value,
    ValueView,
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
from gerules.errors import Diagnostic, GerulesError, Span, table
from gerules.ir import Const, DType, TensorType, dtype_of


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an expression finds what it names.

    `names` holds what match and fold bound, and `device`, `precision`, `before`, `after` where they
    exist; `params` holds `$NAME`s; `opsets` the named operator sets. `graph` may be None where no
    graph is at hand (`when`).
    """

    names: Mapping[str, Value] = field(default_factory=dict[str, Value])
    params: Mapping[str, Value] = field(default_factory=dict[str, Value])
    opsets: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    graph: MatchContext | None = None
    functions: Mapping[str, Function] = field(default_factory=lambda: FUNCTIONS)

    def with_names(self, names: Mapping[str, Value]) -> Scope:
        """The same scope with more names; new ones win."""
        return Scope({**self.names, **names}, self.params, self.opsets, self.graph, self.functions)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a condition holds; if not, why, in the words of the rule; `fault` when it has no value."""

    holds: bool
    reason: str = ""
    fault: Diagnostic | None = None


def evaluate(expr: Expr, scope: Scope) -> Value:
    """Return the value of an expression.

    Raises:
        RuleError: E40110 when it has none, with the place of the innermost part that failed.
        Reject: when it depends on something not known when compiling, such as a symbolic dimension.
    """
    return _EVALUATORS[type(expr)](expr, scope)


def judge(condition: Condition, scope: Scope) -> Verdict:
    """Say whether a guard, a gate or a static condition holds. Never raises for what is in the text."""
    try:
        if _truth(condition.test, scope):
            return Verdict(True)
    except Reject as reject:
        return Verdict(False, f"{condition.reason}: {reject.reason}" if condition.reason else reject.reason)
    except RuleError as error:
        fault = error.diagnostics[0]
        return Verdict(
            False, f"the guard cannot be evaluated: {fault.facts.get('reason', fault.message)}", fault
        )
    return Verdict(False, condition.reason or f"`{condition.test.span.text}` does not hold")


def fold(line: FoldLine, scope: Scope) -> dict[str, Value]:
    """Evaluate a fold line; returns the values of its names.

    Raises:
        RuleError: E40110 when the expression has no value, or unpacks into another number of names.
        Reject: something is not known, or the result is not finite although its inputs are.
    """
    value = evaluate(line.value, scope)
    try:
        check_total([*scope.names.values(), value], GROWTH * sum(map(_const_size, scope.names.values())))
    except EvalError as error:
        raise _fault(line.value.span, str(error)) from None
    if _has_non_finite(value) and not _reads_non_finite(line.value, scope):
        names = ", ".join(name.name for name in line.names)
        raise Reject(f"{names} is not finite although what it is made from is")
    if len(line.names) == 1:
        return {line.names[0].name: value}
    try:
        items = as_items(value, "the value")
    except EvalError as error:
        raise _fault(line.value.span, str(error)) from None
    if len(items) != len(line.names):
        raise _fault(line.value.span, f"it gives {len(items)} values for {len(line.names)} names")
    return {name.name: item for name, item in zip(line.names, items, strict=True)}


def to_const(value: Value, dtype: DType | None = None) -> Const:
    """Make an initializer of a value, rounding once.

    Args:
        value: A number, a list of numbers, an array or a constant.
        dtype: The element type wanted; None keeps the value's own (float64 and int64 after arithmetic).

    Raises:
        EvalError: the value is no array.
        Reject: a number leaves the range of `dtype`.
    """
    if isinstance(value, ValueView) and value.const is not None and dtype in (None, value.const.dtype):
        return value.const
    array = raw_array(value)
    if dtype is not None:
        array = round_to(array, dtype)
    return Const(array)


# ---------------------------------------------------------------- one evaluator for each kind
def _literal(expr: Literal, scope: Scope) -> Value:
    return expr.value


def _ref(expr: Ref, scope: Scope) -> Value:
    names = scope.names
    if expr.name in names:
        return names[expr.name]
    if expr.name in DTYPES:
        return DTYPES[expr.name]
    if expr.name in scope.opsets:
        return scope.opsets[expr.name]
    raise _fault(expr.span, f"{expr.name} has no value here")


def _param(expr: ParamRef, scope: Scope) -> Value:
    if expr.name in scope.params:
        return scope.params[expr.name]
    raise _fault(expr.span, f"${expr.name} is not set")


def _list(expr: ListExpr, scope: Scope) -> Value:
    items: list[Value] = []
    try:
        for item in expr.items:
            value = evaluate(item, scope)
            items.append(value)
            if isinstance(value, np.ndarray | tuple):
                check_total(items)
        check_list(items)
    except EvalError as error:
        raise _fault(expr.span, str(error)) from None
    return tuple(items)


def _map(expr: MapExpr, scope: Scope) -> Value:
    return {as_text_at(key.span, evaluate(key, scope)): evaluate(value, scope) for key, value in expr.pairs}


def _negate(expr: Negate, scope: Scope) -> Value:
    operand = evaluate(expr.operand, scope)
    try:
        return negate(operand)
    except EvalError as error:
        raise _fault(expr.span, str(error)) from None


def _not(expr: Not, scope: Scope) -> Value:
    return not _truth(expr.operand, scope)


def _binary(expr: Binary, scope: Scope) -> Value:
    left, right = evaluate(expr.left, scope), evaluate(expr.right, scope)
    try:
        return compute(expr.op, left, right)
    except EvalError as error:
        raise _fault(expr.span, str(error)) from None


def _bool(expr: BoolOp, scope: Scope) -> Value:
    """`and`, `or`: a side that is not known does not matter when the other decides."""
    decisive = expr.op == "or"
    try:
        if _truth(expr.left, scope) is decisive:
            return decisive
    except Reject:
        if _truth(expr.right, scope) is decisive:
            return decisive
        raise
    return _truth(expr.right, scope)


def _compare(expr: Compare, scope: Scope) -> Value:
    left = evaluate(expr.first, scope)
    result: bool | Array = True
    for op, side in expr.rest:
        right = evaluate(side, scope)
        try:
            result = compare(op, left, right)
            if len(expr.rest) > 1:
                result = as_truth(result)
        except EvalError as error:
            raise _fault(expr.span, str(error)) from None
        if result is False:
            return False
        left = right
    return result


def _membership(expr: Membership, scope: Scope) -> Value:
    item, container = evaluate(expr.item, scope), evaluate(expr.container, scope)
    try:
        return contains(item, container) is not expr.is_negated
    except EvalError as error:
        raise _fault(expr.span, str(error)) from None


def _is_none(expr: IsNone, scope: Scope) -> Value:
    return (evaluate(expr.operand, scope) is None) is not expr.is_negated


def _if_else(expr: IfElse, scope: Scope) -> Value:
    return evaluate(expr.then if _truth(expr.condition, scope) else expr.otherwise, scope)


def _attribute(expr: Attribute, scope: Scope) -> Value:
    owner = evaluate(expr.operand, scope)
    try:
        return _read_attribute(owner, expr.name.name)
    except EvalError as error:
        raise _fault(expr.span, str(error)) from None


def _read_attribute(owner: Value, name: str) -> Value:
    match owner, name:
        case ValueView(), "dtype":
            return owner.dtype
        case ValueView(), "shape":
            return owner.shape
        case ValueView(), "rank":
            return len(owner.shape)
        case ValueView(), "name":
            return owner.name
        case ValueView(), "format":
            return owner.tensor_type.format.name
        case ValueView(), "is_const":
            return owner.const is not None
        case np.ndarray(), "dtype":
            return dtype_of(owner)
        case np.ndarray(), "shape":
            return owner.shape
        case np.ndarray(), "rank":
            return owner.ndim
        case OpView(), "name":
            return owner.op
        case ChainView(), "ops":
            return owner.ops
        case ChainView(), "side_inputs":
            return owner.side_inputs
        case ChainView(), "first" | "last" if owner.ops:
            return owner.ops[0 if name == "first" else -1]
        case CostView(), "time" | "bytes" | "flops":
            return {"time": owner.time, "bytes": owner.bytes, "flops": owner.flops}[name]
        case DeviceRef(), "name":
            return owner.device.name
        case DeviceRef(), "lacks_list":
            return tuple(owner.device.lacks_list)
        case DType(), "bits":
            return owner.bits
        case DType(), "is_float":
            return owner.is_float
        case DType(), "is_integer":
            return owner.is_integer
        case _:
            raise EvalError(f"{describe(owner)} has no {name}")


def _index(expr: Index, scope: Scope) -> Value:
    owner = evaluate(expr.operand, scope)
    if isinstance(expr.index, Slice):
        part = expr.index
        bounds = [
            None if item is None else evaluate(item, scope) for item in (part.start, part.stop, part.step)
        ]
        try:
            start, stop, step = (None if item is None else as_int(item, "a bound") for item in bounds)
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
            raise _fault(expr.span, str(error)) from None
    place = evaluate(expr.index, scope)
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
        raise _fault(expr.span, str(error)) from None


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


def _call(expr: CallExpr, scope: Scope) -> Value:
    callee = expr.callee
    if isinstance(callee, Attribute):
        return _call_method(expr, callee, scope)
    if not isinstance(callee, Ref):
        raise _fault(callee.span, "only a function can be called")
    function = scope.functions.get(callee.name)
    if function is None:
        raise _fault(callee.span, f"there is no function {callee.name}")
    if misfit := function.misfit(len(expr.args), [name.name for name, _ in expr.kwargs]):
        raise _fault(expr.span, f"{callee.name}: {misfit}")
    args = [_argument(function, place, arg, scope) for place, arg in enumerate(expr.args)]
    kwargs = {name.name: _argument(function, name.name, arg, scope) for name, arg in expr.kwargs}
    if function.needs_graph and scope.graph is None:
        raise _fault(expr.span, f"{callee.name} asks about a graph, and there is none here")
    context = (scope.graph,) if function.needs_graph else ()
    try:
        return function.run(*context, *args, **kwargs)
    except (Reject, GerulesError):
        raise
    except EvalError as error:
        raise _fault(expr.span, str(error)) from None
    except FunctionFailed as failed:
        raise FunctionError(
            table.FUNCTION_FAILED, span=expr.span, name=failed.name, what=failed.what,
            defined_at=failed.place,
        ) from None
    except Exception as error:
        # What numpy finds wrong in hostile sizes.
        raise _fault(expr.span, f"{callee.name}: {type(error).__name__}: {error}") from error


def _argument(function: Function, place: int | str, arg: Expr, scope: Scope) -> Value:
    if not function.reads_ops(place) or not isinstance(arg, Ref) or arg.name in scope.names:
        return evaluate(arg, scope)
    return scope.opsets.get(arg.name, frozenset({arg.name}))


def _call_method(expr: CallExpr, callee: Attribute, scope: Scope) -> Value:
    owner = evaluate(callee.operand, scope)
    if not isinstance(owner, DeviceRef) or callee.name.name not in {"has", "lacks"}:
        raise _fault(callee.span, f"{describe(owner)} has nothing to call named {callee.name}")
    if len(expr.args) != 1 or expr.kwargs:
        raise _fault(expr.span, f"{callee.name} takes one text")
    what = as_text_at(expr.args[0].span, evaluate(expr.args[0], scope))
    return owner.device.has(what) if callee.name.name == "has" else owner.device.lacks(what)


def as_text_at(span: Span, value: Value) -> str:
    """A text, or RuleError E40110 at the place."""
    try:
        return as_text(value)
    except EvalError as error:
        raise _fault(span, str(error)) from None


def _truth(expr: Expr, scope: Scope) -> bool:
    value = evaluate(expr, scope)
    try:
        return as_truth(value)
    except EvalError as error:
        raise _fault(expr.span, str(error)) from None


def _fault(span: Span, reason: str) -> RuleError:
    return RuleError(table.NO_VALUE, span=span, text=_shorten(span.text), reason=reason)


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:57] + "..."


def _has_non_finite(value: Value) -> bool:
    match value:
        case float():
            return not np.isfinite(value)
        case tuple():
            return any(_has_non_finite(item) for item in value)
        case np.ndarray():
            if value.dtype.kind in "biuOSUT":
                return False
            if value.dtype.kind == "f" and value.size:
                # The sum is finite when all are, and needs no array of its own; only then look closer.
                with np.errstate(all="ignore"):
                    if np.isfinite(float(cast("float", value.sum(dtype=np.float64)))):
                        return False
            kind = dtype_of(value)
            return kind.is_float and not bool(np.all(np.isfinite(value.astype(np.float64))))
        case ValueView():
            return value.const is not None and _has_non_finite(value.const.array)
        case _:
            return False


def _const_size(value: Value) -> int:
    return value.const.array.size if isinstance(value, ValueView) and value.const is not None else 0


def _reads_non_finite(expr: Expr, scope: Scope) -> bool:
    names = {part.name for part in walk(expr) if isinstance(part, Ref)}
    return any(_has_non_finite(scope.names[name]) for name in names if name in scope.names)


def view_of(array: Array, name: str = "", id: int = -1) -> ValueView:
    """A constant as guards see it, for tests of rules and for values that fold made."""
    const = Const(array)
    return ValueView(id, name, TensorType(const.dtype, array.shape), const)


_EVALUATORS: Final = cast(
    "dict[type[Expr], Callable[[Expr, Scope], Value]]",
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
