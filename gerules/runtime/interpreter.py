"""Graphs run by meaning, node by node: kernels, bodies, definitions. Values die after their last reader."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np
import onnx.defs

from gerules.errors import Diagnostic, Faults, table
from gerules.ir import Body, Graph, Node, TensorType, ValueType, dtype_of
from gerules.runtime.control_flow import CONTROL_FLOW, Enter
from gerules.runtime.feeds import Item
from gerules.runtime.kernels import Array, RunError, has_kernel, run_kernel
from gerules.runtime.kernels.contract import DEFAULT_LIMIT_BYTES
from gerules.runtime.kernels.precision import is_narrow, round_to, saturate, widen
from gerules.target.cost import BodyOf

MAX_DEPTH: Final = 96
"""Bodies and definitions inside each other; Python's own limit is farther away."""

MAX_TURNS: Final = 10_000_000
"""Turns of one loop whose condition alone would end it."""

FUSED_BODY: Final = "body"
"""The body that says what a fused operator does."""

_FIXES_TYPES: Final = frozenset({"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear"})
"""Operators that name an element type; a definition with one is run in the types it is given."""

_MOST_EXPANSIONS: Final = 100_000
"""Definitions kept, by node and input types."""


class Interpreter:
    """Runs graphs that share a definition of what operators mean.

    Expansions of definitions and the plans of when values die are kept from run to run, so one
    interpreter serves many runs of one graph. Not safe for several threads at once, unless each runs
    nodes of its own.

    Args:
        body_of: What an operator without kernel computes, as a graph whose inputs are the node's.
        limit_bytes: Largest result that an operator may make whose size is in its data.
    """

    def __init__(
        self,
        body_of: BodyOf | None = None,
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        max_turns: int = MAX_TURNS,
    ) -> None:
        self._body_of = body_of
        self._limit_bytes = limit_bytes
        self._max_turns = max_turns
        # The graph is kept with what was found for it, so that its id stays its own.
        self._dying: dict[int, tuple[Graph, list[tuple[int, ...]]]] = {}
        self._expansions: dict[object, tuple[Graph, Graph | None]] = {}

    def run_graph(
        self,
        graph: Graph,
        values: dict[int, Item],
        *,
        opset: int | None = None,
        depth: int = 0,
        keep: MutableMapping[int, Item] | None = None,
    ) -> list[Item]:
        """Run all nodes and return the outputs; `values` holds inputs and captures, and is used up.

        Args:
            opset: Version of the ONNX domain where the graph names none.
            keep: Filled with every value computed, by id.

        Raises:
            RunError: E70001 to E70006, with the node as its place.
        """
        opset = opset_of(graph, opset)
        for value, const in graph.consts.items():
            values.setdefault(value, cast(Array, const.array))
        dying = self._last_reads(graph)
        for node, gone in zip(graph.nodes.values(), dying, strict=True):
            inputs = [None if value is None else values.get(value) for value in node.inputs]
            results = self.run_node(graph, node, inputs, values, opset, depth)
            for value, result in zip(node.outputs, results, strict=False):
                if value is not None:
                    values[value] = result
                    if keep is not None:
                        keep[value] = result
            for value in gone:
                values.pop(value, None)
        return [values.get(value) for value in graph.outputs]

    def run_node(
        self,
        graph: Graph,
        node: Node,
        inputs: Sequence[Item],
        scope: Mapping[int, Item],
        opset: int,
        depth: int = 0,
    ) -> Sequence[Item]:
        """Run one node; `scope` has the values that its bodies capture. Raises RunError as `run_graph`."""
        if depth > MAX_DEPTH:
            raise RunError(table.RUN_TOO_DEEP, place=place_of(node), op=node.op, limit=MAX_DEPTH)
        try:
            results = self._compute(graph, node, inputs, scope, opset, depth)
        except RunError as error:
            raise _at(node, error) from error.__cause__
        if len(results) < len(node.outputs) and any(out is not None for out in node.outputs[len(results) :]):
            reason = f"it gives {len(results)} of {len(node.outputs)} results"
            raise RunError(table.KERNEL_REFUSED, place=place_of(node), op=node.op, reason=reason)
        return results

    def expand(self, graph: Graph, node: Node, types: Sequence[ValueType | None]) -> Graph | None:
        """Return what the definition of a node's operator says for inputs of these types."""
        if self._body_of is None:
            return None
        key = (id(graph), node.id, tuple(types))
        found = self._expansions.get(key)
        if found is None:
            if len(self._expansions) >= _MOST_EXPANSIONS:
                self._expansions.clear()
                self._dying.clear()
            found = self._expansions[key] = (graph, self._body_of(node, types))
        return found[1]

    def _compute(
        self,
        graph: Graph,
        node: Node,
        inputs: Sequence[Item],
        scope: Mapping[int, Item],
        opset: int,
        depth: int,
    ) -> Sequence[Item]:
        control = CONTROL_FLOW.get(node.op)
        if control is not None:
            return control(node, inputs, self._entrance(node, scope, opset, depth), opset, self._max_turns)
        if node.bodies:
            body = node.bodies.get(FUSED_BODY)
            if body is None:
                raise RunError(table.NO_KERNEL, op=node.op, opset=opset)
            return self._enter(node, body, inputs, scope, opset, depth)
        if not has_kernel(node.op, opset=opset):
            inner = self.expand(graph, node, [_type_of(item) for item in inputs])
            if inner is not None:
                return self._run_definition(graph, node, inner, inputs, opset, depth)
        arrays = cast("Sequence[Array | None]", inputs)
        return cast(
            "Sequence[Item]",
            run_kernel(
                node.op,
                arrays,
                node.attrs,
                opset=opset,
                n_outputs=len(node.outputs),
                limit_bytes=self._limit_bytes,
            ),
        )

    def _run_definition(
        self, graph: Graph, node: Node, inner: Graph, inputs: Sequence[Item], opset: int, depth: int
    ) -> Sequence[Item]:
        """Run what a definition says. One kernel rounds once: between its operators narrow floats are f32."""
        is_low = any(isinstance(item, np.ndarray) and is_narrow(item.dtype) for item in inputs)
        if is_low and len(inner.nodes) > 1 and not any(n.op in _FIXES_TYPES for n in inner.nodes.values()):
            wide = [widen(item) if isinstance(item, np.ndarray) else item for item in inputs]
            body = self.expand(graph, node, [_type_of(item) for item in wide])
            if body is not None:
                results = self._enter(node, Body(body), wide, {}, opset, depth)
                types = [inner.type_of(value) for value in inner.outputs]
                return [_rounded(result, type, wide) for result, type in zip(results, types, strict=True)]
        return self._enter(node, Body(inner), inputs, {}, opset, depth)

    def _entrance(self, node: Node, scope: Mapping[int, Item], opset: int, depth: int) -> Enter:
        def enter(name: str, inputs: Sequence[Item]) -> list[Item]:
            body = node.bodies.get(name)
            if body is None:
                raise RunError(table.BODY_GIVES_TOO_LITTLE, op=node.op, reason=f"there is no {name}")
            return self._enter(node, body, inputs, scope, opset, depth)

        return enter

    def _enter(
        self,
        node: Node,
        body: Body,
        inputs: Sequence[Item],
        scope: Mapping[int, Item],
        opset: int,
        depth: int,
    ) -> list[Item]:
        formals = body.graph.inputs
        if len(inputs) > len(formals):
            reason = f"it takes {len(formals)} values, {len(inputs)} are given"
            raise RunError(table.BODY_GIVES_TOO_LITTLE, op=node.op, reason=reason)
        values: dict[int, Item] = dict(zip(formals, inputs, strict=False))
        values.update((inside, scope.get(outside)) for outside, inside in body.captures)
        return self.run_graph(body.graph, values, opset=opset, depth=depth + 1)

    def _last_reads(self, graph: Graph) -> list[tuple[int, ...]]:
        """For each node, the values that nobody needs after it."""
        found = self._dying.get(id(graph))
        if found is not None:
            return found[1]
        last: dict[int, int] = {}
        for at, node in enumerate(graph.nodes.values()):
            for value in (*node.reads(), *node.writes()):
                last[value] = at
        dying: list[list[int]] = [[] for _ in graph.nodes]
        for value, at in last.items():
            if value not in graph.output_set:
                dying[at].append(value)
        plan = [tuple(gone) for gone in dying]
        self._dying[id(graph)] = (graph, plan)
        return plan


