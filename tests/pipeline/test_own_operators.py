"""Operators of a user's own `define`: placed by what they compute on every device, and run from the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gerules
from gerules.errors import GerulesError, Source

RULES = """\
define my::ScaledSwish(x, scale = 1.0) -> y:
    y = Mul(Mul(x, Sigmoid(x)), scale)

define my::Twice(x) -> y:
    y = my::ScaledSwish(my::ScaledSwish(x, scale=2.0))

rule scaled_swish in my.rules "k * x * sigmoid(x)":
    inexact "products are associated in another way"
    priority 100
    match:
        y = Mul~(x, Sigmoid(x), k: const)
    where:
        is_scalar(k) else "the factor is not one number"
    rewrite:
        y = my::ScaledSwish(x, scale=scalar(k))

rule two_tanh in my.rules "stands for any rule that makes an operator of operators":
    match:
        y = Tanh(Tanh(x))
    rewrite:
        y = my::Twice(x)
"""

TEXT = """\
graph g:
    opset 17
    input x: f32[2, 8]
    half: const f32[] = 0.5
    s = Sigmoid(x)
    a = Mul(x, s)
    b = Mul(a, half)
    t = Tanh(b)
    y: f32[2, 8] = Tanh(t)
    return y
"""


def swish(x: np.ndarray, scale: float) -> np.ndarray:
    return x / (1 + np.exp(-x)) * scale


@pytest.mark.parametrize("device", ["host", "ascend310", "ascend910b"])
def test_an_operator_without_kernel_runs_by_its_definition(device: str, tmp_path: Path) -> None:
    rules = [Source("own.ger", RULES)]
    compiled = gerules.compile(gerules.parse_graph(TEXT), device=device, precision="fp32", rules=rules)
    ops = [node.op for node in compiled.graph.nodes.values()]
    assert {"my::ScaledSwish", "my::Twice"} <= set(ops)
    partition = compiled.partition
    assert partition is not None
    own = {node.id for node in compiled.graph.nodes.values() if node.op.startswith("my::")}
    assert {partition.engine_of[node] for node in own} == {
        "DNN_VM_HOST_CPU" if device == "host" else "DNN_VM_AICPU"
    }
    assert {partition.reasons[node] for node in own} == {"most of its definition runs there"}

    # The file alone is enough: definitions, and those that they use, travel in it.
    compiled.save(tmp_path / "own.om")
    from gerules.backend.om import read_om
    from gerules.runtime.executor import Executor

    x = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)
    found = Executor(read_om(tmp_path / "own.om")).run({"x": x}, poison=True)["y"]
    wanted = swish(swish(swish(x, 0.5), 2.0), 1.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_an_operator_that_the_device_is_said_to_lack_is_refused() -> None:
    board = """
device board extends ascend910b "lacks an operator":
    lacks {my::ScaledSwish}
"""
    graph = gerules.parse_graph(TEXT)
    rules = [Source("own.ger", RULES + board)]
    compiled = gerules.compile(graph, device="board", rules=rules, disable=["two_tanh"])
    assert "my::ScaledSwish" not in {node.op for node in compiled.graph.nodes.values()}


def test_a_definition_that_nothing_runs_is_no_engine() -> None:
    board = """
device board "one engine, and it has a Tanh only":
    engine Core priority 1: {Tanh}
"""
    with pytest.raises(GerulesError) as caught:
        gerules.compile(gerules.parse_graph(TEXT), device="board", rules=[Source("own.ger", RULES + board)])
    assert {fault.code.code for fault in caught.value.diagnostics} == {"E50001"}
