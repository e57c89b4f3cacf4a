"""The forms of a rule: each combination of its optional parts and alternatives is one fixed pattern.

The matcher of the Graph Engine knows neither alternatives nor optional parts, and takes operands in the order
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from gerules.dsl import RuleBook
from gerules.dsl.syntax import (
    Alternatives,
    AnyInputs,
    CallPattern,
    ManyLines,
    MatchLine,
    NamedPattern,
    Pattern,
    PlainOp,
    RestInputs,
    Rule,
    Target,
    ValuePattern,
    VariableOp,
    patterns_in,
)
from gerules.exporting.plan import Refusal
from gerules.ops import Schemas

MOST_FORMS: Final = 24
"""Patterns that one rule may become."""


@dataclass(frozen=True, slots=True)
class Form:
    """One combination: fixed patterns by the value they make, what is absent, which operator each `@f` is."""

    lines: tuple[tuple[Target, Pattern], ...]
    absent: frozenset[str]
    chosen: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Fixed:
    pattern: Pattern
    chosen: Mapping[str, str]


def forms_of(rule: Rule, book: RuleBook, schemas: Schemas) -> list[Form]:
    """Return every form of a rule. Raises Refusal for what no fixed pattern says, and for too many."""
    lines: list[MatchLine] = []
    optional: dict[str, None] = {}
    for statement in rule.match:
        if isinstance(statement, ManyLines):
            raise Refusal("group", "a group of like matches has no fixed size", statement.span)
        if statement.is_shared:
            raise Refusal("shared", "a value that others may read is inside of the match", statement.span)
        lines.append(statement)
        for part in patterns_in(statement.pattern):
            if isinstance(part, ValuePattern) and part.is_optional:
                optional[part.name] = None
    expander = _Expander(book, schemas)
    choices = [expander.expand(line.pattern) for line in lines]
    targets = [_target(line) for line in lines]
    found: list[Form] = []
    for fixed in product(*choices):
        chosen = {name: op for item in fixed for name, op in item.chosen.items()}
        for absent in _subsets(list(optional)):
            patterns = tuple(zip(targets, (item.pattern for item in fixed), strict=True))
            found.append(Form(patterns, absent, chosen))
            if len(found) > MOST_FORMS:
                raise Refusal("forms", f"it is more than {MOST_FORMS} fixed patterns", rule.name.span)
    return found


def _target(line: MatchLine) -> Target:
    if len(line.targets) == 1 and isinstance(line.targets[0], Target):
        return line.targets[0]
    raise Refusal("outputs", "operators of several results are not written", line.span)


def _subsets(names: Sequence[str]) -> Iterator[frozenset[str]]:
    for bits in range(1 << min(len(names), 5)):
        yield frozenset(name for place, name in enumerate(names) if bits >> place & 1)


@dataclass(frozen=True, slots=True)
class _Expander:
    book: RuleBook
    schemas: Schemas

    def expand(self, pattern: Pattern) -> list[_Fixed]:
        """Return the fixed patterns that a pattern stands for."""
        match pattern:
            case Alternatives(choices=choices):
                if any(choice.bindings for choice in choices):
                    raise Refusal("alternatives", "alternatives bind values of their own", pattern.span)
                return [item for choice in choices for item in self.expand(choice.pattern)]
            case NamedPattern(pattern=inner):
                return [
                    _Fixed(replace(pattern, pattern=item.pattern), item.chosen) for item in self.expand(inner)
                ]
            case CallPattern():
                return self._call(pattern)
            case _:
                return [_Fixed(pattern, {})]

    def _call(self, pattern: CallPattern) -> list[_Fixed]:
        op = pattern.op
        if isinstance(op, PlainOp):
            ops, name = [op.name], ""
            if op.order == "any":
                raise Refusal("any order", "factors or terms in any order and nesting", op.span)
            if op.name in self.book.patterns:
                raise Refusal("named pattern", f"the named pattern {op.name} is not expanded", op.span)
        elif isinstance(op, VariableOp):
            ops, name = sorted(self.book.resolve(op.ops)), op.name
        else:
            raise Refusal("chain", "a chain of operators has no fixed length", op.span)
        args: list[Pattern] = []
        for arg in pattern.args:
            if isinstance(arg, RestInputs | AnyInputs):
                raise Refusal("variadic", "an operator of any number of inputs", arg.span)
            args.append(arg)
        inner = [self.expand(arg) for arg in args]
        found: list[_Fixed] = []
        if op.is_optional and inner:
            found += inner[0]
        for one in ops:
            plain = PlainOp(op.span, one, "ordered")
            for parts in product(*inner):
                chosen = {key: value for item in parts for key, value in item.chosen.items()}
                chosen |= {name: one} if name and name != "_" else {}
                given = tuple(item.pattern for item in parts)
                found.append(_Fixed(replace(pattern, op=plain, args=given), chosen))
                if self._commutes(op, one, given):
                    found.append(_Fixed(replace(pattern, op=plain, args=given[::-1]), chosen))
            if len(found) > MOST_FORMS:
                raise Refusal("forms", f"it is more than {MOST_FORMS} fixed patterns", pattern.span)
        return found

    def _commutes(self, op: PlainOp | VariableOp, name: str, args: tuple[Pattern, ...]) -> bool:
        if len(args) != 2 or args[0] == args[1] or (isinstance(op, PlainOp) and op.order == "ordered"):
            return False
        schema = self.schemas.get(name)
        return schema is not None and schema.is_commutative