def _rounded(item: Item, type: ValueType, inputs: Sequence[Item]) -> Item:
    if not isinstance(item, np.ndarray) or not isinstance(type, TensorType) or not type.dtype.is_float:
        return item
    return saturate(round_to(item, type.dtype.numpy), inputs)


def opset_of(graph: Graph, outer: int | None = None) -> int:
    """Return the version of the ONNX domain: the graph's, the enclosing graph's, or the newest known."""
    return graph.opset or outer or onnx.defs.onnx_opset_version()


def place_of(node: Node) -> str:
    """Return how users know a node: its name, or the source nodes it came from."""
    return node.name or ", ".join(node.origin.sources)


def find_unknown(graph: Graph, faults: Faults, *, has_definitions: bool) -> None:
    """Record every operator that nothing can run, bodies included: E70001, each operator once.

    With definitions at hand operators of other domains are left to them.
    """
    seen: set[str] = set()
    pending = [(graph, opset_of(graph))]
    while pending:
        inner, opset = pending.pop()
        for node in inner.nodes.values():
            bodies = node.bodies.values()
            pending.extend((body.graph, opset_of(body.graph, opset)) for body in bodies)
            if node.op in CONTROL_FLOW or FUSED_BODY in node.bodies or node.op in seen:
                continue
            is_known = (has_definitions and "::" in node.op) or has_kernel(node.op, opset=opset)
            # A kernel would not know what to do with bodies.
            if is_known and not node.bodies:
                continue
            seen.add(node.op)
            faults.add(table.NO_KERNEL, place=place_of(node), op=node.op, opset=opset)


def _type_of(item: Item) -> ValueType | None:
    return TensorType(dtype_of(item), item.shape) if isinstance(item, np.ndarray) else None


def _at(node: Node, error: RunError) -> RunError:
    """The same error, with the node as its place where a deeper one did not say."""
    place = place_of(node)

    def placed(item: Diagnostic) -> Diagnostic:
        return item if item.place or item.span is not None else replace(item, place=place)

    return RunError([placed(item) for item in error.diagnostics])
