"""Inference over graphs: all of one at once, or only what a rewrite touched."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final

from gerules.errors import Diagnostic, Faults, GerulesError, table
from gerules.ir import (
    UNKNOWN,
    UNKNOWN_DIM,
    Body,
    Const,
    DType,
    Format,
    Graph,
    GraphEditor,
    Node,
    TensorType,
    Value,
    ValueType,
    unify,
)
from gerules.ir.collector import paused_collector
from gerules.ops.bodies import carried_range, entry_types, join, output_types
from gerules.ops.call import Call, Misfit, Vector, vector_of
from gerules.ops.inference import (
    Extra,
    ShapeError,
    check_declared,
    diagnose,
    infer_with_vector,
    opset_of,
)
from gerules.ops.layout_remedy import find_transpose
from gerules.ops.registry import Schemas
from gerules.ops.size_names import own_names, with_names
from gerules.ops.type_memory import TypeMemory

_DEEPEST_BODY: Final = 64
"""Bodies inside bodies; deeper ones are refused before Python's own recursion limit is near."""

_DEEPEST_EXACT_LOOP: Final = 3
"""Loops nested deeper are entered with element types alone, so that nesting costs no power of turns."""

_MOST_TURNS: Final = 4
"""Attempts to find types of carried values that no turn of a loop changes."""

_MOST_FAULTS: Final = 100
"""Faults of one graph that are reported; a hostile file could have millions."""

Vectors = MutableMapping[int, Vector]
"""What is known of small integer tensors, by value id."""


def infer_graph(
    graph: Graph,
    schemas: Schemas,
    *,
    extra: Extra | None = None,
    vectors: Vectors | None = None,
    names_sizes: bool = False,
) -> Graph:
    """Infer every type of a graph, bodies included.

    What the graph declares for a value and what is inferred are unified; the storage format declared
    for a value stays.

    Args:
        graph: Any graph; it is not changed.
        schemas: Where operators are looked up.
        extra: Inference for operators that have no rule here.
        vectors: Filled with what is known of the entries of small integer tensors.
        names_sizes: Give each size that nothing is known of a name of its own, so that what has the same
            size further on is known to. Only outside of bodies, where a value has one size in a run.

    Returns:
        The same graph with more precise types.

    Raises:
        ShapeError: E30001 to E30008, all faults of the graph together (at most a hundred).

    Cost: linear in nodes; microseconds for each.
    """
    faults = Faults()
    told: Vectors = {} if vectors is None else vectors
    scope = _Scope(graph.opsets, schemas, extra, faults, own_names(graph) if names_sizes else None)
    with paused_collector():
        found = scope.infer(graph, {value: known.type for value, known in graph.values.items()}, told, 0)
    faults.raise_if_any(ShapeError)
    return found


def infer_nodes(
    editor: GraphEditor,
    node_ids: Iterable[int],
    schemas: Schemas,
    *,
    extra: Extra | None = None,
    vectors: Vectors | None = None,
) -> int:
    """Infer some nodes of a graph under change, then their readers for as long as types change.

    Nodes that are gone are passed over. What is inferred is unified with what was known.

    Args:
        editor: Its values get the types; its `on_touch` hears of the readers of each that changes.
        node_ids: Where to start, in any order.
        schemas: Where operators are looked up.
        extra: Inference for operators that have no rule here.
        vectors: What `infer_graph` filled; read, and kept up to date.

    Returns:
        How many nodes were inferred.

    Raises:
        ShapeError: E30001 to E30008. Types set before the fault stay.
    """
    faults = Faults()
    told: Vectors = {} if vectors is None else vectors
    scope = _Scope(editor.opsets, schemas, extra, faults)
    pending = [(editor.order_key(node), node) for node in set(node_ids) if node in editor.nodes]
    heapq.heapify(pending)
    queued = {node for _, node in pending}
    n_inferred = 0
    while pending:
        _, node_id = heapq.heappop(pending)
        queued.discard(node_id)
        node = editor.nodes[node_id]
        n_inferred += 1
        types, vector, bodies = scope.node(
            node, lambda value: editor.values[value].type, editor.consts, told, 0
        )
        if bodies is not node.bodies:
            editor.replace_node(replace(node, bodies=bodies))
        for value, type in scope.unified(node, types, editor.values):
            changed = type != editor.values[value].type
            if value == node.outputs[0] and vector is not None and told.get(value) != vector:
                told[value] = vector
                changed = True
            if not changed:
                continue
            editor.set_type(value, type)
            for reader in editor.readers(value):
                if reader not in queued:
                    queued.add(reader)
                    heapq.heappush(pending, (editor.order_key(reader), reader))
    faults.raise_if_any(ShapeError)
    return n_inferred


