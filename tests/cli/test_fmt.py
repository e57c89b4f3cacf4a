"""`gerules fmt`: files laid out, checked, shown; nothing written when one is at fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

WILD = """\
# own\r
gerules  1



rule r  in own :
  match:   y=Neg( Neg(x) )   # twice
  rewrite: y = Identity( x )
"""
NEAT = """\
# own
gerules 1

rule r in own:
    match: y = Neg(Neg(x))  # twice
    rewrite: y = Identity(x)
"""


@pytest.fixture
def wild(tmp_path: Path) -> Path:
    path = tmp_path / "rules" / "規則.ger"
    path.parent.mkdir()
    path.write_bytes(WILD.encode())
    return path


def test_files_and_folders_are_laid_out(run: Run, wild: Path) -> None:
    (wild.parent / "neat.ger").write_text(NEAT, encoding="utf-8")
    result = run("fmt", wild.parent, wild)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [f"laid out: {wild}", "2 files, 1 laid out"]
    assert wild.read_bytes() == NEAT.encode()
    assert sorted(item.name for item in wild.parent.iterdir()) == ["neat.ger", "規則.ger"]
    assert run("fmt", wild.parent).stdout == "2 files, 0 laid out\n"


def test_check_writes_nothing_and_ends_with_3(run: Run, wild: Path) -> None:
    result = run("fmt", "--check", wild)
    assert result.exit_code == 3
    assert result.stdout.splitlines() == [f"would change: {wild}", "1 file, 1 would change"]
    assert wild.read_bytes() == WILD.encode()
    run("fmt", wild)
    assert run("fmt", "--check", wild).exit_code == 0


def test_stdout_shows_the_text_and_leaves_the_file(run: Run, wild: Path) -> None:
    result = run("fmt", "--stdout", wild)
    assert (result.exit_code, result.stdout) == (0, NEAT)
    assert wild.read_bytes() == WILD.encode()


def test_json(run_json: Callable[..., Any], wild: Path) -> None:
    want = {"files": [{"file": str(wild), "is_changed": True}], "is_written": False}
    assert run_json("fmt", "--check", wild, code=3) == want
    assert run_json("fmt", wild) == want | {"is_written": True}


def test_nothing_is_written_when_a_file_is_at_fault(run: Run, wild: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.ger"
    broken.write_text("gerules 1\nrule r in own:\n    match y\n", encoding="utf-8")
    empty = tmp_path / "empty"
    empty.mkdir()
    result = run("fmt", wild, broken)
    assert result.exit_code == 1 and "E40001" in result.stderr
    result = run("fmt", empty, tmp_path / "none.ger", wild)
    assert result.exit_code == 1 and result.stderr.count("E10001") >= 1
    assert wild.read_bytes() == WILD.encode()
