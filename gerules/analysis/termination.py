"""Whether the rules of a phase come to an end: weights of operators that fall with every rewrite.

For each variant of each rule the change of the operator counts is what the rewrite adds less what it
certainly removes. A value that is shared, or that the rewrite reads, may keep its node; two parts of a
pattern that could be one node count once. Constants do not count. `once` rules are left out: each of their
rewrites moves nodes one step up in how many `once` rules they stem from, which is bounded, and no other
rewrite moves any down. A rule with `decreases` may keep the weighted sum, as long as all rules that do name
one measure; so may rules whose rewrites all make less in one order of terms (`gerules.analysis.ordering`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from gerules.analysis.ordering import Term, can_all_fall, term_pairs
from gerules.analysis.unify import Unifier
from gerules.analysis.variants import TooMany, Variant, variants
from gerules.analysis.weights import Name, Row, Weights, find_weights
from gerules.dsl.book import SchemaSource
from gerules.dsl.check_ops import calls_of
from gerules.dsl.expressions import CallExpr, Expr, Ref
from gerules.dsl.syntax import (
    BuildCall,
    BuildEach,
    BuildFunction,
    BuildRef,
    BuildRest,
    MatchedOp,
    Rule,
)
from gerules.engine.build import MAX_LIST
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Diagnostic, table

_MOST_SUBSETS: Final = 3000
"""Sets of rules that are tried for the smallest one; above, rules are left out one by one."""

_MOST_CONFLICTS: Final = 10
"""Sets of rules that are reported for one phase."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Some operator of a set: the lightest of it where one is removed, the heaviest where one is added."""

    ops: frozenset[str]
    is_lightest: bool

    def __str__(self) -> str:
        names = sorted(self.ops)
        more = f", {len(names) - 3} more" if len(names) > 3 else ""
        return f"one of {{{', '.join(names[:3])}{more}}}"


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """What one variant of a rule does to the numbers of operators."""

    removed: Mapping[Name, int]
    added: Mapping[Name, int]
    change: Mapping[Name, int] = field(init=False)
    """Added less removed, without what cancels."""

    def __post_init__(self) -> None:
        found = dict(self.added)
        for name, count in self.removed.items():
            found[name] = found.get(name, 0) - count
        object.__setattr__(self, "change", {name: count for name, count in found.items() if count})

    def __str__(self) -> str:
        parts = [f"- {count} {name}" for name, count in _sorted(self.removed)]
        parts += [f"+ {count} {name}" for name, count in _sorted(self.added)]
        return " ".join(parts) or "nothing"


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """A smallest set of rules for which no weights exist; `reason` when they could not be compared at all."""

    rules: tuple[Rule, ...]
    counts: tuple[Counts, ...]
    times: tuple[int, ...]
    reason: str = ""


