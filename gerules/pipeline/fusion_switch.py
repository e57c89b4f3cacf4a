"""Fusion switch files of the Graph Engine, read as they are: which passes are on, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from gerules.errors import Faults, Source, Span, table
from gerules.pipeline.errors import PipelineError
from gerules.text import TextError, read_source
from gerules.text.json_text import JsonList, JsonObject, JsonText, JsonValue, read_json

Section = Literal["GraphFusion", "UBFusion"]
Level = Literal["Top", "Main", "Down"]

ALL: Final = "ALL"
"""The name that switches everything in its section."""

SECTIONS: Final = ("GraphFusion", "UBFusion")

_RANGES: Final[dict[str, tuple[range, range]]] = {
    "Top": (range(1000), range(3000, 4000)),
    "Main": (range(1000, 2000), range(4000, 5000)),
    "Down": (range(2000, 3000), range(5000, 6000)),
}
"""Priorities by level: those of custom passes, and those of built-in ones.

Source: the checks that the Graph Engine's priority manager makes of its configuration.
"""

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_FORM: Final = "on or off"
_SHOWN: Final = 60
"""Characters shown of a wrong value."""


@dataclass(frozen=True, slots=True)
class PassSwitch:
    """One pass, or `ALL`, that is on or off; `section` is None in the form of lines, which has none."""

    name: str
    section: Section | None
    is_on: bool
    span: Span


@dataclass(frozen=True, slots=True)
class PassPriority:
    """Where a pass stands among the others: lower numbers go first, those of Down after all the rest."""

    name: str
    section: Section
    level: Level
    number: int
    span: Span


@dataclass(frozen=True, slots=True)
class FusionSwitch:
    """What a fusion switch file says.

    `kept_at_o1` are the passes that the Graph Engine keeps on at its optimization level O1; gerules has
    no such level, so nothing follows from them.
    """

    source: Source
    switches: tuple[PassSwitch, ...] = ()
    priorities: tuple[PassPriority, ...] = ()
    kept_at_o1: tuple[str, ...] = ()


def read_fusion_switch(path: str | Path) -> FusionSwitch:
    """Read a fusion switch file, in its JSON form or as lines `Pass:on`.

    Raises:
        PipelineError: E21001 when the file is missing or empty, otherwise as `parse_fusion_switch`.
        TextError: E10005 when it is too large, E40005 when it is no UTF-8, E21002 when it is no JSON.
    """
    try:
        source = read_source(Path(path))
    except TextError as error:
        first = error.diagnostics[0]
        if first.code is not table.FILE_NOT_FOUND:
            raise
        raise PipelineError(
            table.SWITCH_FILE_EMPTY, place=str(path), path=str(path), reason=first.facts["reason"]
        ) from None
    return parse_fusion_switch(source)


def parse_fusion_switch(source: Source) -> FusionSwitch:
    """Read the text of a fusion switch file; one that begins with a brace is JSON.

    Raises:
        PipelineError: with every fault of the file: E21001 when it says nothing, E21003 for keys that are
            none or values of another kind, E21004 for switches that are neither on nor off, E21005 for names
            that come twice, E21006 for priorities outside the ranges of their level.
        TextError: E21002 when it is no JSON.
    """
    faults = Faults()
    begin = source.text.lstrip("\ufeff \t\r\n")[:1]
    found = _read_tree(source, faults) if begin in ("{", "[") else _read_lines(source, faults)
    faults.raise_if_any(PipelineError)
    if begin not in ("{", "[") and not found.switches:
        raise PipelineError(
            table.SWITCH_FILE_EMPTY, place=source.name, path=source.name, reason="it is empty"
        )
    return found


# ---------------------------------------------------------------- the form of lines
def _read_lines(source: Source, faults: Faults) -> FusionSwitch:
    switches: list[PassSwitch] = []
    seen: dict[str, Span] = {}
    start = 0
    for raw in source.text.split("\n"):
        line = raw.strip("\ufeff \t\r")
        at, start = start + raw.find(line), start + len(raw) + 1
        if not line or line.startswith("#"):
            continue
        name, _, value = (part.strip() for part in line.rpartition(":"))
        span = Span(source, at, at + len(line))
        if not name:
            # Without a colon the whole line is the name of a pass that is switched to nothing.
            name, mark, value = (part.strip() for part in line.strip(":").partition("="))
            form = f"{_cut(name)}:{_cut(value)}, with a colon" if mark else _FORM
            shown = f"={_cut(value)}" if mark else "nothing"
            faults.add(table.SWITCH_VALUE, span=span, name=_cut(name), value=shown, form=form)
        elif value not in ("on", "off"):
            shown = _cut(value) or "nothing"
            faults.add(table.SWITCH_VALUE, span=span, name=_cut(name), value=shown, form=_FORM)
        elif name in seen:
            _add_twice(faults, span, name, source.name, seen[name])
        else:
            seen[name] = span
            switches.append(PassSwitch(name, None, value == "on", span))
    return FusionSwitch(source, tuple(switches))


# ---------------------------------------------------------------- the form of JSON
def _read_tree(source: Source, faults: Faults) -> FusionSwitch:
    switches: list[PassSwitch] = []
    priorities: list[PassPriority] = []
    kept: list[str] = []
    top = read_json(source)
    for key, value in _members(top, "the file", ("Switch", "Priority", "ExceptionalPassOfO1Level"), faults):
        if key.value == "ExceptionalPassOfO1Level":
            kept += _names(value, faults)
            continue
        for section, inner in _members(value, key.value, SECTIONS, faults):
            where = f"{key.value}.{section.value}"
            if key.value == "Switch":
                switches += _switches(inner, where, cast("Section", section.value), faults)
                continue
            # A pass has one place, whatever the level it is named under.
            placed: dict[str, Span] = {}
            for level, names in _members(inner, where, tuple(_RANGES), faults):
                for item in _priorities(
                    names, where, cast("Section", section.value), cast("Level", level.value), faults
                ):
                    first = placed.setdefault(item.name, item.span)
                    if first is item.span:
                        priorities.append(item)
                    else:
                        _add_twice(faults, item.span, item.name, where, first)
    return FusionSwitch(source, tuple(switches), tuple(priorities), tuple(kept))


def _switches(value: JsonValue, where: str, section: Section, faults: Faults) -> Iterator[PassSwitch]:
    for name, state in _members(value, where, None, faults):
        shown = state.value if isinstance(state, JsonText) else _kind(state)
        if isinstance(state, JsonText) and shown in ("on", "off"):
            yield PassSwitch(name.value, section, shown == "on", name.span)
        else:
            told = _cut(shown) or '""'
            faults.add(
                table.SWITCH_VALUE, span=state.span, name=_cut(name.value), value=told, form=_FORM
            )  # fmt: skip


def _priorities(
    value: JsonValue, where: str, section: Section, level: Level, faults: Faults
) -> Iterator[PassPriority]:
    for name, state in _members(value, f"{where}.{level}", None, faults):
        text = state.value if isinstance(state, JsonText) else ""
        if not _NUMBER.fullmatch(text):
            reason = "it is no whole number in quotes"
        elif any(int(text) in allowed for allowed in _RANGES[level]):
            yield PassPriority(name.value, section, level, int(text), name.span)
            continue
        else:
            own, built_in = _RANGES[level]
            reason = (
                f"{level} has {own.start} to {own.stop - 1} for custom passes "
                f"and {built_in.start} to {built_in.stop - 1} for built-in ones"
            )
        shown = text or (state.value if not isinstance(state, JsonObject | JsonList) else _kind(state))
        faults.add(
            table.SWITCH_PRIORITY,
            span=state.span, name=_cut(name.value), value=_cut(shown) or '""', reason=reason, level=level,
        )  # fmt: skip


def _names(value: JsonValue, faults: Faults) -> Iterator[str]:
    items = value.items if isinstance(value, JsonList) else (value,)
    for item in items:
        if isinstance(value, JsonList) and isinstance(item, JsonText):
            yield item.value
        else:
            _add_kind(faults, item, "ExceptionalPassOfO1Level", "a list of names in quotes")


def _members(
    value: JsonValue, where: str, known: tuple[str, ...] | None, faults: Faults
) -> Iterator[tuple[JsonText, JsonValue]]:
    """Yield the members of an object, each key once; other keys, and what is no object, are faults."""
    if not isinstance(value, JsonObject):
        _add_kind(faults, value, where, "an object in braces")
        return
    seen: dict[str, Span] = {}
    for key, inner in value.members:
        if known is not None and key.value not in known:
            faults.add(
                table.SWITCH_FILE_KEY,
                span=key.span, what=f"the key {_cut(key.value)}", where=where, reason="it is not known",
                remedy=f"use one of {', '.join(known)}",
            )  # fmt: skip
        elif key.value in seen:
            _add_twice(faults, key.span, key.value, where, seen[key.value])
        else:
            seen[key.value] = key.span
            yield key, inner


def _add_kind(faults: Faults, value: JsonValue, where: str, wanted: str) -> None:
    faults.add(
        table.SWITCH_FILE_KEY,
        span=value.span, what=_kind(value), where=where, reason=f"{wanted} is wanted",
        remedy=f"write {wanted}",
    )  # fmt: skip


def _add_twice(faults: Faults, span: Span, name: str, where: str, first: Span) -> None:
    notes: tuple[str, ...] = (f"the first is at {first}",)
    faults.add(table.SWITCHED_TWICE, span=span, name=_cut(name), where=where, notes=notes)


def _kind(value: JsonValue) -> str:
    match value:
        case JsonObject():
            return "an object"
        case JsonList():
            return "a list"
        case JsonText():
            return f'the text "{_cut(value.value)}"'
        case _:
            return _cut(value.value)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


__all__ = [
    "ALL",
    "FusionSwitch",
    "Level",
    "PassPriority",
    "PassSwitch",
    "Section",
    "parse_fusion_switch",
    "read_fusion_switch",
]
