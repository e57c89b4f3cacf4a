"""Switch files applied to a rule book: a verdict for each rule they name, and a new order of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from gerules.dsl import RuleBook
from gerules.dsl.book import suggest
from gerules.dsl.selection import is_switch, switch_names
from gerules.dsl.syntax import Rule
from gerules.errors import Faults, Span, table
from gerules.errors.counts import count_text
from gerules.pipeline.fusion_switch import ALL, FusionSwitch, PassPriority, PassSwitch, Section

GRAPH: Final[Section] = "GraphFusion"
"""The section of rule sets that declare no `kind`, where a section is needed."""

_MOST_UNKNOWN: Final = 20
"""Unknown names that each get a warning and a look for the nearest known one; the rest are counted."""

_FAR: Final = 1_000_000
"""Beyond every priority that rules give themselves: configured ones stand before or after all others."""


@dataclass(frozen=True, slots=True)
class GePass:
    """A fusion pass of the Graph Engine, by name; `section` is None where it is not known."""

    name: str
    section: Section | None
    is_fixed: bool
    """Whether the Graph Engine keeps it on whatever the switch file says."""


@cache
def ge_passes() -> Mapping[str, GePass]:
    """Return the passes that the Graph Engine knows, by name."""
    found: dict[str, GePass] = {}
    text = Path(__file__).with_name("ge_passes.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, section, *marks = line.split()
        kind: Section | None = None
        if section in ("GraphFusion", "UBFusion"):
            kind = section
        found[name] = GePass(name, kind, "fixed" in marks)
    return found


def section_of(book: RuleBook, rule: Rule) -> Section | None:
    """Return the section that governs a rule: the `kind` of its set, None when that declares none."""
    ruleset = book.rulesets.get(rule.ruleset)
    return ruleset.kind if ruleset is not None else None


def pass_name(rule: Rule) -> str:
    """Return the name of a rule as the Graph Engine's files have it: its first alias, or its own."""
    return rule.aliases[0] if rule.aliases else rule.name.name


def apply_switch(book: RuleBook, switch: FusionSwitch) -> tuple[RuleBook, dict[str, str | None]]:
    """Apply a switch file to a book.

    A name is a pass (an alias of rules), a rule, or a rule set; the nearer name decides, and of two that
    are as near the one that says off. Names in the section that governs a rule come before names in the
    other one. `ALL` reaches the rule sets whose `kind` is its section, and no set without a `kind`: those
    do what the Graph Engine does outside of its fusion passes. `ALL` switches off, or back on what a profile
    has off; sets that are `default off` wait for their name.

    Returns:
        The book in its new order, with a warning for each name without effect; and by name of rule what
        the file says: None that it is on, otherwise why it is off.
    """
    faults = Faults()
    named = [(item.name, item.span) for item in (*switch.switches, *switch.priorities)]
    _check_names(book, {name: span for name, span in reversed(named) if name != ALL}, faults)
    _note_fixed(book, switch, faults)
    switches: dict[str, list[PassSwitch]] = {}
    for item in switch.switches:
        switches.setdefault(item.name, []).append(item)
    priorities: dict[str, list[PassPriority]] = {}
    for item in switch.priorities:
        priorities.setdefault(item.name, []).append(item)
    verdicts: dict[str, str | None] = {}
    for rule in book.rules:
        chosen = _nearest(switches, rule, section_of(book, rule))
        if chosen is not None and not (chosen.name == ALL and chosen.is_on and _is_opt_in(book, rule)):
            reason = f"the switch file has {chosen.name}:off"
            verdicts[rule.name.name] = None if chosen.is_on else reason
    rules = tuple(_placed(book, rule, priorities) for rule in book.rules)
    return replace(book, rules=rules, warnings=(*book.warnings, *faults.warnings)), verdicts


def _is_opt_in(book: RuleBook, rule: Rule) -> bool:
    ruleset = book.rulesets.get(rule.ruleset)
    return ruleset is not None and not ruleset.is_on


