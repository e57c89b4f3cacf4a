"""Graphs as the Graph Engine's users build them: nodes by type, edges between ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.tensor import TensorDesc
from gerules.compat.ge.graph.types import DumpFormat
from gerules.errors import table
from gerules.text.files import write_files

Port = tuple["Node", int]

DATA = "Data"
CONSTANTS = frozenset(["Const", "Constant"])
NET_OUTPUT = "NetOutput"


@dataclass(frozen=True, slots=True)
class OutDataAnchor:
    """An output of a node, where edges begin."""

    node: Node
    index: int

    def GetIdx(self) -> int:  # noqa: N802 - the name of the interface
        """Return the number of the output."""
        return self.index

    def GetOwnerNode(self) -> Node:  # noqa: N802 - the name of the interface
        """Return the node."""
        return self.node

    def LinkTo(self, target: InDataAnchor) -> None:  # noqa: N802 - the name of the interface
        """Lead an edge to an input. Raises GeError E41003."""
        self.node.graph.add_data_edge(self.node, self.index, target.node, target.index)


@dataclass(frozen=True, slots=True)
class InDataAnchor:
    """An input of a node, where one edge ends."""

    node: Node
    index: int

    def GetIdx(self) -> int:  # noqa: N802 - the name of the interface
        """Return the number of the input."""
        return self.index

    def GetOwnerNode(self) -> Node:  # noqa: N802 - the name of the interface
        """Return the node."""
        return self.node

    def GetPeerOutAnchor(self) -> OutDataAnchor | None:  # noqa: N802 - the name of the interface
        """Return where the edge begins, None for an input without one."""
        source = self.node.source_of(self.index)
        return None if source is None else OutDataAnchor(*source)


class Node:
    """One operator of a graph. `Graph.AddNode` makes it."""

    def __init__(self, graph: Graph, type: str, name: str) -> None:
        self.graph = graph
        self._type = type
        self._name = name
        self._sources: list[Port | None] = []
        self._controls: list[Node] = []
        self._attrs: dict[str, object] = {}
        self._input_attrs: dict[tuple[int, str], object] = {}
        self._output_attrs: dict[tuple[int, str], object] = {}
        self._input_descs: dict[int, TensorDesc] = {}
        self._output_descs: dict[int, TensorDesc] = {}
        self.n_outputs = 1

    # ------------------------------------------------------------ what it is
    @property
    def name(self) -> str:
        """Its name, unlike all others of the graph."""
        return self._name

    @property
    def type(self) -> str:
        """The type of operator, such as `Conv2D`."""
        return self._type

    def GetName(self) -> str:  # noqa: N802 - the name of the interface
        """Return `name`."""
        return self._name

    def GetType(self) -> str:  # noqa: N802 - the name of the interface
        """Return `type`."""
        return self._type

    def __repr__(self) -> str:
        return f"<Node {self._name}: {self._type}>"

    # ------------------------------------------------------------ attributes
    @property
    def attrs(self) -> Mapping[str, object]:
        """All attributes."""
        return self._attrs

    def get_attr(self, name: str) -> object:
        """Return an attribute. Raises GeError E41002 when there is none."""
        if name not in self._attrs:
            raise GeError(
                table.GE_BAD_NODE, place=self._name, type=self._type, reason=f"it has no attribute {name}",
                remedy=f"it has {', '.join(sorted(self._attrs)) or 'none'}",
            )  # fmt: skip
        return self._attrs[name]

    def set_attr(self, name: str, value: object) -> Node:
        """Set an attribute, and return the node."""
        self._attrs[name] = value
        return self

    def has_attr(self, name: str) -> bool:
        """Whether there is an attribute."""
        return name in self._attrs

    def get_input_attr(self, index: int, name: str) -> object:
        """Return an attribute of an input, None when there is none."""
        return self._input_attrs.get((index, name))

    def set_input_attr(self, index: int, name: str, value: object) -> None:
        """Set an attribute of an input."""
        self._input_attrs[index, name] = value

    def get_output_attr(self, index: int, name: str) -> object:
        """Return an attribute of an output, None when there is none."""
        return self._output_attrs.get((index, name))

    def set_output_attr(self, index: int, name: str, value: object) -> None:
        """Set an attribute of an output."""
        self._output_attrs[index, name] = value

    SetAttr = set_attr
    GetAttr = get_attr
    HasAttr = has_attr

    # ------------------------------------------------------------ descriptions
    def get_input_desc(self, index: int) -> TensorDesc:
        """Return what is said of an input: on its own, or at the output that it reads."""
        source = self.source_of(index)
        known = self._input_descs.get(index)
        return known or (TensorDesc() if source is None else source[0].get_output_desc(source[1]))

    def get_output_desc(self, index: int) -> TensorDesc:
        """Return what is said of an output; a description without anything when nothing is."""
        return self._output_descs.setdefault(index, TensorDesc())

    def update_input_desc(self, index: int, desc: TensorDesc) -> None:
        """Say something of an input."""
        self._input_descs[index] = desc

    def update_output_desc(self, index: int, desc: TensorDesc) -> None:
        """Say something of an output; an input of the graph has its type from here."""
        self._output_descs[index] = desc
        self.n_outputs = max(self.n_outputs, index + 1)

    GetInputDesc = get_input_desc
    GetOutputDesc = get_output_desc
    UpdateInputDesc = update_input_desc
    UpdateOutputDesc = update_output_desc

    # ------------------------------------------------------------ edges
    def source_of(self, index: int) -> Port | None:
        """Return the node and port that an input reads, None without an edge."""
        return self._sources[index] if 0 <= index < len(self._sources) else None

    @property
    def sources(self) -> tuple[Port | None, ...]:
        """What its inputs read, in order."""
        return tuple(self._sources)

    def set_source(self, index: int, source: Port | None) -> None:
        """Let an input read something; `Graph.add_data_edge` checks what this does not."""
        self._sources += [None] * (index + 1 - len(self._sources))
        self._sources[index] = source
        while self._sources and self._sources[-1] is None:
            self._sources.pop()
        if source is not None:
            source[0].n_outputs = max(source[0].n_outputs, source[1] + 1)

    def get_inputs_size(self) -> int:
        """Return the number of inputs that have an edge, gaps included."""
        return len(self._sources)

    def get_outputs_size(self) -> int:
        """Return the number of outputs that are known of."""
        return self.n_outputs

    def get_in_data_nodes_and_port_indexes(self, index: int) -> Port:
        """Return node and port that an input reads. Raises GeError E41003 without an edge."""
        source = self.source_of(index)
        if source is None:
            raise GeError(
                table.GE_BAD_EDGE, place=self._name, source="nothing", target=f"input {index}",
                reason="the input has no edge", remedy="add one",
            )  # fmt: skip
        return source

    def get_out_data_nodes_and_port_indexes(self, index: int) -> list[Port]:
        """Return the inputs that read an output."""
        return [
            (node, at)
            for node in self.graph.get_direct_nodes()
            for at, source in enumerate(node.sources)
            if source is not None and source[0] is self and source[1] == index
        ]

    def get_in_control_nodes(self) -> list[Node]:
        """Return the nodes that run before."""
        return list(self._controls)

    def get_out_control_nodes(self) -> list[Node]:
        """Return the nodes that run after."""
        return [node for node in self.graph.get_direct_nodes() if self in node.get_in_control_nodes()]

    def add_control(self, source: Node) -> None:
        """Let another node run before."""
        if source not in self._controls:
            self._controls.append(source)

    def drop_controls(self, source: Node) -> None:
        """Forget that another node runs before."""
        self._controls = [node for node in self._controls if node is not source]

    def GetInDataAnchor(self, index: int) -> InDataAnchor:  # noqa: N802 - the name of the interface
        """Return an input as an end of edges."""
        return InDataAnchor(self, index)

    def GetOutDataAnchor(self, index: int) -> OutDataAnchor:  # noqa: N802 - the name of the interface
        """Return an output as a beginning of edges."""
        return OutDataAnchor(self, index)


class Graph:
    """Nodes by name, and what the graph gives back."""

    def __init__(self, name: str = "graph") -> None:
        self._name = name
        self._nodes: dict[str, Node] = {}
        self._outputs: list[Port] = []
        self._attrs: dict[str, object] = {}
        self._subgraphs: dict[str, Graph] = {}

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def GetName(self) -> str:  # noqa: N802 - the name of the interface
        """Return `name`."""
        return self._name

    def __repr__(self) -> str:
        return f"<Graph {self._name}: {len(self._nodes)} nodes>"

    # ------------------------------------------------------------ nodes
    def add_node(
        self, type: str, name: str = "", attrs: Mapping[str, object] | None = None, **more: object
    ) -> Node:
        """Add a node and return it; without a name it gets one after its type.

        Raises:
            GeError: E41004 when another node has the name.
        """
        if name in self._nodes:
            raise GeError(
                table.GE_BAD_GRAPH, place=name, name=self._name, reason=f"two nodes are called {name}",
                remedy="give one of them another name",
            )  # fmt: skip
        node = Node(self, type, name or self._fresh(type))
        for key, value in {**(attrs or {}), **more}.items():
            node.set_attr(key, value)
        self._nodes[node.name] = node
        return node

    AddNode = add_node

    def get_direct_nodes(self) -> list[Node]:
        """Return the nodes in the order in which they were added."""
        return list(self._nodes.values())

    def get_all_nodes(self) -> list[Node]:
        """Return the nodes, those of subgraphs too."""
        inner = [node for graph in self._subgraphs.values() for node in graph.get_all_nodes()]
        return [*self._nodes.values(), *inner]

    GetDirectNode = get_direct_nodes
    GetAllNodes = get_all_nodes

    def find_node_by_name(self, name: str) -> Node | None:
        """Return a node by its name, None when there is none."""
        return self._nodes.get(name)

    FindNode = find_node_by_name

    def remove_node(self, node: Node) -> None:
        """Remove a node and its edges. Raises GeError E41004 when it is no node of the graph."""
        self._own(node)
        del self._nodes[node.name]
        self._outputs = [port for port in self._outputs if port[0] is not node]
        for other in self._nodes.values():
            other.drop_controls(node)
            for at, source in enumerate(other.sources):
                if source is not None and source[0] is node:
                    other.set_source(at, None)

    RemoveNode = remove_node

    # ------------------------------------------------------------ edges
    def add_data_edge(self, source: Node, source_port: int, target: Node, target_port: int) -> None:
        """Lead an edge from an output to an input.

        Raises:
            GeError: E41003 when the input has one, or a node is of another graph.
        """
        ends = (f"{source.name}:{source_port}", f"{target.name}:{target_port}")
        for node in (source, target):
            if self._nodes.get(node.name) is not node:
                raise GeError(
                    table.GE_BAD_EDGE, place=node.name,
                    reason=f"{node.name} is no node of {self._name}",
                    remedy="add the node to the graph first", source=ends[0], target=ends[1],
                )  # fmt: skip
        if source_port < 0 or target_port < 0:
            raise GeError(
                table.GE_BAD_EDGE, place=target.name, reason="ports count from 0",
                remedy="pass the number of a port", source=ends[0], target=ends[1],
            )  # fmt: skip
        known = target.source_of(target_port)
        if known is not None:
            raise GeError(
                table.GE_BAD_EDGE, place=target.name,
                reason=f"it reads {known[0].name}:{known[1]} already",
                remedy="remove that edge first", source=ends[0], target=ends[1],
            )  # fmt: skip
        target.set_source(target_port, (source, source_port))

    def AddEdge(self, source: OutDataAnchor, target: InDataAnchor) -> None:  # noqa: N802 - the interface's
        """Lead an edge from an anchor to an anchor. Raises GeError E41003."""
        self.add_data_edge(source.node, source.index, target.node, target.index)

    AddDataEdge = add_data_edge

    def add_control_edge(self, source: Node, target: Node) -> None:
        """Let a node run before another. Raises GeError E41004."""
        self._own(source)
        self._own(target)
        target.add_control(source)

    AddControlEdge = add_control_edge

    def remove_edge(self, source: Node, source_port: int, target: Node, target_port: int) -> None:
        """Remove an edge.

        A control edge where both ports are -1. Raises GeError E41003 when there is none.
        """
        if source_port < 0:
            target.drop_controls(source)
            return
        if target.source_of(target_port) != (source, source_port):
            raise GeError(
                table.GE_BAD_EDGE, source=f"{source.name}:{source_port}",
                target=f"{target.name}:{target_port}", reason="there is no such edge",
                remedy="name one that is",
            )  # fmt: skip
        target.set_source(target_port, None)

    # ------------------------------------------------------------ outputs, attributes, subgraphs
    def set_outputs(self, outputs: list[Port]) -> None:
        """Say what the graph gives back, in order; a NetOutput node says the same."""
        for node, _ in outputs:
            self._own(node)
        self._outputs = list(outputs)

    @property
    def outputs(self) -> list[Port]:
        """What the graph gives back."""
        nets = [node for node in self._nodes.values() if node.type == NET_OUTPUT]
        return [port for net in nets for port in net.sources if port is not None] or list(self._outputs)

    def get_attr(self, name: str) -> object:
        """Return an attribute, None when there is none."""
        return self._attrs.get(name)

    def set_attr(self, name: str, value: object) -> None:
        """Set an attribute."""
        self._attrs[name] = value

    def get_all_subgraphs(self) -> list[Graph]:
        """Return the subgraphs."""
        return list(self._subgraphs.values())

    def get_subgraph(self, name: str) -> Graph | None:
        """Return a subgraph by its name."""
        return self._subgraphs.get(name)

    def add_subgraph(self, graph: Graph) -> None:
        """Add a subgraph, such as a branch that an `If` names. Raises GeError E41004 for a name in use."""
        if graph.name in self._subgraphs:
            raise GeError(
                table.GE_BAD_GRAPH, name=self._name, reason=f"two subgraphs are called {graph.name}",
                remedy="give one of them another name",
            )  # fmt: skip
        self._subgraphs[graph.name] = graph

    def remove_subgraph(self, name: str) -> None:
        """Forget a subgraph, if it is there."""
        self._subgraphs.pop(name, None)

    # ------------------------------------------------------------ texts
    def dump_to_stream(self, format: DumpFormat = DumpFormat.kReadable) -> str:
        """Return the graph as text, one line for each node. There is one form."""
        lines = [f'graph("{self._name}"):']
        for node in self._nodes.values():
            inputs = ", ".join(f"%{port[0].name}:{port[1]}" if port else "none" for port in node.sources)
            attrs = ", ".join(f"{key}={value}" for key, value in node.attrs.items())
            n_users = sum(len(node.get_out_data_nodes_and_port_indexes(at)) for at in range(node.n_outputs))
            lines.append(
                f"  %{node.name} : [#users={n_users}] = Node[type={node.type}]"
                f"(inputs = ({inputs}), attrs = {{{attrs}}})"
            )
        lines.append(f"  return ({', '.join(f'%{node.name}:{at}' for node, at in self.outputs)})")
        return "\n".join(lines) + "\n"

    def dump_to_file(self, format: DumpFormat = DumpFormat.kReadable, suffix: str = "") -> str:
        """Write `ge_<graph><suffix>.txt` into the working folder; return its name. Raises GeError E10004."""
        path = Path(f"ge_{self._name}{suffix}.txt")
        text = self.dump_to_stream(format).encode()
        try:
            write_files([(path, lambda file: file.write(text))])
        except OSError as error:
            raise GeError(table.CANNOT_WRITE, path=path, reason=error.strerror or str(error)) from None
        return str(path)

    def _own(self, node: Node) -> None:
        if self._nodes.get(node.name) is not node:
            raise GeError(
                table.GE_BAD_GRAPH, place=node.name, name=self._name, reason=f"{node.name} is no node of it",
                remedy="pass a node of this graph",
            )  # fmt: skip

    def _fresh(self, type: str) -> str:
        number = sum(node.type == type for node in self._nodes.values())
        while (name := f"{type}_{number}") in self._nodes:
            number += 1
        return name
