"""A candidate: new nodes built beside the graph, which nothing of the graph refers to yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gerules.engine.site import Site
from gerules.ir import UNKNOWN, Const, Node, Value, ValueType

Infer = Callable[[Node, Sequence[ValueType | None], Sequence[Const | None]], Sequence[ValueType]]
"""Types of a node's outputs from the types and, where known, the contents of its inputs.

Raises a GerulesError when the node cannot be applied to them.
"""


class Costs(Protocol):
    """What work costs: microseconds, bytes moved, floating-point operations."""

    @property
    def time(self) -> float:
        """Microseconds."""
        ...

    @property
    def bytes(self) -> float:
        """Bytes moved to and from memory."""
        ...

    @property
    def flops(self) -> float:
        """Floating-point operations."""
        ...


CostOf = Callable[[Node, Sequence[ValueType | None], Sequence[ValueType | None]], Costs]
"""The cost of one node, from the types of its inputs and outputs."""


class Refused(Exception):  # noqa: N818 - an outcome, not a fault
    """A match is not taken; the reason is kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Candidate:
    """What would come into the graph, what would leave it, and which values change their producer.

    A new node may produce the id of a value that is replaced.
    """

    site: Site
    removed: dict[int, Node]
    replaced: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list[Node])
    values: dict[int, Value] = field(default_factory=dict[int, Value])
    consts: dict[int, Const] = field(default_factory=dict[int, Const])
    forward: dict[int, int] = field(default_factory=dict[int, int])
    types: dict[int, ValueType] = field(default_factory=dict[int, ValueType])
    """Types found for what the new nodes produce."""

    def type_of(self, value: int | None) -> ValueType | None:
        """Return the type of a new or an old value; None for an absent one."""
        if value is None:
            return None
        if value in self.types:
            return self.types[value]
        if value in self.values:
            return self.values[value].type
        return self.site.values[value].type

    def const_of(self, value: int | None) -> Const | None:
        """Return the constant that a new or an old value is."""
        if value is None:
            return None
        return self.consts.get(value) or self.site.consts.get(value)

    def fresh_value(self, name: str, type: ValueType = UNKNOWN) -> int:
        """Add a value and return its id, which its name ends in."""
        value = self.site.editor.fresh_id()
        self.values[value] = Value(value, f"{name}.{value}", type)
        return value

    def fresh_const(self, const: Const, name: str) -> int:
        """Add a constant and return its id."""
        value = self.fresh_value(name, const.type)
        self.consts[value] = const
        return value

    def add(self, node: Node, infer: Infer) -> None:
        """Add a node after those it reads, and find the types of what it produces."""
        inputs = [self.type_of(value) for value in node.inputs]
        types = infer(node, inputs, [self.const_of(value) for value in node.inputs])
        for value, type in zip(node.outputs, types, strict=False):
            if value is not None:
                self.types[value] = type
        self.nodes.append(node)

    def cost(self, cost_of: CostOf, nodes: Sequence[Node]) -> tuple[float, float, float]:
        """Return time, bytes and flops of nodes together."""
        time = moved = flops = 0.0
        for node in nodes:
            found = cost_of(
                node,
                [self.type_of(value) for value in node.inputs],
                [self.type_of(value) for value in node.outputs],
            )
            time, moved, flops = time + found.time, moved + found.bytes, flops + found.flops
        return time, moved, flops
