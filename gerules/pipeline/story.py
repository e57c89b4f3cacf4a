"""Stories: which rules made a node of the compiled model, from which nodes of the model as it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Unpack

from gerules.dsl import RuleBook
from gerules.engine.index import Feature
from gerules.engine.reasons import sources_of
from gerules.engine.witness import Applied, Sighting, When
from gerules.ir import Graph, Node
from gerules.pipeline.api import Model, graph_of
from gerules.pipeline.asking import (
    FoundValue,
    Target,
    all_nodes,
    check_node,
    find_value,
    names_of_node,
    options_of,
)
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.compiler import LAST_STAGES, compile_graph, stage_names
from gerules.pipeline.toolchain import shipped_rules


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite. Nodes are told as `name: op`; `inexact` says why results may round otherwise."""

    phase: str
    rule: str
    doc: str
    inexact: str
    graph: str
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return the step as plain values."""
        return {
            "phase": self.phase,
            "rule": self.rule,
            "doc": self.doc,
            "inexact": self.inexact,
            "graph": self.graph,
            "removed": list(self.removed),
            "added": list(self.added),
        }


@dataclass(frozen=True, slots=True)
class Story:
    """How a node came to be, or what became of it.

    Attributes:
        origins: Nodes of the model as read that it began with, as `name: op`.
        steps: The rewrites, in order.
        fates: What happened to nodes outside of rules: folded, merged, dropped; by `name: op`.
        finals: The nodes of the compiled model that stand for it, as `name: op`; those that read an input or
            a constant.
        value: What an input or a constant is; empty for a node.
    """

    model: str
    device: str
    precision: str
    node: str
    origins: tuple[str, ...]
    steps: tuple[Step, ...]
    fates: Mapping[str, str]
    finals: tuple[str, ...]
    value: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the story as plain values."""
        return {
            "model": self.model,
            "device": self.device,
            "precision": self.precision,
            "node": self.node,
            "origins": list(self.origins),
            "steps": [step.as_json() for step in self.steps],
            "fates": dict(self.fates),
            "finals": list(self.finals),
            "value": self.value,
        }


@dataclass(slots=True)
class RewriteListener:
    """A witness of rewrites alone."""

    applied: list[Applied] = field(default_factory=list[Applied])

    def wants(self, rule: str) -> bool:
        return False

    def see(self, sighting: Sighting) -> None:
        pass

    def lack(self, rule: str, graph: str, feature: Feature, when: When) -> None:
        pass

    def apply(self, applied: Applied) -> None:
        self.applied.append(applied)


def why(model: Model, node: str, **target: Unpack[Target]) -> Story:
    """Say which rules made a node, and from what.

    The compile runs up to the last phase of rules.

    Args:
        node: A node of the model as read, of the compiled one or of any stage between, by its own name or
            by that of a value it makes; or an input or a constant, which is told with its readers.

    Raises:
        PipelineError: E10006 for an unknown node.
        GerulesError: what the compile raises.
    """
    book, options = shipped_rules(target.get("rules", ())), options_of(target)
    graph = graph_of(model, book)
    stages = [name for name in stage_names(book, options.pipeline) if name not in LAST_STAGES]
    listener = RewriteListener()
    done = compile_graph(graph, book, replace(options, stop_after=stages[-1]), witness=listener)
    graphs = [graph, *(stage.graph for stage in done.stages)]
    value = find_value(node, graphs)
    if value is not None and not any(node in names for graph in graphs for names in all_nodes(graph)):
        now = done.graph
        known = value.id in now.consts or value.id in now.inputs
        readers = FoundValue(now, value.id).readers() if known and value.graph in graphs else []
        finals = tuple(_told(item, now) for item in readers)
        return Story(
            graph.name, done.tools.device.name, done.tools.precision, node, (), (), {}, finals, str(value)
        )
    check_node(node, graphs)
    chain, ids = _follow(node, graphs, listener.applied)
    origins = [item for item in graph.nodes.values() if item.id in ids]
    inner = [item for item in _inner_nodes(graph) if node == item.name]
    finals = [
        item
        for item in done.graph.nodes.values()
        if item.id in ids or (not _is_own(node, done.graph, graph) and node in sources_of(item))
    ]
    return Story(
        graph.name,
        done.tools.device.name,
        done.tools.precision,
        node,
        tuple(_told(item, graph) for item in (*origins, *inner)),
        tuple(_step(item, book) for item in chain),
        dict(_fates(origins, done, chain)),
        tuple(_told(item, done.graph) for item in finals),
    )


