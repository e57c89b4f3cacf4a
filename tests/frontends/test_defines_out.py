"""Every defined operator, written alone at old and new opsets, computes elsewhere what it is defined to."""

# onnx's functions have partial types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, cast

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import gerules
from gerules.frontends import ModelError
from gerules.ir import Attr, Const, DType, Graph, GraphEditor, empty_graph
from gerules.ops import infer_graph
from gerules.pipeline import Toolchain, make_toolchain, shipped_rules
from gerules.runtime.reference import evaluate
from tests.models.oracle import Array, assert_close, ort_outputs

BOOK: Final = shipped_rules()
OPSETS: Final = (7, 9, 11, 13, 17, 20, 24, 28)
"""From the oldest that is written to the newest that onnx knows."""

WITHOUT_KERNEL: Final = {("ge::AscendDequant", 28), ("ge::AscendQuant", 28)}
"""What onnxruntime has no kernel for yet; onnx's own evaluator is the judge there."""

RNG: Final = np.random.default_rng(7)


class Case(NamedTuple):
    """Inputs (arrays to feed, `Const`s to keep, None for absent ones), attributes, outputs."""

    inputs: list[Array | Const | None]
    attrs: Mapping[str, Attr] = {}
    n_outputs: int = 1


def real(*shape: int) -> Array:
    return RNG.uniform(0.2, 2.0, shape).astype(np.float32)


def signed(*shape: int) -> Array:
    return RNG.uniform(-2.0, 2.0, shape).astype(np.float32)


def ints(*entries: int) -> Const:
    return Const(np.array(entries, np.int64))


def truths(*shape: int) -> Array:
    return RNG.integers(0, 2, shape).astype(bool)


def scalar(number: float) -> Const:
    return Const(np.array(number, np.float32))


def quant(number: float) -> list[Const]:
    return [Const(np.array(number, np.float32)), Const(np.array(3, np.uint8))]


def bytes_(*shape: int) -> Array:
    return RNG.integers(0, 9, shape).astype(np.uint8)


IMAGE: Final = signed(1, 4, 6, 6)
FILTER: Final = signed(4, 4, 3, 3)
BIAS: Final = signed(4)
CONV: Final = Case([IMAGE, FILTER, BIAS], {"pads": (1, 1, 1, 1)})
HEADS: Final = [signed(1, 2, 3, 4), signed(1, 2, 3, 4), signed(1, 2, 3, 4)]
MASK: Final = signed(1, 1, 3, 3)
ROWS: Final = signed(2, 3, 8)
POOL: Final = Case([IMAGE], {"kernel_shape": (2, 2), "strides": (2, 2)})
REDUCE: Final = Case([real(2, 3, 4), ints(-1)], {"keep_dims": 0})
PAIR: Final = Case([real(2, 3, 4), real(3, 1)])
LOGIC: Final = Case([truths(2, 3), truths(2, 3)])

