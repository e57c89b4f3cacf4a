"""An `.om` model as a graph text shows it: operators as nodes, the file's plan as marks.

It is for people: what a graph has no word for (bookkeeping attributes, kernels' binaries) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np

from gerules.backend.emit_gears import GEAR_BYTES
from gerules.backend.om import (
    Edge,
    ListKind,
    OmAttr,
    OmError,
    OmGraph,
    OmList,
    OmModel,
    OmOp,
    OmTensor,
    constant_array,
    tensor_type,
)
from gerules.errors import table
from gerules.ir import (
    NO_BODIES,
    UNKNOWN,
    UNKNOWN_DIM,
    Attr,
    Body,
    Const,
    DType,
    Format,
    Graph,
    GraphEditor,
    Marks,
    TensorType,
    empty_graph,
    from_storage,
)
from gerules.runtime.rebuild import PlacedGraph, rebuild_graph

DOMAIN: Final = "ge::"
"""The domain of the device's own operators."""

_N_IDS: Final = 1 << 40
"""Ids that each graph of a model has to itself, so that one table of marks serves all of them."""

_MAX_DEPTH: Final = 40
"""Bodies in bodies shown in place; deeper ones are named only."""

_RANKS: Final = {
    **dict.fromkeys((Format.NCHW, Format.NHWC, Format.HWCN), 4),
    **dict.fromkeys((Format.NCDHW, Format.NDHWC, Format.DHWCN), 5),
}
"""How many dimensions a plain format is about."""

_AXES: Final = {
    "NHWC": (0, 3, 1, 2),
    "HWCN": (3, 2, 0, 1),
    "NDHWC": (0, 4, 1, 2, 3),
    "DHWCN": (4, 3, 0, 1, 2),
}
"""Where N, C and the rest are in an original layout."""

_WORD: Final = re.compile(r"[^\W\d]\w*")
_NO_WORD: Final = re.compile(r"\W")

_ENGINE_KEYS: Final = ("_ge_attr_op_kernel_lib_name", "_lxfusion_engine_name", "_engine")
"""Where files keep the engine of an operator, best first."""

_BOOKKEEPING: Final = frozenset(
    {
        "INPUT_IS_VAR", "OUTPUT_IS_VAR", "is_first_node", "is_last_node", "is_input_const", "inferred_format",
        "original_op_names", "version", "tvm_magic", "tvm_metadata", "tvm_blockdim", "compile_info_json",
        "compile_info_key", "op_para_size", "fe_imply_type", "imply_type", "input_format", "output_format",
        "continuous_input", "continuous_output", "tbe_op_atomic_workspace_flag", "ub_atomic_params",
        "tvm_cache_read_mode", "fusion_scope", "isCheckSupported", "format", "original_format",
    }
)  # fmt: skip
"""Attributes that the tools that wrote a file left on operators for themselves."""


@dataclass(frozen=True, slots=True)
class OmText:
    """A model ready to print: its root graph, marks by node id, and model-level facts as lines."""

    graph: Graph
    marks: Marks
    facts: tuple[str, ...]


def om_as_graph(model: OmModel) -> OmText:
    """Return a model as a graph with marks.

    Operators of the device keep their names (`ge::Conv2D`); `Data`, `Const` and `NetOutput` become
    inputs, constants and returned values.

    A model of gerules' own says the graph it was made of, which is then shown as it was.

    Raises:
        OmError: E80010 when operators depend on each other in a circle; for a model of gerules' own what
            `rebuild_graph` raises.

    Cost: linear in operators and edges; constants stay views where their layout is plain.
    """
    if "_gerules_form" in model.attrs:
        placed = rebuild_graph(model)
        return OmText(placed.graph, dict(_placed_marks(placed)), tuple(_facts(model)))
    builder = _Builder(model)
    root = builder.graph(model.root, 0)
    return OmText(root, builder.marks, tuple(_facts(model)))


