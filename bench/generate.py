"""Synthetic ONNX graphs of a given number of nodes, for benches of growth.

Every maker gives exactly `n_nodes` nodes: whole blocks for as long as one fits, then a tail of `Relu`.
All sizes are small and the blocks share a few weights, so a bench of a million nodes measures the work per
node and not the copying of weights. The same call always gives the same model. The numbers stay finite at
every depth, so a compiled graph can still be compared with the one it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
"""The oldest opset in which Dropout, Squeeze and the reductions have today's form, and LayerNormalization
does not exist yet: exporters had to spell it out."""

IR_VERSION = 8

BATCH, TOKENS, HEADS, HEAD_SIZE = 1, 8, 2, 8
HIDDEN = HEADS * HEAD_SIZE
INNER = 4 * HIDDEN
CHANNELS, SIDE = 8, 6
WIDE_IN, WIDE_OUT = 4, 2

_N_WEIGHT_SETS = 4
"""Blocks take turns with these sets, so that two neighbours never hold equal weights."""


class _Writer:
    """A graph under construction. Values are named after the number of the node that makes them."""

    def __init__(self, name: str, n_nodes: int, shape: Sequence[int]) -> None:
        if n_nodes < 1:
            raise ValueError(f"a graph needs at least one node, not {n_nodes}")
        self.name = name
        self.n_nodes = n_nodes
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)

    @property
    def n_left(self) -> int:
        """Nodes still to be written."""
        return self.n_nodes - len(self.nodes)

    def weight(self, name: str, array: NDArray[np.generic]) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def random(self, name: str, *shape: int, scale: float, offset: float = 0.0) -> str:
        draw = self.rng.standard_normal(shape) * scale + offset
        return self.weight(name, draw.astype(np.float32))

    def node(self, op: str, *inputs: str, **attributes: int | Sequence[int] | onnx.TensorProto) -> str:
        output = f"v{len(self.nodes)}"
        node = onnx.NodeProto(op_type=op, name=f"{op}_{len(self.nodes)}", input=inputs, output=[output])
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        self.nodes.append(node)
        return output

    def constant(self, value: float | Sequence[int]) -> str:
        """A `Constant` node of its own, as TorchScript writes one before each use."""
        array = np.array(value, np.float32 if isinstance(value, float) else np.int64)
        return self.node("Constant", value=numpy_helper.from_array(array))

    def finish(self, x: str, shape: Sequence[int]) -> onnx.ModelProto:
        for _ in range(self.n_left):
            x = self.node("Relu", x)
        output = helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, self.name, [self.input], [output], self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _repeat(
    writer: _Writer, x: str, block: Callable[[_Writer, str, int], str], size: Callable[[int], int]
) -> str:
    """Write blocks 0, 1, ... as long as the next one, of `size(index)` nodes, still fits."""
    index = 0
    while writer.n_left >= size(index):
        x = block(writer, x, index)
        index += 1
    return x


def transformer(n_nodes: int) -> onnx.ModelProto:
    """A pre-norm transformer as the TorchScript exporter writes it below opset 17.

    LayerNorm is nine arithmetic nodes and two constants, GELU goes through `Erf`, heads are split by
    Reshape and Transpose. A block is 63 nodes. Input and output are f32[1, 8, 16].
    """
    shape = (BATCH, TOKENS, HIDDEN)
    writer = _Writer("transformer", n_nodes, shape)
    for index in range(_N_WEIGHT_SETS):
        for norm in ("ln1", "ln2"):
            writer.random(f"{norm}.weight.{index}", HIDDEN, scale=0.1, offset=1.0)
            writer.random(f"{norm}.bias.{index}", HIDDEN, scale=0.1)
        for linear in ("q", "k", "v", "o"):
            _write_linear_weights(writer, f"{linear}.{index}", HIDDEN, HIDDEN)
        _write_linear_weights(writer, f"up.{index}", HIDDEN, INNER)
        _write_linear_weights(writer, f"down.{index}", INNER, HIDDEN)
    return writer.finish(_repeat(writer, "x", _write_transformer_block, lambda _: 63), shape)


def _write_linear_weights(writer: _Writer, name: str, n_in: int, n_out: int) -> None:
    writer.random(f"{name}.weight", n_in, n_out, scale=n_in**-0.5)
    writer.random(f"{name}.bias", n_out, scale=0.1)


def _write_transformer_block(writer: _Writer, x: str, index: int) -> str:
    pick = index % _N_WEIGHT_SETS
    normed = _write_layer_norm(writer, x, f"ln1.weight.{pick}", f"ln1.bias.{pick}")
    x = writer.node("Add", x, _write_attention(writer, normed, pick))
    normed = _write_layer_norm(writer, x, f"ln2.weight.{pick}", f"ln2.bias.{pick}")
    inner = _write_gelu(writer, _write_linear(writer, normed, f"up.{pick}"))
    return writer.node("Add", x, _write_linear(writer, inner, f"down.{pick}"))


def _write_layer_norm(writer: _Writer, x: str, weight: str, bias: str) -> str:
    mean = writer.node("ReduceMean", x, axes=[-1])
    centred = writer.node("Sub", x, mean)
    squared = writer.node("Pow", centred, writer.constant(2.0))
    variance = writer.node("ReduceMean", squared, axes=[-1])
    deviation = writer.node("Sqrt", writer.node("Add", variance, writer.constant(1e-5)))
    normed = writer.node("Div", centred, deviation)
    return writer.node("Add", writer.node("Mul", normed, weight), bias)


def _write_gelu(writer: _Writer, x: str) -> str:
    erf = writer.node("Erf", writer.node("Div", x, writer.constant(2.0**0.5)))
    doubled = writer.node("Mul", x, writer.node("Add", erf, writer.constant(1.0)))
    return writer.node("Mul", doubled, writer.constant(0.5))


def _write_linear(writer: _Writer, x: str, name: str) -> str:
    return writer.node("Add", f"{name}.bias", writer.node("MatMul", x, f"{name}.weight"))


def _write_attention(writer: _Writer, x: str, pick: int) -> str:
    q = _write_head_split(writer, _write_linear(writer, x, f"q.{pick}"), [0, 2, 1, 3])
    k = _write_head_split(writer, _write_linear(writer, x, f"k.{pick}"), [0, 2, 3, 1])
    v = _write_head_split(writer, _write_linear(writer, x, f"v.{pick}"), [0, 2, 1, 3])
    scores = writer.node("Div", writer.node("MatMul", q, k), writer.constant(HEAD_SIZE**0.5))
    mixed = writer.node("MatMul", writer.node("Softmax", scores, axis=-1), v)
    joined = writer.node("Transpose", mixed, perm=[0, 2, 1, 3])
    flat = writer.node("Reshape", joined, writer.constant([BATCH, TOKENS, HIDDEN]))
    return _write_linear(writer, flat, f"o.{pick}")


def _write_head_split(writer: _Writer, x: str, perm: Sequence[int]) -> str:
    split = writer.node("Reshape", x, writer.constant([BATCH, TOKENS, HEADS, HEAD_SIZE]))
    return writer.node("Transpose", split, perm=perm)


def resnet(n_nodes: int) -> onnx.ModelProto:
    """Residual blocks of Conv, BatchNormalization and Relu; each fourth has a convolution in its shortcut.

    A block is 7 nodes, or 9 with that shortcut. Input and output are f32[1, 8, 6, 6].
    """
    shape = (BATCH, CHANNELS, SIDE, SIDE)
    writer = _Writer("resnet", n_nodes, shape)
    for index in range(_N_WEIGHT_SETS):
        # The branch adds a little and every shortcut convolution halves the stream: no depth overflows.
        _write_conv_weights(writer, f"conv1.{index}", 3, gain=1.0)
        _write_conv_weights(writer, f"conv2.{index}", 3, gain=0.1)
        _write_conv_weights(writer, f"shortcut.{index}", 1, gain=0.5)
    return writer.finish(_repeat(writer, "x", _write_residual_block, _count_residual_nodes), shape)


def _count_residual_nodes(index: int) -> int:
    return 9 if _has_shortcut(index) else 7


def _has_shortcut(index: int) -> bool:
    return index % 4 == 3


def _write_conv_weights(writer: _Writer, name: str, side: int, *, gain: float) -> None:
    fan_in = CHANNELS * side * side
    writer.random(f"{name}.weight", CHANNELS, CHANNELS, side, side, scale=fan_in**-0.5)
    writer.random(f"{name}.scale", CHANNELS, scale=0.1 * gain, offset=gain)
    writer.random(f"{name}.shift", CHANNELS, scale=0.2)
    writer.random(f"{name}.mean", CHANNELS, scale=0.1)
    writer.weight(f"{name}.var", writer.rng.uniform(0.8, 1.2, CHANNELS).astype(np.float32))


def _write_residual_block(writer: _Writer, x: str, index: int) -> str:
    # Sets change after four blocks, not after each: else only one set's shortcut would ever be used.
    pick = (index + index // 4) % _N_WEIGHT_SETS
    branch = writer.node("Relu", _write_conv_and_norm(writer, x, f"conv1.{pick}", 3))
    branch = _write_conv_and_norm(writer, branch, f"conv2.{pick}", 3)
    if _has_shortcut(index):
        x = _write_conv_and_norm(writer, x, f"shortcut.{pick}", 1)
    return writer.node("Relu", writer.node("Add", branch, x))


def _write_conv_and_norm(writer: _Writer, x: str, name: str, side: int) -> str:
    pad = side // 2
    conv = writer.node("Conv", x, f"{name}.weight", kernel_shape=[side, side], pads=[pad] * 4)
    statistics = [f"{name}.{part}" for part in ("scale", "shift", "mean", "var")]
    return writer.node("BatchNormalization", conv, *statistics)


def noop_chain(n_nodes: int) -> onnx.ModelProto:
    """A chain of nodes none of which changes its value: an optimiser should leave nothing of it.

    Twelve kinds follow each other, all the ways in which exporters leave a no-op behind, with a pair of
    Transposes that cancel only together. A tail that no longer fits is `Identity`. Input and output are
    f32[2, 3].
    """
    shape = (2, 3)
    writer = _Writer("noop_chain", n_nodes, shape)
    writer.weight("zero", np.zeros((), np.float32))
    writer.weight("one", np.ones((), np.float32))
    writer.weight("shape", np.array(shape, np.int64))
    writer.weight("starts", np.zeros(2, np.int64))
    writer.weight("ends", np.array([2**63 - 1] * 2, np.int64))
    writer.weight("no_pads", np.zeros(4, np.int64))
    writer.weight("ones", np.ones(2, np.int64))
    x = _repeat(writer, "x", _write_noops, lambda _: 12)
    for _ in range(writer.n_left):
        x = writer.node("Identity", x)
    return writer.finish(x, shape)


def _write_noops(writer: _Writer, x: str, _index: int) -> str:
    x = writer.node("Identity", x)
    x = writer.node("Add", x, "zero")
    x = writer.node("Mul", "one", x)
    x = writer.node("Sub", x, "zero")
    x = writer.node("Div", x, "one")
    x = writer.node("Reshape", x, "shape")
    x = writer.node("Cast", x, to=TensorProto.FLOAT)
    x = writer.node("Slice", x, "starts", "ends")
    x = writer.node("Pad", x, "no_pads")
    x = writer.node("Expand", x, "ones")
    x = writer.node("Transpose", x, perm=[1, 0])
    return writer.node("Transpose", x, perm=[1, 0])


def wide(n_nodes: int) -> onnx.ModelProto:
    """`n_nodes - 1` MatMuls that all read the one input, and one `Sum` that reads them all.

    Each has a weight of its own, of 32 bytes: with shared ones they would be the same value twice. Fan-out
    and fan-in are as large as they get, and every product is alive when the sum starts. Input f32[1, 4],
    output f32[1, 2]. Needs two nodes at least.
    """
    if n_nodes < 2:
        raise ValueError(f"a wide graph needs a MatMul and a Sum, not {n_nodes} node")
    writer = _Writer("wide", n_nodes, (1, WIDE_IN))
    products = [
        writer.node("MatMul", "x", writer.random(f"w{index}", WIDE_IN, WIDE_OUT, scale=0.5))
        for index in range(n_nodes - 1)
    ]
    return writer.finish(writer.node("Sum", *products), (1, WIDE_OUT))


def branches(n_nodes: int) -> onnx.ModelProto:
    """Branches of MatMul, Add of a bias, Relu, MatMul and Mul, all of one input, and one `Sum`.

    What a layer of experts without a router is: as wide as `wide`, and with work in every branch. The Mul has
    one factor for each column. A branch is 5 nodes. Input f32[1, 4], output f32[1, 2]. Needs six nodes.
    """
    if n_nodes < 6:
        raise ValueError(f"a graph of branches needs a branch and a Sum, not {n_nodes} nodes")
    writer = _Writer("branches", n_nodes, (1, WIDE_IN))
    ends: list[str] = []
    while writer.n_left > 5:
        index = len(ends)
        up = writer.random(f"up{index}", WIDE_IN, WIDE_IN, scale=WIDE_IN**-0.5)
        down = writer.random(f"down{index}", WIDE_IN, WIDE_OUT, scale=0.5, offset=0.5)
        bias = writer.random(f"bias{index}", WIDE_IN, scale=0.1)
        scale = writer.random(f"scale{index}", WIDE_OUT, scale=0.1, offset=1.0)
        inner = writer.node("Relu", writer.node("Add", writer.node("MatMul", "x", up), bias))
        ends.append(writer.node("Mul", writer.node("MatMul", inner, down), scale))
    return writer.finish(writer.node("Sum", *ends), (1, WIDE_OUT))


MAKERS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "transformer": transformer,
    "resnet": resnet,
    "noop_chain": noop_chain,
    "wide": wide,
    "branches": branches,
}
"""Every kind of graph, by name."""
