"""Smaller tests that still show the same: fewer elements, parts and attributes, plainer types and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from gerules.dsl.expressions import Expr, ListExpr, MapExpr
from gerules.dsl.syntax import DimName, DimSize, Elements, GivenAttr, GivenValue, RuleTest
from gerules.ir import DType
from gerules.report.rule_edits import (
    count_of,
    dims_of,
    expr_of,
    pairs_of,
    plain,
    resized,
    sizes_in,
    with_dims,
    with_dtype,
    with_expr,
    with_floats,
    with_item,
)

MAX_CHECKS: Final = 400
"""Tests tried while shrinking one."""

MOST_LISTED: Final = 8
"""Elements that are written out one by one; of more, all are made alike or stay random."""

_SIMPLE: Final = (0, 1, 2)


def shrink(test: RuleTest, is_alike: Callable[[RuleTest], bool], *, max_checks: int = MAX_CHECKS) -> RuleTest:
    """Return the smallest test found that is like one.

    Greedy: the first simpler test that `is_alike` holds for is taken, until none is left. Every step is
    simpler by one measure that no step raises, so it ends.

    Args:
        is_alike: Whether a test shows what `test` shows.
        max_checks: How often it is asked at most.
    """
    n_checks = 0
    refused: set[str] = set()
    while True:
        for simpler in _simpler(test):
            key = repr(simpler)
            if key in refused:
                continue
            if n_checks >= max_checks:
                return test
            n_checks += 1
            if is_alike(simpler):
                test = simpler
                break
            refused.add(key)
        else:
            return test


def _simpler(test: RuleTest) -> Iterator[RuleTest]:
    yield from _fewer_parts(test)
    yield from _smaller(test)
    yield from _plainer_types(test)
    yield from _plainer_numbers(test)


# ---------------------------------------------------------------- parts
def _fewer_parts(test: RuleTest) -> Iterator[RuleTest]:
    for place, item in enumerate(test.inputs):
        rest = replace(test, inputs=(*test.inputs[:place], *test.inputs[place + 1 :]))
        if isinstance(item, GivenAttr):
            yield rest
            if isinstance(item.value, MapExpr):
                pairs = item.value.pairs
                for at in range(len(pairs)):
                    fewer = replace(item.value, pairs=(*pairs[:at], *pairs[at + 1 :]))
                    yield with_expr(test, item.name.name, fewer)
        elif item.is_optional:
            yield with_item(test, place, GivenValue(item.span, item.name, None))
            yield with_item(test, place, replace(item, is_optional=False))
    for place, choice in enumerate(test.choices):
        for at in range(len(choice.ops)):
            if len(choice.ops) > 1:
                shorter = replace(choice, ops=(*choice.ops[:at], *choice.ops[at + 1 :]))
                yield replace(test, choices=(*test.choices[:place], shorter, *test.choices[place + 1 :]))
    for at in range(len(test.escapes)):
        yield replace(test, escapes=(*test.escapes[:at], *test.escapes[at + 1 :]))
    if test.device is not None:
        yield replace(test, device=None)
    for at in range(len(test.after)):
        yield replace(test, after=(*test.after[:at], *test.after[at + 1 :]))


# ---------------------------------------------------------------- shapes
def _smaller(test: RuleTest) -> Iterator[RuleTest]:
    yield from _without_names(test)
    sizes = sorted(sizes_in(test), reverse=True)
    for old in sizes:
        for new in sorted({1, 2, 3, old // 2, old - 1}):
            if 0 < new < old:
                yield resized(test, old, new, with_numbers=False)
                yield resized(test, old, new, with_numbers=True)
    places = [(place, item) for place, item in enumerate(test.inputs) if isinstance(item, GivenValue)]
    yield _shorter(test)
    for place, item in places:
        dims = dims_of(item)
        for at, dim in enumerate(dims):
            yield with_item(test, place, with_dims(item, [*dims[:at], *dims[at + 1 :]]))
            for new in (1, 2):
                if isinstance(dim, DimSize) and new < dim.size:
                    smaller = [*dims[:at], DimSize(item.span, new), *dims[at + 1 :]]
                    yield with_item(test, place, with_dims(item, smaller))
    for item in test.inputs:
        if isinstance(item, GivenAttr) and isinstance(item.value, ListExpr) and item.value.items:
            yield with_expr(test, item.name.name, replace(item.value, items=item.value.items[:-1]))


def _shorter(test: RuleTest) -> RuleTest:
    """Take the first dimension of every value away."""
    return replace(
        test,
        inputs=tuple(
            with_dims(item, dims_of(item)[1:]) if isinstance(item, GivenValue) and dims_of(item) else item
            for item in test.inputs
        ),
    )


def _without_names(test: RuleTest) -> Iterator[RuleTest]:
    names = sorted(
        {
            dim.name
            for item in test.inputs
            if isinstance(item, GivenValue)
            for dim in dims_of(item)
            if isinstance(dim, DimName)
        }
    )
    for name in names:
        yield replace(
            test,
            inputs=tuple(
                with_dims(
                    item,
                    [
                        DimSize(item.span, 2) if isinstance(dim, DimName) and dim.name == name else dim
                        for dim in dims_of(item)
                    ],
                )
                if isinstance(item, GivenValue) and dims_of(item)
                else item
                for item in test.inputs
            ),
        )


# ---------------------------------------------------------------- types and numbers
def _plainer_types(test: RuleTest) -> Iterator[RuleTest]:
    dtypes = {
        dtype
        for item in test.inputs
        if isinstance(item, GivenValue) and item.type is not None
        for dtype in item.type.dtypes or ()
    }
    if any(dtype.is_float and dtype is not DType.F32 for dtype in dtypes):
        yield with_floats(test, DType.F32)
        for place, item in enumerate(test.inputs):
            if not isinstance(item, GivenValue) or item.type is None or item.type.dtypes is None:
                continue
            if any(dtype.is_float and dtype is not DType.F32 for dtype in item.type.dtypes):
                yield with_item(test, place, with_dtype(item, DType.F32))


def _plainer_numbers(test: RuleTest) -> Iterator[RuleTest]:
    for place, item in enumerate(test.inputs):
        if isinstance(item, GivenValue):
            for plainer in _plainer_elements(item):
                yield with_item(test, place, plainer)
        elif isinstance(item.value, MapExpr):
            for at, (key, value) in enumerate(pairs_of(item.value)):
                for simple in _simple_exprs(value):
                    pairs = list(item.value.pairs)
                    pairs[at] = (expr_of(key, item.span), simple)
                    yield with_expr(test, item.name.name, replace(item.value, pairs=tuple(pairs)))
        else:
            for simple in _simple_exprs(item.value):
                yield with_expr(test, item.name.name, simple)


def _plainer_elements(item: GivenValue) -> Iterator[GivenValue]:
    """Yield a value with elements that are alike, or with one of those listed made plain."""
    if item.type is None or (not item.type.is_const and item.elements is None and item.low is None):
        return
    given = item.elements
    is_alike = given is not None and given.kind != "random" and len(set(given.values)) == 1
    known = given.values[0] if given is not None and is_alike else None
    for number in _SIMPLE:
        if known is None or number < abs(known):
            elements = Elements(item.span, "fill", (number,))
            if _is_integer(item) and 0 < count_of(item) <= MOST_LISTED:
                elements = Elements(item.span, "list", (number,) * count_of(item))
            yield replace(item, low=None, high=None, elements=elements)
    if not item.type.is_const and (given is not None or item.low is not None):
        yield replace(item, low=None, high=None, elements=None)
    if given is None and item.low is not None and item.type.is_const:
        yield replace(item, low=None, high=None)
    if given is not None and given.kind == "list" and count_of(item) <= MOST_LISTED:
        for at, value in enumerate(given.values):
            for number in _SIMPLE:
                if value != value or abs(number) < abs(value):
                    values = (*given.values[:at], number, *given.values[at + 1 :])
                    yield replace(item, elements=replace(given, values=values))


def _is_integer(item: GivenValue) -> bool:
    dtypes = item.type.dtypes if item.type is not None else None
    return bool(dtypes) and all(dtype.is_integer for dtype in dtypes or ())


def _simple_exprs(expr: Expr) -> Iterator[Expr]:
    value = plain(expr)
    match value:
        case int() | float() if not isinstance(value, bool):
            for number in _SIMPLE:
                if number < abs(value) or (number == -value and value < 0):
                    yield expr_of(type(value)(number), expr.span)
        case _:
            pass
