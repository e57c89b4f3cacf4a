"""Nodes beyond ONNX written as calls of functions, one function for each distinct meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from onnx import FunctionProto

from gerules.errors import table
from gerules.frontends.fault import ModelError
from gerules.frontends.onnx.draft import ImpossibleError
from gerules.frontends.onnx.findings import place_of_node
from gerules.frontends.onnx.functions import FUNCTION_OP_KEY
from gerules.frontends.onnx.reform import const_key, reform_meaning
from gerules.frontends.onnx.structure import attrs_key, structure_digest
from gerules.frontends.onnx.writer import GraphWriter
from gerules.ir import Const, Graph, Node, ValueType
from gerules.ops.registry import split_op

DefineBody = Callable[[Node, list[ValueType]], Graph | None]
"""Gives what a node means, for its attributes and the types of its inputs (`UNKNOWN` where one is absent)."""

_DEEPEST: Final = 48


class FunctionWriter:
    """Collects the functions of one model while its nodes are written."""

    def __init__(self, define_body: DefineBody | None, opsets: Mapping[str, int]) -> None:
        self.protos: list[FunctionProto] = []
        self.writer: GraphWriter | None = None
        self._define_body = define_body
        self._opsets = opsets
        self._defined: dict[object, Graph | None] = {}
        self._reformed: dict[object, tuple[Graph, Graph]] = {}
        self._digests: dict[int, tuple[Graph, bytes]] = {}
        self._written: dict[object, str] = {}
        self._n_forms: dict[str, int] = {}
        self._running: list[str] = []

    def call(
        self, node: Node, types: Sequence[ValueType], consts: Sequence[Const | None]
    ) -> tuple[str, str, tuple[int | None, ...]] | None:
        """Return the domain, name and inputs to call a function with; None when the node has no meaning here.

        Raises:
            ModelError: E10031 when the meaning does not fit the node, contains itself, or cannot be said in
                the model's version of ONNX.
        """
        graph = self._meaning(node, types)
        if graph is None:
            return None
        graph = self._at_opset_of_model(node, graph, consts)
        domain, _ = split_op(node.op)
        inputs = node.inputs
        if len(graph.inputs) != len(inputs):
            inputs = tuple(value for value in inputs if value is not None)
        if len(graph.inputs) < len(inputs) or len(graph.outputs) < len(node.outputs):
            raise _misfit(node, "its meaning has other inputs or outputs than the node")
        names = tuple(sorted(node.attrs))
        key = (node.op, names, self._digest(graph))
        name = self._written.get(key)
        if name is None:
            name = self._write(node, graph, names, key)
        return domain, name, inputs

    def _meaning(self, node: Node, types: Sequence[ValueType]) -> Graph | None:
        body = node.bodies.get("body")
        if body is not None:
            if self.writer is not None and _takes_body(self.writer, node.op):
                return None
            if body.captures:
                raise _misfit(node, "its body reads values from outside")
            return body.graph
        if self._define_body is None:
            return None
        present = tuple(value is not None for value in node.inputs)
        key = (node.op, attrs_key(node.attrs), tuple(types), present, len(node.outputs))
        if key not in self._defined:
            self._defined[key] = self._define_body(node, list(types))
        return self._defined[key]

    def _at_opset_of_model(self, node: Node, graph: Graph, consts: Sequence[Const | None]) -> Graph:
        """A function is run by the operators that the model imports, whatever it imports itself."""
        assert self.writer is not None
        opset = self._opsets[""]
        if graph.opset in (0, opset):
            return graph
        # The graph is kept beside what it became, so that its identity cannot be given to another one.
        key = (id(graph), *(None if const is None else const_key(const) for const in consts))
        found = self._reformed.get(key)
        if found is None:
            try:
                found = (graph, reform_meaning(graph, opset, self.writer.schemas, consts))
            except ImpossibleError as fault:
                raise ModelError(
                    table.CANNOT_EXPORT,
                    place=place_of_node(node.name, node.op),
                    what=f"what {node.op} computes",
                    reason=f"{fault.op} cannot be said at opset {fault.opset}: {fault.reason}",
                    remedy="convert the model to a newer opset, or switch off the rule that made the node",
                ) from None
            self._reformed[key] = found
        return found[1]

    def _digest(self, graph: Graph) -> bytes:
        found = self._digests.get(id(graph))
        if found is None:
            found = self._digests[id(graph)] = (graph, structure_digest(graph))
        return found[1]

    def _write(self, node: Node, graph: Graph, names: tuple[str, ...], key: object) -> str:
        domain, base = split_op(node.op)
        if len(self._running) >= _DEEPEST:
            raise _misfit(node, f"its meaning nests too deeply: {' in '.join(self._running[-3:])}")
        opset = self._opsets[""]
        if opset < _ANY_CONSTANT and not all(const.dtype.is_float for const in graph.consts.values()):
            raise ModelError(
                table.CANNOT_EXPORT,
                place=place_of_node(node.name, node.op),
                what=f"what {node.op} computes",
                reason=f"Constant of whole numbers cannot be said at opset {opset}",
                remedy="convert the model to a newer opset, or switch off the rule that made the node",
            )
        form = self._n_forms[node.op] = self._n_forms.get(node.op, 0) + 1
        name = base if form == 1 else f"{base}__{form}"
        self._written[key] = name
        proto = FunctionProto(name=name, domain=domain, attribute=names)
        if form > 1:
            proto.metadata_props.add(key=FUNCTION_OP_KEY, value=node.op)
        opsets = {**self._opsets, **graph.opsets}
        self._running.append(node.op)
        assert self.writer is not None
        outside, self.writer.domains = self.writer.domains, set()
        self.writer.write_function(graph, proto, opsets)
        used = self.writer.domains | {inner.domain for inner in proto.node}
        self.writer.domains = outside
        self._running.pop()
        for used_domain in sorted(used):
            proto.opset_import.add(domain=used_domain, version=opsets.get(used_domain, 1))
        # Callees were appended while this one was written, so they come first.
        self.protos.append(proto)
        return name


_ANY_CONSTANT: Final = 9
"""From this opset on Constant has every element type, before only floats. Source: Changelog.md of ONNX."""


def _takes_body(writer: GraphWriter, op: str) -> bool:
    """Whether the operator has a body as attribute, as Loop and Scan do."""
    schema = writer.schemas.get(op)
    return schema is not None and "body" in schema.attrs and schema.attrs["body"].kind == "graph"


def _misfit(node: Node, reason: str) -> ModelError:
    return ModelError(
        table.CANNOT_EXPORT,
        place=place_of_node(node.name, node.op),
        what=node.op,
        reason=reason,
        remedy="correct the define of the operator",
    )
