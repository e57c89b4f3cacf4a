"""Quantized models as exporters write them, QDQ: integer arithmetic takes their place, and numbers hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import gerules
from gerules.runtime.executor import load_om
from tests.models.oracle import ort_outputs

RNG = np.random.default_rng(5)


class Writer:
    """Writes a quantized ONNX model: activations are u8, weights i8 with a scale for each output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def const(self, name: str, array: object) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, op: str, inputs: list[str], name: str, **attrs: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def quantized(self, x: str, scale: float, zero: int) -> str:
        """Quantize and dequantize a value, as between any two operators of a QDQ model."""
        s = self.const(f"{x}_scale", np.float32(scale))
        z = self.const(f"{x}_zero", np.uint8(zero))
        q = self.op("QuantizeLinear", [x, s, z], f"{x}_q")
        return self.op("DequantizeLinear", [q, s, z], f"{x}_dq")

    def weight(self, name: str, shape: tuple[int, ...], scales: np.ndarray, axis: int) -> str:
        w = self.const(name, RNG.integers(-127, 128, shape).astype(np.int8))
        s = self.const(f"{name}_scale", scales.astype(np.float32))
        z = self.const(f"{name}_zero", np.zeros(scales.shape, np.int8))
        return self.op("DequantizeLinear", [w, s, z], f"{name}_dq", axis=axis)

    def bias(self, name: str, scales: np.ndarray) -> str:
        b = self.const(name, RNG.integers(-2000, 2000, scales.shape).astype(np.int32))
        s = self.const(f"{name}_scale", scales.astype(np.float32))
        return self.op("DequantizeLinear", [b, s], f"{name}_dq", axis=0)

    def save(self, path: Path, x: tuple[int, ...], y: str, n_y: int) -> Path:
        ends = (
            helper.make_tensor_value_info("x", TensorProto.FLOAT, x),
            helper.make_tensor_value_info(y, TensorProto.FLOAT, [None] * n_y),
        )
        graph = helper.make_graph(self.nodes, "qdq", [ends[0]], [ends[1]], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return path


def network(path: Path) -> Path:
    """Convolution with Relu, convolution, view, matrix product; every edge is quantized."""
    w = Writer()
    x = w.quantized("x", 0.02, 128)
    s1 = RNG.uniform(0.002, 0.004, 8).astype(np.float32)
    c1 = w.op("Conv", [x, w.weight("w1", (8, 3, 3, 3), s1, 0), w.bias("b1", s1 * np.float32(0.02))], "c1",
              pads=[1, 1, 1, 1])  # fmt: skip
    r1 = w.quantized(w.op("Relu", [c1], "r1"), 0.03, 0)
    s2 = np.full(4, 0.004, np.float32)
    c2 = w.op("Conv", [r1, w.weight("w2", (4, 8, 1, 1), s2, 0)], "c2")
    q2 = w.quantized(c2, 0.04, 120)
    f = w.quantized(w.op("Flatten", [q2], "f"), 0.04, 120)
    y = w.quantized(w.op("MatMul", [f, w.weight("w3", (4 * 36, 5), np.full((), 0.004), 1)], "m"),
                    0.2, 128)  # fmt: skip
    return w.save(path, (2, 3, 6, 6), y, 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return network(tmp_path_factory.mktemp("quantized") / "qdq.onnx")


@pytest.mark.parametrize(("device", "domain"), [("host", ""), ("ascend910b", "ge::"), ("ascend310", "ge::")])
def test_integers_take_the_place_of_dequantized_numbers(
    model: Path, device: str, domain: str, tmp_path: Path
) -> None:
    compiled = gerules.compile(model, device=device, precision="fp32")
    fired = compiled.summary().fusions
    assert fired["qdq_conv"] == 2
    assert fired["qdq_matmul"] == 1
    assert fired["relu_before_quant"] == 1
    assert fired["quant_of_reshape"] == 1
    ops = Counter(node.op for node in compiled.graph.nodes.values())
    conv, product = ("QuantConv2D", "QuantMatmul") if domain else ("QLinearConv", "QLinearMatMul")
    quantize, dequantize = (
        ("AscendQuant", "AscendDequant") if domain else ("QuantizeLinear", "DequantizeLinear")
    )
    assert ops[domain + conv] == 2
    assert ops[domain + product] == 1
    # The network's own ends are all that is quantized and dequantized.
    assert ops[domain + quantize] == ops[domain + dequantize] == 1
    assert not {"Conv", "ge::Conv2D", "MatMul", "ge::MatMulV2", "Relu", "ge::Relu"} & set(ops)

    compiled.save(tmp_path / "m.om")
    x = RNG.uniform(-2.5, 2.5, (2, 3, 6, 6)).astype(np.float32)
    (want,) = ort_outputs(model, {"x": x}).values()
    (got,) = load_om(tmp_path / "m.om").run({"x": x}).values()
    # Rounded once instead of after every operator: a step or two of the last scale, and mostly none.
    steps = np.rint((np.asarray(got, np.float64) - np.asarray(want, np.float64)) / 0.2)
    assert float(np.ptp(want)) > 20 * 0.2, "the numbers say something"
    assert np.abs(steps).max() <= 2
    assert np.count_nonzero(steps) <= steps.size // 2


def test_strict_leaves_the_roundings_as_they_are(model: Path) -> None:
    compiled = gerules.compile(model, profile="strict")
    assert not {"qdq_conv", "qdq_matmul"} & set(compiled.summary().fusions)


F32_LIMITS = (np.finfo(np.float32).tiny * 1.001, 1e-30, 0.1, 1 / 3, 1e30, np.finfo(np.float32).max / 255.001)
F16_LIMITS = (6.11e-05, 0.001, 0.1, 1 / 3, 7.3, 256.75)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float32, scale) for scale in F32_LIMITS] + [(np.float16, scale) for scale in F16_LIMITS],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_pair_that_cancels_gives_every_step_back(dtype: type, scale: float, sign: int) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
         helper.make_node("QuantizeLinear", ["d", "s", "z"], ["y"])],
        "pair",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (256,))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, (256,))],
        [helper.make_tensor("s", kind, (), [sign * scale]),
         helper.make_tensor("z", TensorProto.UINT8, (), [77])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.arange(256, dtype=np.uint8)
    compiled = gerules.compile(model, profile="strict")
    assert compiled.summary().fusions["dq_q_cancel"] == 1
    apart = gerules.compile(model, profile="strict", disable=["dq_q_cancel"])
    (kept,) = apart.run({"x": x}).values()
    assert np.array_equal(kept, x)
    (judged,) = ort_outputs(model.SerializeToString(), {"x": x}).values()
    assert np.array_equal(judged, x)
