"""The precision ledger: errors by independent arithmetic, and who is charged with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gerules
from tests.pipeline.planted import written, wrong_rule

LAYER = """
graph layer:
    opset 17
    input x: f32[4, 8]
    W: const f32[8, 8] = random(1)
    p = MatMul(x, W)
    r = Relu(p)
    y = Sigmoid(r)
    return y
"""


def test_errors_are_those_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "layer.graph"
    path.write_text(LAYER, encoding="utf-8")
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    compiled = gerules.compile(path, device="ascend910b", precision="fp16")
    ledger = compiled.ledger({"x": x})
    assert ledger.truth == "float64"
    (cast,) = [item for item in ledger.entries if item.cause == "cast" and item.value == "x"]
    low = x.astype(np.float16).astype(np.float64)
    wanted = np.abs(low - x).max() / np.abs(x).max()
    assert cast.dtype == "f16" and cast.error_in == 0.0
    assert cast.error_out == cast.added == pytest.approx(wanted, rel=1e-12)
    weights = gerules.load(path).consts
    (matrix,) = [const.array.astype(np.float64) for const in weights.values()]
    truth = 1 / (1 + np.exp(-np.maximum(x.astype(np.float64) @ matrix, 0)))
    got = compiled.run({"x": x})["y"].astype(np.float64)
    assert ledger.outputs["y"] == pytest.approx(np.abs(got - truth).max() / truth.max(), rel=1e-6)
    assert ledger.entries[-1].value == "y" and ledger.entries[-1].error_out == ledger.outputs["y"]


def test_a_wrong_rule_leads_the_accounts(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "attention")
    rules = [wrong_rule("Softmax", "weights1", error="0.5")]
    ledger = gerules.compile(path, rules=rules).ledger(feeds)
    first = ledger.accounts()[0]
    assert (first.cause, first.worst.value) == ("rule", "weights1")
    clean = gerules.compile(path).ledger(feeds)
    assert max(entry.added for entry in clean.entries) < 1e-6


def test_what_is_added_on_a_chain_sums_to_the_error_of_the_output(tmp_path: Path) -> None:
    path = tmp_path / "chain.graph"
    path.write_text(
        "graph chain:\n    opset 17\n    input x: f32[64]\n"
        "    a = Tanh(x)\n    b = Sigmoid(a)\n    c = Exp(b)\n    return c\n",
        encoding="utf-8",
    )
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    compiled = gerules.compile(path, device="ascend910b", precision="fp16", disable="fuse.eltwise")
    ledger = compiled.ledger({"x": x})
    assert sum(entry.added for entry in ledger.entries) == pytest.approx(ledger.outputs["c"], rel=1e-9)
    assert {entry.cause for entry in ledger.entries} == {"cast", "lowered"}


def test_nothing_is_charged_where_nothing_differs(tmp_path: Path) -> None:
    path = tmp_path / "whole.graph"
    path.write_text(
        "graph whole:\n    opset 17\n    input x: i32[4]\n    y = Abs(x)\n    return y\n", encoding="utf-8"
    )
    ledger = gerules.compile(path).ledger({"x": np.arange(-2, 2, dtype=np.int32)})
    assert ledger.outputs == {"y": 0.0}
    assert [account.added for account in ledger.accounts()] == [0.0]