class _Scope:
    """What inference of one graph and its bodies shares: versions, schemas, faults."""

    def __init__(
        self,
        opsets: Mapping[str, int],
        schemas: Schemas,
        extra: Extra | None,
        faults: Faults,
        taken: frozenset[str] | None = None,
    ) -> None:
        self._taken = taken
        self.opsets = opsets
        self.schemas = schemas
        self.extra = extra
        self.faults = faults
        self._versions: dict[str, int] = {}
        self._memory = TypeMemory()

    def infer(self, graph: Graph, types: dict[int, ValueType], vectors: Vectors, depth: int) -> Graph:
        """Infer one graph from the types of its inputs, consts and captures; `types` ends up complete."""
        self._check_declared(graph)
        declared, consts = graph.values, graph.consts
        changed: dict[int, Node] = {}
        for node in graph.nodes.values():
            if len(self.faults.diagnostics) >= _MOST_FAULTS:
                break
            found, vector, bodies = self.node(node, types.__getitem__, consts, vectors, depth)
            if bodies is not node.bodies:
                changed[node.id] = replace(node, bodies=bodies)
            made = self.unified(node, found, declared)
            types.update(made if depth or self._taken is None else with_names(made, self._taken))
            if vector is not None and node.outputs[0] is not None:
                vectors[node.outputs[0]] = vector
        values = {
            id: value if types[id] is value.type else Value(id, value.name, types[id])
            for id, value in declared.items()
        }
        nodes = {id: changed.get(id, node) for id, node in graph.nodes.items()} if changed else graph.nodes
        return replace(graph, values=values, nodes=nodes)

    def node(
        self,
        node: Node,
        type_of: Callable[[int], ValueType],
        consts: Mapping[int, Const],
        vectors: Vectors,
        depth: int,
    ) -> tuple[Sequence[ValueType], Vector | None, Mapping[str, Body]]:
        """Infer one node; after a fault, which is recorded, its outputs are unknown."""
        opset = self._versions.get(node.op)
        if opset is None:
            opset = self._versions[node.op] = opset_of(node.op, self.opsets, self.schemas)
        inputs = [None if value is None else type_of(value) for value in node.inputs]
        contents = [None if value is None else consts.get(value) for value in node.inputs]
        entries = [None if value is None else vectors.get(value) for value in node.inputs]
        bodies = node.bodies
        try:
            if bodies:
                call = Call(
                    node.op, opset, node.attrs, inputs, contents, entries, len(node.outputs), (DType.UNKNOWN,)
                )
                bodies = self._bodies(node, call, type_of, consts, vectors, depth)
            types, vector = infer_with_vector(
                node,
                inputs,
                contents,
                self.schemas,
                opset,
                vectors=entries,
                bodies=bodies,
                extra=self.extra,
                memory=self._memory,
            )
        except Misfit as fault:

            def again(others: list[ValueType | None]) -> object:
                return infer_with_vector(
                    node, others, contents, self.schemas, opset, vectors=entries, bodies=bodies,
                    extra=self.extra,
                )  # fmt: skip

            self.faults.extend([self._diagnosis(fault, node, inputs, opset, again)])
        except GerulesError as fault:
            self.faults.extend(fault.diagnostics)
        else:
            return types, vector, bodies
        return [UNKNOWN] * len(node.outputs), None, bodies

    def _diagnosis(
        self,
        fault: Misfit,
        node: Node,
        inputs: list[ValueType | None],
        opset: int,
        infer: Callable[[list[ValueType | None]], object],
    ) -> Diagnostic:
        """The fault; where the axes of one input in another order would fit, that one is to blame."""
        if fault.error_code is table.SHAPES_DO_NOT_FIT:
            found = find_transpose(node.op, inputs, infer)
            if found is not None:
                at, perm = found
                schema = self.schemas.get(node.op, opset)
                param = schema.inputs[min(at, len(schema.inputs) - 1)].name if schema is not None else ""
                facts = {**fault.facts, "input": f"{at} ({param})" if param else str(at), "perm": list(perm)}
                return diagnose(Misfit(table.LAYOUT_DIFFERS, **facts), node, inputs, opset)
        return diagnose(fault, node, inputs, opset)

    def unified(
        self, node: Node, types: Iterable[ValueType], declared: Mapping[int, Value]
    ) -> Iterable[tuple[int, ValueType]]:
        """Yield each output with its type; where the declared one contradicts, the fault is recorded."""
        for value, type in zip(node.outputs, types, strict=False):
            if value is None:
                continue
            known = declared[value].type
            if known is UNKNOWN or known == type:
                yield value, type
                continue
            both = unify(_in_format_of(type, known), known)
            if both is None:
                facts = {"value": declared[value].name or f"%{value}", "inferred": type, "declared": known}
                inputs = [None if one is None else declared[one].type for one in node.inputs]
                fault = Misfit(table.TYPE_CONTRADICTS, **facts)
                self.faults.extend([diagnose(fault, node, inputs, self._versions.get(node.op, 0))])
                both = type
            yield value, both

    # ------------------------------------------------------------ bodies
    def _bodies(
        self,
        node: Node,
        call: Call,
        type_of: Callable[[int], ValueType],
        consts: Mapping[int, Const],
        vectors: Vectors,
        depth: int,
    ) -> Mapping[str, Body]:
        if depth >= _DEEPEST_BODY:
            raise Misfit(table.BODY_DOES_NOT_FIT, reason=f"bodies are nested deeper than {_DEEPEST_BODY}")
        out: dict[str, Body] = {}
        for name, body in node.bodies.items():
            captured = {inner: type_of(outer) for outer, inner in body.captures}
            known: Vectors = {}
            for outer, inner in body.captures:
                const = consts.get(outer)
                vector = vectors.get(outer) if const is None else vector_of(const)
                if vector is not None:
                    known[inner] = vector
            out[name] = replace(body, graph=self._body(name, body.graph, call, captured, known, depth))
        return out

    def _body(
        self,
        name: str,
        graph: Graph,
        call: Call,
        captured: Mapping[int, ValueType],
        vectors: Vectors,
        depth: int,
    ) -> Graph:
        """Infer a body; a loop's until its carried values keep their types from turn to turn."""
        entry = entry_types(call, name, graph)
        if entry is None:
            return self._enter(graph, [UNKNOWN] * len(graph.inputs), captured, vectors, depth)
        first, end = carried_range(call)
        if first == end:
            return self._enter(graph, entry, captured, vectors, depth)
        # Loop returns a condition before what it carries, and takes the turn and the condition.
        shift = first - (1 if call.op == "Loop" else 0)
        if depth < _DEEPEST_EXACT_LOOP:
            for _ in range(_MOST_TURNS):
                attempt = _Scope(self.opsets, self.schemas, self.extra, Faults())
                found = attempt._enter(graph, entry, captured, dict(vectors), depth)
                given = output_types(found)[shift:]
                wider = [
                    _widened(one, given[place - first] if place - first < len(given) else UNKNOWN)
                    if first <= place < end
                    else one
                    for place, one in enumerate(entry)
                ]
                if wider == entry:
                    self.faults.extend(attempt.faults.diagnostics)
                    return found
                entry = wider
        entry = [_dtype_alone(one) if first <= place < end else one for place, one in enumerate(entry)]
        return self._enter(graph, entry, captured, vectors, depth)

    def _enter(
        self,
        graph: Graph,
        entry: Iterable[ValueType],
        captured: Mapping[int, ValueType],
        vectors: Vectors,
        depth: int,
    ) -> Graph:
        # A name declared in a body may stand for another size in each turn; it must not get out.
        graph = replace(graph, values={id: _without_names(value) for id, value in graph.values.items()})
        types = {value: known.type for value, known in graph.values.items()}
        for outer, one in [*zip(graph.inputs, entry, strict=False), *captured.items()]:
            known = types.get(outer, UNKNOWN)
            both = unify(_in_format_of(one, known), known)
            if both is None:
                name = graph.values[outer].name or f"%{outer}"
                reason = f"its body declares {name} as {known}, and is given {one}"
                raise Misfit(table.BODY_DOES_NOT_FIT, reason=reason)
            types[outer] = both
        return self.infer(graph, types, vectors, depth + 1)

    def _check_declared(self, graph: Graph) -> None:
        for value in graph.inputs:
            fault = check_declared(graph.values[value].type)
            if fault is not None:
                name = graph.values[value].name or f"%{value}"
                facts = {"node": name, "op": "input", **fault.facts}
                self.faults.extend([Diagnostic(fault.error_code, facts, place=f"input {name}")])


def _in_format_of(type: ValueType, known: ValueType) -> ValueType:
    """Inference speaks of plain layout; a value that is kept in another format stays in it."""
    if not isinstance(type, TensorType) or not isinstance(known, TensorType):
        return type
    if known.format is not Format.ND and type.format is Format.ND:
        return type.with_format(known.format, known.groups)
    return type


def _without_names(value: Value) -> Value:
    type = value.type
    if not isinstance(type, TensorType) or type.shape is None or type.is_static:
        return value
    dims = tuple(dim if isinstance(dim, int) else UNKNOWN_DIM for dim in type.shape)
    return Value(value.id, value.name, replace(type, shape=dims))


def _widened(entry: ValueType, later: ValueType) -> ValueType:
    both = join(entry, later)
    return entry if both is None else both


def _dtype_alone(type: ValueType) -> ValueType:
    return TensorType(type.dtype) if isinstance(type, TensorType) else type
