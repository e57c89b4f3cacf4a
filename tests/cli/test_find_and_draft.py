"""`gerules find` and `gerules draft`: what they print, what they write, how they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run


def test_find_tells_places_names_and_their_number(run: Run, stem: Path) -> None:
    result = run("find", "y = Relu(s)", stem)
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout.splitlines() == [
        "1. Relu y: f32[N, 4, 8, 8]",
        "     y = y: f32[N, 4, 8, 8]",
        "     s = s: f32[N, 4, 8, 8]",
        "",
        "1 place in stem",
    ]


def test_find_as_json_with_conditions_and_near_misses(run_json: Callable[..., Any], stem: Path) -> None:
    found = run_json("find", "Relu(Add(Conv(x, W), k: const))", stem, "--where", "W.shape[0] == 5", "--near")
    assert found["n_found"] == 0 and found["near"][0]["outcome"] == "guard"
    found = run_json("find", "Relu(Add(Conv(x, W), k: const))", stem, "-w", "W.shape[0] == 4")
    (place,) = found["found"]
    assert [node["op"] for node in place["nodes"]] == ["Conv", "Add", "Relu"] and place["is_closed"]


def test_find_points_into_the_pattern(run: Run, stem: Path) -> None:
    result = run("find", "Rellu(x)", stem)
    assert result.exit_code == 1 and "E40111" in result.stderr and "did you mean Relu?" in result.stderr


def test_draft_writes_a_rule_that_the_other_commands_take(run: Run, stem: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.ger"
    result = run("draft", stem, "--nodes", "c..y", "--op", "my::FirstLayer", "-o", path)
    assert result.exit_code == 0 and result.stdout == ""
    assert result.stderr == (
        f"drafted first_layer to {path}: 3 nodes, 2 tests that hold, fires at 1 place of the model\n"
    )
    assert run("fmt", "--check", path).exit_code == 0
    assert run("rules", "test", path).exit_code == 0
    assert run("rules", "check", path).exit_code == 0
    shown = run("draft", stem, "--nodes", "c..y", "--op", "my::FirstLayer")
    assert shown.stdout == path.read_text(encoding="utf-8")


def test_draft_refuses_with_a_code_and_writes_nothing(run: Run, stem: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.ger"
    result = run("draft", stem, "--nodes", "y..c", "-o", path)
    assert result.exit_code == 1 and "E10008" in result.stderr and "write c..y" in result.stderr
    assert not path.exists()
    assert run("draft", stem, "--nodes", "c", "-o", stem).exit_code == 1
