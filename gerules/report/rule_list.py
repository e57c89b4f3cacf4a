"""The rules of a book as a list: where each stands, when it runs, and why it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gerules.dsl import RuleBook, Selection
from gerules.dsl.syntax import Rule
from gerules.report.tables import LINE_END, Column, Grid


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule. `why_off` is empty when it is on; `phases` are those that run it, in no pipeline's order."""

    name: str
    ruleset: str
    phases: tuple[str, ...]
    why_off: str
    doc: str
    aliases: tuple[str, ...]
    is_inexact: bool
    n_tests: int
    at: str

    def as_json(self) -> dict[str, object]:
        """Return the row as plain values."""
        return {
            "rule": self.name,
            "set": self.ruleset,
            "phases": list(self.phases),
            "on": not self.why_off,
            "why_off": self.why_off,
            "doc": self.doc,
            "aliases": list(self.aliases),
            "inexact": self.is_inexact,
            "n_tests": self.n_tests,
            "at": self.at,
        }


def list_rules(book: RuleBook, selection: Selection, ruleset: str = "") -> list[RuleRow]:
    """Return the rules of a book, or of one of its sets (`fuse` holds `fuse.conv` too), in their order."""
    phases = _phases_by_set(book)
    return [
        _row(rule, phases.get(rule.ruleset, ()), selection.off.get(rule.name.name, ""))
        for rule in book.rules
        if not ruleset or is_in_set(rule.ruleset, ruleset)
    ]


def is_in_set(ruleset: str, name: str) -> bool:
    """Whether a rule set is the one named, or a part of it."""
    return ruleset == name or ruleset.startswith(name + ".")


def rule_grid(rows: Sequence[RuleRow], title: str = "") -> Grid:
    """Return the list as a table."""
    columns = (
        Column("rule", style="bold"),
        Column("set"),
        Column("phase"),
        Column("on"),
        Column("what it does, what GE calls it, why it is off"),
    )
    cells = [
        (
            row.name,
            row.ruleset,
            ", ".join(row.phases) or "-",
            "off" if row.why_off else "on",
            LINE_END.join(_about(row)),
        )
        for row in rows
    ]
    n_on = sum(1 for row in rows if not row.why_off)
    n_tests = sum(row.n_tests for row in rows)
    return Grid(columns, cells, title, (f"{len(rows)} rules, {n_on} of them on; {n_tests} tests",))


def _about(row: RuleRow) -> Iterator[str]:
    yield f"{row.doc} (inexact)" if row.is_inexact else row.doc
    if row.aliases:
        yield f"GE: {', '.join(row.aliases)}"
    if row.why_off:
        yield f"off: {row.why_off}"


def _phases_by_set(book: RuleBook) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for ruleset in book.set_names:
        found[ruleset] = tuple(
            name
            for name, phase in book.phases.items()
            if _runs(ruleset, (item.name for item in (*phase.run, *phase.then)))
        )
    return found


def _runs(ruleset: str, names: Iterable[str]) -> bool:
    return any(is_in_set(ruleset, name) for name in names)


def _row(rule: Rule, phases: tuple[str, ...], why_off: str) -> RuleRow:
    return RuleRow(
        rule.name.name,
        rule.ruleset,
        phases,
        why_off,
        rule.doc,
        rule.aliases,
        rule.is_inexact,
        len(rule.tests),
        str(rule.span),
    )
