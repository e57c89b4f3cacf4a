"""Steps of an offline model: one for each launch, its arguments bound to their places once, at loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gerules.backend.lower import IN_PLACE_OPS, PLAIN, base_op
from gerules.backend.nested import is_fused
from gerules.errors import table
from gerules.ir import Attr, Graph, Node, TensorType, ValueType
from gerules.runtime.control_flow import CONTROL_FLOW
from gerules.runtime.feeds import Item
from gerules.runtime.interpreter import Interpreter, opset_of
from gerules.runtime.kernels import Array, RunError, has_kernel, run_into, run_kernel
from gerules.runtime.rebuild import PlacedGraph
from gerules.runtime.slots import Slot, arena_slot, const_slot, heap_slot

Action = Callable[[], None]

_SINGLE_DEPTH: Final = 16
"""Definitions that are another definition's only operator."""


class Binder:
    """Binds graphs to places: slots for their values, actions for their nodes.

    Everything it makes works on `arena`; nothing is looked up while a model runs.
    """

    def __init__(self, arena: npt.NDArray[np.uint8], interpreter: Interpreter) -> None:
        self._arena = arena
        self._interpreter = interpreter

    def slots(self, placed: PlacedGraph, outer: Mapping[int, Slot]) -> dict[int, Slot]:
        """Return the places of all values of a graph; `outer` gives those of inputs that are the caller's."""
        graph = placed.graph
        found: dict[int, Slot] = dict(outer)
        for value, const in graph.consts.items():
            found[value] = const_slot(const, graph.type_of(value), placed.stored.get(value), self._arena)
        for value, record in graph.values.items():
            if value in found:
                continue
            offset = placed.offsets.get(value)
            if offset is not None and isinstance(record.type, TensorType):
                found[value] = arena_slot(record.type, self._arena, offset)
            else:
                found[value] = heap_slot(record.type, self._arena)
        return found

    def bind(self, placed: PlacedGraph, node: Node, slots: Mapping[int, Slot], opset: int) -> Action:
        """Return what a launch of a node does; it raises RunError as `Interpreter.run_node`."""
        inner = placed.nested.get(node.id)
        if inner is not None and is_fused(node):
            return self._fused(inner, node, slots, opset)
        inputs = [None if value is None else slots[value] for value in node.inputs]
        outputs = [None if value is None else slots[value] for value in node.outputs]
        single = self._single(placed.graph, node, opset)
        if single is None:
            return self._by_meaning(placed.graph, node, inputs, outputs, slots, opset)
        op, attrs, places, version = single
        chosen = [None if place is None else inputs[place] for place in places]
        stored = _in_storage(op, chosen, outputs)
        if stored is not None:
            return _kernel_on(op, attrs, stored[0], stored[1], version)
        return _kernel(op, attrs, chosen, outputs, version)

    def _fused(self, inner: PlacedGraph, node: Node, slots: Mapping[int, Slot], opset: int) -> Action:
        """The nodes of a body one after the other, their values in the workspace of the node."""
        body = node.bodies["body"]
        graph = body.graph
        absent = heap_slot(TensorType(), self._arena)
        outer = {inside: slots[outside] for outside, inside in body.captures}
        for at, value in enumerate(graph.inputs):
            given = node.inputs[at] if at < len(node.inputs) else None
            outer[value] = absent if given is None else slots[given]
        found = self.slots(inner, outer)
        version = opset_of(graph, opset)
        actions = [self.bind(inner, item, found, version) for item in graph.nodes.values()]
        moves = [
            (found[value], slots[made])
            for value, made in zip(graph.outputs, node.outputs, strict=False)
            if made is not None and not _is_same_place(found[value], slots[made])
        ]

        def run() -> None:
            for action in actions:
                action()
            for source, target in moves:
                target.write(source.read(), node.op)

        return run

    def _single(
        self, graph: Graph, node: Node, opset: int
    ) -> tuple[str, Mapping[str, Attr], list[int | None], int] | None:
        """The one kernel a node comes down to: its name, attributes, which inputs it takes, its version."""
        places: list[int | None] = [None if value is None else at for at, value in enumerate(node.inputs)]
        if node.bodies or node.op in CONTROL_FLOW:
            return None
        for _ in range(_SINGLE_DEPTH):
            if has_kernel(node.op, opset=opset):
                return node.op, node.attrs, places, opset
            inner = self._definition(graph, node)
            if inner is None or len(inner.nodes) != 1 or inner.consts:
                return None
            (item,) = inner.nodes.values()
            if item.bodies or inner.outputs != item.outputs:
                return None
            formals = {value: at for at, value in enumerate(inner.inputs)}
            taken = [None if value is None else formals.get(value, -1) for value in item.inputs]
            if -1 in taken:
                return None
            places = [None if at is None else places[at] for at in taken]
            graph, node, opset = inner, item, opset_of(inner, opset)
        return None

    def _definition(self, graph: Graph, node: Node) -> Graph | None:
        types: list[ValueType | None] = []
        for value in node.inputs:
            type = None if value is None else graph.type_of(value)
            if isinstance(type, TensorType):
                # What an operator computes does not depend on how the device keeps its inputs.
                type = TensorType(type.dtype, type.shape)
            types.append(type)
        return self._interpreter.expand(graph, node, types)

    def _by_meaning(
        self,
        graph: Graph,
        node: Node,
        inputs: Sequence[Slot | None],
        outputs: Sequence[Slot | None],
        slots: Mapping[int, Slot],
        opset: int,
    ) -> Action:
        """Whatever has bodies or a definition of several operators: on the heap, results to their places."""
        interpreter = self._interpreter
        captured = {value: slots[value] for value in node.captured()}

        def run() -> None:
            given = [None if slot is None else slot.read() for slot in inputs]
            scope: dict[int, Item] = {value: slot.read() for value, slot in captured.items()}
            results = interpreter.run_node(graph, node, given, scope, opset)
            for slot, result in zip(outputs, results, strict=False):
                if slot is not None:
                    slot.write(result, node.op)

        return run


