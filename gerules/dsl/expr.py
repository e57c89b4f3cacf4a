"""The evaluator of expressions: guards, folds, gates, static conditions and measures.

Nothing of a user's text is ever executed by Python: names, functions and attributes come from fixed
tables, and every result is bounded. A fault of the text is a diagnostic with its place; what cannot
be known when compiling rejects the match with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gerules.dsl.evaluators import compiled, fault_at, is_true
from gerules.dsl.expressions import Expr, Ref, walk
from gerules.dsl.functions_array import round_to
from gerules.dsl.scope import Scope
from gerules.dsl.syntax import Condition, FoldLine
from gerules.dsl.tree import RuleError
from gerules.dsl.values import (
    GROWTH,
    Array,
    EvalError,
    Reject,
    Value,
    ValueView,
    as_items,
    check_total,
    is_all_finite,
    raw_array,
)
from gerules.errors import Diagnostic
from gerules.ir import Const, DType, TensorType, dtype_of

__all__ = ["Expr", "Scope", "Verdict", "evaluate", "fold", "judge", "to_const", "view_of"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a condition holds; if not, why, in the words of the rule; `fault` when it has no value."""

    holds: bool
    reason: str = ""
    fault: Diagnostic | None = None


_HOLDS: Final = Verdict(True)


def evaluate(expr: Expr, scope: Scope) -> Value:
    """Return the value of an expression.

    Raises:
        RuleError: E40110 when it has none, with the place of the innermost part that failed.
        Reject: when it depends on something not known when compiling, such as a symbolic dimension.
    """
    return compiled(expr)(scope)


def judge(condition: Condition, scope: Scope) -> Verdict:
    """Say whether a guard, a gate or a static condition holds. Never raises for what is in the text."""
    try:
        if is_true(compiled(condition.test)(scope), condition.test.span):
            return _HOLDS
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
        raise fault_at(line.value.span, str(error)) from None
    if _has_non_finite(value) and not _reads_non_finite(line.value, scope):
        names = ", ".join(name.name for name in line.names)
        raise Reject(f"{names} is not finite although what it is made from is")
    if len(line.names) == 1:
        return {line.names[0].name: value}
    try:
        items = as_items(value, "the value")
    except EvalError as error:
        raise fault_at(line.value.span, str(error)) from None
    if len(items) != len(line.names):
        raise fault_at(line.value.span, f"it gives {len(items)} values for {len(line.names)} names")
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


def _has_non_finite(value: Value) -> bool:
    match value:
        case float():
            return not np.isfinite(value)
        case tuple():
            return any(_has_non_finite(item) for item in value)
        case np.ndarray():
            if value.dtype.kind in "biuOSUT":
                return False
            is_float = value.dtype.kind == "f" or dtype_of(value).is_float
            return is_float and value.size > 0 and not is_all_finite(value)
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
