"""One node in onnxruntime, as an independent oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx.helper
import onnxruntime as ort

from gerules.ir import Attr
from gerules.runtime.kernels import Array
from gerules.runtime.kernels.reference import to_onnx_attribute

ort.set_default_logger_severity(4)


def run_onnxruntime(
    op: str, inputs: Sequence[Array | None], attrs: Mapping[str, Attr], *, opset: int, n_outputs: int = 1
) -> list[Array]:
    """Return what onnxruntime computes; raises what it raises for a node it refuses."""
    names = ["" if item is None else f"i{index}" for index, item in enumerate(inputs)]
    node = onnx.NodeProto(op_type=op, input=names, output=[f"o{index}" for index in range(n_outputs)])
    node.attribute.extend(to_onnx_attribute(name, value) for name, value in attrs.items())
    feed = {name: item for name, item in zip(names, inputs, strict=True) if item is not None}
    graph = onnx.GraphProto(name=op, node=[node])
    for name, item in feed.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(item.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, item.shape))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    model = onnx.ModelProto(ir_version=8, graph=graph)
    model.opset_import.add(domain="", version=opset)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))
