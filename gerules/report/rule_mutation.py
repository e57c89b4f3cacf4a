"""Mutation: do the tests of rules notice small wrong edits of the rules?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter
from typing import Final

import numpy as np

from gerules.dsl.book import RuleBook
from gerules.dsl.check_expr import names_of
from gerules.dsl.check_ops import Operators
from gerules.dsl.check_rule import RuleChecker
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.syntax import DimSize, GivenValue, Rule, RuleTest
from gerules.errors import Faults, GerulesError
from gerules.ir import Graph
from gerules.report.attr_values import DTYPES
from gerules.report.rule_bench import Bench, Place, Trial, compare, seed_of
from gerules.report.rule_edits import dims_of, with_dims, with_dtype, with_item
from gerules.report.rule_graphs import Instance, instances
from gerules.report.rule_inputs import Array, Unbuildable
from gerules.report.rule_judge import has_odd_scale
from gerules.report.rule_mutants import KINDS, Mutant, mutants
from gerules.report.rule_search import is_small
from gerules.report.rule_shrink import shrink
from gerules.report.rule_test_text import test_text
from gerules.report.rule_variations import Variations

_FIRST: Final = 6
"""Graphs of each test that every mutant is tried on; those that survive are tried on all of them."""

_ALL: Final = 48


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test notices, and a test that would; None where none was looked for or found."""

    mutant: Mutant
    remedy: RuleTest | None = None

    @property
    def block(self) -> str:
        """The test as text; empty when there is none."""
        return "" if self.remedy is None else test_text(self.remedy)


@dataclass(slots=True)
class KindCount:
    """What became of the mutants of one kind."""

    tested: int = 0
    """Caught by a test."""
    checked: int = 0
    """Refused when loading: no such rule can be written."""
    equivalent: int = 0
    survived: int = 0

    @property
    def score(self) -> float | None:
        """The part that is caught, of those not proven equivalent; None when there are none."""
        caught = self.tested + self.checked
        return caught / (caught + self.survived) if caught + self.survived else None

    def add(self, other: KindCount) -> None:
        """Add the counts of another."""
        self.tested += other.tested
        self.checked += other.checked
        self.equivalent += other.equivalent
        self.survived += other.survived

    def as_json(self) -> dict[str, object]:
        """Return the counts as plain values."""
        return {
            "tested": self.tested,
            "checked": self.checked,
            "equivalent": self.equivalent,
            "survived": self.survived,
            "score": None if self.score is None else round(self.score, 4),
        }


@dataclass(slots=True)
class MutationReport:
    """Mutants by kind, and every one that survived."""

    n_rules: int = 0
    took_us: float = 0.0
    kinds: dict[str, KindCount] = field(default_factory=lambda: {kind: KindCount() for kind in KINDS})
    survivors: list[Survivor] = field(default_factory=list[Survivor])
    unfit: list[str] = field(default_factory=list[str])
    """Rules whose tests do not hold, or that have none: their mutants say nothing."""

    def reaches(self, least: float) -> bool:
        """Whether the tests of all rules hold, and catch so large a part of the mutants."""
        score = self.total.score
        return not self.unfit and (score is None or score >= least)

    @property
    def total(self) -> KindCount:
        """The counts over all kinds."""
        found = KindCount()
        for count in self.kinds.values():
            found.add(count)
        return found

    def as_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "rules": self.n_rules,
            "took_us": round(self.took_us, 1),
            "total": self.total.as_json(),
            "kinds": {kind: count.as_json() for kind, count in self.kinds.items()},
            "unfit": list(self.unfit),
            "survivors": [
                {
                    "rule": item.mutant.rule.name.name,
                    "at": str(item.mutant.span),
                    "kind": item.mutant.kind,
                    "edit": item.mutant.edit,
                    "test": item.block or None,
                }
                for item in self.survivors
            ],
        }


def mutate_rules(
    book: RuleBook,
    rules: Sequence[Rule] | None = None,
    *,
    generated: int = 0,
    seed: int = 0,
    on_rule: Callable[[str], None] = lambda _name: None,
) -> MutationReport:
    """Edit rules in small wrong ways, and see whether their tests notice.

    A mutant is caught when it is refused as a rule, or when a test does not hold for it. Mutants that are
    proven to do the same are counted apart.

    Args:
        rules: Those to edit; all of the book unless given.
        generated: Tests made up for each mutant that survives, to find one that tells it from the rule.
        seed: Another seed makes up other tests.
        on_rule: Told the name of each rule before it is edited.

    Cost: some milliseconds for each mutant and test.
    """
    started = perf_counter()
    report = MutationReport()
    bench = Bench(book)
    checker = _Checker(bench)
    for rule in book.rules if rules is None else rules:
        on_rule(rule.name.name)
        report.n_rules += 1
        _mutate(bench, rule, checker, report, generated, seed)
    report.took_us = (perf_counter() - started) * 1e6
    return report


