"""The store of the cache: a file for each entry, written whole, checked when read, the oldest dropped first.

An entry is found under its key, a digest of what it follows from, so two writers of one key write the same.
Readers take no lock: a file appears by a rename, and what was renamed away under a reader stays readable.
Nothing in an entry is executed; every byte of it is covered by a checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from gerules.text.files import open_regular

_MAGIC: Final = b"gerules compile cache 1\n"
_SUFFIX: Final = ".entry"
_CHECKSUM_BYTES: Final = 32
_LENGTH_BYTES: Final = 8
_MAX_HEAD_BYTES: Final = 1 << 20
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_LEFT_BEHIND_S: Final = 3600
"""Age of a temporary file from which on nobody writes it any more: its writer was killed."""

Chunk = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the cache, as it lies there; `used_s` is when it was last used, in seconds since 1970."""

    key: str
    path: Path
    size_bytes: int
    used_s: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found under a key: its parts, that there is nothing, or why it was deleted as damaged."""

    parts: Mapping[str, memoryview] | None = None
    damage: str = ""


class EntryStore:
    """Entries in a folder, none of which is believed unchecked.

    Args:
        folder: Made when the first entry is written, readable by its owner alone.
        limit_bytes: Most bytes of all entries together.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes

    def path_of(self, key: str) -> Path:
        """Return where the entry of a key lies."""
        return self.folder / key[:2] / f"{key}{_SUFFIX}"

    def find(self, key: str) -> Finding:
        """Read and check an entry; a damaged one is deleted.

        Raises:
            OSError: when the system refuses to read what is there.
        """
        path = self.path_of(key)
        try:
            with open_regular(path) as file:
                data = memoryview(file.read())
        except (FileNotFoundError, NotADirectoryError):
            return Finding()
        try:
            parts = _parse(key, data)
        except ValueError as fault:
            self._delete(path)
            return Finding(damage=str(fault))
        with contextlib.suppress(OSError):
            os.utime(path)
        return Finding(parts)

    def keep(self, key: str, parts: Iterable[tuple[str, int, Iterable[Chunk]]]) -> str | None:
        """Write an entry, and drop those longest unused until all fit.

        Args:
            parts: Name, size in bytes and content of each part.

        Returns:
            Why it was not kept, when it is too large; else None.

        Raises:
            OSError: when the system refuses; nothing is left behind then.
        """
        listed = list(parts)
        head = json.dumps({"key": key, "parts": [[name, size] for name, size, _ in listed]}).encode()
        size_bytes = len(_MAGIC) + _LENGTH_BYTES + len(head) + _CHECKSUM_BYTES
        size_bytes += sum(size for _, size, _ in listed)
        if size_bytes > self.limit_bytes:
            return f"it has {size_bytes} bytes, and the cache keeps {self.limit_bytes}"
        path = self.path_of(key)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                state = hashlib.blake2b(digest_size=_CHECKSUM_BYTES)
                for chunk in _chunks(head, listed):
                    state.update(chunk)
                    file.write(chunk)
                file.write(state.digest())
            temporary.replace(path)
        except BaseException:
            self._delete(temporary)
            raise
        self._shrink()
        return None

    def entries(self) -> list[Entry]:
        """Return all entries, the one used last first. Raises OSError as the system does."""
        found: list[Entry] = []
        for path in self._files(_SUFFIX):
            key = path.name.removesuffix(_SUFFIX)
            with contextlib.suppress(FileNotFoundError):
                told = path.stat()
                if _KEY.fullmatch(key):
                    found.append(Entry(key, path, told.st_size, told.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used_s, entry.key))

    def clear(self) -> int:
        """Delete all entries and return how many there were. Raises OSError for one that stays."""
        found = self.entries()
        for entry in found:
            entry.path.unlink(missing_ok=True)
        for path in self._files(".tmp"):
            self._delete(path)
        return len(found)

    def discard(self, key: str) -> None:
        """Delete the entry of a key, if there is one."""
        self._delete(self.path_of(key))

    def verify(self) -> list[tuple[Entry, str]]:
        """Check every entry, delete the damaged, and return each with what was wrong; empty when sound."""
        found: list[tuple[Entry, str]] = []
        for entry in self.entries():
            used_s = entry.used_s
            finding = self.find(entry.key)
            if finding.damage:
                found.append((entry, finding.damage))
            else:
                with contextlib.suppress(OSError):  # a check is no use
                    os.utime(entry.path, (used_s, used_s))
        return found

    def _shrink(self) -> None:
        """Drop entries longest unused, and what killed writers left. Others may do the same meanwhile."""
        found = self.entries()
        total = sum(entry.size_bytes for entry in found)
        while total > self.limit_bytes and found:
            oldest = found.pop()
            self._delete(oldest.path)
            total -= oldest.size_bytes
        now = time.time()
        for path in self._files(".tmp"):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > _LEFT_BEHIND_S:
                    path.unlink()

    def _files(self, suffix: str) -> Iterator[Path]:
        """The files of this store alone: two levels of folders, the first named by two digits."""
        try:
            folders = [item for item in self.folder.iterdir() if re.fullmatch("[0-9a-f]{2}", item.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for folder in folders:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                yield from [item for item in folder.iterdir() if item.name.endswith(suffix)]

    def _delete(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _chunks(head: bytes, parts: list[tuple[str, int, Iterable[Chunk]]]) -> Iterator[Chunk]:
    yield _MAGIC + len(head).to_bytes(_LENGTH_BYTES, "little") + head
    for _, _, chunks in parts:
        yield from chunks


def _parse(key: str, data: memoryview) -> dict[str, memoryview]:
    """Return the parts of an entry. Raises ValueError, with the reason, for any byte that differs."""
    start = len(_MAGIC) + _LENGTH_BYTES
    if len(data) < start + _CHECKSUM_BYTES:
        raise ValueError("it ends too early")
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise ValueError("it is no entry of this format")
    body = data[:-_CHECKSUM_BYTES]
    if hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES).digest() != bytes(data[-_CHECKSUM_BYTES:]):
        raise ValueError("its checksum does not hold")
    size_bytes = int.from_bytes(data[len(_MAGIC) : start], "little")
    if size_bytes > min(_MAX_HEAD_BYTES, len(body) - start):
        raise ValueError("its head is longer than it")
    named = _parse_head(key, bytes(body[start : start + size_bytes]))
    found: dict[str, memoryview] = {}
    at = start + size_bytes
    for name, size in named:
        if size > len(body) - at:
            raise ValueError("its parts are longer than it")
        found[name] = body[at : at + size]
        at += size
    if at != len(body):
        raise ValueError("it holds more than its parts")
    return found


def _parse_head(key: str, text: bytes) -> list[tuple[str, int]]:
    try:
        head = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        raise ValueError("its head is no JSON") from None
    given = cast("dict[str, object]", head) if isinstance(head, dict) else {}
    if given.get("key") != key:
        raise ValueError("it is the entry of another key")
    parts, found = given.get("parts"), list[tuple[str, int]]()
    for item in cast("list[object]", parts) if isinstance(parts, list) else ():
        match item:
            case [str(name), int(size)] if size >= 0:
                found.append((name, size))
            case _:
                raise ValueError("its head names no parts")
    return found