def _is_own(name: str, final: Graph, source: Graph) -> bool:
    """Whether a name is that of a node which only the compiled model has."""
    return not any(name in names_of_node(item, source) for item in source.nodes.values()) and any(
        name == item.name for item in final.nodes.values()
    )


def _follow(name: str, graphs: Sequence[Graph], applied: Sequence[Applied]) -> tuple[list[Applied], set[int]]:
    """Return the rewrites that a node went through or came from, and the ids of all nodes on the way."""
    outer = [item for item in applied if not item.graph]
    source = graphs[0]
    start = {item.id for item in source.nodes.values() if name in _own_names(item, source)}
    if not start:
        start = {
            item.id
            for graph in graphs[1:]
            for item in graph.nodes.values()
            if name in _own_names(item, graph)
        }
        start |= {item.id for one in outer for item in one.added if item.name == name}
    ids, chain = set(start), set[int]()
    for place, one in enumerate(outer):
        gone = {item.id for item in one.removed} or {item.id for item in one.matched}
        if gone & ids:
            chain.add(place)
            ids |= {item.id for item in one.added}
    for place in range(len(outer) - 1, -1, -1):
        one = outer[place]
        if any(item.id in ids for item in one.added):
            chain.add(place)
            ids |= {item.id for item in one.removed}
    found = [one for place, one in enumerate(outer) if place in chain]
    found += [one for one in applied if one.graph and name in one.application.sources]
    return found, ids


def _own_names(node: Node, graph: Graph) -> tuple[str, ...]:
    return (node.name, *(graph.values[value].name for value in node.writes()))


def _inner_nodes(graph: Graph) -> Iterator[Node]:
    pending = [body.graph for node in graph.nodes.values() for body in node.bodies.values()]
    while pending:
        inner = pending.pop()
        yield from inner.nodes.values()
        pending += [body.graph for node in inner.nodes.values() for body in node.bodies.values()]


def _step(one: Applied, book: RuleBook) -> Step:
    record = one.application
    rule = book.rule_by_name[record.rule]
    inexact = rule.inexact_reason if rule.is_inexact else ""
    return Step(record.phase, record.rule, rule.doc, inexact, one.graph, record.removed, record.added)


def _fates(origins: Sequence[Node], done: Compilation, chain: Sequence[Applied]) -> Iterator[tuple[str, str]]:
    """Yield what happened to nodes of the model that no rule of the chain took away."""
    taken = {item.id for one in chain for item in one.removed}
    for node in origins:
        if node.id in taken or node.id in done.graph.nodes:
            continue
        for stage in done.stages:
            if node.id not in stage.graph.nodes:
                yield _told(node, done.source), _fate(node, stage.name, stage.graph)
                break


def _fate(node: Node, stage: str, after: Graph) -> str:
    if any(value in after.consts for value in node.writes()):
        return f"folded to a constant in {stage}"
    if stage == "prepare":
        return f"removed in {stage}: its result is known, merged with an equal one, or read by nobody"
    return f"removed in {stage}: nobody reads what it makes any more"


def _told(node: Node, graph: Graph) -> str:
    names = [name for name in _own_names(node, graph) if name]
    return f"{names[0] if names else f'%{node.id}'}: {node.op}"