def _nearest(
    switches: Mapping[str, Sequence[PassSwitch]], rule: Rule, section: Section | None
) -> PassSwitch | None:
    best: tuple[int, bool] | None = None
    chosen: PassSwitch | None = None
    for name, weight in (*_names_of(rule), (ALL, 1)):
        for item in switches.get(name, ()):
            is_near = item.section is None or item.section == section
            if name == ALL and (section is None or not is_near):
                continue
            key = (2 * weight + is_near, not item.is_on)
            if best is None or key > best:
                best, chosen = key, item
    return chosen


def _names_of(rule: Rule) -> Iterator[tuple[str, int]]:
    """Yield every name that names a rule, and how closely: 4 itself, 3 as a pass, 2 its set."""
    yield rule.name.name, 4
    yield from ((alias, 3) for alias in rule.aliases)
    parts = rule.ruleset.split(".")
    yield from ((".".join(parts[:n]), 2) for n in range(len(parts), 0, -1))


def _placed(book: RuleBook, rule: Rule, priorities: Mapping[str, Sequence[PassPriority]]) -> Rule:
    """The rule with the file's priority for it; the nearest name, then the lowest number, decides."""
    section = section_of(book, rule) or GRAPH
    found = [
        (-2 * weight - (item.section == section), item.number, item.level)
        for name, weight in _names_of(rule)
        for item in priorities.get(name, ())
    ]
    if not found:
        return rule
    _, number, level = min(found)
    wanted = -_FAR - number if level == "Down" else _FAR - number
    ruleset = book.rulesets.get(rule.ruleset)
    # The set's priority is added again when rules are put in order.
    return replace(rule, priority=wanted - (ruleset.priority if ruleset is not None else 0))


def _check_names(book: RuleBook, names: Mapping[str, Span], faults: Faults) -> None:
    """Warn of names without effect: passes of GE together, for its own files name hundreds; others each."""
    known = ge_passes()
    absent = [name for name in names if not is_switch(book, name)]
    if passes := sorted(name for name in absent if name in known):
        # The first of the file is pointed at.
        span = next(names[name] for name in reversed(absent) if name in known)
        what = "a pass of GE" if len(passes) == 1 else f"{len(passes)} passes of GE"
        faults.add(
            table.SWITCH_WITHOUT_RULE,
            span=span, severity="warning", name=", ".join(passes),
            reason=f"{what} that gerules has no rule for",
        )  # fmt: skip
    others = [name for name in reversed(absent) if name not in known]
    alike = [*switch_names(book), *known]
    for name in others[:_MOST_UNKNOWN]:
        faults.add(
            table.SWITCH_WITHOUT_RULE,
            span=names[name], severity="warning", name=name,
            reason="no rule, rule set or pass has this name", notes=suggest(name, alike),
        )  # fmt: skip
    if rest := others[_MOST_UNKNOWN:]:
        faults.add(
            table.SWITCH_WITHOUT_RULE,
            span=names[rest[0]], severity="warning", name=count_text(len(rest), "more name"),
            reason=f"no rule, rule set or pass is called so; the first {_MOST_UNKNOWN} are told one by one",
        )  # fmt: skip


def _note_fixed(book: RuleBook, switch: FusionSwitch, faults: Faults) -> None:
    fixed = [name for name, item in ge_passes().items() if item.is_fixed and name in book.rules_by_alias]
    named = {item.name for item in switch.switches}
    for item in switch.switches:
        if item.is_on:
            continue
        shown = [item.name] if item.name in fixed else []
        if item.name == ALL:
            shown = [name for name in fixed if name not in named and _reaches(book, item, name)]
        if shown:
            names = ", ".join(shown)
            faults.add(table.SWITCHED_OFF_HERE_ONLY, span=item.span, severity="warning", name=names)


def _reaches(book: RuleBook, switch: PassSwitch, name: str) -> bool:
    one = {ALL: [switch]}
    return any(_nearest(one, rule, section_of(book, rule)) for rule in book.rules_by_alias[name])


__all__ = ["GePass", "apply_switch", "ge_passes", "pass_name", "section_of"]
