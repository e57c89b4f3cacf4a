"""Remedies: what takes a compile back into tolerance, as a switch file, a profile and nodes to keep."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gerules.dsl import RuleBook
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.suspects import Suspect
from gerules.pipeline.switching import GRAPH, pass_name, section_of

_PROFILE: Final = "bisected"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Rules to switch off, and nodes that keep their element types."""

    rules: tuple[str, ...] = ()
    keep_dtype: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules or self.keep_dtype)

    def plus(self, suspects: Iterable[Suspect]) -> Remedy:
        """Return a remedy against more suspects. Of a rule all applications go: a switch knows no sites."""
        rules, keeps = dict.fromkeys(self.rules), dict.fromkeys(self.keep_dtype)
        for item in suspects:
            if item.kind == "rule":
                rules[item.rule] = None
            keeps.update(dict.fromkeys(item.keeps))
        return Remedy(tuple(rules), tuple(keeps))

    def applied_to(self, options: CompileOptions) -> CompileOptions:
        """Return the options of a compile with this remedy."""
        return replace(
            options,
            disable=tuple(dict.fromkeys((*options.disable, *self.rules))),
            keep_dtype=tuple(dict.fromkeys((*options.keep_dtype, *self.keep_dtype))),
        )


def switch_text(book: RuleBook, rules: Sequence[str]) -> str:
    """Return a fusion switch file of the Graph Engine that has rules off, by the passes they stand for."""
    sections: dict[str, dict[str, str]] = {}
    for name in rules:
        rule = book.rule_by_name[name]
        sections.setdefault(section_of(book, rule) or GRAPH, {})[pass_name(rule)] = "off"
    return json.dumps({"Switch": sections}, indent=2, ensure_ascii=False) + "\n"


def profile_name(book: RuleBook) -> str:
    """Return a name that no profile of a book has."""
    taken = book.profiles
    return next(
        name for n in range(len(taken) + 1) if (name := f"{_PROFILE}_{n}" if n else _PROFILE) not in taken
    )


def profile_text(book: RuleBook, rules: Sequence[str], *, base: str, precision: str) -> str:
    """Return a rule file with a profile that extends `base` and has rules off."""
    lines = [
        "# Rules that take the outputs of a model out of tolerance are off; written by gerules bisect.",
        "gerules 1",
        f'profile {profile_name(book)} extends {base} "without what takes the outputs out of tolerance":',
        f'    set precision = "{precision}"',
        *(f"    disable {name}" for name in rules),
    ]
    return "\n".join(lines) + "\n"
