"""Graphs and nodes of a model turned into ours, and the bodies inside nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from onnx import AttributeProto, GraphProto, NodeProto

from gerules.errors import table
from gerules.frontends.onnx.attributes import Attributes, kind_of
from gerules.frontends.onnx.findings import Findings, place_of_node, text_of
from gerules.frontends.onnx.operators import Ledger, OpFacts, describe_range
from gerules.frontends.onnx.order import sort_nodes
from gerules.frontends.onnx.scope import Build, Scope
from gerules.frontends.onnx.tensors import Tensors
from gerules.frontends.onnx.value_types import ValueTypes
from gerules.ir import (
    NO_ATTRS,
    NO_BODIES,
    UNKNOWN,
    Attr,
    Body,
    Const,
    DType,
    Node,
    Origin,
    TensorType,
    Value,
    ValueType,
)
from gerules.ops.registry import split_op

DEEPEST: Final = 48
"""Bodies and function calls within each other; each level takes a few frames of Python's stack."""

_OLDEST_WITH_DEFAULTS: Final = 4
"""From this IR version on an initializer that is an input too is a default. Source: onnx, IR.md."""

_MOST_NAMED: Final = 8
"""Nodes of a circle that are told by name."""

CONSTANT_VALUES: Final = frozenset(
    ("value", "sparse_value", "value_int", "value_ints", "value_float", "value_floats", "value_string",
     "value_strings")
)  # fmt: skip


class Calls(Protocol):
    """Expands calls of the model's functions."""

    def is_call(self, proto: NodeProto, domain: str) -> bool:
        """Whether the node calls a function of the model."""
        ...

    def expand(
        self, reader: GraphReader, proto: NodeProto, domain: str, outputs: Sequence[int | None], scope: Scope
    ) -> None:
        """Put what the called function does in the place of the call."""
        ...


