"""Folding: what is known when compiling is computed, what is equal is merged, what nobody reads goes."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from gerules.errors import GerulesError
from gerules.ir import (
    UNKNOWN,
    Body,
    Const,
    DType,
    Graph,
    GraphEditor,
    Node,
    TensorType,
    ValueType,
    dtype_of,
    unify,
)
from gerules.ops import Extra, OpSchema, Schemas, Vector, infer, split_op
from gerules.passes.branches import inline_branch
from gerules.passes.duplicates import ConstTable, NodeTable
from gerules.passes.fills import Array, Evaluate, own_bytes, repeated_view, repeats

DEFAULT_LIMIT_BYTES: Final = 64 << 20
"""Largest result that folding makes, unless it replaces larger constants."""

OPT_OUT: Final = ("_do_not_constant_folding", "no_need_constant_folding")
"""Attributes that keep a node from being folded. Source: the Graph Engine's names for them."""

_DEEPEST_BODY: Final = 64
_KEPT: Final = frozenset({"DequantizeLinear"})
"""Quantization rules look for it; folded, an i8 weight would be f32 for good."""
_SHAPE_FREE: Final = frozenset({"NonZero", "Compress", "Unique"})
"""Results of unknown size that cannot be larger than a small multiple of their inputs."""


@dataclass(slots=True)
class FoldReport:
    """What folding did; times in microseconds.

    `kept` says why nodes with constant inputs stayed: (node, reason), at most a hundred.
    """

    n_folded: int = 0
    n_merged_consts: int = 0
    n_merged_nodes: int = 0
    n_branches: int = 0
    n_removed: int = 0
    size_bytes: int = 0
    took_us: float = 0.0
    kept: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def n_changes(self) -> int:
        """Nodes and constants that are gone or replaced."""
        return self.n_folded + self.n_merged_consts + self.n_merged_nodes + self.n_branches + self.n_removed

    def keep(self, node: Node, reason: str) -> None:
        """Record why a node stayed."""
        if len(self.kept) < _MOST_KEPT:
            self.kept.append((node.name or node.op, reason))


_MOST_KEPT: Final = 100


def fold_constants(
    graph: Graph,
    evaluate: Evaluate,
    *,
    schemas: Schemas,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    vectors: Mapping[int, Vector] | None = None,
    extra: Extra | None = None,
    effects: frozenset[str] = frozenset(),
    keep: frozenset[int] = frozenset(),
    merges: bool = True,
) -> tuple[Graph, FoldReport]:
    """Compute what does not depend on the inputs of a graph, bodies included.

    One pass in topological order reaches the fixed point: a node is looked at after everything that
    it reads was folded. If with a constant condition becomes its branch; equal constants and equal
    deterministic nodes are merged; nodes that nobody reads are deleted. A graph output that turns out
    constant is produced by an Identity of the constant. Operators that draw random numbers, have
    effects, hold bodies or carry an attribute of `OPT_OUT` are never evaluated.

    Args:
        graph: A graph with inferred types; it is not changed.
        evaluate: Computes one operator.
        schemas: Where operators are looked up; those that are unknown are not folded.
        limit_bytes: Largest result, unless it replaces constants that are larger together. What
            repeats one element (ConstantOfShape, Expand) is a view of that element and costs nothing.
        vectors: What inference knows of small integer tensors (`infer_graph` fills it), so that shape
            arithmetic folds although the shape it starts from is known in part only.
        extra: Inference for operators that only a higher floor knows.
        effects: Operators that must stay although nobody reads what they give.
        keep: Nodes of the outermost graph, by id, that are not folded.
        merges: False leaves equal constants and nodes apart, so that each keeps its id.

    Returns:
        The new graph and what was done.

    Cost: linear in nodes, plus the arithmetic itself and one reading of constants that look alike.
    """
    started = time.perf_counter()
    report = FoldReport()
    folder = _Folder(evaluate, schemas, limit_bytes, extra, effects, keep, merges, report)
    found = folder.fold(graph, dict(vectors or {}), {}, 0)
    report.took_us = (time.perf_counter() - started) * 1e6
    return found, report


