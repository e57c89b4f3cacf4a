"""Graph text files (`.graph`), with the constants that are too long for a text in one file beside them."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from gerules.errors import table
from gerules.frontends.fault import ModelError
from gerules.ir import Const, Graph, Marks, print_graph, read_graph_text
from gerules.text import read_source
from gerules.text.files import write_files
from gerules.text.parse import GRAPHS

_ALIGN_BYTES: Final = 64


def load_graph_text(path: Path) -> Graph:
    """Read a `.graph` file; its `file(...)` constants are views into files of the same folder.

    Raises:
        TextError: E10001, E10005, E40001 to E40006 for the text.
        GraphError: E40003 and following for what it says, all faults at once.
    """
    source = read_source(path, limit_bytes=GRAPHS.max_bytes)
    mapped: dict[str, memoryview] = {}

    def load(name: str, offset: int, size_bytes: int) -> memoryview:
        if name not in mapped:
            mapped[name] = _map(path.parent, name)
        view = mapped[name]
        if offset < 0 or offset + size_bytes > len(view):
            raise ValueError(f"{name} has no {size_bytes} bytes at {offset}")
        return view[offset : offset + size_bytes]

    return read_graph_text(source, load=load).graph


def save_graph_text(graph: Graph, path: Path, *, marks: Marks | None = None) -> None:
    """Write a graph as text, and its long constants to `<name>.bin` beside it; both or neither.

    Raises:
        ModelError: E10004 when the system refuses, or the `.bin` exists and the text does not.
    """
    data_path = path.with_name(path.stem + ".bin")
    parts: list[tuple[int, Const]] = []
    end = 0

    def store(_: str, const: Const) -> str | None:
        nonlocal end
        if const.array.dtype.kind == "O":
            return None
        start = -(-end // _ALIGN_BYTES) * _ALIGN_BYTES
        parts.append((start, const))
        end = start + const.array.nbytes
        return f'file("{data_path.name}", {start})'

    text = print_graph(graph, marks=marks, store=store)

    def write_data(file: BinaryIO) -> None:
        for offset, const in parts:
            file.write(bytes(offset - file.tell()))
            file.write(np.ascontiguousarray(const.array).view(np.uint8).data)

    files = [(data_path, write_data)] if parts else []
    try:
        if parts and data_path.exists() and not path.exists():
            # Without its text it is none of ours: the weights of another model, perhaps of this one.
            raise FileExistsError(17, f"its constants go to {data_path.name}, and there is such a file")
        write_files([*files, (path, lambda file: file.write(text.encode("utf-8", "surrogatepass")))])
    except OSError as fault:
        raise ModelError(table.CANNOT_WRITE, path=path, reason=fault.strerror or str(fault)) from None


def _map(folder: Path, name: str) -> memoryview:
    if Path(name).name != name:
        raise ValueError("constants lie in files of the same folder")
    path = folder / name
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{name} is not there")
    if not path.stat().st_size:
        return memoryview(b"")
    return memoryview(np.memmap(path, np.uint8, "r"))  # pyright: ignore[reportArgumentType]
