"""Storage formats: networks with blocked layouts and TransData compute what they do without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gerules.backend.definitions import definition_texts
from gerules.backend.emit import emit
from gerules.backend.om import read_om
from gerules.backend.om.write import om_chunks
from gerules.backend.plans import make_plans
from gerules.dsl import RuleBook, load_rules, rules_folder
from gerules.ir import Const, Format, Graph, parse_graph
from gerules.runtime.compare import compare
from gerules.runtime.definitions import bodies_of
from gerules.runtime.executor import Executor
from gerules.runtime.reference import evaluate

DEVICE = """
graph stem:
    opset "" 18
    input x: {t}[1, 20, 9, 9]
    W: const {t}[24, 20, 3, 3] @FRACTAL_Z = fill(1.0)
    D: const {t}[24, 1, 3, 3] @FRACTAL_Z/24 = fill(1.0)
    b: const {t}[24] = fill(1.0)
    M: const {t}[24, 40] @FRACTAL_NZ = fill(1.0)
    half: const {t}[] = 0.5
    s: const i64[2] = [81, 24]
    p: {t}[1, 20, 9, 9] @NC1HWC0 = ge::TransData(x, src_format="NCHW", dst_format="NC1HWC0")
    c: {t}[1, 24, 9, 9] @NC1HWC0 = ge::Conv2D(p, W, b, pads=[1, 1, 1, 1])
    r: {t}[1, 24, 9, 9] @NC1HWC0 = ge::Relu(c)
    d: {t}[1, 24, 9, 9] @NC1HWC0 = ge::DepthwiseConv2D(r, D, pads=[1, 1, 1, 1], group=24)
    e: {t}[1, 24, 9, 9] @NC1HWC0 = ge::Add(d, r)
    f: {t}[1, 24, 9, 9] @NC1HWC0 = ge::Mul(e, half)
    g: {t}[1, 24, 9, 9] @NC1HWC0 = ge::Swish(f)
    n: {t}[1, 9, 9, 24] = Transpose(g, perm=[0, 2, 3, 1])
    v: {t}[81, 24] = ge::Reshape(n, s)
    z: {t}[81, 24] @FRACTAL_NZ = ge::TransData(v, src_format="ND", dst_format="FRACTAL_NZ")
    m: {t}[81, 40] @FRACTAL_NZ = ge::MatMulV2(z, M)
    y: {t}[81, 40] = ge::TransData(m, src_format="FRACTAL_NZ", dst_format="ND")
    return y, g
"""


@pytest.fixture(scope="module")
def book() -> RuleBook:
    return load_rules([rules_folder() / "prelude.ger"], schemas=None)


def _graph(dtype: str, *, plain: bool = False) -> Graph:
    graph = parse_graph(DEVICE.format(t=dtype))
    if plain:
        values = {v: replace(r, type=r.type.with_format(Format.ND)) for v, r in graph.values.items()}
        graph = replace(graph, values=values)
    rng = np.random.default_rng(3)
    consts = dict(graph.consts)
    for value, const in consts.items():
        if const.array.dtype.kind == "f" and const.array.size > 1:
            made = rng.standard_normal(const.array.shape) / 4
            consts[value] = Const(made.astype(const.array.dtype))
    return replace(graph, consts=consts)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_blocked_formats_change_nothing(book: RuleBook, dtype: str) -> None:
    device, plain = _graph(dtype), _graph(dtype, plain=True)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((1, 20, 9, 9)).astype(np.float16 if dtype == "f16" else np.float32)}
    want = evaluate(plain, feeds, body_of=bodies_of(book))
    plans = make_plans(device, {})
    model = emit(device, plans, engines={}, definitions=definition_texts(book, device))
    executor = Executor(read_om(b"".join(om_chunks(model))))
    got = executor.run(feeds, poison=True)
    assert compare(got, want).max_rel < (3e-3 if dtype == "f16" else 1e-5)
    conv = next(op for op in model.root.ops if op.type == "Conv2D")
    assert conv.output_descs[0].shape == (1, 2, 9, 9, 16)
    assert conv.output_descs[0].origin_shape == (1, 24, 9, 9)
    assert conv.input_descs[1].layout == "FRACTAL_Z"


def test_only_the_definitions_in_use_travel(book: RuleBook) -> None:
    (text,) = definition_texts(book, _graph("f32"))
    assert "define ge::Conv2D(" in text and "define ge::Swish(" in text
    assert "define ge::AddRmsNorm(" not in text and "rule " not in text
    assert definition_texts(book, parse_graph("graph g:\n    input x: f32[2]\n    return x\n")) == ()


def test_padding_is_zero_where_kernels_write_logical_values(book: RuleBook) -> None:
    graph = parse_graph(
        'graph g:\n    opset "" 18\n    input x: f32[1, 3, 2, 2]\n'
        "    y: f32[1, 3, 2, 2] @NC1HWC0 = ge::TransData(x)\n    z: f32[1, 3, 2, 2] @NC1HWC0 = Exp(y)\n"
        "    w: f32[1, 3, 2, 2] = ge::TransData(z)\n    return w\n"
    )
    model = emit(graph, make_plans(graph, {}), engines={}, definitions=definition_texts(book, graph))
    executor = Executor(read_om(b"".join(om_chunks(model))))
    x = np.random.default_rng(0).standard_normal((1, 3, 2, 2)).astype(np.float32)
    np.testing.assert_allclose(executor.run({"x": x}, poison=True)["w"], np.exp(x), rtol=1e-6)


@pytest.mark.parametrize("format", ["NC1HWC0", "FRACTAL_NZ"])
def test_element_wise_kernels_work_on_what_is_stored(format: str) -> None:
    """Sigmoid makes padding 0.5, which a result that was laid out anew would not have."""
    graph = parse_graph(
        f'graph g:\n    opset "" 18\n    input x: f32[1, 3, 2, 2] @{format}\n'
        f"    y: f32[1, 3, 2, 2] @{format} = Sigmoid(x)\n    z: f32[1, 3, 2, 2] @{format} = Add(y, y)\n"
        f"    return y, z\n"
    )
    executor = Executor(emit(graph, make_plans(graph, {}), engines={}))
    x = np.random.default_rng(0).standard_normal((1, 3, 2, 2)).astype(np.float32)
    got = executor.run({"x": x}, poison=True)
    np.testing.assert_allclose(got["y"], 1 / (1 + np.exp(-x)), rtol=1e-5)
    np.testing.assert_allclose(got["z"], 2 / (1 + np.exp(-x)), rtol=1e-5)
    y = next(value.id for value in executor.graph.values.values() if value.name == "y")
    stored = executor.storage_of(y)
    assert stored.shape == graph.type_of(graph.outputs[0]).storage_shape
    assert np.count_nonzero(stored == 0.5) == stored.size - x.size
