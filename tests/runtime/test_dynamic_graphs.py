"""Graphs of open shapes, compiled once and run at any shape by the host: what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gerules.pipeline import CompiledModel
from gerules.report.compile_report import CompileReport
from gerules.runtime.executor import Executor
from tests.runtime.gear_models import CONVNET, TOKENS, compiled, ort, reload

Feeds = dict[str, Any]
Draw = Callable[[np.random.Generator, int], Feeds]


def image(rng: np.random.Generator, n: int) -> Feeds:
    return {"x": rng.standard_normal((n, 3, 5 + n, 7)).astype(np.float32)}


def tokens(rng: np.random.Generator, n: int) -> Feeds:
    shape = (n, 2 * n + 1)
    return {"ids": rng.integers(0, 50, shape), "mask": rng.random(shape).astype(np.float32)}


def rows(rng: np.random.Generator, n: int) -> Feeds:
    return {"x": rng.integers(-2, 3, (n, 4)).astype(np.float32)}


def boxes(rng: np.random.Generator, n: int) -> Feeds:
    corner = rng.random((1, 4 * n, 2)).astype(np.float32)
    size = 0.1 + rng.random((1, 4 * n, 2)).astype(np.float32) / 4
    return {
        "boxes": np.concatenate([corner, corner + size], 2),
        "scores": rng.random((1, 2, 4 * n)).astype(np.float32),
    }


def turns(rng: np.random.Generator, n: int) -> Feeds:
    return {**rows(rng, n), "k": np.asarray(n, np.int64)}


GRAPHS: dict[str, tuple[str, Draw]] = {
    "convolution": (CONVNET, image),
    "attention": (TOKENS, tokens),
    "reshape by shape": (
        """
    input x: f32[N, 4]
    s = Shape(x)
    zero: const i64[1] = [0]
    two: const i64[1] = [2]
    n = Gather(s, zero, axis=0)
    t = Concat(n, two, two, axis=0)
    r = Reshape(x, t)
    y = ReduceMean(r, axes=[2], keepdims=0)
    return y, r
""",
        rows,
    ),
    "nonzero": (
        """
    input x: f32[N, 4]
    r = Relu(x)
    n = NonZero(r)
    t = Transpose(n, perm=[1, 0])
    v = GatherND(x, t)
    two: const f32[] = 2.0
    y = Mul(v, two)
    m = Neg(y)
    e = Exp(m)
    return y, e, n
""",
        rows,
    ),
    "unique": (
        """
    input x: f32[N, 4]
    u, first, inverse, counts = Unique(x, sorted=1)
    y = Sqrt(u)
    a = Abs(u)
    z = Sqrt(a)
    return u, z, inverse, counts
""",
        rows,
    ),
    "boxes kept": (
        """
    input boxes: f32[1, M, 4]
    input scores: f32[1, 2, M]
    most: const i64[1] = [3]
    iou: const f32[1] = [0.3]
    least: const f32[1] = [0.1]
    kept = NonMaxSuppression(boxes, scores, most, iou, least)
    two: const i64[] = 2
    at = Gather(kept, two, axis=1)
    axis: const i64[1] = [0]
    flat = Squeeze(boxes, axis)
    y = Gather(flat, at, axis=0)
    return y, kept
""",
        boxes,
    ),
    "where and compress": (
        """
    input x: f32[N, 4]
    zero: const f32[] = 0.0
    c = Greater(x, zero)
    w = Where(c, x, zero)
    f = Flatten(w, axis=0)
    g = Reshape(c, all)
    h = Reshape(w, all)
    y = Compress(h, g, axis=0)
    s = ReduceSum(y)
    return y, s
""".replace("    zero: const", "    all: const i64[1] = [-1]\n    zero: const", 1),
        rows,
    ),
    "topk of a computed k": (
        """
    input x: f32[N, 4]
    all: const i64[1] = [-1]
    s = Shape(x)
    zero: const i64[1] = [0]
    one: const i64[1] = [1]
    n = Gather(s, zero, axis=0)
    k = Add(n, one)
    f = Reshape(x, all)
    v, i = TopK(f, k, axis=0, sorted=1)
    y = Tanh(v)
    return y
""",
        rows,
    ),
    "range and expand": (
        """
    input x: f32[N, 4]
    s = Shape(x)
    zero: const i64[] = 0
    one: const i64[] = 1
    axes: const i64[1] = [1]
    n = Gather(s, zero, axis=0)
    r = Range(zero, n, one)
    c = Cast(r, to=f32)
    u = Unsqueeze(c, axes)
    e = Expand(u, s)
    y = Add(x, e)
    return y, r
""",
        rows,
    ),
    "loop that grows": (
        """
    input x: f32[N, 4]
    input k: i64[]
    yes: const bool[] = [1]
    v, scan = Loop(k, yes, x):
        body:
            input i: i64[]
            input c: bool[]
            input a: f32[*]
            capture o: f32[N, 4] = x
            b = Concat(a, o, axis=0)
            m = ReduceMax(o)
            return c, b, m
    y = Relu(v)
    return y, scan
