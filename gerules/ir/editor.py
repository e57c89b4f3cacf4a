"""The editor: the only writer of graphs. A private copy inside one stage, committed as a new snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from gerules.ir.graph import NO_ATTRS, NO_BODIES, NO_ORIGIN, Attr, Body, Const, Graph, Node, Origin, Value
from gerules.ir.types import UNKNOWN, ValueType

_SMALLEST_GAP: Final = 1e-6
"""Order keys closer than this are renumbered; a float has room for about 30 halvings of a gap of one."""

_NOBODY: Final[Mapping[int, int]] = {}


class CycleError(Exception):
    """A change would have made the graph cyclic; nothing was changed. For the engine, not for users."""


class GraphEditor:
    """A graph under change.

    Nodes carry order keys that are a topological order at all times, so that a new node costs the
    work around it and never a walk over the graph. Whoever passes `on_touch` is told each node whose
    inputs, readers or types changed.
    """

    def __init__(self, graph: Graph, on_touch: Callable[[int], None] | None = None) -> None:
        self._source = graph
        self.name = graph.name
        self.inputs: tuple[int, ...] = graph.inputs
        self.outputs: tuple[int, ...] = graph.outputs
        self.opsets: dict[str, int] = dict(graph.opsets)
        self.metadata: dict[str, str] = dict(graph.metadata)
        self.values: dict[int, Value] = dict(graph.values)
        self.nodes: dict[int, Node] = dict(graph.nodes)
        self.consts: dict[int, Const] = dict(graph.consts)
        self.defaults: dict[int, Const] = dict(graph.defaults)
        self.on_touch = on_touch
        self._next_id = graph.next_id
        self._producer: dict[int, Node] = {}
        self._readers: dict[int, dict[int, int]] = {}
        """How often each node reads a value."""
        self._key: dict[int, float] = {node: float(place) for place, node in enumerate(self.nodes)}
        self._top = float(len(self._key))
        self._output_count: dict[int, int] = {}
        for value in self.outputs:
            self._output_count[value] = self._output_count.get(value, 0) + 1
        producer, readers = self._producer, self._readers
        for node_id, node in self.nodes.items():
            for value in node.writes():
                producer[value] = node
            for value in node.reads():
                counts = readers.get(value)
                if counts is None:
                    readers[value] = {node_id: 1}
                else:
                    counts[node_id] = counts.get(node_id, 0) + 1
        self.producer: Callable[[int], Node | None] = producer.get
        """Returns the node that produces a value, or None for inputs, consts and captures."""

    # ------------------------------------------------------------ reading
    def readers(self, value: int) -> Collection[int]:
        """Return the ids of nodes that read a value; captures by bodies count, graph outputs do not."""
        return self._readers.get(value, _NOBODY)

    def n_uses(self, value: int) -> int:
        """Count how often a value is read, each input slot and each graph output once."""
        counts = self._readers.get(value)
        return (sum(counts.values()) if counts else 0) + self._output_count.get(value, 0)

    def is_read(self, value: int) -> bool:
        """Whether anything uses the value: a node, or the graph as an output."""
        return bool(self._readers.get(value)) or value in self._output_count

    def has_few_uses(self, value: int, most: int) -> bool:
        """Whether `n_uses` is at most so much. Cost: does not grow with the uses."""
        counts = self._readers.get(value)
        return not counts or (len(counts) <= most and self.n_uses(value) <= most)

    def is_output(self, value: int) -> bool:
        """Whether the value is an output of the graph."""
        return value in self._output_count

    def order_key(self, node: int) -> float:
        """Return the node's place in the topological order; comparable, not dense."""
        return self._key[node]

    # ------------------------------------------------------------ new parts
    def fresh_id(self) -> int:
        """Return an id that no value and no node has."""
        self._next_id += 1
        return self._next_id - 1

    def add_value(self, type: ValueType = UNKNOWN, name: str = "") -> int:
        """Add a value without producer and return its id."""
        value = self.fresh_id()
        self.values[value] = Value(value, name, type)
        return value

    def add_const(self, array: npt.NDArray[np.generic] | Const, name: str = "") -> int:
        """Add an initializer and return its value id."""
        const = array if isinstance(array, Const) else Const(array)
        value = self.add_value(const.type, name)
        self.consts[value] = const
        return value

    def add_input(self, type: ValueType, name: str, default: Const | None = None) -> int:
        """Add a graph input and return its value id."""
        value = self.add_value(type, name)
        self.inputs = (*self.inputs, value)
        if default is not None:
            self.defaults[value] = default
        return value

    def set_outputs(self, outputs: Sequence[int]) -> None:
        """Declare which values the graph returns."""
        self.outputs = tuple(outputs)
        self._output_count = {}
        for value in self.outputs:
            self._output_count[value] = self._output_count.get(value, 0) + 1

    def add_node(
        self,
        op: str,
        inputs: Sequence[int | None],
        outputs: Sequence[int | None] = (),
        attrs: Mapping[str, Attr] = NO_ATTRS,
        *,
        name: str = "",
        origin: Origin = NO_ORIGIN,
        bodies: Mapping[str, Body] = NO_BODIES,
        n_outputs: int = 1,
        before: int | None = None,
    ) -> Node:
        """Add one node and return it.

        Args:
            outputs: Value ids it produces; without any, `n_outputs` new values of unknown type are made.
            before: The node goes right before this one instead of at the end. Its inputs must be
                available there.
        """
        made = tuple(outputs) or tuple(self.add_value() for _ in range(n_outputs))
        node = Node(self.fresh_id(), op, _trim(inputs), made, attrs, name, origin, bodies)
        self.insert([node], before=before)
        return node

    def insert(self, nodes: Sequence[Node], *, before: int | None = None) -> None:
        """Insert nodes that are in topological order among themselves, at the end or before a node.

        Raises:
            CycleError: When an input is not available before that node. Nothing is changed then.
        """
        if before is None:
            for node in nodes:
                self._link(node, self._top + 1.0)
            return
        made = {value for node in nodes for value in node.writes()}
        reads = {v for node in nodes for v in node.reads() if v not in made}
        low = self._last_place(reads)
        if low >= self._key[before]:
            raise CycleError(before)
        if (self._key[before] - low) / (len(nodes) + 1) < _SMALLEST_GAP:
            self._renumber()
            low = self._last_place(reads)
        step = (self._key[before] - low) / (len(nodes) + 1)
        for place, node in enumerate(nodes, 1):
            self._link(node, low + step * place)

    # ------------------------------------------------------------ changes
    def substitute(
        self, remove: Iterable[int], nodes: Sequence[Node], forward: Mapping[int, int]
    ) -> Sequence[int]:
        """Replace a region in one step: remove nodes, insert others in their place, forward values.

        A new node may produce a value that a removed node produced: the value keeps its id, its name
        and its readers. `forward` maps a value that loses its producer to one that takes its readers.

        Args:
            remove: Nodes to delete.
            nodes: New nodes in topological order among themselves; they may read anything that does not
                depend on what they replace.
            forward: Old value to the value that replaces it.

        Returns:
            The nodes that read another value now.

        Raises:
            CycleError: When some new input depends on a replaced value. Nothing is changed then.
            ValueError: When nothing is replaced, or a graph output cannot be forwarded (see
                `replace_reads`). Nothing is changed then.

        Cost: proportional to the region, plus the nodes that have to move when several roots are replaced.
        """
        nodes_of = self.nodes
        gone = {node: nodes_of[node] for node in remove}
        made: set[int] = set()
        reads = set(forward.values())
        for node in nodes:
            made.update(node.writes())
            reads.update(node.reads())
        reads -= made
        roots = [
            node
            for node, record in gone.items()
            for value in record.outputs
            if value in made or value in forward
        ]
        if not roots:
            raise ValueError("a substitution replaces nothing")
        for old, new in forward.items():
            self._check_forward(old, new, made)
        key = self._key
        first = roots[0] if len(roots) == 1 else min(roots, key=key.__getitem__)
        low = self._last_place(reads)
        if low >= key[first]:
            self._hoist(reads, first, gone)
            low = self._last_place(reads)
        if nodes and (key[first] - low) / (len(nodes) + 1) < _SMALLEST_GAP:
            self._renumber()
            key = self._key
            low = self._last_place(reads)
        high = key[first]
        for node in gone:
            self._unlink(node)
        moved: list[int] = []
        if nodes:
            step = (high - low) / len(nodes)
            for place, node in enumerate(nodes, 1):
                self._link(node, high if place == len(nodes) else low + step * place)
        for old, new in forward.items():
            moved += self.replace_reads(old, new)
        for value in reads:
            self._touch_around(value)
        return moved

    def replace_reads(self, old: int, new: int) -> Collection[int]:
        """Let every reader of `old` (graph outputs and captures included) read `new` instead.

        A graph output keeps its name: when `old` is one, `new` must be produced by a node and be no
        output, and takes over `old`'s name.

        Returns:
            The nodes that read `old` before.

        Raises:
            ValueError: When `old` is a graph output and `new` cannot take its place.
        """
        if old == new:
            return ()
        self._check_forward(old, new, ())
        if old in self._output_count:
            self.outputs = tuple(new if value == old else value for value in self.outputs)
            self._output_count[new] = self._output_count.pop(old)
            taken, given = self.values[new], self.values[old]
            self.values[new] = Value(new, given.name, taken.type)
            self.values[old] = Value(old, taken.name, given.type)
        moved = self._readers.pop(old, None)
        if moved:
            taken_by = self._readers.setdefault(new, {})
            for reader, count in moved.items():
                node = self.nodes[reader]
                bodies = _recapture(node.bodies, old, new) if node.bodies else node.bodies
                inputs = _with_input(node.inputs, old, new)
                changed = self.nodes[reader] = Node(
                    reader, node.op, inputs, node.outputs, node.attrs, node.name, node.origin, bodies
                )
                for value in changed.writes():
                    self._producer[value] = changed
                taken_by[reader] = taken_by.get(reader, 0) + count
                self._touch(reader)
        self._touch_around(new)
        return moved or ()

    def replace_node(self, node: Node) -> None:
        """Put a changed record in the place of the node with the same id.

        Its new inputs must be available at its place.
        """
        key = self._key[node.id]
        self._unlink(node.id)
        self._link(node, key)

    def remove_node(self, node: int) -> None:
        """Delete a node; the values it produced stay without producer until committed."""
        self._unlink(node)

    def set_type(self, value: int, type: ValueType) -> None:
        """Record what is known of a value."""
        self.values[value] = Value(value, self.values[value].name, type)
        if self.on_touch is not None:
            for reader in self._readers.get(value, _NOBODY):
                self.on_touch(reader)

    def prune(self, has_effects: Callable[[Node], bool] = lambda _: False) -> int:
        """Delete nodes whose outputs nobody reads, and say how many; nodes with effects stay."""
        pending = list(self.nodes)
        n_removed = 0
        while pending:
            node_id = pending.pop()
            node = self.nodes.get(node_id)
            if node is None or has_effects(node) or any(self.is_read(v) for v in node.writes()):
                continue
            self._unlink(node_id)
            n_removed += 1
            pending += [p.id for v in node.reads() if (p := self._producer.get(v)) is not None]
        return n_removed

    def commit(self) -> Graph:
        """Return the new snapshot, nodes in topological order; values and consts nobody uses are dropped."""
        nodes = {node: self.nodes[node] for node in sorted(self.nodes, key=self._key.__getitem__)}
        used = dict.fromkeys(self.inputs)
        for node in nodes.values():
            used.update(dict.fromkeys(node.reads()))
            used.update(dict.fromkeys(node.writes()))
        used.update(dict.fromkeys(self.outputs))
        return Graph(
            self.name,
            self.inputs,
            self.outputs,
            {value: self.values[value] for value in used},
            nodes,
            {value: const for value, const in self.consts.items() if value in used},
            {value: const for value, const in self.defaults.items() if value in used},
            self.opsets,
            self.metadata,
            self._next_id,
        )

    # ------------------------------------------------------------ inside
    def _link(self, node: Node, key: float) -> None:
        node_id, touch = node.id, self.on_touch
        self.nodes[node_id] = node
        self._key[node_id] = key
        if key > self._top:
            self._top = key
        for value in node.writes():
            self._producer[value] = node
            if touch is not None:
                for reader in self._readers.get(value, _NOBODY):
                    touch(reader)
        for value in node.reads():
            counts = self._readers.get(value)
            if counts is None:
                self._readers[value] = {node_id: 1}
            else:
                counts[node_id] = counts.get(node_id, 0) + 1
        if touch is not None:
            touch(node_id)

    def _unlink(self, node_id: int) -> None:
        node = self.nodes.pop(node_id)
        del self._key[node_id]
        producer = self._producer
        for value in node.writes():
            maker = producer.get(value)
            if maker is not None and maker.id == node_id:
                del producer[value]
        for value in node.reads():
            counts = self._readers[value]
            if counts.pop(node_id, 0) and self.on_touch is not None:
                maker = producer.get(value)
                if maker is not None:
                    self.on_touch(maker.id)

    def _touch(self, node: int) -> None:
        if self.on_touch is not None:
            self.on_touch(node)

    def _touch_around(self, value: int) -> None:
        """A value gained or lost a reader: its producer's matches may have changed."""
        if self.on_touch is not None:
            producer = self._producer.get(value)
            if producer is not None:
                self.on_touch(producer.id)

    def _last_place(self, values: Iterable[int]) -> float:
        """The place of the last producer of some values; -1 when no node makes them."""
        low, producer, key = -1.0, self._producer, self._key
        for value in values:
            maker = producer.get(value)
            if maker is not None and key[maker.id] > low:
                low = key[maker.id]
        return low

    def _check_forward(self, old: int, new: int, made: Collection[int]) -> None:
        if old not in self._output_count:
            return
        if new in self._output_count or (new not in self._producer and new not in made):
            raise ValueError("the replacement of a graph output must be an inner value")

    def _renumber(self) -> None:
        ordered = sorted(self._key, key=self._key.__getitem__)
        self._key = {node: float(place) for place, node in enumerate(ordered)}
        self._top = float(len(ordered))

    def _hoist(self, values: Iterable[int], first: int, gone: Collection[int]) -> None:
        """Move what `values` need to before node `first`.

        Raises CycleError when they depend on a node of `gone`; nothing is changed then.
        """
        limit = self._key[first]
        pending = [
            p.id for v in values if (p := self._producer.get(v)) is not None and self._key[p.id] >= limit
        ]
        moving: set[int] = set()
        while pending:
            node = pending.pop()
            if node in moving:
                continue
            if node in gone:
                raise CycleError(node)
            moving.add(node)
            for value in self.nodes[node].reads():
                producer = self._producer.get(value)
                if producer is not None and self._key[producer.id] >= limit:
                    pending.append(producer.id)
        if not moving:
            return
        ordered = sorted(moving, key=self._key.__getitem__)
        if (limit - self._floor_of(moving)) / (len(moving) + 1) < _SMALLEST_GAP:
            self._renumber()
            limit = self._key[first]
        low = self._floor_of(moving)
        step = (limit - low) / (len(ordered) + 1)
        for place, node in enumerate(ordered, 1):
            self._key[node] = low + step * place

    def _floor_of(self, moving: set[int]) -> float:
        """The last place outside `moving` that some node of `moving` needs."""
        low = -1.0
        for node in moving:
            for value in self.nodes[node].reads():
                producer = self._producer.get(value)
                if producer is not None and producer.id not in moving:
                    low = max(low, self._key[producer.id])
        return low


def _trim(inputs: Sequence[int | None]) -> tuple[int | None, ...]:
    end = len(inputs)
    while end and inputs[end - 1] is None:
        end -= 1
    return tuple(inputs[:end])


def _with_input(inputs: tuple[int | None, ...], old: int, new: int) -> tuple[int | None, ...]:
    n_times = inputs.count(old)
    if n_times != 1:
        return tuple(new if value == old else value for value in inputs) if n_times else inputs
    place = inputs.index(old)
    return (*inputs[:place], new, *inputs[place + 1 :])


def _recapture(bodies: Mapping[str, Body], old: int, new: int) -> Mapping[str, Body]:
    return {
        name: replace(body, captures=tuple((new if o == old else o, i) for o, i in body.captures))
        for name, body in bodies.items()
    }