class Termination:
    """Decides which sets of rules stop; what is known of a rule is worked out once."""

    def __init__(self, vocabulary: Vocabulary, schemas: SchemaSource) -> None:
        self._vocabulary = vocabulary
        self._schemas = schemas
        self._known: dict[str, tuple[Counts, ...] | str] = {}
        self._terms: dict[str, list[tuple[Term, Term]] | None] = {}

    def conflicts(self, rules: Sequence[Rule]) -> list[Conflict]:
        """Return sets of rules that may go round for ever, each as small as can be; empty when all stop."""
        found: list[Conflict] = []
        left = [rule for rule in rules if rule.rewrite and not rule.is_once]
        for rule in list(left):
            counts = self.counts(rule)
            if isinstance(counts, str):
                found.append(Conflict((rule,), (), (), counts))
                left.remove(rule)
        while len(found) < _MOST_CONFLICTS:
            conflict = self._conflict(left)
            if conflict is None:
                break
            found.append(conflict)
            left = [rule for rule in left if rule not in conflict.rules]
        return found

    def counts(self, rule: Rule) -> tuple[Counts, ...] | str:
        """Return what a rule's variants do, those that others dominate left out; or why it is not known."""
        name = rule.name.name
        if name not in self._known:
            try:
                self._known[name] = tuple(_dominant(self._counts_of(rule)))
            except TooMany as reason:
                self._known[name] = str(reason)
        return self._known[name]

    # ------------------------------------------------------------ deciding
    def _conflict(self, rules: Sequence[Rule]) -> Conflict | None:
        measures = {_text(rule.decreases): None for rule in rules if rule.decreases is not None}
        # Strict first, then each measure as the tie-breaker of its rules.
        for measure in (None, *measures):
            if self._refutation(rules, measure) is None:
                return None
        if not self._ordered(rules)[1]:
            return None
        smallest = self._smallest(rules, measures)
        proof: dict[str, tuple[Counts, int]] = {}
        for measure in (None, *measures):
            for (rule, counts), times in self._refutation(smallest, measure) or ():
                proof.setdefault(rule.name.name, (counts, times))
        for rule in smallest:
            # One that only keeps others from an order of their own: any of its rewrites shows what it does.
            known = self.counts(rule)
            assert not isinstance(known, str)
            proof.setdefault(rule.name.name, (known[0], 1))
        shown = [proof[rule.name.name] for rule in smallest]
        return Conflict(tuple(smallest), tuple(item[0] for item in shown), tuple(item[1] for item in shown))

    def _smallest(self, rules: Sequence[Rule], measures: Iterable[str]) -> list[Rule]:
        """Return a smallest set of rules that is refuted whatever measure breaks ties."""

        def is_refuted(chosen: Sequence[Rule]) -> bool:
            return all(self._refutation(chosen, measure) for measure in (None, *measures)) and bool(
                self._ordered(chosen)[1]
            )

        # What takes part in a proof, with every measure, is enough; usually a handful.
        core = list(rules)
        used: set[str] = set()
        for measure in (None, *measures):
            refuted = self._refutation(core, measure)
            used |= {rule.name.name for (rule, _), _ in refuted or ()}
        ordered, refuted = self._ordered(core)
        used |= ordered | {rule.name.name for (rule, _), _ in refuted}
        core = [rule for rule in core if rule.name.name in used]
        n_tried = 0
        for size in range(1, len(core)):
            for chosen in combinations(core, size):
                n_tried += 1
                if n_tried > _MOST_SUBSETS:
                    break
                if is_refuted(chosen):
                    return list(chosen)
            if n_tried > _MOST_SUBSETS:
                break
        for rule in list(core):
            rest = [other for other in core if other is not rule]
            if is_refuted(rest):
                core = rest
        return core

    def _ordered(self, rules: Sequence[Rule]) -> tuple[set[str], list[tuple[tuple[Rule, Counts], int]]]:
        """Return the rules that an order of terms lets keep the weighted sum, and what refutes the rest then.

        Rules are taken into the order one by one where the weights need it; the refutation is empty when all
        rules stop.
        """
        pairs: list[tuple[Term, Term]] = []
        ordered: set[str] = set()
        while refuted := self._refutation(rules, None, ordered):
            n_before = len(ordered)
            for (rule, _), _ in refuted:
                name = rule.name.name
                more = self._pairs(rule) if name not in ordered else None
                if more is not None and can_all_fall([*pairs, *more]):
                    pairs += more
                    ordered.add(name)
            if len(ordered) == n_before:
                return ordered, refuted
        return ordered, []

    def _pairs(self, rule: Rule) -> list[tuple[Term, Term]] | None:
        name = rule.name.name
        if name not in self._terms:
            self._terms[name] = term_pairs(rule, variants(rule, self._vocabulary))
        return self._terms[name]

    def _refutation(
        self, rules: Sequence[Rule], measure: str | None, ordered: Collection[str] = ()
    ) -> list[tuple[tuple[Rule, Counts], int]] | None:
        """Return the variants, and how often each, that rule out all weights; None when there are weights.

        Rules that decrease the measure, and those named in `ordered`, may keep the weighted sum.
        """
        owners: list[tuple[Rule, Counts]] = []
        rows: list[Row] = []
        known: set[tuple[frozenset[tuple[Name, int]], bool]] = set()
        for rule in rules:
            counts = self.counts(rule)
            assert not isinstance(counts, str)
            may_stay = measure is not None and rule.decreases is not None and _text(rule.decreases) == measure
            may_stay = may_stay or rule.name.name in ordered
            for item in counts:
                # Of very many rules most ask for the same.
                key = (frozenset(item.change.items()), may_stay)
                if key not in known:
                    known.add(key)
                    owners.append((rule, item))
                    rows.append(Row(item.change, not may_stay))
        bounds = {name for row in rows for name in row.counts if isinstance(name, OneOf)}
        for bound in sorted(bounds, key=str):
            sign = 1 if bound.is_lightest else -1
            # Being strictly lighter costs nothing: what remains strict stays so for a little less.
            rows += [Row({bound: sign, op: -sign}) for op in sorted(bound.ops)]
        found = find_weights(rows)
        if isinstance(found, Weights):
            return None
        return [(owners[place], times) for place, times in found.times.items() if place < len(owners)]

    # ------------------------------------------------------------ counting
    def _counts_of(self, rule: Rule) -> Iterator[Counts]:
        replaced = {target.name for line in rule.rewrite for target in line.targets}
        read = set(_names_read(rule)) - replaced
        for variant in variants(rule, self._vocabulary):
            removed = self._removed(variant, replaced, read)
            added = list(_added(rule, variant))
            yield _tally(removed, added)

    def _removed(
        self, variant: Variant, replaced: set[str], read: set[str]
    ) -> list[tuple[str, frozenset[str], int]]:
        gone = {value for name in replaced for value in variant.values_of(name)}
        pending = [value for name in read for value in variant.values_of(name) if value not in gone]
        pending += [value for value in variant.shared if value not in gone]
        kept: set[int] = set()
        while pending:
            made = variant.producer.get(pending.pop())
            if made is not None and made[0] not in kept:
                kept.add(made[0])
                pending += [value for value in variant.calls[made[0]].inputs if value is not None]
        roots = {variant.producer[value][0] for value in gone if value in variant.producer}
        found: list[tuple[str, frozenset[str], int]] = []
        taken: list[int] = []
        unifier = Unifier(variant, self._schemas)
        for place, call in enumerate(variant.calls):
            if place in kept:
                continue
            # The engine refuses a rewrite that reads what it replaces, and keeps roots apart.
            twins = [
                other
                for other in (*kept, *taken)
                if not (place in roots and (other in roots or other in kept))
            ]
            if any(next(unifier.ways(place, other), None) is not None for other in twins):
                continue
            taken.append(place)
            found.append((call.label, call.ops, call.times))
        return found


