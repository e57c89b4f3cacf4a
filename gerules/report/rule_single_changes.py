"""Tests with one thing changed, those first that break the rules that people write.

An optional part is there or not; a size is one, or no longer one; a constant has another rank; all values are
of another type; a constant is zero or negative. What cannot be built says nothing, so changes come in groups:
the first of a group that can be built stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from gerules.dsl.expressions import Ident
from gerules.dsl.syntax import (
    DimName,
    DimPattern,
    DimSize,
    Elements,
    GivenAttr,
    GivenValue,
    Rule,
    RuleTest,
    TypePattern,
    ValuePattern,
)
from gerules.ir import DType
from gerules.report.rule_edits import (
    count_of,
    dims_of,
    is_float,
    resized,
    sizes_in,
    with_dims,
    with_dtype,
    with_equal_sizes,
    with_item,
)
from gerules.report.rule_inputs import Setting
from gerules.report.rule_operands import leaves, lists

Group = Sequence[RuleTest]
"""Tests of which the first that can be built is wanted."""

_OTHER_DTYPES: Final = (
    DType.I32,
    DType.F16,
    DType.F64,
    DType.I64,
    DType.BF16,
    DType.U8,
    DType.I8,
    DType.BOOL,
)
_UNKNOWN_SIZE: Final = 4
_MOST_SPECIAL: Final = 64
_WIDE: Final = (-10.0, 10.0)
_LARGE: Final = (-300.0, 300.0)
SPECIAL: Final = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0)
"""Numbers that a rule must keep unless it is `inexact`."""
_SMALL_INTEGERS: Final = (3.0, 9.0)


class SingleChanges:
    """The tests that differ from one of a rule in one thing."""

    def __init__(self, rule: Rule, setting: Setting) -> None:
        self._is_inexact = rule.is_inexact
        self._leaves = list(leaves(rule))
        self._lists = lists(rule, setting.schema)

    # ------------------------------------------------------------ optional parts
    def optional_parts(self, test: RuleTest) -> Iterator[Group]:
        """Yield each optional value given where the test leaves it out, and left out where it is given."""
        given = {item.name.name: place for place, item in enumerate(test.inputs)}
        for pattern in self._leaves:
            if not pattern.is_optional:
                continue
            place = given.get(pattern.name, len(test.inputs))
            item = test.inputs[place] if place < len(test.inputs) else None
            if isinstance(item, GivenAttr):
                continue
            if item is not None and item.type is not None:
                yield [with_item(test, place, GivenValue(item.span, item.name, None))]
                if item.is_optional:
                    yield [with_item(test, place, replace(item, is_optional=False))]
            else:
                yield [with_item(test, place, value) for value in _values_for(pattern, test)]

    # ------------------------------------------------------------ kinds of changes
    def kinds(self, test: RuleTest) -> list[Iterator[Group]]:
        """Return the other changes by kind: sizes, ranks, element types, elements."""
        return [
            self._sizes(test),
            self._ranks(test),
            self._dtypes(test),
            self._elements(test),
            self._list_elements(test),
        ]

    def _sizes(self, test: RuleTest) -> Iterator[Group]:
        longest = _longest(test)
        for place, item in self._values(test):
            dims = dims_of(item)
            for at, dim in enumerate(dims):
                other = longest[len(longest) - len(dims) + at] if len(dims) <= len(longest) else dim
                if isinstance(dim, DimSize) and dim.size == 1 and other != dim:
                    yield [with_item(test, place, with_dims(item, [*dims[:at], other, *dims[at + 1 :]]))]
        for size in sorted(sizes_in(test) - {1}):
            yield [resized(test, size, 1, with_numbers=with_numbers) for with_numbers in (False, True)]
        yield [with_equal_sizes(test)]
        for place, item in self._values(test):
            dims = dims_of(item)
            for at in range(len(dims)):
                one = [*dims[:at], DimSize(item.span, 1), *dims[at + 1 :]]
                yield [with_item(test, place, with_dims(item, one))]

    def _ranks(self, test: RuleTest) -> Iterator[Group]:
        """Yield other shapes of constants, at equal sizes if they fit only so; then an axis more or less."""
        for place, item in self._values(test):
            if item.type is not None and item.type.is_const:
                for dims in _shapes(item, test):
                    found = with_item(test, place, with_dims(item, dims))
                    yield [found, with_equal_sizes(found)]
        for n_more in (1, -1):
            inputs = list(test.inputs)
            for place, item in self._values(test):
                dims = dims_of(item)
                if item.type is not None and not item.type.is_const:
                    inputs[place] = with_dims(
                        item, [DimSize(item.span, 2), *dims] if n_more > 0 else dims[1:]
                    )
            yield [replace(test, inputs=tuple(inputs))]

    def _dtypes(self, test: RuleTest) -> Iterator[Group]:
        first = next((item.type.dtypes for _, item in self._values(test) if item.type is not None), None)
        for dtype in _OTHER_DTYPES:
            inputs = list(test.inputs)
            for place, item in self._values(test):
                if item.type is not None and item.type.dtypes == first:
                    inputs[place] = _in_dtype(item, dtype)
            yield [replace(test, inputs=tuple(inputs))]

    def _elements(self, test: RuleTest) -> Iterator[Group]:
        """Yield elements not alike, constants 0 or negative, inputs special or large; last wider ranges."""
        values = [(place, item) for place, item in self._values(test) if item.elements is None]
        free = [(place, item) for place, item in values if item.low is None]
        ranged = [(place, item) for place, item in values if item.low is not None]
        consts = [(place, item) for place, item in free if item.type is not None and item.type.is_const]
        for place, item in self._values(test):
            if item.elements is not None and item.elements.kind == "fill":
                yield [with_item(test, place, replace(item, elements=None))]
        for number in (0, -1):
            for place, item in consts:
                elements = Elements(item.span, "fill", (number,))
                yield [with_item(test, place, replace(item, elements=elements))]
        for place, item in values:
            is_input = item.type is not None and not item.type.is_const
            if is_input and is_float(item) and not self._is_inexact and count_of(item) <= _MOST_SPECIAL:
                turns = (SPECIAL[at % len(SPECIAL)] for at in range(count_of(item)))
                elements = Elements(item.span, "list", tuple(turns))
                yield [with_item(test, place, replace(item, low=None, high=None, elements=elements))]
        for items, (low, high) in ((consts, _LARGE), (ranged, _WIDE), (free, _LARGE)):
            for place, item in items:
                yield [with_item(test, place, replace(item, low=low, high=high))]
        for place, item in ranged:
            elements = Elements(item.span, "fill", (-1,))
            yield [with_item(test, place, replace(item, low=None, high=None, elements=elements))]

    def _list_elements(self, test: RuleTest) -> Iterator[Group]:
        """Yield lists with a 0 or a -1 in them, which stand for something else in a shape or in axes."""
        for place, item in enumerate(test.inputs):
            if not isinstance(item, GivenValue) or item.name.name not in self._lists or item.elements is None:
                continue
            known = item.elements.values if item.elements.kind == "list" else ()
            for at, number in product(range(len(known)), (0, -1)):
                values = (*known[:at], number, *known[at + 1 :])
                yield [with_item(test, place, replace(item, elements=replace(item.elements, values=values)))]

    def _values(self, test: RuleTest) -> Iterator[tuple[int, GivenValue]]:
        """Yield the values of a test that may have any shape and elements, by place."""
        for place, item in enumerate(test.inputs):
            if not isinstance(item, GivenValue) or item.name.name in self._lists:
                continue
            if item.type is not None and item.type.dims is not None:
                yield place, item


def _longest(test: RuleTest) -> tuple[DimPattern, ...]:
    """Return the dimensions of the value of the highest rank; the first of them that a test gives."""
    shapes = [dims_of(item) for item in test.inputs if isinstance(item, GivenValue)]
    return max(shapes, key=len, default=())


def _values_for(pattern: ValuePattern, test: RuleTest) -> Iterator[GivenValue]:
    """Yield what an optional value could be: sizes that the pattern leaves open are some other operand's."""
    wanted, span = pattern.type, test.span
    dtypes = wanted.dtypes if wanted is not None else None
    known = [item.type for item in test.inputs if isinstance(item, GivenValue) and item.type is not None]
    used = next(
        (item.dtypes for item in known if item.dtypes is not None and (not dtypes or item.dtypes <= dtypes)),
        None,
    )
    dtype = used or frozenset([min(dtypes, key=lambda item: item.value) if dtypes else DType.F32])
    is_const = wanted is not None and wanted.is_const
    for dims in _dims_for(pattern, test):
        type = TypePattern(span, is_const, dtype, None, dims, None)
        yield GivenValue(span, Ident(span, pattern.name), type)


