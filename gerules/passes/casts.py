"""Casts: a graph in the element types that a precision mode chose, one Cast for each value and type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gerules.errors import GerulesError
from gerules.ir import (
    UNKNOWN,
    Attr,
    Body,
    Const,
    DType,
    Graph,
    GraphEditor,
    Node,
    Origin,
    TensorType,
    ValueType,
)
from gerules.ops import OpSchema, infer, split_op
from gerules.passes.narrow import narrow_const
from gerules.passes.precision_choice import Choice

PHASE: Final = "precision"
_LOWER: Final = {DType.F32: DType.F16, DType.F64: DType.F32}
_CASTS: Final = {"Cast": "to", "ge::Cast": "dst_type"}
_AS_IT_IS: Final = frozenset({*_CASTS, "Shape", "ge::Shape", "Size"})
"""Operators that take any element type and give another one: nothing is cast for them."""
_CONTROL: Final = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def convert_graph(
    shared: Choice,
    graph: Graph,
    *,
    keeps_border: bool,
    entry: Mapping[int, ValueType] | None = None,
    opsets: Mapping[str, int] | None = None,
) -> Graph:
    """Convert one graph and its bodies.

    Args:
        shared: What says of each node whether it is lowered; its report is filled.
        keeps_border: Whether the outputs keep their types.
        entry: New types of inputs and captures.
        opsets: Versions of operators, where a body does not say them itself.
    """
    return _GraphConversion(shared, graph, entry or {}, opsets or graph.opsets).run(keeps_border)


class _GraphConversion:
    """The conversion of one graph: where each value is now, in which types."""

    def __init__(
        self,
        shared: Choice,
        graph: Graph,
        entry: Mapping[int, ValueType],
        opsets: Mapping[str, int],
    ) -> None:
        self.shared = shared
        self.graph = graph
        self.opsets = opsets
        self.editor = GraphEditor(graph)
        for value, type in entry.items():
            self.editor.set_type(value, type)
        self.old = {id: value.type for id, value in graph.values.items()}
        self.at: dict[int, int] = {}
        """The value that now stands for one whose Cast has become needless."""
        self.versions: dict[tuple[int, DType], int] = {}
        self.cast_op = "ge::Cast" if shared.device.has("ge") else "Cast"

    def run(self, keeps_border: bool) -> Graph:
        nodes = self.graph.node_list()
        for place, node in enumerate(nodes):
            after = nodes[place + 1] if place + 1 < len(nodes) else None
            if node.bodies:
                self.with_bodies(node)
            elif self.concerns(node):
                self.node(node)
            elif any(value in self.at for value in node.inputs):
                self.put(node, [self.now(value) for value in node.inputs], None)
            if keeps_border:
                for value in node.writes():
                    if value in self.graph.output_set:
                        self.restore(node.id, value, after)
        return self.editor.commit()

    # ------------------------------------------------------------ nodes
    def concerns(self, node: Node) -> bool:
        """Whether a node has to do with floating-point numbers that a mode may change."""
        values = [value for value in (*node.inputs, *node.outputs) if value is not None]
        return any(_dtype(self.old[value]) in _LOWER for value in values)

    def node(self, node: Node) -> None:
        cast_attr = _CASTS.get(node.op)
        wants_low = self.shared.wants_low(node, self.follows(node))
        if cast_attr is not None and self.cast(node, cast_attr, wants_low):
            return
        if node.op in _AS_IT_IS:
            self.put(node, [self.now(value) for value in node.inputs], None)
            return
        if self.packs(node):
            self.shared.report.reasons[node.id] = "it packs tensors, or unpacks them"
            self.keep(node)
            return
        if wants_low or self.shared.mode == "allow_fp32_to_fp16":
            if not wants_low and self.shared.is_supported(node, self.types(node.inputs), self.outputs(node)):
                self.keep(node)
                return
            if self.lower(node):
                return
            self.shared.report.reasons[node.id] = "nothing on the device takes it in float16"
        self.keep(node)

    def packs(self, node: Node) -> bool:
        """Whether a node has to do with sequences, optionals or maps: what is in them keeps its type."""
        values = (*node.inputs, *node.outputs)
        return any(value is not None and not isinstance(self.old[value], TensorType) for value in values)

    def follows(self, node: Node) -> bool:
        """Whether all predecessors that compute in floating point do so in float16."""
        found = [
            self.dtype(value)
            for value in node.inputs
            if value is not None and value not in self.graph.consts and _dtype(self.old[value]).is_float
        ]
        return bool(found) and all(dtype in (DType.F16, DType.BF16) for dtype in found)

    def keep(self, node: Node) -> None:
        """Give a node its inputs in the types the model has."""
        inputs = [
            None if value is None else self.version(value, _dtype(self.old[value]), node.id)
            for value in node.inputs
        ]
        self.put(node, inputs, None)
        self.shared.report.n_kept += 1

    def lower(self, node: Node) -> bool:
        """Let a node compute in lower types, if some way to do so is known to be sound."""
        schema = self.shared.schemas.get(node.op, self.opset(node))
        for wanted in self.ways(node, schema):
            inputs = [
                None if value is None else _with_dtype(self.old[value], wanted.get(place))
                for place, value in enumerate(node.inputs)
            ]
            attrs = _lowered_attrs(node)
            changed = replace(node, attrs=attrs) if attrs is not node.attrs else node
            outputs = self.results(changed, inputs, schema)
            if outputs is None or not self.shared.is_supported(changed, inputs, outputs):
                continue
            given = [
                None
                if value is None
                else self.version(value, wanted.get(place, _dtype(self.old[value])), node.id)
                for place, value in enumerate(node.inputs)
            ]
            self.put(changed, given, outputs)
            self.shared.report.n_low += 1
            return True
        return False

    def ways(self, node: Node, schema: OpSchema | None) -> Iterable[Mapping[int, DType]]:
        """Yield which inputs to give in which type, best first."""
        lowered = {
            place: low
            for place, value in enumerate(node.inputs)
            if value is not None
            and (low := _LOWER.get(_dtype(self.old[value]))) is not None
            and _accepts(schema, place, low)
        }
        yield lowered
        # Numbers beside the data (scales, thresholds) may have to stay as they are.
        data = {place: low for place, low in lowered.items() if node.inputs[place] not in self.graph.consts}
        if data and data != lowered:
            yield data

    def results(
        self, node: Node, inputs: Sequence[ValueType | None], schema: OpSchema | None
    ) -> list[ValueType] | None:
        """Return the output types of a node that is given other input types; None when it cannot be."""
        old = self.outputs(node)
        if schema is None and self.shared.extra is None:
            return [_with_dtype(type, _LOWER.get(_dtype(type))) for type in old]
        consts = [
            None if value is None or _dtype(type or UNKNOWN) is not _dtype(self.old[value]) else const
            for value, type in zip(node.inputs, inputs, strict=True)
            for const in [self.graph.consts.get(value) if value is not None else None]
        ]
        try:
            found = infer(
                node,
                inputs,
                consts,
                self.shared.schemas,
                self.opset(node),
                extra=self.shared.extra,
            )
        except GerulesError:
            return None
        out: list[ValueType] = []
        for place, type in enumerate(old):
            dtype = _dtype(found[place]) if place < len(found) else DType.UNKNOWN
            was = _dtype(type)
            if dtype not in (was, _LOWER.get(was), DType.UNKNOWN):
                return None
            out.append(_with_dtype(type, _LOWER.get(was) if dtype is DType.UNKNOWN else dtype))
        return out

    def cast(self, node: Node, attr: str, wants_low: bool) -> bool:
        """Convert a Cast of the model; one that changes nothing any more is left out."""
        value, output = node.inputs[0], node.outputs[0]
        to = node.attrs.get(attr)
        if value is None or output is None or not isinstance(to, DType):
            return False
        target = _LOWER.get(to, to) if wants_low else to
        source = self.now(value)
        if source is not None and self.dtype(value) is target and output not in self.graph.output_set:
            self.at[output] = source
            self.versions[output, target] = source
            self.editor.remove_node(node.id)
            return True
        changed = node if target is to else replace(node, attrs={**node.attrs, attr: target})
        self.put(changed, [source], [_with_dtype(self.old[output], target)])
        return True

    # ------------------------------------------------------------ bodies
    def with_bodies(self, node: Node) -> None:
        """Convert inside: between borders that keep their types, or with the types that come in."""
        is_open = node.op not in _CONTROL and not self.shared.kept.holds(node)
        inputs: list[int | None] = []
        for value in node.inputs:
            if value is None or is_open:
                inputs.append(self.now(value))
            else:
                inputs.append(self.version(value, _dtype(self.old[value]), node.id))
        bodies: dict[str, Body] = {}
        for name, body in node.bodies.items():
            captures = tuple(
                (
                    self.now(outer) or outer
                    if is_open
                    else self.version(outer, _dtype(self.old[outer]), node.id),
                    inner,
                )
                for outer, inner in body.captures
            )
            entry = {inner: self.editor.values[outer].type for outer, inner in captures}
            if is_open:
                given = zip(body.graph.inputs, inputs, strict=False)
                entry |= {
                    inner: self.editor.values[outer].type for inner, outer in given if outer is not None
                }
            kept = self.shared.kept.holds(node)
            inside = (
                body.graph
                if kept
                else convert_graph(
                    self.shared, body.graph, keeps_border=not is_open, entry=entry, opsets=self.opsets
                )
            )
            bodies[name] = Body(inside, captures)
        outputs: list[ValueType] | None = None
        if is_open and (main := bodies.get("body")) is not None:
            made = [main.graph.type_of(value) for value in main.graph.outputs]
            outputs = [
                _with_dtype(type, _dtype(new)) for type, new in zip(self.outputs(node), made, strict=False)
            ]
        self.put(replace(node, bodies=bodies), inputs, outputs)

    # ------------------------------------------------------------ values
    def now(self, value: int | None) -> int | None:
        """Return the value that stands for one now."""
        return None if value is None else self.at.get(value, value)

    def dtype(self, value: int) -> DType:
        """Return the element type that a value has now."""
        return _dtype(self.editor.values[self.at.get(value, value)].type)

    def types(self, values: Iterable[int | None]) -> list[ValueType | None]:
        return [None if value is None else self.old[value] for value in values]

    def outputs(self, node: Node) -> list[ValueType]:
        return [UNKNOWN if value is None else self.old.get(value, UNKNOWN) for value in node.outputs]

    def opset(self, node: Node) -> int:
        return self.opsets.get(split_op(node.op)[0], 0) or self.shared.schemas.latest_opset

    def version(self, value: int, dtype: DType, before: int) -> int:
        """Return a value in an element type, through a Cast (made once) or a converted constant."""
        current = self.at.get(value, value)
        if dtype is DType.UNKNOWN or self.dtype(value) is dtype:
            return current
        found = self.versions.get((value, dtype))
        if found is None:
            const = self.editor.consts.get(current)
            if const is not None:
                found = self.converted(current, const, dtype)
            else:
                found = self.cast_node(current, dtype, before)
            self.versions[value, dtype] = found
        return found

    def converted(self, value: int, const: Const, dtype: DType) -> int:
        record, report = self.editor.values[value], self.shared.report
        narrow = narrow_const(const, dtype)
        report.n_converted_consts += 1
        if narrow.n_saturated:
            report.saturated.append(record.name)
        if narrow.n_raised:
            report.raised.append(record.name)
        made = self.editor.add_const(narrow.const, f"{record.name}_{dtype}")
        self.editor.set_type(made, _with_dtype(record.type, dtype))
        return made

    def cast_node(self, value: int, dtype: DType, before: int | None, output: int | None = None) -> int:
        record = self.editor.values[value]
        made = output
        if made is None:
            made = self.editor.add_value(_with_dtype(record.type, dtype), f"{record.name}_{dtype}")
        producer = self.editor.producer(value)
        sources = () if producer is None else producer.origin.sources
        self.editor.add_node(
            self.cast_op,
            [value],
            [made],
            {_CASTS[self.cast_op]: dtype},
            origin=Origin(sources, (), PHASE),
            before=before,
        )
        self.shared.report.n_casts += 1
        return made

    def put(self, node: Node, inputs: Sequence[int | None], outputs: Sequence[ValueType] | None) -> None:
        """Store a node with other inputs and output types."""
        known = self.editor.nodes[node.id]
        changed = replace(node, inputs=tuple(inputs))
        if changed != known:
            self.editor.replace_node(changed)
        if outputs is not None:
            for value, type in zip(node.outputs, outputs, strict=False):
                if value is not None and self.editor.values[value].type != type:
                    self.editor.set_type(value, type)

    # ------------------------------------------------------------ the border
    def restore(self, node_id: int, value: int, after: Node | None) -> None:
        """Give a graph output its type back, through a Cast."""
        node = self.editor.nodes.get(node_id)
        old, new = self.old[value], self.editor.values[value].type
        if node is None or old == new:
            return
        inner = self.editor.add_value(new, f"{self.editor.values[value].name}_{_dtype(new)}")
        outputs = tuple(inner if one == value else one for one in node.outputs)
        self.editor.replace_node(replace(node, outputs=outputs))
        self.editor.set_type(value, old)
        self.cast_node(inner, _dtype(old), None if after is None else after.id, value)
        self.at[value] = inner
        self.versions[value, _dtype(old)] = value


def _dtype(type: ValueType) -> DType:
    return type.dtype if isinstance(type, TensorType) else DType.UNKNOWN


def _with_dtype(type: ValueType, dtype: DType | None) -> ValueType:
    if dtype is None or not isinstance(type, TensorType) or type.dtype is dtype:
        return type
    return type.with_dtype(dtype)


def _accepts(schema: OpSchema | None, place: int, dtype: DType) -> bool:
    """Whether the parameter at a place takes an element type, as far as the schema says."""
    if schema is None or not schema.inputs:
        return True
    param = schema.inputs[min(place, len(schema.inputs) - 1)]
    return param.dtypes is None or dtype in param.dtypes


def _lowered_attrs(node: Node) -> Mapping[str, Attr]:
    """Return attributes with the element types of what a node makes out of nothing lowered."""
    if node.op == "ConstantOfShape":
        value = node.attrs.get("value", _ZERO)
        if isinstance(value, Const) and value.dtype in _LOWER:
            return {**node.attrs, "value": narrow_const(value, _LOWER[value.dtype]).const}
        return node.attrs
    dtype = node.attrs.get("dtype")
    if isinstance(dtype, DType) and dtype in _LOWER:
        return {**node.attrs, "dtype": _LOWER[dtype]}
    return node.attrs


_ZERO: Final = Const(np.zeros(1, np.float32))
"""What ConstantOfShape repeats unless it says otherwise."""
