"""The key of a compile: a digest of everything that its result follows from.

```
model      every value, node, constant and attribute of the graph, ids included: new names are made from them
rules      the text of every rule file in force, and the Python functions that `extern` lines name
options    every field of CompileOptions, those that are added later too
tools      gerules and its files as they lie there, Python, and the libraries that compute constants
```
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, cast

import numpy as np

from gerules.dsl import RuleBook
from gerules.errors import Source
from gerules.ir import Const, Graph
from gerules.pipeline.cache.python_code import Uncacheable, add_function
from gerules.pipeline.options import CompileOptions

FORMAT_VERSION: Final = 1
"""Raised when what an entry holds, or what it means, changes."""

_LIBRARIES: Final = ("numpy", "ml-dtypes", "onnx", "protobuf")
_MAX_DEPTH: Final = 200


def compile_key(graph: Graph, book: RuleBook, options: CompileOptions) -> str:
    """Return the key, 64 hexadecimal digits.

    Raises:
        Uncacheable: when the result follows from something that has no digest, such as a Python function
            of the rules that reads an object.

    Cost: one pass over the graph, and over the bytes of weights whose digest is not known yet.
    """
    state = _State()
    state.add(("gerules compile", FORMAT_VERSION, *_tools()))
    state.add(graph)
    state.add([file.source.text for file in book.files])
    for name in sorted(book.externs):
        found = book.functions.get(name)
        if found is not None:
            state.add((name, found.signature))
            add_function(getattr(found.run, "function", found.run), state.add)
    for item in fields(options):
        state.add((item.name, getattr(options, item.name)))
    return state.hexdigest()


@cache
def _tools() -> tuple[object, ...]:
    """What compiles: versions, and each file of gerules with its size and time, for those who edit it."""
    root = Path(__file__).resolve().parents[2]
    files: list[tuple[str, int, int]] = []
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".lark", ".txt"):
            told = path.stat()
            files.append((path.relative_to(root).as_posix(), told.st_size, told.st_mtime_ns))
    libraries = tuple((name, _version(name)) for name in _LIBRARIES)
    return (_version("gerules"), sys.version, platform.machine(), libraries, tuple(files))


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


class _State:
    """A digest of values, each told from every other: kind and length stand before the content."""

    def __init__(self) -> None:
        self._state = hashlib.blake2b(digest_size=32)
        self._sources: dict[int, tuple[Source, bytes]] = {}
        """Sources by id, with their digests: each of many spans holds the whole text that it is of."""

    def hexdigest(self) -> str:
        return self._state.hexdigest()

    def add(self, value: object, depth: int = 0) -> None:
        """Add a value of any kind that graphs and options hold. Raises Uncacheable for another."""
        kind = type(value)
        if value is None or kind is bool or kind is int or kind is float:
            self._put(kind.__name__, repr(value).encode())
        elif isinstance(value, str):
            self._put("str", value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, bytes):
            self._put("bytes", value)
        elif isinstance(value, Const):
            self._put("const", value.digest)
        elif isinstance(value, Source):
            self._put("source", self._source_digest(value))
        elif isinstance(value, Enum):
            self._put("enum", f"{kind.__name__}.{value.name}".encode())
        elif depth > _MAX_DEPTH:
            raise Uncacheable("it nests too deep")
        else:
            self._add_parts(value, depth + 1)

    def _add_parts(self, value: object, depth: int) -> None:
        if isinstance(value, tuple | list):
            items = cast("tuple[object, ...] | list[object]", value)
            self._put("items", str(len(items)).encode())
            for item in items:
                self.add(item, depth)
        elif isinstance(value, set | frozenset):
            self.add(sorted(cast("frozenset[str]", value)), depth)
        elif isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value)
            self._put("pairs", str(len(pairs)).encode())
            for key, item in pairs.items():
                self.add(key, depth)
                self.add(item, depth)
        elif isinstance(value, np.ndarray | np.generic):
            self.add(Const(np.asarray(cast("np.generic", value))), depth)
        elif isinstance(value, Path):
            self._put("path", str(value).encode("utf-8", "surrogatepass"))
        elif is_dataclass(value):
            self._put("record", type(value).__name__.encode())
            for name in _field_names(type(value)):
                self.add(getattr(value, name), depth)
        else:
            raise Uncacheable(f"a {type(value).__name__} has no digest")

    def _source_digest(self, source: Source) -> bytes:
        known = self._sources.get(id(source))
        if known is None:
            state = _State()
            state.add((source.name, source.text, source.lines))
            known = self._sources[id(source)] = (source, state._state.digest())
        return known[1]

    def _put(self, kind: str, content: bytes) -> None:
        self._state.update(f"{kind}:{len(content)}:".encode() + content)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))
