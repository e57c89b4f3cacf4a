"""Hover: what an editor shows of the name under the pointer, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gerules.dsl.functions import ATTRIBUTES
from gerules.dsl.read_pattern import DTYPE_CLASSES, DTYPES
from gerules.dsl.syntax import PatternDef, Rule
from gerules.errors import Span
from gerules.lsp.match_types import types_in_test
from gerules.lsp.operator_docs import describe_attribute, describe_operator
from gerules.lsp.symbols import Symbol, comment_above, declarations, occurrence_at, symbol_of
from gerules.lsp.words import WORDS
from gerules.lsp.workspace import Context

_WORD: Final = re.compile(r"[^\W\d]\w*")
_MOST_LINES: Final = 30
"""Of a declaration that is shown whole."""

_BUILTINS: Final = {
    "device": "the device of the compile: `device.name`, `device.has(...)`, `device.lacks(...)`",
    "precision": "the precision of the profile",
    "profile": "the name of the profile",
    "opset": "the graph's version of ONNX",
    "before": "the cost of what was matched: `time` in microseconds, `bytes`, `flops`",
    "after": "the cost of what replaces it: `time` in microseconds, `bytes`, `flops`",
}


@dataclass(frozen=True, slots=True)
class Hover:
    """A text in Markdown, and the characters of the file that it is about."""

    text: str
    start: int
    end: int


def find_hover(context: Context, offset: int) -> Hover | None:
    """Return what is known of the name, or the word of the language, at an offset.

    Names beside a statement that cannot be read are known too.
    """
    reading = context.reading
    found = occurrence_at(reading, offset)
    if found is None and reading.faults and (found := occurrence_at(reading.mended, offset)) is not None:
        context = replace(context, readings={**context.readings, context.key: reading.mended})
    if found is not None:
        text = describe(symbol_of(found, context.key, context), context)
        return Hover(text, found.start, found.end) if text else None
    source = reading.source.text
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", offset)
    for word in _WORD.finditer(source, start, end if end >= 0 else len(source)):
        is_here = word.start() <= offset <= word.end()
        if is_here and word[0] in WORDS and _is_code(source[start : word.start()]):
            return Hover(f"**{word[0]}**: {WORDS[word[0]]}", word.start(), word.end())
    return None


def describe(symbol: Symbol, context: Context) -> str | None:
    """Return what is known of a symbol; None when nothing is."""
    book, name = context.book, symbol.name
    match symbol.kind:
        case "local":
            return _local(symbol, context)
        case "operator":
            return describe_operator(name, context)
        case "attribute":
            return describe_attribute(symbol.owner, name, context)
        case "function":
            return _function(name, context)
        case "parameter":
            return _function(symbol.owner, context)
        case "rule" if name in book.rule_by_name:
            return _rule(book.rule_by_name[name], context)
        case "ruleset" | "alias":
            return _ruleset(name, context)
        case "ops" if name in book.op_sets:
            ops = sorted(book.op_sets[name])
            return f"{_code(f'ops {name}')}\n{len(ops)} operators: {', '.join(f'`{op}`' for op in ops)}"
        case "dtype":
            return _dtype(name)
        case "builtin":
            return f"**{name}**: {_BUILTINS.get(name, '')}"
        case "member":
            owners = [what for what, names in ATTRIBUTES.items() if name in names]
            return f"**.{name}** of {', '.join(owners)}" if owners else None
        case _:
            return _declaration(symbol, context)


def _is_code(before: str) -> bool:
    plain = re.sub(r'"(?:\\.|[^"\\])*"', "", before)
    return "#" not in plain and '"' not in plain


def _local(symbol: Symbol, context: Context) -> str | None:
    reading = context.readings[symbol.key]
    places = declarations(symbol, context)
    if not places:
        return None
    text = reading.source.text
    start = text.rfind("\n", 0, places[0].start) + 1
    end = text.find("\n", places[0].start)
    line = text[start : end if end >= 0 else len(text)].strip()
    parts = [_code(line)]
    item = reading.item_at(places[0].start)
    if isinstance(item, Rule):
        known = types_in_test(item, context).get(symbol.name)
        if known is not None:
            parts.append(f"`{symbol.name}: {known}` in the first test")
    return "\n".join(parts)


def _function(name: str, context: Context) -> str | None:
    function = context.book.functions.get(name)
    if function is not None:
        return f"{_code(function.signature)}\n{function.doc}"
    extern = context.book.externs.get(name)
    return _code(extern.span.text) if extern is not None else None


def _rule(rule: Rule, context: Context) -> str:
    lines = [_code(f"rule {rule.name} in {rule.ruleset}"), *([rule.doc] if rule.doc else [])]
    phases = _phases_of(rule.ruleset, context)
    lines.append(f"runs in {', '.join(phases)}" if phases else "no phase runs its set")
    if rule.is_inexact:
        lines.append(f"inexact: {rule.inexact_reason}" if rule.inexact_reason else "inexact")
    if rule.aliases:
        lines.append(f"known to switch files as {', '.join(rule.aliases)}")
    n_guards = sum(1 for _ in rule.guards)
    lines.append(f"{len(rule.tests)} tests, {n_guards} guards, priority {rule.priority}")
    return "\n\n".join(lines)


def _phases_of(ruleset: str, context: Context) -> list[str]:
    return [
        f"`{phase.name}`"
        for phase in context.book.phases.values()
        if any(
            ruleset == item.name or ruleset.startswith(f"{item.name}.") for item in (*phase.run, *phase.then)
        )
    ]


def _ruleset(name: str, context: Context) -> str | None:
    book = context.book
    declared = book.rulesets.get(name)
    sets = [item for item in book.set_names if item == name or item.startswith(f"{name}.")]
    rules = [rule.name.name for item in sets for rule in book.rules_of(item)]
    rules += [rule.name.name for rule in book.rules_by_alias.get(name, ())]
    if declared is None and not rules:
        return None
    lines = [_code(f"ruleset {name}"), *([declared.doc] if declared is not None and declared.doc else [])]
    phases = _phases_of(name, context)
    if phases:
        lines.append(f"runs in {', '.join(phases)}")
    lines.append(f"{len(rules)} rules: {', '.join(f'`{rule}`' for rule in rules[:_MOST_LINES])}")
    return "\n\n".join(lines)


def _dtype(name: str) -> str | None:
    if name in DTYPES:
        bits = DTYPES[name].bits
        return f"**{name}**: an element type" + (f" of {bits} bits" if bits else "")
    if name in DTYPE_CLASSES:
        members = sorted(dtype.value for dtype in DTYPE_CLASSES[name])
        return f"**{name}**: one of {', '.join(members)}"
    return None


def _declaration(symbol: Symbol, context: Context) -> str | None:
    """The text of what declares a symbol, and the comment above it."""
    spans = list(_spans(symbol, context))
    if not spans:
        return None
    above = comment_above(spans[0].source.text, spans[0].start)
    lines = "\n".join(span.text.rstrip() for span in spans).split("\n")
    shown = lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "..."]
    return "\n".join([_code("\n".join(shown)), *([above] if above else [])])


def _spans(symbol: Symbol, context: Context) -> Iterator[Span]:
    for place in declarations(symbol, context):
        item = context.readings[place.key].item_at(place.start)
        if item is not None:
            yield item.span
        if not isinstance(item, PatternDef):
            return


def _code(text: str) -> str:
    return f"```ger\n{text}\n```"
