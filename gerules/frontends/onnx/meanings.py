"""What ONNX says that an operator computes: its function body, as a graph for one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, cast

from onnx import FunctionProto, ModelProto, NodeProto

from gerules.errors import GerulesError
from gerules.frontends.onnx.draft import Draft
from gerules.frontends.onnx.protos import TypeProtos, fill_attribute
from gerules.frontends.onnx.reader import load_onnx
from gerules.ir import Body, Graph
from gerules.ops import infer_graph, split_op
from gerules.ops.registry import raw_schema

_FUNCTION_DOMAIN: Final = "gerules.meaning"
_IR_VERSION: Final = 10


class _WithFunctions(Protocol):
    """What onnx's stubs leave out of its OpSchema."""

    @property
    def function_opset_versions(self) -> list[int]: ...

    @property
    def context_dependent_function_opset_versions(self) -> list[int]: ...

    def get_function_with_opset_version(self, version: int) -> bytes | None: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: list[bytes]
    ) -> bytes | None: ...


def meaning_of(draft: Draft) -> Graph | None:
    """Return what ONNX's function body of an operator computes; None when it has none for these types.

    The body is the newest that needs no version beyond the target, or else the oldest. Graph input `i`
    stands for the node's input `i`, and outputs are those of the node.
    """
    node = draft.node
    found = raw_schema(node.op, draft.source)
    if found is None or node.bodies:
        return None
    raw = cast(_WithFunctions, found)
    plain, typed = raw.function_opset_versions, raw.context_dependent_function_opset_versions
    versions = sorted({*plain, *typed})
    if not versions:
        return None
    version = max((version for version in versions if version <= draft.target), default=versions[0])
    call, types = _call(draft)
    if version in plain:
        data = raw.get_function_with_opset_version(version)
    else:
        try:
            data = raw.get_context_dependent_function_with_opset_version(
                version, call.SerializeToString(), types
            )
        except RuntimeError:
            # onnx builds no body when it needs a type that is not known.
            return None
    if not data:
        return None
    function = FunctionProto.FromString(data)
    if not function.node:
        return None
    try:
        graph = load_onnx(_model(draft, call, function))
        return infer_graph(graph, draft.schemas)
    except GerulesError:
        return None


def _call(draft: Draft) -> tuple[NodeProto, list[bytes]]:
    """The node with every attribute said, since a function knows no defaults, and its input types."""
    node = draft.node
    call = NodeProto(op_type=split_op(node.op)[1])
    call.input.extend("" if value is None else f"x{place}" for place, value in enumerate(node.inputs))
    call.output.extend("" if value is None else f"y{place}" for place, value in enumerate(node.outputs))
    schema = draft.schemas.get(node.op, draft.source)
    attrs = dict(node.attrs)
    for name, spec in schema.attrs.items() if schema is not None else ():
        if spec.default is not None:
            attrs.setdefault(name, spec.default)
    kinds = {name: spec.kind for name, spec in schema.attrs.items()} if schema is not None else {}
    for name, value in attrs.items():
        fill_attribute(call.attribute.add(), name, value, kinds.get(name))
    protos = TypeProtos()
    types: list[bytes] = []
    for value in node.inputs:
        proto = None if value is None else protos.get(draft.editor.values[value].type)
        types.append(b"" if proto is None else proto.SerializeToString())
    return call, types


def _model(draft: Draft, call: NodeProto, function: FunctionProto) -> ModelProto:
    """A model of one node that calls the function; the reader puts the body in its place."""
    model = ModelProto(ir_version=_IR_VERSION)
    model.opset_import.extend(function.opset_import)
    if not any(entry.domain == "" for entry in function.opset_import):
        model.opset_import.add(domain="", version=draft.target)
    model.opset_import.add(domain=_FUNCTION_DOMAIN, version=1)
    function.domain = call.domain = _FUNCTION_DOMAIN
    declared = {*function.attribute, *(entry.name for entry in function.attribute_proto)}
    # Bodies built for one node have their attributes in them and declare none.
    kept = [entry for entry in call.attribute if entry.name in declared]
    del call.attribute[:]
    call.attribute.extend(kept)
    function.name = call.op_type
    model.functions.append(function)
    model.graph.name = call.op_type
    model.graph.node.append(call)
    protos = TypeProtos()
    node = draft.node
    for place, value in enumerate(node.inputs):
        entry = model.graph.input.add(name=f"x{place}")
        proto = None if value is None else protos.get(draft.editor.values[value].type)
        if proto is not None:
            entry.type.CopyFrom(proto)
    for place, value in enumerate(node.outputs):
        if value is not None:
            model.graph.output.add(name=f"y{place}")
    return model


def put_in_place(draft: Draft, graph: Graph, outputs: Sequence[int | None]) -> None:
    """Add the nodes of a graph that takes what the draft's node takes.

    Args:
        outputs: The value that each output of the graph gives, None where nobody wants it.
    """
    editor = draft.editor
    known: dict[int, int | None] = {formal: draft.input(place) for place, formal in enumerate(graph.inputs)}
    for value, const in graph.consts.items():
        known[value] = editor.add_const(const)
    copies: list[tuple[int, int]] = []
    for inner, outer in zip(graph.outputs, outputs, strict=False):
        if outer is None:
            continue
        if inner in known:
            copies.append((inner, outer))
        else:
            known[inner] = outer
    for inner_node in graph.nodes.values():
        for value in inner_node.writes():
            if value not in known:
                known[value] = editor.add_value(graph.type_of(value))
        draft.call(
            inner_node.op,
            [None if value is None else known[value] for value in inner_node.inputs],
            inner_node.attrs,
            outputs=[None if value is None else known[value] for value in inner_node.outputs],
            version=graph.opset,
            bodies=_moved(inner_node.bodies, known),
        )
    for inner, outer in copies:
        draft.call("Identity", [known[inner]], outputs=[outer])


def _moved(bodies: Mapping[str, Body], known: Mapping[int, int | None]) -> Mapping[str, Body]:
    """Bodies that capture the values that stand for those they captured."""
    return {
        name: replace(
            body,
            captures=tuple(
                (made, inside) for outer, inside in body.captures if (made := known[outer]) is not None
            ),
        )
        for name, body in bodies.items()
    }
