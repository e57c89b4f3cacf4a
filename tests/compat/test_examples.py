"""The scripts in examples/compat run, and print what they should."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import gerules
from gerules.compat.ge.passes.registry import unregister_fusion_pass
from gerules.pipeline.explain import explain
from tests.compat.acl_session import OPEN, SCALE, TWO, build

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "compat"


def run(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Run a script as the shell would."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(FOLDER / name), run_name="__main__")


def test_every_script_is_run_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    names = [path.name for path in FOLDER.glob("*.py") if not path.name.startswith("torchair_")]
    assert [name for name in names if f'"{name}"' not in text] == []


def test_inference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("acl_inference.py", monkeypatch, build(TWO, tmp_path / "two.om"))
    assert capsys.readouterr().out.splitlines() == [
        "input  a [2, 3]",
        "input  b [3]",
        "output c [2, 3] mean 2.0",
        "output d [3] mean 1.0",
    ]


def test_async(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("acl_async.py", monkeypatch, build(SCALE, tmp_path / "scale.om"))
    assert capsys.readouterr().out.splitlines() == [f"run {at}: sum {20 * at}" for at in range(6)]


def test_dynamic_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gerules.compile(gerules.parse_graph(OPEN), dynamic_batch_size="1,4").save(tmp_path / "open.om")
    run("acl_dynamic_batch.py", monkeypatch, tmp_path / "open.om")
    assert capsys.readouterr().out.splitlines() == [
        "batches [1, 4]",
        "batch 1 gives [1, 4]",
        "batch 4 gives [4, 4]",
    ]


def test_what_ge_builds_acl_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("ge_build.py", monkeypatch, tmp_path / "net")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(f"net.om: {(tmp_path / 'net.om').stat().st_size} bytes")
    assert all(re.fullmatch(r" *\d+ +\d+ bytes, steps -?\d+ to -?\d+: .+", line) for line in lines[1:])
    assert len(lines) > 3
    run("acl_inference.py", monkeypatch, tmp_path / "net.om")
    # Ten probabilities.
    mean = float(capsys.readouterr().out.split("mean")[-1])
    assert mean == pytest.approx(0.1, rel=1e-4)


def test_a_pass_runs_and_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        run("ge_pass.py", monkeypatch)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "product_and_sum_pass_sum: MatMul_0: MatMul, Add_0: Add"
        assert lines[-1] == "[[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]]"
    finally:
        unregister_fusion_pass("ProductAndSumPass")
    graph = """graph batched:
    opset 17
    input a: f32[2, 3, 4]
    input b: f32[2, 4, 5]
    input c: f32[5]
    p = MatMul(a, b)
    y: f32[2, 3, 5] = Add(p, c)
    return y
"""
    try:
        found = explain(
            gerules.parse_graph(graph), rule="product_and_sum_pass_sum", rules=(FOLDER / "ge_pass.py",)
        )
        assert "meet_requirements of ProductAndSumPass says no" in str(found.as_json())
    finally:
        unregister_fusion_pass("ProductAndSumPass")
