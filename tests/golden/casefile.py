"""Golden files: Markdown with fenced blocks, read into cases, and written back in place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

KINDS: Final = frozenset({"graph", "trace", "why", "plan", "error", "ger", "device", "options", "switch"})
GRAPHS: Final = ("before", "after")
SHARED: Final = frozenset({"ger", "device", "options"})
"""Blocks above the first section hold for all sections of the file, so only these may stand there."""

_FENCE: Final = re.compile(r"^```([^\s`]*)(?:[ ]+(\S.*?))?\s*$")
_SECTION: Final = re.compile(r"^(#{1,2})\s+(\S.*?)\s*$")
_FAILURE: Final = re.compile(r"^expect failure:\s*(.*?)\s*$")
_UNCHANGED: Final = "unchanged"


class CaseError(Exception):
    """A golden file is not written as golden files are."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: ` ```kind argument `, its text, and the lines of its fences, counted from 0."""

    kind: str
    argument: str
    text: str
    opened: int
    closed: int


@dataclass(slots=True)
class Case:
    """One section of a golden file.

    `fails` says why the case is known not to hold; it must then fail.
    """

    path: Path
    title: str
    line: int
    blocks: list[Block] = field(default_factory=list[Block])
    is_unchanged: bool = False
    unchanged_line: int = -1
    fails: str = ""
    prose: list[str] = field(default_factory=list[str])

    @property
    def name(self) -> str:
        """The name of the case among all: folder, file, section."""
        slug = re.sub(r"\W+", "-", self.title.lower()).strip("-")
        return f"{self.path.parent.name}/{self.path.stem}/{slug}"

    def all(self, kind: str) -> list[Block]:
        """Return the blocks of a kind, in order."""
        return [block for block in self.blocks if block.kind == kind]

    def one(self, kind: str, argument: str = "") -> Block | None:
        """Return the block of a kind (and, for graphs, a name), or None."""
        found = [b for b in self.all(kind) if not argument or b.argument == argument]
        return found[0] if found else None


def read_cases(path: Path, text: str | None = None) -> list[Case]:
    """Return the cases of a golden file.

    Raises:
        CaseError: for everything that is not written as it should be; nothing is ever ignored.
    """
    lines = (path.read_text(encoding="utf-8") if text is None else text).splitlines()
    shared = Case(path, "", 0)
    cases: list[Case] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        case = cases[-1] if cases else shared
        if line.startswith("```"):
            block = _read_block(path, lines, at)
            case.blocks.append(block)
            at = block.closed + 1
            continue
        heading = _SECTION.match(line)
        if heading is not None and len(heading[1]) == 1:
            if shared.title:
                raise CaseError(f"{path}:{at + 1}: a second title; sections begin with ##")
            shared.title = heading[2]
        elif heading is not None:
            cases.append(Case(path, heading[2], at))
        elif (failure := _FAILURE.match(line)) is not None:
            if not failure[1]:
                raise CaseError(f"{path}:{at + 1}: say why the failure is expected")
            case.fails = failure[1]
        elif line.strip() == _UNCHANGED:
            case.is_unchanged, case.unchanged_line = True, at
        elif line.strip():
            case.prose.append(line)
        at += 1
    if not shared.title:
        raise CaseError(f"{path}: there is no title")
    if not cases:
        cases, shared = [shared], Case(path, shared.title, 0)
    _check(path, shared, cases)
    for case in cases:
        case.blocks[:0] = shared.blocks
    return cases


def write_blocks(path: Path, changes: Mapping[int, Sequence[str]]) -> None:
    """Replace what stands in blocks, or whole lines: by the line where they begin.

    The lines given stand for the block with its fences, or for the one line that is not a fence.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    for opened in sorted(changes, reverse=True):
        end = _read_block(path, lines, opened).closed + 1 if lines[opened].startswith("```") else opened + 1
        lines[opened:end] = changes[opened]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_block(path: Path, lines: Sequence[str], opened: int) -> Block:
    fence = _FENCE.match(lines[opened])
    closed = next((at for at in range(opened + 1, len(lines)) if lines[at].rstrip() == "```"), None)
    if closed is None:
        raise CaseError(f"{path}:{opened + 1}: the block is not closed")
    if fence is None or fence[1] not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise CaseError(f"{path}:{opened + 1}: {lines[opened]} is no block; there are {known}")
    kind, argument = fence[1], fence[2] or ""
    if kind == "graph" and argument not in GRAPHS:
        raise CaseError(f"{path}:{opened + 1}: a graph is called before or after, not {argument!r}")
    if (kind == "why") != bool(argument) and kind != "graph":
        raise CaseError(f"{path}:{opened + 1}: why names a rule, and no other block has an argument")
    return Block(kind, argument, "\n".join(lines[opened + 1 : closed]), opened, closed)


def _check(path: Path, shared: Case, cases: Sequence[Case]) -> None:
    if shared.is_unchanged or shared.fails or any(b.kind not in SHARED for b in shared.blocks):
        raise CaseError(f"{path}: only {', '.join(sorted(SHARED))} may stand above the first section")
    titles: set[str] = set()
    for case in cases:
        where = f"{path}:{case.line + 1}"
        if case.name in titles:
            raise CaseError(f"{where}: two sections are called {case.title!r}")
        titles.add(case.name)
        if not case.prose:
            raise CaseError(f"{where}: a case says in words what it is about")
        seen: set[tuple[str, str]] = set()
        for block in case.blocks:
            if (block.kind, block.argument) in seen and block.kind not in ("ger", "options"):
                raise CaseError(f"{path}:{block.opened + 1}: a second {block.kind} {block.argument}".rstrip())
            seen.add((block.kind, block.argument))
        has_after, has_error = ("graph", "after") in seen, ("error", "") in seen
        if ("graph", "before") not in seen and not has_error:
            raise CaseError(f"{where}: there is no graph before")
        if has_after + case.is_unchanged + has_error > 1:
            raise CaseError(f"{where}: after, unchanged and error exclude each other")
        if not (has_after or case.is_unchanged or has_error or ("plan", "") in seen):
            raise CaseError(f"{where}: neither after, unchanged, plan nor error: nothing would be tested")
