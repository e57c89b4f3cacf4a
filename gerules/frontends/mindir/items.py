"""What the names of a MindIR graph stand for while it is read, and the graphs that are being filled.

MindIR is a functional language: a name may be a tensor, a number, a tuple, a token of side effects, or a
function that waits for more arguments. Only tensors become values of our graph; the rest is worked out while
reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gerules.frontends.mindir.records import GraphRecord, NodeRecord
from gerules.ir import Body, Graph, GraphEditor, ValueType
from gerules.ir.graph import empty_graph


@dataclass(eq=False)
class Build:
    """A graph being filled; `parent` is the one it is a body of."""

    editor: GraphEditor
    parent: Build | None = None
    captured: dict[int, int] = field(default_factory=dict[int, int])
    """Value of the parent to the one that stands for it here."""
    opset: int = 0

    def finish(self) -> Graph:
        """Return the graph, without nodes whose results nobody reads."""
        self.editor.prune()
        return self.editor.commit()

    def as_body(self) -> Body:
        """Return the graph as a body of a node of the parent; what it does not read is not captured."""
        graph = self.finish()
        used = {value for node in graph.nodes.values() for value in node.reads()} | set(graph.outputs)
        return Body(graph, tuple((outer, inner) for outer, inner in self.captured.items() if inner in used))


def new_build(name: str, opset: int, parent: Build | None = None) -> Build:
    """Return an empty graph to be filled."""
    return Build(GraphEditor(empty_graph(name, {"": opset})), parent, opset=opset)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of a graph that is being filled."""

    build: Build
    id: int

    @property
    def type(self) -> ValueType:
        """What is known of it."""
        return self.build.editor.values[self.id].type


@dataclass(frozen=True, slots=True)
class Known:
    """A number, a truth value, a text, or nothing, known while reading."""

    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """A tensor known while reading; it becomes a constant where it is used."""

    array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]


@dataclass(frozen=True, slots=True)
class Monad:
    """A token that keeps side effects in order; nothing is computed from it."""


@dataclass(frozen=True, slots=True)
class Closure:
    """A function graph with its first arguments."""

    graph: GraphRecord
    args: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two functions, by a condition that is known when the model runs."""

    condition: Tensor
    yes: Item
    no: Item


@dataclass(frozen=True, slots=True)
class Again:
    """The next round of the loop whose function is `graph`, with these arguments."""

    graph: GraphRecord
    args: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple or a list."""

    items: tuple[Item, ...]


@dataclass(eq=False)
class Frame:
    """One graph with its arguments, while its names are worked out."""

    graph: GraphRecord
    build: Build
    producers: Mapping[str, NodeRecord]
    names: dict[str, Item] = field(default_factory=dict[str, "Item"])


Item = Tensor | Known | Array | Monad | Closure | Choice | Again | Items
"""What a name stands for."""


class NodeFault(Exception):  # noqa: N818 - it becomes a ModelError once the node is known
    """A node cannot be read; the text says why."""


def capture(build: Build, tensor: Tensor) -> int:
    """Return the value that stands for a tensor in a graph, through every body in between.

    Raises:
        NodeFault: when the tensor is of a graph that is not around this one.
    """
    if tensor.build is build:
        return tensor.id
    chain: list[Build] = []
    inner: Build | None = build
    while inner is not None and inner is not tensor.build:
        chain.append(inner)
        inner = inner.parent
    if inner is None:
        raise NodeFault("it reads what only another branch computes")
    value, known = tensor.id, tensor.build.editor.values[tensor.id]
    for step in reversed(chain):
        found = step.captured.get(value)
        if found is None:
            found = step.captured[value] = step.editor.add_value(known.type, known.name)
        value = found
    return value


def tensors_in(item: Item) -> list[Item]:
    """Return the tensors of an item, those of tuples in order; tokens and functions are none."""
    found: list[Item] = []
    pending = [item]
    while pending:
        one = pending.pop()
        if isinstance(one, Items):
            pending += reversed(one.items)
        elif isinstance(one, Tensor | Array | Known):
            found.append(one)
    return found


def rebuilt(item: Item, tensors: list[Item]) -> Item:
    """Return an item of the same form whose tensors are these, taken in order from the front of the list."""
    if isinstance(item, Items):
        return Items(tuple(rebuilt(one, tensors) for one in item.items))
    return tensors.pop(0) if isinstance(item, Tensor | Array | Known) else item
