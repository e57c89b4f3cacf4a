"""The shipped rules on ONNX's own small networks: what fires, and that results stay."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from gerules.dsl.load import load_rules
from gerules.dsl.selection import Environment, Selection, TextDevice, select_rules
from gerules.dsl.shipped import rules_folder
from gerules.engine.define import define_extra, make_infer
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.engine.phases import PhaseRunner
from gerules.frontends.load import load
from gerules.ir import Graph
from gerules.ops import Schemas, infer_graph
from gerules.pipeline import make_toolchain
from gerules.runtime.reference import evaluate
from tests.models.catalogue import find

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@functools.cache
def book():
    return load_rules([rules_folder()], schemas=Schemas())


@functools.cache
def schemas() -> Schemas:
    found = Schemas()
    register_defines(book().defines.values(), found)
    return found


def selected(graph: Graph, device: str, profile: str | None) -> Selection:
    known = TextDevice(book(), book().devices[device])
    return select_rules(book(), Environment(profile=profile, device=known, opset=graph.opset))


def optimize(graph: Graph, device: str = "host", profile: str | None = None) -> tuple[Graph, Counter[str]]:
    selection = selected(graph, device, profile)
    context = RuleContext(selection.scope, book().patterns)
    extra = define_extra(book().defines, schemas=schemas(), context=context)
    infer = make_infer(schemas(), graph.opsets, extra)
    runner = PhaseRunner(book(), selection, schemas(), context)
    graph = infer_graph(graph, schemas(), extra=extra)
    fired: Counter[str] = Counter()
    for name in book().pipelines["default"].phases:
        graph, trace = runner.run(graph, book().phases[name.name], infer=infer)
        fired.update({rule: count.applications for rule, count in trace.rules.items() if count.applications})
        assert trace.warnings == []
    return graph, fired


def compute(graph: Graph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    tools = make_toolchain(book(), graph.opsets)
    return list(evaluate(graph, feeds, body_of=tools.body_of).values())


def test_squeezenet_keeps_its_meaning_and_fuses_every_relu():
    before = load(LIGHT / "light_squeezenet.onnx")
    after, fired = optimize(before)
    assert fired["conv_relu"] == 26
    name = before.values[before.inputs[0]].name
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
    for want, got in zip(compute(before, {name: x}), compute(after, {name: x}), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", ["host", "ascend910b"])
@pytest.mark.parametrize(
    "model", ["resnet50_ts", "resnet50_dynamo", "resnet50_dynamo_dyn", "filled_resnet50"]
)
def test_resnet_becomes_nineteen_blocks(model: str, device: str):
    path = find(model)
    after, fired = optimize(load(path), device, "blocks")
    assert fired["bottleneck"] == 16
    assert len(after.nodes) <= 19
    assert Counter(node.op for node in after.nodes.values()) == {
        "ge::Stem": 1, "ge::Bottleneck": 16, "ge::Pooling": 1, "ge::Classifier": 1,
    }  # fmt: skip


ATTENTION = {
    "bert_mini_dynamo": 4, "bert_mini_dynamo_dyn": 4, "gpt2_mini_dynamo": 4, "llama_tiny_dynamo": 4,
    "vit_small_dynamo": 12, "bert_mini_ts_dyn": 4,
}  # fmt: skip
"""Layers of attention. Other TorchScript exports need constants folded first, which is no rule."""


@pytest.mark.parametrize("model", sorted(ATTENTION))
def test_attention_is_found_in_every_layer(model: str):
    path = find(model)
    _, fired = optimize(load(path))
    assert fired["sdpa"] + fired["sdpa_zero_masked"] == ATTENTION[model]
