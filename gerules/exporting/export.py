"""Rules exported: which can be passes, as files, and why the others cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gerules.dsl import RuleBook
from gerules.dsl.book import suggest
from gerules.dsl.selection import resolve_params
from gerules.dsl.syntax import Rule
from gerules.dsl.values import Value
from gerules.errors import Diagnostic, Faults, table
from gerules.exporting.cpp_pass import write_cpp
from gerules.exporting.fault import ExportError
from gerules.exporting.forms import forms_of
from gerules.exporting.names import pass_name
from gerules.exporting.plan import Plan, Refusal
from gerules.exporting.planning import plan_of
from gerules.exporting.python_pass import write_python
from gerules.ops import Schemas

Language = Literal["python", "cpp"]

SUFFIXES = {"python": ".py", "cpp": ".cpp"}


@dataclass(frozen=True, slots=True)
class Exported:
    """What came of rules.

    `passes` are the names of passes by rule; `refused` says of each other rule why, and `kinds` in one word.
    """

    text: str
    passes: dict[str, tuple[str, ...]]
    refused: tuple[Diagnostic, ...]
    kinds: dict[str, str]

    def counts(self) -> dict[str, int]:
        """Return how many rules there are for each reason, most first."""
        return dict(sorted(Counter(self.kinds.values()).items(), key=lambda item: (-item[1], item[0])))


def export_rules(
    book: RuleBook, rules: Sequence[Rule], language: Language, *, source: str, schemas: Schemas | None = None
) -> Exported:
    """Write rules as passes in a language.

    Args:
        source: Where the rules come from, for the head of the file.

    Returns:
        The file, empty when no rule can be a pass, and what was refused: E40140 with the place in the rule.
    """
    schemas = schemas or Schemas()
    params = resolve_params(book)
    plans: list[Plan] = []
    passes: dict[str, tuple[str, ...]] = {}
    refused: list[Diagnostic] = []
    kinds: dict[str, str] = {}
    for rule in rules:
        try:
            found = _plans(rule, book, schemas, params)
        except Refusal as refusal:
            name = rule.name.name
            facts = {"rule": name, "reason": refusal.reason}
            refused.append(
                Diagnostic(table.NOT_A_PASS, facts, refusal.span or rule.name.span, severity="warning")
            )
            kinds[name] = refusal.kind
            continue
        plans += found
        passes[rule.name.name] = tuple(plan.name for plan in found)
    write = write_python if language == "python" else write_cpp
    return Exported(write(plans, source) if plans else "", passes, tuple(refused), kinds)


def choose_rules(book: RuleBook, names: Sequence[str], among: Sequence[Rule]) -> list[Rule]:
    """Return the rules of these names, or all of `among`. Raises ExportError E40052 for each unknown name."""
    if not names:
        return list(among)
    faults, known = Faults(), book.rule_by_name
    for name in names:
        if name not in known:
            faults.add(table.UNKNOWN_RULE, name=name, notes=suggest(name, known))
    faults.raise_if_any(ExportError)
    return [known[name] for name in names]


def _plans(rule: Rule, book: RuleBook, schemas: Schemas, params: Mapping[str, Value]) -> list[Plan]:
    """The plan of each form; forms that say the same are one."""
    found: list[Plan] = []
    for form in forms_of(rule, book, schemas):
        plan = plan_of(rule, form, params)
        if plan not in found:
            found.append(plan)
    if len(found) == 1:
        return found
    return [replace(plan, name=pass_name(rule.name.name, place)) for place, plan in enumerate(found, 1)]
