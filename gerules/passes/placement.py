"""Placement: the engine of each node, by the device's order, by annotations, by what a fused body holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gerules.dsl.book import suggest
from gerules.errors import Faults, table
from gerules.ir import Graph, Node, ValueType
from gerules.passes.errors import PassError
from gerules.target import Device, Engine

_MOST_NAMES: Final = 5
"""Nodes that one fault names."""

_CONTROL: Final = frozenset({"If", "Loop", "Scan", "SequenceMap"})

Annotations = Mapping[int, Mapping[str, object]]
"""What rules say of nodes, by node id; `engine` is the name of an engine."""

BodyOf = Callable[[Node, Sequence[ValueType | None]], Graph | None]
"""What an operator computes, by its `define`; None when there is none."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The engine of each node of a graph, and why, where it is not the first that takes the operator."""

    engine_of: Mapping[int, str]
    reasons: Mapping[int, str] = field(default_factory=dict[int, str])
    bodies: Mapping[tuple[int, str], Placement] = field(
        default_factory=lambda: dict[tuple[int, str], "Placement"]()
    )


def place_nodes(
    graph: Graph,
    device: Device,
    *,
    annotations: Annotations | None = None,
    excluded: Collection[str] = (),
    body_of: BodyOf | None = None,
) -> Placement:
    """Give each node the engine with the smallest priority that has its operator and takes its types.

    An operator that no engine has, but that carries its body or has a definition, runs where most of
    that runs; not so when the device says that it lacks the operator.

    Args:
        annotations: An engine that a rule names is taken if it has the operator, whatever its types.
        excluded: Engines that are not used.
        body_of: Gives the definitions of operators.

    Raises:
        PassError: E50001 for each operator that nothing on the device takes, with the nodes that have
            it, and E50013 for each engine that the device does not have, all faults together.

    Cost: linear in nodes.
    """
    faults = Faults()
    known = {engine.name for engine in device.engines}
    for name in sorted(set(excluded) - known):
        _unknown_engine(name, device, faults)
    placer = Placer(device, frozenset(excluded), faults, body_of)
    found = placer.place(graph, annotations or {})
    placer.report_missing()
    faults.raise_if_any(PassError)
    return found


