"""Standard operators only: by the argument of `rewrite` or by the profile, and legalization is no fusion."""

from __future__ import annotations

import pytest

import gerules
from gerules.pipeline.toolchain import make_toolchain

TEXT = """\
graph g:
    opset 17
    input x: f32[1, 3, 8, 8]
    W: const f32[8, 3, 3, 3] = random(1)
    g: const f32[8] = fill(1.5)
    z: const f32[8] = fill(0.5)
    c = Conv(x, W, pads=[1, 1, 1, 1])
    n = BatchNormalization(c, g, z, z, g)
    y: f32[1, 8, 8, 8] = Relu(n)
    return y
"""


def ops(**options: object) -> list[str]:
    after, _ = gerules.rewrite(gerules.parse_graph(TEXT), **options)  # type: ignore[arg-type]  # any option
    return [node.op for node in after.nodes.values()]


@pytest.mark.parametrize("options", [{"onnx_only": True}, {"profile": "onnx"}])
def test_what_onnx_can_say_is_still_rewritten(options: dict[str, object]) -> None:
    assert ops() == ["ge::ConvRelu"]
    assert ops(**options) == ["Conv", "Relu"]


def test_a_rule_that_the_caller_names_stays_on() -> None:
    assert ops(onnx_only=True, enable="conv_relu") == ["ge::ConvRelu"]


def test_rules_that_are_off_say_why() -> None:
    tools = make_toolchain(gerules.load_rules([]), {"": 17}, device="ascend910b", profile="onnx")
    assert tools.selection.off["conv_relu"] == "it makes an operator that ONNX does not have"
    on = {rule.name.name: rule for rule in tools.selection.rules}
    assert "conv_bn" in on
    assert any(rule.ruleset == "legalize.lower" for rule in on.values())


def test_a_compile_without_fused_operators_runs() -> None:
    compiled = gerules.compile(gerules.parse_graph(TEXT), profile="onnx")
    assert [node.op for node in compiled.graph.nodes.values()] == ["Conv", "Relu"]
