"""Loading: files, folders and texts become a checked rule book, with all faults of all files at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gerules.dsl.book import RuleBook, SchemaSource, merge_files
from gerules.dsl.check import check_rules
from gerules.dsl.declarations import Include, RuleFile
from gerules.dsl.external import check_externs
from gerules.dsl.registry import BUILTINS, Function
from gerules.dsl.shipped import rules_folder
from gerules.dsl.sound_items import read_sound_rules
from gerules.dsl.syntax import Rule
from gerules.dsl.transform import read_file
from gerules.dsl.tree import RuleError
from gerules.errors import Diagnostic, Faults, GerulesError, Source, table
from gerules.ir.collector import paused_collector
from gerules.text import TextError, read_source

SUFFIX: Final = ".ger"
MAX_FILES: Final = 10_000
"""Files of one book; an include that leads on for ever ends here."""
MAX_INCLUDE_DEPTH: Final = 50
"""Longest chain of files that include each other."""


def load_rules(
    paths: Sequence[Path | str | Source],
    *,
    schemas: SchemaSource | None,
    base: RuleBook | None = None,
    functions: Mapping[str, Function] | None = None,
    later_tests: bool = False,
    faults: Faults | None = None,
) -> RuleBook:
    """Read rule files and everything they include, once each, and check them.

    Args:
        paths: Files, folders (all `.ger` files inside, sorted by path), or texts.
        schemas: Where operators are looked up; None skips all checks beyond syntax and double names.
        base: A book to extend; its files come first and are not read again.
        functions: What Python gives to `extern` lines; without it, those of the base, or all that are
            registered in this process.
        later_tests: Read the tests of rules when somebody looks at them, and do not check them.
        faults: Gets the faults of rules, which are then left out of the book; nothing is raised for them.
            Where more than rules is at fault, the book has none of the rules that were read.

    Returns:
        The book; `warnings` holds what the checks found that is no fault.

    Raises:
        TextError: when faults are only of reading and syntax.
        RuleError: otherwise; carries every fault of every file. E40104 include outside, E40105 include not
            found, E40106 circle, E40103 and E40108 names declared twice, E40124 and E40125 `extern` lines
            without a function that fits, and what `check_rules` finds.
    """
    with paused_collector():
        if faults is None:
            return _load(paths, schemas, base, functions, later_tests)
        return _load_sound(paths, schemas, base, functions, faults)


def _load(
    paths: Sequence[Path | str | Source],
    schemas: SchemaSource | None,
    base: RuleBook | None,
    functions: Mapping[str, Function] | None,
    later_tests: bool,
) -> RuleBook:
    faults = Faults()
    loader = _Loader(faults, base, later_tests)
    for path in paths:
        loader.add(path)
    _raise_unread(faults)
    book = _merged(loader.files, schemas, base, functions, faults)
    faults.raise_if_any(RuleError)
    return replace(book, warnings=faults.warnings)


def _load_sound(
    paths: Sequence[Path | str | Source],
    schemas: SchemaSource | None,
    base: RuleBook | None,
    functions: Mapping[str, Function] | None,
    faults: Faults,
) -> RuleBook:
    """Load what is right of rule files; see `load_rules`."""
    unread, unfit = Faults(), Faults()
    loader = _Loader(unread, base, later_tests=False, of_rules=faults)
    for path in paths:
        loader.add(path)
    _raise_unread(unread)
    book = _merged(loader.files, schemas, base, functions, unfit)
    own = book.rules[len(base.rules) if base is not None else 0 :]
    inside = {id(item): rule for item in unfit.diagnostics if (rule := _rule_at(item, own)) is not None}
    found = list(unfit.diagnostics)
    if loader.left_out:
        # A name may be missing only because the rule that has it could not be read.
        found = [
            item
            for item in found
            if id(item) in inside
            and not (item.code is table.UNKNOWN_OVERRIDDEN and item.facts["name"] in loader.left_out)
        ]
    errors = [item for item in found if item.severity == "error"]
    bad = {inside[id(item)].name.name if id(item) in inside else "" for item in errors}
    faults.extend(errors)
    warnings = tuple(
        item
        for item in found
        if item.severity == "warning" and not (id(item) in inside and inside[id(item)].name.name in bad)
    )
    # What is no rule may be what any rule needs.
    sound = () if "" in bad else tuple(rule for rule in own if rule.name.name not in bad)
    return replace(book, rules=(*book.rules[: len(book.rules) - len(own)], *sound), warnings=warnings)


def _rule_at(item: Diagnostic, rules: Sequence[Rule]) -> Rule | None:
    """Return the rule that a fault points into."""
    span = item.span
    if span is None:
        return None
    return next(
        (
            rule
            for rule in rules
            if rule.span.source is span.source and rule.span.start <= span.start < rule.span.end
        ),
        None,
    )


def _raise_unread(faults: Faults) -> None:
    """Raise what could not be read: what it declares would only be missed everywhere else."""
    only_text = all(item.code.code < "E40100" for item in faults.diagnostics)
    faults.raise_if_any(TextError if only_text else RuleError)


def _merged(
    files: Sequence[RuleFile],
    schemas: SchemaSource | None,
    base: RuleBook | None,
    functions: Mapping[str, Function] | None,
    faults: Faults,
) -> RuleBook:
    """Return the book that files make, checked."""
    book = merge_files(files, faults)
    if functions is not None:
        book = replace(book, functions={**BUILTINS, **functions})
    elif base is not None:
        book = replace(book, functions=base.functions)
    if schemas is not None:
        check_externs(book.externs.values(), book.functions, faults)
        faults.extend(check_rules(book, schemas, book.functions).diagnostics)
    return book


_Read = Callable[[], None]


class _Loader:
    """Reads each file once, what it includes before it.

    With `of_rules` rules that cannot be read are left out; it gets their faults.
    """

    def __init__(
        self, faults: Faults, base: RuleBook | None, later_tests: bool, of_rules: Faults | None = None
    ) -> None:
        self.faults = faults
        self.of_rules = of_rules
        self.left_out: set[str] = set()
        self.later_tests = later_tests
        self.files: list[RuleFile] = list(base.files) if base else []
        self._done: set[str] = {_key_of_text(file.source) for file in self.files}
        self._open: list[str] = []
        self._texts: dict[str, Source] = {}

    def add(self, path: Path | str | Source) -> None:
        if isinstance(path, Source):
            self._texts[path.name] = path
            self._read_text(path)
            return
        place = Path(path)
        try:
            is_folder = place.is_dir()
            found = (
                sorted(item for item in place.rglob(f"*{SUFFIX}") if item.is_file()) if is_folder else [place]
            )
        except (OSError, ValueError) as error:
            self.faults.add(table.FILE_NOT_FOUND, place=str(path), path=str(path), reason=str(error))
            return
        if is_folder and not found:
            self.faults.add(
                table.FILE_NOT_FOUND, place=str(path), path=str(path), reason=f"no {SUFFIX} file is inside"
            )
        for item in found:
            self._read_path(item)

    def _read_path(self, path: Path) -> None:
        try:
            key = _key(path)
        except (OSError, ValueError, RuntimeError) as error:
            self.faults.add(table.FILE_NOT_FOUND, place=str(path), path=str(path), reason=str(error))
            return
        if key in self._done:
            return
        self._done.add(key)
        try:
            source = read_source(path, name=shown_path(path))
        except GerulesError as error:
            self.faults.extend(error.diagnostics)
            return
        self._read(source, key, path.parent)

    def _read_text(self, source: Source) -> None:
        key = _key_of_text(source)
        if key not in self._done:
            self._done.add(key)
            self._read(source, key, None)

    def _read(self, source: Source, key: str, folder: Path | None) -> None:
        if len(self.files) >= MAX_FILES:
            self.faults.add(table.TOO_MANY_FILES, place=source.name, limit=MAX_FILES)
            return
        try:
            if self.of_rules is None:
                file = read_file(source, later=self.later_tests)
            else:
                file, left_out = read_sound_rules(source, self.of_rules, later=self.later_tests)
                self.left_out |= left_out
        except GerulesError as error:
            self.faults.extend(error.diagnostics)
            return
        self._open.append(key)
        for include in file.includes:
            self._include(include, folder)
        self._open.pop()
        self.files.append(file)

    def _include(self, include: Include, folder: Path | None) -> None:
        path = include.path
        if folder is None and path in self._texts:
            self._follow(include, _key_of_name(path), lambda: self._read_text(self._texts[path]))
            return
        target = resolve_include(include, folder, self.faults)
        if target is not None:
            self._follow(include, _key(target), lambda: self._read_path(target))

    def _follow(self, include: Include, key: str, read: _Read) -> None:
        if key in self._open:
            names = [Path(name).name for name in [*self._open[self._open.index(key) :], key]]
            self.faults.add(table.CIRCLE, span=include.span, what="files", path=" -> ".join(names))
        elif len(self._open) >= MAX_INCLUDE_DEPTH:
            self.faults.add(
                table.BAD_INCLUDE,
                span=include.span,
                path=include.path,
                reason=f"more than {MAX_INCLUDE_DEPTH} files include each other",
            )
        else:
            read()


def resolve_include(include: Include, folder: Path | None, faults: Faults) -> Path | None:
    """Return the file that an include means: beside the file it stands in, or among the shipped rules.

    Args:
        include: The line.
        folder: Where the file lies; None for a text that is no file.
        faults: Gets E40104 for a path that may not be included, E40105 when there is no such file.
    """
    path = include.path
    if (reason := _why_not(path)) is not None:
        faults.add(table.BAD_INCLUDE, span=include.span, path=path, reason=reason)
        return None
    for root in (folder, rules_folder()):
        if root is not None and _is_file(root / path):
            return root / path
    faults.add(table.INCLUDE_NOT_FOUND, span=include.span, path=path)
    return None


def _why_not(path: str) -> str | None:
    """Say why a text may not be included, or return None: an include never leaves the folders of rules."""
    if not path or "\0" in path or "\n" in path:
        return "this is no path"
    if path.startswith(("/", "\\", "~")) or (len(path) > 1 and path[1] == ":"):
        return "it is an absolute path"
    if not path.endswith(SUFFIX):
        return f"its name does not end in {SUFFIX}"
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # a name too long for the file system, for one


def _key(path: Path) -> str:
    return str(path.resolve())


def _key_of_text(source: Source) -> str:
    """What identifies a text; one that a Python file makes is not that file, and a line may make several."""
    return f"text:{source.name}:{source.text}" if source.lines else _key_of_name(source.name)


def _key_of_name(name: str) -> str:
    """What identifies a text: the file it names, if there is one, so that a base's files are known again."""
    path = Path(name)
    try:
        return _key(path) if path.is_file() else f"text:{name}"
    except (OSError, ValueError):
        return f"text:{name}"


def shown_path(path: Path) -> str:
    """The path as users know it: below the working folder without it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
