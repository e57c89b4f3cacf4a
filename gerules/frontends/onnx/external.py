"""Bytes of files: the model's own, mapped into memory, and the data files that lie beside it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from gerules.text.files import open_regular


class DataFault(Exception):  # noqa: N818 - it becomes a ModelError once the tensor is known
    """External data cannot be had; the text says why."""


def map_file(path: Path) -> memoryview:
    """Return the bytes of a regular file as a view that the system reads in as it is used.

    Whoever cuts the file short while the view lives will crash the process; to replace a file, rename
    a new one over it.

    Raises:
        OSError: When it cannot be opened, or is a folder, a pipe or a device.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


class DataFiles:
    """The files in a model's folder that hold its external data, each mapped once."""

    def __init__(self, model: Path | None, folder: Path | None) -> None:
        self._folder = folder if model is None else model.parent
        self._allowed: list[Path] = []
        if self._folder is not None:
            self._allowed.append(self._folder.resolve())
        if model is not None:
            # Download caches keep a folder of links, all into one store: what lies beside the file the
            # model's name leads to is as trusted as that file.
            self._allowed.append(model.resolve().parent)
        self._mapped: dict[str, memoryview] = {}

    @property
    def mapped_bytes(self) -> int:
        """Size of all data files opened so far."""
        return sum(len(data) for data in self._mapped.values())

    def read(self, location: str, offset: int, size_bytes: int) -> memoryview:
        """Return a range of a data file as a view.

        Raises:
            DataFault: When the location leaves the folder, or the file is missing or too short.
        """
        data = self._mapped.get(location)
        if data is None:
            data = self._mapped[location] = self._open(location)
        if offset < 0 or size_bytes < 0 or offset + size_bytes > len(data):
            raise DataFault(
                f"{location} has {len(data)} bytes, but {size_bytes} are wanted from byte {offset}"
            )
        return data[offset : offset + size_bytes]

    def _open(self, location: str) -> memoryview:
        if self._folder is None:
            raise DataFault("a model given as bytes has no folder to look for its data in")
        if not location or "\0" in location:
            raise DataFault("it names no file")
        windows = PureWindowsPath(location)
        if PurePosixPath(location).is_absolute() or windows.drive or windows.root:
            raise DataFault(f"{location} is not relative to the model's folder")
        if ".." in windows.parts or ".." in PurePosixPath(location).parts:
            raise DataFault(f"{location} leaves the model's folder")
        try:
            path = (self._folder / location).resolve(strict=True)
            if not any(path.is_relative_to(folder) for folder in self._allowed):
                raise DataFault(f"{location} is a link that leaves the model's folder")
            return map_file(path)
        except (OSError, ValueError, RuntimeError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
            raise DataFault(f"{location} cannot be read: {reason}") from None
