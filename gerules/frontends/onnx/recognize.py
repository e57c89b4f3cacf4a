"""Fused operators of a file that was written here, known again by what their functions compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gerules.errors import GerulesError
from gerules.frontends.onnx.draft import Draft, ImpossibleError
from gerules.frontends.onnx.function_writer import DefineBody
from gerules.frontends.onnx.meanings import put_in_place
from gerules.frontends.onnx.reform import const_key, reform_meaning
from gerules.frontends.onnx.structure import attrs_key, structure_digest
from gerules.ir import NO_BODIES, UNKNOWN, Attr, Body, Graph, GraphEditor, Node
from gerules.ops import Schemas, split_op
from gerules.ops.onnx_types import DTYPE_OF_CODE

FUSED_DOMAIN: Final = "ge"
"""Domain of device and fused operators."""


def recognize(graph: Graph, *, schemas: Schemas, define_body: DefineBody) -> Graph:
    """Return a graph in which operators of `ge::` mean what the rules define.

    A node whose function is the definition of its operator loses the function: the graph is what it was
    before it was saved. A function that says something else than the definition is put in the node's place,
    since the file's word counts. An operator without definition keeps its function.

    Args:
        graph: A graph that `load_onnx` read with `kept_domains=["ge"]`; it is not changed.
        schemas: The operators that exist, those of the rules among them.
        define_body: What the rules say that a node means.

    Cost: linear in the graph and its functions.
    """
    if not any(node.bodies for node in graph.nodes.values()):
        return graph
    editor = GraphEditor(graph)
    meanings = _Meanings(schemas, define_body)
    for node in graph.nodes.values():
        if not node.bodies:
            continue
        if not _is_kept(node):
            editor.replace_node(replace(node, bodies=_inner(node.bodies, schemas, define_body)))
        elif schemas.is_defined(node.op):
            plain = replace(node, bodies=NO_BODIES, attrs=_attrs_of(node, schemas))
            if meanings.agree(graph, plain, node.bodies["body"].graph):
                editor.replace_node(plain)
            else:
                _expand(editor, graph, node, schemas)
    return editor.commit()


class _Meanings:
    """Definitions compared with functions, each distinct definition expanded once."""

    def __init__(self, schemas: Schemas, define_body: DefineBody) -> None:
        self._schemas = schemas
        self._define_body = define_body
        self._digests: dict[object, bytes] = {}

    def agree(self, graph: Graph, node: Node, body: Graph) -> bool:
        """Whether a function's body is what the node's operator is defined to compute."""
        types = tuple(UNKNOWN if value is None else graph.type_of(value) for value in node.inputs)
        present = tuple(value is not None for value in node.inputs)
        consts = [None if value is None else graph.consts.get(value) for value in node.inputs]
        told = tuple(None if const is None else const_key(const) for const in consts)
        key = (node.op, attrs_key(node.attrs), types, present, told, len(node.outputs))
        wanted = self._digests.get(key)
        if wanted is None:
            try:
                meant = self._define_body(node, list(types))
                if meant is not None:
                    meant = reform_meaning(meant, graph.opset, self._schemas, consts)
            except (GerulesError, ImpossibleError):
                meant = None
            wanted = b"" if meant is None else structure_digest(meant, with_types=False)
            self._digests[key] = wanted
        return wanted == structure_digest(body, with_types=False)


def _attrs_of(node: Node, schemas: Schemas) -> Mapping[str, Attr]:
    """Attributes as the definition has them: a file writes element types as numbers."""
    schema = schemas.get(node.op)
    kinds = {} if schema is None else {name: spec.kind for name, spec in schema.attrs.items()}
    return {
        name: DTYPE_OF_CODE.get(value, value)
        if kinds.get(name) == "dtype" and isinstance(value, int)
        else value
        for name, value in node.attrs.items()
    }


def _expand(editor: GraphEditor, graph: Graph, node: Node, schemas: Schemas) -> None:
    def keep(inner: Draft) -> None:
        inner.nodes.append(inner.node)

    body = node.bodies["body"].graph
    draft = Draft(editor, node, graph.opset, graph.opset, schemas, keep)
    put_in_place(draft, body, node.outputs)
    if any(value is not None for value in node.outputs):
        editor.substitute([node.id], draft.nodes, {})


def _is_kept(node: Node) -> bool:
    return "body" in node.bodies and split_op(node.op)[0] == FUSED_DOMAIN


def _inner(bodies: Mapping[str, Body], schemas: Schemas, define_body: DefineBody) -> Mapping[str, Body]:
    return {
        name: replace(body, graph=recognize(body.graph, schemas=schemas, define_body=define_body))
        for name, body in bodies.items()
    }
