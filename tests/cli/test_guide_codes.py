"""Codes that guides tell users to look for: each arises where it says, and its remedy removes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench import zoo
from tests.cli.conftest import STEM, Run


def write(
    path: Path, nodes: list[onnx.NodeProto], shape: list[int], weight: np.ndarray, opset: int = 17
) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    init = [numpy_helper.from_array(weight.astype(np.float32), "w")]
    graph = helper.make_graph(nodes, "g", [x], [y], init)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_an_operator_that_nothing_runs(run: Run, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relo", ["x"], ["a"]), helper.make_node("Add", ["a", "w"], ["b"]),
        helper.make_node("Relo", ["b"], ["c"]), helper.make_node("Gelu", ["c"], ["y"]),
    ]  # fmt: skip
    model = write(tmp_path / "m.onnx", nodes, [1, 4], np.ones(4))
    result = run("compile", model, "-o", tmp_path / "m.om")
    assert result.exit_code == 1
    assert "error[E50001]: OpType Relo not supported (2 nodes)" in result.stderr
    assert "error[E50001]: OpType Gelu not supported (1 node)" in result.stderr  # it is of opset 20
    assert result.stderr.count("= hint: ") == 2
    assert not (tmp_path / "m.om").exists()


def test_a_plan_beyond_the_memory(run: Run, tmp_path: Path) -> None:
    model = zoo.path("light_squeezenet")
    result = run("compile", model, "-o", tmp_path / "m.om", "--memory-limit", "1MiB")
    assert result.exit_code == 1
    line = next(line for line in result.stderr.splitlines() if "error[E60003]" in line)
    assert "but the arena holds 1048576" in line
    assert "shrink the batch" in result.stderr and "--memory-limit" in result.stderr
    assert run("compile", model, "-o", tmp_path / "m.om", "--memory-limit", "64MiB").exit_code == 0


@pytest.mark.parametrize(
    ("op", "shape", "weight", "at", "perm"),
    [
        ("Conv", [1, 9, 7, 3], (8, 3, 2, 2), "0 (X)", [0, 3, 1, 2]),
        ("Conv", [1, 3, 9, 7], (2, 2, 3, 8), "1 (W)", [3, 2, 0, 1]),
        ("Conv", [1, 3, 9, 7], (8, 2, 2, 3), "1 (W)", [0, 3, 1, 2]),
        ("MatMul", [2, 4], (5, 4), "1 (B)", [1, 0]),
        ("Gemm", [2, 4], (5, 4), "1 (B)", [1, 0]),
        ("Add", [1, 3, 9, 7], (1, 9, 7, 3), "1 (B)", [0, 3, 1, 2]),
    ],
)
def test_axes_in_another_order(
    run: Run, tmp_path: Path, op: str, shape: list[int], weight: tuple[int, ...], at: str, perm: list[int]
) -> None:
    node = helper.make_node(op, ["x", "w"], ["y"], name="here")
    model = write(tmp_path / "m.onnx", [node], shape, np.ones(weight))
    result = run("compile", model, "-o", tmp_path / "m.om")
    assert result.exit_code == 1
    assert f"error[E30012]: here ({op}): " in result.stderr
    assert f"insert a Transpose with perm={perm} before input {at} of here" in result.stderr
    # What it says helps.
    place = int(at[0])
    names = ["x", "w"]
    turn = helper.make_node("Transpose", [names[place]], ["t"], perm=perm)
    names[place] = "t"
    node = helper.make_node(op, names, ["y"], name="here")
    model = write(tmp_path / "m.onnx", [turn, node], shape, np.ones(weight))
    result = run("compile", model, "-o", tmp_path / "m.om", "--validate")
    assert result.exit_code == 0, result.stderr


def test_shapes_that_fit_in_no_order(run: Run, tmp_path: Path) -> None:
    for op, shape, weight in (("Conv", [1, 5, 9, 7], (8, 3, 2, 2)), ("MatMul", [2, 4], (5, 6))):
        node = helper.make_node(op, ["x", "w"], ["y"])
        model = write(tmp_path / "m.onnx", [node], shape, np.ones(weight))
        result = run("compile", model, "-o", tmp_path / "m.om")
        assert result.exit_code == 1 and "error[E30002]" in result.stderr and "Transpose" not in result.stderr


def test_a_shape_that_the_model_was_not_compiled_for(run: Run, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    feed = ("--input", f"x={tmp_path / 'x.npy'}")
    model, om = tmp_path / "m.onnx", tmp_path / "m.om"
    for options, told in (
        (("--input-shape", "x:2,4"), "one shape, x[2, 4]"),
        (("--dynamic-batch-size", "1,2"), "the gears batch 1, 2"),
        (("--dynamic-dims", "1;2"), "the gears dims 1; 2"),
    ):
        assert run("compile", model, "-o", om, *options).exit_code == 0
        result = run("run", om, *feed)
        assert result.exit_code == 1
        assert f"error[E20008]: the model was not compiled for x[3, 4]; it was for {told}" in result.stderr
        assert "--compile-hybrid-mode" in result.stderr or "--dynamic-batch-size 2,3" in result.stderr
    for options in (
        (),
        ("--dynamic-batch-size", "2,3"),
        ("--dynamic-dims", "1;2", "--compile-hybrid-mode", "1"),
    ):
        assert run("compile", model, "-o", om, *options).exit_code == 0
        assert run("run", om, *feed, "--check", model).exit_code == 0


def test_a_size_outside_of_the_range(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "stem.graph"
    model.write_text(STEM)
    om = tmp_path / "stem.om"
    assert run("compile", model, "-o", om, "--input-shape", "x:2~4,3,8,8").exit_code == 0
    assert "sizes 2~4, 3, 8, 8" in run("show", om).stdout
    assert run("run", om, "--random", "--dim", "N=3", "--check", model).exit_code == 0
    for size, wider in ((1, "1~4"), (9, "2~9")):
        result = run("run", om, "--random", "--dim", f"N={size}")
        assert result.exit_code == 1
        assert f"error[E20008]: the model was not compiled for x[{size}, 3, 8, 8]" in result.stderr
        assert "it was for the range x[2~4, 3, 8, 8]" in result.stderr
        assert f'set the range: --input-shape "x:{wider},3,8,8"' in result.stderr
        # What it says helps.
        assert (
            run("compile", model, "-o", tmp_path / "w.om", "--input-shape", f"x:{wider},3,8,8").exit_code == 0
        )
        assert run("run", tmp_path / "w.om", "--random", "--dim", f"N={size}").exit_code == 0
    result = run("compile", model, "-o", om, "--input-shape", "x:2~4,3,8,8", "--dynamic-batch-size", "2,4")
    assert result.exit_code == 1 and "error[E10070]" in result.stderr and "the range of x" in result.stderr
