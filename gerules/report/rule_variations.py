"""Tests made from tests: other shapes, element types, attributes, operators and elements.

Every variation is a test itself, so that one that matters can be printed and pasted. What cannot be built,
or does not make the rule fire, says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from gerules.dsl.expressions import Ident, Literal, MapExpr
from gerules.dsl.syntax import (
    ANY,
    CallPattern,
    ChainOp,
    DimName,
    DimPattern,
    DimSize,
    Elements,
    GivenAttr,
    GivenChoice,
    GivenValue,
    PlainOp,
    Rule,
    RuleTest,
    Target,
    VariableOp,
    match_lines,
    patterns_in,
)
from gerules.ops import AttrSpec
from gerules.report.attr_values import DTYPES, FLOATS, captured, value_near, values_for
from gerules.report.rule_edits import (
    count_of,
    dims_of,
    expr_of,
    is_float,
    map_dims,
    pairs_of,
    plain,
    resized,
    sizes_in,
    with_attr,
    with_dims,
    with_dtype,
    with_equal_elements,
    with_equal_sizes,
    with_expr,
    with_floats,
    with_item,
)
from gerules.report.rule_inputs import SIZE_OF_NAMED_DIM, Setting
from gerules.report.rule_operands import lists, test_of_pattern
from gerules.report.rule_single_changes import SPECIAL, Group, SingleChanges

SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 16)
"""Dimensions that are tried: one, odd, even, and a block of channels."""

_MAX_EDITS: Final = 3
_MOST_STALE: Final = 500
"""Edits in a row that give nothing new, after which no more are tried."""
_LONGEST_CHAIN: Final = 5
_RANGES: Final = ((0.0, 1.0), (0.5, 2.0), (-10.0, 10.0), (-0.01, 0.01), (-300.0, 300.0), (100.0, 60000.0))
_FILLS: Final = (0, 1, -1, 2)
_T = TypeVar("_T")
Edit = Callable[[RuleTest], RuleTest | None]


class Variations:
    """Tests around those of one rule, in an order that a seed fixes."""

    def __init__(self, rule: Rule, setting: Setting, seed: int) -> None:
        self.rule = rule
        self.setting = setting
        self._random = np.random.default_rng(seed)
        self._params = list(captured(rule))
        self._lists = lists(rule, setting.schema)
        self._is_built = False

    def built(self) -> None:
        """Say that the last test that `around` gave can be built: others of its group are not asked for."""
        self._is_built = True

    def around(self, tests: Sequence[RuleTest]) -> Iterator[RuleTest]:
        """Yield variations without end.

        First the tests; then each optional part there and not; then one change of each kind in turn, while
        there are any, and edits of several things.
        """
        bases = [_open(test) for test in tests] or [test_of_pattern(self.rule)]
        yield from bases
        seen = {repr(test) for test in bases}
        singles = SingleChanges(self.rule, self.setting)
        edited = list(bases)
        for test in bases:
            for group in singles.optional_parts(test):
                yield from self._first_built(group, seen, edited)
        by_base = [[*singles.kinds(test), *self._planned(test)] for test in bases]
        kinds = [_in_turn(same) for same in zip(*by_base, strict=True)]
        for group in _in_turn([*kinds, ((test,) for test in self._edited(edited))]):
            yield from self._first_built(group, seen, [])

    def _first_built(self, group: Group, seen: set[str], found: list[RuleTest]) -> Iterator[RuleTest]:
        """Yield tests that are new until one can be built; that one is added to `found`."""
        for test in group:
            key = repr(test)
            if key in seen:
                continue
            seen.add(key)
            self._is_built = False
            yield test
            if self._is_built:
                found.append(test)
                return

    def _edited(self, bases: Sequence[RuleTest]) -> Iterator[RuleTest]:
        """Yield tests with one edit of each kind, then with several; ends when nothing new comes."""
        edits = self._edits()
        seen: set[str] = set()
        turn = 0
        n_stale = 0
        while n_stale < _MOST_STALE:
            found = bases[int(self._random.integers(len(bases)))]
            # The first rounds edit one thing at a time; those are the easiest to understand.
            for _ in range(1 if turn < 3 * len(edits) else 1 + int(self._random.integers(_MAX_EDITS))):
                found = edits[turn % len(edits)](found) or found
                turn += 1
            key = repr(found)
            n_stale = n_stale + 1 if key in seen else 0
            if not n_stale:
                seen.add(key)
                yield found

    def _planned(self, test: RuleTest) -> list[Iterator[Group]]:
        """Return each value of each attribute; and each operator of a set, each constant an input, ..."""
        attrs = list(self._each_attr(test))
        # Most axes, mixed up, change a shape, which the engine refuses; of one size they do not.
        # Equal elements tell which of them is taken. They are many, so they take two turns.
        even = [(with_equal_sizes(found), found) for found in attrs]
        return [
            *(self._shuffled(even[half::2]) for half in (0, 1)),
            chain(
                self._shuffled((with_equal_elements(found),) for found in attrs),
                self._shuffled((found,) for found in attrs),
            ),
            self._shuffled((found,) for found in self._each_part(test)),
        ]

    def _shuffled(self, groups: Iterable[Group]) -> Iterator[Group]:
        found = list(groups)
        return (found[int(at)] for at in self._random.permutation(len(found)))

    def _each_attr(self, test: RuleTest) -> Iterator[RuleTest]:
        for call, name, keyword in self._params:
            specs = self._specs(call, test)
            mentioned = {attr.name.name for attr in call.attrs}
            for key in (keyword,) if keyword is not None else sorted(specs.keys() - mentioned):
                for value in values_for(specs.get(key), key):
                    yield self._with_param(test, name, keyword, key, value)

    def _each_part(self, test: RuleTest) -> Iterator[RuleTest]:
        for name, op in sorted(self._op_variables().items()):
            for known in self._known_ops(op):
                yield _choosing(test, name, [known])
        for size in sorted(sizes_in(test, is_const=False)):
            yield self._with_name(test, size)
        for place, item in enumerate(test.inputs):
            if isinstance(item, GivenValue) and item.type is not None:
                other = replace(item.type, is_const=not item.type.is_const)
                yield with_item(test, place, replace(item, type=other))
        for name in self._results():
            yield replace(test, escapes=(Ident(test.span, name),))

    def _edits(self) -> list[Edit]:
        edits: list[Edit] = [
            self._set_floats, self._resize_all, self._add_attr, self._set_dtype, self._resize_one,
            self._change_attr, self._go_without, self._change_rank, self._set_range, self._choose_other,
            self._name_dim, self._set_elements, self._toggle_const, self._scalarize, self._escape,
        ]  # fmt: skip
        if not self.rule.is_inexact:
            edits.append(self._set_special)
        return edits

    # ------------------------------------------------------------ picking
    def _pick(self, items: Sequence[_T]) -> _T | None:
        return items[int(self._random.integers(len(items)))] if items else None

    def _pick_value(
        self, test: RuleTest, *, is_const: bool | None = None, may_be_list: bool = True
    ) -> tuple[int, GivenValue] | None:
        found = [
            (place, item)
            for place, item in enumerate(test.inputs)
            if isinstance(item, GivenValue)
            and item.type is not None
            and item.type.dims is not None
            and is_const in (None, item.type.is_const)
            and (may_be_list or item.name.name not in self._lists)
        ]
        return self._pick(found)

    # ------------------------------------------------------------ shapes
    def _resize_all(self, test: RuleTest) -> RuleTest | None:
        """Give all dimensions of one size another one; elements and attributes of that size too, at times."""
        old = self._pick(sorted(sizes_in(test)))
        new = self._pick(SIZES)
        if old is None or new is None or old == new:
            return None
        return resized(test, old, new, with_numbers=bool(self._random.integers(2)))

    def _resize_one(self, test: RuleTest) -> RuleTest | None:
        picked, size = self._pick_value(test), self._pick(SIZES)
        if picked is None or size is None:
            return None
        place, item = picked
        dims = list(dims_of(item))
        if not dims:
            return None
        at = int(self._random.integers(len(dims)))
        dims[at] = DimSize(item.span, size)
        return with_item(test, place, with_dims(item, dims))

    def _change_rank(self, test: RuleTest) -> RuleTest | None:
        """Put a dimension before all values, or one of them, or take the first one away."""
        size = self._pick((1, 2, 0, 0, *sorted(sizes_in(test))))
        picked = self._pick_value(test, may_be_list=False)
        if picked is None or size is None:
            return None
        is_for_all = bool(self._random.integers(2))
        items = list(test.inputs)
        for place, item in enumerate(items):
            if not isinstance(item, GivenValue) or item.type is None or item.type.dims is None:
                continue
            if item.name.name in self._lists:
                continue
            if is_for_all or place == picked[0]:
                dims = dims_of(item)
                items[place] = with_dims(item, [DimSize(item.span, size), *dims] if size else dims[1:])
        return replace(test, inputs=tuple(items))

    def _scalarize(self, test: RuleTest) -> RuleTest | None:
        picked = self._pick_value(test, is_const=True, may_be_list=False)
        if picked is None:
            return None
        place, item = picked
        rank = self._pick((0, 0, 1, len(dims_of(item)))) or 0
        return with_item(test, place, with_dims(item, [DimSize(item.span, 1)] * rank))

    def _name_dim(self, test: RuleTest) -> RuleTest | None:
        """Leave one size open until the graph runs; constants have what it is then."""
        size = self._pick(sorted(sizes_in(test, is_const=False)))
        return None if size is None else self._with_name(test, size)

    def _with_name(self, test: RuleTest, size: int) -> RuleTest:
        """Return the test with one size open."""

        def dim(item: GivenValue, dim: DimPattern) -> DimPattern:
            if not isinstance(dim, DimSize) or dim.size != size:
                return dim
            is_const = item.type is not None and item.type.is_const
            return DimSize(item.span, SIZE_OF_NAMED_DIM) if is_const else DimName(item.span, "N")

        return map_dims(test, dim)

    # ------------------------------------------------------------ element types
    def _set_floats(self, test: RuleTest) -> RuleTest | None:
        """Give all floats another type."""
        dtype = self._pick(FLOATS)
        return None if dtype is None else with_floats(test, dtype)

    def _set_dtype(self, test: RuleTest) -> RuleTest | None:
        """Give one value another element type, or all that have its type."""
        picked, dtype = self._pick_value(test), self._pick(DTYPES)
        if picked is None or dtype is None or picked[1].type is None:
            return None
        old, is_for_all = picked[1].type.dtypes, bool(self._random.integers(2))
        items = list(test.inputs)
        for place, item in enumerate(items):
            if not isinstance(item, GivenValue) or item.type is None:
                continue
            if place == picked[0] or (is_for_all and item.type.dtypes == old):
                items[place] = with_dtype(item, dtype)
        return replace(test, inputs=tuple(items))

    # ------------------------------------------------------------ elements
    def _set_range(self, test: RuleTest) -> RuleTest | None:
        picked, bounds = self._pick_value(test, may_be_list=False), self._pick(_RANGES)
        if picked is None or bounds is None:
            return None
        place, item = picked
        return with_item(test, place, replace(item, low=bounds[0], high=bounds[1], elements=None))

    def _set_elements(self, test: RuleTest) -> RuleTest | None:
        """Make the elements of a constant alike, or change one of those that are given."""
        picked = self._pick_value(test, is_const=True)
        if picked is None:
            return None
        place, item = picked
        given = item.elements
        if given is not None and given.kind == "list" and given.values and self._random.integers(3):
            values = list(given.values)
            at = int(self._random.integers(len(values)))
            near = [values[at] - 1, values[at] + 1, values[at] + 2]
            values[at] = self._pick([*near, 0, -1] if item.name.name in self._lists else near) or 0
            elements = replace(given, values=tuple(values))
        else:
            elements = Elements(item.span, "fill", (int(self._random.choice(_FILLS)),))
        return with_item(test, place, replace(item, low=None, high=None, elements=elements))

    def _set_special(self, test: RuleTest) -> RuleTest | None:
        """Let an input hold NaN, infinities and a negative zero."""
        picked = self._pick_value(test, is_const=False)
        if picked is None or not is_float(picked[1]):
            return None
        place, item = picked
        count = count_of(item)
        if not 0 < count <= 64:
            return None
        values = tuple(SPECIAL[int(at)] for at in self._random.integers(len(SPECIAL), size=count))
        return with_item(
            test, place, replace(item, low=None, high=None, elements=Elements(item.span, "list", values))
        )

    # ------------------------------------------------------------ parts
    def _go_without(self, test: RuleTest) -> RuleTest | None:
        """Leave out an optional input, or an attribute."""
        places = [
            place for place, item in enumerate(test.inputs) if isinstance(item, GivenAttr) or item.is_optional
        ]
        place = self._pick(places)
        if place is None:
            return None
        item = test.inputs[place]
        if isinstance(item, GivenValue):
            return with_item(
                test, place, replace(item, type=None, is_optional=False, elements=None, low=None, high=None)
            )
        return replace(test, inputs=(*test.inputs[:place], *test.inputs[place + 1 :]))

    def _toggle_const(self, test: RuleTest) -> RuleTest | None:
        picked = self._pick_value(test)
        if picked is None or picked[1].type is None:
            return None
        place, item = picked
        return with_item(
            test, place, replace(item, type=replace(picked[1].type, is_const=not picked[1].type.is_const))
        )

    def _escape(self, test: RuleTest) -> RuleTest | None:
        """Let a matched value have a reader outside, or none."""
        name = self._pick(self._results())
        if name is None:
            return None
        rest = tuple(item for item in test.escapes if item.name != name)
        return replace(test, escapes=rest if rest != test.escapes else (*rest, Ident(test.span, name)))

    def _results(self) -> list[str]:
        """Return the names of matched values that somebody else could read."""
        targets = [target for line in match_lines(self.rule.match) for target in line.targets]
        names = [item.name for item in targets if isinstance(item, Target) and item.name != ANY]
        return [name for name in names if not name.startswith("%")]

    def _choose_other(self, test: RuleTest) -> RuleTest | None:
        """Let a variable stand for another operator of its set, or make a chain of others."""
        ops = self._op_variables()
        choice = self._pick(sorted(ops))
        if choice is None:
            return None
        op = ops[choice]
        known = self._known_ops(op)
        length = int(self._random.integers(1, _LONGEST_CHAIN)) if isinstance(op, ChainOp) else 1
        names = [self._pick(known) for _ in range(length)]
        return _choosing(test, choice, [name for name in names if name]) if known else None

    def _known_ops(self, op: VariableOp | ChainOp) -> list[str]:
        names = sorted(self.setting.book.resolve(op.ops))
        return [name for name in names if self.setting.schema(name) is not None]

    def _op_variables(self) -> dict[str, VariableOp | ChainOp]:
        return {
            pattern.op.name: pattern.op
            for line in match_lines(self.rule.match)
            for pattern in patterns_in(line.pattern)
            if isinstance(pattern, CallPattern)
            and isinstance(pattern.op, VariableOp | ChainOp)
            and pattern.op.name != ANY
        }

    # ------------------------------------------------------------ attributes
    def _add_attr(self, test: RuleTest) -> RuleTest | None:
        """Give a captured attribute a value: one that the test leaves at its default, or another one."""
        picked = self._pick(self._params)
        if picked is None:
            return None
        call, name, keyword = picked
        specs = self._specs(call, test)
        mentioned = {attr.name.name for attr in call.attrs}
        key = keyword if keyword is not None else self._pick(sorted(specs.keys() - mentioned))
        value = self._value_for(specs.get(key), key) if key is not None else None
        if key is None or value is None:
            return None
        return self._with_param(test, name, keyword, key, value)

    def _with_param(
        self, test: RuleTest, name: str, keyword: str | None, key: str, value: object
    ) -> RuleTest:
        """Return the test with a value for what a call binds or ignores."""
        if keyword is None or name == ANY:
            return self._with_entry(test, name, key, value)
        return with_attr(test, name, value)

    def _with_entry(self, test: RuleTest, name: str, key: str, value: object) -> RuleTest:
        """Return the test with an entry of what `**name` captures."""
        known = next(
            (item.value for item in test.inputs if item.name.name == name and isinstance(item, GivenAttr)),
            None,
        )
        pairs = dict(pairs_of(known)) if isinstance(known, MapExpr) else {}
        pairs[key] = expr_of(value, test.span)
        span = test.span
        made = MapExpr(span, tuple((Literal(span, text), expr) for text, expr in pairs.items()))
        return with_expr(test, name, made)

    def _specs(self, call: CallPattern, test: RuleTest) -> Mapping[str, AttrSpec]:
        op = call.op
        if isinstance(op, PlainOp):
            name = op.name
        else:
            chosen = [item.ops[0].name for item in test.choices if item.name.name == op.name and item.ops]
            name = chosen[0] if chosen else next(iter(sorted(self.setting.book.resolve(op.ops))), "")
        schema = self.setting.schema(name)
        return {} if schema is None else schema.attrs

    def _value_for(self, spec: AttrSpec | None, name: str) -> object:
        return self._pick(values_for(spec, name))

    def _change_attr(self, test: RuleTest) -> RuleTest | None:
        given = [item for item in test.inputs if isinstance(item, GivenAttr)]
        item = self._pick(given)
        if item is None:
            return None
        if isinstance(item.value, MapExpr):
            pairs = list(pairs_of(item.value))
            if not pairs:
                return None
            at = int(self._random.integers(len(pairs)))
            value = plain(pairs[at][1])
            if value is None or not self._random.integers(4):
                del pairs[at]
            else:
                pairs[at] = (pairs[at][0], expr_of(value_near(value, pairs[at][0], self._random), test.span))
            made = MapExpr(test.span, tuple((Literal(test.span, key), expr) for key, expr in pairs))
            return with_expr(test, item.name.name, made)
        value = plain(item.value)
        return (
            None
            if value is None
            else with_attr(test, item.name.name, value_near(value, item.name.name, self._random))
        )


def _in_turn(kinds: Sequence[Iterator[_T]]) -> Iterator[_T]:
    """Yield from each of several iterators in turn, until all are at their end."""
    left = list(kinds)
    while left:
        for kind in list(left):
            try:
                yield next(kind)
            except StopIteration:
                left.remove(kind)


def _choosing(test: RuleTest, name: str, ops: Sequence[str]) -> RuleTest:
    """Return the test with operators for a variable."""
    given = GivenChoice(test.span, Ident(test.span, name), tuple(Ident(test.span, op) for op in ops))
    others = tuple(item for item in test.choices if item.name.name != name)
    return replace(test, choices=(*others, given))


def _open(test: RuleTest) -> RuleTest:
    """Return a test that only says what graph there is."""
    return replace(test, doc="", expects_match=True, reason=None, rtol=None, atol=None)