CASES: Final[dict[str, Case]] = {
    "ge::ConvRelu": CONV,
    "ge::ConvClip": CONV,
    "ge::ConvLeakyRelu": CONV,
    "ge::ConvSigmoid": CONV,
    "ge::ConvHardSwish": CONV,
    "ge::ConvSwish": CONV,
    "ge::ConvAdd": Case([IMAGE, FILTER, None, IMAGE], {"pads": (1, 1, 1, 1)}),
    "ge::ConvAddRelu": Case([IMAGE, FILTER, BIAS, IMAGE], {"pads": (1, 1, 1, 1)}),
    "ge::Conv2D": CONV,
    "ge::DepthwiseConv2D": Case([IMAGE, signed(4, 1, 3, 3)], {"group": 4}),
    "ge::Conv3D": Case([signed(1, 2, 4, 4, 4), signed(3, 2, 2, 2, 2)]),
    "ge::Conv2DTranspose": Case([IMAGE, FILTER]),
    "ge::MatMulBias": Case([signed(2, 3), signed(3, 4), BIAS]),
    "ge::MatMulBiasRelu": Case([signed(2, 3), signed(3, 4), BIAS]),
    "ge::MatMulBiasGelu": Case([signed(2, 3), signed(3, 4), BIAS]),
    "ge::MatMulV2": Case([signed(2, 3), signed(3, 4)]),
    "ge::BatchMatMulV2": Case([signed(5, 2, 3), signed(5, 3, 4)]),
    "ge::GEMM": Case([signed(2, 3), signed(3, 4)], {"alpha": 0.5}),
    "ge::GemmRelu": Case([signed(2, 3), signed(4, 3), BIAS], {"transB": 1}),
    "ge::RmsNorm": Case([ROWS, real(8)]),
    "ge::AddRmsNorm": Case([ROWS, ROWS, real(8)], n_outputs=2),
    "ge::LayerNorm": Case([ROWS, real(8), signed(8)]),
    "ge::AddLayerNorm": Case([ROWS, ROWS, real(8), signed(8)], n_outputs=2),
    "ge::Attention": Case([*HEADS, MASK], {"scale": 0.5}),
    "ge::AttentionZeroMasked": Case([*HEADS, MASK], {"scale": 0.5}),
    "ge::GroupedAttention": Case([*HEADS, MASK], {"heads": 2, "kv_heads": 2}),
    "ge::AttentionBsnd": Case([*HEADS], {"scale": 0.5}),
    "ge::AttentionBsh": Case([ROWS, ROWS, ROWS], {"heads": 2, "scale": 0.5}),
    "ge::RotaryMul": Case([ROWS, signed(3, 8), signed(3, 8)]),
    "ge::SwiGlu": Case([ROWS]),
    "ge::TransData": Case([IMAGE]),
    "ge::MaxPoolV3": POOL,
    "ge::AvgPoolV2": POOL,
    "ge::GlobalAveragePool": Case([IMAGE]),
    "ge::GlobalMaxPool": Case([IMAGE]),
    "ge::ReduceSum": REDUCE,
    "ge::ReduceMean": REDUCE,
    "ge::ReduceMax": REDUCE,
    "ge::ReduceMin": REDUCE,
    "ge::ReduceProd": REDUCE,
    "ge::ArgMaxV2": Case([real(2, 5)], {"dimension": -1}),
    "ge::ArgMin": Case([real(2, 5)], {"dimension": 1}),
    "ge::TopKV2": Case([real(2, 5), ints(2)], n_outputs=2),
    "ge::Cumsum": Case([real(2, 5), Const(np.array(1, np.int64))]),
    "ge::SoftmaxV2": Case([signed(2, 3, 4)], {"axes": 1}),
    "ge::LogSoftmaxV2": Case([signed(2, 3, 4)], {"axes": 1}),
    "ge::BNInference": Case([IMAGE, *(Const(real(4)) for _ in range(4))]),
    "ge::InstanceNorm": Case([IMAGE, real(4), signed(4)]),
    "ge::LRN": Case([IMAGE], {"size": 3}),
    "ge::Reshape": Case([signed(2, 3, 4), ints(0, -1)]),
    "ge::FlattenV2": Case([signed(2, 3, 4)], {"axis": -1}),
    "ge::Squeeze": Case([signed(2, 1, 4), ints(-2)]),
    "ge::Unsqueeze": Case([signed(2, 4), ints(-1, 0)]),
    "ge::Shape": Case([signed(2, 3, 4)], {"start": 1}),
    "ge::Transpose": Case([signed(2, 3, 4)], {"perm": (2, 0, 1)}),
    "ge::ConcatV2": Case([signed(2, 3), signed(2, 4)], {"concat_dim": -1}),
    "ge::SplitV": Case([signed(2, 7)], {"split_dim": -1, "num_split": 2}, 2),
    "ge::StridedSliceV2": Case([signed(4, 5), ints(1), ints(9), ints(-1), ints(1)]),
    "ge::PadV3": Case([signed(2, 3), ints(1, 2), scalar(0.5), ints(-1)]),
    "ge::Tile": Case([signed(2, 3), ints(2, 1)]),
    "ge::BroadcastTo": Case([signed(2, 1), ints(2, 3)]),
    "ge::GatherV2": Case([signed(4, 3), ints(2, 0)], {"axis": 0}),
    "ge::GatherNd": Case([signed(4, 3), Const(np.array([[1, 2], [3, 0]], np.int64))]),
    "ge::GatherElements": Case([signed(2, 2), Const(np.array([[1, 0], [0, 1]], np.int64))], {"dim": 1}),
    "ge::ScatterNdUpdate": Case([signed(4, 3), Const(np.array([[1], [3]], np.int64)), signed(2, 3)]),
    "ge::Trilu": Case([signed(3, 3)]),
    "ge::DepthToSpace": Case([IMAGE]),
    "ge::SpaceToDepth": Case([IMAGE]),
    "ge::ClipByValue": Case([IMAGE, scalar(-1.0), scalar(0.5)]),
    "ge::PRelu": Case([IMAGE, real(4, 1, 1)]),
    "ge::Log": Case([real(2, 3)]),
    "ge::Sqrt": Case([real(2, 3)]),
    "ge::Reciprocal": Case([real(2, 3)]),
    "ge::LogicalNot": Case([truths(2, 3)]),
    "ge::LogicalAnd": LOGIC,
    "ge::LogicalOr": LOGIC,
    "ge::Equal": Case([bytes_(2, 3).astype(np.int64), bytes_(2, 3).astype(np.int64)]),
    "ge::Select": Case([truths(2, 3), signed(2, 3), signed(2, 3)]),
    "ge::Cast": Case([signed(2, 3)], {"dst_type": DType.I32}),
    "ge::AscendQuant": Case([signed(2, 3), *quant(0.1)]),
    "ge::AscendDequant": Case([bytes_(2, 3), *quant(0.1)]),
    "ge::QuantConv2D": Case(
        [bytes_(1, 2, 4, 4), *quant(0.1), bytes_(3, 2, 3, 3), *quant(0.1), *quant(0.5)]
    ),
    "ge::QuantMatmul": Case([bytes_(2, 3), *quant(0.1), bytes_(3, 4), *quant(0.1), *quant(0.5)]),
}  # fmt: skip
"""Those that are not of one or two plain tensors."""

