"""What testing rules found, as a table and a line."""

from __future__ import annotations

from typing import Final

from gerules.errors.counts import count_text
from gerules.report.quantities import time_text
from gerules.report.rule_mutation import KindCount, MutationReport
from gerules.report.rule_tests import RuleTestReport
from gerules.report.tables import Column, Grid

_MOST_NAMED: Final = 3
"""Rules that a line names."""


def failure_grid(report: RuleTestReport) -> Grid:
    """Return every failure: where the test stands, and what was found."""
    columns = (Column("rule", style="bold"), Column("test"), Column("at"), Column("what was found"))
    rows = [(item.rule, item.test or "-", str(item.span), item.reason) for item in report.failures]
    return Grid(columns, rows, "Tests that do not hold")


def counterexample_text(report: RuleTestReport) -> str:
    """Return the counterexamples, each as a `test` block to paste below its rule."""
    parts: list[str] = []
    for item in report.counterexamples:
        note = "" if item.is_shown else "; only in a variant beyond those that a test runs"
        parts.append(f"{item.rule}: {item.reason}{note}\n{item.block}")
    return "\n".join(parts)


def coverage_grid(report: RuleTestReport) -> Grid:
    """Return the guards that tests see one side of only, or none."""
    columns = (Column("rule", style="bold"), Column("at"), Column("guard"), Column("no test lets it"))
    rows = [(item.rule, str(item.span), item.text, item.lacks) for item in report.unseen]
    return Grid(columns, rows, "Guards that tests do not cover")


def survivor_text(report: MutationReport) -> str:
    """Return the edits that no test noticed, each with a test that would where one was found."""
    parts = (f"{item.mutant}\n{item.block}" for item in report.survivors)
    return "\n".join(part if part.endswith("\n\n") else part.rstrip("\n") for part in parts)


def mutant_grid(report: MutationReport) -> Grid:
    """Return what became of the edits, by kind."""
    columns = (
        Column("edit", style="bold"),
        Column("caught by tests", align="right"),
        Column("refused", align="right"),
        Column("the same", align="right"),
        Column("survived", align="right"),
        Column("score", align="right"),
    )
    counts = {kind: count for kind, count in report.kinds.items() if count != KindCount()}
    rows = [
        (kind, str(c.tested), str(c.checked), str(c.equivalent), str(c.survived), _percent(c.score))
        for kind, c in (*counts.items(), ("all", report.total))
    ]
    return Grid(columns, rows, "Edits of rules")


def mutation_line(report: MutationReport) -> str:
    """Return the score in one line."""
    total = report.total
    n_caught = total.tested + total.checked
    shown = ", ".join(report.unfit[:_MOST_NAMED]) + (", …" if len(report.unfit) > _MOST_NAMED else "")
    unfit = f", {count_text(len(report.unfit), 'rule')} without tests that hold ({shown})" if shown else ""
    return (
        f"{n_caught} of {n_caught + total.survived} edits of {count_text(report.n_rules, 'rule')} caught: "
        f"score {_percent(total.score)}{unfit} ({time_text(report.took_us)})"
    )


def _percent(score: float | None) -> str:
    return "-" if score is None else f"{score:.1%}"


def outcome_line(report: RuleTestReport) -> str:
    """Return the counts in one line."""
    n_bad = len(report.failures) + len(report.counterexamples)
    failures = count_text(n_bad, "failure") if n_bad else "all hold"
    if not report.n_tests and not report.n_generated:
        return f"no tests in {count_text(report.n_rules, 'rule')}"
    untested = f", {count_text(len(report.untested), 'rule')} without a test" if report.untested else ""
    generated = (
        f", {count_text(report.n_generated, 'graph')} made up, rules fired on {report.n_fired}"
        if report.n_generated
        else ""
    )
    guards = f", {count_text(len(report.unseen), 'guard')} not covered" if report.unseen else ""
    return (
        f"{count_text(report.n_tests, 'test')} of {count_text(report.n_rules, 'rule')} on "
        f"{count_text(report.n_instances, 'graph')}, {report.n_compared} compared by value{generated}: "
        f"{failures}{untested}{guards} ({time_text(report.took_us)})"
    )
