"""The library's face: one name for a list, files for rule books, and short words for what is printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import gerules
from gerules.errors import GerulesError

TEXT = """\
graph g:
    opset 17
    input x: f32[1, 3, 8, 8]
    W: const f32[8, 3, 3, 3] = random(1)
    half: const f32[] = 0.5
    c = Conv(x, W, pads=[1, 1, 1, 1])
    r = Relu(c)
    s = Sigmoid(r)
    m = Mul(r, s)
    y: f32[1, 8, 8, 8] = Mul(m, half)
    return y
"""

OWN = """\
define my::ScaledSwish(x, scale = 1.0) -> y:
    y = Mul(Mul(x, Sigmoid(x)), scale)

rule scaled_swish in my.rules "k * x * sigmoid(x)":
    inexact "products are associated in another way"
    match:
        y = Mul~(x, Sigmoid(x), k: const)
    where:
        is_scalar(k) else "the factor is not one number"
    rewrite:
        y = my::ScaledSwish(x, scale=scalar(k))
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.ger"
    path.write_text(OWN, encoding="utf-8")
    return path


def ops_of(graph: gerules.Graph) -> list[str]:
    return [node.op for node in graph.nodes.values()]


def test_one_name_is_a_list_of_one(own: Path) -> None:
    graph = gerules.parse_graph(TEXT)
    one = gerules.compile(graph, rules=str(own), disable="conv_relu", enable="fuse.conv")
    many = gerules.compile(graph, rules=[own], disable=["conv_relu"], enable=["fuse.conv"])
    assert ops_of(one.graph) == ops_of(many.graph)
    assert "my::ScaledSwish" in ops_of(one.graph)
    assert "ge::ConvRelu" not in ops_of(one.graph)
    kept = [
        gerules.compile(
            graph, device="ascend910b", precision="fp16", keep_dtype=keep, stop_after="precision"
        ).graph
        for keep in ("OpType::Conv", ["OpType::Conv"])
    ]
    assert ops_of(kept[0]) == ops_of(kept[1])


@pytest.mark.parametrize("keep", ["r", "OpType::Relu"])
def test_nodes_without_names_are_kept_by_what_they_make(keep: str) -> None:
    compiled = gerules.compile(
        gerules.parse_graph(TEXT),
        device="ascend910b",
        precision="fp16",
        keep_dtype=keep,
        disable="conv_relu",
        stop_after="precision",
    )
    assert compiled.stages[-1].detail["n_kept"] == 1


def test_rewrite_takes_rules_and_models_as_compile_does(own: Path, tmp_path: Path) -> None:
    (tmp_path / "g.graph").write_text(TEXT, encoding="utf-8")
    graph = gerules.parse_graph(TEXT)
    results = [
        gerules.rewrite(model, rules)[0]
        for model in (graph, tmp_path / "g.graph", str(tmp_path / "g.graph"))
        for rules in (own, str(own), [own], gerules.load_rules(own))
    ]
    assert all(ops_of(result) == ["ge::ConvRelu", "my::ScaledSwish"] for result in results)
    assert ops_of(graph)[0] == "Conv"


def test_own_operators_are_saved_with_their_meaning_or_not_at_all(own: Path, tmp_path: Path) -> None:
    graph = gerules.parse_graph(TEXT)
    after, _ = gerules.rewrite(graph, own)
    with pytest.raises(GerulesError) as caught:
        gerules.save(after, tmp_path / "after.onnx")
    assert caught.value.code == "E10031"
    assert "my::ScaledSwish" in str(caught.value)
    assert "rules=" in str(caught.value)
    assert not (tmp_path / "after.onnx").exists()

    gerules.save(after, tmp_path / "after.onnx", rules=own)
    gerules.save(graph, tmp_path / "before.onnx")
    onnx.checker.check_model(str(tmp_path / "after.onnx"), full_check=True)
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    wanted, found = (
        onnxruntime.InferenceSession(str(tmp_path / name), providers=["CPUExecutionProvider"]).run(
            None, {"x": x}
        )
        for name in ("before.onnx", "after.onnx")
    )
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)
    again = gerules.compile(tmp_path / "after.onnx").run({"x": x})
    np.testing.assert_allclose(next(iter(again.values())), wanted[0], rtol=1e-5, atol=1e-6)


def test_operators_of_the_model_itself_need_no_definition(tmp_path: Path) -> None:
    text = TEXT.replace("    opset 17\n", '    opset 17\n    opset "vendor" 1\n').replace(
        "Relu(c)", "vendor::Act(c)"
    )
    gerules.save(gerules.parse_graph(text), tmp_path / "vendor.onnx")
    assert "vendor" in {node.domain for node in onnx.load(tmp_path / "vendor.onnx").graph.node}


def test_what_is_printed_by_accident_is_short() -> None:
    graph = gerules.parse_graph(TEXT)
    compiled = gerules.compile(graph)
    for item in (compiled, graph, compiled.trace, compiled.stages[0], gerules.load_rules([])):
        assert len(repr(item)) < 1000, repr(item)[:200]
    assert repr(compiled).startswith("<CompiledModel g for host, fp32: 5 operators -> ")


@pytest.mark.parametrize("value", ["many", 2.5, True, [3]])
def test_a_parameter_keeps_its_kind(value: object) -> None:
    with pytest.raises(GerulesError) as caught:
        gerules.compile(gerules.parse_graph(TEXT), params={"MAX_CHAIN": value})  # type: ignore[dict-item]
    assert caught.value.code == "E10003"
    assert "give a whole number" in str(caught.value)


def test_a_number_may_be_whole() -> None:
    compiled = gerules.compile(gerules.parse_graph(TEXT), params={"MERGE_GAIN": 1, "MAX_CHAIN": 4})
    assert compiled.memory_plan is not None


def test_a_compile_that_was_stopped_has_nothing_to_run_or_write(tmp_path: Path) -> None:
    compiled = gerules.compile(gerules.parse_graph(TEXT), stop_after="fuse_ops")
    for use in (lambda: compiled.om, lambda: compiled.run({}), lambda: compiled.save(tmp_path / "x.om")):
        with pytest.raises(GerulesError) as caught:
            use()
        assert caught.value.code == "E40053"
        assert "stopped after fuse_ops" in str(caught.value)


def test_a_run_wants_arrays_by_name() -> None:
    compiled = gerules.compile(gerules.parse_graph(TEXT))
    with pytest.raises(GerulesError) as caught:
        compiled.run(np.zeros((1, 3, 8, 8), np.float32))  # type: ignore[arg-type]
    assert caught.value.code == "E20006"
    assert "arrays by input name" in str(caught.value)
