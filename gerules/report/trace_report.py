"""What rules did to a graph, as a table: which fired, and why the others that came close did not."""

from __future__ import annotations

from gerules.engine.trace import RuleCount, Trace
from gerules.errors.counts import count_text
from gerules.report.quantities import time_text
from gerules.report.tables import Column, Grid


def trace_grid(trace: Trace, name: str) -> Grid:
    """Return a trace as a table: rules that matched first by how often they were applied."""
    seen = [count for count in trace.rules.values() if count.matches or count.best is not None]
    seen.sort(key=lambda count: (-count.applications, -count.matches, count.rule))
    columns = (
        Column("rule", style="bold"),
        Column("matched", "right"),
        Column("applied", "right"),
        Column("took", "right"),
        Column("why not"),
    )
    rows = [
        (
            count.rule,
            str(count.matches),
            str(count.applications),
            time_text(count.took_us),
            _why_not(count),
        )
        for count in seen
        if count.matches
    ]
    notes = [
        f"{count_text(len(trace.applications), 'application')} in {time_text(trace.took_us)}; "
        f"{count_text(len(trace.rules), 'rule')} tried, {len(trace.missing)} without a place to try, "
        f"{len(trace.off)} off"
    ]
    return Grid(columns, rows, f"Phase {name}", notes)


def _why_not(count: RuleCount) -> str:
    return "; ".join(f"{n} x {reason}" for reason, n in count.refusals.items())
