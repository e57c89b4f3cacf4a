"""Gears on the command line: ATC's spelling, what is told of them, and every fault with its remedy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import STEM, Run

SHAPE = ("--input-shape", "x:-1,3,8,8")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "stem.graph"
    path.write_text(STEM)
    return path


@pytest.fixture
def om(run: Run, model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "stem.om"
    result = run("compile", model, "-o", path, *SHAPE, "--dynamic-batch-size", "1,2,4", "--validate")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count(" ok") == 3  # validated in each gear
    return path


def test_gears_are_reported(run: Run, model: Path, tmp_path: Path) -> None:
    options = ("--input_shape", "x:-1,3,8,8", "--dynamic_batch_size", "1,2,4", "--compile_hybrid_mode", "1")
    result = run("compile", model, "-o", tmp_path / "m.om", *options)
    assert result.exit_code == 0, result.stderr
    assert "gear 4" in result.stdout.splitlines()[0]
    lines = result.stdout[result.stdout.index("\nGears\n") :].splitlines()
    rows = [line.split() for line in lines if line.startswith(("1 ", "2 ", "4 ", "any "))]
    assert [row[0] for row in rows] == ["1", "2", "4", "any"]
    assert "x[4, 3, 8, 8]" in result.stdout and "any shape" in result.stdout
    found = json.loads(run("compile", model, "-o", tmp_path / "m.om", *options, "--json").stdout)
    gears = found["summary"]["gears"]
    assert [gear["gear"] for gear in gears] == ["1", "2", "4", "any"]
    assert found["summary"]["peak_bytes"] == gears[2]["peak_bytes"] > gears[1]["peak_bytes"] > 0
    assert gears[0]["shapes"] == {"x": [1, 3, 8, 8]} and gears[3]["shapes"] == {}
    assert all(gear["took_us"] > 0 for gear in gears)
    assert {stage.get("gear") for stage in found["stages"]} == {"1", "2", "4", "any", None}


def test_inputs_choose_a_gear(run: Run, model: Path, om: Path, tmp_path: Path) -> None:
    for arguments, gear in (
        ((), "1"), (("--gear", "2"), "2"), (("--dim", "N=4"), "4"), (("--gear", " 4"), "4"),
    ):  # fmt: skip
        result = run("run", om, "--random", *arguments, "--check", model)
        assert result.exit_code == 0, result.stderr
        assert f"by its plan, gear {gear}," in result.stdout.splitlines()[0]
        assert f"f32[{gear}, 3, 8, 8]" in result.stdout
    np.save(tmp_path / "x.npy", np.ones((2, 3, 8, 8), np.float32))
    assert "gear 2" in run("run", om, "--input", f"x={tmp_path / 'x.npy'}").stdout


def test_a_shape_that_is_no_gear(run: Run, om: Path) -> None:
    result = run("run", om, "--random", "--dim", "N=3")
    assert result.exit_code == 1
    assert "error[E20008]: the model was not compiled for x[3, 3, 8, 8]" in result.stderr
    assert "batch 1, 2, 4" in result.stderr and "gear 4: x[4, 3, 8, 8]" in result.stderr
    assert "--compile-hybrid-mode 1" in result.stderr
    result = run("run", om, "--gear", "3")
    assert result.exit_code == 1 and "E10003" in result.stderr and "1; 2; 4" in result.stderr


def test_a_model_of_one_shape(run: Run, model: Path, tmp_path: Path) -> None:
    om = tmp_path / "one.om"
    assert run("compile", model, "-o", om, "--input-shape", "x=2,3,8,8").exit_code == 0
    np.save(tmp_path / "x.npy", np.ones((6, 3, 8, 8), np.float32))
    result = run("run", om, "--input", f"x={tmp_path / 'x.npy'}")
    assert result.exit_code == 1
    assert (
        "error[E20008]: the model was not compiled for x[6, 3, 8, 8]; it was for one shape, x[2, 3, 8, 8]"
        in (result.stderr)
    )
    assert '--input-shape "x:-1,3,8,8" --dynamic-batch-size 2,6' in result.stderr
    # What it says helps.
    options = ("--input-shape", "x:-1,3,8,8", "--dynamic-batch-size", "2,6")
    assert run("compile", model, "-o", om, *options).exit_code == 0
    assert run("run", om, "--input", f"x={tmp_path / 'x.npy'}").exit_code == 0


def test_show_lists_gears(run: Run, om: Path) -> None:
    text = run("show", om).stdout
    assert "# gear batch 1, arena " in text and "# gear batch 4, arena " in text
    assert "ge::MapIndex(ascend_mbatch_shape_data" in text and "Batch_2:" in text


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        (("--dynamic-batch-size", "4"), ["E10035"]),
        (("--dynamic-batch-size", "1,1,0,x"), ["E10038", "E10039", "E10073"]),
        (("--dynamic-image-size", "8,8;9,9"), ["E10072"]),
        (("--dynamic-dims", "1,2;3,4"), ["E10076"]),
        (("--dynamic-batch-size", "1,2", "--dynamic-dims", "1;2"), ["E10070"]),
        (("--compile-hybrid-mode", "1"), ["E10003"]),
    ],
)
def test_faults_of_options(
    run: Run, model: Path, tmp_path: Path, options: tuple[str, ...], codes: list[str]
) -> None:
    result = run("compile", model, "-o", tmp_path / "no.om", *SHAPE, *options)
    assert result.exit_code == 1
    found = sorted(line[6:12] for line in result.stderr.splitlines() if line.startswith("error["))
    assert found == codes
    assert result.stderr.count("= hint: ") == len(codes)
    assert not (tmp_path / "no.om").exists()


def test_a_gear_beyond_the_memory(run: Run, model: Path, tmp_path: Path) -> None:
    options = ("--dynamic-batch-size", "1,2,4", "--memory-limit", "4KiB")
    result = run("compile", model, "-o", tmp_path / "no.om", *SHAPE, *options)
    assert result.exit_code == 1
    assert "error[E60003]" in result.stderr and "in the gear 4" in result.stderr
    assert "shrink the batch" in result.stderr


def test_hints_name_what_is_to_be_changed(run: Run, model: Path, tmp_path: Path) -> None:
    def said(*options: object) -> str:
        result = run("compile", model, "-o", tmp_path / "m.om", *options)
        assert result.exit_code == 1
        return result.stderr

    assert "--dim N=4 fixes" in said("--dynamic-batch-size", "1,2", "--dim", "N=4")
    assert "write -1 for" in said("--dynamic-batch-size", "1,2", "--input-shape", "x:1~4,3,8,8")
    assert "2**31 - 1" in said("--dynamic-batch-size", f"1,{2**40}", *SHAPE)
    assert "the ends of 8~2 are swapped: write 2~8" in said("--input-shape", "x:8~2,3,8,8")


def test_a_fault_of_some_gears_names_them(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "even.graph"
    model.write_text(
        "graph even:\n    opset 17\n    input x: f32[N, 4]\n    k: const i64[2] = [2, 4]\n"
        "    y = Reshape(x, k)\n    return y\n"
    )
    result = run("compile", model, "-o", tmp_path / "m.om", "--dynamic-batch-size", "1,2")
    assert result.exit_code == 1 and "E30002" in result.stderr and "in the gear 1" in result.stderr


def test_an_om_is_no_source(run: Run, om: Path) -> None:
    before = om.read_bytes()
    result = run("compile", om)
    assert result.exit_code == 1 and "E10002" in result.stderr and "compiled already" in result.stderr
    assert om.read_bytes() == before
