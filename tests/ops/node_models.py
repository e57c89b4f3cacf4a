"""ONNX's own node tests as graphs: a small reader for models of few nodes, apart from the real front end."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from gerules.ir import Body, Const, DType, Graph, GraphEditor, TensorType, ValueType, empty_graph
from gerules.ops import Schemas
from gerules.ops.onnx_types import DTYPE_OF_CODE, type_of_proto

SCHEMAS = Schemas()


@dataclass(frozen=True)
class NodeTest:
    """One node test: its model, and the arrays (or lists of arrays) of each data set."""

    name: str
    model: ModelProto
    data_sets: list[tuple[list[Any], list[Any]]]

    @property
    def node(self) -> onnx.NodeProto:
        return self.model.graph.node[0]


@functools.cache
def node_tests() -> list[NodeTest]:
    """Every node test, those whose operator is expanded to several nodes included."""
    found = []
    for case in collect_testcases(None):
        sets = [tuple([_array(v) for v in part] for part in pair) for pair in case.data_sets]
        found.append(NodeTest(case.name, case.model, sets))
    return found


def _array(value: Any) -> Any:
    if isinstance(value, np.generic):
        return np.asarray(value)
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def graph_of(model: ModelProto, *, with_outputs: bool = False) -> Graph:
    """Read a model; types of outputs are left out unless asked for."""
    opsets = {
        entry.domain if entry.domain != "ai.onnx" else "": entry.version for entry in model.opset_import
    }
    return _graph(model.graph, opsets, None, with_outputs)[0]


def op_of(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _graph(
    proto: GraphProto, opsets: Mapping[str, int], outer: Mapping[str, ValueType] | None, with_outputs: bool
) -> tuple[Graph, dict[str, int]]:
    editor = GraphEditor(empty_graph(proto.name, opsets))
    names: dict[str, int] = {}
    captures: dict[str, int] = {}
    arrays = {tensor.name: Const(numpy_helper.to_array(tensor)) for tensor in proto.initializer}
    for value in proto.input:
        names[value.name] = editor.add_input(
            type_of_proto(value.type), value.name, arrays.pop(value.name, None)
        )
    for name, const in arrays.items():
        names[name] = editor.add_const(const, name)
    declared = {value.name: type_of_proto(value.type) for value in proto.output} if with_outputs else {}

    def reference(name: str) -> int:
        if name not in names:
            assert outer is not None and name in outer, name
            names[name] = captures[name] = editor.add_value(name=name)
        return names[name]

    for node in proto.node:
        inputs = [reference(name) if name else None for name in node.input]
        attrs, bodies = {}, {}
        for attr in node.attribute:
            if attr.type == AttributeProto.GRAPH:
                scope = {**(outer or {}), **{name: editor.values[v].type for name, v in names.items()}}
                inner, seen = _graph(attr.g, opsets, scope, True)
                bodies[attr.name] = Body(inner, tuple((reference(name), v) for name, v in seen.items()))
            else:
                attrs[attr.name] = _attr(node, attr, opsets)
        outputs = []
        for name in node.output:
            outputs.append(editor.add_value(declared.get(name, TensorType()), name) if name else None)
            if name:
                names[name] = outputs[-1]
        editor.add_node(op_of(node), inputs, outputs, attrs, name=node.name, bodies=bodies)
    editor.set_outputs([reference(value.name) for value in proto.output])
    return editor.commit(), captures


def _attr(node: onnx.NodeProto, attr: AttributeProto, opsets: Mapping[str, int]) -> Any:
    value = onnx.helper.get_attribute_value(attr)
    schema = SCHEMAS.get(op_of(node), opsets.get(node.domain, 1))
    spec = None if schema is None else schema.attrs.get(attr.name)
    if spec is not None and spec.kind == "dtype":
        return DTYPE_OF_CODE.get(value, DType.UNKNOWN)
    if attr.type == AttributeProto.TENSOR:
        return Const(numpy_helper.to_array(value))
    if attr.type == AttributeProto.TYPE_PROTO:
        return type_of_proto(value)
    if attr.type == AttributeProto.STRING:
        return value.decode()
    if attr.type == AttributeProto.SPARSE_TENSOR:
        return Const(
            np.zeros(tuple(value.dims), onnx.helper.tensor_dtype_to_np_dtype(value.values.data_type))
        )
    if isinstance(value, list):
        return tuple(entry.decode() if isinstance(entry, bytes) else entry for entry in value)
    return value
