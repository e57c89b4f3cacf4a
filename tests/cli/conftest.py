"""The command line under test, and small models for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from gerules.cli.app import app

STEM = """\
graph stem:
    opset 17
    input x: f32[N, 3, 8, 8]
    W: const f32[4, 3, 3, 3] = random(1)
    k: const f32[1, 4, 1, 1] = [1.0, 2.0, 3.0, 4.0]
    c = Conv(x, W, pads=[1, 1, 1, 1])
    s = Add(c, k)
    y = Relu(s)
    return y
"""

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run the program in this process, as a pipe would."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(item) for item in arguments])

    return call


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Run with --json; the exit code is 0 and stdout is one JSON document."""

    def call(*arguments: object, code: int = 0) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    return call


@pytest.fixture
def stem(tmp_path: Path) -> Path:
    """A graph text with an open batch."""
    path = tmp_path / "stem.graph"
    path.write_text(STEM, encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small ONNX model of two inputs: two layers and a sum, with names that are not ASCII."""
    rng_w = numpy_helper.to_array(
        helper.make_tensor("w", TensorProto.FLOAT, (4, 4), [0.1 * (i % 7) - 0.3 for i in range(16)])
    )
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["вход", "w"], ["h"], name="層/一"),
            helper.make_node("Relu", ["h"], ["r"], name="relu"),
            helper.make_node("Add", ["r", "b"], ["выход"], name="sum"),
        ],
        "klein",
        [
            helper.make_tensor_value_info("вход", TensorProto.FLOAT, (2, 4)),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, (2, 4)),
        ],
        [helper.make_tensor_value_info("выход", TensorProto.FLOAT, (2, 4))],
        [numpy_helper.from_array(rng_w, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "модель.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def om(run: Run, model: Path, tmp_path: Path) -> Path:
    """The same, compiled for this CPU."""
    path = tmp_path / "klein.om"
    result = run("compile", model, "-o", path)
    assert result.exit_code == 0, result.output
    return path
