"""A digest of what a graph does, whatever its names and ids are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from gerules.ir import Attr, Const, Graph


def structure_digest(graph: Graph, *, with_types: bool = True) -> bytes:
    """Return 16 bytes that two graphs share when they differ in names, ids, origins and metadata only.

    Args:
        with_types: Also tell types of values, versions of domains, and numbers apart that are one in a file.

    Cost: linear in the graph; each constant is hashed once in its life.
    """
    state = hashlib.blake2b(digest_size=16)
    number: dict[int, int] = {}

    def place(value: int | None) -> int:
        return -1 if value is None else number.setdefault(value, len(number))

    def type_of(value: int | None) -> str:
        return str(graph.type_of(value)) if with_types and value is not None else ""

    inputs = [(place(value), type_of(value)) for value in graph.inputs]
    opsets = sorted(graph.opsets.items()) if with_types else []
    state.update(repr((opsets, inputs)).encode())
    for value, const in graph.defaults.items():
        state.update(repr(("default", place(value), const.digest)).encode())
    for node in graph.nodes.values():
        # Constants count where they are first read, so that their order in the table does not matter.
        for value in node.inputs:
            if value is not None and value not in number and value in graph.consts:
                state.update(_const_digest(graph, value))
        row = (
            node.op,
            [place(value) for value in node.inputs],
            [(place(value), type_of(value)) for value in node.outputs],
            attrs_key(node.attrs if with_types else _as_written(node.attrs)),
            [
                (name, [(place(outer), rank) for rank, (outer, _) in enumerate(body.captures)],
                 structure_digest(body.graph, with_types=with_types))
                for name, body in sorted(node.bodies.items())
            ],
        )  # fmt: skip
        state.update(repr(row).encode())
    for value in graph.outputs:
        if value in graph.consts:
            state.update(_const_digest(graph, value))
    state.update(repr([place(value) for value in graph.outputs]).encode())
    return state.digest()


def _const_digest(graph: Graph, value: int) -> bytes:
    return str(graph.type_of(value)).encode() + graph.consts[value].digest


def attrs_key(attrs: Mapping[str, Attr]) -> tuple[tuple[str, str], ...]:
    """Return attributes as a key: equal for equal values, constants by their digest."""
    return tuple((name, _attr_key(value)) for name, value in sorted(attrs.items()))


def _as_written(attrs: Mapping[str, Attr]) -> Mapping[str, Attr]:
    """ONNX keeps numbers as f32. Source: onnx.proto, AttributeProto."""
    return {name: _rounded(value) for name, value in attrs.items()}


def _rounded(value: Attr) -> Attr:
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, tuple) and any(isinstance(item, float) for item in value):
        return tuple(float(np.float32(item)) for item in value if isinstance(item, int | float))
    return value


def _attr_key(value: Attr) -> str:
    if isinstance(value, Const):
        return f"const {value.digest.hex()}"
    if isinstance(value, tuple) and value and isinstance(value[0], Const):
        return repr([item.digest.hex() for item in value if isinstance(item, Const)])
    return repr(value)
