"""The light models of the `onnx` wheel: nine known networks whose weights are left out.

Weights of more than 64 numbers are `ConstantOfShape` nodes that give 0.02 everywhere, so every class comes
out alike: the structure is true, the numbers tell nothing. `write_filled` gives a model random weights.
"""

# The signatures of onnx and onnxruntime leave types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from numpy.typing import NDArray
from onnx import helper, numpy_helper

_FOLDER = Path(next(iter(onnx.backend.test.__path__))) / "data" / "light"

PATHS: dict[str, Path] = {file.stem: file for file in sorted(_FOLDER.glob("light_*.onnx"))}

_TOO_LARGE = {"light_bvlc_alexnet", "light_vgg19", "light_zfnet512"}
"""Filled, they would take 240 MB and more each."""

FILLED: dict[str, str] = {stem.replace("light", "filled"): stem for stem in PATHS if stem not in _TOO_LARGE}
"""Filled models by name, with the light one each comes from."""

OUTPUT_SPREAD = 1.5
"""Standard deviation of what goes into the last Softmax: classes differ, and none takes all."""

_Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]


def _draw_matrix(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    fan_in = float(np.prod(shape[1:]))
    return rng.standard_normal(shape) * np.sqrt(2 / fan_in)  # keeps the variance through a Relu


def _draw_scale(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rng.uniform(0.7, 1.3, shape)


def _draw_shift(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rng.normal(0, 0.1, shape)


_DRAWS: Mapping[tuple[str, int], _Draw] = {
    ("Conv", 1): _draw_matrix,
    ("Conv", 2): _draw_shift,
    ("Gemm", 1): _draw_matrix,
    ("Gemm", 2): _draw_shift,
    ("BatchNormalization", 1): _draw_scale,
    ("BatchNormalization", 2): _draw_shift,
    ("BatchNormalization", 3): _draw_shift,
    ("BatchNormalization", 4): _draw_scale,
    ("Mul", 1): _draw_scale,
    ("Add", 1): _draw_shift,
}
"""How a weight is drawn, by the operator that reads it and the place it has there."""


def write_filled(name: str, file: Path, *, seed: int) -> None:
    """Write the model `name` of `FILLED`: its light model with random initializers for the weights."""
    model = onnx.load(PATHS[FILLED[name]])
    graph = model.graph
    draws = _find_draws(graph)
    rng = np.random.default_rng(seed)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for tensor in graph.initializer:
        if tensor.name in draws:  # the small ones, as trained: beside random ones they fit no more
            tensor.CopyFrom(_draw(draws[tensor.name], rng, tensor.name, tensor.dims))
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = numpy_helper.to_array(weights[node.input[0]]).tolist()
            graph.initializer.append(_draw(draws[node.output[0]], rng, node.output[0], shape))
    _replace_nodes(graph, [node for node in graph.node if node.op_type != "ConstantOfShape"])
    _drop_unread(graph)
    model.ir_version = 4  # the first in which an initializer need not be listed as an input
    _settle_batch_norms(model, rng)
    _spread_output(model)
    onnx.save(model, file)


def _draw(draw: _Draw, rng: np.random.Generator, name: str, shape: Sequence[int]) -> onnx.TensorProto:
    return numpy_helper.from_array(draw(rng, tuple(shape)).astype(np.float32), name)


def _find_draws(graph: onnx.GraphProto) -> dict[str, _Draw]:
    """What draws each value, known from its reader; a reader that only changes the shape passes it on."""
    draws: dict[str, _Draw] = {}
    for node in reversed(graph.node):
        for place, value in enumerate(node.input):
            if node.op_type in ("Unsqueeze", "Reshape") and place == 0 and node.output[0] in draws:
                draws[value] = draws[node.output[0]]
            elif (node.op_type, place) in _DRAWS:
                draws[value] = _DRAWS[node.op_type, place]
    return draws


def _replace_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    kept = onnx.GraphProto()
    kept.node.extend(nodes)
    graph.ClearField("node")
    graph.node.extend(kept.node)


def _drop_unread(graph: onnx.GraphProto) -> None:
    read = {value for node in graph.node for value in node.input}
    weights = {tensor.name for tensor in graph.initializer}
    for values in (graph.initializer, graph.input):
        for index in reversed(range(len(values))):
            name = values[index].name
            if name not in read or (values is graph.input and name in weights):
                del values[index]


def _settle_batch_norms(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Set running statistics to those of one image, then push each a little off.

    One run measures them all: on a batch of one, InstanceNormalization is BatchNormalization by the
    statistics of the batch, so each norm sees what it will see once those before it are settled.
    """
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    if not norms:
        return
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    for node in probe.graph.node:
        if node.op_type == "BatchNormalization":
            node.op_type = "InstanceNormalization"
            del node.input[3:]
            kept = [attribute for attribute in node.attribute if attribute.name == "epsilon"]
            node.ClearField("attribute")
            node.attribute.extend(kept)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    measured = _measure(probe, [node.input[0] for node in norms])
    for node, seen in zip(norms, measured, strict=True):
        mean, variance = seen.mean(axis=(0, 2, 3)), seen.var(axis=(0, 2, 3))
        mean += rng.normal(0, 0.1, mean.shape) * np.sqrt(variance)
        variance *= rng.uniform(0.7, 1.4, variance.shape)
        for name, statistic in zip(node.input[3:], (mean, variance), strict=True):
            weights[name].CopyFrom(numpy_helper.from_array(statistic.astype(np.float32), name))


def _spread_output(model: onnx.ModelProto) -> None:
    """Scale the last Conv or Gemm so that what it leads to has `OUTPUT_SPREAD`, as measured on one image."""
    graph = model.graph
    softmax = [node for node in graph.node if node.op_type == "Softmax"]
    (logits,) = _measure(model, [softmax[-1].input[0] if softmax else graph.output[0].name])
    gain = OUTPUT_SPREAD / float(logits.std())
    last = [node for node in graph.node if node.op_type in ("Conv", "Gemm")][-1]
    for tensor in graph.initializer:
        if tensor.name in last.input[1:]:
            scaled = numpy_helper.to_array(tensor) * np.float32(gain)
            tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))


def _measure(model: onnx.ModelProto, values: Sequence[str]) -> list[NDArray[np.float32]]:
    """What `values` hold while onnxruntime runs the model on one random image."""
    import onnxruntime as ort

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.ClearField("output")
    probe.graph.output.extend(helper.make_empty_tensor_value_info(value) for value in values)
    (image,) = model.graph.input
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors only: a probe has weights left over, each worth a warning
    session = ort.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    pixels = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return [np.asarray(array, np.float32) for array in session.run(list(values), {image.name: pixels})]
