"""Running the tests that stand in rules: does a rule fire, does it refuse, and does it keep the meaning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from gerules.dsl.book import RuleBook
from gerules.dsl.syntax import Rule, RuleTest
from gerules.errors import GerulesError, Span
from gerules.ops import Schemas
from gerules.report.rule_bench import Bench, Trial, fault_text, seed_of, steers_search
from gerules.report.rule_graphs import Instance, instances
from gerules.report.rule_inputs import Unbuildable
from gerules.report.rule_search import Counterexample, Search, SearchCount

DEFAULT_LIMIT: Final = 48
"""Graphs of one test, at most."""


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A test that does not hold: where it stands, what was found, and on which variant of the pattern."""

    rule: str
    test: str
    span: Span
    reason: str
    choices: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = f" {self.test!r}" if self.test else ""
        variant = f" (variant {'.'.join(str(answer) for answer in self.choices)})" if self.choices else ""
        return f"{self.span}: {self.rule}{name}{variant}: {self.reason}"


@dataclass(frozen=True, slots=True)
class UnseenGuard:
    """A `where` line that no test saw hold, or none saw refuse."""

    rule: str
    span: Span
    text: str
    is_held: bool
    is_refused: bool

    @property
    def lacks(self) -> str:
        """What no test has seen."""
        if self.is_held or self.is_refused:
            return "refuse" if self.is_held else "hold"
        return "hold or refuse"


@dataclass(slots=True)
class RuleTestReport:
    """What running tests found. An instance is one graph; `n_compared` of them were computed both ways."""

    n_rules: int = 0
    n_tests: int = 0
    n_instances: int = 0
    n_compared: int = 0
    n_guards: int = 0
    n_generated: int = 0
    n_fired: int = 0
    """Graphs that were made up beyond the tests, and those of them on which the rule fired."""
    took_us: float = 0.0
    failures: list[RuleFailure] = field(default_factory=list[RuleFailure])
    counterexamples: list[Counterexample] = field(default_factory=list[Counterexample])
    """Tests that nobody wrote on which a rule changes what is computed, one a rule."""
    unseen: list[UnseenGuard] = field(default_factory=list[UnseenGuard])
    """Guards that tests see one side of only, or none."""
    untested: list[str] = field(default_factory=list[str])
    """Rules without any test."""

    @property
    def is_good(self) -> bool:
        """Whether every test held, those made up too."""
        return not self.failures and not self.counterexamples

    def as_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "rules": self.n_rules,
            "tests": self.n_tests,
            "instances": self.n_instances,
            "compared": self.n_compared,
            "guards": self.n_guards,
            "generated": self.n_generated,
            "fired": self.n_fired,
            "took_us": round(self.took_us, 1),
            "untested": list(self.untested),
            "unseen": [
                {"rule": item.rule, "at": str(item.span), "guard": item.text, "lacks": item.lacks}
                for item in self.unseen
            ],
            "failures": [
                {"rule": item.rule, "test": item.test, "at": str(item.span), "reason": item.reason}
                for item in self.failures
            ],
            "counterexamples": [
                {"rule": item.rule, "reason": item.reason, "test": item.block}
                for item in self.counterexamples
            ],
        }


def test_rules(
    book: RuleBook,
    rules: Sequence[Rule] | None = None,
    *,
    schemas: Schemas | None = None,
    limit: int = DEFAULT_LIMIT,
    generated: int = 0,
    seed: int = 0,
    on_test: Callable[[str], None] = lambda _name: None,
) -> RuleTestReport:
    """Run the `test` blocks of rules.

    For each block, graphs are built from the pattern: with and without optional parts, every
    alternative, operands both ways round, every association, up to `limit`. The rule alone is applied.
    Where it must fire, the graphs before and after are computed on random arrays and compared. Gates ask
    the device of the test; they hold where the book does not describe it.

    Args:
        rules: Those to test; all of the book unless given.
        schemas: Operators, those defined by the book among them.
        limit: Graphs of one test.
        generated: Graphs made up for each rule beyond its tests: other shapes, element types, attributes,
            operators, optional parts and elements, drawn by `seed`. Where the rule fires, both sides are
            computed; the first one on which they part by more than noise is shrunk.
        seed: Another seed makes up other graphs.
        on_test: Told the name of each rule before its tests.

    Returns:
        Counts, every failure, and the guards that tests see one side of only; nothing is raised for a
        test that does not hold.
    """
    started = perf_counter()
    runner = _Runner(Bench(book, schemas), limit)
    count = SearchCount()
    for rule in book.rules if rules is None else rules:
        on_test(rule.name.name)
        runner.rule(rule)
        found = Search(runner.bench, rule, seed=seed).run(generated, count) if generated else None
        if found is not None:
            runner.report.counterexamples.append(found)
    runner.report.n_generated, runner.report.n_fired = count.n_generated, count.n_fired
    runner.report.took_us = (perf_counter() - started) * 1e6
    return runner.report


