"""What questions about a compile name: a target, rules, nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from gerules.dsl import RuleBook
from gerules.dsl.book import suggest
from gerules.dsl.syntax import Rule
from gerules.dsl.values import Value
from gerules.engine.reasons import sources_of
from gerules.errors import table
from gerules.ir import Dim, Graph, Node
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.toolchain import RuleInput, Toolchain, make_toolchain

_MOST_READERS: Final = 4
"""Readers of a value that are named."""


class Target(TypedDict, total=False):
    """What to compile for, and with which rules; each as in `gerules.compile`."""

    device: str
    precision: str | None
    profile: str | None
    rules: Sequence[RuleInput]
    enable: Sequence[str]
    disable: Sequence[str]
    input_shapes: Mapping[str, Sequence[Dim]] | None
    dims: Mapping[str, int] | None
    keep_dtype: Sequence[str]
    params: Mapping[str, Value]
    pipeline: str


def options_of(target: Target) -> CompileOptions:
    """Return the options of a compile for a target."""
    return CompileOptions(
        device=target.get("device", "host"),
        precision=target.get("precision"),
        profile=target.get("profile"),
        enable=tuple(target.get("enable", ())),
        disable=tuple(target.get("disable", ())),
        params=dict(target.get("params", {})),
        pipeline=target.get("pipeline", "default"),
        input_shapes=target.get("input_shapes"),
        dims=target.get("dims"),
        keep_dtype=tuple(target.get("keep_dtype", ())),
    )


def toolchain_of(book: RuleBook, graph: Graph, options: CompileOptions) -> Toolchain:
    """Return the toolchain that a compile with these options makes for itself."""
    return make_toolchain(
        book,
        graph.opsets,
        device=options.device,
        precision=options.precision,
        profile=options.profile,
        enable=options.enable,
        disable=options.disable,
        params=options.params,
        keep_dtype=options.keep_dtype,
    )


def find_rules(book: RuleBook, name: str) -> tuple[Rule, ...]:
    """Return the rule of a name, or all that an alias stands for. Raises PipelineError E40052."""
    if name in book.rule_by_name:
        return (book.rule_by_name[name],)
    if name in book.rules_by_alias:
        return tuple(book.rules_by_alias[name])
    known = [*book.rule_by_name, *book.rules_by_alias]
    raise PipelineError(table.UNKNOWN_RULE, name=name, notes=suggest(name, known))


def check_node(name: str, graphs: Sequence[Graph]) -> None:
    """Raise PipelineError E10006, with the nearest name, unless a node or value of some graph has it."""
    known: dict[str, None] = {}
    for graph in graphs:
        for item in all_nodes(graph):
            known.update(dict.fromkeys(item))
    if name not in known:
        value = find_value(name, graphs)
        notes = suggest(name, known) if value is None else [f"{name} is {value}"]
        raise PipelineError(table.UNKNOWN_NODE, name=name, notes=notes)


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A value that no node makes: an input of a graph, or a constant."""

    graph: Graph
    id: int

    def __str__(self) -> str:
        what = "a constant" if self.id in self.graph.consts else "an input"
        readers = [names[0] for node in self.readers() if (names := names_of_node(node, self.graph))]
        named = ", ".join(readers[:_MOST_READERS])
        more = f" and {len(readers) - _MOST_READERS} more" if len(readers) > _MOST_READERS else ""
        return f"{what}, {self.graph.type_of(self.id)}, read by {named or 'no node'}{more}"

    def readers(self) -> list[Node]:
        """Return the nodes that read it, in order."""
        return [node for node in self.graph.nodes.values() if self.id in node.reads()]


def find_value(name: str, graphs: Sequence[Graph]) -> FoundValue | None:
    """Return the first input or constant of that name; bodies included."""
    pending = [*graphs][::-1]
    while pending:
        graph = pending.pop()
        made = {value for node in graph.nodes.values() for value in node.writes()}
        for id, value in graph.values.items():
            if value.name == name and id not in made and (id in graph.consts or id in graph.inputs):
                return FoundValue(graph, id)
        pending += [body.graph for node in graph.nodes.values() for body in node.bodies.values()]
    return None


def all_nodes(graph: Graph) -> Iterator[tuple[str, ...]]:
    """Yield the names of every node, its own and those of what it came from and makes; bodies included."""
    pending = [graph]
    while pending:
        inner = pending.pop()
        for node in inner.nodes.values():
            yield names_of_node(node, inner)
            pending += [body.graph for body in node.bodies.values()]


def names_of_node(node: Node, graph: Graph) -> tuple[str, ...]:
    """Return what a node may be called: its name, its sources, the values it makes."""
    made = [graph.values[value].name for value in node.writes()]
    return tuple(name for name in dict.fromkeys([node.name, *sources_of(node), *made]) if name)