def _mutate(
    bench: Bench, rule: Rule, checker: _Checker, report: MutationReport, generated: int, seed: int
) -> None:
    cases = [case for test in rule.tests if (case := Case.of(bench, rule, test)) is not None]
    if not cases or any(case.notices(bench, rule) for case in cases):
        report.unfit.append(rule.name.name)
        return
    for mutant in mutants(rule, cases[0].place.setting):
        count = report.kinds[mutant.kind]
        if mutant.is_equivalent:
            count.equivalent += 1
        elif checker.refuses(mutant.rule):
            count.checked += 1
        elif _is_caught(bench, mutant.rule, cases):
            count.tested += 1
        elif mutant.widened is not None and _is_forced(bench, rule, cases, *mutant.widened):
            count.equivalent += 1
        else:
            count.survived += 1
            remedy = Remedy(bench, rule, mutant.rule, seed).find(generated) if generated else None
            report.survivors.append(Survivor(mutant, remedy))


def _is_caught(bench: Bench, mutant: Rule, cases: Sequence[Case]) -> bool:
    # Few graphs of every test first: nearly all mutants fail there.
    trials: dict[int, Trial] = {}
    return any(case.notices(bench, mutant, _FIRST, trials) for case in cases) or any(
        case.notices(bench, mutant, _ALL, trials) for case in cases if len(case.graphs) > _FIRST
    )


# ---------------------------------------------------------------- what operators demand anyway
def _is_forced(bench: Bench, rule: Rule, cases: Sequence[Case], name: str, part: str | int) -> bool:
    """Whether operators demand of an input what its pattern says: a graph with another type cannot be made.

    Every element type, some other ranks, and some other sizes are tried in every test that matches. Types
    that the pattern allows say nothing: `[M, ...]` asks for no size of the last axis.
    """
    positive = [case for case in cases if case.test.expects_match]
    places = [
        (case, at, item)
        for case in positive
        for at, item in enumerate(case.test.inputs)
        if isinstance(item, GivenValue) and item.name.name == name and item.type is not None
    ]
    if not places:
        return False
    return not any(
        _is_refused(bench, rule, case, with_item(case.test, at, other))
        for case, at, item in places
        for other in _others(item, part)
    )


def _others(item: GivenValue, part: str | int) -> Iterator[GivenValue]:
    dims = dims_of(item)
    item = replace(item, elements=None)
    if part == "dtype":
        own = item.type.dtypes if item.type is not None else None
        yield from (with_dtype(item, dtype) for dtype in DTYPES if own != frozenset([dtype]))
        return
    if part == "shape":
        yield with_dims(item, dims[1:])
        yield from (with_dims(item, [DimSize(item.span, size), *dims]) for size in (1, 2))
    for at, dim in enumerate(dims):
        if isinstance(dim, DimSize) and part in ("shape", at):
            for size in {1, dim.size + 1, dim.size * 2} - {dim.size}:
                yield with_dims(item, [*dims[:at], DimSize(item.span, size), *dims[at + 1 :]])


def _is_refused(bench: Bench, rule: Rule, case: Case, test: RuleTest) -> bool:
    """Whether a graph of a test can be made, and the rule does not fire on it."""
    try:
        made = next(instances(rule, test, case.place.setting, limit=1, seed=0), None)
    except (GerulesError, Unbuildable):
        return False
    try:
        return made is not None and Trial(bench, rule, case.place).apply(made.graph).after is None
    except GerulesError:
        return True


class _Checker:
    """Whether a rule can be loaded at all."""

    def __init__(self, bench: Bench) -> None:
        self._operators = Operators(bench.book, bench.schemas)
        self._names = names_of(bench.book, self._operators.names, FUNCTIONS)

    def refuses(self, rule: Rule) -> bool:
        faults = Faults()
        RuleChecker(self._names, self._operators, faults).check(rule)
        return any(item.severity == "error" for item in faults.diagnostics)