def _placed_marks(placed: PlacedGraph) -> Iterator[tuple[int, dict[str, Attr]]]:
    pending = [(placed, True)]
    while pending:
        one, has_streams = pending.pop()
        for node, op in one.ops.items():
            yield node, dict(_marks(op, has_streams=has_streams))
        pending += [(inner, False) for inner in one.nested.values()]
        pending += [(inner, True) for inner in one.branches.values()]


def _facts(model: OmModel) -> Iterator[str]:
    n_ops = sum(len(graph.ops) for graph in model.graphs)
    yield f"model {model.name}: {n_ops} operators in {len(model.graphs)} graphs"
    if model.platform_version:
        yield f"platform {model.platform_version}"
    ports_bytes = model.zero_copy_size_bytes
    yield f"arena {model.memory_size_bytes} bytes, {ports_bytes} of them for inputs and outputs"
    yield f"weights {model.weights.size_bytes} bytes"
    yield f"{model.n_streams} streams, {model.n_events} events, {len(model.tasks.tasks)} tasks"
    for what, ports in (("input", model.inputs), ("output", model.outputs)):
        for port in ports:
            desc = OmTensor(port.dtype, port.shape, port.layout)
            ends = [f"{low}~{high}" if high != low else str(low) for low, high in port.ranges]
            between = f", sizes {', '.join(ends)}" if ends else ""
            yield f"{what} {port.name}: {desc}, {port.size_bytes} bytes{between}"
    yield from _gear_facts(model)
    if model.is_dynamic:
        yield f"shapes are dynamic; {len(model.submodels)} parts of known shape"


def _gear_facts(model: OmModel) -> Iterator[str]:
    """The gears that the interface names, each with its arena where gerules wrote the file."""
    interface = model.interface
    kinds = {
        "batch": [(size,) for size in interface.dynamic_batch],
        "hw": list(interface.dynamic_hw),
        "dims": list(interface.dynamic_dims),
    }
    stored = model.attrs.get(GEAR_BYTES)
    arenas = stored.items if isinstance(stored, OmList) else ()
    for kind, rows in kinds.items():
        for at, row in enumerate(rows):
            arena = f", arena {arenas[at]} bytes" if at < len(arenas) else ""
            yield f"gear {kind} {','.join(map(str, row))}{arena}"
        if rows and len(arenas) > len(rows):
            yield "gear any: a plan that runs any other shape"


