"""The cost model: operations, bytes and time of a node or a region on a device. One model for all who ask.

Time is a roofline: the larger of arithmetic and memory traffic, plus what a launch costs. A region that
runs as one kernel pays one launch, and only its border values touch the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gerules.ir import Attr, Const, DType, Graph, Node, TensorType, ValueType
from gerules.target.device import Device, compute_dtype_rate

UNKNOWN_DIM_SIZE: Final = 64
"""What a symbolic dimension counts as, so that dynamic graphs can be compared with themselves."""

CUBE_OPS: Final = frozenset({
    "Conv", "ConvTranspose", "MatMul", "Gemm", "Attention", "QLinearConv", "ConvInteger", "MatMulInteger",
    "QLinearMatMul", "Einsum",
})  # fmt: skip
"""Operators whose arithmetic is multiply-adds of matrices."""

_FREE_OPS: Final = frozenset({
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Shape", "Size", "Constant", "Dropout",
})  # fmt: skip
_FLOPS_PER_ELEMENT: Final = {
    "Exp": 8, "Log": 8, "Erf": 12, "Tanh": 10, "Sigmoid": 10, "Gelu": 16, "Softmax": 12, "LogSoftmax": 14,
    "LayerNormalization": 8, "RMSNormalization": 6, "BatchNormalization": 2, "Div": 4, "Sqrt": 4, "Pow": 10,
    "Softplus": 12, "Mish": 20, "HardSwish": 4,
}  # fmt: skip

_MOST_KEPT: Final = 10_000
"""Costs that are remembered; then all are forgotten."""

BodyOf = Callable[[Node, Sequence[ValueType | None]], Graph | None]
"""Gives the graph of what a fused or device operator computes, when it has one."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What work costs: operations, bytes moved to and from memory, and time in microseconds."""

    flops: float = 0.0
    bytes: float = 0.0
    time: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes, self.time + other.time)


class CostModel:
    """Costs on one device."""

    def __init__(self, device: Device, body_of: BodyOf | None = None) -> None:
        self.device = device
        self._body_of = body_of
        number = device.number
        clock_hz = number("clock_mhz") * 1e6
        self._cube = number("n_cube_cores") * number("cube_flops_per_clock") * clock_hz / 1e6
        self._vector = number("n_vector_cores") * number("vector_lanes_f16") * clock_hz / 1e6
        cores = max(number("n_cube_cores"), number("n_vector_cores"))
        self._memory = number("memory_bytes_per_clock") * cores * clock_hz / 1e6
        self._launch_us = number("launch_us")
        self._known: dict[tuple[object, ...], Cost] = {}
        """Costs found before: of nodes without bodies, by all that they depend on."""

    def node(
        self,
        node: Node,
        inputs: Sequence[ValueType | None],
        outputs: Sequence[ValueType | None],
    ) -> Cost:
        """Cost of one node that runs as one kernel."""
        if node.bodies:
            return self._node(node, inputs, outputs)
        key = (node.op, tuple(node.attrs.items()), tuple(inputs), tuple(outputs))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[key] = self._node(node, inputs, outputs)
        return found

    def _node(
        self,
        node: Node,
        inputs: Sequence[ValueType | None],
        outputs: Sequence[ValueType | None],
    ) -> Cost:
        op = node.op.removeprefix("ge::")
        if op in _FREE_OPS:
            return Cost()
        cube, vector = self._flops(node, inputs, outputs)
        moved = sum(size_bytes(type) for type in (*inputs, *outputs))
        dtype = next((t.dtype for t in outputs if isinstance(t, TensorType)), DType.F16)
        busy_us = max(
            cube / (self._cube * compute_dtype_rate(dtype)),
            vector / (self._vector * min(1.0, 16 / max(dtype.bits, 1))),
            moved / self._memory,
        )
        return Cost(cube + vector, float(moved), busy_us + self._launch_us)

    def graph(self, graph: Graph) -> Cost:
        """Cost of a graph, each node a kernel."""
        total = Cost()
        for node in graph.nodes.values():
            total += self.node_in(graph, node)
        return total

    def node_in(self, graph: Graph, node: Node) -> Cost:
        """Cost of a node of a graph."""
        inputs = [None if value is None else graph.type_of(value) for value in node.inputs]
        return self.node(node, inputs, [graph.type_of(value) for value in node.writes()])

    def _flops(
        self, node: Node, inputs: Sequence[ValueType | None], outputs: Sequence[ValueType | None]
    ) -> tuple[float, float]:
        """Operations of (cube, vector)."""
        body = node.bodies.get("body")
        graph = body.graph if body is not None else None
        if graph is None and self._body_of is not None and "::" in node.op:
            graph = self._body_of(node, inputs)
        if graph is not None:
            return self._graph_flops(graph)
        op = node.op.removeprefix("ge::")
        n_out = sum(n_elements(type) for type in outputs)
        if op in CUBE_OPS:
            return matrix_flops(op, inputs, outputs, node.attrs), 0.0
        if op in ("MaxPool", "AveragePool", "LpPool"):
            return 0.0, n_out * math.prod(_ints(node.attrs.get("kernel_shape")))
        if op.startswith(("Reduce", "Global", "Arg")):
            return 0.0, float(sum(n_elements(type) for type in inputs[:1]))
        return 0.0, n_out * _FLOPS_PER_ELEMENT.get(op, 1)

    def _graph_flops(self, graph: Graph) -> tuple[float, float]:
        cube = vector = 0.0
        for node in graph.nodes.values():
            inputs = [None if value is None else graph.type_of(value) for value in node.inputs]
            one, two = self._flops(node, inputs, [graph.type_of(value) for value in node.writes()])
            cube, vector = cube + one, vector + two
        return cube, vector


