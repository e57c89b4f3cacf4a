"""Graphs as GraphProto: names, nodes, bodies, constants and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto

from gerules.errors import table
from gerules.frontends.fault import ModelError
from gerules.frontends.onnx.findings import place_of_node
from gerules.frontends.onnx.names import Names
from gerules.frontends.onnx.protos import Array, TypeProtos, fill_attribute, fill_tensor, logical_array
from gerules.ir import UNKNOWN, Const, Graph, Node, Value, ValueType, dtype_of
from gerules.ops.registry import Schemas, split_op
from gerules.ops.schema import ParamKind

_ABSENT: Final = UNKNOWN
_NO_KINDS: Final[Mapping[str, str]] = {}


class Store(Protocol):
    """Decides where the elements of an initializer go."""

    def put(self, proto: TensorProto, array: Array, *, in_body: bool) -> None:
        """Set the tensor whole, or set what stands for its elements and keep the array."""
        ...


class InlineStore:
    """Keeps elements in the message itself."""

    def put(self, proto: TensorProto, array: Array, *, in_body: bool) -> None:
        """Set the whole tensor."""
        fill_tensor(proto, array)


class FunctionCalls(Protocol):
    """Offers a function for a node that ONNX does not know."""

    def call(
        self, node: Node, types: Sequence[ValueType], consts: Sequence[Const | None]
    ) -> tuple[str, str, tuple[int | None, ...]] | None:
        """Return the domain, name and inputs to call a function with; None to leave the node.

        `types` and `consts` say what is known of the node's inputs.
        """
        ...


class GraphWriter:
    """Writes the graphs of one model."""

    def __init__(
        self, schemas: Schemas, *, store: Store, calls: FunctionCalls | None, with_types: bool
    ) -> None:
        self.schemas = schemas
        self.types = TypeProtos()
        self.domains: set[str] = set()
        """Domains of all nodes written into graphs and their bodies, functions apart."""
        self._store = store
        self._calls = calls
        self._with_types = with_types
        self._kinds: dict[tuple[str, int], Mapping[str, str]] = {}

    def write_graph(
        self,
        graph: Graph,
        proto: GraphProto,
        opsets: Mapping[str, int],
        outer: Names | None = None,
        captured: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Fill a GraphProto. `captured` are values of a body with their names outside."""
        scope = Names(outer)
        names = scope.of_values(graph, captured)
        proto.name = graph.name or ("body" if outer is not None else "graph")
        for value in graph.inputs:
            self._declare(proto.input.add(), names[value], graph.values[value])
        for value, const in (*graph.consts.items(), *graph.defaults.items()):
            tensor = proto.initializer.add()
            tensor.name = names[value]
            array = logical_array(const, graph.type_of(value))
            self.types.dtypes.add(dtype_of(array))
            self._store.put(tensor, array, in_body=outer is not None)
        self.write_nodes(graph, proto, opsets, scope, names)
        # onnxruntime refuses a body that returns a value of the graph around it as it is.
        foreign = {value for value, _ in captured}
        self._write_outputs(graph, proto, scope, names, foreign)
        if self._with_types:
            self._write_types(graph, proto, names)

    def write_function(self, graph: Graph, proto: FunctionProto, opsets: Mapping[str, int]) -> None:
        """Fill a FunctionProto's inputs, nodes and outputs; constants become Constant nodes."""
        scope = Names()
        names = scope.of_values(graph)
        proto.input.extend(names[value] for value in graph.inputs)
        for value, const in graph.consts.items():
            node = proto.node.add(op_type="Constant", output=[names[value]])
            attribute = node.attribute.add(name="value", type=AttributeProto.TENSOR)
            fill_tensor(attribute.t, logical_array(const, graph.type_of(value)))
        self.write_nodes(graph, proto, opsets, scope, names)
        for place, value in enumerate(graph.outputs):
            name = names[value]
            # A function's outputs are made inside it, each by a name of its own.
            if value in graph.outputs[:place] or value in graph.inputs:
                name = _copy(proto, scope, name)
            proto.output.append(name)

    def write_nodes(
        self,
        graph: Graph,
        proto: GraphProto | FunctionProto,
        opsets: Mapping[str, int],
        scope: Names,
        names: Mapping[int, str],
    ) -> None:
        """Add the nodes of a graph in its order."""
        add, calls, values = proto.node.add, self._calls, graph.values
        labels = Names()
        domains: set[str] = set()
        for node in graph.nodes.values():
            op, inputs = node.op, node.inputs
            domain, name = split_op(op) if "::" in op else ("", op)
            made = add()
            in_function = False
            if calls is not None and (domain or "body" in node.bodies):
                types = [values[value].type if value is not None else _ABSENT for value in inputs]
                known = [None if value is None else graph.consts.get(value) for value in inputs]
                found = calls.call(node, types, known)
                if found is not None:
                    domain, name, inputs = found
                    in_function = True
            made.op_type = name
            domains.add(domain)
            if domain:
                made.domain = domain
            made.input.extend([names[value] if value is not None else "" for value in inputs])
            made.output.extend([names[value] if value is not None else "" for value in node.outputs])
            if not in_function and None in node.outputs:
                self._name_required(node, made, opsets, scope)
            if node.name:
                made.name = labels.pick(node.name)
            if node.attrs or node.bodies:
                try:
                    self._write_attributes(node, made, opsets, scope, names, in_function)
                except (ValueError, TypeError) as fault:
                    raise ModelError(
                        table.CANNOT_EXPORT, place=place_of_node(node.name, op), what=f"an attribute of {op}",
                        reason=str(fault), remedy="keep numbers within 64 bits, and texts within UTF-8",
                    ) from None  # fmt: skip
        self.domains |= domains

    def _write_attributes(
        self,
        node: Node,
        made: NodeProto,
        opsets: Mapping[str, int],
        scope: Names,
        names: Mapping[int, str],
        in_function: bool,
    ) -> None:
        kinds = self._kinds_of(node.op, opsets) if node.attrs else _NO_KINDS
        add = made.attribute.add
        for name, value in node.attrs.items():
            fill_attribute(add(), name, value, kinds.get(name))
        for name, body in node.bodies.items():
            if in_function and name == "body":
                continue
            attribute = add(name=name, type=AttributeProto.GRAPH)
            captured = [(inner, names[outer]) for outer, inner in body.captures]
            self.write_graph(body.graph, attribute.g, opsets, scope, captured)

    def _name_required(self, node: Node, made: NodeProto, opsets: Mapping[str, int], scope: Names) -> None:
        """Name the outputs that nobody asked for where ONNX demands that they have a name."""
        schema = self.schemas.get(node.op, opsets.get(split_op(node.op)[0], 0))
        if schema is None:
            return
        for place, (param, value) in enumerate(zip(schema.outputs, node.outputs, strict=False)):
            if value is None and param.kind is ParamKind.REQUIRED:
                made.output[place] = scope.pick("unused")

    def _kinds_of(self, op: str, opsets: Mapping[str, int]) -> Mapping[str, str]:
        version = opsets.get(split_op(op)[0], 0)
        kinds = self._kinds.get((op, version))
        if kinds is None:
            schema = self.schemas.get(op, version)
            kinds = {} if schema is None else {name: spec.kind for name, spec in schema.attrs.items()}
            self._kinds[op, version] = kinds
        return kinds

    def _write_outputs(
        self, graph: Graph, proto: GraphProto, scope: Names, names: Mapping[int, str], foreign: set[int]
    ) -> None:
        seen: set[int] = set()
        for value in graph.outputs:
            name = names[value]
            if value in seen or value in foreign:
                name = _copy(proto, scope, name)
                self.domains.add("")
            seen.add(value)
            self._declare(proto.output.add(), name, graph.values[value])

    def _declare(self, proto: ValueInfoProto, name: str, value: Value) -> None:
        proto.name = name
        type_ = self.types.get(value.type)
        if type_ is not None:
            proto.type.CopyFrom(type_)

    def _write_types(self, graph: Graph, proto: GraphProto, names: Mapping[int, str]) -> None:
        """Note the types of inner values; those of inputs, outputs and constants stand elsewhere."""
        told = {*graph.inputs, *graph.outputs, *graph.consts}
        add, get, values = proto.value_info.add, self.types.get, graph.values
        for node in graph.nodes.values():
            for value in node.outputs:
                if value is None or value in told:
                    continue
                type_ = get(values[value].type)
                if type_ is not None:
                    add(name=names[value], type=type_)


def _copy(proto: GraphProto | FunctionProto, scope: Names, name: str) -> str:
    """Add an Identity, and return the name of what it makes."""
    copy = scope.pick(name)
    proto.node.add(op_type="Identity", input=[name], output=[copy])
    return copy
