"""The workspace: rule files as they are on disk or being typed, and the book that each of them is read in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from gerules.dsl import RuleBook, check_rules, rules_folder
from gerules.dsl.book import merge_files
from gerules.dsl.declarations import Include, Item
from gerules.dsl.load import SUFFIX, resolve_include
from gerules.engine.define_schema import register_defines
from gerules.errors import Diagnostic, Faults, GerulesError, Source, Span, table
from gerules.lsp.reading import MAX_BYTES, Reading, read_tolerantly
from gerules.ops import Schemas
from gerules.text import read_source

MAX_FILES: Final = 2000
"""Rule files of a workspace that are read."""

_MAX_VISITED: Final = 200_000
"""Entries of folders that are looked at to find them."""

_PASSED_OVER: Final = frozenset(["node_modules", "__pycache__", "build", "dist", "venv", "site-packages"])

_MOST_BOOKS: Final = 8
"""Books that are kept: one for each file that is looked at in turn."""


@dataclass(frozen=True, eq=False)
class Context:
    """One file in the book that it is read in.

    Shipped rules come first in the book, then what the file includes, itself, and the other files. `readings`
    has every file of the book by its key; `faults` are those of the whole book.
    """

    key: str
    book: RuleBook
    readings: Mapping[str, Reading]
    faults: tuple[Diagnostic, ...]

    @property
    def reading(self) -> Reading:
        """The file itself."""
        return self.readings[self.key]

    @cached_property
    def schemas(self) -> Schemas:
        """The operators of ONNX and those that the book defines, as far as they can be."""
        schemas = Schemas()
        try:
            register_defines(self.book.defines.values(), schemas)
        except GerulesError:
            for define in self.book.defines.values():
                try:
                    register_defines([define], schemas)
                except GerulesError:
                    continue
        return schemas


class Workspace:
    """Rule files by key: the resolved path, or the address of a text that is no file.

    Not safe to be used from two threads at once; what it hands out never changes.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders: list[Path] = list(folders)
        self._typed: dict[str, str] = {}
        self._readings: dict[str, Reading] = {}
        self._listed: tuple[str, ...] | None = None
        self._contexts: dict[str, tuple[tuple[int, ...], Context]] = {}
        self._schemas = Schemas()

    # ------------------------------------------------------------ what changes
    def put(self, key: str, text: str) -> None:
        """Say what a file says while it is open in the editor."""
        self._typed[key] = text

    def drop(self, key: str) -> None:
        """Say that a file is closed: what is on disk counts again."""
        self._typed.pop(key, None)

    def forget(self, keys: Iterable[str]) -> None:
        """Say that files may have changed on disk, came or went."""
        for key in keys:
            if key not in self._typed:
                self._readings.pop(key, None)
        self._listed = None

    def set_folders(self, folders: Sequence[Path]) -> None:
        """Say which folders are open in the editor."""
        self._folders = list(folders)
        self._listed = None

    # ------------------------------------------------------------ what is asked
    @property
    def open_keys(self) -> tuple[str, ...]:
        """The files that are open in the editor."""
        return tuple(self._typed)

    @cached_property
    def shipped_keys(self) -> frozenset[str]:
        """The files that come with gerules."""
        return frozenset(_files_in([rules_folder()]))

    def is_ours(self, key: str) -> bool:
        """Whether a file may be changed: it is open, or lies in a folder of the workspace."""
        return key in self._typed or any(Path(key).is_relative_to(folder) for folder in self._folders)

    def reading(self, key: str) -> Reading | None:
        """Return a file as read now; None when it cannot be opened."""
        typed, known = self._typed.get(key), self._readings.get(key)
        if typed is None:
            if known is None:
                known = self._read_file(key)
            return known
        if known is None or known.source.text != typed:
            known = self._readings[key] = read_tolerantly(Source(key, typed), known)
        return known

    def context(self, key: str) -> Context | None:
        """Return a file in its book, checked as a whole; None when there is no such file."""
        if self.reading(key) is None:
            return None
        readings = {name: reading for name in self._order(key) if (reading := self.reading(name)) is not None}
        state = tuple(id(reading) for reading in readings.values())
        known = self._contexts.pop(key, None)
        if known is None or known[0] != state:
            known = state, self._check(key, readings)
        self._contexts[key] = known
        while len(self._contexts) > _MOST_BOOKS:
            del self._contexts[next(iter(self._contexts))]
        return known[1]

    def text(self, key: str) -> str | None:
        """Return what a file says, without reading what that means; None when it cannot be opened."""
        typed = self._typed.get(key)
        if typed is None and (reading := self.reading(key)) is not None:
            return reading.source.text
        return typed

    def latest(self, key: str) -> Context | None:
        """Return a file in its book as it was when last looked at: quick, and perhaps a word behind."""
        known = self._contexts.get(key)
        return known[1] if known is not None else self.context(key)

    def includes(self, key: str) -> Iterator[tuple[Include, str | None, Diagnostic | None]]:
        """Yield the `include` lines of a file: the line, the file it means, what is wrong with it."""
        reading = self.reading(key)
        for include in reading.file.includes if reading is not None else ():
            faults, folder = Faults(), _folder_of(key)
            path = resolve_include(include, folder, faults)
            wrong = next(iter(faults.diagnostics), None)
            if folder is not None and wrong is not None and wrong.code is table.INCLUDE_NOT_FOUND:
                # A new file that was never saved is not on disk.
                beside = (folder / include.path).resolve()
                path, wrong = (beside, None) if str(beside) in self._typed else (None, wrong)
            yield include, None if path is None else str(path.resolve()), wrong

    # ------------------------------------------------------------ inside
    def _read_file(self, key: str) -> Reading | None:
        path = Path(key)
        try:
            source = read_source(path, name=key, limit_bytes=MAX_BYTES)
        except GerulesError as error:
            if not path.is_file():
                return None
            # What is no text says nothing; why, is a fault of the file.
            reading = read_tolerantly(Source(key, ""))
            reading = replace(reading, faults=error.diagnostics)
        else:
            reading = read_tolerantly(source)
        self._readings[key] = reading
        return reading

    def _listing(self) -> tuple[str, ...]:
        if self._listed is None:
            self._listed = tuple(_files_in(self._folders))
        return self._listed

    def _order(self, key: str) -> list[str]:
        """The files of a book: what is included stands before what includes it."""
        done: dict[str, None] = {}
        for root in (*sorted(self.shipped_keys), key, *sorted(self._typed), *self._listing()):
            stack: list[tuple[str, bool]] = [(root, False)]
            seen: set[str] = set()
            while stack:
                name, is_left = stack.pop()
                if is_left:
                    done[name] = None
                elif name not in done and name not in seen:
                    seen.add(name)
                    stack.append((name, True))
                    inner = [found for _, found, _ in self.includes(name) if found is not None]
                    stack += [(found, False) for found in reversed(inner)]
        return list(done)

    def _check(self, key: str, readings: Mapping[str, Reading]) -> Context:
        faults = Faults()
        book = merge_files([reading.with_kept for reading in readings.values()], faults)
        faults.extend(check_rules(book, self._schemas).diagnostics)
        return Context(key, book, readings, faults.diagnostics)

    def faults_of(self, key: str) -> tuple[Diagnostic, ...]:
        """Return all that is wrong with one file, warnings included, in the order of its text.

        What includes nothing of this file and declares a name of it too is a warning: the two are at fault
        only when they are compiled together.
        """
        context = self.context(key)
        if context is None:
            return ()
        reading = context.reading
        found = [*reading.faults, *self._faults_of_includes(key)]
        own: list[Diagnostic] = []
        inside = reading.file.source
        for item in context.faults:
            if item.span is not None and item.span.source is inside:
                own.append(replace(item, span=Span(reading.source, item.span.start, item.span.end)))
            elif item.code is table.DECLARED_TWICE and item.notes:
                own += self._declared_elsewhere(item, reading)
        # Where an included file cannot be read, what it declares would only be missed.
        is_missing = any(item.code in _OF_INCLUDES for item in found)
        found += [item for item in own if not (is_missing and item.code in _OF_NAMES)]
        return tuple(sorted(found, key=lambda item: item.span.start if item.span is not None else 0))

    def _faults_of_includes(self, key: str) -> Iterator[Diagnostic]:
        for include, found, wrong in self.includes(key):
            if wrong is not None:
                yield wrong
            elif found == key:
                path = f"{Path(key).name} -> {Path(key).name}"
                yield Diagnostic(table.CIRCLE, {"what": "files", "path": path}, include.span)
            elif found is not None and (circle := self._circle(key, found)):
                names = " -> ".join(Path(name).name for name in circle)
                yield Diagnostic(table.CIRCLE, {"what": "files", "path": names}, include.span)

    def _circle(self, key: str, first: str) -> list[str]:
        """The files through which an include leads back to its own file."""
        paths, seen = [[key, first]], {first}
        while paths:
            path = paths.pop()
            for _, found, _ in self.includes(path[-1]):
                if found == key:
                    return [*path, key]
                if found is not None and found not in seen:
                    seen.add(found)
                    paths.append([*path, found])
        return []

    def _declared_elsewhere(self, item: Diagnostic, reading: Reading) -> Iterator[Diagnostic]:
        """Turn "declared twice", found in a file that comes later, round: the warning stands in this file."""
        name = item.facts.get("name")
        own = f"the first is at {reading.source.name}:"
        if not any(note.startswith(own) for note in item.notes) or item.span is None:
            return
        for declared in reading.file.items:
            span = _name_span(declared)
            if span is not None and span.text == name:
                notes = (f"the other is at {item.span}",)
                place = Span(reading.source, span.start, span.end)
                yield replace(item, span=place, notes=notes, severity="warning")
                return


