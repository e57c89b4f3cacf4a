"""TransData: chosen formats written into types, and the conversions between those that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gerules.ir import Format, Graph, GraphEditor, Node, Origin
from gerules.passes.format_costs import TRANSDATA, FormatState, in_format, steps_between

PHASE: Final = "formats"

_WEIGHTS: Final = frozenset({Format.FRACTAL_Z, Format.FRACTAL_Z_3D})


def insert_conversions(
    graph: Graph, state: FormatState, wanted: Mapping[int, Format]
) -> tuple[Graph, tuple[int, float]]:
    """Give every value its format and insert one TransData for each value and format.

    Args:
        state: The option of each node.
        wanted: Formats of values that something besides nodes reads: graph outputs, captures.

    Returns:
        The new graph; the number of conversions and what they cost in microseconds.
    """
    writer = _Writer(graph, state, wanted)
    found = writer.write()
    return found, (writer.n_conversions, writer.took_us)


class _Writer:
    """Writes the chosen formats into types, and inserts the conversions."""

    def __init__(self, graph: Graph, state: FormatState, wanted: Mapping[int, Format]) -> None:
        self.graph = graph
        self.state = state
        self.wanted = wanted
        self.editor = GraphEditor(graph)
        self.versions: dict[tuple[int, Format, int], int] = {}
        # What the graph returns or a body captures is read as it lies.
        self.homes = {value: (Format.ND, 1) for value in wanted if value in graph.consts}
        self.n_conversions = 0
        self.took_us = 0.0

    def write(self) -> Graph:
        for value in self.graph.inputs:
            self.keep(value, self.state.made.get(value, Format.ND))
        nodes = self.graph.node_list()
        for place, node in enumerate(nodes):
            option = self.state.option[node.id]
            inputs = [
                None if value is None else self.version(node, value, option.inputs[slot])
                for slot, value in enumerate(node.inputs)
            ]
            outputs = list(node.outputs)
            restored: list[tuple[int, int, Format]] = []
            for slot, value in enumerate(node.outputs):
                if value is None:
                    continue
                format = option.outputs[slot]
                target = self.wanted.get(value, format)
                if target is not format:
                    outputs[slot] = self.aside(value, format)
                    restored.append((value, outputs[slot] or 0, format))
                else:
                    self.keep(value, format)
            if tuple(inputs) != node.inputs or tuple(outputs) != node.outputs:
                self.editor.replace_node(replace(node, inputs=tuple(inputs), outputs=tuple(outputs)))
            after = nodes[place + 1].id if place + 1 < len(nodes) else None
            for value, inner, format in restored:
                self.restore(value, inner, format, self.wanted.get(value, Format.ND), after)
        return self.editor.commit()

    def keep(self, value: int, format: Format) -> None:
        """Let a value be produced in a format."""
        if format is not Format.ND:
            self.editor.set_type(value, in_format(self.graph.type_of(value), format, 1))
        self.versions[value, format, 1] = value

    def aside(self, value: int, format: Format) -> int:
        """Return a new value for what a node makes, where the old one is wanted in another format."""
        type = in_format(self.graph.type_of(value), format, 1)
        inner = self.editor.add_value(type, f"{self.graph.values[value].name}_{format.name}")
        self.versions[value, format, 1] = inner
        return inner

    def restore(self, value: int, inner: int, format: Format, target: Format, after: int | None) -> None:
        steps = steps_between(format, target)
        source = inner
        for place, (one, two) in enumerate(steps):
            is_last = place == len(steps) - 1
            source = self.convert(value, source, one, two, 1, after, value if is_last else None)
            self.versions[value, two, 1] = source
        if target is not Format.ND:
            self.editor.set_type(value, in_format(self.graph.type_of(value), target, 1))

    def version(self, node: Node, value: int, format: Format) -> int:
        """Return a value in a format, through conversions that are made once."""
        groups = _groups_of(node) if format in _WEIGHTS else 1
        found = self.versions.get((value, format, groups))
        if found is not None:
            return found
        const = self.graph.consts.get(value)
        if const is not None:
            found = self.constant(value, format, groups)
        else:
            made = self.state.made.get(value, Format.ND)
            found = self.versions.get((value, made, 1), value)
            for one, two in steps_between(made, format):
                own = groups if two is format else 1
                known = self.versions.get((value, two, own))
                found = (
                    known if known is not None else self.convert(value, found, one, two, own, node.id, None)
                )
                self.versions[value, two, own] = found
        self.versions[value, format, groups] = found
        return found

    def constant(self, value: int, format: Format, groups: int) -> int:
        """Return a constant in a format: itself for the first one asked for, a copy for others."""
        record = self.graph.values[value]
        home = self.homes.setdefault(value, (format, groups))
        if home == (format, groups):
            self.editor.set_type(value, in_format(record.type, format, groups))
            return value
        made = self.editor.add_const(self.graph.consts[value], f"{record.name}_{format.name}")
        self.editor.set_type(made, in_format(record.type, format, groups))
        return made

    def convert(
        self,
        value: int,
        source: int,
        one: Format,
        two: Format,
        groups: int,
        before: int | None,
        output: int | None,
    ) -> int:
        record = self.graph.values[value]
        made = output
        if made is None:
            made = self.editor.add_value(in_format(record.type, two, groups), f"{record.name}_{two.name}")
        producer = self.graph.producer.get(value)
        sources = () if producer is None else self.graph.nodes[producer].origin.sources
        attrs = {"src_format": one.name, "dst_format": two.name, "groups": groups}
        self.editor.add_node(
            TRANSDATA, [source], [made], attrs, origin=Origin(sources, (), PHASE), before=before
        )
        self.n_conversions += 1
        self.took_us += self.state.conversion_us(record.type, one, two)
        return made


def _groups_of(node: Node) -> int:
    for name in ("group", "groups"):
        value = node.attrs.get(name)
        if isinstance(value, int):
            return value
    return 1
