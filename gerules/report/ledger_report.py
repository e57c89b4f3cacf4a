"""The precision ledger as people read it: what adds most error, by rule and node by node."""

from __future__ import annotations

from gerules.pipeline.ledger import Entry, Ledger
from gerules.report.quantities import error_text
from gerules.report.tables import Column, Grid

MOST_ROWS = 20

_CAUSES = {
    "rule": "rewritten",
    "lowered": "lowered",
    "cast": "cast inserted",
    "model": "as in the model",
}


def accounts_grid(found: Ledger) -> Grid:
    """Return what rules, operators and Casts add, most first."""
    accounts = [item for item in found.accounts() if item.added]
    columns = (
        Column("rule or operator", style="bold"),
        Column("what"),
        Column("type"),
        Column("nodes", "right"),
        Column("added", "right"),
        Column("most at one", "right"),
        Column("there"),
    )
    rows = [
        (
            item.name,
            _CAUSES[item.cause],
            item.dtype,
            str(item.n_nodes),
            error_text(item.added),
            error_text(item.worst.added),
            item.worst.node,
        )
        for item in accounts[:MOST_ROWS]
    ]
    outputs = ", ".join(f"{name} {error_text(error)}" for name, error in found.outputs.items())
    hidden = len(accounts) - len(rows)
    notes = [
        f"error of outputs: {outputs}",
        f"errors are the largest difference over the largest magnitude, against the model in {found.truth}; "
        "added: error of the result less the largest of the inputs",
        *([f"{hidden} more that add less, all in --json"] if hidden else []),
    ]
    return Grid(columns, rows, f"Error added on {found.model} for {found.device}, {found.precision}", notes)


def entries_grid(found: Ledger, n_rows: int) -> Grid:
    """Return the nodes that add most."""
    worst = sorted(found.entries, key=lambda item: -item.added)[:n_rows]
    columns = (
        Column("node", style="bold"),
        Column("operator"),
        Column("type"),
        Column("what"),
        Column("made by"),
        Column("error in", "right"),
        Column("error out", "right"),
        Column("added", "right"),
    )
    rows = [_cells(item) for item in worst if item.added > 0]
    return Grid(columns, rows, f"The {len(rows)} nodes that add most")


def _cells(item: Entry) -> tuple[str, ...]:
    return (
        item.node,
        item.op,
        item.dtype,
        _CAUSES[item.cause],
        item.rule or "-",
        error_text(item.error_in),
        error_text(item.error_out),
        error_text(item.added),
    )
