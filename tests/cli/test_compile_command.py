"""`gerules compile`: the table, the JSON, the files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gerules
from gerules.backend.om import read_om
from gerules.frontends import load_graph_text
from gerules.pipeline import shipped_rules, stage_names
from gerules.report.quantities import bytes_text
from gerules.runtime.reference import evaluate
from tests.cli.conftest import Run


def test_table_has_every_stage_and_the_sum(run: Run, model: Path, tmp_path: Path) -> None:
    result = run("compile", model, "-o", tmp_path / "out.om")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "klein for host, fp32"
    stages = [line.split()[0] for line in lines[3:] if line and line[0] != " "]
    names = list(stage_names(shipped_rules()))
    assert stages[: len(names)] == names
    size = (tmp_path / "out.om").stat().st_size
    assert f"out.om, {bytes_text(size)}\n" in result.stdout
    assert result.stderr == ""
    assert not any(line != line.rstrip() for line in lines)


def test_json_says_the_same_as_the_library(run_json: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.om"
    found = run_json("compile", model, "-o", path, "--device", "ascend910b", "--precision", "fp16")
    compiled = gerules.compile(model, device="ascend910b", precision="fp16")
    want = compiled.summary().as_json()
    took = found["summary"].pop("took_us"), want.pop("took_us")
    assert all(isinstance(one, float) and one > 0 for one in took)
    assert found["summary"] == want
    assert [stage["stage"] for stage in found["stages"]] == [stage.name for stage in compiled.stages]
    assert found["output"] == {"path": str(path), "size_bytes": path.stat().st_size}
    assert found["warnings"] == [] and found["dumped"] == []
    assert len(read_om(path).root.ops) > 0


def test_default_output_takes_the_name_of_the_model(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("compile", model).exit_code == 0
    assert (tmp_path / "модель.om").is_file()


def test_dumped_stages_can_be_read_back_and_mean_the_same(run: Run, stem: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    result = run("compile", stem, "-o", tmp_path / "out.om", "--dump", folder, "--dim", "N=2")
    assert result.exit_code == 0, result.output
    files = sorted(folder.glob("*.graph"))
    names = [re.sub(r"^\d+_", "", path.stem) for path in files]
    assert names == list(stage_names(shipped_rules()))
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)}
    (want,) = evaluate(gerules.load(stem), feeds).values()
    for path in files[:3]:
        (got,) = evaluate(load_graph_text(path), feeds).values()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_switches_reach_the_compile(run_json: Callable[..., Any], stem: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.om"
    base = run_json("compile", stem, "-o", out, "--input-shape", "x=1,3,8,8")
    assert base["summary"]["fusions"] == {"conv_bias": 1, "conv_relu": 1}
    less = run_json("compile", stem, "-o", out, "--input-shape", "x=1,3,8,8", "--disable", "conv_relu")
    assert less["summary"]["fusions"] == {"conv_bias": 1}
    none = run_json("compile", stem, "-o", out, "--dim", "N=1", "--disable", "fuse", "--disable", "fold")
    assert none["summary"]["fusions"] == {}


def test_own_rules_and_parameters(run_json: Callable[..., Any], stem: Path, tmp_path: Path) -> None:
    rules = tmp_path / "own.ger"
    rules.write_text(
        "gerules 1\nparam relu_wanted = true\n"
        'rule relu_to_max in canonical "A Relu is a Max with zero":\n'
        '    when $relu_wanted else "it is not wanted"\n'
        "    match: y = Relu(x)\n    rewrite: y = Max(x, 0.0)\n",
        encoding="utf-8",
    )
    common = ("compile", stem, "-o", tmp_path / "out.om", "--dim", "N=1", "--rules", rules)
    assert run_json(*common)["summary"]["fusions"]["relu_to_max"] == 1
    off = run_json(*common, "--set", "relu_wanted=false")
    assert "relu_to_max" not in off["summary"]["fusions"]


def test_nothing_is_left_when_a_compile_fails(run: Run, model: Path, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    result = run("compile", model, "-o", tmp_path / "out.om", "--input-shape", "b=3,9")
    assert result.exit_code == 1
    assert "error[E1004" in result.stderr and result.stdout == ""
    assert set(tmp_path.iterdir()) == before


def test_validation_runs_what_was_written(
    run: Run, run_json: Callable[..., Any], stem: Path, tmp_path: Path
) -> None:
    common = ("compile", stem, "-o", tmp_path / "out.om", "--dim", "N=2", "-d", "ascend910b", "--validate")
    check = run_json(*common)["check"]
    assert check["ok"] and check["outputs"][0]["type"] == "f32[2, 4, 8, 8]"
    assert "Compared with" in run(*common).stdout


def test_a_compile_that_changes_the_meaning_is_exit_code_3(run: Run, stem: Path, tmp_path: Path) -> None:
    rules = tmp_path / "wrong.ger"
    rules.write_text("gerules 1\nrule wrong in canonical: Relu(x) => Neg(x)\n", encoding="utf-8")
    command = ("compile", stem, "-o", tmp_path / "out.om", "--dim", "N=1", "--rules", rules)
    assert run(*command).exit_code == 0
    result = run(*command, "--validate")
    assert result.exit_code == 3 and "DIFFERENT" in result.stdout


def test_limits_reach_the_plan(run: Run, run_json: Callable[..., Any], stem: Path, tmp_path: Path) -> None:
    command = ("compile", stem, "-o", tmp_path / "out.om", "--dim", "N=1")
    peak = run_json(*command)["summary"]["peak_bytes"]
    assert run(*command, "--memory-limit", peak).exit_code == 0
    result = run(*command, "--memory-limit", peak - 1)
    assert result.exit_code == 1 and "error[E60003]" in result.stderr
    assert run(*command, "--memory-limit", "1.5MiB", "--streams", 2).exit_code == 0


def test_switches_may_stand_in_one_option(run_json: Callable[..., Any], stem: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.om"
    one = run_json("compile", stem, "-o", out, "--disable", "conv_bias, conv_add,conv_add_relu")
    many = run_json(
        "compile",
        stem,
        "-o",
        out,
        "--disable",
        "conv_bias",
        "--disable",
        "conv_add",
        "--disable",
        "conv_add_relu",
    )
    assert one["summary"]["fusions"] == many["summary"]["fusions"]
    assert "conv_bias" not in one["summary"]["fusions"]


@pytest.mark.parametrize("ending", [".onnx", ".graph", ".ger"])
def test_an_om_is_not_written_under_another_ending(run: Run, stem: Path, tmp_path: Path, ending: str) -> None:
    result = run("compile", stem, "-o", tmp_path / f"out{ending}")
    assert result.exit_code == 1 and "E10003" in result.stderr and ".om" in result.stderr
    assert not (tmp_path / f"out{ending}").exists()
