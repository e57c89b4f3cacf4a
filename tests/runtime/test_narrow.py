"""float16 at run time: one kernel rounds once, and a device may saturate instead of overflowing."""

from __future__ import annotations

import numpy as np

import gerules
from gerules.ir import DType
from gerules.runtime.kernels import run_kernel
from gerules.runtime.kernels.precision import saturating

CONV = """\
graph g:
    opset 17
    input x: f32[1, 16, 8, 8]
    W: const f32[16, 16, 3, 3] = fill({weight})
    input r: f32[1, 16, 8, 8]
    c = Conv(x, W, pads=[1, 1, 1, 1])
    s = Add(c, r)
    y: f32[1, 16, 8, 8] = Relu(s)
    return y
"""


def run(weight: float, device: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    graph = gerules.parse_graph(CONV.format(weight=weight))
    model = gerules.compile(graph, device=device, precision="fp16")
    assert [n.op for n in model.graph.nodes.values() if n.op.startswith("ge::Conv")] == ["ge::ConvAddRelu"]
    return model.run(feeds)["y"]


def test_a_fused_kernel_keeps_what_lies_between_its_operators() -> None:
    # The sum of the convolution alone is 4097 and no float16, so that rounding it would lose the 1.
    x = np.zeros((1, 16, 8, 8), np.float32)
    x[0, 0, 4, 4], x[0, 1, 4, 4] = 4096, 1
    r = np.full_like(x, -4096)
    y = run(1.0, "ascend910b", {"x": x, "r": r})
    assert y[0, 0, 4, 4] == 1.0


def test_ascend_saturates() -> None:
    x = np.full((1, 16, 8, 8), 6e4, np.float32)
    y = run(1.0, "ascend910b", {"x": x, "r": np.zeros_like(x)})
    assert y.max() == y.min() == 65504.0


def test_kernels_overflow_unless_told_otherwise() -> None:
    big = np.full(3, 6e4, np.float16)
    assert np.isinf(run_kernel("Add", [big, big], opset=17)[0]).all()
    with saturating(True):
        assert (run_kernel("Add", [big, big], opset=17)[0] == 65504).all()
    assert np.isinf(run_kernel("Add", [big, big], opset=17)[0]).all()


def test_infinities_of_the_model_are_no_overflow() -> None:
    mask = np.array([0.0, -np.inf], np.float32)
    with saturating(True):
        narrow = run_kernel("Cast", [mask], {"to": DType.F16}, opset=17)[0]
        assert narrow[1] == -np.inf
        assert run_kernel("Add", [np.ones(2, np.float16), narrow], opset=17)[0][1] == -np.inf


def test_rows_that_are_masked_as_a_whole_stay_zero_on_ascend() -> None:
    # As torch exports it: softmax of a row of -inf is NaN, and NaN becomes zero.
    graph = gerules.parse_graph(MASKED)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for name in "qkv"}
    keep = np.ones((1, 1, 4, 4), np.bool_)
    keep[0, 0, 1] = False
    model = gerules.compile(graph, device="ascend910b", precision="fp16")
    assert "sdpa_zero_masked" in model.summary().fusions
    y = model.run({**feeds, "keep": keep})["y"]
    assert (y[:, :, 1] == 0).all()
    assert (y[:, :, 0] != 0).all()


MASKED = """\
graph g:
    opset 17
    input q: f32[1, 2, 4, 8]
    input k: f32[1, 2, 4, 8]
    input v: f32[1, 2, 4, 8]
    input keep: bool[1, 1, 4, 4]
    zero: const f32[1] = [0.0]
    low: const f32[1] = [-inf]
    m = Where(keep, zero, low)
    kt = Transpose(k, perm=[0, 1, 3, 2])
    s = MatMul(q, kt)
    a = Add(s, m)
    p = Softmax(a, axis=-1)
    n = IsNaN(p)
    w = Where(n, zero, p)
    y: f32[1, 2, 4, 8] = MatMul(w, v)
    return y
"""
