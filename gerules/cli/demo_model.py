"""The network of the demo: ResNet-50 as the onnx package has it, with weights from a seed.

The package carries the network without most of its weights (each is one number, repeated), and a run
with those overflows. Weights as they are drawn before a training keep every value in range.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import numpy as np
import onnx
from onnx import numpy_helper

from gerules.cli.errors import CliError
from gerules.errors import table
from gerules.report.comparison import Array

SEED: Final = 0

_FILE: Final = "backend/test/data/light/light_resnet50.onnx"
_LAST_SCALE: Final = 0.3
"""Scale of the last normalization of a branch: sums of branches must not grow from block to block."""

_IR_VERSION: Final = 4
"""From this one on an initializer need not be an input too. Source: onnx/docs/IR.md."""

_LOGITS: Final = 4.0
"""Spread of the last layer, so that classes differ."""


def make_demo_model(seed: int = SEED) -> onnx.ModelProto:
    """Return ResNet-50 with weights of the right shapes, drawn from a seed.

    Raises:
        CliError: E10001 when the installed onnx package lacks the network.
    """
    path = Path(onnx.__file__).parent / _FILE
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except OSError as error:
        reason = f"{error.strerror}; the installed onnx package has no test data"
        raise CliError(table.FILE_NOT_FOUND, path=path, reason=reason) from None
    graph = model.graph
    known = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    filled = {
        node.output[0]: tuple(int(size) for size in known[node.input[0]])
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }
    shapes = {name: array.shape for name, array in known.items()} | filled
    drawn = dict(_draw(graph, shapes, np.random.default_rng(seed)))
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    read = {name for node in nodes for name in node.input} - drawn.keys()
    kept = [item for item in graph.initializer if item.name in read]
    inputs = [item for item in graph.input if item.name not in shapes]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in drawn.items())
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, _IR_VERSION)
    return model


def _draw(
    graph: onnx.GraphProto, shapes: dict[str, tuple[int, ...]], rng: np.random.Generator
) -> Iterator[tuple[str, Array]]:
    summed = {name for node in graph.node if node.op_type == "Sum" for name in node.input}
    for node in graph.node:
        names = list(node.input)
        if node.op_type == "Conv":
            yield names[1], _normal(rng, shapes[names[1]], np.sqrt(2 / np.prod(shapes[names[1]][1:])))
        elif node.op_type == "BatchNormalization":
            size = shapes[names[1]]
            scale = _LAST_SCALE if node.output[0] in summed else 1.0
            yield names[1], np.full(size, scale, np.float32)
            yield names[2], _normal(rng, size, 0.05)
            yield names[3], _normal(rng, size, 0.05)
            yield names[4], rng.uniform(0.8, 1.2, size).astype(np.float32)
        elif node.op_type == "Gemm":
            yield names[1], _normal(rng, shapes[names[1]], _LOGITS / np.sqrt(shapes[names[1]][1]))
            yield names[2], _normal(rng, shapes[names[2]], 0.05)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> Array:
    return cast(Array, rng.standard_normal(shape, np.float32) * np.float32(scale))