""",
        turns,
    ),
    "scan": (
        """
    input x: f32[N, 4]
    start: const f32[4] = fill(0.5)
    last, all = Scan(start, x, num_scan_inputs=1):
        body:
            input h: f32[4]
            input t: f32[4]
            s = Add(h, t)
            g = Tanh(s)
            return g, g
    return last, all
""",
        rows,
    ),
    "branches of two shapes": (
        """
    input x: f32[N, 4]
    m = ReduceMean(x, keepdims=0)
    zero: const f32[] = 0.0
    c = Greater(m, zero)
    y = If(c):
        then_branch:
            capture a: f32[N, 4] = x
            b = Concat(a, a, axis=0)
            return b
        else_branch:
            capture a: f32[N, 4] = x
            b = Neg(a)
            return b
    z = Relu(y)
    return z
""",
        rows,
    ),
    "nothing left": (
        """
    input x: f32[N, 4]
    ten: const f32[] = 10.0
    c = Greater(x, ten)
    n = NonZero(c)
    t = Transpose(n, perm=[1, 0])
    v = GatherND(x, t)
    y = Relu(v)
    return y
""",
        rows,
    ),
}


def text_of(name: str) -> str:
    text = GRAPHS[name][0]
    return text if text.lstrip().startswith("graph") else f"graph dynamic:\n    opset 17{text}"


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("device", ["host", "ascend910b"])
def test_one_compile_runs_at_every_shape(name: str, device: str) -> None:
    text = text_of(name)
    executor = Executor(reload(compiled(text, device, "fp32")))
    rng = np.random.default_rng(5)
    for n in (1, 3, 2, 6):
        feeds = GRAPHS[name][1](rng, n)
        got, want = executor.run(feeds, poison=True), ort(text, feeds)
        assert got.keys() == want.keys()
        for key, array in want.items():
            assert (got[key].shape, got[key].dtype) == (array.shape, array.dtype), key
            np.testing.assert_allclose(got[key], array, rtol=1e-5, atol=1e-6, err_msg=key)


STATIC_AND_DYNAMIC = """
graph mixed:
    opset 17
    input x: f32[2, 3, 8, 8]
    W: const f32[4, 3, 3, 3] = random(1)
    V: const f32[4, 4, 3, 3] = random(2)
    k: const f32[4, 8] = random(3)
    c = Conv(x, W, pads=[1, 1, 1, 1])
    r = Relu(c)
    d = Conv(r, V, pads=[1, 1, 1, 1])
    e = Sigmoid(d)
    g = GlobalAveragePool(e)
    f = Flatten(g)
    h = MatMul(f, k)
    n = NonZero(h)
    t = Transpose(n, perm=[1, 0])
    y = GatherND(h, t)
    z = Exp(y)
    return z
"""


def kinds(model: CompiledModel) -> dict[str, bool]:
    """Whether the node that makes a value is in a static cluster."""
    assert model.partition is not None
    static = {node: cluster.is_static for cluster in model.partition.clusters for node in cluster.nodes}
    return {
        model.graph.values[value].name: static[node.id]
        for node in model.graph.nodes.values()
        for value in node.writes()
    }


def test_what_depends_on_data_is_apart_from_what_is_compiled() -> None:
    model = compiled(STATIC_AND_DYNAMIC)
    found = kinds(model)
    assert not any(found[name] for name in ("n", "t", "y", "z"))
    assert found["h"] and found["f"] and sum(found.values()) >= 4
    # What is static has its place in the arena, and what is not is on the heap.
    plans = model.compilation.plans
    assert plans is not None
    by_name = {value.name: value.id for value in model.graph.values.values()}
    assert plans.offset_of(by_name["h"]) is not None and plans.offset_of(by_name["y"]) is None
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)}
    got, want = Executor(reload(model)).run(feeds, poison=True), ort(STATIC_AND_DYNAMIC, feeds)
    np.testing.assert_allclose(got["z"], want["z"], rtol=1e-5)


def test_the_report_says_why() -> None:
    model = compiled(STATIC_AND_DYNAMIC)
    report = CompileReport(model.summary(), model.stages)
    facts = report.facts()
    at = next(place for place, (name, _) in enumerate(facts) if name == "dynamic")
    assert facts[at][1] == "4 operators, run by the host with memory of their own"
    assert facts[at + 1][1].startswith("n (NonZero): the size of i64[2, ")
    rows = {row[0]: row for row in report.stage_grid().rows}
    assert "1 static, 1 dynamic" in str(rows["partition"][2])
    open_model = compiled(text_of("reshape by shape"))
    told = [text for _, text in CompileReport(open_model.summary(), open_model.stages).facts()]
    assert "input x is open: f32[N, 4]" in told
    fixed = compiled(text_of("reshape by shape"), input_shapes="x:2,4")
    assert not any(name == "dynamic" for name, _ in CompileReport(fixed.summary(), fixed.stages).facts())
