"""A file written with fused operators is a model like any other: it compiles, and is written again."""

# onnx's functions have partial types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import gerules
from bench import zoo
from tests.models.catalogue import find
from tests.models.oracle import Array, assert_close, ort_outputs

MODELS = ["mobilenetv2_ts", "bert_mini_ts", "llama_tiny_ts"]


@pytest.mark.parametrize("name", MODELS)
def test_a_written_model_is_written_the_same_again(name: str, tmp_path: Path) -> None:
    after, _ = gerules.rewrite(gerules.load(find(name)), profile="blocks")
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    gerules.save(after, first)
    gerules.save(gerules.load(first), second)
    feeds = zoo.inputs(find(name), 1)
    assert_close(ort_outputs(second, feeds), ort_outputs(first, feeds), 1e-6)
    assert len(gerules.load(second).nodes) == len(after.nodes)


@pytest.mark.parametrize("device", ["host", "ascend910b"])
@pytest.mark.parametrize("name", MODELS)
def test_a_written_model_compiles(name: str, device: str, tmp_path: Path) -> None:
    after, _ = gerules.rewrite(gerules.load(find(name)))
    out = tmp_path / "better.onnx"
    gerules.save(after, out)
    feeds = zoo.inputs(find(name), 1)
    compiled = gerules.compile(out, device=device, precision="fp32")
    assert_close(compiled.run(feeds), ort_outputs(find(name), feeds), 1e-3)


def one_function(name: str, *ops: str) -> onnx.ModelProto:
    """A model that calls `ge::name`, whose function applies operators one after the other."""
    names = ["a", *(f"v{place}" for place in range(len(ops) - 1)), "b"]
    nodes = [helper.make_node(op, [names[at]], [names[at + 1]]) for at, op in enumerate(ops)]
    function = helper.make_function("ge", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 17)])
    kind = [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, [3]) for value in ("x", "y")]
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], domain="ge")], "g", kind[:1], kind[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ge", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)


X: Array = np.array([-1.0, 0.0, 2.0], np.float32)


@pytest.mark.parametrize(
    ("name", "body", "ops"),
    [
        ("Relu", ["Relu"], ["ge::Relu"]),
        ("Relu", ["Neg", "Abs"], ["Neg", "Abs"]),
        ("Unheard", ["Neg", "Abs"], ["ge::Unheard"]),
    ],
    ids=["the definition", "another meaning", "no definition"],
)
def test_a_function_counts_as_the_file_has_it(
    name: str, body: list[str], ops: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "one.onnx"
    model = one_function(name, *body)
    onnx.save(model, path)
    graph = gerules.load(path)
    assert [node.op for node in graph.nodes.values()] == ops
    assert_close(gerules.compile(path).run({"x": X}), ort_outputs(path, {"x": X}), 1e-6)
    assert_close(gerules.compile(model).run({"x": X}), ort_outputs(path, {"x": X}), 1e-6)
