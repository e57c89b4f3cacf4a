"""Made-up inputs of models whose sizes are open: sizes that fit, which were used, and what when none does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run

POOLED = """\
graph pooled:
    opset 17
    input x: f32[N, 3, H, W]
    W0: const f32[4, 3, 3, 3] = random(1)
    c = Conv(x, W0)
    p = MaxPool(c, kernel_shape=[2, 2], strides=[2, 2])  {name="pool"}
    y = Relu(p)
    return y
"""
STUBBORN = """\
graph stubborn:
    opset 17
    input x: f32[N, 3]
    k: const i64[2] = [5, 7]
    y = Reshape(x, k)  {name="of_35"}
    return y
"""


@pytest.fixture
def pooled(tmp_path: Path) -> Path:
    path = tmp_path / "pooled.graph"
    path.write_text(POOLED)
    return path


def test_validate_finds_sizes_that_fit_and_says_them(run: Run, pooled: Path, tmp_path: Path) -> None:
    om = tmp_path / "z.om"
    result = run("compile", pooled, "-o", om, "--validate")
    assert result.exit_code == 0, result.stderr
    assert "was run with x[1, 3, 4, 4]" in result.stdout
    check = json.loads(run("compile", pooled, "-o", om, "--validate", "--json").stdout)["check"]
    assert check["ok"] and check["made_up"] == "x[1, 3, 4, 4]"


def test_ranges_bound_what_is_tried(run: Run, pooled: Path, tmp_path: Path) -> None:
    shape = ("--input-shape", "x:2~4,3,10~20,6~6")
    result = run("compile", pooled, "-o", tmp_path / "z.om", "--validate", *shape)
    assert result.exit_code == 0, result.stderr
    assert "was run with x[2, 3, 10, 6]" in result.stdout


def test_runs_find_sizes_too(run: Run, pooled: Path, tmp_path: Path) -> None:
    om = tmp_path / "z.om"
    assert run("compile", pooled, "-o", om).exit_code == 0
    for file in (om, pooled):
        result = run("run", file, "--check", pooled)
        assert result.exit_code == 0, result.stderr
        assert "f32[1, 3, 4, 4]" in result.stdout
        assert "f32[1, 3, 9, 4]" in run("run", file, "--dim", "H=9").stdout


def test_sizes_of_given_inputs_count(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.graph").write_text(
        "graph two:\n    opset 17\n    input a: f32[N, M]\n    input b: f32[N, M]\n    y = Add(a, b)\n"
        "    return y\n"
    )
    np.save(tmp_path / "a.npy", np.ones((3, 5), np.float32))
    result = run("run", tmp_path / "two.graph", "--input", f"a={tmp_path / 'a.npy'}", "--random")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("f32[3, 5]") == 3


def test_bisecting_and_the_ledger_find_sizes_too(run: Run, pooled: Path) -> None:
    result = run("ledger", pooled)
    assert result.exit_code == 0, result.stderr


def test_where_none_fits(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "stubborn.graph"
    model.write_text(STUBBORN)
    for arguments in (("run", model), ("compile", model, "-o", tmp_path / "z.om", "--validate")):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "error[E10048]" in result.stderr and "--dim" in result.stderr and "of_35" in result.stderr
        assert "x[1, 3]; x[2, 3]; x[4, 3]; ...; x[224, 3]" in result.stderr.replace("\n", " ")


def test_the_plan_of_any_shape_is_validated_too(run: Run, pooled: Path, tmp_path: Path) -> None:
    gears = ("--input-shape", "x:1,3,-1,-1", "--dynamic-image-size", "8,8;16,16")
    command = ("compile", pooled, "-o", tmp_path / "z.om", *gears, "--compile-hybrid-mode", "1", "--validate")
    result = run(*command)
    assert result.exit_code == 0, result.stderr
    assert "y in gear 16,16" in result.stdout and "y at x[1, 3, 9, 9], no gear" in result.stdout
