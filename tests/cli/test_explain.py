"""`gerules explain` and `gerules why`: reasons as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

NORM = """\
graph norm:
    opset 17
    input x: f32[1, 3, 8, 8]
    input B: f32[4]
    W: const f32[4, 3, 3, 3] = random(1)
    g: const f32[4] = fill(1.5)
    b: const f32[4] = fill(0.5)
    m: const f32[4] = fill(0.1)
    v: const f32[4] = fill(0.9)
    c = Conv(x, W, B)
    y = BatchNormalization(c, g, b, m, v)
    return y
"""


@pytest.fixture
def norm(tmp_path: Path) -> Path:
    """A convolution whose bias is computed, and its normalization."""
    path = tmp_path / "norm.graph"
    path.write_text(NORM, encoding="utf-8")
    return path


def test_one_rule_is_explained(run: Run, norm: Path) -> None:
    result = run("explain", norm, "--rule", "conv_bn")
    assert result.exit_code == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "conv_bn on norm for host, fp32, phase fold_weights: applied 0 times, not at 1 place tried"
    )
    assert "  1. 1 x at y: 2 of 2 operators matched" in lines
    assert "     `B?: const` is not a constant" in lines
    assert "     seen    B is f32[4], an input of the graph" in lines


def test_one_rule_as_json(run_json: Callable[..., Any], norm: Path) -> None:
    found = run_json("explain", norm, "--rule", "conv_bn", "--node", "y")
    assert found["rules"] == ["conv_bn"] and found["phases"] == ["fold_weights"]
    (group,) = found["groups"]
    assert group["node"] == "y" and group["outcome"] == "pattern" and group["count"] == 1
    assert run_json("explain", norm, "--rule", "conv_bn", "--node", "c")["groups"] == []


def test_without_a_rule_the_nearest_misses_come_first(run: Run, norm: Path) -> None:
    result = run("explain", norm)
    assert result.exit_code == 0
    rows = [line for line in result.stdout.splitlines() if "conv_bn" in line]
    assert len(rows) == 1 and "`B?: const` is not a constant" in rows[0]


def test_a_rule_that_is_off(run: Run, norm: Path) -> None:
    result = run("explain", norm, "--rule", "conv_bn", "--disable", "conv_bn")
    assert result.stdout == "conv_bn on norm for host, fp32: off: it is disabled by the name conv_bn\n"


def test_why_tells_the_chain(run: Run, run_json: Callable[..., Any], stem: Path) -> None:
    result = run("why", stem, "c", "--input-shape", "x=1,3,8,8")
    assert result.exit_code == 0 and result.stderr == ""
    text = result.stdout
    assert text.index("fold_weights: conv_bias") < text.index("fuse_ops: conv_relu")
    assert "inexact: the sum is rounded once instead of twice" in text
    found = run_json("why", stem, "s", "--input-shape", "x=1,3,8,8")
    assert [step["rule"] for step in found["steps"]] == ["conv_bias", "conv_relu"]
    assert found["origins"] == ["c: Conv", "s: Add", "y: Relu"]


@pytest.mark.parametrize(
    ("arguments", "code", "note"),
    [
        (("explain", "--rule", "conv_bm"), "E40052", "did you mean conv_bn?"),
        (("explain", "--rule", "conv_bn", "--node", "yy"), "E10006", "did you mean y?"),
        (("why", "cc"), "E10006", "did you mean c?"),
    ],
)
def test_unknown_names_are_faults(
    run: Run, norm: Path, arguments: tuple[str, ...], code: str, note: str
) -> None:
    command, *rest = arguments
    result = run(command, norm, *rest)
    assert result.exit_code == 1 and result.stdout == ""
    assert code in result.stderr and note in result.stderr
