"""Files written whole or not at all: whatever ends the writing early leaves everything as it was."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

Write = Callable[[BinaryIO], object]
"""Writes the content of one file."""


def write_files(files: Sequence[tuple[Path, Write]]) -> None:
    """Write files under temporary names beside their own, flush them, then rename all of them.

    The last file is the one that makes the others count, so it is renamed last. A full disk, an
    interrupt, or an exception of a writer leaves every old file in place and no new one behind.

    Raises:
        OSError: when the system refuses.
    """
    written: list[tuple[Path, Path]] = []
    backups: list[tuple[Path, Path]] = []
    fresh: list[Path] = []
    try:
        for path, write in files:
            _check_name(path)
            temporary = _temporary(path)
            written.append((temporary, path))
            with temporary.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # a file that is replaced keeps its rights
                temporary.chmod(path.stat().st_mode & 0o777)
        for temporary, path in written[:-1]:
            if path.exists():
                backup = _temporary(path)
                path.replace(backup)
                backups.append((backup, path))
            else:
                fresh.append(path)
            temporary.replace(path)
        for temporary, path in written[-1:]:
            temporary.replace(path)
    except BaseException:
        for temporary, _ in written:
            _remove(temporary)
        for path in fresh:
            _remove(path)
        for backup, path in backups:
            with contextlib.suppress(OSError):
                backup.replace(path)
        raise
    for backup, _ in backups:
        _remove(backup)
    for folder in dict.fromkeys(path.parent for path, _ in files):
        _sync_folder(folder)


def _check_name(path: Path) -> None:
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        os.fsencode(path)
        if "\0" in str(path):
            raise ValueError("the name holds a NUL character")
    except ValueError as fault:  # UnicodeEncodeError is one
        raise OSError(22, f"the name cannot be one of a file: {fault}") from None


def _temporary(path: Path) -> Path:
    return path.with_name(f".{secrets.token_hex(8)}.tmp")


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new names last; not every system can open a folder, and the files are safe by now."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
