"""Graphs said in operators of another version: onnx's own node tests give the same results in onnxruntime."""

# onnx's and onnxruntime's functions have partial types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple, cast

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from onnx.backend.test.case.node import collect_testcases

from gerules.errors import GerulesError
from gerules.frontends import load_onnx, to_onnx
from gerules.frontends.onnx.draft import ImpossibleError
from gerules.frontends.onnx.reform import reform
from gerules.ir import DType, Graph, GraphEditor, TensorType, empty_graph
from gerules.ops import Schemas, infer_graph
from tests.models.oracle import Array, ort_outputs

SCHEMAS: Final = Schemas()

LEAST: Final = {9: 500, 13: 830, 17: 1080}
"""How many of the node tests can be said at an opset, and run; a few fewer than there are today."""


class Case(NamedTuple):
    """One node test of onnx: a model, what it is fed, and what it gives."""

    name: str
    model: ModelProto
    inputs: list[Array]
    want: list[Array]
    rtol: float
    atol: float


@cache
def cases() -> list[Case]:
    found: list[Case] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        inputs, want = cast("tuple[list[object], list[object]]", (case.data_sets or [([], [])])[0])
        if case.model is None or not want or not all(isinstance(item, np.ndarray) for item in inputs + want):
            continue
        arrays = cast("list[Array]", inputs), cast("list[Array]", want)
        found.append(Case(case.name, case.model, *arrays, case.rtol, case.atol))
    return found


def run(model: ModelProto, feeds: dict[str, Array]) -> list[Array] | None:
    """What onnxruntime gives, None when it cannot."""
    try:
        return list(ort_outputs(model.SerializeToString(), feeds).values())
    except Exception:  # onnxruntime has an exception type for each status, with no other base
        return None


def is_close(got: list[Array] | None, case: Case) -> bool:
    want = case.want
    if got is None or len(got) != len(want):
        return False
    pairs = list(zip(got, want, strict=True))
    if any(np.shape(one) != np.shape(two) for one, two in pairs):
        return False
    if any(one.dtype.kind in "OUS" for one in got):
        return all(one.tolist() == two.astype(one.dtype).tolist() for one, two in pairs)
    rtol, atol = max(case.rtol, 1e-3), max(case.atol, 1e-5)
    return all(
        np.allclose(
            one.astype(np.complex128), two.astype(np.complex128), rtol=rtol, atol=atol, equal_nan=True
        )
        for one, two in pairs
    )


def is_valid(model: ModelProto) -> bool:
    """Whether onnx's checker accepts a model, with the shapes it infers."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def graphs(opset: int) -> Iterator[tuple[Case, Graph]]:
    """Node tests that are written for another opset."""
    for case in cases():
        if not any(entry.domain == "" and entry.version != opset for entry in case.model.opset_import):
            continue
        try:
            yield case, infer_graph(load_onnx(case.model), SCHEMAS)
        except GerulesError:
            continue


@pytest.mark.parametrize("opset", LEAST)
def test_node_tests_mean_the_same_at(opset: int) -> None:
    n_same, faults = 0, list[str]()
    for case, graph in graphs(opset):
        try:
            other = to_onnx(reform(graph, opset, SCHEMAS))
        except ImpossibleError:
            continue
        feeds = dict(zip([entry.name for entry in case.model.graph.input], case.inputs, strict=True))
        # Where onnx and onnxruntime do otherwise with the model as it is, they are no judges.
        if not is_valid(other) and is_valid(case.model):
            faults.append(f"{case.name}: not valid")
        elif is_close(run(other, feeds), case):
            n_same += 1
        elif is_close(run(case.model, feeds), case):
            faults.append(f"{case.name}: other results")
    assert not faults
    assert n_same >= LEAST[opset]


def one(
    op: str, shape: tuple[int | str, ...] | None, *consts: Array, n_outputs: int = 1, **attrs: int
) -> Graph:
    """A graph of one node of the newest version."""
    edit = GraphEditor(empty_graph("one", {"": SCHEMAS.latest_opset}))
    x = edit.add_input(TensorType(DType.F32, shape), "x")
    outputs = [edit.add_value(name=f"y{place}") for place in range(n_outputs)]
    edit.add_node(op, [x, *map(edit.add_const, consts)], outputs, attrs)
    edit.set_outputs(outputs)
    return edit.commit()


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes.values()]


def test_inputs_become_attributes_counted_from_the_front() -> None:
    graph = one("ReduceMean", (2, 3, 4), np.array([-1], np.int64), keepdims=0)
    (node,) = reform(graph, 9, SCHEMAS).nodes.values()
    assert (len(node.inputs), node.attrs["axes"], node.attrs["keepdims"]) == (1, (2,), 0)


def test_attributes_become_inputs() -> None:
    edit = GraphEditor(empty_graph("old", {"": 9}))
    x, y = edit.add_input(TensorType(DType.F32, (2, 3)), "x"), edit.add_value(name="y")
    edit.add_node("Clip", [x], [y], {"min": -1.0, "max": 1.0})
    edit.set_outputs([y])
    newer = reform(edit.commit(), 20, SCHEMAS)
    (node,) = newer.nodes.values()
    assert not node.attrs
    found = [newer.consts[value].array for value in node.inputs[1:] if value is not None]
    assert [(item.item(), item.dtype) for item in found] == [(-1.0, np.float32), (1.0, np.float32)]


def test_parts_of_an_unknown_size_are_computed() -> None:
    graph = one("Split", ("N",), n_outputs=2, num_outputs=2)
    x = np.arange(5, dtype=np.float32)
    got = run(to_onnx(reform(graph, 13, SCHEMAS)), {"x": x})
    assert got is not None and [part.tolist() for part in got] == [[0, 1, 2], [3, 4]]
    with pytest.raises(ImpossibleError):
        reform(graph, 11, SCHEMAS)


def test_softmax_over_an_inner_axis_needs_no_rank_before_13() -> None:
    older = reform(one("Softmax", None, axis=0), 12, SCHEMAS)
    assert "Softmax" not in ops(older)
    x = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
    got = run(to_onnx(older), {"x": x})
    assert got is not None
    np.testing.assert_allclose(got[0].astype(np.float32), np.exp(x) / np.exp(x).sum(axis=0), rtol=1e-6)


def test_what_cannot_be_said_is_named() -> None:
    with pytest.raises(ImpossibleError) as caught:
        reform(one("Erf", (2,)), 8, SCHEMAS)
    assert (caught.value.op, caught.value.opset) == ("Erf", 8)
