"""Names of a rule: what each stands for, and the faults of names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from gerules.dsl.book import suggest
from gerules.dsl.check_expr import Names, check_expr
from gerules.dsl.check_ops import Operators
from gerules.dsl.expressions import Expr, Ident
from gerules.dsl.read_pattern import DTYPE_SPELLINGS
from gerules.dsl.syntax import ANY
from gerules.errors import Faults, Span, table

ANNOTATION_KEYS: Final = frozenset({"engine"})
"""The marks of `annotate` that passes read: `gerules.passes.placement` an engine."""


class Kind(Enum):
    """What a name of a rule stands for."""

    LEAF = "an input of the match"
    RESULT = "a matched value"
    ATTR = "an attribute"
    ATTRS = "attributes"
    DIM = "a dimension"
    DTYPE = "an element type"
    OP = "an operator"
    CHAIN = "a chain"
    LIST = "a list of values"
    VALUE = "a computed value"


@dataclass
class Bindings:
    """The names of one rule, what each stands for, where it was bound, and which were used."""

    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    spans: dict[str, Span] = field(default_factory=dict[str, Span])
    groups: set[str] = field(default_factory=set[str])
    used: set[str] = field(default_factory=set[str])

    def bind(self, name: str, kind: Kind, span: Span) -> None:
        """Bind a name unless it is bound already (a second mention means the same value)."""
        if name in self.kinds:
            # The second mention compares, which is a use.
            self.used.add(name)
        elif name != ANY:
            self.kinds[name] = kind
            self.spans[name] = span


class NameChecker:
    """Checks names and expressions of one book."""

    def __init__(self, names: Names, operators: Operators, faults: Faults) -> None:
        self.names = names
        self.operators = operators
        self.faults = faults

    def expr(self, expr: Expr, bound: Collection[str]) -> set[str]:
        """Check an expression; returns the bound names that it uses."""
        return check_expr(expr, bound, self.names, self.faults)

    def undefined(self, name: Ident, known: Iterable[str]) -> None:
        """Record a name that nothing binds."""
        notes = suggest(name.name, known)
        self.faults.add(table.UNDEFINED_NAME, span=name.span, name=name.name, notes=notes)

    def bad_name(self, span: Span, name: str, reason: str) -> None:
        """Record a name that cannot stand for this."""
        self.faults.add(table.BAD_NAME, span=span, name=name, reason=reason)

    def warn_of_key(self, key: Ident) -> None:
        """Warn of a mark that no pass reads and that is nearly one of those that passes read."""
        if key.name not in ANNOTATION_KEYS and (notes := suggest(key.name, ANNOTATION_KEYS)):
            self.faults.add(
                table.UNUSED_NAME,
                span=key.span,
                severity="warning",
                notes=notes,
                name=key.name,
                kind="a mark that no pass reads",
                remedy="write the name of a mark that passes read, or one that is not so near to it",
            )

    def warn_of_type(self, name: str, span: Span) -> bool:
        """Warn of an attribute's name that says an element type elsewhere; return whether it does."""
        dtype = DTYPE_SPELLINGS.get(name.lower())
        if dtype is not None:
            self.faults.add(table.NAME_OF_TYPE, span=span, severity="warning", name=name, dtype=dtype)
        return dtype is not None
