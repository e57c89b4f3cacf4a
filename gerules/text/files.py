"""Regular files: opened to be read, and written whole or not at all.

Whatever ends the writing early leaves everything as it was. Pipes and devices are refused on both sides:
one that is read may never end, and one that is written would be replaced by a file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

Write = Callable[[BinaryIO], object]
"""Writes the content of one file."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read its bytes.

    Raises:
        OSError: when the system refuses, or it is a pipe or a device.
    """
    mode = path.stat().st_mode
    # A folder is refused by `open` itself, in the words of the system.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError("it is not a regular file")
    return path.open("rb")


def write_files(files: Sequence[tuple[Path, Write]]) -> None:
    """Write files under temporary names beside their own, flush them, then rename all of them.

    The last file is the one that makes the others count, so it is renamed last. A full disk, an
    interrupt, or an exception of a writer leaves every old file in place and no new one behind. A link
    stays a link: the file that it leads to is the one written.

    Raises:
        OSError: when the system refuses, or a file is a folder, a pipe or a device.
    """
    files = [(_resolve(path), write) for path, write in files]
    written: list[tuple[Path, Path]] = []
    backups: list[tuple[Path, Path]] = []
    fresh: list[Path] = []
    try:
        for path, write in files:
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


def refusal_to_write(path: Path) -> str | None:
    """Say why a path can be no file to write, or None when nothing is known against it.

    Raises:
        OSError: when the system refuses to look.
        ValueError: for a name that no file can have.
    """
    os.fsencode(path)
    if "\0" in str(path):
        raise ValueError("the name holds a NUL character")
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not path.is_file():
        return "it is a pipe or a device, which a file would replace"
    return None


def _resolve(path: Path) -> Path:
    try:
        reason = refusal_to_write(path)
    except ValueError as fault:  # UnicodeEncodeError is one
        raise OSError(22, f"the name cannot be one of a file: {fault}") from None
    if reason is not None:
        raise OSError(22, reason)
    try:
        return path.resolve() if path.is_symlink() else path
    except RuntimeError as fault:  # links in a circle, before Python 3.13
        raise OSError(40, str(fault)) from None


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