def _names_read(rule: Rule) -> Iterator[str]:
    for line in rule.rewrite:
        if isinstance(line.build, BuildRef):
            yield line.build.name
            continue
        for call in calls_of(line.build):
            for arg in call.args:
                if isinstance(arg, BuildRef):
                    yield arg.name
                elif isinstance(arg, BuildRest):
                    yield arg.path[0]


def _added(rule: Rule, variant: Variant) -> Iterator[tuple[str, frozenset[str], int]]:
    for line in rule.rewrite:
        pending: list[tuple[object, int]] = [(line.build, 1)]
        while pending:
            build, times = pending.pop()
            if isinstance(build, BuildEach):
                times = MAX_LIST  # as many as a list may have: nothing says how many there are
            if isinstance(build, BuildFunction | BuildEach):
                build = build.call
            if not isinstance(build, BuildCall):
                continue
            pending += [(arg, times) for arg in build.args]
            op = build.op
            if isinstance(op, MatchedOp):
                made = next((call.ops for call in variant.calls if call.label == op.name), None)
                if made is not None:
                    yield op.name, made, times
                continue
            is_left_out = op.is_optional and any(
                isinstance(arg, BuildRef) and arg.name in variant.names and variant.names[arg.name] is None
                for arg in build.args[1:]
            )
            if not is_left_out:
                yield "", frozenset([op.name]), times


