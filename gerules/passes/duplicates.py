"""Duplicates: constants with equal elements, and nodes that compute the same from the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from gerules.ir import Attr, Const, GraphEditor, Node
from gerules.ops import OpSchema, Schemas

_SAMPLES: Final = 64
"""Elements compared before a whole constant is read."""


class ConstTable:
    """Constants seen so far, by type and elements.

    They are told apart by type, then by a sample, and read whole only when both agree.
    """

    def __init__(self, editor: GraphEditor) -> None:
        self._editor = editor
        self._alike: dict[Hashable, int] = {}
        self._read: dict[Hashable, int] = {}

    def merge_all(self) -> int:
        """Merge all constants of the graph; says how many are gone."""
        return sum(self.merge(value) for value in list(self._editor.consts))

    def merge(self, value: int) -> bool:
        """Let readers of a constant read an equal one seen before; a graph output stays."""
        editor = self._editor
        key = _sample(editor.consts[value]), editor.values[value].type
        first = self._alike.setdefault(key, value)
        if first == value:
            return False
        self._read.setdefault((key, editor.consts[first].digest), first)
        other = self._read.setdefault((key, editor.consts[value].digest), value)
        if other == value or editor.is_output(value):
            return False
        editor.replace_reads(value, other)
        del editor.consts[value]
        return True


class NodeTable:
    """Nodes seen so far, by what they compute."""

    def __init__(self, schemas: Schemas, editor: GraphEditor) -> None:
        self._schemas = schemas
        self._editor = editor
        self._seen: dict[Hashable, int] = {}

    def find(self, node: Node, schema: OpSchema) -> Node | None:
        """Return an earlier node that computes the same, or remember this one."""
        inputs = node.inputs
        if schema.is_commutative and len(inputs) == 2 and None not in inputs:
            inputs = tuple(sorted(value for value in inputs if value is not None))
        key = node.op, inputs, _attrs_key(node)
        earlier = self._editor.nodes.get(self._seen.setdefault(key, node.id))
        return None if earlier is None or earlier.id == node.id else earlier

    def merge(self, node: Node, twin: Node) -> bool:
        """Let readers of a node read its twin. False when an output has no counterpart or must stay."""
        editor = self._editor
        pairs: list[tuple[int, int]] = []
        for place, value in enumerate(node.outputs):
            if value is None:
                continue
            other = twin.outputs[place] if place < len(twin.outputs) else None
            if other is None or (editor.is_output(value) and editor.is_output(other)):
                return False
            pairs.append((value, other))
        for value, other in pairs:
            if editor.values[value].type != editor.values[other].type:
                return False
        for value, other in pairs:
            editor.replace_reads(value, other)
        editor.remove_node(node.id)
        # Users may name either of the two, to keep its element type for one.
        sources = tuple(dict.fromkeys((*twin.origin.sources, *node.origin.sources)))
        if sources != twin.origin.sources:
            editor.replace_node(replace(twin, origin=replace(twin.origin, sources=sources)))
        return True


def _sample(const: Const) -> Hashable:
    array = const.array
    head = str(array.dtype), array.shape
    if array.dtype.kind == "O" or not array.size:
        return head
    step = max(1, array.size // _SAMPLES)
    return (*head, array.flat[::step].tobytes() if any(array.strides) else array.flat[0].tobytes())


def _attrs_key(node: Node) -> Hashable:
    if not node.attrs:
        return ()
    return tuple((name, type(value), _attr_key(value)) for name, value in sorted(node.attrs.items()))


def _attr_key(value: Attr) -> Hashable:
    if isinstance(value, Const):
        return value.digest
    if isinstance(value, tuple):
        return tuple(_attr_key(item) for item in value)
    # -0.0 equals 0.0, and is another attribute.
    return repr(value) if isinstance(value, float) else value
