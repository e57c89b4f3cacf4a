"""`gerules rules check`: findings with places, exit codes, JSON, one analysis alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

LOOP = """\
gerules 1
rule split in own "A square is a power":
    match: y = Mul(x, x)
    rewrite: y = Pow(x, 2)
rule join in own "A power is a square":
    match: y = Pow(x, 2)
    rewrite: y = Mul(x, x)
"""

SHADOW = """\
gerules 1
rule wide in own: Abs(x) => Abs(Relu(x))
rule narrow in own: Abs(x) => Relu(x)
"""


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    path = tmp_path / "loop.ger"
    path.write_text(LOOP, encoding="utf-8")
    return path


def test_a_cycle_is_a_warning_with_its_place(run: Run, loop: Path) -> None:
    result = run("rules", "check", loop, "--only", "termination")
    assert result.exit_code == 0
    assert result.stdout == "1 file, 2 rules: 1 warning\n"
    assert "warning[E40130]: the phase custom may never end: split, join together leave" in result.stderr
    assert "loop.ger:2:6" in result.stderr and "^^^^^" in result.stderr


def test_json_says_which_phases_end(run_json: Callable[..., Any], loop: Path) -> None:
    found = run_json("rules", "check", loop, "--only", "termination")
    assert found["stops"]["custom"] is False and found["stops"]["fuse_ops"] is True
    assert [item["code"] for item in found["warnings"]] == ["E40130"]
    assert run_json("rules", "check", loop, "--only", "names")["warnings"] == []


def test_a_rule_that_never_gets_its_turn_is_an_error(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "shadow.ger"
    path.write_text(SHADOW, encoding="utf-8")
    result = run("rules", "check", path, "--only", "overlap")
    assert result.exit_code == 1 and result.stdout == "1 file, 2 rules: 1 error\n"
    assert "error[E40136]: narrow never gets its turn" in result.stderr


def test_json_holds_warnings_beside_errors(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "both.ger"
    path.write_text(LOOP + SHADOW.partition("\n")[2], encoding="utf-8")
    shown = run("rules", "check", path, "--only", "overlap", "--only", "termination")
    assert shown.exit_code == 1 and shown.stdout == "1 file, 4 rules: 1 error, 2 warnings\n"
    result = run("rules", "check", path, "--only", "overlap", "--only", "termination", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and result.stderr == ""
    assert [item["code"] for item in found["errors"]] == ["E40136"]
    assert [item["code"] for item in found["warnings"]] == ["E40130", "E40130"]
    assert found["n_rules"] == 4 and found["stops"]["custom"] is False


MIXED = """\
gerules 1
rule torn in own:
    match: y = Relu(x
    rewrite: y = x
rule nameless in own: Abs(x) => Abs(z)
rule swap in own:
    overrides torn
    match: y = Sub(Neg(x), w)
    rewrite: y = Sub(w, Neg(x))
rule kept in own:
    match: y = Cast(x, to=k)
    rewrite: y = Relu(x)
"""


def test_sound_rules_are_analysed_beside_those_at_fault(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mixed.ger"
    path.write_text(MIXED, encoding="utf-8")
    result = run("rules", "check", path, "--only", "termination")
    told = [line.partition(":")[0] for line in result.stderr.splitlines() if line.startswith(("e", "w"))]
    assert told == ["warning[E40117]", "warning[E40130]", "error[E40001]", "error[E40003]"]
    assert "may never end: swap leaves no operator fewer" in result.stderr
    assert result.exit_code == 1 and result.stdout == "1 file, 3 rules: 2 errors, 2 warnings\n"


@pytest.mark.parametrize(
    ("first", "codes"),
    [
        # What cannot be read may be what rules need; so may a pattern with a fault in it.
        ("pattern p(x) -> y:\n    y = Neg(x\n", ["E40001"]),
        ("pattern p(x) -> y:\n    y = Neg(z)\n", ["E40003", "E40117"]),
    ],
)
def test_no_rule_is_analysed_beside_a_pattern_at_fault(
    run: Run, tmp_path: Path, first: str, codes: list[str]
) -> None:
    path = tmp_path / "pattern.ger"
    path.write_text(
        f"gerules 1\n{first}rule r in own:\n    match: y = Cast(p(x), to=k)\n    rewrite: y = Relu(x)\n",
        encoding="utf-8",
    )
    result = run("rules", "check", path, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [item["code"] for key in ("errors", "warnings") for item in found.get(key, [])] == codes


def test_an_analysis_that_does_not_exist(run: Run) -> None:
    result = run("rules", "check", "--only", "terminaton")
    assert result.exit_code != 0
    assert "termination" in result.stderr