BEFORE: Final[dict[str, int]] = {
    "ge::AscendDequant": 10,
    "ge::AscendQuant": 10,
    "ge::AttentionBsh": 9,
    "ge::AttentionZeroMasked": 9,
    "ge::BroadcastTo": 8,
    "ge::Cumsum": 11,
    "ge::Erf": 9,
    "ge::GatherElements": 11,
    "ge::GatherNd": 11,
    "ge::GeluV2": 9,
    "ge::GreaterEqual": 11,
    "ge::GroupedAttention": 9,
    "ge::IsNan": 9,
    "ge::LessEqual": 11,
    "ge::MatMulBiasGelu": 9,
    "ge::Maximum": 8,
    "ge::Minimum": 8,
    "ge::QuantConv2D": 10,
    "ge::QuantMatmul": 10,
    "ge::Round": 11,
    "ge::ScatterNdUpdate": 11,
    "ge::Select": 9,
    "ge::Sign": 9,
    "ge::Trilu": 14,
}
"""The version of ONNX that brought what an operator needs, and cannot be said before. Source: Changelog.md.

Most need an operator of that version. `LessEqual` and its twin need Equal on numbers with fractions,
`Maximum` and `Minimum` need Max and Min on tensors of unlike shapes, `AttentionBsh` a Constant of shapes.
"""


@cache
def toolchain(opset: int) -> Toolchain:
    return make_toolchain(BOOK, {"": opset})


def case_of(op: str, tools: Toolchain) -> Case:
    if op in CASES:
        return CASES[op]
    schema = tools.schemas.get(op)
    assert schema is not None
    return PAIR if len(schema.inputs) == 2 else Case([signed(2, 3)])


