"""`gerules run`: the plan executed, inputs given or made up, outputs judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, save

from gerules.backend.om import read_om, write_om
from gerules.cli.feeds import make_feeds
from gerules.ir import DType, TensorType
from tests.cli.conftest import Run


def reference(model: Path, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def test_given_inputs_give_what_onnxruntime_gives(
    run_json: Callable[..., Any], om: Path, model: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal((2, 4)).astype(np.float32) for name in ("вход", "b")}
    np.savez(tmp_path / "all.npz", **feeds)
    for name, array in feeds.items():
        np.save(tmp_path / f"{name}.npy", array)
    want = reference(model, feeds)
    ways = (
        [str(tmp_path / "all.npz")],
        [f"вход={tmp_path / 'вход.npy'}", f"b={tmp_path / 'b.npy'}"],
    )
    for way in ways:
        out = tmp_path / "out.npz"
        options = [item for text in way for item in ("--input", text)]
        found = run_json("run", om, *options, "-o", out)
        assert {row["source"] for row in found["inputs"]} == {"file"}
        assert found["written"] == str(out)
        with np.load(out) as archive:
            np.testing.assert_allclose(archive["выход"], want, rtol=1e-6)
        assert found["outputs"][0]["max"] == pytest.approx(float(want.max()))


def test_a_single_input_needs_no_name(run_json: Callable[..., Any], stem: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x=1.npy", np.zeros((1, 3, 8, 8), np.float32))
    found = run_json("run", stem, "--input", tmp_path / "x=1.npy")
    assert found["inputs"][0]["source"] == "file"
    assert found["outputs"][0]["max"] == 4.0  # relu(k) where the picture is black


def test_made_up_inputs_follow_from_the_seed(run_json: Callable[..., Any], om: Path) -> None:
    first, again, other = (run_json("run", om, "--seed", seed)["outputs"] for seed in (3, 3, 4))
    assert first == again != other


def test_open_dimensions_are_one_or_what_is_asked(run_json: Callable[..., Any], stem: Path) -> None:
    assert run_json("run", stem)["outputs"][0]["type"] == "f32[1, 4, 8, 8]"
    assert run_json("run", stem, "--dim", "N=3")["outputs"][0]["type"] == "f32[3, 4, 8, 8]"


def test_made_up_integers_are_small_and_flags_are_flags(run_json: Callable[..., Any], tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    names = ("ids", "attention_mask")
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names],
        "g",
        [value(name, TensorProto.INT64, (1, 512)) for name in names],
        [value(f"{name}_out", TensorProto.INT64, (1, 512)) for name in names],
    )
    path = tmp_path / "ids.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = {row["name"]: row for row in run_json("run", path)["outputs"]}
    assert (found["ids_out"]["min"], found["ids_out"]["max"]) == (0, 7)
    assert (found["attention_mask_out"]["min"], found["attention_mask_out"]["max"]) == (0, 1)


@pytest.mark.parametrize("against", ["reference", "onnxruntime"])
def test_check_holds_for_a_sound_file(
    run_json: Callable[..., Any], om: Path, model: Path, against: str
) -> None:
    found = run_json("run", om, "--check", model, "--against", against, "--poison")
    check = found["check"]
    assert check["ok"] and check["against"] == against
    (row,) = check["outputs"]
    assert row["output"] == "выход" and row["rtol"] == 1e-4
    assert 0 <= row["max_rel"] <= 1e-6
    assert found["how"] == "by its plan, poisoned"


def test_tolerance_follows_the_precision_of_the_file(
    run_json: Callable[..., Any], run: Run, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "half.om"
    assert run("compile", model, "-o", path, "-d", "ascend910b", "--precision", "fp16").exit_code == 0
    check = run_json("run", path, "--check", model)["check"]
    assert check["outputs"][0]["rtol"] == 0.02
    assert check["rtol_reason"] == "the default for fp16"
    assert check["outputs"][0]["max_rel"] > 0  # half precision is not exact, or it was not half precision


def test_a_difference_is_exit_code_3(
    run: Run, run_json: Callable[..., Any], om: Path, model: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.om"
    weights = b"".join(bytes(part) for part in read_om(om).weights.chunks()).strip(b"\0")[:40]
    raw = bytearray(om.read_bytes())
    at = bytes(raw).find(weights)
    assert at > 0
    raw[at : at + 4] = np.float32(77).tobytes()
    broken.write_bytes(raw)
    result = run("run", broken, "--check", model)
    assert result.exit_code == 3, result.output
    assert "DIFFERENT" in result.stdout
    check = run_json("run", broken, "--check", model, code=3)["check"]
    assert not check["ok"] and check["outputs"][0]["max_rel"] > 1e-4


def test_a_tolerance_of_zero_is_kept(run: Run, om: Path, model: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.om"
    run("compile", model, "-o", half, "-d", "ascend910b", "--precision", "fp16")
    assert run("run", half, "--check", model, "--rtol", "0").exit_code == 3
    assert run("run", half, "--check", model, "--rtol", "0.5").exit_code == 0


def test_streams_and_launches(run_json: Callable[..., Any], om: Path, model: Path) -> None:
    found = run_json("run", om, "--streams", "--profile-ops", "--check", model)
    assert found["check"]["ok"]
    n_ops = sum(1 for task in read_om(om).tasks.tasks if task.kernel is not None)
    assert len(found["launches"]) == n_ops > 0
    assert all(row["took_us"] >= 0 and row["op"] for row in found["launches"])


def test_tables(run: Run, om: Path, model: Path) -> None:
    text = run("run", om, "--check", model, "--profile-ops").stdout
    for part in ("by its plan", "seed 0", "Time by operator", "longest launches", "Compared with", "ok"):
        assert part in text


def test_a_file_written_again_runs_the_same(run_json: Callable[..., Any], om: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.om"
    write_om(read_om(om), again)
    assert run_json("run", again)["outputs"] == run_json("run", om)["outputs"]


def test_onnxruntime_judges_graph_texts_too(
    run_json: Callable[..., Any], run: Run, stem: Path, tmp_path: Path
) -> None:
    out = tmp_path / "stem.om"
    assert run("compile", stem, "-o", out, "--dim", "N=2").exit_code == 0
    check = run_json("run", out, "--check", stem, "--against", "onnxruntime")["check"]
    assert check["ok"] and check["outputs"]


def test_made_up_masks_let_every_row_see_something() -> None:
    types = {
        "attention_mask": TensorType(DType.I64, (4, 64)),
        "keep_mask": TensorType(DType.BOOL, (4, 1, 64)),
        "mask_of_one": TensorType(DType.I64, ()),
        "ids": TensorType(DType.I64, (4, 64)),
    }
    feeds = make_feeds(types, {}, 0)
    for name in ("attention_mask", "keep_mask"):
        array = np.asarray(feeds[name])
        assert (array[..., 0] == 1).all() and set(np.unique(array)) == {0, 1}
    assert (np.asarray(feeds["ids"])[:, 0] != 1).any()


def test_sequences_are_run_compared_and_written(run: Run, tmp_path: Path) -> None:
    model, om, out = tmp_path / "seq.onnx", tmp_path / "seq.om", tmp_path / "out.npz"
    save(
        helper.make_model(
            helper.make_graph(
                [
                    helper.make_node("Neg", ["x"], ["n"]),
                    helper.make_node("SequenceConstruct", ["x", "n"], ["s"]),
                    helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
                ],
                "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                [
                    helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3]),
                    helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
                ],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        ),
        model,
    )
    for device, precision in (("host", "fp32"), ("ascend910b", "fp16")):
        result = run("compile", model, "-o", om, "-d", device, "--precision", precision)
        assert result.exit_code == 0, result.output
        for judge in ("reference", "onnxruntime"):
            result = run("run", om, "--check", model, "--against", judge, "-o", out)
            assert result.exit_code == 0, result.output
            assert "s[1]" in result.stdout
    with np.load(out) as arrays:
        assert sorted(arrays) == ["s[0]", "s[1]", "y"]
        np.testing.assert_allclose(arrays["s[0]"], -arrays["s[1]"], rtol=1e-2)


def test_files_that_hold_something_else_are_told_once(run: Run, stem: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", a=np.ones(1), b=np.ones(1))
    (tmp_path / "x.npy").write_text("not an array")
    for name, reason in (("all.npz", "it holds 2 arrays, not one"), ("x.npy", "it is no .npy file")):
        result = run("run", stem, "--input", f"x={tmp_path / name}")
        assert result.exit_code == 1 and reason in result.stderr
        assert result.stderr.count("E10001") == 1 and "Python objects" not in result.stderr


def test_a_size_may_be_zero(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "relu.graph"
    model.write_text("graph g:\n    opset 17\n    input x: f32[N, 2]\n    y = Relu(x)\n    return y\n")
    result = run("run", model, "--dim", "N=0")
    assert result.exit_code == 0, result.stderr
    assert "f32[0, 2]" in result.stdout