class GraphReader:
    """Turns the graphs of one model into ours."""

    def __init__(
        self,
        *,
        ir_version: int,
        tensors: Tensors,
        types: ValueTypes,
        calls: Calls | None,
        ledger: Ledger,
        findings: Findings,
    ) -> None:
        self._has_defaults = ir_version >= _OLDEST_WITH_DEFAULTS
        self.tensors = tensors
        self.types = types
        self.findings = findings
        self._calls = calls
        self._ledger = ledger
        self._attributes = Attributes(tensors, findings)

    # ------------------------------------------------------------ graphs
    def read_graph(self, proto: GraphProto, scope: Scope, place: str) -> None:
        """Fill the scope's graph from a GraphProto."""
        types: dict[str, ValueType] = {}
        for entry in proto.value_info:
            types[entry.name] = self.types.read(entry, place)
        for entry in proto.output:
            types[entry.name] = self.types.read(entry, place)
        self._declare_inputs(proto, scope, place)
        self.read_nodes(proto.node, scope, types)
        build, seen = scope.build, set[str]()
        for entry in proto.output:
            name = entry.name
            is_known, value = scope.find(name)
            if not is_known or value is None:
                self.findings.add(table.UNDEFINED_TENSOR, place=f"the outputs of {place}", name=name)
                continue
            if name in seen:
                self.findings.add(table.DUPLICATE_TENSOR, place=f"the outputs of {place}", name=name)
            seen.add(name)
            build.outputs.append(value)
        self.sort(build, place)

    def sort(self, build: Build, place: str) -> None:
        """Bring the nodes into topological order, and report a circle."""
        if build.is_sorted:
            return
        build.nodes, circle = sort_nodes(build.nodes)
        if circle:
            names = [node.origin.sources[0] or node.op for node in circle[:_MOST_NAMED]]
            names += ["…"] if len(circle) > _MOST_NAMED else [names[0]]
            self.findings.add(table.MODEL_CYCLE, place=place, cycle=" <- ".join(names))

    def _declare_inputs(self, proto: GraphProto, scope: Scope, place: str) -> None:
        build, names, prefix = scope.build, scope.names, scope.prefix
        consts: dict[str, Const] = {}
        for tensor in proto.initializer:
            name = tensor.name
            if name in consts:
                self.findings.add(table.DUPLICATE_TENSOR, place=place, name=name)
            if not name:
                self.findings.add(table.BAD_TENSOR, place=place, name='""', reason="it has no name")
            consts[name] = Const(self.tensors.read(tensor, name, lambda: place))
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            if name in consts:
                self.findings.add(table.DUPLICATE_TENSOR, place=place, name=name)
            consts[name] = Const(self.tensors.read_sparse(sparse, name, lambda: place))
        for entry in proto.input:
            name = entry.name
            const = consts.get(name)
            if const is not None and not self._has_defaults:
                continue
            if name in names:
                self.findings.add(table.DUPLICATE_TENSOR, place=place, name=name)
            declared = self.types.read(entry, place)
            made = names[name] = build.add_value(prefix + name, declared)
            build.inputs.append(made)
            if const is not None:
                del consts[name]
                if not _can_be(const.type, declared):
                    reason = f"its data is {const.type} where the input is {declared}"
                    self.findings.add(table.BAD_TENSOR, place=place, name=name, reason=reason)
                build.defaults[made] = const
        for name, const in consts.items():
            if name in names:
                self.findings.add(table.DUPLICATE_TENSOR, place=place, name=name)
            made = names[name] = build.add_value(prefix + name, const.type)
            build.consts[made] = const

    # ------------------------------------------------------------ nodes
    def read_nodes(
        self, protos: Iterable[NodeProto], scope: Scope, types: Mapping[str, ValueType] | None = None
    ) -> None:
        """Add nodes to the scope's graph; they may come in any order."""
        rows = self._declare_outputs(protos, scope, types or {})
        build, names, known, calls = scope.build, scope.names, scope.operators.known, self._calls
        nodes = build.nodes
        for proto, outputs in rows:
            domain, op = proto.domain, proto.op_type
            if domain:
                domain = normal_domain(domain)
                op = f"{domain}::{text_of(op)}" if domain else op
            if calls is not None and calls.is_call(proto, domain):
                calls.expand(self, proto, domain, outputs, scope)
                build.is_sorted = False
                continue
            facts = known.get(op)
            if facts is None:
                facts = scope.operators.look_up(op)
            inputs: list[int | None] = []
            first = outputs[0] if outputs and outputs[0] is not None else -1
            for name in proto.input:
                if not name:
                    inputs.append(None)
                    continue
                value = names.get(name)
                if value is None:
                    value = self._find_outside(name, scope, proto, op)
                if value is not None and value >= first:
                    build.is_sorted = False
                inputs.append(value)
            while inputs and inputs[-1] is None:
                inputs.pop()
            attrs: Mapping[str, Attr] = NO_ATTRS
            bodies: Mapping[str, Body] = NO_BODIES
            if proto.attribute:
                attrs, bodies = self.read_attributes(proto, op, facts, scope)
                if bodies:
                    build.is_sorted = False
            if op == "Constant" and self._fold_constant(proto, outputs, attrs, build):
                continue
            if (
                facts.is_open
                or facts.required
                or not facts.min_inputs <= len(inputs) <= facts.max_inputs
                or not facts.min_outputs <= len(outputs) <= facts.max_outputs
            ):
                self._check(proto, op, domain, facts, len(inputs), len(outputs), attrs, bodies, scope)
            name = proto.name
            source = scope.prefix + (name or (proto.output[0] if outputs else op))
            made = build.next_id
            build.next_id = made + 1
            nodes[made] = Node(
                made, op, tuple(inputs), outputs, attrs, scope.prefix + name if name else "",
                Origin((source,)), bodies,
            )  # fmt: skip

    def _declare_outputs(
        self, protos: Iterable[NodeProto], scope: Scope, types: Mapping[str, ValueType]
    ) -> list[tuple[NodeProto, tuple[int | None, ...]]]:
        """Give each output its value before any node is read, so that nodes may come in any order."""
        build, names, prefix, promised = scope.build, scope.names, scope.prefix, scope.promised
        values, next_id = build.values, build.next_id
        rows: list[tuple[NodeProto, tuple[int | None, ...]]] = []
        for proto in protos:
            outputs: list[int | None] = []
            for name in proto.output:
                if not name:
                    outputs.append(None)
                    continue
                if name in names:
                    place = place_of_node(prefix + (proto.name or name), proto.op_type)
                    self.findings.add(table.DUPLICATE_TENSOR, place=place, name=name)
                if promised and name in promised:
                    made = promised.pop(name)
                    if values[made].type == UNKNOWN and name in types:
                        values[made] = Value(made, values[made].name, types[name])
                else:
                    made = next_id
                    next_id += 1
                    values[made] = Value(made, prefix + name, types.get(name, UNKNOWN))
                # The first definition counts, so that one fault does not look like a circle too.
                names.setdefault(name, made)
                outputs.append(made)
            while outputs and outputs[-1] is None:
                outputs.pop()
            rows.append((proto, tuple(outputs)))
        build.next_id = next_id
        return rows

    def _find_outside(self, name: str, scope: Scope, proto: NodeProto, op: str) -> int | None:
        is_known, value = scope.find(name)
        if not is_known:
            self.findings.add(table.UNDEFINED_TENSOR, place=place_of(proto, op, scope), name=name)
            # One value stands for the name, so that what reads it can be checked further.
            value = scope.names[name] = scope.build.add_value(name)
        return value

    def _fold_constant(
        self, proto: NodeProto, outputs: Sequence[int | None], attrs: Mapping[str, Attr], build: Build
    ) -> bool:
        """Turn a Constant node into a constant; False when it is no sound one."""
        given = [name for name in attrs if name in CONSTANT_VALUES]
        if len(given) != 1 or len(attrs) != 1 or len(outputs) != 1 or outputs[0] is None or proto.input:
            return False
        const = self.tensors.constant_of(given[0], attrs[given[0]])
        made = outputs[0]
        build.consts[made] = const
        build.values[made] = Value(made, build.values[made].name, const.type)
        return True

    # ------------------------------------------------------------ attributes and bodies
    def read_attributes(
        self, proto: NodeProto, op: str, facts: OpFacts, scope: Scope
    ) -> tuple[Mapping[str, Attr], Mapping[str, Body]]:
        attrs: dict[str, Attr] = {}
        bodies: dict[str, Body] = {}
        kinds = facts.kinds

        def where() -> str:
            return place_of(proto, op, scope)

        for given in proto.attribute:
            name, source, bound_scope = given.name, given, scope
            if scope.bindings is not None and given.ref_attr_name:
                bound = scope.bindings.get(given.ref_attr_name)
                if bound is None:
                    continue
                source, bound_scope = bound.proto, bound.scope
            wanted = kinds.get(name)
            if wanted is None:
                text_of(name)
            if wanted is None and not facts.is_open:
                opset = scope.operators.opsets.get(split_op(op)[0], 0)
                self._attributes.unknown(name, facts, place_of(proto, op, scope), opset)
                continue
            if name in attrs or name in bodies:
                place = place_of(proto, op, scope)
                self.findings.add(
                    table.MISTYPED_ATTRIBUTE,
                    place=place,
                    attr=name,
                    found="given twice",
                    expected="one value",
                )
            if wanted == "graph" or (wanted is None and kind_of(source) == "graph"):
                body = self._read_body(source, name, proto, op, scope, bound_scope)
                if body is not None:
                    bodies[name] = body
                continue
            value = self._attributes.read(source, name, wanted, where)
            if value is not None:
                attrs[name] = value
        return attrs or NO_ATTRS, bodies or NO_BODIES

    def _read_body(
        self, source: AttributeProto, name: str, proto: NodeProto, op: str, scope: Scope, outer: Scope
    ) -> Body | None:
        place = place_of(proto, op, scope)
        if kind_of(source) != "graph":
            self.findings.add(
                table.MISTYPED_ATTRIBUTE, place=place, attr=name, found=kind_of(source), expected="graph"
            )
            return None
        if scope.depth >= DEEPEST:
            self.findings.add(table.MODEL_TOO_DEEP, place=place, limit=DEEPEST)
            return None
        if outer.build is not scope.build:
            self.findings.add(
                table.BAD_FUNCTION, place=place, name=op, reason="it is kept, but takes a graph as attribute"
            )
            return None
        inner = Scope(
            Build(), outer.operators, {}, outer, outer.bindings, outer.prefix, depth=scope.depth + 1
        )
        self.read_graph(source.g, inner, f"{name} of {place}")
        graph = inner.build.finish(text_of(source.g.name), inner.operators.opsets, {})
        return Body(graph, tuple(inner.build.captured.items()))

    # ------------------------------------------------------------ checks
    def _check(
        self,
        proto: NodeProto,
        op: str,
        domain: str,
        facts: OpFacts,
        n_inputs: int,
        n_outputs: int,
        attrs: Mapping[str, Attr],
        bodies: Mapping[str, Body],
        scope: Scope,
    ) -> None:
        opset = scope.operators.opsets.get(domain)
        if facts.is_open:
            if opset is None:
                self._ledger.note_domain(domain)
            if facts.since < 0:
                self._ledger.note(op, opset, scope.prefix + (proto.name or "".join(proto.output[:1])))
            return
        if opset is None:
            self._ledger.note_domain(domain)
        counts = (
            ("inputs", n_inputs, facts.min_inputs, facts.max_inputs),
            ("outputs", n_outputs, facts.min_outputs, facts.max_outputs),
        )
        for what, found, least, most in counts:
            if not least <= found <= most:
                self.findings.add(
                    table.WRONG_COUNT, place=place_of(proto, op, scope), op=op, what=what, found=found,
                    expected=describe_range(least, most),
                )  # fmt: skip
        for name in facts.required:
            if name not in attrs and name not in bodies and not _mentions(proto, name):
                self.findings.add(table.MISSING_ATTRIBUTE, place=place_of(proto, op, scope), op=op, attr=name)


def _mentions(proto: NodeProto, name: str) -> bool:
    """Whether the attribute is there, though perhaps faulty."""
    return any(given.name == name and not given.ref_attr_name for given in proto.attribute)


def place_of(proto: NodeProto, op: str, scope: Scope) -> str:
    """Name a node as messages do."""
    return place_of_node(scope.prefix + (proto.name or "".join(proto.output[:1])), op)


def normal_domain(domain: str) -> str:
    """Return the domain as graphs write it: the ONNX domain is `""`."""
    return "" if domain == "ai.onnx" else text_of(domain)


def _can_be(type: TensorType, declared: ValueType) -> bool:
    """Whether data of a type may stand where another is declared, in which dimensions may be open."""
    if not isinstance(declared, TensorType):
        return False
    if declared.dtype not in (type.dtype, DType.UNKNOWN):
        return False
    if declared.shape is None or type.shape is None:
        return True
    return len(declared.shape) == len(type.shape) and all(
        not isinstance(want, int) or want == have
        for want, have in zip(declared.shape, type.shape, strict=True)
    )
