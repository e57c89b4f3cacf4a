"""`gerules bisect` and `gerules ledger`: exit codes, texts, JSON and files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gerules.pipeline import bisect as search
from tests.cli.conftest import Run
from tests.pipeline.planted import written, wrong_rule


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A rule file with a rule that is wrong at one site."""
    path = tmp_path / "wrong.ger"
    path.write_text(wrong_rule("Relu", "r1", error="0.5").text, encoding="utf-8")
    return path


@pytest.fixture
def residual(tmp_path: Path) -> Path:
    """A chain of residual blocks."""
    return written(tmp_path, "residual")[0]


def test_a_wrong_rule_is_told_with_its_site_and_the_remedy(
    run: Run, residual: Path, wrong: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "fix"
    result = run("bisect", residual, "--rules", wrong, "-o", folder)
    assert result.exit_code == 3, result.output
    assert "1. rule wrong at r1 (phase custom)" in result.stdout
    assert "begins at r1: Relu, f32" in result.stdout or "begins at r1: Add, f32" in result.stdout
    assert "--disable wrong" in result.stdout and "within tolerance" in result.stdout
    switches = json.loads((folder / "fusion_switch.cfg").read_text(encoding="utf-8"))
    assert switches == {"Switch": {"GraphFusion": {"wrong": "off"}}}
    profile = folder / "bisected.ger"
    again = run("bisect", residual, "--rules", wrong, "--rules", profile, "--profile", "bisected")
    assert again.exit_code == 0 and "within tolerance" in again.stdout


def test_as_json(run_json: Callable[..., Any], residual: Path, wrong: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((1, 4, 8, 8), np.float32))
    target = ("-d", "ascend910b", "--precision", "fp32", "--rules", wrong)
    found = run_json("bisect", residual, *target, "--input", tmp_path / "in.npz", code=3)
    (cause,) = found["causes"]
    assert [(part["rule"], part["values"]) for part in cause["parts"]] == [("wrong", ["r1"])]
    assert found["is_remedied"] and found["written"] == [] and found["verdict"] == "found"


def test_within_tolerance(run: Run, residual: Path) -> None:
    result = run("bisect", residual, "--rtol", "1e-4")
    assert result.exit_code == 0 and result.stderr == ""
    assert "within tolerance, and so is the offline model run by its plan" in result.stdout


def test_an_interrupt_shows_the_best_so_far(
    run: Run, residual: Path, wrong: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "find_smallest", interrupt)
    result = run("bisect", residual, "--rules", wrong)
    assert result.exit_code == 130 and "interrupted: this is the smallest set" in result.stdout


def test_sigterm_shows_the_best_so_far_too(residual: Path, wrong: Path) -> None:
    code = f"""
import os, signal, sys
from gerules.cli.start import main
from gerules.pipeline import bisect as search

search.find_smallest = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
sys.argv[1:] = ["bisect", {str(residual)!r}, "--rules", {str(wrong)!r}]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 143 and "interrupted: this is the smallest set" in done.stdout, done.stderr


def test_faults_have_codes(run: Run, residual: Path, tmp_path: Path) -> None:
    for arguments, code in [
        ((tmp_path / "absent.onnx",), "E10001"),
        ((residual, "-d", "ascend999"), "E50010"),
        ((residual, "--against", "fp17"), "E50014"),
        ((residual, "--input", tmp_path / "absent.npz"), "E10001"),
        ((residual, "--dim", "N=2"), "E10"),
    ]:
        result = run("bisect", *arguments)
        assert result.exit_code == 1 and f"error[{code}" in result.stderr, result.output


def test_a_file_in_the_place_of_the_folder(run: Run, residual: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("", encoding="utf-8")
    result = run("bisect", residual, "-o", taken)
    assert result.exit_code == 1 and "error[E10004]" in result.stderr


def test_the_ledger(run: Run, run_json: Callable[..., Any], residual: Path) -> None:
    target = ("-d", "ascend910b", "--precision", "fp16")
    result = run("ledger", residual, *target, "--nodes", "3")
    assert result.exit_code == 0 and result.stderr == ""
    assert "Error added on residual for ascend910b, fp16" in result.stdout
    assert "The 3 nodes that add most" in result.stdout and "lowered" in result.stdout
    found = run_json("ledger", residual, *target)
    assert found["truth"] == "float64" and 0 < found["outputs"]["s2"] < 0.01
    assert {entry["cause"] for entry in found["entries"]} >= {"cast", "lowered"}


def test_what_validate_would_refuse_is_said(run: Run, residual: Path, tmp_path: Path) -> None:
    slight = tmp_path / "slight.ger"
    slight.write_text(wrong_rule("Relu", "r1", error="0.0005").text, encoding="utf-8")
    result = run("bisect", residual, "--rules", slight, "--rtol", "0.1")
    assert result.exit_code == 0
    assert "`compile --validate` allows 0.0001 for fp32: ask with --rtol 0.0001" in result.stdout


def test_a_switch_file_that_is_there_is_never_replaced(run: Run, residual: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / "fusion_switch.cfg"
    own.parent.mkdir()
    own.write_text("mine", encoding="utf-8")
    result = run("bisect", residual, "-o", own.parent)
    assert result.exit_code == 1
    assert "E10004" in result.stderr and "there is one already" in result.stderr
    assert own.read_text(encoding="utf-8") == "mine"
    file = run("bisect", residual, "-o", own)
    assert file.exit_code == 1 and "it is a file, and a folder is wanted" in file.stderr


def test_a_healthy_compile_in_float16_is_within_its_tolerance(run: Run, residual: Path) -> None:
    result = run("bisect", residual, "-d", "ascend910b", "--precision", "fp16")
    assert result.exit_code == 0, result.output
    assert "0.02 allowed (the default for fp16)" in result.stdout