class Placer:
    """Finds engines; remembers what no engine has."""

    def __init__(
        self, device: Device, excluded: frozenset[str], faults: Faults, body_of: BodyOf | None = None
    ) -> None:
        self.device = device
        self.excluded = excluded
        self.faults = faults
        self.body_of = body_of
        self._by_meaning: dict[str, str | None] = {}
        self._engines: dict[str, list[Engine]] = {}
        self._missing: dict[str, list[Node]] = {}
        self._unknown: set[str] = set()

    def place(self, graph: Graph, annotations: Annotations) -> Placement:
        engine_of: dict[int, str] = {}
        reasons: dict[int, str] = {}
        bodies: dict[tuple[int, str], Placement] = {}
        for node in graph.nodes.values():
            # A body that only says what a fused operator computes is placed when no engine has the operator.
            engine, reason = self.engine(graph, node, annotations.get(node.id, {}))
            if node.bodies and (engine is None or node.op in _CONTROL):
                for name, body in node.bodies.items():
                    bodies[node.id, name] = self.place(body.graph, {})
                if engine is None and node.op not in _CONTROL:
                    engine = self.of_bodies([bodies[node.id, name] for name in node.bodies])
                    reason = "most of its body runs there"
            if engine is None and node.op not in _CONTROL and not node.bodies:
                engine, reason = self.of_definition(graph, node), "most of its definition runs there"
            if engine is None:
                self._missing.setdefault(node.op, []).append(node)
                continue
            engine_of[node.id] = engine
            if reason:
                reasons[node.id] = reason
        return Placement(engine_of, reasons, bodies)

    def engine(self, graph: Graph, node: Node, annotation: Mapping[str, object]) -> tuple[str | None, str]:
        """Return the engine of a node and why it is not the usual one; None when there is none."""
        candidates = self.candidates(node.op)
        wanted = annotation.get("engine")
        refused = ""
        if isinstance(wanted, str):
            if any(engine.name == wanted for engine in candidates):
                return wanted, "a rule places it there"
            refused = f"a rule places it on {wanted}, which does not have the operator"
            if all(engine.name != wanted for engine in self.device.engines) and wanted not in self._unknown:
                self._unknown.add(wanted)
                _unknown_engine(wanted, self.device, self.faults)
        inputs = [None if value is None else graph.type_of(value) for value in node.inputs]
        outputs = [graph.type_of(value) for value in node.writes()]
        for place, engine in enumerate(candidates):
            if engine.where is None or engine.where(node.op, inputs, outputs, node.attrs):
                return engine.name, refused or (f"{candidates[0].name} does not take it" if place else "")
        return None, ""

    def candidates(self, op: str) -> list[Engine]:
        found = self._engines.get(op)
        if found is None:
            found = [one for one in self.device.engines_of(op) if one.name not in self.excluded]
            self._engines[op] = found
        return found

    def of_bodies(self, bodies: list[Placement]) -> str | None:
        """Return the engine on which most nodes of bodies run; those that move no data do not count."""
        counts = Counter(engine for body in bodies for engine in body.engine_of.values())
        own = {engine.name: engine for engine in self.device.engines}
        best = sorted(
            counts, key=lambda name: (own[name].is_attached, -counts[name], own[name].priority, name)
        )
        return best[0] if best else None

    def of_definition(self, graph: Graph, node: Node) -> str | None:
        """Return the engine on which most of an operator's definition runs, judged by its first node.

        Definitions may use each other, not in a circle, so that this ends.
        """
        if node.op in self._by_meaning:
            return self._by_meaning[node.op]
        found: str | None = None
        if self.body_of is not None and not self.candidates(node.op) and not self.device.lacks(node.op):
            inputs = [None if value is None else graph.type_of(value) for value in node.inputs]
            body = self.body_of(node, inputs)
            if body is not None and all(self._has_engine(body, inner) for inner in body.nodes.values()):
                found = self.of_bodies([self.place(body, {})])
        self._by_meaning[node.op] = found
        return found

    def _has_engine(self, body: Graph, node: Node) -> bool:
        if self.engine(body, node, {})[0] is not None:
            return True
        return not node.bodies and self.of_definition(body, node) is not None

    def report_missing(self) -> None:
        for op, nodes in sorted(self._missing.items()):
            names = [_node_name(node) for node in nodes[:_MOST_NAMES]]
            more = f" and {len(nodes) - _MOST_NAMES} more" if len(nodes) > _MOST_NAMES else ""
            without = [one.name for one in self.device.engines_of(op) if one.name in self.excluded]
            have = self.candidates(op)
            if have:
                reason = "; ".join(
                    f"{engine.name} does not take it: {engine.reason}"
                    if engine.reason
                    else f"{engine.name} takes other types or shapes"
                    for engine in have
                )
                remedy = "cast or reshape its inputs, or choose another precision"
            elif without:
                reason = f"it needs {', '.join(without)}, excluded by option"
                remedy = "do not exclude the engine"
            else:
                reason = f"no engine of {self.device.name} has it"
                remedy = "decompose it with a rule, or add it to an engine of the device"
            self.faults.add(
                table.OPERATOR_NOT_SUPPORTED,
                place=", ".join(names) + more,
                op=op,
                n_nodes=len(nodes),
                reason=reason,
                remedy=remedy,
            )


def _unknown_engine(name: str, device: Device, faults: Faults) -> None:
    known = [engine.name for engine in device.engines]
    faults.add(
        table.UNKNOWN_ENGINE,
        device=device.name,
        engine=name,
        known=", ".join(known),
        notes=suggest(name, known),
    )


def _node_name(node: Node) -> str:
    return ", ".join(node.origin.sources) or node.name or f"#{node.id}"
