"""`gerules fmt`: rule files in their canonical layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gerules.cli.errors import CliError
from gerules.cli.guard import DIFFERENT, guarded
from gerules.cli.options import DebugOption, JsonOption
from gerules.cli.output import show, show_json, show_text
from gerules.errors import Faults, GerulesError, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gerules.errors import Source
    from gerules.text.files import Write


@dataclass(frozen=True, slots=True)
class _Layout:
    """A file as it is and as it should be."""

    path: Path
    source: Source
    text: str

    @property
    def is_changed(self) -> bool:
        return self.source.text != self.text


@guarded
def fmt_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE.ger...", help="Rule files, or folders of them.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; only say what would change.")
    ] = False,
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Write the new texts to stdout, and leave the files.")
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Lay out rule files in the one canonical way.

    What a file says never changes, and comments and groups of lines stay.
    Nothing is written when one of the files is at fault. Ends with exit code
    3 when --check finds a file that would change.

    \b
    Examples:
      gerules fmt my_rules/
      gerules fmt --check my_rules/ extra.ger
    """
    layouts = _lay_out(_find(files))
    changed = [item for item in layouts if item.is_changed]
    if not check and not stdout:
        _write(changed)
    if json:
        told = [{"file": str(item.path), "is_changed": item.is_changed} for item in layouts]
        show_json({"files": told, "is_written": not check and not stdout})
    elif stdout and not check:
        for item in layouts:
            show_text(item.text)
    else:
        from gerules.errors.counts import count_text

        verb = "would change" if check else "laid out"
        for item in changed:
            show(f"{verb}: {item.path}")
        show(f"{count_text(len(layouts), 'file')}, {len(changed)} {verb}")
    if check and changed:
        raise typer.Exit(DIFFERENT)


def _find(paths: Sequence[Path]) -> list[Path]:
    """Return the files of the paths, each once, those of a folder sorted. Raises CliError E10001."""
    faults = Faults()
    found: dict[Path, Path] = {}
    for path in paths:
        try:
            inside = (
                sorted(item for item in path.rglob("*.ger") if item.is_file()) if path.is_dir() else [path]
            )
            found |= {item.resolve(): item for item in inside if item.resolve() not in found}
            reason = "" if inside else "no .ger file is inside"
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error)
        if reason:
            faults.add(table.FILE_NOT_FOUND, place=str(path), path=path, reason=reason)
    faults.raise_if_any(CliError)
    return list(found.values())


def _lay_out(paths: Sequence[Path]) -> list[_Layout]:
    """Return every file with its new text. Raises CliError with the faults of all files."""
    faults = Faults()
    layouts = list(_each(paths, faults))
    faults.raise_if_any(CliError)
    return layouts


def _each(paths: Sequence[Path], faults: Faults) -> Iterator[_Layout]:
    from gerules.dsl.formatting import format_rules
    from gerules.text import read_source

    for path in paths:
        try:
            source = read_source(path)
            yield _Layout(path, source, format_rules(source))
        except GerulesError as error:
            faults.extend(error.diagnostics)


def _write(layouts: Sequence[_Layout]) -> None:
    """Write all files or none. Raises CliError E10004."""
    from gerules.text.files import write_files

    if not layouts:
        return
    try:
        write_files([(item.path, _writer(item.text)) for item in layouts])
    except OSError as error:
        where = ", ".join(str(item.path) for item in layouts)
        reason = error.strerror or str(error)
        raise CliError(table.CANNOT_WRITE, path=where, reason=reason) from None


def _writer(text: str) -> Write:
    raw = text.encode("utf-8")
    return lambda file: file.write(raw)
