"""Checks of expressions before anything runs: names, functions and their arguments, attributes, `$NAME`s."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from gerules.dsl.book import RuleBook, suggest
from gerules.dsl.expressions import Attribute, CallExpr, Expr, ParamRef, Ref, parts
from gerules.dsl.external import declaration_of
from gerules.dsl.functions import ATTRIBUTES, METHODS
from gerules.dsl.read_pattern import DTYPES
from gerules.dsl.registry import Function
from gerules.dsl.selection import setting_names
from gerules.errors import Faults, table

STATIC_NAMES: Final = frozenset({"device", "precision", "profile", "opset"})
"""Names that every expression may use."""

GATE_NAMES: Final = frozenset({"before", "after"})
"""The costs that a gate compares."""

_ATTRIBUTE_NAMES: Final = frozenset(name for names in ATTRIBUTES.values() for name in names)


@dataclass(frozen=True, slots=True)
class Names:
    """What exists outside a rule: operators, functions, `$NAME`s."""

    book: RuleBook
    operators: frozenset[str]
    functions: Mapping[str, Function]
    params: frozenset[str]


def names_of(book: RuleBook, operators: Collection[str], functions: Mapping[str, Function]) -> Names:
    """Collect the names that a book and its operators give."""
    params = frozenset(book.consts) | frozenset(book.params) | setting_names(book)
    return Names(book, frozenset(operators), functions, params)


def check_expr(expr: Expr, bound: Collection[str], names: Names, faults: Faults) -> set[str]:
    """Record what is wrong in an expression; return the bound names it uses."""
    used: set[str] = set()
    stack: list[Expr] = [expr]
    while stack:
        item = stack.pop()
        match item:
            case Ref(name=name):
                if name in bound:
                    used.add(name)
                elif name not in STATIC_NAMES and name not in DTYPES and name not in names.book.op_sets:
                    known = [*bound, *STATIC_NAMES, *names.book.op_sets]
                    faults.add(table.UNDEFINED_NAME, span=item.span, name=name, notes=suggest(name, known))
            case ParamRef(name=name):
                if name not in names.params:
                    faults.add(
                        table.UNDEFINED_NAME,
                        span=item.span,
                        name=f"${name}",
                        notes=suggest(name, names.params),
                    )
            case CallExpr():
                stack += reversed(_check_call(item, bound, used, names, faults))
                continue
            case Attribute(name=attribute):
                if attribute.name not in _ATTRIBUTE_NAMES:
                    faults.add(
                        table.UNKNOWN_ATTRIBUTE,
                        span=attribute.span,
                        name=attribute.name,
                        owner="a value of an expression",
                        notes=suggest(attribute.name, _ATTRIBUTE_NAMES),
                    )
            case _:
                pass
        stack += reversed(list(parts(item)))
    return used


def _check_call(
    call: CallExpr, bound: Collection[str], used: set[str], names: Names, faults: Faults
) -> list[Expr]:
    """Check a call itself; return the inner expressions that are left to check."""
    inner = [*call.args, *(value for _, value in call.kwargs)]
    callee = call.callee
    if isinstance(callee, Attribute):
        if callee.name.name not in METHODS:
            notes = suggest(callee.name.name, METHODS)
            faults.add(table.UNKNOWN_FUNCTION, span=callee.name.span, name=callee.name.name, notes=notes)
        return [callee.operand, *inner]
    if not isinstance(callee, Ref):
        faults.add(table.BAD_CALL, span=callee.span, name="this", reason="only a function can be called")
        return inner
    function = names.functions.get(callee.name)
    is_declared = callee.name in names.book.externs
    if function is None and is_declared:
        return inner  # the `extern` line is the fault
    if function is None or (function.external is not None and not is_declared):
        notes = suggest(callee.name, [*names.functions, *names.book.externs])
        if function is not None:
            notes = (f"Python has registered it; declare it: {declaration_of(function)}",)
        faults.add(table.UNKNOWN_FUNCTION, span=callee.span, name=callee.name, notes=notes)
        return inner
    if misfit := function.misfit(len(call.args), [name.name for name, _ in call.kwargs]):
        notes = (f"it is {function.signature}",)
        faults.add(table.BAD_CALL, span=call.span, name=callee.name, reason=misfit, notes=notes)
    left: list[Expr] = []
    places: list[tuple[int | str, Expr]] = [*enumerate(call.args)]
    places += [(name.name, value) for name, value in call.kwargs]
    for place, arg in places:
        if function.reads_ops(place) and isinstance(arg, Ref) and arg.name not in bound:
            if arg.name not in names.operators and arg.name not in names.book.op_sets:
                known = [*names.operators, *names.book.op_sets]
                faults.add(
                    table.UNKNOWN_OPERATOR, span=arg.span, name=arg.name, notes=suggest(arg.name, known)
                )
            continue
        left.append(arg)
    return left
