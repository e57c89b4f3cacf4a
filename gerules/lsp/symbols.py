"""Symbols: what a mentioned name stands for, where it is declared, and where else it is mentioned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from gerules.dsl.check_expr import GATE_NAMES, STATIC_NAMES
from gerules.dsl.read_pattern import DTYPES
from gerules.lsp.occurrences import Occurrence
from gerules.lsp.reading import Reading
from gerules.lsp.workspace import Context

Kind = Literal[
    "local",
    "operator",
    "pattern",
    "ops",
    "attribute",
    "parameter",
    "member",
    "function",
    "param",
    "rule",
    "ruleset",
    "phase",
    "pipeline",
    "profile",
    "device",
    "engine",
    "feature",
    "format",
    "axis",
    "mark",
    "dtype",
    "builtin",
    "alias",
    "unknown",
]

NAMED_BY_USERS: Final[tuple[Kind, ...]] = (
    *("local", "operator", "pattern", "ops", "function", "param", "rule", "ruleset"),
    *("phase", "pipeline", "profile", "device", "format"),
)
"""The kinds of which a file may declare new ones."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a name stands for.

    A local one belongs to the item `item` of the file `key`; an attribute has its operator as `owner`.
    """

    kind: Kind
    name: str
    key: str = ""
    item: int = -1
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Characters of a file."""

    key: str
    start: int
    end: int


def occurrence_at(reading: Reading, offset: int) -> Occurrence | None:
    """Return the name that an offset stands in or behind."""
    touching = [item for item in reading.occurrences if item.start <= offset <= item.end]
    return touching[-1] if touching else None


def symbol_of(item: Occurrence, key: str, context: Context) -> Symbol:
    """Return what a name of a file stands for in its book."""
    book, name = context.book, item.name
    match item.role:
        case "local":
            return Symbol("local", name, key, item.item)
        case "ref":
            if name in locals_of(context.readings[key], item.item):
                return Symbol("local", name, key, item.item)
            return Symbol(_outside(name, context), name)
        case "operator":
            return Symbol("pattern" if name in book.patterns else "operator", name)
        case "switch":
            if name in book.set_names:
                return Symbol("ruleset", name)
            if name in book.rule_by_name:
                return Symbol("rule", name)
            return Symbol("alias" if name in book.rules_by_alias else "ruleset", name)
        case "attribute" | "parameter" | "member" | "engine":
            return Symbol(item.role, name, owner=item.owner)
        case role:
            return Symbol(role, name)


def _outside(name: str, context: Context) -> Kind:
    if name in DTYPES:
        return "dtype"
    if name in context.book.op_sets:
        return "ops"
    if name in STATIC_NAMES or name in GATE_NAMES:
        return "builtin"
    if name in context.book.defines or context.schemas.get(name) is not None:
        return "operator"
    return "unknown"


def locals_of(reading: Reading, item: int) -> frozenset[str]:
    """Return the local names of an item."""
    return frozenset(
        mention.name for mention in reading.occurrences if mention.item == item and mention.role == "local"
    )


def mentions(symbol: Symbol, context: Context) -> Iterator[tuple[Place, Occurrence]]:
    """Yield every mention of a symbol, file by file in the order of the book.

    Cost: linear in the mentions of its name.
    """
    keys = [symbol.key] if symbol.kind == "local" else list(context.readings)
    for key in keys:
        for item in context.readings[key].occurrences:
            if item.name == symbol.name and symbol_of(item, key, context) == symbol:
                yield Place(key, item.start, item.end), item


def declarations(symbol: Symbol, context: Context) -> list[Place]:
    """Return where a symbol is declared.

    A value of a match that no line makes is declared where it is first mentioned, and so is a rule set that
    no `ruleset` describes. What gerules or ONNX declare is declared nowhere.
    """
    found = list(mentions(symbol, context))
    declared = [place for place, item in found if item.is_declaration]
    if symbol.kind == "local":
        patterns = [place for place, item in found if item.role == "local"]
        return (declared or patterns)[:1]
    if symbol.kind == "ruleset" and not declared:
        return [place for place, _ in found][:1]
    return declared


_COMMENT: Final = re.compile(r"^#[ ]?(.*)$")


def comment_above(text: str, offset: int) -> str:
    """Return the lines of comment directly above the line of an offset."""
    lines = text[:offset].split("\n")[:-1]
    found: list[str] = []
    while lines and (comment := _COMMENT.match(lines.pop().strip())):
        found.append(comment[1])
    return "\n".join(reversed(found))
