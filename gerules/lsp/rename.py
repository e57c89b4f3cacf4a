"""Rename: every mention of a name becomes another, or a reason says why it may not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gerules.errors import Source
from gerules.lsp.occurrences import Occurrence
from gerules.lsp.reading import read_tolerantly
from gerules.lsp.symbols import (
    NAMED_BY_USERS,
    Place,
    Symbol,
    declarations,
    locals_of,
    mentions,
    occurrence_at,
    symbol_of,
)
from gerules.lsp.workspace import Context, Workspace

_NAME: Final = re.compile(r"[^\W\d]\w*")
_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_QUALIFIED: Final = re.compile(r"([^\W\d][\w.]*::)?[^\W\d]\w*")


class CannotRename(Exception):  # noqa: N818 - an answer to the user, not a fault
    """Why a name cannot be changed, in words for the user."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """The places where a name stands, by file; all are to say `new_name`."""

    old_name: str
    new_name: str
    places: tuple[Place, ...]


def find_renamed(context: Context, workspace: Workspace, offset: int) -> tuple[Symbol, Occurrence]:
    """Return the name at an offset, if it can be renamed at all. Raises CannotRename."""
    found = occurrence_at(context.reading, offset)
    if found is None:
        raise CannotRename("there is no name here")
    symbol = symbol_of(found, context.key, context)
    if symbol.kind not in NAMED_BY_USERS:
        raise CannotRename(f"{found.name} is a name of the language, of ONNX, or of a device")
    if symbol.kind == "ruleset" and found.role == "switch" and symbol.name not in context.book.set_names:
        raise CannotRename(f"{found.name} stands for several rule sets")
    places = declarations(symbol, context)
    if not places:
        raise CannotRename(f"no rule file declares {found.name}")
    for place in places:
        if not workspace.is_ours(place.key):
            name = Path(place.key).name
            raise CannotRename(f"{found.name} is declared in {name}, which is not of this workspace")
    return symbol, found


def rename(context: Context, workspace: Workspace, offset: int, new_name: str) -> Renaming:
    """Return all places that change when the name at an offset is to be `new_name`.

    The new texts are read, and must say the same as the old ones but for this name.

    Raises:
        CannotRename: a name that is not declared here, a new name that is none or is taken, a file that
            is at fault or not of the workspace.
    """
    symbol, found = find_renamed(context, workspace, offset)
    form = _DOTTED if symbol.kind == "ruleset" else _QUALIFIED if symbol.kind == "operator" else _NAME
    if form.fullmatch(new_name) is None or new_name == "_":
        raise CannotRename(f"{new_name!r} is no name")
    if new_name == found.name:
        return Renaming(found.name, new_name, ())
    _check_free(symbol, new_name, context)
    places = tuple(place for place, _ in mentions(symbol, context))
    for key in dict.fromkeys(place.key for place in places):
        if not workspace.is_ours(key):
            raise CannotRename(f"{Path(key).name} mentions it, and lies outside of the workspace")
        if context.readings[key].faults:
            raise CannotRename(f"{Path(key).name} is at fault; correct that first")
    _check_same(symbol, new_name, places, context)
    return Renaming(found.name, new_name, places)


def _check_free(symbol: Symbol, new_name: str, context: Context) -> None:
    book = context.book
    taken: Mapping[str, object]
    match symbol.kind:
        case "local":
            taken = dict.fromkeys(locals_of(context.readings[symbol.key], symbol.item))
        case "operator" | "pattern":
            is_operator = context.schemas.get(new_name) is not None
            taken = {**book.defines, **book.patterns, **({new_name: None} if is_operator else {})}
        case "ops":
            taken = book.ops
        case "function":
            taken = {**book.functions, **book.externs}
        case "param":
            taken = {**book.consts, **book.params}
        case "rule":
            taken = book.rule_by_name
        case "ruleset":
            taken = dict.fromkeys(book.set_names)
        case "phase":
            taken = book.phases
        case "pipeline":
            taken = book.pipelines
        case "profile":
            taken = book.profiles
        case "device":
            taken = book.devices
        case _:
            taken = book.formats
    if new_name in taken:
        what = "name" if symbol.kind == "local" else symbol.kind
        raise CannotRename(f"there is a {what} {new_name} already")


def _check_same(symbol: Symbol, new_name: str, places: tuple[Place, ...], context: Context) -> None:
    """Read the new texts: a word of the language or an element type would be read as something else."""
    for key in dict.fromkeys(place.key for place in places):
        reading = context.readings[key]
        spots = [(place.start, place.end) for place in places if place.key == key]
        after = read_tolerantly(Source(key, replaced(reading.source.text, spots, new_name)))
        if after.faults:
            raise CannotRename(f"{new_name} cannot stand there: {after.faults[0].message}")
        changed = {start for start, _ in spots}
        want = [
            (item.role, new_name if item.start in changed else item.name, item.is_declaration)
            for item in reading.occurrences
        ]
        if want != [(item.role, item.name, item.is_declaration) for item in after.occurrences]:
            raise CannotRename(f"{new_name} would be read as something else")
        if symbol.kind != "local":
            _check_not_hidden(new_name, changed, key, context)


def _check_not_hidden(new_name: str, changed: set[int], key: str, context: Context) -> None:
    """A name of the workspace must not be taken for a local one of the same spelling."""
    reading = context.readings[key]
    for item in reading.occurrences:
        if item.start in changed and item.role == "ref" and new_name in locals_of(reading, item.item):
            raise CannotRename(f"a rule that mentions it has a name {new_name} of its own")


def replaced(text: str, spots: list[tuple[int, int]], new: str) -> str:
    """Return a text with some pieces of it replaced."""
    pieces: list[str] = []
    at = 0
    for start, end in sorted(spots):
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])