class _Folder:
    """What folding of a graph and its bodies shares."""

    def __init__(
        self,
        evaluate: Evaluate,
        schemas: Schemas,
        limit_bytes: int,
        extra: Extra | None,
        effects: frozenset[str],
        keep: frozenset[int],
        merges: bool,
        report: FoldReport,
    ) -> None:
        self.evaluate = evaluate
        self.schemas = schemas
        self.limit_bytes = limit_bytes
        self.extra = extra
        self.effects = effects
        self.keep = keep
        self.merges = merges
        self.report = report

    def fold(
        self, graph: Graph, vectors: Mapping[int, Vector], captured: Mapping[int, Const], depth: int
    ) -> Graph:
        """Fold one graph; `captured` are the captures whose arrays are known."""
        editor = GraphEditor(graph)
        consts = ConstTable(editor)
        if self.merges:
            self.report.n_merged_consts += consts.merge_all()
        merged = NodeTable(self.schemas, editor)
        pending = deque(graph.nodes.values())
        while pending:
            node = editor.nodes.get(pending.popleft().id)
            if node is None:
                continue
            opset = editor.opsets.get(split_op(node.op)[0], 0)
            schema = self.schemas.get(node.op, opset or None)
            if node.bodies:
                branch = self.branch_of(node, editor, captured)
                if branch is not None:
                    inlined = inline_branch(editor, node, branch)
                    if inlined is not None:
                        self.report.n_branches += 1
                        pending.extendleft(reversed(inlined))
                        continue
                self.fold_bodies(node, editor, captured, depth)
                continue
            if schema is None or not schema.is_deterministic or node.op in self.effects or node.op in _KEPT:
                continue
            if any(node.attrs.get(name) for name in OPT_OUT):
                continue
            # Ids are those of one graph; a body has its own.
            is_kept = depth == 0 and node.id in self.keep
            made = None if is_kept else self.fold_node(node, schema, opset, editor, vectors, captured)
            if not self.merges:
                continue
            if made is not None:
                # Merged at once, so that later nodes that read equal constants are equal too.
                self.report.n_merged_consts += sum(consts.merge(value) for value in made)
                continue
            twin = merged.find(node, schema)
            if twin is not None and merged.merge(node, twin):
                self.report.n_merged_nodes += 1
        self.report.n_removed += editor.prune(lambda node: node.op in self.effects)
        return editor.commit()

    # ------------------------------------------------------------ nodes with bodies
    def branch_of(self, node: Node, editor: GraphEditor, captured: Mapping[int, Const]) -> Body | None:
        """Return the branch that an If takes when its condition is known."""
        if node.op != "If" or not node.inputs or node.inputs[0] is None:
            return None
        condition = editor.consts.get(node.inputs[0]) or captured.get(node.inputs[0])
        if condition is None or condition.array.size != 1 or any(node.attrs.get(name) for name in OPT_OUT):
            return None
        return node.bodies.get("then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch")

    def fold_bodies(self, node: Node, editor: GraphEditor, captured: Mapping[int, Const], depth: int) -> None:
        if depth >= _DEEPEST_BODY:
            return
        bodies: dict[str, Body] = {}
        for name, body in node.bodies.items():
            known = {
                inner: const
                for outer, inner in body.captures
                if (const := editor.consts.get(outer) or captured.get(outer)) is not None
            }
            inner_graph = self.fold(body.graph, {}, known, depth + 1)
            kept = tuple(pair for pair in body.captures if pair[1] in inner_graph.values)
            bodies[name] = Body(inner_graph, kept)
        editor.replace_node(replace(node, bodies=bodies))

    # ------------------------------------------------------------ one node
    def fold_node(
        self,
        node: Node,
        schema: OpSchema,
        opset: int,
        editor: GraphEditor,
        vectors: Mapping[int, Vector],
        captured: Mapping[int, Const],
    ) -> list[int] | None:
        """Replace a node by its results if they are known; says which constants came in, or None."""
        results = self.from_types(node, editor, vectors)
        if results is None:
            inputs: list[Const | None] = []
            for value in node.inputs:
                const = None if value is None else editor.consts.get(value) or captured.get(value)
                if value is not None and const is None:
                    return None
                inputs.append(const)
            results = self.from_consts(node, inputs, opset, editor)
        if results is None:
            return None
        wanted = [
            (value, array) for value, array in zip(node.outputs, results, strict=False) if value is not None
        ]
        if any(editor.is_output(value) for value, _ in wanted) and node.op in ("Identity", "Constant"):
            return None
        return self.put(node, wanted, editor)

    def from_types(
        self, node: Node, editor: GraphEditor, vectors: Mapping[int, Vector]
    ) -> list[Array] | None:
        """Return results that types tell although some input is not known."""
        if len(node.outputs) != 1 or node.outputs[0] is None:
            return None
        output = node.outputs[0]
        known = vectors.get(output)
        if known is None and node.op in ("Shape", "Size"):
            known = _from_shape(node, editor)
        if known is None:
            return None
        numbers = [entry for entry in known if isinstance(entry, int)]
        type = editor.values[output].type
        if len(numbers) != len(known) or not isinstance(type, TensorType) or type.rank is None:
            return None
        dtype = DType.I64 if node.op in ("Shape", "Size") else type.dtype
        if (
            not (dtype.is_integer or dtype is DType.BOOL)
            or type.rank > 1
            or (type.rank == 0 and len(numbers) != 1)
        ):
            return None
        array = np.asarray(numbers, np.int64).astype(dtype.numpy)
        return [array.reshape(()) if type.rank == 0 else array]

    def from_consts(
        self, node: Node, inputs: Sequence[Const | None], opset: int, editor: GraphEditor
    ) -> list[Array] | None:
        """Return what a node computes from constants, or None when it must stay."""
        if node.op == "Constant" and isinstance(value := node.attrs.get("value"), Const):
            return [value.array]
        types = self.result_types(node, inputs, opset, editor)
        if types is None:
            return None
        arrays = [None if const is None else const.array for const in inputs]
        view = repeated_view(node, arrays, types[0], opset, self.evaluate)
        if view is not None:
            return [view]
        if not self.is_small_enough(node, inputs, types, editor):
            return None
        try:
            results = self.evaluate(node.op, arrays, node.attrs, opset, len(node.outputs))
        except GerulesError as fault:
            self.report.keep(node, fault.diagnostics[0].message)
            return None
        for result, type in zip(results, types, strict=False):
            if not _agrees(result, type):
                self.report.keep(node, "what was computed is not of the type that was inferred")
                return None
        return list(results) if len(results) >= len(node.outputs) else None

    def result_types(
        self, node: Node, inputs: Sequence[Const | None], opset: int, editor: GraphEditor
    ) -> list[ValueType] | None:
        """Return the types of all outputs; inputs just folded may tell more than was known before."""
        types = [UNKNOWN if value is None else editor.values[value].type for value in node.outputs]
        if all(isinstance(type, TensorType) and type.is_static and type.dtype.bits for type in types):
            return types
        try:
            found = infer(
                node,
                [None if const is None else const.type for const in inputs],
                inputs,
                self.schemas,
                opset,
                extra=self.extra,
            )
        except GerulesError as fault:
            self.report.keep(node, fault.diagnostics[0].message)
            return None
        both = [unify(one, two) for one, two in zip(found, types, strict=False)]
        return [two if one is None else one for one, two in zip(both, types, strict=False)]

    def is_small_enough(
        self,
        node: Node,
        inputs: Sequence[Const | None],
        types: Iterable[ValueType],
        editor: GraphEditor,
    ) -> bool:
        """Whether the results may be computed and stored.

        They are below the limit, or replace more than they take; and no input is a view of one element
        that a kernel would have to walk, or copy, at its full size.
        """
        if any(
            const is not None and repeats(const.array) and const.array.nbytes > self.limit_bytes
            for const in inputs
        ):
            self.report.keep(node, "it would walk a large constant that repeats one element")
            return False
        given_bytes = sum(own_bytes(const.array) for const in inputs if const is not None)
        total = 0
        for type in types:
            if not isinstance(type, TensorType):
                return False
            if type.is_static:
                total += math.prod(type.static_shape) * max(1, type.dtype.bits // 8)
            elif node.op in _SHAPE_FREE:
                total += 8 * len(type.shape or ()) * given_bytes
            else:
                self.report.keep(node, "the size of its result is not known")
                return False
        if total <= self.limit_bytes:
            return True
        gone = sum(
            own_bytes(const.array)
            for value, const in zip(node.inputs, inputs, strict=True)
            if value is not None and const is not None and editor.n_uses(value) == 1
        )
        if total <= gone:
            return True
        self.report.keep(node, f"its result has {total} bytes; {self.limit_bytes} are allowed")
        return False

    def put(self, node: Node, wanted: Sequence[tuple[int, Array]], editor: GraphEditor) -> list[int]:
        """Let the values of a node be constants; graph outputs get an Identity that produces them."""
        consts: list[int] = []
        nodes: list[Node] = []
        for value, array in wanted:
            self.report.size_bytes += own_bytes(array)
            record = editor.values[value]
            editor.set_type(value, _stored_type(record.type, array))
            if editor.is_output(value):
                held = editor.add_const(Const(array), f"{record.name}_value")
                origin = node.origin
                nodes.append(
                    Node(editor.fresh_id(), "Identity", (held,), (value,), name=node.name, origin=origin)
                )
                consts.append(held)
            else:
                consts.append(value)
        if nodes:
            editor.substitute([node.id], nodes, {})
        else:
            editor.remove_node(node.id)
        for value, array in wanted:
            if not editor.is_output(value):
                editor.consts[value] = Const(array)
        self.report.n_folded += 1
        return consts


def _stored_type(known: ValueType, array: Array) -> ValueType:
    found = TensorType(dtype_of(array), array.shape)
    if isinstance(known, TensorType) and known.shape == found.shape and known.dtype is found.dtype:
        return known
    return found


def _from_shape(node: Node, editor: GraphEditor) -> Vector | None:
    value = node.inputs[0] if node.inputs else None
    type = None if value is None else editor.values[value].type
    if not isinstance(type, TensorType) or type.shape is None:
        return None
    if node.op == "Size":
        return (type.n_elements,) if type.is_static else None
    start, end = node.attrs.get("start", 0), node.attrs.get("end")
    if not isinstance(start, int) or not isinstance(end, int | None):
        return None
    return type.shape[start:end]


def _agrees(array: object, type: ValueType) -> bool:
    # A kernel gives a list for a sequence and None for an empty optional.
    if not isinstance(array, np.ndarray) or not isinstance(type, TensorType):
        return False
    made: Array = array  # pyright: ignore[reportUnknownVariableType]
    if type.dtype is not DType.UNKNOWN and dtype_of(made) is not type.dtype:
        return False
    return not type.is_static or made.shape == type.static_shape
