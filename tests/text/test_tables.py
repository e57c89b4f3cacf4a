"""Parse tables kept between runs: they give the same trees, and nothing hangs on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lark import Lark

from gerules.text.cache_folder import cache_folder
from gerules.text.layout import Layout
from gerules.text.tables import kept_parser

GRAMMAR = """
start: item+
item: NAME [":" INT] _NEWLINE
NAME: /[a-z]+/
INT: /[0-9]+/
_NEWLINE: /\\n/
%declare _INDENT _DEDENT
"""
TEXT = "a\nb:1\n"


class Builder:
    """Builds the parser, and counts."""

    def __init__(self) -> None:
        self.built = 0

    def __call__(self) -> Lark:
        self.built += 1
        return Lark(GRAMMAR, parser="lalr", propagate_positions=True, postlex=Layout())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GERULES_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept" / "tables"


def test_a_table_is_built_once_and_gives_the_same_trees(folder: Path) -> None:
    build = Builder()
    first, second = kept_parser(GRAMMAR, build), kept_parser(GRAMMAR, build)
    assert build.built == 1
    assert first.parse(TEXT) == second.parse(TEXT)
    assert second.parse(TEXT).meta.end_pos == len(TEXT)
    assert {item.name for item in first.terminals} == {item.name for item in second.terminals}


def test_another_grammar_has_another_table(folder: Path) -> None:
    build = Builder()
    kept_parser(GRAMMAR, build)
    kept_parser(GRAMMAR + "\n", build)
    assert build.built == 2
    assert len(list(folder.iterdir())) == 2


def halved(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def emptied(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [halved, flipped, emptied])
def test_a_damaged_table_is_made_anew(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    build = Builder()
    kept_parser(GRAMMAR, build)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert kept_parser(GRAMMAR, build).parse(TEXT).data == "start"
    assert build.built == 2
    assert kept_parser(GRAMMAR, build).parse(TEXT).data == "start"
    assert build.built == 2


def test_a_folder_that_is_a_file_is_no_fault(folder: Path) -> None:
    folder.parent.write_text("no folder")
    build = Builder()
    for _ in range(2):
        assert kept_parser(GRAMMAR, build).parse(TEXT).data == "start"
    assert build.built == 2


def test_the_usual_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GERULES_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "gerules"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "gerules"
