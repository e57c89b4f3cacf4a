"""What rules refer to by name: operator sets, named sub-patterns, constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gerules.dsl.syntax import OpSet, PatternDef


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
