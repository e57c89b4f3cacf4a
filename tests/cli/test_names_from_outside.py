"""Names from a model neither steer the terminal, nor forge lines of a report, nor become rules."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import gerules
from tests.cli.conftest import Run

EVIL = 'g\nrule evil in my.x "d":\n    Abs(x) => x\n#\x1b[31m\u202e'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="n1"),
        helper.make_node("Neg", ["a"], [f"v{EVIL}"], name=f"n2{EVIL}"),
    ]
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    result = helper.make_tensor_value_info(f"v{EVIL}", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, EVIL, [port], [result])
    path = tmp_path / "evil.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("why", "n1"),
        ("explain",),
        ("explain", "--rule", "conv_relu"),
        ("find", "Neg(x)"),
        ("bisect",),
        ("ledger",),
    ],
)
def test_reports_write_them_out(run: Run, model: Path, command: tuple[str, ...]) -> None:
    name, *rest = command
    given = (*rest, model) if name == "find" else (model, *rest)
    result = run(name, *given)
    assert result.exit_code == 0, result.output
    assert not {"\x1b", "\u202e"} & set(result.output)
    assert not any(line.startswith("rule evil") for line in result.output.splitlines())


def test_a_draft_holds_no_other_rule_than_its_own(run: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.ger"
    result = run("draft", model, "--nodes", "n1..n1", "-o", path)
    assert result.exit_code == 0, result.output
    assert [rule.name.name for rule in gerules.load_rules(path).rules if rule.name.name == "evil"] == []
    assert path.read_text(encoding="utf-8").splitlines()[0].startswith("# Drafted from g\\nrule evil")