class _Builder:
    """Turns the graphs of one model; a graph that several operators name is shown at the first."""

    def __init__(self, model: OmModel) -> None:
        self.model = model
        self.by_name = {graph.name: graph for graph in model.graphs}
        self.marks: dict[int, dict[str, Attr]] = {}
        self.shown = {model.root.name}
        self.n_graphs = 0

    def graph(self, source: OmGraph, depth: int) -> Graph:
        start = replace(empty_graph(source.name), next_id=self.n_graphs * _N_IDS)
        self.n_graphs += 1
        editor = GraphEditor(start)
        ops = _in_order(source)
        values = self.values(editor, ops)
        outputs: list[int] = []
        for op in ops:
            if op.type == "NetOutput":
                found = [self.read(values, edge) for edge in op.inputs]
                outputs += [value for value in found if value is not None]
            elif op.type != "Data" and not self.hold_constant(editor, values, op):
                self.node(editor, values, op, depth)
        if not outputs:
            found = [self.read(values, edge) for edge in source.outputs]
            outputs = [value for value in found if value is not None]
        editor.set_outputs(outputs)
        return editor.commit()

    def values(self, editor: GraphEditor, ops: Sequence[OmOp]) -> dict[tuple[str, int], int]:
        """Give each output of each operator a value; those of `Data` are the inputs, in their order."""
        values: dict[tuple[str, int], int] = {}
        entries = [op for op in ops if op.type == "Data"]
        entries.sort(key=_input_place)
        for op in entries:
            descs = op.output_descs or op.input_descs
            values[op.name, 0] = editor.add_input(_type(descs[0]) if descs else UNKNOWN, op.name)
        read = {(edge.producer, edge.index) for op in ops for edge in op.inputs if edge is not None}
        for op in ops:
            if op.type in ("Data", "NetOutput"):
                continue
            # Some tools leave out descriptions; what is read exists all the same.
            n_outputs = max(len(op.output_descs), int((op.name, 0) in read))
            for place in range(n_outputs):
                type = _type(op.output_descs[place]) if place < len(op.output_descs) else UNKNOWN
                name = op.name if n_outputs == 1 else f"{op.name}:{place}"
                values[op.name, place] = editor.add_value(type, name)
        return values

    def read(self, values: Mapping[tuple[str, int], int], edge: Edge | None) -> int | None:
        return None if edge is None else values.get((edge.producer, edge.index))

    def hold_constant(self, editor: GraphEditor, values: Mapping[tuple[str, int], int], op: OmOp) -> bool:
        """Take a constant operator's array into the graph, and say whether it was one that we can hold."""
        value = values.get((op.name, 0))
        found = self.constant(op) if op.type in ("Const", "Constant") and value is not None else None
        if found is None or value is None:
            return False
        type, const = found
        editor.values[value] = replace(editor.values[value], type=type)
        editor.consts[value] = const
        return True

    def constant(self, op: OmOp) -> tuple[TensorType, Const] | None:
        try:
            array = constant_array(op, self.model.weights)
        except OmError:
            return None  # an element type that gerules lacks, or bytes that are not in the file
        stored = Const(array)
        if not op.output_descs:
            return stored.type, stored
        type = _type(op.output_descs[0])
        try:
            if type.dtype is not stored.dtype or type.storage_shape != array.shape:
                return stored.type, stored
            shape = type.static_shape
            return type, Const(from_storage(array, shape, type.format, type.dtype, groups=type.groups))
        except ValueError:
            return stored.type, stored

    def node(self, editor: GraphEditor, values: Mapping[tuple[str, int], int], op: OmOp, depth: int) -> None:
        inputs = [self.read(values, edge) for edge in op.inputs]
        outputs = [values[key] for key in _keys(op, values)]
        bodies: dict[str, Body] = {}
        called: list[str] = []
        for name in op.subgraphs:
            if name in self.shown or depth >= _MAX_DEPTH or name not in self.by_name:
                called.append(name)
                continue
            self.shown.add(name)
            bodies[name] = Body(self.graph(self.by_name[name], depth + 1))
        node = editor.add_node(
            _op_name(op.type),
            inputs,
            outputs,
            dict(_attrs(op)),
            name="" if outputs and editor.values[outputs[0]].name == op.name else op.name,
            bodies=bodies or NO_BODIES,
            n_outputs=0,
        )
        marks = dict(_marks(op, self.model.n_streams > 0))
        if called:
            marks["calls"] = tuple(called)
        self.marks[node.id] = marks


def _keys(op: OmOp, values: Mapping[tuple[str, int], int]) -> Iterator[tuple[str, int]]:
    place = 0
    while (op.name, place) in values:
        yield op.name, place
        place += 1


