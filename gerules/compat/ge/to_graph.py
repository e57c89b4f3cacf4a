"""From a graph of the Graph Engine's interface to a graph that gerules compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
import numpy.typing as npt

import gerules.compat.ge.lower_control as lower_control
import gerules.compat.ge.lower_math as lower_math
import gerules.compat.ge.lower_nn as lower_nn
import gerules.compat.ge.lower_shape as lower_shape
from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.graph import CONSTANTS, DATA, NET_OUTPUT, Graph, Node, Port
from gerules.compat.ge.graph.tensor import Tensor
from gerules.compat.ge.lowering import Lowering, Value, count_read, find_operator
from gerules.errors import Faults, table
from gerules.ir import UNKNOWN, Attr, Body, GraphEditor, Origin, TensorType, empty_graph
from gerules.ir import Graph as IrGraph
from gerules.ops import Schemas, ShapeError, Vector, Vectors, infer_nodes

Array = npt.NDArray[np.generic]

OPSET: Final = 20
"""The version of ONNX that nodes are lowered to: the first that has all of them."""

LOWERED: Final = (lower_control, lower_math, lower_nn, lower_shape)
"""The modules that fill the table of operators."""

_DEEPEST: Final = 32
"""Graphs inside graphs."""


@dataclass(slots=True)
class GraphSink:
    """Builds a graph of gerules."""

    editor: GraphEditor
    faults: Faults
    depth: int = 0
    taken: set[str] = field(default_factory=set[str])
    untyped: list[int] = field(default_factory=list[int])
    vectors: Vectors = field(default_factory=dict[int, Vector])

    def add(
        self, op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Attr], n_outputs: int, name: str
    ) -> tuple[Value, ...]:
        """Add a node, named after the one that it comes from, and return its outputs."""
        # One node may become several; all of them come from it, and the first is called as it is.
        called = name if name not in self.taken else f"{name}/{op}_{len(self.taken)}"
        self.taken.add(called)
        values = [
            self.editor.add_value(name=called if at == 0 else f"{called}_{at}") for at in range(n_outputs)
        ]
        node = self.editor.add_node(op, inputs, values, attrs, name=called, origin=Origin((name,)))
        self.untyped.append(node.id)
        return tuple(values)

    def add_const(self, array: Array, *, is_fixed: bool = False) -> Value:
        """Add a constant."""
        return self.editor.add_const(array)

    def add_branches(
        self, op: str, condition: Value, inputs: Sequence[Value], branches: Mapping[str, Graph], name: str
    ) -> tuple[Value, ...]:
        """Add a node with graphs inside; their inputs are values of this graph."""
        if self.depth == _DEEPEST:
            raise GeError(
                table.GE_BAD_NODE, place=name, type=op, reason=f"graphs are more than {_DEEPEST} deep",
                remedy="flatten them",
            )  # fmt: skip
        bodies = {key: _body_of(self, graph, inputs, name) for key, graph in branches.items()}
        n_outputs = len(next(iter(branches.values())).outputs)
        values = [self.editor.add_value(name=name if at == 0 else f"{name}_{at}") for at in range(n_outputs)]
        node = self.editor.add_node(op, [condition], values, name=name, origin=Origin((name,)), bodies=bodies)
        self.untyped.append(node.id)
        return tuple(values)

    def array_of(self, value: Value) -> Array | None:
        """Return the elements of a constant."""
        const = self.editor.consts.get(value)
        return None if const is None else const.array

    def type_of(self, value: Value) -> TensorType:
        """Return what is known of the type of a value."""
        # Few operators ask, and nodes are inferred when one does.
        with suppress(ShapeError):  # told when the whole graph is inferred
            infer_nodes(self.editor, self.untyped, Schemas(), vectors=self.vectors)
        self.untyped.clear()
        type = self.editor.values[value].type
        return type if isinstance(type, TensorType) else UNKNOWN


@dataclass(slots=True)
class _Builder:
    graph: Graph
    editor: GraphEditor
    faults: Faults
    made: dict[Node, tuple[Value, ...]] = field(default_factory=dict["Node", "tuple[Value, ...]"])
    n_read: dict[Node, int] = field(init=False)

    def __post_init__(self) -> None:
        self.n_read = count_read(self.graph)


def to_graph(graph: Graph) -> IrGraph:
    """Return the graph that gerules compiles; nodes keep their names.

    Raises:
        GeError: E41001 and E41002 for nodes, E41004 for the graph: all faults at once.
    """
    faults = Faults()
    builder = _Builder(graph, _new_editor(graph), faults)
    for node in _inputs(graph, faults):
        builder.made[node] = (builder.editor.add_input(node.get_output_desc(0).type, node.name),)
    _fill(builder, GraphSink(builder.editor, faults))
    faults.raise_if_any(GeError)
    return builder.editor.commit()


def _new_editor(graph: Graph) -> GraphEditor:
    return GraphEditor(empty_graph(graph.name, {"": OPSET}))


def _fill(builder: _Builder, sink: GraphSink) -> None:
    """Lower the nodes of a graph whose inputs are there, and say what it gives back."""
    graph, faults = builder.graph, builder.faults
    outputs = graph.outputs
    if not outputs:
        faults.add(
            table.GE_BAD_GRAPH, name=graph.name, reason="it gives nothing back",
            remedy="call set_graph_output, or lead edges to a NetOutput",
        )  # fmt: skip
    for node in _ordered(graph, faults):
        if node.type not in (DATA, NET_OUTPUT):
            _lower(builder, node, sink)
    if len(faults):
        return
    values = [value for port in outputs if (value := _value_of(builder, port)) is not None]
    if len(faults):
        return
    builder.editor.set_outputs(_name_outputs(builder.editor, outputs, values))
    builder.editor.prune()


def _body_of(sink: GraphSink, graph: Graph, inputs: Sequence[Value], name: str) -> Body:
    """A graph inside a node; its Data nodes stand for the node's inputs, by their index."""
    builder = _Builder(graph, _new_editor(graph), sink.faults)
    captures: list[tuple[int, int]] = []
    for node in _inputs(graph, sink.faults):
        index = node.attrs.get("index")
        if not isinstance(index, int) or not 0 <= index < len(inputs):
            sink.faults.add(
                table.GE_BAD_GRAPH, place=node.name, name=graph.name,
                reason=f"{node.name} is input {index}, and {name} has {len(inputs)}",
                remedy="number the inputs of branches as those of the node, from 0",
            )  # fmt: skip
            continue
        outer = inputs[index]
        sink.type_of(outer)
        inner = builder.editor.add_value(sink.editor.values[outer].type, node.name)
        captures.append((outer, inner))
        builder.made[node] = (inner,)
    _fill(builder, GraphSink(builder.editor, sink.faults, sink.depth + 1))
    return Body(builder.editor.commit(), tuple(captures))


