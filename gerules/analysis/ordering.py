"""Rules that move operators past each other: a precedence of operators for which every rewrite makes less.

A graph is read as the terms of its outputs. Terms are compared by the multiset path order. One is greater
than another when a part of it is at least that, when its operator has a higher precedence and it is greater
than every input of the other, or when both have the same operator and its inputs are the greater multiset.
For every precedence the order is well founded, and a part that becomes less makes the whole less. So rules
whose rewrites all make less come to an end, however they are mixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gerules.analysis.variants import Variant
from gerules.dsl.syntax import (
    BuildArg,
    BuildCall,
    BuildNone,
    BuildNumber,
    BuildParam,
    BuildRef,
    PlainOp,
    Rule,
    Target,
)

Term = int | tuple[str, tuple["Term", ...]]
"""A value that may be anything, or an operator with its inputs, sorted: their order does not count."""

Precedence = frozenset[tuple[str, str]]
"""Which operator is above which; with `a` above `b` and `b` above `c` it has `a` above `c`."""

_CONST: Final[Term] = ("", ())
"""Any constant that is known when the rule is written or compiled; every operator is above it."""

_MOST_CALLS: Final = 24
"""Operators of a pattern; larger ones are not compared."""

_MOST_STEPS: Final = 20_000
"""Comparisons made in search of one precedence."""


class _NotATerm(Exception):  # noqa: N818 - an outcome, not a fault
    """A pattern or a rewrite has parts that no term stands for: groups, lists, sets of operators."""


def term_pairs(rule: Rule, variants: Iterable[Variant]) -> list[tuple[Term, Term]] | None:
    """Return what a rule replaces and what it puts there, in each variant; None where terms cannot say it."""
    pairs: list[tuple[Term, Term]] = []
    try:
        for variant in variants:
            pairs += _pairs_of(rule, variant)
    except _NotATerm:
        return None
    return list(dict.fromkeys(pairs))


def can_all_fall(pairs: Sequence[tuple[Term, Term]]) -> bool:
    """Whether for some precedence the first term of each pair is greater than the second.

    Cost: given up with False after `_MOST_STEPS` comparisons.
    """
    try:
        return next(_Search().all_greater(pairs, frozenset()), None) is not None
    except _GivenUp:
        return False


# ---------------------------------------------------------------- terms of a rule
def _pairs_of(rule: Rule, variant: Variant) -> Iterator[tuple[Term, Term]]:
    if variant.has_group or len(variant.calls) > _MOST_CALLS:
        raise _NotATerm
    built: dict[str, Term] = {name.name: _CONST for fold in rule.folds for name in fold.names}
    for line in rule.rewrite:
        if len(line.targets) != 1 or not isinstance(line.targets[0], Target):
            raise _NotATerm
        name = line.targets[0].name
        after = _built_term(line.build, variant, built)
        if name in variant.names:
            value = variant.names[name]
            if value is None:
                raise _NotATerm
            yield _matched_term(value, variant), after
        built[name] = after


def _matched_term(value: int, variant: Variant) -> Term:
    if value not in variant.producer:
        return _CONST if variant.leaves[value].number is not None else value
    place, _ = variant.producer[value]
    call = variant.calls[place]
    if len(call.ops) != 1 or len(call.outputs) != 1 or call.times != 1:
        raise _NotATerm
    (op,) = call.ops
    return _term(op, (_matched_term(item, variant) for item in call.inputs if item is not None))


def _built_term(build: BuildArg, variant: Variant, built: dict[str, Term]) -> Term:
    match build:
        case BuildNumber() | BuildParam():
            return _CONST
        case BuildRef(name=name) if name in built:
            return built[name]
        case BuildRef(name=name) if (value := variant.names.get(name)) is not None:
            return _matched_term(value, variant)
        case BuildCall(op=PlainOp() as op) if not op.is_optional:
            args = (item for item in build.args if not isinstance(item, BuildNone))
            return _term(op.name, (_built_term(item, variant, built) for item in args))
        case _:
            raise _NotATerm


def _term(op: str, inputs: Iterable[Term]) -> Term:
    return op, tuple(sorted(inputs, key=repr))


# ---------------------------------------------------------------- the order
class _GivenUp(Exception):  # noqa: N818 - an outcome, not a fault
    """The search for a precedence takes too long."""


class _Search:
    """Looks for a precedence: each comparison yields those for which it holds, grown from the one given."""

    def __init__(self) -> None:
        self.n_steps = 0

    def all_greater(self, pairs: Sequence[tuple[Term, Term]], precedence: Precedence) -> Iterator[Precedence]:
        if not pairs:
            yield precedence
            return
        for grown in self.greater(*pairs[0], precedence):
            yield from self.all_greater(pairs[1:], grown)

    def greater(self, one: Term, two: Term, precedence: Precedence) -> Iterator[Precedence]:
        self.n_steps += 1
        if self.n_steps > _MOST_STEPS:
            raise _GivenUp
        if isinstance(one, int) or one in (two, _CONST):
            return
        op, parts = one
        if two == _CONST:
            yield precedence
            return
        for part in parts:
            if part == two:
                yield precedence
                return
            yield from self.greater(part, two, precedence)
        if isinstance(two, int):
            return
        if two[0] == op:
            left, right = Counter(parts), Counter(two[1])
            yield from self._dominates(
                list((left - right).elements()), list((right - left).elements()), precedence
            )
            return
        grown = _above(op, two[0], precedence)
        if grown is not None:
            yield from self.all_greater([(one, part) for part in two[1]], grown)

    def _dominates(
        self, left: Sequence[Term], right: Sequence[Term], precedence: Precedence
    ) -> Iterator[Precedence]:
        """Whether there is something on the left, and for each on the right something greater."""
        if not left:
            return
        if not right:
            yield precedence
            return
        for item in left:
            for grown in self.greater(item, right[0], precedence):
                yield from self._dominates(left, right[1:], grown)


def _above(one: str, two: str, precedence: Precedence) -> Precedence | None:
    """Return the precedence with one operator above another; None when it has them the other way round."""
    if (two, one) in precedence:
        return None
    over = {one} | {high for high, low in precedence if low == one}
    under = {two} | {low for high, low in precedence if high == two}
    return precedence | {(high, low) for high in over for low in under}
