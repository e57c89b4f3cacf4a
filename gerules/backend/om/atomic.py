"""Writing a file so that a reader sees all of it or nothing."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gerules.backend.om.error import OmError
from gerules.errors import table


def write_atomically(path: Path, chunks: Iterable[bytes | memoryview]) -> int:
    """Write chunks to a new file beside `path`, flush it to the disk, then put it in place of `path`.

    Whatever ends the writing early (a full disk, an interrupt, an exception while a chunk arises)
    leaves `path` as it was and no other file behind.

    Returns:
        The number of bytes written.

    Raises:
        OmError: E10004 when the system refuses.
    """
    try:
        return _write(path, chunks)
    except OSError as fault:
        raise OmError(table.CANNOT_WRITE, path=path, reason=fault.strerror or str(fault)) from None


def _write(path: Path, chunks: Iterable[bytes | memoryview]) -> int:
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    except ValueError as fault:
        # A path with NUL, or with characters the file system's encoding lacks.
        raise OSError(str(fault)) from None
    part, size_bytes = Path(name), 0
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                size_bytes += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp keeps its files private; the result gets what any new file would get.
        part.chmod(_mode_of(path))
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    _sync_folder(path.parent)
    return size_bytes


def _mode_of(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    # Not every system can open a folder; the file itself is safe by now.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
