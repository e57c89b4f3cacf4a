"""Every way a command can fail: a code, an exit code, no traceback, and the same as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import gerules
from gerules.cli.app import app
from tests.cli.conftest import STEM, Run


def codes(text: str) -> list[str]:
    return re.findall(r"^error\[(E\d{5})\]", text, re.MULTILINE)


def fails(run: Run, code: str, *arguments: object) -> str:
    """The command ends with this code, in words and as JSON, with nothing on the other stream."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert code in codes(result.stderr), result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr and "E90001" not in result.stderr
    as_json = run(*arguments, "--json")
    assert as_json.exit_code == 1
    assert [item["code"] for item in json.loads(as_json.stdout)["errors"]] == codes(result.stderr)
    assert as_json.stderr == ""
    return result.stderr


COMMANDS = [("compile",), ("run",), ("show",), ("phase", "fusion")]


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_file(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    text = fails(run, "E10001", *command, tmp_path / "nichts.onnx")
    assert "nichts.onnx cannot be read: No such file or directory" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_folder_in_place_of_a_file(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    fails(run, "E10001", *command, tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_file_of_no_known_kind(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    fails(run, "E10002", *command, path)


@pytest.mark.parametrize("command", COMMANDS)
def test_truncated_onnx(run: Run, model: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(model.read_bytes()[:60])
    fails(run, "E10010", *command, path)


@pytest.mark.parametrize("command", COMMANDS)
def test_truncated_graph_text(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "cut.graph"
    path.write_text(STEM[: STEM.index("pads")], encoding="utf-8")
    text = fails(run, "E40001", *command, path)
    assert "cut.graph:6:" in text and "^" in text


@pytest.mark.parametrize("command", ["run", "show"])
@pytest.mark.parametrize("n_bytes", [0, 3, 100, 300, 2000])
def test_truncated_om(run: Run, om: Path, tmp_path: Path, command: str, n_bytes: int) -> None:
    path = tmp_path / "cut.om"
    path.write_bytes(om.read_bytes()[:n_bytes])
    result = run(command, path)
    assert result.exit_code == 1
    assert codes(result.stderr)[0].startswith("E8")


@pytest.mark.parametrize(("command", "summary"), [("check", "1 file, 0 rules: 1 error\n"), ("test", "")])
def test_faulty_rules(run: Run, tmp_path: Path, command: str, summary: str) -> None:
    path = tmp_path / "own.ger"
    path.write_text("gerules 1\nrule a in x:\n    match: y = Relu(x\n", encoding="utf-8")
    result = run("rules", command, path)
    assert result.exit_code == 1 and codes(result.stderr) == ["E40001"]
    assert "own.ger:" in result.stderr and "^" in result.stderr
    assert result.stdout == summary


def test_faulty_rules_of_a_compile_tell_every_fault(run: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.ger"
    path.write_text(
        "gerules 1\nrule a in x: Relu(x) => Rellu(x)\nrule b in x: Relu(x) => Sigmoid(z)\n", encoding="utf-8"
    )
    text = fails(run, "E40003", "compile", model, "-o", tmp_path / "o.om", "--rules", path)
    assert len(codes(text)) >= 2 and "Rellu" in text and "own.ger:3:" in text


def test_rules_that_cannot_be_compiled_stop_a_compile_that_does_not_need_them(
    run: Run, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.ger"
    path.write_text(
        "gerules 1\nrule apart in x:\n    match:\n        y = Tan(x)\n        z = Atan(w)\n"
        "    rewrite:\n        y = Tan(w)\n        z = Atan(x)\n",
        encoding="utf-8",
    )
    text = fails(run, "E40035", "compile", model, "-o", tmp_path / "o.om", "--rules", path)
    assert "own.ger:5:9" in text


@pytest.mark.parametrize(
    "command",
    [("compile", "{model}"), ("show", "{model}", "--stage", "prepare"), ("phase", "fusion", "{model}"),
     ("rules", "list")],
)  # fmt: skip
def test_unknown_device_with_the_nearest(run: Run, model: Path, command: tuple[str, ...]) -> None:
    arguments = [item.format(model=model) for item in command]
    text = fails(run, "E50010", *arguments, "--device", "ascend910")
    assert "did you mean ascend910" in text


def test_unknown_switches_are_told_together(run: Run, model: Path) -> None:
    text = fails(run, "E40120", "compile", model, "--enable", "conv_bia", "--disable", "nix", "--set", "q=1")
    assert len(codes(text)) == 3
    assert "did you mean conv_bias?" in text and "set cannot be $q: there is no such parameter" in text
    assert "enable cannot be conv_bia:" in text and "disable cannot be nix:" in text


def test_unknown_profile_and_precision(run: Run, model: Path) -> None:
    text = fails(run, "E40120", "compile", model, "--profile", "strikt")
    assert "profile cannot be strikt: there is no such profile" in text and "did you mean strict?" in text
    assert "use one of blocks, fp16, fp32, " in text
    fails(run, "E50014", "compile", model, "--profile", "fp32", "--precision", "fp17")


def test_unknown_stage_and_phase(run: Run, model: Path) -> None:
    assert "fuse_ops" in fails(run, "E40051", "show", model, "--stage", "fuse_op")
    assert "did you mean fusion?" in fails(run, "E40050", "phase", "fusio", model)


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("--input-shape", "b", "E10040"),
        ("--input-shape", "b=2,x", "E10040"),
        ("--input-shape", "c=2,4", "E10041"),
        ("--input-shape", "b=2,4,1", "E10042"),
        ("--input-shape", "b=3,4", "E10043"),
        ("--input-shape", "b=0,4", "E10044"),
        ("--dim", "N", "E10003"),
        ("--dim", "N=zwei", "E10003"),
        ("--dim", "N=0", "E10003"),
        ("--dim", "N=4", "E10046"),
        ("--set", "allow_inexact", "E10003"),
        ("--set", "=1", "E10003"),
        ("--memory-limit", "0", "E10003"),
        ("--memory-limit", "viel", "E10003"),
        ("--memory-limit", "1e400", "E10003"),
    ],
)  # fmt: skip
def test_bad_values_of_compile(run: Run, model: Path, option: str, value: str, code: str) -> None:
    fails(run, code, "compile", model, option, value)


@pytest.mark.parametrize("output", ["nowhere/out.om", "", "."])
def test_unwritable_output_is_found_before_the_work(
    run: Run, model: Path, tmp_path: Path, output: str
) -> None:
    fails(run, "E10004", "compile", model, "-o", tmp_path / output)
    assert not (tmp_path / "nowhere").exists()


def test_unwritable_outputs_of_other_commands(run: Run, model: Path, om: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    fails(run, "E10004", "show", model, "-o", blocked / "x.graph")
    fails(run, "E10004", "phase", "fusion", model, "-o", blocked / "x.graph")
    fails(run, "E10004", "run", om, "-o", blocked / "x.npz")
    fails(run, "E10004", "compile", model, "-o", tmp_path / "x.om", "--dump", blocked / "stages")
    fails(run, "E10004", "demo", "-o", blocked / "demo")


def test_a_name_that_no_file_can_have(run: Run, model: Path, tmp_path: Path) -> None:
    fails(run, "E10004", "compile", model, "-o", tmp_path / ("x" * 300 + ".om"))
    fails(run, "E10001", "show", tmp_path / ("x" * 300))


def test_inputs_that_do_not_fit(run: Run, om: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", np.zeros((1, 4), np.float32))
    np.save(tmp_path / "wide.npy", np.zeros((2, 4), np.float64))
    np.save(tmp_path / "good.npy", np.zeros((2, 4), np.float32))
    np.save(tmp_path / "flat.npy", np.zeros(8, np.float32))
    good, small, wide, flat = (tmp_path / f"{name}.npy" for name in ("good", "small", "wide", "flat"))
    fails(run, "E20001", "run", om, "--input", f"b={good}")
    fails(run, "E20002", "run", om, "--input", f"c={good}", "--random")
    fails(run, "E20008", "run", om, "--input", f"b={small}", "--random")
    fails(run, "E20004", "run", om, "--input", f"b={flat}", "--random")
    fails(run, "E20003", "run", om, "--input", f"b={wide}", "--random")
    fails(run, "E10001", "run", om, "--input", f"b={tmp_path / 'none.npy'}")
    fails(run, "E10001", "run", om, "--input", f"b={om}")
    fails(run, "E10003", "run", om, "--input", str(good))
    fails(run, "E10003", "run", om, "--input", f"b={good}", "--input", f"b={good}")


def test_hostile_arrays(run: Run, om: Path, tmp_path: Path) -> None:
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999), }"
    huge = tmp_path / "huge.npy"
    huge.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    fails(run, "E10001", "run", om, "--input", f"b={huge}")
    pickled = tmp_path / "pickled.npy"
    np.save(pickled, np.array([{"a": 1}], object), allow_pickle=True)
    fails(run, "E10001", "run", om, "--input", f"b={pickled}")
    cut = tmp_path / "cut.npz"
    np.savez(cut, b=np.zeros((2, 4), np.float32))
    cut.write_bytes(cut.read_bytes()[:-40])
    fails(run, "E10001", "run", om, "--input", cut)


def test_what_run_cannot_do(run: Run, model: Path, om: Path, stem: Path) -> None:
    fails(run, "E10003", "run", model, "--poison")
    fails(run, "E10003", "run", model, "--streams")
    fails(run, "E10003", "run", model, "--profile-ops")
    fails(run, "E10003", "run", om, "--check", model, "--against", "somebody")
    fails(run, "E10003", "run", om, "--dim", "N=2")
    fails(run, "E10001", "run", om, "--check", model.with_name("gone.onnx"))
    fails(run, "E10003", "run", om, "--check", stem, "--against", "onnxruntime")


def test_an_om_is_no_source_to_compile(run: Run, om: Path, tmp_path: Path) -> None:
    fails(run, "E10002", "compile", om, "-o", tmp_path / "again.om")
    fails(run, "E10002", "phase", "fusion", om)


def test_unknown_rule_and_set(run: Run) -> None:
    assert "did you mean conv_bias?" in fails(run, "E10003", "rules", "test", "--rule", "conv_bia")
    assert "did you mean fuse?" in fails(run, "E10003", "rules", "list", "--set", "fuze")


@pytest.mark.parametrize(
    "arguments",
    [("compile",), ("run",), ("run", "x.om", "--seed", "a"), ("run", "x.om", "--seed", "-1"),
     ("run", "x.om", "--rtol", "-1"), ("phase", "x"), ("rules",), ("compile", "x", "--nonsense")],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_our_own_fault_is_a_code_and_debug_shows_where(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a slip of ours")

    monkeypatch.setattr("gerules.pipeline.load", broken)
    result = run("show", model)
    assert result.exit_code == 1
    assert codes(result.stderr) == ["E90001"] and "Traceback" not in result.stderr
    assert "KeyError: 'a slip of ours'" in result.stderr and "--debug" in result.stderr
    assert "Traceback" in run("show", model, "--debug").stderr


def test_a_model_that_nothing_can_run_names_every_operator(run: Run, tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Fancy", ["x"], ["h"], domain="acme"),
        onnx.helper.make_node("Plain", ["h"], ["y"], domain="acme"),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, (2,))], [value("y", 1, (2,))])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("acme", 1)]
    path = tmp_path / "acme.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    text = fails(run, "E50001", "compile", path, "-o", tmp_path / "o.om")
    assert "Fancy" in text and "Plain" in text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([("show",), ("run",), ("phase", "fusion")]),
    st.sampled_from(["om", "onnx", "graph"]),
    st.lists(
        st.tuples(st.integers(0, 1 << 20), st.binary(max_size=3), st.booleans()), min_size=1, max_size=4
    ),
)
def test_damaged_files_end_in_a_code(
    samples: dict[str, bytes], tmp_path: Path, command: tuple[str, ...], kind: str,
    damages: list[tuple[int, bytes, bool]],
) -> None:  # fmt: skip
    raw = bytearray(samples[kind])
    for place, data, is_cut in damages:
        at = place % (len(raw) + 1)
        raw[at : at + len(data)] = data
        if is_cut and not data:
            del raw[at:]
    path = tmp_path / f"damaged.{kind}"
    path.write_bytes(raw)
    result = CliRunner().invoke(app, [*command, str(path)])
    assert result.exit_code in (0, 1)
    assert "Traceback" not in result.stderr and "E90001" not in result.stderr


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """One small file of each kind."""
    folder = tmp_path_factory.mktemp("samples")
    text, om, model = (folder / f"stem.{kind}" for kind in ("graph", "om", "onnx"))
    text.write_text(STEM, encoding="utf-8")
    gerules.save(gerules.load(text), model)
    gerules.compile(text, dims={"N": 1}).save(om)
    return {"graph": text.read_bytes(), "om": om.read_bytes(), "onnx": model.read_bytes()}