def _kernel(
    op: str,
    attrs: Mapping[str, Attr],
    inputs: Sequence[Slot | None],
    outputs: Sequence[Slot | None],
    opset: int,
) -> Action:
    """A kernel on logical arrays; the first result goes straight to its place where that is possible."""
    n_outputs = len(outputs)
    first = outputs[0] if outputs else None
    target = first.fixed if first is not None and not first.is_const else None
    rest = outputs[1:] if target is not None else outputs

    def write(results: Sequence[Array]) -> None:
        if len(results) < len(rest):
            raise RunError(table.KERNEL_REFUSED, op=op, reason=f"it gives {len(results)} results fewer")
        for slot, result in zip(rest, results, strict=False):
            if slot is not None:
                slot.write(result, op)

    if all(slot is None or slot.fixed is not None for slot in inputs):
        fixed = [None if slot is None else slot.fixed for slot in inputs]
        if target is not None and n_outputs == 1:

            def run_fixed() -> None:
                run_into(op, fixed, attrs, target, opset=opset)

            return run_fixed

        def arguments() -> list[Array | None]:
            return fixed

    else:

        def arguments() -> list[Array | None]:
            # Sequences and absent optionals pass through kernels as they are.
            return cast("list[Array | None]", [None if slot is None else slot.read() for slot in inputs])

    def run() -> None:
        if target is not None:
            write(run_into(op, arguments(), attrs, target, opset=opset, n_outputs=n_outputs)[1:])
        else:
            write(run_kernel(op, arguments(), attrs, opset=opset, n_outputs=n_outputs))

    return run


def _kernel_on(
    op: str, attrs: Mapping[str, Attr], inputs: list[Array | None], out: Array, opset: int
) -> Action:
    """An element-wise kernel on arrays as they are stored, padding included."""

    def run() -> None:
        run_into(op, inputs, attrs, out, opset=opset)

    return run


def _in_storage(
    op: str, inputs: Sequence[Slot | None], outputs: Sequence[Slot | None]
) -> tuple[list[Array | None], Array] | None:
    """Arguments and place of an element-wise operator that need not know the format, or None.

    All tensors have one type but for single elements, which are the same in every layout.
    """
    made = outputs[0] if len(outputs) == 1 else None
    if made is None or made.storage is None or base_op(op) not in IN_PLACE_OPS:
        return None
    type = made.type
    assert isinstance(type, TensorType)
    if type.format in PLAIN:
        return None
    found: list[Array | None] = []
    for slot in inputs:
        if slot is None:
            found.append(None)
            continue
        other = slot.type
        if not isinstance(other, TensorType) or other.shape is None:
            return None
        alike = (other.shape, other.format, other.groups) == (type.shape, type.format, type.groups)
        if alike and slot.storage is not None:
            found.append(slot.storage)
        elif slot.fixed is not None and slot.fixed.size == 1 and slot.fixed.ndim <= 1:
            found.append(slot.fixed)
        else:
            return None
    # With C0 counted in bytes, another element type may be laid out otherwise.
    if any(array is not None and array.size != 1 and array.shape != made.storage.shape for array in found):
        return None
    return found, made.storage


def _is_same_place(one: Slot, two: Slot) -> bool:
    if one is two:
        return True
    if one.storage is None or two.storage is None or one.type != two.type:
        return False
    here, there = one.storage.__array_interface__["data"], two.storage.__array_interface__["data"]
    return here == there
