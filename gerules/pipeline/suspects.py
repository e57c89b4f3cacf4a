"""Suspects: what a compile did that may have changed numbers, by names that other compiles share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gerules.engine.witness import Applied
from gerules.ir import Graph, Node
from gerules.passes.casts import PHASE as PRECISION
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.ledger import Entry

Key = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]
"""An application of a rule: rule, phase, path of the graph, nodes of the model, and values replaced."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """One thing that may be left out of a compile.

    Attributes:
        kind: An application of a rule, or the lowering of nodes to a narrower element type.
        rule, phase, graph: Of an application; `graph` is the path of bodies that leads to it.
        sources: The nodes of the model that it concerns.
        values: The values of the model that got a new producer.
        keeps: Of a lowering, the names that `keep_dtype` needs: one for each node.
    """

    kind: Literal["rule", "lowered"]
    sources: tuple[str, ...]
    rule: str = ""
    phase: str = PRECISION
    graph: str = ""
    values: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What an application is known by."""
        return (self.rule, self.phase, self.graph, self.sources, self.values)

    @property
    def site(self) -> str:
        """Where it happened: what it replaced, or else the last node that it concerns."""
        return self.values[0] if self.values else self.sources[-1] if self.sources else ""

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "kind": self.kind,
            "rule": self.rule,
            "phase": self.phase,
            "graph": self.graph,
            "sources": list(self.sources),
            "values": list(self.values),
            "keep_dtype": list(self.keeps),
        }


