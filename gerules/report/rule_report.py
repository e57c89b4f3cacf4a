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


def outcome_line(report: RuleTestReport) -> str:
    """Return the counts in one line."""
    failures = count_text(len(report.failures), "failure") if report.failures else "all hold"
    if not report.n_tests:
        return f"no tests in {count_text(report.n_rules, 'rule')}"
    untested = f", {count_text(len(report.untested), 'rule')} without a test" if report.untested else ""
    return (
        f"{count_text(report.n_tests, 'test')} of {count_text(report.n_rules, 'rule')} on "
        f"{count_text(report.n_instances, 'graph')}, {report.n_compared} compared by value: "
        f"{failures}{untested} ({time_text(report.took_us)})"
    )
