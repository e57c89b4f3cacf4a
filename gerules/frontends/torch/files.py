"""Torch's files: which kind a zip archive is, and whether it can be read without running what it holds."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from gerules.errors import table
from gerules.frontends.examples import Examples
from gerules.frontends.fault import ModelError
from gerules.frontends.torch.exclusive import alone
from gerules.frontends.torch.kinds import import_torch
from gerules.frontends.torch.model import read_torch
from gerules.frontends.torch.quiet import quiet
from gerules.frontends.torch.sizes import is_plain_size
from gerules.ir import Graph

_MOST_ENTRIES: Final = 200_000
_MOST_TEXT_BYTES: Final = 256 << 20
_ZIP: Final = b"PK\x03\x04"

_RESAVE: Final = "save the model with torch.jit.save or torch.export.save and give that file"


def looks_like_torch(head: bytes) -> bool:
    """Whether a file may be one of torch's: all of them are zip archives."""
    return head.startswith(_ZIP)


def read_torch_file(path: Path, examples: Examples) -> Graph:
    """Read a TorchScript file or an exported program. No Python object is unpickled.

    Raises:
        ModelError: E10084 for any other archive, or one that holds Python objects, calls of functions that
            reach outside the model, or damage; else as `read_torch`.
    """
    names, texts = _open(path)
    if any(name.startswith("code/") for name in names) and "constants.pkl" in names:
        _check_script(path, texts)
        torch = import_torch(f"reading {path.name}")
        model = _load(torch, path, lambda: torch.jit.load(str(path), map_location="cpu"))
        return read_torch(model, examples, name=path.stem)
    if "archive_format" in names and any(name.startswith("models/") for name in names):
        _check_program(path, names, texts)
        torch = import_torch(f"reading {path.name}")
        _check_samples(torch, path, names, texts)
        return read_torch(_load(torch, path, lambda: torch.export.load(str(path))), examples, name=path.stem)
    if "data.pkl" in names:
        raise _not_torch(path, "it holds pickled Python objects, as torch.save writes them")
    raise _not_torch(path, "it has neither TorchScript nor an exported program in it")


def _not_torch(path: Path, reason: str) -> ModelError:
    return ModelError(table.NOT_TORCH, path=path, reason=reason, remedy=_RESAVE)


def _load(torch: Any, path: Path, load: Any) -> Any:
    try:
        with alone(), quiet(torch):
            return load()
    except Exception as error:  # torch raises what it likes for damaged files
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise _not_torch(path, first[:300].rstrip(".") or type(error).__name__) from None


class _Texts:
    """The small entries of an archive, by their name inside its only folder."""

    def __init__(self, archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], path: Path) -> None:
        self._archive, self._entries, self._path = archive, entries, path

    def named(self, folder: str, ending: str) -> list[str]:
        return sorted(name for name in self._entries if name.startswith(folder) and name.endswith(ending))

    def read(self, name: str) -> bytes:
        entry = self._entries[name]
        if entry.file_size > _MOST_TEXT_BYTES:
            raise _not_torch(self._path, f"{name} is larger than {_MOST_TEXT_BYTES} bytes")
        try:
            return self._archive.read(entry)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as fault:
            raise _not_torch(self._path, f"{name}: {fault}") from None


def _open(path: Path) -> tuple[set[str], _Texts]:
    try:
        archive = zipfile.ZipFile(path)
        listed = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as fault:
        raise _not_torch(path, f"it is no sound zip archive: {fault}") from None
    if len(listed) > _MOST_ENTRIES:
        raise _not_torch(path, f"it has more than {_MOST_ENTRIES} entries")
    # Torch packs the code of TorchScript and stores everything large as it is.
    packed = sum(entry.file_size for entry in listed if entry.compress_type != zipfile.ZIP_STORED)
    if packed > _MOST_TEXT_BYTES:
        raise _not_torch(path, f"its entries unpack to more than {_MOST_TEXT_BYTES} bytes")
    entries = {entry.filename.partition("/")[2]: entry for entry in listed}
    return set(entries), _Texts(archive, entries, path)


# ---------------------------------------------------------------- TorchScript
_REACHES_OUT: Final = re.compile(rb"\b(?:torch|ops\.\w+)\.(save|load|from_file)\(")
"""Functions of TorchScript that open files. Source: torch, native_functions.yaml, register_prim_ops.cpp."""


def _check_script(path: Path, texts: _Texts) -> None:
    """A module's code runs when it is traced: refuse what would reach beyond the model."""
    for name in texts.named("code/", ".py"):
        if found := _REACHES_OUT.search(texts.read(name)):
            raise _not_torch(path, f"its code opens files: torch.{found[1].decode()} in {name}")


# ---------------------------------------------------------------- exported programs
_NAMESPACES: Final = "aten|prim|prims|higher_order|torchvision|quantized|quantized_decomposed"
_TARGET: Final = re.compile(
    rf"torch\.ops\.(?:{_NAMESPACES})\.(?!__)\w+(?:\.(?!__)\w+)?"
    r"|_operator\.(?!__)\w+|math\.(?!_)\w+|torch\.sym_\w+|torch\._sym_\w+"
)
"""What nodes of a program may call. Torch looks names up in itself, where one also finds `os`."""


def _check_program(path: Path, names: set[str], texts: _Texts) -> None:
    for name in sorted(names):
        if name.endswith(".json"):
            try:
                found: object = json.loads(texts.read(name))
            except (ValueError, RecursionError) as fault:
                raise _not_torch(path, f"{name} is no sound JSON: {type(fault).__name__}") from None
            _check_json(path, name, found)
        elif re.match(r"data/(?:weights|constants)/(?:.*\.pt|custom_obj|opaque_obj)", name):
            raise _not_torch(path, f"{name} is a pickled Python object")
        elif name.startswith("data/aotinductor/"):
            raise _not_torch(path, "it holds machine code made by AOTInductor")


def _check_json(path: Path, name: str, root: object) -> None:
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += cast("list[object]", item)
        elif isinstance(item, dict):
            pairs = cast("dict[str, object]", item)
            if pairs.get("use_pickle"):
                raise _not_torch(path, f"{name} names pickled Python objects")
            target = pairs.get("target") if "inputs" in pairs else None
            if target is not None and not (isinstance(target, str) and _TARGET.fullmatch(target)):
                raise _not_torch(path, f"it calls {str(target)[:80]}, which no program of a model does")
            size = pairs.get("expr_str")
            if size is not None and not is_plain_size(size):
                raise _not_torch(path, f"it has the size {str(size)[:80]}, which is no arithmetic")
            waiting += pairs.values()


def _check_samples(torch: Any, path: Path, names: set[str], texts: _Texts) -> None:
    """Torch falls back to full unpickling of the inputs in the file, so they have to load without it."""
    for name in sorted(names):
        if name.startswith("data/sample_inputs/"):
            data = texts.read(name)
            try:
                found = torch.load(io.BytesIO(data), weights_only=True) if data else ()
            except Exception:  # torch raises what it likes
                found = None
            if not isinstance(found, tuple | dict):
                raise _not_torch(path, f"{name} holds Python objects that are no tensors")
