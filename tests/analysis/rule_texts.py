"""Rule texts for the tests of analyses."""

from __future__ import annotations

from collections.abc import Sequence

from gerules.analysis.analyse import Analysis, analyse_rules
from gerules.dsl import RuleBook, load_rules
from gerules.errors import Diagnostic, Source
from gerules.ops import Schemas

SCHEMAS = Schemas()


def load(text: str) -> RuleBook:
    return load_rules([Source("f.ger", "gerules 1\n" + text)], schemas=SCHEMAS)


def analyse(text: str, *only: str) -> Analysis:
    return analyse_rules(load(text), only=only)


def codes(found: Sequence[Diagnostic]) -> list[tuple[str, str]]:
    """Code and text pointed at of each finding."""
    return [(item.code.code, item.span.text if item.span else "") for item in found]


def rule(name: str, match: str, rewrite: str, extra: str = "", head: str = "") -> str:
    """A rule from its lines; `extra` comes between match and rewrite, `head` before match."""

    def block(word: str, body: str) -> str:
        return "".join(
            f"    {word}\n" * (not n) + f"        {line}\n" for n, line in enumerate(body.split("\n"))
        )

    top = "".join(f"    {line}\n" for line in head.split("\n") if line)
    middle = "".join(f"    {line}\n" for line in extra.split("\n") if line)
    return f"rule {name} in s:\n{top}{block('match:', match)}{middle}{block('rewrite:', rewrite)}"
