"""Graphs in an `.om` file: operators with edges, places, streams, exact attributes; bodies as subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gerules.backend.emit_tensors import TensorWriter
from gerules.backend.exact import write_attrs, write_texts
from gerules.backend.nested import FUSED_BODY, NestedPlan, is_fused
from gerules.backend.om import ABSENT, Edge, OmAttr, OmGraph, OmOp, OmTensor, Workspace, ints, texts
from gerules.backend.ports import Namer, input_names
from gerules.errors import Faults
from gerules.ir import Body, Graph, Node, TensorType
from gerules.ops import OpSchema, ParamKind, Schemas

NOWHERE: Final = -1
"""The offset of a value that does not lie in the arena."""

RESERVED_TYPES: Final = frozenset({"Data", "Const", "Constant", "NetOutput", "FileConstant", "Variable"})
"""Operator types that mean something to readers of `.om` files; no operator of a graph may have them."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one graph's values lie and when its nodes run; a body that the host runs has none of it.

    Attributes:
        order: The nodes in the order to list them.
        offsets: By value, in the arena.
        streams: By node.
        workspaces: By node.
        nested: Where the values inside fused nodes lie, from the start of the workspace.
        life_ends: The last step that needs a value's bytes, by value; absent where others go on with them.
        reused: The input position whose bytes a node's first output took over or shares, by node.
        engines: By node.
    """

    order: Sequence[int]
    offsets: Mapping[int, int] = field(default_factory=dict[int, int])
    streams: Mapping[int, int] = field(default_factory=dict[int, int])
    workspaces: Mapping[int, Workspace] = field(default_factory=dict[int, Workspace])
    nested: Mapping[int, NestedPlan] = field(default_factory=dict[int, NestedPlan])
    life_ends: Mapping[int, int] = field(default_factory=dict[int, int])
    reused: Mapping[int, int] = field(default_factory=dict[int, int])
    engines: Mapping[int, str] = field(default_factory=dict[int, str])


@dataclass(slots=True)
class _Scope:
    """What is known while one graph is written."""

    graph: Graph
    placement: Placement
    suffix: str = ""
    attrs: Mapping[str, OmAttr] = field(default_factory=dict[str, OmAttr])
    namer: Namer = field(default_factory=Namer)
    edges: dict[int, Edge] = field(default_factory=dict[int, Edge])
    descs: dict[int, OmTensor] = field(default_factory=dict[int, OmTensor])
    ops: list[OmOp] = field(default_factory=list[OmOp])

    def named(self, wish: str) -> str:
        """Return a name that no other operator of the graph has."""
        return self.namer.name(wish + self.suffix)


@dataclass(frozen=True, slots=True)
class Written:
    """A graph as the file has it, and the operator of each node."""

    graph: OmGraph
    op_ids: Mapping[int, int]


class GraphWriter:
    """Writes graphs one after the other; ids of operators count through all of them.

    `graphs` are those written, the root first.
    """

    def __init__(self, faults: Faults, schemas: Schemas | None = None) -> None:
        self.tensors = TensorWriter(faults)
        self.graphs: list[OmGraph] = []
        self._schemas = schemas
        self._namer = Namer()
        self._n_ops = 0

    def write_root(self, graph: Graph, placement: Placement) -> Written:
        """Write a graph and the bodies inside it."""
        scope = _Scope(graph, placement)
        self.graphs.append(OmGraph(self._namer.name(graph.name or "graph")))
        for at, (name, value) in enumerate(zip(input_names(graph), graph.inputs, strict=True)):
            self._data(scope, value, scope.named(name), {"index": at})
        ids = self._write(scope, 0)
        return Written(self.graphs[0], ids)

    def reserve(self, wish: str) -> str:
        """Return a name for a graph that no other has."""
        return self._namer.name(wish)

    def add_graph(self, name: str, ops: Sequence[OmOp]) -> OmGraph:
        """Add a graph under a reserved name, of operators that are no nodes; they get their ids here."""
        numbered = tuple(replace(op, id=self._n_ops + at) for at, op in enumerate(ops))
        self._n_ops += len(numbered)
        inputs = tuple(Edge(op.name) for op in numbered if op.type == "Data")
        outputs = tuple(edge for op in numbered if op.type == "NetOutput" for edge in op.inputs if edge)
        self.graphs.append(OmGraph(name, numbered, inputs, outputs))
        return self.graphs[-1]

    def write_branch(
        self, graph: Graph, placement: Placement, name: str, *, suffix: str, first_input: int,
        attrs: Mapping[str, OmAttr],
    ) -> Written:  # fmt: skip
        """Write a graph that an operator calls by `name`, which is reserved, and the bodies inside it.

        Args:
            suffix: Stands behind the name of each operator.
            first_input: The caller's input that is the first of the graph.
            attrs: More attributes of each node.
        """
        scope = _Scope(graph, placement, suffix, attrs)
        at = len(self.graphs)
        self.graphs.append(OmGraph(name))
        for place, (wish, value) in enumerate(zip(input_names(graph), graph.inputs, strict=True)):
            marks: dict[str, OmAttr] = {"index": place, "_parent_node_index": first_input + place}
            self._data(scope, value, scope.named(wish), marks)
        ids = self._write(scope, at)
        return Written(self.graphs[at], ids)

    def _write(self, scope: _Scope, at: int) -> dict[int, int]:
        """Write all but the inputs of a graph, as number `at`; return the operator of each node."""
        graph = scope.graph
        for value in graph.consts:
            if value in graph.readers or value in graph.output_set:
                self._const(scope, value)
        positions = {value: place for place, value in enumerate(graph.inputs)}
        for value in graph.defaults:
            wish = f"{graph.values[value].name}_default"
            self._constant(scope, value, wish, {"_gerules_default_of": positions[value]})
        ids: dict[int, int] = {}
        for node in scope.placement.order:
            ids[node] = self._n_ops
            self._node(scope, graph.nodes[node])
        self._net_output(scope, is_body=at > 0)
        attrs: dict[str, OmAttr] = {"_gerules_name": graph.name, "_gerules_opsets": write_texts(graph.opsets)}
        if graph.metadata:
            attrs["_gerules_metadata"] = write_texts(graph.metadata)
        inputs = tuple(scope.edges[value] for value in graph.inputs)
        outputs = tuple(scope.edges[value] for value in graph.outputs)
        self.graphs[at] = OmGraph(self.graphs[at].name, tuple(scope.ops), inputs, outputs, attrs)
        return ids

    # ------------------------------------------------------------ operators
    def _add(self, scope: _Scope, op: OmOp) -> None:
        scope.ops.append(replace(op, id=self._n_ops))
        self._n_ops += 1

    def _data(self, scope: _Scope, value: int, name: str, attrs: Mapping[str, OmAttr]) -> None:
        record = scope.graph.values[value]
        desc = replace(self.tensors.describe(record.type, record.name), is_graph_input=True)
        scope.edges[value], scope.descs[value] = Edge(name), desc
        offset = scope.placement.offsets.get(value, NOWHERE)
        found: dict[str, OmAttr] = dict(attrs)
        if (end := scope.placement.life_ends.get(value)) is not None:
            found["_gerules_life_end"] = ints([end])
        op = OmOp(
            name, "Data", (None,), (), (replace(desc, size_bytes=max(0, desc.size_bytes)),), (desc,), found,
            ("x",), ("y",), input_offsets=(offset,), output_offsets=(offset,), is_input_const=(False,),
        )  # fmt: skip
        self._add(scope, op)

    def _const(self, scope: _Scope, value: int) -> None:
        record = scope.graph.values[value]
        op = self._constant(scope, value, record.name or "const", {})
        scope.edges[value], scope.descs[value] = Edge(op.name), op.output_descs[0]

    def _constant(self, scope: _Scope, value: int, wish: str, attrs: Mapping[str, OmAttr]) -> OmOp:
        graph = scope.graph
        record = graph.values[value]
        const = graph.consts.get(value) or graph.defaults[value]
        type = const.type
        if isinstance(record.type, TensorType):
            type = type.with_format(record.type.format, record.type.groups)
        stored = self.tensors.constant(const, type, record.name)
        op = OmOp(
            scope.named(wish), "Const", output_descs=(stored.desc,), attrs={**attrs, "value": stored},
            output_names=("y",), output_offsets=(0,),
        )  # fmt: skip
        self._add(scope, op)
        return op

    def _node(self, scope: _Scope, node: Node) -> None:
        graph, placement = scope.graph, scope.placement
        reads = [*node.inputs, *(outer for body in node.bodies.values() for outer, _ in body.captures)]
        wish = node.name or (node.origin.sources[-1] if node.origin.sources else "") or node.op
        name = scope.named(wish)
        op_id = self._n_ops
        self._n_ops += 1
        subgraphs = [
            self._body(scope, node, name, label, body, first)
            for label, body, first in zip(
                node.bodies, node.bodies.values(), _capture_starts(node), strict=True
            )
        ]
        outputs = [self._output(scope, node, name, at) for at in range(len(node.outputs))]
        if (reused := placement.reused.get(node.id)) is not None and outputs:
            outputs[0] = replace(outputs[0], reuse_input=reused)
        is_const = tuple(value is not None and value in graph.consts for value in reads)
        input_names, output_names = self._port_names(graph, node)
        workspace = placement.workspaces.get(node.id)
        op = OmOp(
            name=name,
            type=om_type(node.op),
            inputs=tuple(None if value is None else scope.edges[value] for value in reads),
            input_descs=tuple(ABSENT if value is None else scope.descs[value] for value in reads),
            output_descs=tuple(outputs),
            attrs=self._attrs(scope, node),
            input_names=input_names,
            output_names=output_names,
            input_offsets=tuple(self._input_offset(scope, value) for value in reads),
            output_offsets=tuple(
                NOWHERE if value is None else placement.offsets.get(value, NOWHERE) for value in node.outputs
            ),
            workspace=() if workspace is None else (workspace,),
            is_input_const=is_const,
            subgraphs=tuple(subgraphs),
            stream_id=placement.streams.get(node.id, 0),
            id=op_id,
        )
        scope.ops.append(op)

    def _output(self, scope: _Scope, node: Node, name: str, at: int) -> OmTensor:
        value = node.outputs[at]
        if value is None:
            return ABSENT
        record = scope.graph.values[value]
        desc = self.tensors.describe(record.type, record.name)
        if value in scope.graph.output_set:
            desc = replace(desc, is_graph_output=True)
        scope.edges[value], scope.descs[value] = Edge(name, at), desc
        return desc

    def _input_offset(self, scope: _Scope, value: int | None) -> int:
        if value is None:
            return NOWHERE
        desc = scope.descs[value]
        return (
            desc.data_offset if value in scope.graph.consts else scope.placement.offsets.get(value, NOWHERE)
        )

    def _attrs(self, scope: _Scope, node: Node) -> dict[str, OmAttr]:
        text, consts = write_attrs(node.attrs)
        found: dict[str, OmAttr] = dict(scope.attrs)
        for name, value in node.attrs.items():
            if name and "\0" not in name and not name.startswith("_"):
                found[name] = self.tensors.native(value, node.name)
        found["_gerules_op"] = node.op
        if node.attrs:
            found["_gerules_attrs"] = text
        for place, const in enumerate(consts):
            found[f"_gerules_const_{place}"] = self.tensors.constant(const, const.type, node.name)
        if node.name:
            found["_gerules_node"] = node.name
        if node.bodies:
            found["_gerules_bodies"] = texts(node.bodies)
            found["_gerules_n_inputs"] = len(node.inputs)
        origin = node.origin
        if origin.sources:
            found["_datadump_original_op_names"] = texts(origin.sources)
        if origin.rules:
            found["_gerules_rules"] = texts(origin.rules)
        if origin.phase:
            found["_gerules_phase"] = origin.phase
        if engine := scope.placement.engines.get(node.id):
            found["_lxfusion_engine_name"] = engine
        ends = [scope.placement.life_ends.get(v, NOWHERE) if v is not None else NOWHERE for v in node.outputs]
        if any(end != NOWHERE for end in ends):
            found["_gerules_life_end"] = ints(ends)
        return found

    def _port_names(self, graph: Graph, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        domain = node.op.rpartition("::")[0]
        opset = graph.opsets.get(domain)
        schema = self._schemas.get(node.op, opset) if self._schemas is not None else None
        if schema is None:
            return (), ()
        return (
            _spread(schema, len(node.inputs), is_input=True),
            _spread(schema, len(node.outputs), is_input=False),
        )

    def _net_output(self, scope: _Scope, *, is_body: bool) -> None:
        graph = scope.graph
        descs = [scope.descs[value] for value in graph.outputs]
        if is_body:
            descs = [
                replace(desc, attrs={**desc.attrs, "_parent_node_index": at}) for at, desc in enumerate(descs)
            ]
        op = OmOp(
            scope.named("NetOutput"), "NetOutput", tuple(scope.edges[value] for value in graph.outputs),
            input_descs=tuple(descs),
            input_offsets=tuple(self._input_offset(scope, value) for value in graph.outputs),
            is_input_const=tuple(value in graph.consts for value in graph.outputs),
        )  # fmt: skip
        self._add(scope, op)

    # ------------------------------------------------------------ bodies
    def _body(self, outer: _Scope, node: Node, owner: str, label: str, body: Body, first_capture: int) -> str:
        graph = body.graph
        placement = Placement(order=tuple(graph.nodes))
        plan = outer.placement.nested.get(node.id)
        workspace = outer.placement.workspaces.get(node.id)
        if label == FUSED_BODY and plan is not None and is_fused(node):
            base = workspace.offset_bytes if workspace is not None else 0
            placement = nested_placement(graph, plan, base, node, outer.placement.offsets)
        scope = _Scope(graph, placement)
        name = self._namer.name(f"{owner}_{label}")
        at = len(self.graphs)
        self.graphs.append(OmGraph(name))
        for place, (wish, value) in enumerate(zip(input_names(graph), graph.inputs, strict=True)):
            self._data(scope, value, scope.namer.name(wish), {"index": place, "_parent_node_index": place})
        for place, (_, value) in enumerate(body.captures):
            wish = graph.values[value].name or "capture"
            attrs: dict[str, OmAttr] = {"_parent_node_index": first_capture + place, "_gerules_capture": True}
            self._data(scope, value, scope.namer.name(wish), attrs)
        self._write(scope, at)
        return name


def nested_placement(
    graph: Graph, plan: NestedPlan, base: int, node: Node, outer: Mapping[int, int]
) -> Placement:
    """Return where the values of a fused body lie in the arena, its workspace starting at `base`."""
    offsets = {value: base + offset for value, offset in plan.offsets.items()}
    for value, output in plan.direct.items():
        made = node.outputs[output]
        if made is not None and made in outer:
            offsets[value] = outer[made]
    workspaces = {
        item: Workspace(base + start, inner.size_bytes) for item, (start, inner) in plan.nested.items()
    }
    return Placement(
        order=tuple(graph.nodes),
        offsets=offsets,
        workspaces=workspaces,
        nested={item: inner for item, (_, inner) in plan.nested.items()},
    )


def om_type(op: str) -> str:
    """Return the type an operator has in `.om` files: no device domain, no name with a meaning."""
    base = op.removeprefix("ge::")
    return f"{base}_" if base in RESERVED_TYPES else base


def _capture_starts(node: Node) -> list[int]:
    """The input position of the first capture of each body; captures follow the inputs, body by body."""
    starts: list[int] = []
    at = len(node.inputs)
    for body in node.bodies.values():
        starts.append(at)
        at += len(body.captures)
    return starts


def _spread(schema: OpSchema, count: int, *, is_input: bool) -> tuple[str, ...]:
    """Names of so many ports; a variadic one repeats with a number."""
    params = schema.inputs if is_input else schema.outputs
    names: list[str] = []
    for at in range(count):
        param = params[at] if at < len(params) else (params[-1] if params else None)
        if param is None:
            return ()
        is_repeated = param.kind is ParamKind.VARIADIC
        names.append(f"{param.name}{at - len(params) + 1}" if is_repeated else param.name)
    return tuple(names) if len(set(names)) == len(names) else ()