def _in_order(graph: OmGraph) -> list[OmOp]:
    """Return the operators so that each comes after what it reads, as stored where that holds."""
    place = {op.name: at for at, op in enumerate(graph.ops)}
    missing = [0] * len(graph.ops)
    readers: dict[int, list[int]] = {}
    for at, op in enumerate(graph.ops):
        before = {edge.producer for edge in op.inputs if edge is not None} | set(op.control_inputs)
        for name in before:
            if name in place:
                readers.setdefault(place[name], []).append(at)
                missing[at] += 1
    ready = [at for at, count in enumerate(missing) if not count]
    heapify(ready)
    ordered: list[OmOp] = []
    while ready:
        at = heappop(ready)
        ordered.append(graph.ops[at])
        for reader in readers.get(at, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    if len(ordered) < len(graph.ops):
        stuck = next(op.name for at, op in enumerate(graph.ops) if missing[at])
        reason = f"{stuck!r} depends on itself, or on a circle of operators"
        raise OmError(table.OM_BAD_GRAPH, graph=graph.name, reason=reason)
    return ordered


def _input_place(op: OmOp) -> int:
    for key in ("_parent_node_index", "index"):
        place = op.attrs.get(key)
        if isinstance(place, int):
            return place
    return op.id


def _type(desc: OmTensor) -> TensorType:
    """The logical type where the file says one that fits what lies in memory, else the type in memory."""
    for type in _logical_types(desc):
        try:
            if not type.is_static or type.storage_shape == desc.shape:
                return type
        except ValueError:
            continue
    if not desc.is_shape_known or -2 in desc.shape:
        return TensorType(desc.ir_dtype or DType.UNKNOWN)
    shape = tuple(UNKNOWN_DIM if dim < 0 else dim for dim in desc.shape)
    return TensorType(desc.ir_dtype or DType.UNKNOWN, shape)


def _logical_types(desc: OmTensor) -> Iterator[TensorType]:
    type = tensor_type(desc)
    if type is None:
        return
    if type.rank != _RANKS.get(type.format, type.rank):
        type = type.with_format(Format.ND)  # a bias `@NHWC` is just a vector
    axes = _AXES.get(desc.origin_layout, ())
    if type.shape is not None and len(axes) == len(type.shape) and type.format not in _RANKS:
        # Blocked formats are laid out from N, C, H, W; other tools keep the order of their model.
        yield replace(type, shape=tuple(type.shape[axis] for axis in axes))
    yield type


def _op_name(type: str) -> str:
    domain, mark, name = type.rpartition("::")
    if mark and _WORD.fullmatch(domain.replace(".", "_")) and _WORD.fullmatch(name):
        return type
    return DOMAIN + (type if _WORD.fullmatch(type) else "_" + _NO_WORD.sub("_", type))


def _attrs(op: OmOp) -> Iterator[tuple[str, Attr]]:
    """What the operator computes with: what its prototype names; without one, all but bookkeeping."""
    wanted = set(op.prototype.attr_names) if op.prototype is not None and op.prototype.attr_names else None
    for name, value in op.attrs.items():
        if wanted is None:
            is_own = (
                name in _BOOKKEEPING or name.startswith("_") or name.endswith(("_kernelname", "_pattern"))
            )
        else:
            is_own = name not in wanted
        if is_own:
            continue
        shown = _attr(value)
        if shown is not None:
            yield name, shown


def _attr(value: OmAttr) -> Attr | None:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return _shortest(value)
    if isinstance(value, int | str | bytes):
        return value
    if isinstance(value, OmList):
        items = value.items
        match value.kind:
            case ListKind.INT | ListKind.BOOL:
                return tuple(int(item) for item in items if isinstance(item, int))
            case ListKind.FLOAT:
                return tuple(_shortest(item) for item in items if isinstance(item, float))
            case ListKind.TEXT:
                return tuple(item for item in items if isinstance(item, str))
            case _:
                return None
    return None


def _hides(desc: OmTensor) -> bool:
    """Whether the type as shown does not say how the tensor lies in memory."""
    format = desc.ir_format
    return format is not _type(desc).format and format not in _RANKS and format is not Format.ND


def _shortest(value: float) -> float:
    """Files hold floats of 32 bits: the fewest digits that read back to the same one."""
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    return float(str(narrow)) if float(narrow) == value else value


def _marks(op: OmOp, has_streams: bool) -> Iterator[tuple[str, Attr]]:
    for key in _ENGINE_KEYS:
        engine = op.attrs.get(key)
        if isinstance(engine, str) and engine:
            yield "engine", engine
            break
    if has_streams:
        yield "stream", op.stream_id
    if any(offset >= 0 for offset in op.output_offsets):
        yield "at", op.output_offsets[0] if len(op.output_offsets) == 1 else op.output_offsets
    if op.workspace:
        yield "workspace", tuple(item.offset_bytes for item in op.workspace)
    if op.control_inputs:
        yield "after", op.control_inputs
    layouts = tuple(desc.layout for desc in op.output_descs)
    if any(_hides(desc) for desc in op.output_descs):
        yield "layout", layouts[0] if len(layouts) == 1 else layouts
    if not _WORD.fullmatch(op.type) and "::" not in op.type:
        yield "op_type", op.type
