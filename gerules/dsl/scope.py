"""Where expressions find what they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.registry import Function, MatchContext
from gerules.dsl.values import Value


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
