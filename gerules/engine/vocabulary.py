"""What rules refer to by name: operator sets, named sub-patterns, constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gerules.dsl.syntax import (
    ANY,
    CallPattern,
    CaptureAttr,
    ManyLines,
    OpSet,
    PatternDef,
    PlainOp,
    ValuePattern,
    patterns_in,
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names that stand outside a rule. `settings` are the values of `$NAME`, overrides applied."""

    op_sets: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    patterns: Mapping[str, tuple[PatternDef, ...]] = field(default_factory=dict[str, tuple[PatternDef, ...]])
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    result_ops: dict[str, frozenset[str] | None] = field(default_factory=dict[str, "frozenset[str] | None"])
    """Operators that the first result of a sub-pattern can come from, once asked for."""
    result_depths: dict[str, int] = field(default_factory=dict[str, int])
    """How many nodes deep a sub-pattern is, once asked for."""
    _attr_places: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def ops(self, op_set: OpSet) -> frozenset[str]:
        """Return the operators of a set, its terms read from left to right; unknown names are empty."""
        found: frozenset[str] = frozenset()
        for term in op_set.terms:
            named = frozenset(op.name for op in term.ops)
            if term.ref is not None:
                named = self.op_sets.get(term.ref.name, frozenset())
            found = found | named if term.sign == "+" else found - named
        return found

    def number(self, name: str) -> float | int | None:
        """Return the value of `$NAME` when it is a number."""
        value = self.settings.get(name)
        return value if isinstance(value, int | float) else None

    def attr_places(self, name: str) -> frozenset[int]:
        """Return the places of a sub-pattern's formals that stand for attributes, and not for values."""
        known = self._attr_places
        if name not in known:
            known[name] = frozenset()  # what a pattern that needs itself adds
            known[name] = frozenset(
                place
                for clause in self.patterns[name]
                for place, formal in enumerate(clause.formals)
                if self._is_attr(clause, formal.name.name)
            )
        return known[name]

    def attrs_given(self, call: CallPattern) -> Iterator[str]:
        """Yield the names that a call of a sub-pattern hands to formals that stand for attributes."""
        if not isinstance(call.op, PlainOp) or call.op.name not in self.patterns:
            return
        places = self.attr_places(call.op.name)
        for place, arg in enumerate(call.args):
            if place in places and isinstance(arg, ValuePattern) and arg.name != ANY:
                yield arg.name

    def _is_attr(self, clause: PatternDef, formal: str) -> bool:
        calls = [
            inner
            for item in clause.match
            for line in (item.lines if isinstance(item, ManyLines) else (item,))
            for inner in patterns_in(line.pattern)
            if isinstance(inner, CallPattern)
        ]
        return any(
            (isinstance(attr.pattern, CaptureAttr) and attr.pattern.name == formal)
            for call in calls
            for attr in call.attrs
        ) or any(formal in self.attrs_given(call) for call in calls)
