"""The graphs that the stages of a compile left, as text files that share one file of constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from gerules.errors import table
from gerules.frontends import ModelError
from gerules.ir import Const, print_graph
from gerules.pipeline.stages import StageReport
from gerules.text.files import Write, write_files

CONSTANTS: Final = "constants.bin"

_ALIGN_BYTES: Final = 64
_NO_WORD: Final = re.compile(r"\W")


def dump_stages(stages: Sequence[StageReport], folder: Path) -> list[Path]:
    """Write `<place>_<stage>.graph` for each stage, numbered in order; all of them, or none.

    Each file can be read back: a constant that several stages have lies once in `constants.bin`.

    Returns:
        The files, in the order of the stages.

    Raises:
        ModelError: E10004 when the system refuses.
    """
    store = _Store()
    files: list[tuple[Path, Write]] = []
    for place, stage in enumerate(stages):
        text = print_graph(stage.graph, marks=stage.marks, store=store.add)
        data = text.encode("utf-8", "surrogatepass")
        path = folder / f"{place:02}_{_NO_WORD.sub('_', stage.name)}.graph"
        files.append((path, lambda file, data=data: file.write(data)))
    paths = [path for path, _ in files]
    if store.parts:
        files.insert(0, (folder / CONSTANTS, store.write))
    try:
        write_files(files)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise ModelError(table.CANNOT_WRITE, path=folder, reason=reason) from None
    return paths


class _Store:
    """Constants laid out one after the other, equal ones once."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, Const]] = []
        self._places: dict[bytes, int] = {}
        self._end = 0

    def add(self, _: str, const: Const) -> str | None:
        if const.array.dtype.kind == "O":
            return None
        start = self._places.get(const.digest)
        if start is None:
            start = -(-self._end // _ALIGN_BYTES) * _ALIGN_BYTES
            self._places[const.digest] = start
            self.parts.append((start, const))
            self._end = start + const.array.nbytes
        return f'file("{CONSTANTS}", {start})'

    def write(self, file: BinaryIO) -> None:
        for start, const in self.parts:
            file.write(bytes(start - file.tell()))
            file.write(np.ascontiguousarray(const.array).view(np.uint8).data)
