"""Formats: a storage format for every tensor, and TransData where producer and reader differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gerules.errors import Faults
from gerules.ir import Body, Format, Graph, Node
from gerules.passes.format_choice import Region, choose_options
from gerules.passes.format_costs import FormatState
from gerules.passes.format_options import Option, OptionTable, applies
from gerules.passes.placement import Placer
from gerules.passes.transdata import insert_conversions
from gerules.target import CostModel, Device, Kernel

_NO_KERNELS: Final[list[Kernel]] = []
_CONTROL: Final = frozenset({"If", "Loop", "Scan", "SequenceMap"})


@dataclass(slots=True)
class FormatReport:
    """What format choice did.

    `reasons` says for each value that is not plain, and for each plain one that a kernel would have in
    blocks, why; by value id. `conversions_us` is what all TransData are expected to take.
    """

    n_transdata: int = 0
    conversions_us: float = 0.0
    regions: list[Region] = field(default_factory=list[Region])
    reasons: dict[int, str] = field(default_factory=dict[int, str])
    bodies: list[FormatReport] = field(default_factory=lambda: list[FormatReport]())


def choose_formats(
    graph: Graph,
    device: Device,
    *,
    costs: CostModel | None = None,
    borders: Mapping[str, Format] | None = None,
) -> tuple[Graph, FormatReport]:
    """Choose a storage format for every tensor by the device's kernel tables, and insert TransData.

    Logical shapes stay, the format is part of a value's type. Kernels of fixed formats come first;
    regions between them that take any format are given the one that costs least, kernels and
    conversions counted. There is one TransData for each value and format. A constant has its format
    in its type and is laid out when the model is written; used in two formats it is there twice. What
    has an unknown size, or a rank that the format does not have, stays plain.

    Args:
        costs: What work costs; by default those of the device, without bodies of fused operators.
        borders: Formats of graph inputs and outputs by name; they are plain otherwise.

    Cost: linear in nodes and edges.
    """
    chooser = _Chooser(device, costs or CostModel(device))
    return chooser.choose(graph, borders or {})


class _Chooser:
    def __init__(self, device: Device, model: CostModel) -> None:
        self.device = device
        self.model = model
        self.placer = Placer(device, frozenset(), Faults())
        self.options = OptionTable()
        self._kernels: dict[tuple[str, str], list[Kernel]] = {}

    def choose(self, graph: Graph, borders: Mapping[str, Format]) -> tuple[Graph, FormatReport]:
        report = FormatReport()
        graph = self.with_bodies(graph, report)
        # What a body captures is read as it lies.
        captured = {value for node in graph.nodes.values() for value in node.captured()}
        given = {value: self.border(graph, value, borders, captured) for value in graph.inputs}
        wanted = {value: self.border(graph, value, borders, captured) for value in graph.outputs}
        wanted |= dict.fromkeys(captured, Format.ND)
        kernels = {node.id: self.kernels(graph, node) for node in graph.nodes.values()}
        alike: dict[int, int] = {}
        options: dict[int, list[Option]] = {}
        for node in graph.nodes.values():
            alike[node.id], options[node.id] = self.options.find(graph, node, kernels[node.id])
        state = FormatState(graph, self.model, given, alike)
        for value, format in wanted.items():
            state.need(value, format)
        report.regions = choose_options(graph, options, state)
        _explain(graph, kernels, state, report)
        found, written = insert_conversions(graph, state, wanted)
        report.n_transdata, report.conversions_us = written
        return found, report

    def with_bodies(self, graph: Graph, report: FormatReport) -> Graph:
        """Choose formats inside of the bodies of control flow; their borders are plain."""
        changed: dict[int, Node] = {}
        for node in graph.nodes.values():
            if not node.bodies or node.op not in _CONTROL:
                continue
            bodies: dict[str, Body] = {}
            for name, body in node.bodies.items():
                inner, inner_report = self.choose(body.graph, {})
                bodies[name] = replace(body, graph=inner)
                report.bodies.append(inner_report)
            changed[node.id] = replace(node, bodies=bodies)
        if not changed:
            return graph
        return replace(graph, nodes={id: changed.get(id, node) for id, node in graph.nodes.items()})

    def border(
        self, graph: Graph, value: int, borders: Mapping[str, Format], captured: Collection[int]
    ) -> Format:
        record = graph.values[value]
        if value in captured:
            return Format.ND
        format = borders.get(record.name, Format.ND)
        return format if applies(record.type, format) else Format.ND

    def kernels(self, graph: Graph, node: Node) -> list[Kernel]:
        """Return the kernels of the engine that a node would run on."""
        engine = self.placer.engine(graph, node, {})[0]
        if engine is None or node.bodies:
            return _NO_KERNELS
        key = engine, node.op
        found = self._kernels.get(key)
        if found is None:
            found = [kernel for kernel in self.device.kernels_of(node.op) if kernel.engine == engine]
            self._kernels[key] = found
        return found


def _explain(
    graph: Graph,
    kernels: Mapping[int, list[Kernel]],
    state: FormatState,
    report: FormatReport,
) -> None:
    reason_of: dict[int, str] = {}
    for region in report.regions:
        reason_of |= dict.fromkeys(region.nodes, region.reason)
    for node in graph.nodes.values():
        region_reason = reason_of.get(node.id)
        for value in node.writes():
            if region_reason is not None:
                report.reasons[value] = region_reason
            elif state.made[value] is not Format.ND:
                report.reasons[value] = f"{node.op} has kernels for this format only"
            elif kernels[node.id] and _has_blocks(kernels[node.id]):
                report.reasons[value] = f"{node.op} computes in blocks, but not with these sizes and types"


def _has_blocks(kernels: list[Kernel]) -> bool:
    return all(
        any(isinstance(port.format, Format) and port.format is not Format.ND for port in kernel.inputs)
        for kernel in kernels
    )
