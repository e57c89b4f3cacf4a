"""A candidate: new nodes built beside the graph, which nothing of the graph refers to yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class Candidate:
    """What would come into the graph, what would leave it, and which values change their producer.

    A new node may produce the id of a value that is replaced.
    """

    __slots__ = ("consts", "forward", "nodes", "removed", "replaced", "site", "types", "values")

    def __init__(self, site: Site, removed: dict[int, Node], replaced: tuple[int, ...]) -> None:
        self.site = site
        self.removed = removed
        self.replaced = replaced
        self.nodes: list[Node] = []
        self.values: dict[int, Value] = {}
        self.consts: dict[int, Const] = {}
        self.forward: dict[int, int] = {}
        self.types: dict[int, ValueType] = {}
        """Types found for what the new nodes produce."""

    def type_of(self, value: int | None) -> ValueType | None:
        """Return the type of a new or an old value; None for an absent one."""
        if value is None:
            return None
        found = self.types.get(value)
        if found is not None:
            return found
        record = self.values.get(value)
        return (self.site.values[value] if record is None else record).type

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
        type_of, const_of = self.type_of, self.const_of
        inputs = [type_of(value) for value in node.inputs]
        types = infer(node, inputs, [const_of(value) for value in node.inputs])
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