def _inputs(graph: Graph, faults: Faults) -> list[Node]:
    """The Data nodes by their index; those without one come after, as they were added."""
    nodes = [node for node in graph.get_direct_nodes() if node.type == DATA]
    taken: dict[int, Node] = {}
    for node in nodes:
        index = node.attrs.get("index")
        if isinstance(index, int) and (other := taken.setdefault(index, node)) is not node:
            faults.add(
                table.GE_BAD_GRAPH, place=node.name, name=graph.name,
                reason=f"{other.name} and {node.name} are both input {index}", remedy="number inputs from 0",
            )  # fmt: skip
    places = {id(node): at for at, node in enumerate(nodes)}

    def key(node: Node) -> tuple[int, int]:
        index = node.attrs.get("index")
        return index if isinstance(index, int) else len(nodes), places[id(node)]

    return sorted(nodes, key=key)


def _ordered(graph: Graph, faults: Faults) -> list[Node]:
    """Producers before readers, otherwise as they were added; without what lies in a cycle."""
    nodes = graph.get_direct_nodes()
    waiting = {
        id(node): {id(source[0]) for source in node.sources if source}
        | {id(item) for item in node.get_in_control_nodes()}
        for node in nodes
    }
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for source in waiting[id(node)]:
            readers.setdefault(source, []).append(node)
    ready = [node for node in reversed(nodes) if not waiting[id(node)]]
    found: list[Node] = []
    while ready:
        node = ready.pop()
        found.append(node)
        for reader in reversed(readers.get(id(node), [])):
            waiting[id(reader)].discard(id(node))
            if not waiting[id(reader)]:
                ready.append(reader)
    if len(found) < len(nodes):
        known = {id(node) for node in found}
        stuck = [node.name for node in nodes if id(node) not in known]
        faults.add(
            table.GE_BAD_GRAPH, name=graph.name, reason=f"{', '.join(stuck[:5])} lie in a cycle",
            remedy="remove an edge of the cycle",
        )  # fmt: skip
    return found


def _lower(builder: _Builder, node: Node, sink: GraphSink) -> None:
    if node.type in CONSTANTS:
        value = node.attrs.get("value")
        if isinstance(value, Tensor):
            builder.made[node] = (builder.editor.add_const(value.array, node.name),)
        else:
            builder.faults.add(
                table.GE_BAD_NODE, place=node.name, type=node.type, reason="its attribute value is no Tensor",
                remedy="set the attribute value to a Tensor",
            )  # fmt: skip
        return
    inputs = [None if source is None else _value_of(builder, source) for source in node.sources]
    if any(source and source[0] not in builder.made for source in node.sources):
        return  # what it reads is at fault already
    try:
        operator = find_operator(node.type, place=node.name)
        attrs = {key: _subgraph_of(builder.graph, key, value) for key, value in node.attrs.items()}
        made = operator.lower(Lowering(operator, node.name, inputs, attrs, sink, builder.n_read.get(node, 0)))
    except GeError as error:
        builder.faults.extend(error.diagnostics)
        return
    builder.made[node] = made if isinstance(made, tuple) else (made,)


def _subgraph_of(graph: Graph, attr: str, value: object) -> object:
    """The graph that a branch's attribute names, where it gives a name."""
    if not attr.endswith("_branch") or not isinstance(value, str):
        return value
    return graph.get_subgraph(value) or value


def _value_of(builder: _Builder, port: Port) -> Value | None:
    node, at = port
    made = builder.made.get(node)
    if made is None:
        return None
    if at >= len(made):
        builder.faults.add(
            table.GE_BAD_NODE, place=node.name, type=node.type, reason=f"it has no output {at}",
            remedy=f"its outputs are 0 to {len(made) - 1}",
        )  # fmt: skip
        return None
    return made[at]


def _name_outputs(editor: GraphEditor, outputs: Sequence[Port], values: Sequence[Value]) -> list[Value]:
    """Name outputs after their nodes; what is an input, a constant or an output already is passed on."""
    found: list[Value] = []
    for (node, at), value in zip(outputs, values, strict=True):
        name = node.name if at == 0 else f"{node.name}_{at}"
        if editor.producer(value) is None or value in found:
            name = f"{name}_out{len(found)}"
            value = cast(int, editor.add_node("Identity", [value], name=name).outputs[0])
        known = editor.values[value]
        editor.values[value] = type(known)(known.id, known.name or name, known.type)
        found.append(value)
    return found
