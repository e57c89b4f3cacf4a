"""Tests of rules with something else in them: sizes, element types, elements, attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np

from gerules.dsl.expressions import Expr, Ident, ListExpr, Literal, MapExpr, Negate, Ref
from gerules.dsl.syntax import DimPattern, DimSize, Elements, GivenAttr, GivenValue, RuleTest
from gerules.errors import Span
from gerules.ir import DType
from gerules.report.rule_inputs import SIZE_OF_NAMED_DIM

MAX_ELEMENTS: Final = 4096
"""Elements of a value that is made larger."""


# ---------------------------------------------------------------- tests with something else in them
def with_item(test: RuleTest, place: int, item: GivenValue | GivenAttr) -> RuleTest:
    """Return the test with another input at a place."""
    return replace(test, inputs=(*test.inputs[:place], item, *test.inputs[place + 1 :]))


def with_attr(test: RuleTest, name: str, value: object) -> RuleTest:
    """Return the test with a value for a captured attribute."""
    return with_expr(test, name, expr_of(value, test.span))


def with_expr(test: RuleTest, name: str, value: Expr) -> RuleTest:
    """Return the test with an expression for a captured attribute."""
    item = GivenAttr(test.span, Ident(test.span, name), value)
    for place, known in enumerate(test.inputs):
        if known.name.name == name:
            return with_item(test, place, item)
    return replace(test, inputs=(*test.inputs, item))


def with_floats(test: RuleTest, dtype: DType) -> RuleTest:
    """Return the test with one element type for all floats."""
    return replace(
        test,
        inputs=tuple(
            with_dtype(item, dtype) if isinstance(item, GivenValue) and is_float(item) else item
            for item in test.inputs
        ),
    )


def with_dtype(item: GivenValue, dtype: DType) -> GivenValue:
    """Return a value with another element type."""
    return item if item.type is None else replace(item, type=replace(item.type, dtypes=frozenset([dtype])))


def with_dims(item: GivenValue, dims: Sequence[DimPattern]) -> GivenValue:
    """Return a value with other dimensions; elements that are given are repeated or cut to fill them."""
    if item.type is None:
        return item
    found = replace(item, type=replace(item.type, dims=tuple(dims)))
    if count_of(found) > MAX_ELEMENTS:
        return item
    given = item.elements
    if given is not None and given.kind == "list" and given.values:
        count = count_of(found)
        values = (given.values * (count // len(given.values) + 1))[:count]
        found = replace(found, elements=replace(given, values=values))
    return found


def resized(test: RuleTest, old: int, new: int, *, with_numbers: bool) -> RuleTest:
    """Return the test with another size for all dimensions of one size, and numbers that are that size."""

    def dim(item: GivenValue, dim: DimPattern) -> DimPattern:
        return DimSize(item.span, new) if isinstance(dim, DimSize) and dim.size == old else dim

    test = map_dims(test, dim)
    if not with_numbers:
        return test
    items: list[GivenValue | GivenAttr] = []
    for item in test.inputs:
        if isinstance(item, GivenValue):
            given = item.elements
            if given is not None and given.kind == "list":
                values = tuple(new if value == old else value for value in given.values)
                item = replace(item, elements=replace(given, values=values))
        else:
            item = replace(item, value=_renumbered(item.value, old, new))
        items.append(item)
    return replace(test, inputs=tuple(items))


def _renumbered(expr: Expr, old: int, new: int) -> Expr:
    match expr:
        case Literal(value=int() as value) if value == old and not isinstance(value, bool):
            return Literal(expr.span, new)
        case ListExpr(items=items):
            return ListExpr(expr.span, tuple(_renumbered(item, old, new) for item in items))
        case MapExpr(pairs=pairs):
            return MapExpr(expr.span, tuple((key, _renumbered(value, old, new)) for key, value in pairs))
        case _:
            return expr


def with_equal_sizes(test: RuleTest, size: int = 3) -> RuleTest:
    """Return the test with one size for all dimensions that are given, but those of one."""

    def dim(item: GivenValue, dim: DimPattern) -> DimPattern:
        return DimSize(item.span, size) if isinstance(dim, DimSize) and dim.size > 1 else dim

    return map_dims(test, dim)


def with_equal_elements(test: RuleTest) -> RuleTest:
    """Return the test with ones in all inputs that run; constants stay as they are."""
    return replace(
        test,
        inputs=tuple(
            replace(item, low=None, high=None, elements=Elements(item.span, "fill", (1,)))
            if isinstance(item, GivenValue) and item.type is not None and not item.type.is_const
            else item
            for item in test.inputs
        ),
    )


def map_dims(test: RuleTest, change: Callable[[GivenValue, DimPattern], DimPattern]) -> RuleTest:
    """Return the test with every dimension changed by a function."""
    return replace(
        test,
        inputs=tuple(
            with_dims(item, [change(item, dim) for dim in dims_of(item)])
            if isinstance(item, GivenValue) and item.type is not None and item.type.dims is not None
            else item
            for item in test.inputs
        ),
    )


# ---------------------------------------------------------------- what a test gives
def dims_of(item: GivenValue) -> tuple[DimPattern, ...]:
    """Return the dimensions of a value; none for one without shape."""
    return item.type.dims if item.type is not None and item.type.dims is not None else ()


def count_of(item: GivenValue) -> int:
    """Return how many elements a value has, when running."""
    count = 1
    for dim in dims_of(item):
        count *= dim.size if isinstance(dim, DimSize) else SIZE_OF_NAMED_DIM
    return count


def sizes_in(test: RuleTest, *, is_const: bool | None = None) -> set[int]:
    """Return the sizes of dimensions that a test gives."""
    return {
        dim.size
        for item in test.inputs
        if isinstance(item, GivenValue) and item.type is not None and is_const in (None, item.type.is_const)
        for dim in dims_of(item)
        if isinstance(dim, DimSize)
    }


def is_float(item: GivenValue) -> bool:
    """Whether a value has floats."""
    dtypes = item.type.dtypes if item.type is not None else None
    return dtypes is not None and all(dtype.is_float for dtype in dtypes)


def pairs_of(expr: MapExpr) -> Iterator[tuple[str, Expr]]:
    """Yield the entries of a map by name."""
    for key, value in expr.pairs:
        if isinstance(key, Literal) and isinstance(key.value, str):
            yield key.value, value


# ---------------------------------------------------------------- values and expressions
def plain(expr: Expr) -> object:
    """Return the value of a literal, an element type or a list of them; None for anything else."""
    match expr:
        case Literal(value=value):
            return value
        case Negate(operand=Literal(value=int() | float() as value)):
            return -value
        case Ref(name=name):
            return next((dtype for dtype in DType if dtype.value == name), None)
        case ListExpr(items=items):
            values = tuple(plain(item) for item in items)
            return None if any(value is None for value in values) else values
        case _:
            return None


def expr_of(value: object, span: Span) -> Expr:
    """Return a value as an expression."""
    match value:
        case DType():
            return Ref(span, value.value)
        case tuple():
            return ListExpr(span, tuple(expr_of(item, span) for item in cast("tuple[object, ...]", value)))
        case np.generic():
            return expr_of(cast("object", value.item()), span)
        case int() | float() if value < 0 and not isinstance(value, bool):
            return Negate(span, Literal(span, -value))
        case bool() | int() | float() | str():
            return Literal(span, value)
        case _:
            return Literal(span, None)
