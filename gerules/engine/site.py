"""The graph that programs look at. Programs are compiled once and pointed at one graph after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gerules.engine.fans import Fans
from gerules.ir import Const, Dim, GraphEditor, Node, TensorType, ValueType, empty_graph
from gerules.ops import OpSchema, Schemas

_AXIS_NAMES: Final = frozenset(["axis", "axes"])
"""Parameters that count dimensions from either end."""


class Site:
    """One graph under change, with what its operators mean at its versions."""

    __slots__ = (
        "_forgetful",
        "_schemas",
        "consts",
        "editor",
        "fans",
        "op_of",
        "opset",
        "opsets",
        "producer",
        "schemas",
        "values",
    )

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self._schemas: dict[str, OpSchema | None] = {}
        self._forgetful: list[Callable[[], None]] = []
        self.opsets: Mapping[str, int] = {}
        self.enter(GraphEditor(empty_graph("")), {})

    def enter(self, editor: GraphEditor, op_of: dict[int, str]) -> None:
        """Look at another graph from now on."""
        self.editor = editor
        self.fans = Fans(editor)
        self.op_of = op_of
        self.consts = editor.consts
        self.values = editor.values
        self.producer = editor.producer
        if editor.opsets != self.opsets:
            self._schemas.clear()
            for forget in self._forgetful:
                forget()
        self.opsets = editor.opsets
        self.opset = editor.opsets.get("", 0) or None

    def on_new_versions(self, forget: Callable[[], None]) -> None:
        """Ask to be called when a graph with other operator versions is looked at."""
        self._forgetful.append(forget)

    def schema(self, op: str) -> OpSchema | None:
        """Return the schema of an operator at this graph's versions, None when it has none."""
        try:
            return self._schemas[op]
        except KeyError:
            found = self._schemas[op] = self.schemas.get(op, self.version_of(op))
            return found

    def version_of(self, op: str) -> int | None:
        """Return the version of an operator's domain; None means the newest."""
        if "::" not in op:
            return self.opset
        return self.opsets.get(op.rpartition("::")[0])

    def type_of(self, value: int) -> ValueType:
        """Return what is known of a value."""
        return self.values[value].type

    def shape_of(self, value: int) -> tuple[Dim, ...] | None:
        """Return the shape of a tensor, None when unknown or no tensor."""
        type = self.values[value].type
        return type.shape if isinstance(type, TensorType) else None

    def rank_of(self, value: int | None) -> int | None:
        """Return the rank of a tensor, None when unknown."""
        shape = None if value is None else self.shape_of(value)
        return None if shape is None else len(shape)

    def is_same(self, one: int, other: int) -> bool:
        """Whether two values are one, or constants that agree to the byte."""
        if one == other:
            return True
        left = self.consts.get(one)
        right = self.consts.get(other) if left is not None else None
        return left is not None and right is not None and left.equals(right)

    def const(self, value: int | None) -> Const | None:
        """Return the constant that a value is, None when it is none."""
        return None if value is None else self.consts.get(value)

    def axis_rank(self, node: Node, name: str) -> int | None:
        """Return the rank that a parameter counts axes of, None when it counts none or nothing is known."""
        if name not in _AXIS_NAMES:
            return None
        # Unsqueeze counts the axes of what it makes.
        value = node.outputs[0] if node.op == "Unsqueeze" else node.inputs[0] if node.inputs else None
        return self.rank_of(value)
