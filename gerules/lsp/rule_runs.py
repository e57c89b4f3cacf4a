"""Runs of the tests that stand in rules, one rule after the other, until told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gerules.dsl.syntax import Rule
from gerules.errors import Span
from gerules.errors.counts import count_text
from gerules.lsp.workspace import Context
from gerules.report.rule_tests import RuleTestReport, test_rules


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run says of a place: a test that does not hold, or a guard that no test sees both sides of.

    `start` and `end` count from the begin of the rule, so that they hold where lines are added above it.
    """

    start: int
    end: int
    message: str
    is_failure: bool


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What a run found in one rule; `text` is that of the rule when it was run."""

    name: str
    text: str
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class Run:
    """What a run came to."""

    n_rules: int = 0
    n_tests: int = 0
    n_graphs: int = 0
    took_us: float = 0.0
    is_cancelled: bool = False
    results: list[RuleResult] = field(default_factory=list[RuleResult])

    @property
    def n_failures(self) -> int:
        """Tests, or variants of their graphs, that do not hold."""
        return sum(1 for result in self.results for item in result.findings if item.is_failure)

    @property
    def summary(self) -> str:
        """The run in a sentence."""
        names = [result.name for result in self.results]
        what = names[0] if len(names) == 1 else count_text(len(names), "rule")
        counts = f"{count_text(self.n_tests, 'test')} on {count_text(self.n_graphs, 'graph')}"
        verdict = count_text(self.n_failures, "failure") if self.n_failures else "all hold"
        stopped = "cancelled; " if self.is_cancelled else ""
        return f"{what}: {stopped}{counts}, {verdict}" if names else f"{stopped}no rule was run"

    def as_json(self) -> dict[str, object]:
        """Return the run as plain values."""
        failures = [
            {"rule": result.name, "message": item.message}
            for result in self.results
            for item in result.findings
            if item.is_failure
        ]
        return {
            "rules": len(self.results),
            "tests": self.n_tests,
            "graphs": self.n_graphs,
            "took_us": round(self.took_us, 1),
            "is_cancelled": self.is_cancelled,
            "summary": self.summary,
            "failures": failures,
        }


def rules_to_run(context: Context, name: str | None) -> list[Rule]:
    """Return the rule of a name, or all rules of the file of a context. What cannot be read is not run."""
    own = [item for item in context.reading.file.items if isinstance(item, Rule)]
    known = context.book.rule_by_name
    chosen = [item for item in own if known.get(item.name.name) is item]
    return [item for item in chosen if name is None or item.name.name == name]


def run_rules(
    context: Context, rules: Sequence[Rule], stop: threading.Event, on_rule: Callable[[int, str], None]
) -> Run:
    """Run the tests of rules; nothing is raised for a test that does not hold, or cannot be run.

    Args:
        stop: Ends the run before the next rule.
        on_rule: Told how many rules are done, and the name of the next.
    """
    run = Run()
    for place, rule in enumerate(rules):
        if stop.is_set():
            run.is_cancelled = True
            break
        on_rule(place, rule.name.name)
        report = test_rules(context.book, [rule], schemas=context.schemas)
        run.n_rules += 1
        run.n_tests += report.n_tests
        run.n_graphs += report.n_instances
        run.took_us += report.took_us
        run.results.append(RuleResult(rule.name.name, rule.span.text, tuple(_findings(rule, report))))
    run.is_cancelled = run.is_cancelled or stop.is_set()
    return run


def _findings(rule: Rule, report: RuleTestReport) -> Sequence[Finding]:
    failures = [
        _finding(rule, item.span, _failure_text(item.test, item.reason, item.choices), is_failure=True)
        for item in report.failures
    ]
    unseen = [
        _finding(rule, item.span, f"no test sees this {item.lacks}", is_failure=False)
        for item in report.unseen
        if rule.tests
    ]
    return list(dict.fromkeys([*failures, *unseen]))


def _failure_text(test: str, reason: str, choices: tuple[int, ...]) -> str:
    name = f"test {test!r}: " if test else ""
    variant = f" (variant {'.'.join(str(answer) for answer in choices)})" if choices else ""
    return f"{name}{reason}{variant}"


def _finding(rule: Rule, span: Span, message: str, *, is_failure: bool) -> Finding:
    # A test is pointed at by its first line, not underlined as a whole.
    first = span.text.split("\n", 1)[0].rstrip()
    start = span.start - rule.span.start
    return Finding(start, start + len(first), message, is_failure)
