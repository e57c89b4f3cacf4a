"""Functions of a model: each call is replaced by what the function does, or kept with it as a body."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from onnx import FunctionProto, NodeProto

from gerules.errors import table
from gerules.frontends.onnx.findings import Findings, text_of
from gerules.frontends.onnx.nodes import DEEPEST, GraphReader, normal_domain, place_of
from gerules.frontends.onnx.operators import Ledger, Operators, OpFacts
from gerules.frontends.onnx.scope import Bound, Build, Scope
from gerules.ir import Body, Node, Origin
from gerules.ops.registry import Schemas, split_op

FUNCTION_OP_KEY: Final = "gerules.op"
"""Metadata of a function: the operator it is one form of, when several forms have names of their own."""

_MOST_INLINED: Final = 500_000
"""Nodes and outputs that functions may add. A hostile file of a kilobyte can ask for any number."""

_MOST_INLINED_BYTES: Final = 1 << 26
"""Bytes of the functions' messages, counted at each call: long names and lists multiply too."""

_OPEN: Final = OpFacts("", 0, {}, (), 0, 1 << 62, 0, 1 << 62, True)

_Key = tuple[str, str, str]
"""Domain, name, overload."""


class Functions:
    """The functions of one model."""

    def __init__(
        self,
        protos: Iterable[FunctionProto],
        *,
        opsets: dict[str, int],
        model: Operators,
        schemas: Schemas,
        ledger: Ledger,
        findings: Findings,
        kept_domains: Collection[str] = (),
    ) -> None:
        self._protos: dict[_Key, FunctionProto] = {}
        for proto in protos:
            key = (normal_domain(proto.domain), text_of(proto.name), text_of(proto.overload))
            if key in self._protos:
                findings.add(table.BAD_FUNCTION, name=proto.name, reason="it is defined twice")
            self._protos[key] = proto
        self._opsets = opsets
        self._model = model
        self._schemas = schemas
        self._ledger = ledger
        self._findings = findings
        self._kept_domains = frozenset(kept_domains)
        self._operators: dict[_Key, Operators] = {}
        self._running: set[_Key] = set()
        self._n_inlined = 0
        self._n_bytes = 0
        self._weights: dict[_Key, tuple[int, int]] = {}

    def is_call(self, proto: NodeProto, domain: str) -> bool:
        """Whether the node calls one of the functions."""
        return (domain, proto.op_type, proto.overload) in self._protos

    def expand(
        self, reader: GraphReader, proto: NodeProto, domain: str, outputs: Sequence[int | None], scope: Scope
    ) -> None:
        """Put what the called function does in the place of the call.

        Raises:
            ModelError: E10027 when the functions stand for too many nodes.
        """
        key = (domain, proto.op_type, proto.overload)
        function = self._protos[key]
        op = f"{domain}::{proto.op_type}" if domain else proto.op_type
        place = place_of(proto, op, scope)
        if key in self._running:
            self._findings.add(table.BAD_FUNCTION, place=place, name=op, reason="it calls itself")
            return
        if scope.depth >= DEEPEST:
            self._findings.add(table.MODEL_TOO_DEEP, place=place, limit=DEEPEST)
            return
        self._count(key, function, scope, place)
        for what, found, most in (
            ("inputs", len(proto.input), len(function.input)),
            ("outputs", len(proto.output), len(function.output)),
        ):
            if found > most:
                self._findings.add(
                    table.WRONG_COUNT, place=place, op=op, what=what, found=found, expected=f"at most {most}"
                )
        self._running.add(key)
        if domain in self._kept_domains:
            self._keep(reader, proto, function, key, op, outputs, scope)
        else:
            self._inline(reader, proto, function, key, op, outputs, scope)
        self._running.discard(key)

    def _count(self, key: _Key, function: FunctionProto, scope: Scope, place: str) -> None:
        """Add one call to what the functions stand for, and stop the load beyond a limit."""
        weight = self._weights.get(key)
        if weight is None:
            weight = self._weights[key] = (_count_parts(function), function.ByteSize())
        n_parts, n_bytes = weight
        self._n_inlined += n_parts
        self._n_bytes += n_bytes + n_parts * len(scope.prefix)
        limit = ""
        if self._n_inlined > _MOST_INLINED:
            limit = f"{_MOST_INLINED} nodes"
        elif self._n_bytes > _MOST_INLINED_BYTES:
            limit = f"{_MOST_INLINED_BYTES} bytes of nodes"
        if limit:
            self._findings.add(table.TOO_MANY_NODES, place=place, limit=limit)
            self._findings.close()

    def _inline(
        self,
        reader: GraphReader,
        proto: NodeProto,
        function: FunctionProto,
        key: _Key,
        op: str,
        outputs: Sequence[int | None],
        scope: Scope,
    ) -> None:
        build = scope.build
        source = scope.prefix + (proto.name or "".join(proto.output[:1]) or op)
        inner = Scope(
            build, self._operators_of(key), bindings=self._bind(proto, function, op, scope),
            prefix=f"{source}/", depth=scope.depth + 1,
        )  # fmt: skip
        inner.names.update(dict.fromkeys(function.input))
        for formal, value in zip(function.input, self._arguments(proto, op, scope), strict=False):
            inner.names[formal] = value
        aliases: list[tuple[str, int]] = []
        for formal, value in zip(function.output, outputs, strict=False):
            if value is None:
                continue
            if formal in inner.names or formal in inner.promised:
                aliases.append((formal, value))
            else:
                inner.promised[formal] = value
        types = {entry.name: reader.types.read(entry, op) for entry in function.value_info}
        reader.read_nodes(function.node, inner, types)
        aliases += inner.promised.items()
        for formal, value in aliases:
            same = inner.names.get(formal)
            if same is None:
                place = f"the outputs of function {op}"
                self._findings.add(table.UNDEFINED_TENSOR, place=place, name=formal)
                continue
            made = build.next_id
            build.next_id += 1
            build.nodes[made] = Node(made, "Identity", (same,), (value,), origin=Origin((source,)))

    def _keep(
        self,
        reader: GraphReader,
        proto: NodeProto,
        function: FunctionProto,
        key: _Key,
        op: str,
        outputs: Sequence[int | None],
        scope: Scope,
    ) -> None:
        attrs, bodies = reader.read_attributes(proto, op, _OPEN, scope)
        bindings = self._bind(proto, function, op, scope)
        inner = Scope(Build(), self._operators_of(key), bindings=bindings, depth=scope.depth + 1)
        for formal in function.input:
            value = inner.names[formal] = inner.build.add_value(formal)
            inner.build.inputs.append(value)
        types = {entry.name: reader.types.read(entry, op) for entry in function.value_info}
        reader.read_nodes(function.node, inner, types)
        for formal in function.output:
            value = inner.names.get(formal)
            if value is None:
                place = f"the outputs of function {op}"
                self._findings.add(table.UNDEFINED_TENSOR, place=place, name=formal)
            else:
                inner.build.outputs.append(value)
        reader.sort(inner.build, f"function {op}")
        graph = inner.build.finish(function.name, inner.operators.opsets, {})
        arguments = self._arguments(proto, op, scope)
        while arguments and arguments[-1] is None:
            arguments.pop()
        told = {entry.key: entry.value for entry in function.metadata_props}.get(FUNCTION_OP_KEY, op)
        if split_op(told)[0] != key[0]:
            # A function may be a form of an operator beside it, not of one that ONNX defines.
            told = op
        name = scope.prefix + proto.name if proto.name else ""
        source = scope.prefix + (proto.name or "".join(proto.output[:1]) or op)
        made = scope.build.next_id
        scope.build.next_id += 1
        scope.build.nodes[made] = Node(
            made, told, tuple(arguments), tuple(outputs), attrs, name, Origin((source,)),
            {**bodies, "body": Body(graph)},
        )  # fmt: skip

    def _arguments(self, proto: NodeProto, op: str, scope: Scope) -> list[int | None]:
        values: list[int | None] = []
        for name in proto.input:
            is_known, value = scope.find(name) if name else (True, None)
            if not is_known:
                self._findings.add(table.UNDEFINED_TENSOR, place=place_of(proto, op, scope), name=name)
            values.append(value)
        return values

    def _bind(self, proto: NodeProto, function: FunctionProto, op: str, scope: Scope) -> dict[str, Bound]:
        bindings = {default.name: Bound(default, scope) for default in function.attribute_proto}
        declared = {*bindings, *function.attribute}
        for given in proto.attribute:
            if given.name not in declared:
                place = place_of(proto, op, scope)
                self._findings.add(
                    table.UNKNOWN_MODEL_ATTRIBUTE, place=place, op=op, attr=given.name,
                    opset=scope.operators.opsets.get(split_op(op)[0], 0),
                    remedy="declare the attribute in the function",
                )  # fmt: skip
            elif not (scope.bindings is not None and given.ref_attr_name):
                bindings[given.name] = Bound(given, scope)
            elif (outer := scope.bindings.get(given.ref_attr_name)) is not None:
                bindings[given.name] = outer
        return bindings

    def _operators_of(self, key: _Key) -> Operators:
        found = self._operators.get(key)
        if found is None:
            function = self._protos[key]
            imports = {normal_domain(entry.domain): entry.version for entry in function.opset_import}
            for domain, version in imports.items():
                self._opsets.setdefault(domain, version)
            found = self._operators[key] = _FunctionOperators(
                imports, self._schemas, self._ledger, self._model, function.name, self._findings
            )
        return found


def _count_parts(function: FunctionProto) -> int:
    """Count the nodes and outputs of a function, with those of the bodies inside it. Recursion-free."""
    n_parts = 0
    pending = list(function.node)
    while pending:
        node = pending.pop()
        n_parts += 1 + len(node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                pending += attribute.g.node
    return n_parts


class _FunctionOperators(Operators):
    """The operators of a function; after expansion they must mean the same at the model's opsets."""

    def __init__(
        self,
        opsets: dict[str, int],
        schemas: Schemas,
        ledger: Ledger,
        model: Operators,
        name: str,
        findings: Findings,
    ) -> None:
        super().__init__(opsets, schemas, ledger)
        self._model = model
        self._name = name
        self._findings = findings

    def find(self, op: str) -> OpFacts:
        facts = super().find(op)
        domain = split_op(op)[0]
        mine, theirs = self.opsets.get(domain), self._model.opsets.get(domain)
        if mine != theirs and facts.since > 0 and self._model.look_up(op).since != facts.since:
            self._findings.add(
                table.BAD_FUNCTION,
                name=self._name,
                reason=f"it is written for opset {mine}, where {op} is another operator than at the "
                f"model's opset {theirs}",
            )
        return facts
