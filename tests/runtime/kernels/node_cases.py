"""ONNX's own node test cases, as calls of `run_kernel`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from gerules.ir import Attr, Const, DType
from gerules.runtime.kernels import run_kernel
from gerules.runtime.kernels.reference import ELEM_TYPE

_DTYPE = {code: dtype for dtype, code in ELEM_TYPE.items()}
_DTYPE_ATTRS = {
    "to",
    "dtype",
    "output_dtype",
    "precision",
    "softmax_precision",
    "output_datatype",
    "stash_type",
}


@dataclass(frozen=True)
class Call:
    """One node: names of its inputs and outputs, empty where absent."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attr]


@dataclass(frozen=True)
class NodeCase:
    """One case: nodes in order, and for each data set the values by name, given and wanted."""

    name: str
    opset: int
    calls: tuple[Call, ...]
    data: tuple[tuple[dict[str, object], dict[str, object]], ...]
    rtol: float
    atol: float

    def run(self, given: Mapping[str, object]) -> dict[str, object]:
        """Run the nodes; what is not asked for of a node is not computed."""
        values = dict(given)
        for call in self.calls:
            inputs = [values[name] if name else None for name in call.inputs]
            while inputs and inputs[-1] is None and call.op != "OptionalHasElement":
                inputs.pop()
            results = run_kernel(call.op, inputs, call.attrs, opset=self.opset, n_outputs=len(call.outputs))
            values.update((name, value) for name, value in zip(call.outputs, results, strict=False) if name)
        return values


@lru_cache(maxsize=1)
def node_cases() -> tuple[list[NodeCase], dict[str, str]]:
    """Return the cases without bodies, and names of all others with the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    cases: list[NodeCase] = []
    skipped: dict[str, str] = {}
    for case in collected:
        if any(_has_body(node) for node in case.model.graph.node):
            skipped[case.name] = "has bodies"
        else:
            cases.append(_as_case(case))
    return cases, skipped


def _has_body(node: onnx.NodeProto) -> bool:
    return any(
        item.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for item in node.attribute
    )


def _as_case(case: TestCase) -> NodeCase:
    opsets = {item.domain: item.version for item in case.model.opset_import}
    opset = opsets.get("", onnx.defs.onnx_opset_version())
    graph = case.model.graph
    constants = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}
    data = [
        (
            constants | {item.name: _as_value(value) for item, value in zip(graph.input, given, strict=True)},
            {item.name: _as_value(value) for item, value in zip(graph.output, wanted, strict=True)},
        )
        for given, wanted in case.data_sets
    ]
    return NodeCase(case.name, opset, tuple(map(as_call, graph.node)), tuple(data), case.rtol, case.atol)


def as_call(node: onnx.NodeProto) -> Call:
    """Return a node of a model as a call."""
    op = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
    return Call(
        op, tuple(node.input), tuple(node.output), {item.name: as_attr(item) for item in node.attribute}
    )


def _as_value(value: object) -> object:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, (int, float, np.generic)) else value


def as_attr(proto: onnx.AttributeProto) -> Attr:
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, onnx.TensorProto):
        return Const(onnx.numpy_helper.to_array(value))
    if proto.name in _DTYPE_ATTRS and isinstance(value, int):
        return _DTYPE.get(value, DType.UNKNOWN)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)) or hasattr(value, "extend"):
        return tuple(
            item.decode() if isinstance(item, bytes)
            else Const(onnx.numpy_helper.to_array(item)) if isinstance(item, onnx.TensorProto)
            else item
            for item in value
        )  # fmt: skip
    return value


def assert_close(got: object, want: object, rtol: float, atol: float) -> None:
    """Compare as ONNX's backend runner does."""
    if isinstance(want, list):
        assert isinstance(got, list)
        assert len(got) == len(want)
        for one, two in zip(got, want, strict=True):
            assert_close(one, two, rtol, atol)
        return
    if want is None:
        assert got is None
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if want.dtype.kind in "OUS":
        np.testing.assert_array_equal(got.astype(object), want.astype(object))
        return
    assert got.dtype == want.dtype
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    if want.dtype.kind not in "fc":
        rtol = max(rtol, 2**-6) if want.dtype.name == "bfloat16" else rtol
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
