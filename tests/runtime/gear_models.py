"""Small networks with gears, compiled once, and onnxruntime to judge them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import gerules
from gerules.backend.om import OmModel, read_om
from gerules.backend.om.write import om_chunks
from gerules.ir import Graph
from gerules.pipeline import CompiledModel
from tests.models.oracle import ort_outputs

CONVNET = """
graph convnet:
    opset 17
    input x: f32[N, 3, H, W]
    W: const f32[8, 3, 3, 3] = random(1)
    V: const f32[8, 8, 3, 3] = random(2)
    k: const f32[1, 8, 1, 1] = fill(0.25)
    c = Conv(x, W, pads=[1, 1, 1, 1])
    b = Add(c, k)
    r = Relu(b)
    d = Conv(r, V, pads=[1, 1, 1, 1])
    s = Add(d, r)
    g = GlobalAveragePool(s)
    f = Flatten(g)
    y = Softmax(f)
    return y, s
"""

TOKENS = """
graph tokens:
    opset 17
    input ids: i64[B, S]
    input mask: f32[B, S]
    table: const f32[50, 16] = random(3)
    Q: const f32[16, 16] = random(4)
    axes: const i64[1] = [2]
    mean_axes: const i64[1] = [1]
    e = Gather(table, ids, axis=0)
    q = MatMul(e, Q)
    t = Transpose(e, perm=[0, 2, 1])
    a = MatMul(q, t)
    p = Softmax(a, axis=-1)
    o = MatMul(p, e)
    m = Unsqueeze(mask, axes)
    w = Mul(o, m)
    y = ReduceMean(w, axes=[1], keepdims=0)
    return y
"""


@cache
def compiled(text: str, device: str = "host", precision: str = "fp32", **options: Any) -> CompiledModel:
    """Compile a text once."""
    return gerules.compile(gerules.parse_graph(text), device=device, precision=precision, **options)


def reload(model: CompiledModel | OmModel) -> OmModel:
    """Return a model as its file says it."""
    om = model.om if isinstance(model, CompiledModel) else model
    return read_om(b"".join(om_chunks(om)))


def ort(graph: Graph | str, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Run a graph with onnxruntime, without its optimisations."""
    graph = gerules.parse_graph(graph) if isinstance(graph, str) else graph
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        gerules.save(graph, path)
        return ort_outputs(path, feeds)