def _tally(
    removed: Sequence[tuple[str, frozenset[str], int]], added: Sequence[tuple[str, frozenset[str], int]]
) -> Counts:
    """Count by operator; what `@f` builds cancels what `f@SET` matched, whichever it was."""
    net: dict[str, int] = {}
    for sign, items in ((-1, removed), (1, added)):
        for label, _, times in items:
            net[label] = net.get(label, 0) + sign * times
    out: dict[Name, int] = {}
    into: dict[Name, int] = {}
    for target, items, sign in ((out, removed, -1), (into, added, 1)):
        for label, ops, times in items:
            if len(ops) == 1:
                name: Name = next(iter(ops))
            elif label and net[label] * sign > 0:
                name = OneOf(ops, is_lightest=sign < 0)
                times = abs(net[label])
                net[label] = 0
            elif label:
                continue
            else:
                name = OneOf(ops, is_lightest=sign < 0)
            target[name] = target.get(name, 0) + times
    return Counts(out, into)


def _dominant(found: Iterable[Counts]) -> list[Counts]:
    """Leave out variants that another one is at least as bad as in every count."""
    kept: list[Counts] = []
    for item in found:
        if any(_is_worse(other.change, item.change) for other in kept):
            continue
        kept = [other for other in kept if not _is_worse(item.change, other.change)] + [item]
    return kept


def _is_worse(one: Mapping[Name, int], two: Mapping[Name, int]) -> bool:
    return all(one.get(name, 0) >= two.get(name, 0) for name in {*one, *two})


def _text(expr: Expr | None) -> str:
    return "" if expr is None else " ".join(expr.span.text.split())


def _sorted(counts: Mapping[Name, int]) -> list[tuple[str, int]]:
    return sorted((str(name), count) for name, count in counts.items())


# ---------------------------------------------------------------- what to say
def describe(conflict: Conflict, phase: str, where: str = "") -> Diagnostic:
    """Return the warning for a set of rules that may go round for ever in a phase."""
    rules = conflict.rules
    names = ", ".join(rule.name.name for rule in rules)
    if conflict.reason:
        notes = [f"its pattern has {conflict.reason}"]
    else:
        notes = [
            f"{times if times > 1 else 'one'} x {rule.name.name} ({rule.name.span}): {counts}"
            for rule, counts, times in zip(rules, conflict.counts, conflict.times, strict=True)
        ]
        total: dict[Name, int] = {}
        for counts, times in zip(conflict.counts, conflict.times, strict=True):
            for name, count in counts.change.items():
                total[name] = total.get(name, 0) + times * count
        measures = sorted({_text(rule.decreases) for rule in rules if rule.decreases is not None})
        if len(measures) > 1:
            notes.append(f"what they decrease is not one thing: {', '.join(measures)}")
        elif all(count >= 0 for count in total.values()):
            more = ", ".join(f"{count} {name} more" for name, count in _sorted(total) if count > 0)
            notes.append(f"together: no operator fewer{', ' + more if more else ''}")
    if where:
        notes.append(where)
    return Diagnostic(
        table.MAY_NOT_STOP,
        {"phase": phase, "rules": names, "verb": "leaves" if len(rules) == 1 else "together leave"},
        rules[0].name.span,
        notes=tuple(notes),
        severity="warning",
    )


def false_decrease(rule: Rule, counts: Sequence[Counts], schemas: SchemaSource) -> Diagnostic | None:
    """Return a warning when a rule says that it decreases the number of an operator, and does not."""
    match rule.decreases:
        case CallExpr(callee=Ref(name="count"), args=(Ref(name=op),)) if schemas.get(op, None) is not None:
            wrong = next((item for item in counts if item.change.get(op, 0) >= 0), None)
            if wrong is None:
                return None
            facts = {"rule": rule.name.name, "measure": _text(rule.decreases)}
            notes = (f"what it does to the numbers of operators: {wrong}",)
            return Diagnostic(
                table.DOES_NOT_DECREASE, facts, rule.decreases.span, notes=notes, severity="warning"
            )
        case _:
            return None
