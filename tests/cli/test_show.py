"""`gerules show` and `gerules phase`: graph text out, and back in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, save

import gerules
from gerules.frontends import load_graph_text
from gerules.ir import Graph, parse_graph, print_graph, read_graph_text
from gerules.pipeline import shipped_rules, stage_names
from gerules.runtime.reference import evaluate
from tests.cli.conftest import STEM, Run

SHOWN = """\
graph stem:
    opset 17
    input x: f32[N, 3, 8, 8]
    W: const f32[4, 3, 3, 3] = elided("515270de16db9626b4e7548b90916ad8")
    c = Conv(x, W, pads=[1, 1, 1, 1])
    k: const f32[1, 4, 1, 1] = [1.0, 2.0, 3.0, 4.0]
    s = Add(c, k)
    y = Relu(s)
    return y
"""

FUSED = """\
graph stem:
    opset 17
    input x: f32[2, 3, 8, 8]
    W: const f32[4, 3, 3, 3] = elided("515270de16db9626b4e7548b90916ad8")
    `s/B2.9`: const f32[4] = [1.0, 2.0, 3.0, 4.0]
    s: f32[2, 4, 8, 8] = Conv(x, W, `s/B2.9`, pads=[1, 1, 1, 1])  {name="s/conv_bias.10", from=["c", "s"], \
rules=["conv_bias"], phase="fold_weights"}
    y: f32[2, 4, 8, 8] = Relu(s)
    return y
"""


def outputs(graph: Graph, **feeds: np.ndarray) -> list[np.ndarray]:
    return list(evaluate(graph, feeds).values())


def test_a_graph_is_shown_as_it_was_written(run: Run, stem: Path) -> None:
    result = run("show", stem)
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout == SHOWN


def test_shown_and_kept_is_read_back_whole(run: Run, stem: Path, tmp_path: Path) -> None:
    path = tmp_path / "kept.graph"
    result = run("show", stem, "-o", path)
    assert result.exit_code == 0 and result.stdout == ""
    before, after = parse_graph(STEM), load_graph_text(path)
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(outputs(before, x=x), outputs(after, x=x))
    assert print_graph(after) == print_graph(before)


def test_an_onnx_model_shows_its_names(run: Run, model: Path) -> None:
    text = run("show", model).stdout
    graph = parse_graph(text)
    assert [graph.values[value].name for value in graph.inputs] == ["вход", "b"]
    assert "層/一" in text
    assert print_graph(graph) == text


def test_an_om_shows_the_graph_it_was_made_of_and_its_plan(run: Run, om: Path, model: Path) -> None:
    text = run("show", om).stdout
    assert text.startswith("# model klein: ")
    found = read_graph_text(text)
    final = gerules.compile(model).graph
    assert print_graph(found.graph) == print_graph(final)
    assert {str(mark["engine"]) for mark in found.marks.values()} == {"DNN_VM_HOST_CPU"}
    assert all(isinstance(mark["at"], int) and mark["stream"] == 0 for mark in found.marks.values())


def test_json_counts_what_the_text_says(run_json: Callable[..., Any], model: Path) -> None:
    found = run_json("show", model)
    assert found["name"] == "klein"
    assert found["inputs"] == [{"name": "вход", "type": "f32[2, 4]"}, {"name": "b", "type": "f32[2, 4]"}]
    assert found["outputs"] == [{"name": "выход", "type": "f32[2, 4]"}]
    assert found["operators"] == {"MatMul": 1, "Relu": 1, "Add": 1} and found["n_nodes"] == 3
    assert len(parse_graph(found["text"]).nodes) == 3


@pytest.mark.parametrize("device", ["host", "ascend910b"])
def test_every_stage_can_be_shown(run: Run, model: Path, device: str) -> None:
    for stage in stage_names(shipped_rules()):
        result = run("show", model, "--stage", stage, "--device", device)
        assert result.exit_code == 0, result.output
        first = result.stdout.splitlines()[0]
        assert first == f"# модель.onnx after {stage}, for {device}"
        assert parse_graph(result.stdout).outputs


def test_a_phase_prints_the_graph_it_leaves(run: Run, stem: Path) -> None:
    result = run("phase", "fold_weights", stem, "--input-shape", "x=2,3,8,8")
    assert result.exit_code == 0, result.output
    assert result.stdout == FUSED
    assert "conv_bias" in result.stderr and "1 application " in result.stderr


def test_phases_can_be_chained_through_files(run: Run, stem: Path, tmp_path: Path) -> None:
    one, two, both = (tmp_path / f"{name}.graph" for name in ("one", "two", "both"))
    assert run("phase", "fold_weights", stem, "-o", one, "--input-shape", "x=1,3,8,8").exit_code == 0
    assert run("phase", "fuse_ops", one, "-o", two).exit_code == 0
    assert run("phase", "fusion", stem, "-o", both, "--input-shape", "x=1,3,8,8").exit_code == 0
    ops = [[node.op for node in load_graph_text(path).nodes.values()] for path in (one, two, both)]
    assert ops == [["Conv", "Relu"], ["ge::ConvRelu"], ["ge::ConvRelu"]]


def test_trace_tells_each_application(run: Run, run_json: Callable[..., Any], stem: Path) -> None:
    result = run("phase", "fusion", stem, "--trace")
    assert "1. conv_bias at s" in result.stderr and "+ s/conv_bias.10: Conv" in result.stderr
    found = run_json("phase", "fusion", stem)
    assert [item["rule"] for item in found["trace"]["applications"]] == ["conv_bias", "conv_relu"]
    assert parse_graph(found["graph"].replace('elided("', "random(1)#")).nodes


def test_switched_off_is_not_applied(run_json: Callable[..., Any], stem: Path) -> None:
    found = run_json("phase", "fusion", stem, "--disable", "all")
    assert found["trace"]["applications"] == []


def test_a_pipeline_stands_for_its_last_phase(run: Run, model: Path) -> None:
    last = shipped_rules().pipelines["fusion"].phases[-1].name
    assert run("show", model, "--stage", "fusion").stdout == run("show", model, "--stage", last).stdout


def test_a_phase_writes_onnx_that_runs_elsewhere(run: Run, stem: Path, tmp_path: Path) -> None:
    out = tmp_path / "fused.onnx"
    result = run("phase", "fusion", stem, "--input-shape", "x=1,3,8,8", "-o", out)
    assert result.exit_code == 0, result.output
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    wanted = evaluate(load_graph_text(stem), {"x": x})["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_text_is_not_written_under_the_ending_of_a_model(run: Run, stem: Path, tmp_path: Path) -> None:
    for command, ending in (("show", ".onnx"), ("show", ".om"), ("phase", ".om")):
        name = ["fusion"] if command == "phase" else []
        result = run(command, *name, stem, "-o", tmp_path / f"out{ending}")
        assert result.exit_code == 1 and "E10003" in result.stderr, (command, ending)
        assert not (tmp_path / f"out{ending}").exists()


def test_names_do_not_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    name = "x\x1b[31m\r\u202ey"
    model, om = tmp_path / "evil.onnx", tmp_path / "evil.om"
    save(
        helper.make_model(
            helper.make_graph(
                [helper.make_node("Relu", [name], ["y"])],
                f"g{name}",
                [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        ),
        model,
    )
    for command in (
        ("compile", model, "-o", om),
        ("show", om),
        ("show", model),
        ("run", om, "--check", model),
        ("compile", model, "-o", om, "--input-shape", "x=1"),
        ("phase", "fusion", model),
    ):
        result = run(*command)
        assert result.exit_code in (0, 1)
        assert "\x1b" not in result.output and "\r" not in result.output, command
