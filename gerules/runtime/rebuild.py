"""From an offline model back to graphs, with the place of every value: nothing in the file is believed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from gerules.backend.emit import FORM
from gerules.backend.emit_gears import CASE
from gerules.backend.emit_tensors import TYPE_ATTR
from gerules.backend.exact import read_attrs, read_numbers, read_strings, read_table, read_type
from gerules.backend.nested import arena_bytes, is_fused
from gerules.backend.om import (
    Edge,
    OmAttr,
    OmError,
    OmGraph,
    OmList,
    OmModel,
    OmOp,
    OmTensor,
    TensorValue,
    constant_array,
    constant_bytes,
    read_int,
    read_text,
    read_texts,
    tensor_type,
)
from gerules.errors import Faults, GerulesError, table
from gerules.ir import (
    UNKNOWN,
    Attr,
    Body,
    Const,
    DType,
    Graph,
    Node,
    Origin,
    TensorType,
    Value,
    ValueType,
    from_storage,
)
from gerules.runtime.kernels import Array

_DEEPEST: Final = 64
"""Bodies inside bodies."""


@dataclass(slots=True)
class PlacedGraph:
    """A graph as an offline model places it.

    Attributes:
        offsets: Where values lie in the arena; what has no offset is on the heap.
        life_ends: The last step that needs a value's bytes.
        stored: Constants in storage form, views of the file where numpy can have them.
        ops: The operator of each node.
        nested: The bodies of fused nodes whose values lie in the arena.
        branches: The gears of the node that chooses among them, by name, in order.
    """

    graph: Graph
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    life_ends: dict[int, int] = field(default_factory=dict[int, int])
    stored: dict[int, Array] = field(default_factory=dict[int, Array])
    ops: dict[int, OmOp] = field(default_factory=dict[int, OmOp])
    nested: dict[int, PlacedGraph] = field(default_factory=dict[int, "PlacedGraph"])
    branches: dict[str, PlacedGraph] = field(default_factory=dict[str, "PlacedGraph"])


def rebuild_graph(model: OmModel) -> PlacedGraph:
    """Return the graph an offline model was made of, and where its values lie.

    Raises:
        OmError: E80030 for a model that gerules did not write; E80010, E80011, E80013, E80031, E80032 and
            E80033, all of the file together.

    Cost: linear in operators; constants in plain formats stay views of the file.
    """
    form = model.attrs.get("_gerules_form")
    if form != FORM or not model.graphs:
        reason = "gerules did not write it" if form is None else f"its form is {form}, this reads {FORM}"
        raise OmError(table.OM_NOT_RUNNABLE, reason=reason)
    return _Rebuilder(model).run()


class _Rebuilder:
    def __init__(self, model: OmModel) -> None:
        self.model = model
        self.graphs = {graph.name: graph for graph in model.graphs}
        self.faults = Faults()
        self.called: set[str] = set()
        self.constants: dict[tuple[int, int, TensorType], tuple[Array, Array]] = {}
        self.next_id = 0

    def run(self) -> PlacedGraph:
        root = self.graph(self.model.root, 0)[0]
        self.faults.raise_if_any(OmError)
        return root

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def graph(self, om: OmGraph, depth: int) -> tuple[PlacedGraph, tuple[tuple[int, int], ...]]:
        """Rebuild one graph; also the values that stand for inputs of the caller, by input position."""
        scope = _Scope(self, om, depth)
        for op in om.ops:
            try:
                scope.add(op)
            except GerulesError as error:
                self.faults.extend(replace(item, place=item.place or op.name) for item in error.diagnostics)
            except (ValueError, IndexError, OverflowError, MemoryError) as fault:
                self.faults.add(table.OM_BAD_NODE, op=op.name, reason=str(fault) or type(fault).__name__)
        return scope.finish()


class _Scope:
    """One graph while its operators are read, in their order."""

    def __init__(self, owner: _Rebuilder, om: OmGraph, depth: int) -> None:
        self._owner = owner
        self._model, self._faults = owner.model, owner.faults
        self._om, self._depth = om, depth
        self._values: dict[int, Value] = {}
        self._nodes: dict[int, Node] = {}
        self._consts: dict[int, Const] = {}
        self._inputs: dict[int, int] = {}
        self._captures: list[tuple[int, int]] = []
        self._defaults: dict[int, Const] = {}
        self._outputs: tuple[int, ...] | None = None
        self._made: dict[str, dict[int, int]] = {}
        self._placed = PlacedGraph(Graph("", (), (), {}, {}, {}))

    # ------------------------------------------------------------ operators
    def add(self, op: OmOp) -> None:
        """Read one operator; raises whatever is wrong with it."""
        self._made.setdefault(op.name, {})
        match op.type:
            case "Data":
                self._add_data(op)
            case "Const":
                self._add_const(op)
            case "NetOutput":
                self._outputs = tuple(self._read(op, edge) for edge in op.inputs)
            case _:
                self._add_node(op)

    def finish(self) -> tuple[PlacedGraph, tuple[tuple[int, int], ...]]:
        """Return the graph, and its captures as (input position of the caller, value)."""
        om = self._om
        n_inputs = len(self._inputs)
        if sorted(self._inputs) != list(range(n_inputs)):
            self._bad("the inputs are not numbered from 0 on")
        if self._outputs is None:
            self._bad("there is no NetOutput")
        inputs = tuple(self._inputs[at] for at in sorted(self._inputs))
        opsets: dict[str, int] = {}
        metadata: dict[str, str] = {}
        try:
            opsets = read_numbers(read_text(om.attrs, "_gerules_opsets", "{}"))
            metadata = read_table(read_text(om.attrs, "_gerules_metadata", "{}"))
            name = read_text(om.attrs, "_gerules_name", om.name)
        except (GerulesError, ValueError) as fault:
            self._bad(f"its attributes cannot be read: {fault}")
            name = om.name
        self._placed.graph = Graph(
            name, inputs, self._outputs or (), self._values, self._nodes, self._consts,
            {inputs[at]: const for at, const in self._defaults.items() if at < len(inputs)},
            opsets, metadata, self._owner.next_id,
        )  # fmt: skip
        return self._placed, tuple(self._captures)

    def _add_data(self, op: OmOp) -> None:
        if not op.output_descs:
            raise ValueError("it describes no output")
        value = self._add_value(op, 0)
        self._place(op, 0, value)
        if "_gerules_capture" in op.attrs:
            self._captures.append((read_int(op.attrs, "_parent_node_index"), value))
            return
        at = read_int(op.attrs, "index")
        if at in self._inputs:
            raise ValueError(f"input {at} comes twice")
        self._inputs[at] = value

    def _add_const(self, op: OmOp) -> None:
        value_of = op.attrs.get("value")
        if not isinstance(value_of, TensorValue):
            raise ValueError("it has no tensor")
        logical, stored = self._constant(op, value_of)
        at = op.attrs.get("_gerules_default_of")
        if type(at) is int:
            self._defaults[at] = Const(logical)
            return
        value = self._owner.fresh()
        self._made[op.name][0] = value
        type_ = _type_of(value_of.desc)
        if not isinstance(type_, TensorType):
            raise ValueError("it is no tensor")
        self._values[value] = Value(value, value_of.desc.name, replace(type_, shape=logical.shape))
        self._consts[value] = Const(logical)
        if stored is not logical:
            self._placed.stored[value] = stored

    def _add_node(self, op: OmOp) -> None:
        name = read_text(op.attrs, "_gerules_op")
        reads = [None if edge is None else self._read(op, edge) for edge in op.inputs]
        labels = read_texts(op.attrs, "_gerules_bodies", ())
        n_inputs = read_int(op.attrs, "_gerules_n_inputs", len(reads))
        if not 0 <= n_inputs <= len(reads) or len(labels) != len(op.subgraphs):
            raise ValueError("its bodies do not fit its inputs")
        inputs = reads[:n_inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        bodies: dict[str, Body] = {}
        placed: dict[str, PlacedGraph] = {}
        for label, graph in zip(labels, op.subgraphs, strict=True):
            inner, captures = self._body(graph)
            pairs: list[tuple[int, int]] = []
            for at, value in captures:
                outside = reads[at] if 0 <= at < len(reads) else None
                if outside is None:
                    raise ValueError(f"body {label} captures input {at}, which is not there")
                pairs.append((outside, value))
            bodies[label] = Body(inner.graph, tuple(pairs))
            placed[label] = inner
        outputs: list[int | None] = []
        for at, desc in enumerate(op.output_descs):
            is_absent = desc.layout == "RESERVED"
            outputs.append(None if is_absent else self._add_value(op, at))
            if (made := outputs[-1]) is not None:
                self._place(op, at, made)
        node = Node(
            self._owner.fresh(), name, tuple(inputs), tuple(outputs), self._attrs(op),
            read_text(op.attrs, "_gerules_node", ""),
            Origin(
                read_texts(op.attrs, "_datadump_original_op_names", ()),
                read_texts(op.attrs, "_gerules_rules", ()),
                read_text(op.attrs, "_gerules_phase", ""),
            ),
            bodies,
        )  # fmt: skip
        self._nodes[node.id] = node
        self._placed.ops[node.id] = op
        for item in op.workspace:
            self._check_range(op.name, item.offset_bytes, item.size_bytes)
        if is_fused(node) and "body" in placed:
            self._placed.nested[node.id] = placed["body"]
        if self._depth == 0 and op.name == CASE and op.type == "Case":
            self._placed.branches = placed

    def _body(self, name: str) -> tuple[PlacedGraph, tuple[tuple[int, int], ...]]:
        owner = self._owner
        if self._depth >= _DEEPEST:
            raise ValueError(f"bodies nest more than {_DEEPEST} deep")
        # Each body belongs to one node: a file could else stand for more than anyone can hold.
        if name in owner.called or name == owner.model.root.name:
            raise ValueError(f"graph {name} is called twice")
        owner.called.add(name)
        om = owner.graphs.get(name)
        if om is None:
            raise ValueError(f"graph {name} is not there")
        return owner.graph(om, self._depth + 1)

    def _attrs(self, op: OmOp) -> dict[str, Attr]:
        text = read_text(op.attrs, "_gerules_attrs", "")
        if not text:
            return {}
        consts: list[Const] = []
        while isinstance(found := op.attrs.get(f"_gerules_const_{len(consts)}"), TensorValue):
            consts.append(Const(self._constant(op, found)[0]))
        return read_attrs(text, consts)

    # ------------------------------------------------------------ values
    def _add_value(self, op: OmOp, at: int) -> int:
        desc = op.output_descs[at]
        value = self._owner.fresh()
        self._made[op.name][at] = value
        self._values[value] = Value(value, desc.name, _type_of(desc))
        return value

    def _read(self, op: OmOp, edge: Edge | None) -> int:
        if edge is None:
            raise ValueError("it has no value")
        value = self._made.get(edge.producer, {}).get(edge.index)
        if value is None:
            raise OmError(table.OM_BAD_ORDER, op=op.name, reason=f"reads {edge} before it is made")
        return value

    def _place(self, op: OmOp, at: int, value: int) -> None:
        """Take a value's offset over, if it has one and may lie in the arena."""
        offset = op.output_offsets[at] if at < len(op.output_offsets) else -1
        if offset == -1:
            return
        size = arena_bytes(self._values[value].type)
        if size is None:
            raise ValueError(f"output {at} has a place but no fixed size")
        self._check_range(f"{op.name}:{at}", offset, size)
        self._placed.offsets[value] = offset
        ends = op.attrs.get("_gerules_life_end")
        if ends is not None:
            listed = _ints(ends)
            if at < len(listed) and listed[at] >= 0:
                self._placed.life_ends[value] = listed[at]

    def _check_range(self, what: str, offset: int, size: int) -> None:
        end = self._model.memory_size_bytes
        if offset < 0 or size < 0 or offset + size > end:
            raise OmError(
                table.OM_BAD_PLACE, what=what, place=f"{offset} to {offset + size}",
                reason=f"is outside the {end} bytes of the arena",
            )  # fmt: skip

    def _constant(self, op: OmOp, value: TensorValue) -> tuple[Array, Array]:
        """Return a constant as the graph has it, and as it is stored."""
        type = _type_of(value.desc)
        if not isinstance(type, TensorType) or not type.is_static:
            raise ValueError("a constant has no fixed shape")
        # Gears share constants: each is read once, however many branches have it.
        place = (value.desc.data_offset, value.desc.weight_size_bytes, type)
        if not value.data and (known := self._owner.constants.get(place)) is not None:
            return known
        found = self._read_constant(op, value, type)
        if not value.data:
            self._owner.constants[place] = found
        return found

    def _read_constant(self, op: OmOp, value: TensorValue, type: TensorType) -> tuple[Array, Array]:
        shape = type.static_shape
        holder = OmOp(op.name, "Const", attrs={"value": value})
        if type.dtype is DType.STRING:
            items = read_strings(bytes(constant_bytes(holder, self._model.weights)))
            if len(items) != math.prod(shape):
                raise ValueError(f"{len(items)} strings are no {type}")
            array = np.empty(len(items), np.object_)
            array[:] = items
            return array.reshape(shape), array
        if value.desc.shape != type.storage_shape:
            raise ValueError(f"{type} is stored as {list(value.desc.shape)}")
        stored = constant_array(holder, self._model.weights)
        if not stored.flags.aligned:
            # The weights start anywhere in a file; products of unaligned matrices would copy them every time.
            stored = stored.copy()
        logical = from_storage(stored, shape, type.format, type.dtype, groups=type.groups)
        # Taken apart once, here; products of matrices whose axes lie apart miss BLAS.
        return (logical if logical.flags.c_contiguous else logical.copy()), stored

    def _bad(self, reason: str) -> None:
        self._faults.add(table.OM_BAD_GRAPH, graph=self._om.name, reason=reason)


def _type_of(desc: OmTensor) -> ValueType:
    exact = desc.attrs.get(TYPE_ATTR)
    if isinstance(exact, str):
        return read_type(exact)
    return tensor_type(desc) or UNKNOWN


def _ints(value: OmAttr) -> list[int]:
    items = value.items if isinstance(value, OmList) else ()
    return [item if isinstance(item, int) else -1 for item in items]
