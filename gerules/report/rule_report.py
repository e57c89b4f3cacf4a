"""What testing rules found, as a table and a line."""

from __future__ import annotations

from gerules.report.quantities import count_text, time_text
from gerules.report.rule_tests import RuleTestReport
from gerules.report.tables import Column, Grid


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