def matrix_flops(
    op: str,
    inputs: Sequence[ValueType | None],
    outputs: Sequence[ValueType | None],
    attrs: Mapping[str, Attr],
) -> float:
    """Multiplies and adds of a convolution or matrix product."""
    n_out = sum(n_elements(type) for type in outputs[:1])
    if op in ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"):
        weight = inputs[3] if op == "QLinearConv" and len(inputs) > 3 else inputs[1]
        if not isinstance(weight, TensorType) or not weight.shape:
            return 2.0 * n_out
        if op == "ConvTranspose":
            data = inputs[0]
            return 2.0 * n_elements(data) * n_elements(weight) / max(1, _size(weight.shape[0]))
        return 2.0 * n_out * n_elements(weight) / max(1, _size(weight.shape[0]))
    left = inputs[0]
    if not isinstance(left, TensorType) or not left.shape:
        return 2.0 * n_out
    transposed = op == "Gemm" and attrs.get("transA")
    inner = _size(left.shape[0] if transposed else left.shape[-1])
    if op == "Attention":
        return 4.0 * n_out * inner
    return 2.0 * n_out * inner


def size_bytes(type: ValueType | None) -> int:
    """Bytes of a value as stored; symbolic dims count as `UNKNOWN_DIM_SIZE`, other values as none."""
    if not isinstance(type, TensorType):
        return 0
    return type.size_bytes if type.is_static else type.dtype.size_bytes(n_elements(type))


def n_elements(type: ValueType | None) -> int:
    """Elements of a value; symbolic dims count as `UNKNOWN_DIM_SIZE`."""
    if not isinstance(type, TensorType) or type.shape is None:
        return 0
    return math.prod(_size(dim) for dim in type.shape)


def _size(dim: int | str) -> int:
    return dim if isinstance(dim, int) else UNKNOWN_DIM_SIZE


def _ints(value: Attr | None) -> list[int]:
    if isinstance(value, tuple):
        return [item for item in value if isinstance(item, int)]
    if isinstance(value, Const):
        return []
    return [value] if isinstance(value, int) else []
