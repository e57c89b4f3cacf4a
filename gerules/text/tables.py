"""Parse tables kept between runs: building one takes a second, reading one a few hundredths of it.

A table is JSON in the folder of the user's cache, named by what it depends on, with its own digest. Nothing
hangs on it: a table that is missing, damaged or not to be written is built anew, without a word.
"""

# Lark leaves the types of what it serialises open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from gerules.text.cache_folder import cache_folder
from gerules.text.files import open_regular, write_files
from gerules.text.layout import Layout

_MAX_BYTES: Final = 16 * 1024 * 1024
_FORMAT: Final = "1"


def kept_parser(grammar: str, build: Callable[[], Lark]) -> Lark:
    """Return the parser of a grammar: from the table kept, or else built, and its table kept."""
    folder = cache_folder()
    if folder is None:
        return build()
    key = hashlib.sha256("\0".join((_FORMAT, lark.__version__, grammar)).encode()).hexdigest()
    path = folder / "tables" / f"{key[:32]}.json"
    try:
        return _read(path)
    except Exception:  # whatever is wrong with a table, the grammar makes another
        parser = build()
    with contextlib.suppress(OSError, ValueError):
        _write(path, parser)
    return parser


def _read(path: Path) -> Lark:
    with open_regular(path) as file:
        digest, text = file.read(_MAX_BYTES).split(b"\n", 1)
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise ValueError("the table is damaged")
    data, memo = json.loads(text, object_hook=_restored)
    return Lark._load_from_dict(data, memo, postlex=Layout())


def _write(path: Path, parser: Lark) -> None:
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    data["options"]["postlex"] = None
    text = json.dumps(_plain([data, memo]), separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_files([(path, lambda file: file.write(digest + b"\n" + text))])


_PAIRS: Final = "$pairs"


def _plain(item: Any) -> Any:
    """Write maps with keys that are no texts as lists of pairs, which JSON has."""
    if isinstance(item, dict):
        if all(isinstance(key, str) for key in item):
            return {key: _plain(value) for key, value in item.items()}
        return {_PAIRS: [[key, _plain(value)] for key, value in item.items()]}
    return [_plain(value) for value in item] if isinstance(item, list | tuple) else item


def _restored(item: dict[str, Any]) -> dict[Any, Any]:
    return dict(item[_PAIRS]) if _PAIRS in item else item
