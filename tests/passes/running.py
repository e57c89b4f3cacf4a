"""Runs a graph by meaning with the kernels, so that passes can be compared before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gerules.dsl import RuleBook, load_rules, rules_folder
from gerules.engine.define import expand_define, make_infer
from gerules.ir import Graph, Node
from gerules.ops import Schemas, split_op
from gerules.runtime.kernels import run_kernel

SCHEMAS = Schemas()
BOOK: RuleBook = load_rules([rules_folder()], schemas=None)


def evaluate(op: str, arrays: Any, attrs: Any, opset: int, n_outputs: int) -> Any:
    """The evaluator that folding is given."""
    return run_kernel(op, arrays, attrs, opset=opset, n_outputs=n_outputs)


def run(graph: Graph, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a graph; bodies of If and of `fn` nodes, and `ge::` defines, are run too."""
    values: dict[int, Any] = {value: const.array for value, const in graph.consts.items()}
    values |= {value: const.array for value, const in graph.defaults.items()}
    values |= {
        value: feeds[graph.values[value].name] for value in graph.inputs if graph.values[value].name in feeds
    }
    return _run(graph, values, graph.opsets)


def _run(graph: Graph, values: dict[int, Any], opsets: Mapping[str, int]) -> list[Any]:
    for node in graph.nodes.values():
        results = _node(graph, node, values, opsets)
        made = zip(node.outputs, results, strict=False)
        values |= {value: result for value, result in made if value is not None}
    return [values[value] for value in graph.outputs]


def _node(graph: Graph, node: Node, values: dict[int, Any], opsets: Mapping[str, int]) -> list[Any]:
    inputs = [None if value is None else values[value] for value in node.inputs]
    if node.op == "If":
        body = node.bodies["then_branch" if inputs[0].reshape(-1)[0] else "else_branch"]
        inside = {value: const.array for value, const in body.graph.consts.items()}
        inside |= {inner: values[outer] for outer, inner in body.captures}
        return _run(body.graph, inside, opsets)
    if node.op == "Loop":
        return _loop(node, inputs, values, opsets)
    if "body" in node.bodies:
        body = node.bodies["body"]
        inside = {value: const.array for value, const in body.graph.consts.items()}
        inside |= {inner: values[outer] for outer, inner in body.captures}
        inside |= dict(zip(body.graph.inputs, inputs, strict=True))
        return _run(body.graph, inside, opsets)
    if node.op == "ge::TransData":
        return inputs
    define = BOOK.defines.get(node.op)
    if define is not None:
        types = [None if value is None else graph.type_of(value) for value in node.inputs]
        inner = expand_define(define, node, types, schemas=SCHEMAS, infer=make_infer(SCHEMAS, {}))
        inside = {value: const.array for value, const in inner.consts.items()}
        inside |= {
            value: given for value, given in zip(inner.inputs, inputs, strict=True) if given is not None
        }
        return _run(inner, inside, inner.opsets)
    opset = opsets.get(split_op(node.op)[0], 0) or SCHEMAS.latest_opset
    return run_kernel(node.op, inputs, node.attrs, opset=opset, n_outputs=len(node.outputs))


def _loop(node: Node, inputs: list[Any], values: dict[int, Any], opsets: Mapping[str, int]) -> list[Any]:
    body = node.bodies["body"]
    carried = list(inputs[2:])
    trips = int(inputs[0].reshape(-1)[0])
    for trip in range(trips):
        inside = {value: const.array for value, const in body.graph.consts.items()}
        inside |= {inner: values[outer] for outer, inner in body.captures}
        inside |= dict(
            zip(body.graph.inputs, [np.array(trip, np.int64), np.array(True), *carried], strict=True)
        )
        carried = _run(body.graph, inside, opsets)[1 : 1 + len(carried)]
    return carried


def random_feeds(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Return inputs for a graph of static shapes; integers stay small enough to be indices."""
    draw = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for value in graph.inputs:
        type = graph.type_of(value)
        shape = type.static_shape  # type: ignore[union-attr]
        dtype = type.dtype.numpy  # type: ignore[union-attr]
        if np.issubdtype(dtype, np.integer) or dtype == np.bool_:
            feeds[graph.values[value].name] = draw.integers(0, 2, shape).astype(dtype)
        else:
            feeds[graph.values[value].name] = draw.standard_normal(shape).astype(dtype)
    return feeds