@dataclass(slots=True, eq=False)
class Case:
    """One test with its graphs, and what the left side of each computes, found when first asked for."""

    test: RuleTest
    place: Place
    graphs: list[Instance]
    before: dict[int, list[Array]] = field(default_factory=dict[int, "list[Array]"])

    @staticmethod
    def of(bench: Bench, rule: Rule, test: RuleTest, limit: int = _ALL) -> Case | None:
        """Build the graphs of a test; None when there are none, or the rule is off."""
        try:
            place = bench.place(rule, test)
            if rule.name.name in place.selection.off:
                return None
            found = instances(rule, test, place.setting, limit=limit, seed=seed_of(rule))
            graphs = [item for item in found if test.expects_match or item.is_whole]
        except (GerulesError, Unbuildable):
            return None
        return Case(test, place, graphs) if graphs else None

    def notices(
        self, bench: Bench, rule: Rule, limit: int = _ALL, trials: dict[int, Trial] | None = None
    ) -> bool:
        """Whether the test does not hold for a rule, on some of its graphs that lie far apart."""
        made = {} if trials is None else trials
        trial = made.setdefault(id(self.place), Trial(bench, rule, self.place))
        step = max(1, -(-len(self.graphs) // limit))
        reasons: set[str] = set()
        try:
            for at in range(0, len(self.graphs), step):
                outcome = trial.apply(self.graphs[at].graph)
                reasons |= outcome.reasons
                if (outcome.after is not None) != self.test.expects_match:
                    return True
                if outcome.after is not None and rule.rewrite and self._differ(trial, at, outcome.after):
                    return True
        except GerulesError:
            return True
        wanted = self.test.reason
        return wanted is not None and not any(wanted in reason for reason in reasons)

    def _differ(self, trial: Trial, at: int, after: Graph) -> bool:
        instance = self.graphs[at]
        if trial.misplace(instance.graph, after):
            return True
        if at not in self.before:
            self.before[at] = trial.compute(instance.graph, instance.feeds)
        got = trial.compute(after, instance.feeds)
        return bool(compare(self.before[at], got, self.test.rtol, self.test.atol))


class Remedy:
    """Looks for a test that holds for a rule and not for a mutant of it."""

    def __init__(self, bench: Bench, rule: Rule, mutant: Rule, seed: int) -> None:
        self.bench = bench
        self.rule = rule
        self.mutant = mutant
        self.seed = seed

    def find(self, n_tests: int) -> RuleTest | None:
        """Return the first such test among `n_tests`, shrunk."""
        bases = [test for test in self.rule.tests if Case.of(self.bench, self.rule, test) is not None]
        setting = self.bench.place(self.rule, bases[0]).setting
        seed = np.random.SeedSequence([self.seed, seed_of(self.rule)]).generate_state(1)[0]
        n_built = 0
        variations = Variations(self.rule, setting, int(seed))
        for test in islice(variations.around(bases), 8 * n_tests):
            found = self.telling(test)
            if found is not _UNBUILT:
                n_built += 1
                variations.built()
            if isinstance(found, RuleTest):
                small = shrink(found, lambda item: isinstance(self.telling(item), RuleTest), max_checks=100)
                told = self.telling(small)
                return told if isinstance(told, RuleTest) else found
            if n_built >= n_tests:
                break
        return None

    def telling(self, test: RuleTest) -> RuleTest | object | None:
        """Return the test with what the rule does as expectation, where the mutant does something else."""
        case = Case.of(self.bench, self.rule, replace(test, expects_match=True, reason=None), _FIRST)
        if case is None or not all(is_small(item) and not has_odd_scale(item) for item in case.graphs[:2]):
            return _UNBUILT
        trial = Trial(self.bench, self.rule, case.place)
        try:
            outcome = trial.apply(case.graphs[0].graph)
        except GerulesError:
            return None
        expected = case.test
        if outcome.after is None:
            reasons = {guard.reason for guard in self.rule.guards if guard.reason}
            given = sorted(reason for reason in reasons if reason in outcome.reasons)
            expected = replace(case.test, doc="", expects_match=False, reason=given[0] if given else None)
        elif self.rule.is_inexact:
            expected = replace(case.test, doc="", rtol=1e-4, atol=1e-5)
        case = Case(expected, case.place, case.graphs)
        if case.notices(self.bench, self.rule, _FIRST) or not case.notices(self.bench, self.mutant, _FIRST):
            return None
        return expected


_UNBUILT: Final = object()