def _told(reasons: Collection[str]) -> str:
    """Return reasons as one text; one that another tells with what was seen is left out."""
    return "; ".join(
        one for one in sorted(reasons) if not any(other.startswith(f"{one} (") for other in reasons)
    )


# pytest collects functions by this prefix; this one is no test.
setattr(test_rules, "__test__", False)  # noqa: B010 (pyright knows no such attribute)


class _Runner:
    def __init__(self, bench: Bench, limit: int) -> None:
        self.bench = bench
        self.limit = limit
        self.report = RuleTestReport()

    def rule(self, rule: Rule) -> None:
        self.report.n_rules += 1
        if not rule.tests:
            self.report.untested.append(rule.name.name)
        held: set[int] = set()
        refused: set[int] = set()
        for test in rule.tests:
            self.report.n_tests += 1
            try:
                reason = self.test(rule, test, held, refused)
            except GerulesError as error:
                reason = fault_text(error)
            except Unbuildable as error:
                reason = f"no graph can be built: {error}"
            if reason:
                self.fail(rule, test, reason)
        for place, guard in enumerate(rule.guards):
            self.report.n_guards += 1
            is_refused = place in refused or steers_search(guard)
            if place not in held or not is_refused:
                text = guard.test.span.text
                self.report.unseen.append(
                    UnseenGuard(rule.name.name, guard.span, text, place in held, is_refused)
                )

    def fail(self, rule: Rule, test: RuleTest, reason: str, instance: Instance | None = None) -> None:
        choices = instance.choices if instance is not None else ()
        found = RuleFailure(rule.name.name, test.doc, test.span, reason, choices)
        # Variants of a pattern that fail alike are one failure.
        if all((item.span, item.reason) != (found.span, reason) for item in self.report.failures):
            self.report.failures.append(found)

    def test(self, rule: Rule, test: RuleTest, held: set[int], refused: set[int]) -> str:
        """Run one test; returns what is wrong with it as a whole."""
        place = self.bench.place(rule, test)
        if rule.name.name in place.selection.off:
            return f"the rule is off: {place.selection.off[rule.name.name]}"
        trial = Trial(self.bench, rule, place)
        reasons: set[str] = set()
        n_run = n_fired = 0
        for instance in instances(rule, test, place.setting, limit=self.limit, seed=seed_of(rule)):
            if not test.expects_match and not instance.is_whole:
                continue
            self.report.n_instances += 1
            n_run += 1
            outcome = trial.apply(instance.graph)
            reasons |= outcome.reasons
            held |= outcome.held
            refused |= outcome.refused
            is_fired = outcome.after is not None
            n_fired += is_fired
            if is_fired != test.expects_match:
                why = _told(outcome.reasons) or "the pattern does not match"
                self.fail(rule, test, "it fires" if is_fired else f"it does not fire: {why}", instance)
                continue
            if outcome.after is not None and rule.rewrite:
                self.report.n_compared += 1
                wrong = trial.differ(instance, outcome.after, test)
                if wrong:
                    self.fail(rule, test, wrong, instance)
        if not n_run:
            return "no variant of the pattern reads every value that the test gives"
        if test.reason is not None and not any(test.reason in reason for reason in reasons):
            if reasons:
                return f"it refuses for another reason: {_told(reasons)}"
            return "" if n_fired else "it gives no reason: the pattern does not match"
        return ""
