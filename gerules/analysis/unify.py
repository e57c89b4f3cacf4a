"""Whether parts of patterns could be the same nodes of one graph: unification of variants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gerules.analysis.variants import Call, Leaf, TooMany, Variant
from gerules.dsl.book import SchemaSource
from gerules.dsl.syntax import AttrPattern, ListAttr, LiteralAttr, OneOfAttr

_MOST_STEPS: Final = 20_000
"""Calls compared for one unification; operands swapped inside operands multiply."""


class Unifier:
    """Makes values, and the calls that produce them, equal; says no when that cannot be in any graph.

    Values stand for one another by `find`; `call_of` gives the one call that stands for all of a value's.
    """

    def __init__(self, variant: Variant, schemas: SchemaSource) -> None:
        self.variant = variant
        self.schemas = schemas
        self._left = [_MOST_STEPS]
        self._below: dict[int, frozenset[int]] = {}
        self._same: dict[int, int] = {}
        self._ops: dict[int, frozenset[str]] = {}
        self._twin: dict[int, int] = {}

    def copy(self) -> Unifier:
        """Return one that goes on from here by itself."""
        made = Unifier(self.variant, self.schemas)
        made._left, made._below = self._left, self._below
        made._same, made._ops, made._twin = dict(self._same), dict(self._ops), dict(self._twin)
        return made

    def find(self, value: int) -> int:
        """Return the value that stands for one."""
        while value in self._same:
            value = self._same[value]
        return value

    def twin(self, place: int) -> int:
        """Return the place of the call that stands for one."""
        while place in self._twin:
            place = self._twin[place]
        return place

    def ops_of(self, place: int) -> frozenset[str]:
        """Return the operators that a call can still be."""
        place = self.twin(place)
        return self._ops.get(place, self.variant.calls[place].ops)

    def ways(self, one: int, two: int) -> Iterator[Unifier]:
        """Yield every way in which two calls, by place, are one node; operands both ways round.

        Raises:
            TooMany: when that takes too many steps, or the patterns are nested too deeply.
        """
        if one in self._reach(two) or two in self._reach(one):
            return
        try:
            for found in self._calls(one, two):
                if not found._has_circle():
                    yield found
        except RecursionError:
            raise TooMany("a pattern nested too deeply") from None

    def _reach(self, place: int) -> frozenset[int]:
        """Return the calls that one depends on, whatever is one with what."""
        known = self._below
        pending = [place]
        while pending:
            at = pending[-1]
            made = [self.variant.producer.get(v) for v in self.variant.calls[at].inputs if v is not None]
            below = [item[0] for item in made if item is not None]
            missing = [item for item in below if item not in known]
            if missing:
                pending += missing
                continue
            known[at] = frozenset(below).union(*(known[item] for item in below))
            pending.pop()
        return known[place]

    # ------------------------------------------------------------ steps
    def _calls(self, one: int, two: int) -> Iterator[Unifier]:
        one, two = self.twin(one), self.twin(two)
        if one == two:
            yield self
            return
        self._left[0] -= 1
        if self._left[0] < 0:
            raise TooMany(f"parts that can be alike in too many ways: more than {_MOST_STEPS} steps")
        a, b = self.variant.calls[one], self.variant.calls[two]
        ops = self.ops_of(one) & self.ops_of(two)
        if (
            not ops
            or a.times != b.times
            or any(_differ(a.attrs[k], b.attrs[k]) for k in a.attrs.keys() & b.attrs)
        ):
            return
        if not (a.is_open or b.is_open) and not self._fits(a, b):
            return
        start = self.copy()
        start._ops[one] = ops
        start._twin[two] = one
        for x, y in zip(a.outputs, b.outputs, strict=False):
            if x is not None and y is not None and start.find(x) != start.find(y):
                start._same[start.find(y)] = start.find(x)
        orders = [list(zip(a.inputs, b.inputs, strict=False))]
        schema = self.schemas.get(min(ops), None)
        is_pair = len(a.inputs) == len(b.inputs) == 2 and not (a.is_ordered and b.is_ordered)
        if schema is not None and schema.is_commutative and is_pair:
            orders.append([(a.inputs[0], b.inputs[1]), (a.inputs[1], b.inputs[0])])
        for order in orders:
            yield from start._all(order)

    def _fits(self, a: Call, b: Call) -> bool:
        """Whether what only the longer call reads may be absent."""
        shorter, longer = sorted((a.inputs, b.inputs), key=len)
        return all(
            value is None or (value in self.variant.leaves and self.variant.leaves[value].is_optional)
            for value in longer[len(shorter) :]
        )

    def _all(self, pairs: list[tuple[int | None, int | None]]) -> Iterator[Unifier]:
        if not pairs:
            yield self
            return
        for found in self._values(*pairs[0]):
            yield from found._all(pairs[1:])

    def _values(self, one: int | None, two: int | None) -> Iterator[Unifier]:
        if one is None or two is None:
            value = one if one is not None else two
            leaf = self.variant.leaves.get(self.find(value)) if value is not None else None
            if value is None or (leaf is not None and leaf.is_optional):
                yield self
            return
        one, two = self.find(one), self.find(two)
        if one == two:
            yield self
            return
        made_one, made_two = self.variant.producer.get(one), self.variant.producer.get(two)
        if made_one is not None and made_two is not None:
            if made_one[1] == made_two[1]:
                yield from self._calls(made_one[0], made_two[0])
            return
        if made_one is None and made_two is None:
            left, right = self.variant.leaves[one], self.variant.leaves[two]
            if _leaves_differ(left, right):
                return
            # The leaf that says more stands for both.
            keep, drop = (one, two) if _says(left) >= _says(right) else (two, one)
        else:
            keep, drop = (one, two) if made_one is not None else (two, one)
            if self.variant.leaves[drop].is_const:
                return
        found = self.copy()
        found._same[drop] = keep
        yield found

    def _has_circle(self) -> bool:
        done: set[int] = set()
        path: set[int] = set()
        groups: dict[int, list[int]] = {}
        for place in range(len(self.variant.calls)):
            groups.setdefault(self.twin(place), []).append(place)
        stack = [(place, False) for place in groups]
        while stack:
            place, is_left = stack.pop()
            if is_left:
                path.discard(place)
                done.add(place)
                continue
            if place in path:
                return True
            if place in done:
                continue
            path.add(place)
            stack.append((place, True))
            for member in groups[place]:
                for value in self.variant.calls[member].inputs:
                    made = self.variant.producer.get(self.find(value)) if value is not None else None
                    if made is not None:
                        below = self.twin(made[0])
                        if below in path:
                            return True
                        stack.append((below, False))
        return False

    def members(self, place: int) -> list[int]:
        """Return the calls that are one with this one."""
        place = self.twin(place)
        return [other for other in range(len(self.variant.calls)) if self.twin(other) == place]


def together(one: Variant, two: Variant) -> tuple[Variant, int, int]:
    """Return two variants as one, and by how much the second's values and calls moved."""
    step = 1 + max([0, *one.producer, *one.leaves, *two.producer, *two.leaves])
    base = len(one.calls)

    def moved(value: int | None) -> int | None:
        return None if value is None else value + step

    joint = Variant(
        [*one.calls], dict(one.producer), dict(one.leaves), dict(one.names), dict(one.lists), set(one.shared),
        dict(one.types), set(one.absent_ops), one.has_group or two.has_group,
    )  # fmt: skip
    for call in two.calls:
        label = f"{call.label}'" if call.label else ""
        inputs, outputs = [moved(value) for value in call.inputs], [moved(value) for value in call.outputs]
        joint.calls.append(replace(call, label=label, inputs=inputs, outputs=outputs))
    joint.producer |= {value + step: (place + base, at) for value, (place, at) in two.producer.items()}
    joint.leaves |= {value + step: leaf for value, leaf in two.leaves.items()}
    joint.types |= {value + step: types for value, types in two.types.items()}
    return joint, step, base


def _says(leaf: Leaf) -> tuple[bool, bool, bool, int]:
    return (leaf.number is not None, leaf.is_const, not leaf.is_optional, len(leaf.types))


def _leaves_differ(one: Leaf, two: Leaf) -> bool:
    if one.number is not None and two.number is not None:
        return one.number != two.number
    dtypes = None
    for type in (*one.types, *two.types):
        if type.dtypes is not None:
            dtypes = type.dtypes if dtypes is None else dtypes & type.dtypes
    return dtypes is not None and not dtypes


def _differ(one: AttrPattern, two: AttrPattern) -> bool:
    for a, b in ((one, two), (two, one)):
        if isinstance(a, OneOfAttr) and isinstance(b, LiteralAttr):
            return b.value not in a.values
    kinds = (LiteralAttr, ListAttr)
    return isinstance(one, kinds) and isinstance(two, kinds) and one != two