def alone(op: str, case: Case, opset: int) -> tuple[Graph, dict[str, Array]]:
    """A graph of one node, and what to feed it."""
    edit = GraphEditor(empty_graph("alone", {"": opset}))
    feeds: dict[str, Array] = {}
    inputs: list[int | None] = []
    for place, given in enumerate(case.inputs):
        if given is None:
            inputs.append(None)
        elif isinstance(given, Const):
            inputs.append(edit.add_const(given, f"k{place}"))
        else:
            inputs.append(edit.add_input(Const(given).type, f"x{place}"))
            feeds[f"x{place}"] = given
    outputs = [edit.add_value(name=f"y{place}") for place in range(case.n_outputs)]
    edit.add_node(op, inputs, outputs, case.attrs)
    edit.set_outputs(outputs)
    return edit.commit(), feeds


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("op", sorted(BOOK.defines))
def test_a_define_is_said_at(op: str, opset: int, tmp_path: Path) -> None:
    tools = toolchain(opset)
    graph, feeds = alone(op, case_of(op, tools), opset)
    graph = infer_graph(graph, tools.schemas, extra=tools.extra)
    out = tmp_path / "alone.onnx"
    if opset < BEFORE.get(op, 7):
        with pytest.raises(ModelError) as caught:
            gerules.save(graph, out)
        assert caught.value.code == "E10031"
        return
    gerules.save(graph, out)
    onnx.checker.check_model(str(out), full_check=True)
    model = onnx.load(str(out))
    assert {entry.version for entry in model.opset_import if entry.domain == ""} <= {opset}
    if (op, opset) in WITHOUT_KERNEL:
        names = [output.name for output in model.graph.output]
        got = dict(zip(names, cast("list[Array]", ReferenceEvaluator(model).run(names, feeds)), strict=True))
    else:
        got = ort_outputs(out, feeds)
    assert_close(got, evaluate(graph, feeds, body_of=tools.body_of), 2e-5)
    again = gerules.load(out)
    assert [node.op for node in again.nodes.values()] == [op]
    assert not any(node.bodies for node in again.nodes.values())


RMS_NORM: Final = """graph g:
    opset {opset}
    input a: f16[4, 4]
    input b: f16[4, 4]
    eps: const f32[] = 1e-08
    g: const f16[4] = [1.0, 0.5, 2.0, -1.0]
    x = Add(a, b)
    w = Cast(x, to=f32)
    s = Mul(w, w)
    v = ReduceMean(s{axes}, keepdims=1)
    e = Add(v, eps)
    r = Sqrt(e)
    n = Div(w, r)
    h = Cast(n, to=f16)
    y: f16[4, 4] = Mul(h, g)
    return {outputs}
"""
HARD_ROWS: Final = ((0, 0, 0, 0), (1e-4, 2e-4, 0, 1e-4), (300, 400, 500, 600), (1000, 2000, -3000, 4000))
"""Zeros, squares that float16 rounds to zero, and squares that it cannot hold."""


@pytest.mark.parametrize("opset", [13, 17, 18, 23, 24])
@pytest.mark.parametrize("outputs", ["y", "y, x"])
def test_a_norm_of_float16_is_taken_in_float32(opset: int, outputs: str, tmp_path: Path) -> None:
    text = RMS_NORM.format(opset=opset, axes=", axes=[-1]" if opset < 18 else ", ax", outputs=outputs)
    if opset >= 18:
        text = text.replace("    eps:", "    ax: const i64[1] = [-1]\n    eps:")
    (tmp_path / "g.graph").write_text(text)
    graph = gerules.load(tmp_path / "g.graph")
    fused, trace = gerules.rewrite(graph)
    assert [applied.rule for applied in trace.applications] == ["rms_norm", "add_rms_norm"]
    gerules.save(graph, tmp_path / "before.onnx")
    gerules.save(fused, tmp_path / "after.onnx")
    rows = np.array(HARD_ROWS, np.float16)
    feeds = {"a": rows / np.float16(2), "b": rows / np.float16(2)}
    want = ort_outputs(tmp_path / "before.onnx", feeds)
    got = ort_outputs(tmp_path / "after.onnx", feeds)
    assert want.keys() == got.keys()
    for name, array in want.items():
        assert np.isfinite(array.astype(np.float32)).all()
        np.testing.assert_allclose(got[name].astype(np.float32), array.astype(np.float32), rtol=1e-3)
