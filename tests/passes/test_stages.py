"""The passes one after the other on lowered graphs of the shipped devices."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gerules.ir import DType, Format, TensorType, broken_invariants, parse_graph
from gerules.passes.format_check import check_formats
from gerules.passes.formats import choose_formats
from gerules.passes.partition import check_partition, partition_graph
from gerules.passes.precision import read_lists, set_precision
from gerules.passes.prepare import prepare
from gerules.pipeline.phases import run_rule_phase
from gerules.pipeline.toolchain import evaluate_node, make_toolchain, shipped_rules
from tests.passes.running import random_feeds, run

NETWORK = """
graph network:
    opset 17
    input x: f32[N, 3, 16, 16]
    w1: const f32[32, 3, 3, 3] = random(1)
    w2: const f32[32, 32, 3, 3] = random(2)
    k: const f32[] = 0.05
    g: const f32[32, 10] = random(3)
    b: const f32[10] = random(4)
    c1 = Conv(x, w1, pads=[1, 1, 1, 1])
    s1 = Mul(c1, k)
    r1 = Relu(s1)
    c2 = Conv(r1, w2, pads=[1, 1, 1, 1])
    s2 = Mul(c2, k)
    a = Add(s2, r1)
    r2 = Relu(a)
    p = GlobalAveragePool(r2)
    f = Flatten(p)
    y: f32[N, 10] = Gemm(f, g, b)
    z = Softmax(y, axis=1)
    return z
"""


@pytest.mark.parametrize("device", ["host", "ascend310", "ascend310p", "ascend910a", "ascend910b"])
@pytest.mark.parametrize("mode", ["fp32", "fp16", "mixed_float16"])
def test_a_network_through_all_passes(device: str, mode: str) -> None:
    book = shipped_rules()
    source = parse_graph(NETWORK)
    tools = make_toolchain(book, source.opsets, device=device, precision=mode)
    graph, _ = prepare(source, evaluate_node, schemas=tools.schemas, dims={"N": 1}, extra=tools.extra)
    for name in ("canonicalize", "fold_weights", "fuse_ops", "quantize", "legalize_ops"):
        graph = run_rule_phase(tools, graph, name).graph
    graph, precision = set_precision(
        graph, mode, device=tools.device, schemas=tools.schemas, lists=read_lists(book), extra=tools.extra
    )
    graph = run_rule_phase(tools, graph, "precision_ops").graph
    graph, formats = choose_formats(graph, tools.device, costs=tools.costs)
    assert not broken_invariants(graph)
    assert check_formats(graph, tools.device) == []
    graph = run_rule_phase(tools, graph, "layout_ops").graph
    assert check_formats(graph, tools.device) == []
    partition = partition_graph(graph, tools.device)
    assert check_partition(graph, tools.device, partition) == []
    assert partition.is_static

    kinds = Counter(node.op for node in graph.nodes.values())
    assert kinds["ge::TransData"] == (0 if device == "host" else 2)
    types = [value.type for value in graph.values.values() if isinstance(value.type, TensorType)]
    assert any(type.format is Format.FRACTAL_Z for type in types) is (device != "host")
    assert any(type.dtype is DType.F16 for type in types) is (mode != "fp32")
    assert precision.n_casts <= 4
    assert formats.n_transdata == kinds["ge::TransData"]

    feeds = random_feeds(prepare(source, evaluate_node, schemas=tools.schemas, dims={"N": 1})[0])
    (want,), (found,) = run(source, feeds), run(graph, feeds)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5 if mode == "fp32" else 0.03)
