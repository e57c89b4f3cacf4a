"""A graph said in another version of ONNX: older operators for newer ones, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gerules.frontends.onnx.draft import Draft, ImpossibleError
from gerules.frontends.onnx.forms import FORMS, crosses_meaning
from gerules.frontends.onnx.meanings import meaning_of, put_in_place
from gerules.ir import Body, Const, Graph, GraphEditor, Node
from gerules.ops import Schemas

_LONGEST_PARAMETER: Final = 1024
"""Entries of a constant that may become an attribute; longer ones are data."""

_DEEPEST: Final = 32
"""Forms and function bodies that stand for each other's operators."""


def reform(graph: Graph, opset: int, schemas: Schemas, known: Mapping[int, Const] | None = None) -> Graph:
    """Return a graph that means the same in the operators of another ONNX version.

    A node keeps its form where its operator is the same there. Otherwise its parameters go where that
    version has them (attributes become constant inputs and the other way round, defaults that differ are
    said); what is more than that is in `forms`; what does not exist there becomes what ONNX's own function
    body says. Operators of other domains stay as they are. Types of values help: without them some
    operators cannot be said.

    Args:
        graph: Any graph, written at its `opset`.
        opset: The version wanted.
        known: Inputs whose arrays are known: where a version has an attribute for an input, they say it. They
            stay inputs.

    Raises:
        ImpossibleError: For the first operator that cannot be said.

    Cost: linear in the graph.
    """
    source = graph.opset
    if source in (0, opset):
        return graph
    editor = GraphEditor(graph)
    editor.opsets[""] = opset
    editor.consts.update(known or {})
    carrier = _Carrier(opset, schemas)
    for node in graph.nodes.values():
        if carrier.is_same(node, source) and not node.bodies:
            continue
        draft = Draft(editor, node, source, opset, schemas, carrier.carry)
        carrier.carry(draft)
        if any(value is not None for value in node.outputs):
            editor.substitute([node.id], draft.nodes, {})
    for value in known or ():
        editor.consts.pop(value, None)
    return editor.commit()


def reform_meaning(meaning: Graph, opset: int, schemas: Schemas, consts: Sequence[Const | None]) -> Graph:
    """Reform what a node computes: for any inputs when that can be said, or else for its constant ones.

    Args:
        meaning: Its inputs are those of the node.
        consts: The node's inputs that are known.

    Raises:
        ImpossibleError: as `reform`.
    """
    try:
        return reform(meaning, opset, schemas)
    except ImpossibleError:
        known = {
            value: const
            for value, const in zip(meaning.inputs, consts, strict=False)
            if const is not None and const.array.size <= _LONGEST_PARAMETER
        }
        if not known:
            raise
        return reform(meaning, opset, schemas, known)


def const_key(const: Const) -> object:
    """Return what tells apart constants that may become attributes."""
    return const.digest if const.array.size <= _LONGEST_PARAMETER else None


class _Carrier:
    """Carries single nodes to one version."""

    def __init__(self, opset: int, schemas: Schemas) -> None:
        self._opset = opset
        self._schemas = schemas
        self._depth = 0

    def is_same(self, node: Node, source: int) -> bool:
        """Whether the operator is one and the same at both versions."""
        if "::" in node.op:
            return True
        old, new = self._schemas.get(node.op, source), self._schemas.get(node.op, self._opset)
        if old is None or new is None or new.is_deprecated:
            return False
        return old.since == new.since

    def carry(self, draft: Draft) -> None:
        """Add what stands for the draft's node at the target version.

        Raises:
            ImpossibleError: When it cannot be said there.
        """
        if self._depth >= _DEEPEST:
            raise draft.fail("what it stands for nests too deeply")
        self._depth += 1
        try:
            self._carry(draft)
        finally:
            self._depth -= 1

    def _carry(self, draft: Draft) -> None:
        node = draft.node
        # What a fused operator does is reformed when its function is written, knowing what it is given.
        if node.bodies and not ("::" in node.op and "body" in node.bodies):
            node = draft.node = replace(node, bodies=self._bodies(node.bodies, draft.source))
        if self.is_same(node, draft.source):
            draft.check_types(node.op, node.inputs)
            draft.nodes.append(node)
            return
        form = FORMS.get(node.op)
        if form is not None and form(draft):
            return
        new = self._schemas.get(node.op, self._opset)
        exists = new is not None and not new.is_deprecated
        fault = draft.fail("it means something else there" if exists else "it does not exist there")
        if exists and not crosses_meaning(node.op, draft.source, self._opset):
            try:
                draft.translate()
                return
            except ImpossibleError as error:
                fault = error
        meaning = meaning_of(draft)
        if meaning is None:
            raise fault
        put_in_place(draft, meaning, [value for value in node.outputs if value is not None])

    def _bodies(self, bodies: Mapping[str, Body], source: int) -> Mapping[str, Body]:
        return {
            name: replace(
                body, graph=reform(replace(body.graph, opsets={**body.graph.opsets, "": source}),
                                   self._opset, self._schemas)
            )
            for name, body in bodies.items()
        }  # fmt: skip
