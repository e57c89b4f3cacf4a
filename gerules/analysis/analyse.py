"""All analyses of a rule book, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from gerules.analysis.absent import absent_needs
from gerules.analysis.exactness import missing_inexact
from gerules.analysis.guards import dead_guards
from gerules.analysis.overlap import Overlaps
from gerules.analysis.settings import RunningPhase, Surveyed
from gerules.analysis.termination import Conflict, Termination, describe, false_decrease
from gerules.analysis.unused import unused_declarations
from gerules.analysis.wildcards import hidden_parameters
from gerules.dsl.book import RuleBook
from gerules.dsl.syntax import Rule
from gerules.engine.compiling import uncompiled
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.errors import Diagnostic
from gerules.ops import Schemas
from gerules.report.rule_bench import Bench

ANALYSES: Final = ("termination", "guards", "values", "unused", "exactness", "overlap")
"""What can be asked for, in the order in which it is done."""

MOST_OVERLAPS: Final = 100
"""Overlaps and shadowed rules that are reported; pairs are many where much is wrong."""


@dataclass(slots=True)
class Analysis:
    """What was found. `stops` says of each phase whether it is proved to end.

    `is_cut`: there were more pairs of rules than are looked at for overlaps.
    """

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    stops: dict[str, bool] = field(default_factory=dict[str, bool])
    is_cut: bool = False


def analyse_rules(
    book: RuleBook,
    rules: Sequence[Rule] | None = None,
    *,
    only: Collection[str] = ANALYSES,
    on_step: Callable[[str], None] = lambda _name: None,
) -> Analysis:
    """Say what can be said of rules before they run.

    Args:
        book: Checked; all its rules run together, whichever are asked about.
        rules: Those to report on; all of the book unless given.
        only: Some of `ANALYSES`.
        on_step: Told what begins.

    Returns:
        Warnings, and errors for rules that can never apply or be compiled, which are left out of the rest;
        nothing is raised for what they say.
    """
    schemas = Schemas()
    register_defines(book.defines.values(), schemas)
    survey = Surveyed(book, schemas)
    context = RuleContext(survey.plain.scope, book.patterns)
    faults = uncompiled(book.rules, context, survey.vocabulary, schemas)
    chosen = list(book.rules if rules is None else rules)
    found = Analysis([item for rule in chosen for item in faults.get(rule.name.name, ())])
    if faults:
        # Such a rule never runs, so nothing else can be said of it.
        chosen = [rule for rule in chosen if rule.name.name not in faults]
        book = replace(book, rules=tuple(rule for rule in book.rules if rule.name.name not in faults))
        survey = Surveyed(book, schemas)
    names = {rule.name.name for rule in chosen}
    if "termination" in only:
        on_step("termination")
        found.diagnostics += _termination(survey, names, found.stops)
    files = {rule.span.source.name for rule in chosen}
    if "guards" in only:
        on_step("guards")
        for rule in chosen:
            found.diagnostics += dead_guards(rule, book, survey.vocabulary)
            found.diagnostics += absent_needs(rule, book, survey.vocabulary, schemas)
    if "values" in only:
        on_step("values")
        clauses = [item for several in book.patterns.values() for item in several]
        for item in (*chosen, *(item for item in clauses if item.span.source.name in files)):
            found.diagnostics += hidden_parameters(item, book, schemas)
    if "unused" in only:
        on_step("unused names")
        declared = unused_declarations(book)
        found.diagnostics += (item for item in declared if item.span and item.span.source.name in files)
    bench = Bench(book, schemas)
    if "exactness" in only:
        for rule in chosen:
            on_step(f"exactness of {rule.name.name}")
            warning = missing_inexact(rule, bench)
            found.diagnostics += [warning] if warning is not None else []
    if "overlap" in only:
        overlaps = Overlaps(survey, bench)
        pairs = list(islice(overlaps.pairs(names, on_step), MOST_OVERLAPS))
        found.diagnostics += pairs
        found.is_cut = overlaps.is_cut or len(pairs) == MOST_OVERLAPS
    return found


def _termination(survey: Surveyed, names: Collection[str], stops: dict[str, bool]) -> Iterator[Diagnostic]:
    termination = Termination(survey.vocabulary, survey.schemas)
    seen: set[tuple[str, ...]] = set()
    for phase in survey.phases:
        conflicts = _conflicts(survey, termination, phase)
        stops[phase.name] = not conflicts
        for conflict, where in conflicts.items():
            key = tuple(rule.name.name for rule in conflict.rules)
            if key not in seen and any(name in names for name in key):
                seen.add(key)
                yield describe(conflict, phase.name, where)
    for rule in survey.book.rules:
        counts = termination.counts(rule) if rule.decreases is not None and rule.name.name in names else ""
        warning = None if isinstance(counts, str) else false_decrease(rule, counts, survey.schemas)
        if warning is not None:
            yield warning


def _conflicts(survey: Surveyed, termination: Termination, phase: RunningPhase) -> Mapping[Conflict, str]:
    """Return the sets of rules that may go round, and where; only rules that are on together count."""
    if not termination.conflicts(phase.repeated):
        return {}
    found: dict[Conflict, str] = {}
    seen: set[tuple[str, ...]] = set()
    for where in survey.surroundings:
        on = [rule for rule in phase.repeated if rule.name.name in where.on]
        for conflict in termination.conflicts(on):
            key = tuple(rule.name.name for rule in conflict.rules)
            if key not in seen:
                seen.add(key)
                is_special = any(rule.when or rule.opsets for rule in conflict.rules)
                found[conflict] = f"they are on together {where}" if len(key) > 1 and is_special else ""
    return found
