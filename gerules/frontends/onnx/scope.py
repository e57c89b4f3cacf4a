"""Names in scope while a model is read, and the graph that is being filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import AttributeProto

from gerules.frontends.onnx.operators import Operators
from gerules.ir import UNKNOWN, Const, Graph, Node, Value, ValueType


@dataclass(slots=True)
class Build:
    """A graph that is being filled; ids come from one counter."""

    values: dict[int, Value] = field(default_factory=dict[int, Value])
    nodes: dict[int, Node] = field(default_factory=dict[int, Node])
    consts: dict[int, Const] = field(default_factory=dict[int, Const])
    defaults: dict[int, Const] = field(default_factory=dict[int, Const])
    inputs: list[int] = field(default_factory=list[int])
    outputs: list[int] = field(default_factory=list[int])
    captured: dict[int, int] = field(default_factory=dict[int, int])
    """Outer value to the one that stands for it here."""
    next_id: int = 0
    is_sorted: bool = True

    def add_value(self, name: str, type: ValueType = UNKNOWN) -> int:
        """Add a value and return its id."""
        made = self.next_id
        self.next_id = made + 1
        self.values[made] = Value(made, name, type)
        return made

    def capture(self, outer: Value) -> int:
        """Return the value that stands for one of the graph outside."""
        inner = self.captured.get(outer.id)
        if inner is None:
            inner = self.captured[outer.id] = self.add_value(outer.name, outer.type)
        return inner

    def finish(self, name: str, opsets: Mapping[str, int], metadata: Mapping[str, str]) -> Graph:
        """Return the graph as it is now."""
        return Graph(
            name,
            tuple(self.inputs),
            tuple(self.outputs),
            self.values,
            self.nodes,
            self.consts,
            self.defaults,
            opsets,
            metadata,
            self.next_id,
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """An attribute that a function was called with, and where the names in it are looked up."""

    proto: AttributeProto
    scope: Scope


@dataclass(slots=True)
class Scope:
    """Names of one graph or function body. A name is None when an optional argument is absent."""

    build: Build
    operators: Operators
    names: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    parent: Scope | None = None
    bindings: Mapping[str, Bound] | None = None
    """Attributes of the function call; None outside functions."""
    prefix: str = ""
    depth: int = 0
    promised: dict[str, int] = field(default_factory=dict[str, int])
    """Outputs of a function call that already have their value."""

    def find(self, name: str) -> tuple[bool, int | None]:
        """Say whether a name is defined, and its value; names from outside are captured."""
        names = self.names
        if name in names:
            return True, names[name]
        if self.parent is None:
            return False, None
        is_known, outer = self.parent.find(name)
        if not is_known or outer is None:
            return is_known, None
        inner = names[name] = self.build.capture(self.parent.build.values[outer])
        return True, inner