class Rewrite(Protocol):
    """What proposals and applications have in common."""

    @property
    def rule(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def graph(self) -> str: ...
    @property
    def sources(self) -> tuple[str, ...]: ...
    @property
    def replaced(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Names:
    """The names that a model has before any rule. Those that rules make up differ between compiles."""

    nodes: frozenset[str]
    values: frozenset[str]

    def key_of(self, rewrite: Rewrite) -> Key:
        """Return what a rewrite is known by in every compile of the model."""
        sources = tuple(name for name in rewrite.sources if name in self.nodes)
        values = tuple(name for name in rewrite.replaced if name in self.values)
        return (rewrite.rule, rewrite.phase, rewrite.graph, sources, values)


def names_of(graph: Graph) -> Names:
    """Return the names of a graph, bodies included."""
    nodes: set[str] = set()
    values: set[str] = set()
    pending = [graph]
    while pending:
        inner = pending.pop()
        values.update(value.name for value in inner.values.values())
        for node in inner.nodes.values():
            nodes.update((node.name, *node.origin.sources))
            pending += [body.graph for body in node.bodies.values()]
    return Names(frozenset(nodes - {""}), frozenset(values - {""}))


@dataclass(frozen=True)
class Suspects:
    """All suspects of one compile, in the order in which they happened.

    `needs` says, by place in `all`, which others made what one works on.
    """

    all: tuple[Suspect, ...]
    needs: tuple[frozenset[int], ...]
    maker: Mapping[int, int]
    """By node of the outermost graph, the application that made it."""

    def closed(self, places: Iterable[int]) -> frozenset[int]:
        """Return suspects with all that they need."""
        found: set[int] = set()
        pending = list(places)
        while pending:
            place = pending.pop()
            if place not in found:
                found.add(place)
                pending += self.needs[place]
        return frozenset(found)

    def tops(self, places: Collection[int]) -> list[int]:
        """Return those that none of the others needs, in order."""
        needed = {place for one in places for place in self.closed([one]) - {one}}
        return sorted(set(places) - needed)

    def ranked(self, entries: Iterable[Entry], felt: Mapping[int, float]) -> list[int]:
        """Return the places of all suspects, those first whose nodes add the largest error that is felt.

        A node that was lowered counts for its lowering; what made it comes along, for it is needed. Any
        other counts for the rule that made it and for those before it, first to last: a rule may have
        handed on what an earlier one spoiled.

        Args:
            felt: By node, how much of the error of its result comes through to an output.
        """
        scores = dict.fromkeys(range(len(self.all)), 0.0)
        group = {
            name: place
            for place, item in enumerate(self.all)
            if item.kind == "lowered"
            for name in item.sources
        }
        for entry in entries:
            if entry.cause in ("lowered", "cast"):
                places = {group[name] for name in entry.sources if name in group}
            else:
                places = {self.maker[entry.node_id]} if entry.node_id in self.maker else set[int]()
            for place in places:
                scores[place] += min(max(0.0, entry.added), felt[entry.node_id])
        for place in reversed(range(len(self.all))):
            for earlier in self.needs[place] if self.all[place].kind == "rule" else ():
                if self.all[earlier].kind == "rule":
                    scores[earlier] = max(scores[earlier], scores[place])
        return sorted(scores, key=lambda place: (-scores[place], place))


def find_suspects(
    compiled: Compilation, applied: Sequence[Applied], common: Collection[Key] = ()
) -> Suspects:
    """Return everything a compile did that may have changed numbers.

    Applications of rules without `rewrite` change none. Alike ones (of one rule at one site) are one suspect.

    Args:
        common: Applications that are beyond suspicion.
    """
    names = names_of(compiled.source)
    return _Finder(compiled, names).find(applied, frozenset(common))


class _Finder:
    def __init__(self, compiled: Compilation, names: Names) -> None:
        self.names = names
        self.rules = compiled.tools.book.rule_by_name
        self.suspects: list[Suspect] = []
        self.needs: list[set[int]] = []
        self.place_of: dict[Key, int] = {}
        self.maker: dict[tuple[str, int], int] = {}
        self.group_of: dict[str, int] = {}
        """The lowering that each node of the model is in."""
        stages = [stage.name for stage in compiled.stages]
        at = stages.index(PRECISION) if PRECISION in stages else len(stages)
        self.before = frozenset(stages[:at])
        self.graphs = None
        if 0 < at < len(stages):
            self.graphs = compiled.stages[at - 1].graph, compiled.stages[at].graph

    def find(self, applied: Sequence[Applied], common: frozenset[Key]) -> Suspects:
        early = [item for item in applied if item.application.phase in self.before]
        for item in early:
            self.rewrite(item, common)
        if self.graphs is not None:
            self.lowerings(*self.graphs)
        for item in applied[len(early) :]:
            self.rewrite(item, common)
        needs = tuple(frozenset(found - {place}) for place, found in enumerate(self.needs))
        outer = {node: place for (graph, node), place in self.maker.items() if not graph}
        return Suspects(tuple(self.suspects), needs, outer)

    def add(self, suspect: Suspect) -> int:
        self.suspects.append(suspect)
        self.needs.append(set())
        return len(self.suspects) - 1

    def rewrite(self, item: Applied, common: frozenset[Key]) -> None:
        key = self.names.key_of(item.application)
        rule, phase, graph, sources, values = key
        if key in common or not self.rules[rule].rewrite:
            return
        place = self.place_of.get(key)
        if place is None:
            suspect = Suspect("rule", sources, rule, phase, graph, values)
            place = self.place_of[key] = self.add(suspect)
        for node in (*item.matched, *item.removed):
            made = self.maker.get((graph, node.id))
            if made is not None:
                self.needs[place].add(made)
            if phase not in self.before:
                groups = (self.group_of.get(name) for name in self.held_names(node))
                self.needs[place].update(group for group in groups if group is not None)
        for node in item.added:
            self.maker[graph, node.id] = place

    def held_names(self, node: Node) -> list[str]:
        """The names of the model by which `keep_dtype` reaches a node."""
        return [name for name in (*node.origin.sources, node.name) if name in self.names.nodes]

    def lowerings(self, before: Graph, after: Graph) -> None:
        """Add one suspect for all nodes that share a node of the model: they can only be kept together."""
        lowered = [node for node in before.nodes.values() if _is_changed(node, before, after)]
        leader: dict[str, str] = {}

        def find(name: str) -> str:
            while leader.setdefault(name, name) != name:
                name = leader[name]
            return name

        for node in lowered:
            names = self.held_names(node)
            for name in names[1:]:
                leader[find(name)] = find(names[0])
        groups: dict[str, list[Node]] = {}
        for node in lowered:
            if names := self.held_names(node):
                groups.setdefault(find(names[0]), []).append(node)
        for nodes in groups.values():
            sources = tuple(dict.fromkeys(name for node in nodes for name in self.held_names(node)))
            keeps = tuple(dict.fromkeys(self.held_names(node)[-1] for node in nodes))
            place = self.add(Suspect("lowered", sources, keeps=keeps))
            self.group_of.update(dict.fromkeys(sources, place))
            made = (self.maker.get(("", node.id)) for node in nodes)
            self.needs[place].update(one for one in made if one is not None)


def _is_changed(node: Node, before: Graph, after: Graph) -> bool:
    """Whether the precision pass has changed the types that a node reads or makes, or what it does inside."""
    now = after.nodes.get(node.id)
    if now is None or any(now.bodies[name].graph is not body.graph for name, body in node.bodies.items()):
        return True
    return _types(node, before) != _types(now, after)


def _types(node: Node, graph: Graph) -> list[object]:
    return [
        None if value is None else graph.type_of(value)
        for value in (*node.inputs, *node.captured(), *node.outputs)
    ]
