"""A graph in float64: the same operators, with rounding errors too small to count beside those of float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np

from gerules.ir import Attr, Body, Const, DType, Graph, Node, TensorType, Value, ValueType

_NARROWER: Final = frozenset({DType.F32, DType.F16, DType.BF16})


def widened(graph: Graph) -> Graph:
    """Return a graph that computes in float64 what this one computes in float32, float16 or bfloat16.

    Constants, inputs and the element types that attributes name are widened; whole numbers and floats
    of eight bits stay, which quantized models round to on purpose.

    Cost: a copy of every constant.
    """
    return replace(
        graph,
        nodes={key: _wide_node(node) for key, node in graph.nodes.items()},
        values={key: Value(key, item.name, _wide_type(item.type)) for key, item in graph.values.items()},
        consts={key: _wide_const(const) for key, const in graph.consts.items()},
        defaults={key: _wide_const(const) for key, const in graph.defaults.items()},
    )


def widened_feeds(feeds: Mapping[str, object]) -> dict[str, object]:
    """Return feeds for a widened graph."""
    return {name: _wide_item(item) for name, item in feeds.items()}


def _wide_item(item: object) -> object:
    if isinstance(item, list | tuple):
        return [_wide_item(one) for one in cast("Sequence[object]", item)]
    if item is None:
        return None
    return _wide_const(Const(np.asarray(item))).array


def _wide_const(const: Const) -> Const:
    return Const(const.array.astype(np.float64)) if const.dtype in _NARROWER else const


def _wide_type(type: ValueType) -> ValueType:
    return type.with_dtype(DType.F64) if isinstance(type, TensorType) and type.dtype in _NARROWER else type


def _wide_node(node: Node) -> Node:
    attrs = {name: _wide_attr(attr) for name, attr in node.attrs.items()}
    bodies = {name: Body(widened(body.graph), body.captures) for name, body in node.bodies.items()}
    return replace(node, attrs=attrs, bodies=bodies)


def _wide_attr(attr: Attr) -> Attr:
    if isinstance(attr, DType):
        return DType.F64 if attr in _NARROWER else attr
    return _wide_const(attr) if isinstance(attr, Const) else attr
