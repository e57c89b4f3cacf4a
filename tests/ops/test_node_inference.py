"""Inference against ONNX's node tests: never against the arrays, never vaguer than onnx's own inference."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import pytest
from onnx import numpy_helper

from gerules.ir import Const, DType, Graph, GraphEditor, SequenceType, TensorType, ValueType, dtype_of, unify
from gerules.ops import infer_graph
from gerules.ops.inference import RULES
from gerules.ops.onnx_types import type_of_proto
from gerules.ops.registry import raw_schema
from tests.ops.node_models import SCHEMAS, NodeTest, graph_of, node_tests, op_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

DATA_DEPENDENT = {
    "Compress", "ImageDecoder", "Loop", "NonMaxSuppression", "NonZero", "StringNormalizer", "StringSplit",
    "Unique",
}  # fmt: skip
"""Operators whose output shape is decided by the elements of a tensor that is no shape."""

MISDECLARED = {
    "test_loop13_seq": "the body declares scalars as elements and holds vectors",
    "test_loop16_seq_none": "the body declares scalars as elements and holds vectors",
}

ONNX_IS_WRONG = {"STFT": "onnx's rule reads an absent `onesided` as 0"}


def with_contents(graph: Graph, test: NodeTest) -> Graph:
    """The same graph with every input known at compile time."""
    editor = GraphEditor(graph)
    for value, array in zip(graph.inputs, test.data_sets[0][0], strict=False):
        if isinstance(array, np.ndarray):
            editor.consts[value] = Const(array)
    return editor.commit()


def contradiction(type: ValueType, value: Any) -> str:
    """Say how a type and an array disagree; empty when they do not."""
    if isinstance(type, SequenceType):
        return (
            ""
            if isinstance(value, list) and all(not contradiction(type.element, v) for v in value)
            else "seq"
        )
    if not isinstance(type, TensorType) or not isinstance(value, np.ndarray):
        return "" if not isinstance(type, TensorType) or type.shape is None else "no tensor"
    if type.dtype not in (DType.UNKNOWN, DType.STRING) and type.dtype is not dtype_of(value):
        return f"{type} for {value.dtype}"
    if type.shape is None:
        return ""
    fits = len(type.shape) == value.ndim and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(type.shape, value.shape, strict=True)
    )
    return "" if fits else f"{type} for {value.shape}"


def onnx_types(test: NodeTest, *, is_known: bool) -> dict[str, ValueType]:
    """What onnx's own inference says of a single node."""
    (node,) = test.model.graph.node
    versions = {entry.domain: entry.version for entry in test.model.opset_import}
    raw = raw_schema(op_of(node), versions.get(node.domain, 1))
    contents = {}
    if is_known:
        for value, array in zip(test.model.graph.input, test.data_sets[0][0], strict=False):
            if isinstance(array, np.ndarray) and array.dtype.kind not in "OUS":
                contents[value.name] = numpy_helper.from_array(array, value.name)
    types = {value.name: value.type for value in test.model.graph.input}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            raw, node, types, contents, opset_imports=list(test.model.opset_import)
        )
    except Exception:
        # onnx cannot say; then there is nothing to be compared with.
        return {}
    return {name: type_of_proto(proto) for name, proto in found.items()}


@pytest.mark.parametrize("is_known", [False, True], ids=["types alone", "contents known"])
def test_no_type_contradicts_the_arrays(is_known: bool) -> None:
    wrong = []
    for test in node_tests():
        if test.name in MISDECLARED:
            continue
        graph = graph_of(test.model)
        found = infer_graph(with_contents(graph, test) if is_known else graph, SCHEMAS)
        for value, array in zip(found.outputs, test.data_sets[0][1], strict=True):
            reason = contradiction(found.values[value].type, array)
            if reason:
                wrong.append((test.name, reason))
    assert not wrong


@pytest.mark.parametrize("is_known", [False, True], ids=["types alone", "contents known"])
def test_no_type_is_vaguer_than_onnx_says(is_known: bool) -> None:
    worse = []
    n_compared = 0
    for test in node_tests():
        if len(test.model.graph.node) != 1 or test.model.graph.node[0].op_type in ONNX_IS_WRONG:
            continue
        if test.name in MISDECLARED:
            continue
        graph = graph_of(test.model)
        found = infer_graph(with_contents(graph, test) if is_known else graph, SCHEMAS)
        told = onnx_types(test, is_known=is_known)
        for value in found.outputs:
            ours = found.values[value].type
            theirs = told.get(found.values[value].name)
            if theirs is None:
                continue
            n_compared += 1
            both = unify(ours, theirs)
            if both is None or precision(both) > precision(ours):
                worse.append((test.name, str(ours), str(theirs)))
    assert not worse
    assert n_compared > 1300


def precision(type: ValueType) -> int:
    if not isinstance(type, TensorType):
        return precision(type.element) if isinstance(type, SequenceType) else 0
    dims = 0 if type.shape is None else 1 + sum(dim != "?" for dim in type.shape)
    return dims + (type.dtype is not DType.UNKNOWN)


def test_contents_make_every_shape_exact_that_they_can() -> None:
    vague: Counter[str] = Counter()
    n_exact = 0
    for test in node_tests():
        if len(test.model.graph.node) != 1:
            continue
        op = test.model.graph.node[0].op_type
        found = infer_graph(with_contents(graph_of(test.model), test), SCHEMAS)
        types = [found.values[value].type for value in found.outputs]
        if all(isinstance(type, TensorType) and not type.is_static for type in types):
            vague[op] += 1
        n_exact += all(not isinstance(type, TensorType) or type.is_static for type in types)
    assert n_exact > 1400
    assert set(vague) <= DATA_DEPENDENT | {"Range", "MaxUnpool", "MelWeightMatrix"}, vague


def test_our_own_rules_cover_what_models_hold() -> None:
    ops = Counter(op_of(test.model.graph.node[0]) for test in node_tests() if len(test.model.graph.node) == 1)
    covered = sum(count for op, count in ops.items() if op in RULES)
    assert covered > 0.8 * ops.total()
