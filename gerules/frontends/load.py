"""Choosing the reader of a model file by its ending, or else by its first bytes."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gerules.errors import table
from gerules.frontends.examples import NO_EXAMPLES, Examples
from gerules.frontends.fault import ModelError
from gerules.frontends.graph_text import load_graph_text
from gerules.frontends.mindir import is_mindir, load_mindir
from gerules.frontends.onnx import FUSED_DOMAIN, load_onnx
from gerules.frontends.protocol import Frontend
from gerules.frontends.torch.files import looks_like_torch, read_torch_file
from gerules.ir import Graph

_N_HEAD_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of model file.

    `looks_like` judges by a file's first bytes, for names whose ending says nothing.
    """

    endings: tuple[str, ...]
    looks_like: Callable[[bytes], bool]
    read: Callable[[Path], Graph]


def _looks_like_onnx(head: bytes) -> bool:
    """A ModelProto begins with its IR version: field 1, a small number. Source: onnx.proto, ModelProto."""
    return len(head) > 2 and head[0] == 0x08 and 0 < head[1] < 0x40


def _read_onnx(path: Path) -> Graph:
    """Functions that stand for fused operators stay with their nodes; all others are expanded."""
    return load_onnx(path, kept_domains=(FUSED_DOMAIN,))


def _looks_like_graph_text(head: bytes) -> bool:
    return head.lstrip().startswith((b"graph ", b"#"))


READERS: Final[list[Reader]] = [
    Reader((".onnx",), _looks_like_onnx, _read_onnx),
    Reader((".mindir",), is_mindir, load_mindir),
    Reader((".graph",), _looks_like_graph_text, load_graph_text),
]
"""The kinds of files that `load` reads; packages of higher floors may append theirs."""


TORCH_ENDINGS: Final = (".pt", ".pt2", ".pth", ".ts")
"""Names of TorchScript files and exported programs; by their first bytes they are known under any name."""


def load(
    path: str | Path,
    *,
    examples: Examples = NO_EXAMPLES,
    others: Callable[[], Mapping[str, Frontend]] = dict,
) -> Graph:
    """Read a model file of any kind that is known.

    Args:
        examples: Inputs to trace a model of torch with; no other kind of file takes any.
        others: More front ends, by ending; asked only when no reader here knows the name.

    Raises:
        ModelError: E10001 when it cannot be read, E10002 when no reader knows it, E10085 for examples that
            nobody takes, and whatever its reader raises.
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("it is not a regular file")
        with path.open("rb") as file:
            head = file.read(_N_HEAD_BYTES)
    except (OSError, ValueError) as fault:
        reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        raise ModelError(table.FILE_NOT_FOUND, path=path, reason=reason) from None
    name = path.name.lower()
    read = _reader_by_name(name, others) or _reader_by_head(head)
    if name.endswith(TORCH_ENDINGS) or (read is None and looks_like_torch(head)):
        return read_torch_file(path, examples)
    refuse_examples(examples, str(path))
    if read is not None:
        return read(path)
    raise ModelError(table.UNKNOWN_FILE_KIND, path=path, verb="read", remedy=_remedy(name))


def _reader_by_name(
    name: str, others: Callable[[], Mapping[str, Frontend]]
) -> Callable[[Path], Graph] | None:
    for reader in READERS:
        if name.endswith(reader.endings):
            return reader.read
    if name.endswith(TORCH_ENDINGS):
        return None
    return next((item.read for suffix, item in others().items() if name.endswith(suffix)), None)


def _reader_by_head(head: bytes) -> Callable[[Path], Graph] | None:
    return next((reader.read for reader in READERS if reader.looks_like(head)), None)


def refuse_examples(examples: Examples, model: str) -> None:
    """Raise E10085 when inputs to trace with are given for a model that is not traced."""
    if examples.is_given:
        raise ModelError(table.EXAMPLES_NOT_TAKEN, model=model)


def _remedy(name: str) -> str:
    if name.endswith(".om"):
        return "a compiled model is run or shown; give the model that it was made from"
    if name.endswith(".ger"):
        return "rules are given beside a model, as rules; give an .onnx, .mindir or .graph file here"
    return "give an .onnx, .mindir or .graph file, or a .pt or .pt2 file of torch"