_OF_INCLUDES: Final = frozenset([table.INCLUDE_NOT_FOUND, table.BAD_INCLUDE])
_OF_NAMES: Final = frozenset(
    [table.UNDEFINED_NAME, table.UNKNOWN_OPERATOR, table.UNKNOWN_OPSET, table.UNKNOWN_FUNCTION]
)


def _name_span(item: Item) -> Span | None:
    name = getattr(item, "name", None)
    span = getattr(name, "span", None)
    return span if isinstance(span, Span) else None


def _folder_of(key: str) -> Path | None:
    path = Path(key)
    return path.parent if path.is_absolute() else None


def _files_in(folders: Iterable[Path]) -> Iterator[str]:
    """Yield the rule files below folders, in order; hidden folders and those of tools are passed over."""
    n_found = n_visited = 0
    for folder in folders:
        pending = [folder]
        while pending:
            try:
                inside = sorted(pending.pop().iterdir())
            except OSError:
                continue
            n_visited += len(inside)
            if n_visited > _MAX_VISITED:
                return
            for path in inside:
                if path.name.startswith(".") or path.name in _PASSED_OVER:
                    continue
                if path.suffix == SUFFIX and path.is_file():
                    n_found += 1
                    if n_found > MAX_FILES:
                        return
                    yield str(path.resolve())
                elif path.is_dir() and not path.is_symlink():
                    pending.append(path)