def _dims_for(pattern: ValuePattern, test: RuleTest) -> Iterator[tuple[DimPattern, ...]]:
    span = test.span
    written = pattern.type.dims if pattern.type is not None else None
    sizes = dict.fromkeys(
        dim.size
        for is_const in (True, False)
        for item in test.inputs
        if isinstance(item, GivenValue) and item.type is not None and item.type.is_const is is_const
        for dim in dims_of(item)
        if isinstance(dim, DimSize)
    )
    if written is not None:
        for size in sizes or (_UNKNOWN_SIZE,):
            yield tuple(dim if isinstance(dim, DimSize) else DimSize(span, size) for dim in written)
        return
    for size in sizes:
        yield (DimSize(span, size),)
    yield ()
    yield _longest(test)


def _shapes(item: GivenValue, test: RuleTest) -> Iterator[list[DimPattern]]:
    """Yield other shapes for an operand: its elements over other axes; for one element also more of them."""
    span, dims = item.span, dims_of(item)
    one: DimPattern = DimSize(span, 1)
    longest = _longest(test)
    n_axes = len(longest)
    full = [dim for dim in dims if dim != one]
    found: list[list[DimPattern]] = [
        full,
        [*full, one],
        [*full, one, one],
        [*[one] * (n_axes - len(full)), *full],
        [*[one] * (n_axes + 1 - len(full)), *full],
    ]
    if not full:
        sizes: list[DimPattern] = [DimSize(span, size) for size in sorted(sizes_in(test) - {1})]
        names = [dim for dim in longest if isinstance(dim, DimName)]
        found += [[size] for size in (*longest[-1:], *sizes, *names)]
        found += [[one, size, *[one] * (n_axes - 2)] for size in sizes if n_axes > 2]
    seen = [list(dims)]
    for shape in found:
        if shape not in seen:
            seen.append(shape)
            yield shape


def _in_dtype(item: GivenValue, dtype: DType) -> GivenValue:
    """Return a value of another element type; constants that were floats become small integers."""
    is_drawn = item.type is not None and item.type.is_const and item.elements is None
    if dtype.is_integer and is_drawn and is_float(item):
        low, high = _SMALL_INTEGERS
        item = replace(item, low=low, high=high)
    return with_dtype(item, dtype)
