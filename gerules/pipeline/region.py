"""Regions: nodes of a model chosen by name, what goes in and out, and whether a rule could replace them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gerules.dsl.book import suggest
from gerules.engine.reasons import called
from gerules.errors import table
from gerules.ir import Graph, Node
from gerules.pipeline.errors import PipelineError

BETWEEN: Final = ".."
"""What stands between two nodes to mean all nodes on the paths from one to the other."""


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes of one graph, in its order.

    `inputs` are values that they read and do not make, constants among them, in the order of reading;
    `outputs` values that others read, or that are outputs of the graph; `inner` are all others they make and
    read.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    inner: tuple[int, ...]


def select_region(graph: Graph, names: Sequence[str]) -> Region:
    """Return the region that names choose: `a..b` is what lies on the paths from a to b, `a,b` are two nodes.

    A node is called by its own name or by a value that it makes.

    Raises:
        PipelineError: E10006 for a name that no node has, E10008 for one that several have or that is inside
            of a body, for two nodes without a path between them, for nodes with bodies, and for a region
            that a path leaves and enters again.

    Cost: linear in the graph.
    """
    chosen: set[int] = set()
    finder = _Finder(graph)
    for text in names:
        if text.strip():
            chosen |= finder.nodes(text.strip())
    nodes = tuple(node for node in graph.nodes.values() if node.id in chosen)
    if not nodes:
        raise refusal("none are named", "name some: --nodes first..last")
    for node in nodes:
        if node.bodies:
            raise refusal(
                f"{node.op} {called(node, graph.values)} has a body, and a rule never spans two graphs",
                "choose nodes before it, behind it, or inside of one body",
            )
    _check_convex(graph, nodes)
    made = {value for node in nodes for value in node.writes()}
    read = dict.fromkeys(value for node in nodes for value in node.reads())
    outputs = [value for value in made if _is_read_outside(graph, value, chosen)]
    order = {value: place for place, value in enumerate(v for node in nodes for v in node.writes())}
    outputs.sort(key=order.__getitem__)
    inner = [value for value in order if value in read and value not in outputs]
    if not outputs:
        raise refusal("nobody reads what they make", "choose nodes that something depends on")
    return Region(
        graph, nodes, tuple(value for value in read if value not in made), tuple(outputs), tuple(inner)
    )


def refusal(reason: str, remedy: str) -> PipelineError:
    """Return the fault of a region that no rule can be drafted from."""
    return PipelineError(table.CANNOT_DRAFT, reason=reason, remedy=remedy)


def _is_read_outside(graph: Graph, value: int, inside: set[int]) -> bool:
    return value in graph.output_set or any(item not in inside for item in graph.readers.get(value, ()))


class _Finder:
    """Looks up nodes by the names that people know them by."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._named: dict[str, set[int]] = {}
        self._making: dict[str, set[int]] = {}
        for node in graph.nodes.values():
            if node.name:
                self._named.setdefault(node.name, set()).add(node.id)
            for value in node.writes():
                if graph.values[value].name:
                    self._making.setdefault(graph.values[value].name, set()).add(node.id)

    def nodes(self, text: str) -> set[int]:
        """The nodes that one text means; a name may hold dots and commas itself."""
        if self._is_known(text):
            return {self._node(text)}
        at = text.find(BETWEEN)
        while at >= 0:
            first, last = text[:at].strip(), text[at + len(BETWEEN) :].strip()
            if self._is_known(first) and self._is_known(last):
                return self._between(first, last)
            at = text.find(BETWEEN, at + 1)
        if BETWEEN in text:
            first, _, last = text.partition(BETWEEN)
            return self._between(first.strip(), last.strip())
        if "," in text:
            return {node for part in text.split(",") for node in self.nodes(part.strip())}
        return {self._node(text)}

    def _is_known(self, name: str) -> bool:
        return name in self._named or name in self._making

    def _node(self, name: str) -> int:
        found = self._named.get(name) or self._making.get(name)
        if not found:
            for owner, inside in _bodies(self._graph):
                if name in inside:
                    raise refusal(
                        f"{name} is inside of {owner}", "a rule is drafted from nodes of the outermost graph"
                    )
            raise PipelineError(
                table.UNKNOWN_NODE, name=name, notes=suggest(name, [*self._named, *self._making])
            )
        if len(found) > 1:
            makes = [
                self._graph.values[value].name
                for node in sorted(found)
                for value in self._graph.nodes[node].writes()
            ]
            raise refusal(
                f"{len(found)} nodes are called {name}",
                f"call it by a value that it makes: {', '.join(filter(None, makes))}",
            )
        return next(iter(found))

    def _between(self, first: str, last: str) -> set[int]:
        graph, start, end = self._graph, self._node(first), self._node(last)
        ahead = _reach([start], lambda node: _readers(graph, node))
        back = _reach([end], lambda node: _makers(graph, node))
        both = ahead & back
        if not both:
            other = _reach([end], lambda node: _readers(graph, node))
            hint = f"write {last}..{first}" if start in other else "name the nodes one by one: --nodes a,b,c"
            raise refusal(f"no path leads from {first} to {last}", hint)
        return both


def _readers(graph: Graph, node: int) -> Iterable[int]:
    return [reader for value in graph.nodes[node].writes() for reader in graph.readers.get(value, ())]


def _makers(graph: Graph, node: int) -> Iterable[int]:
    return [graph.producer[value] for value in graph.nodes[node].reads() if value in graph.producer]


def _reach(start: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    found: set[int] = set()
    pending = list(start)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += step(node)
    return found


def _bodies(graph: Graph) -> Iterable[tuple[str, set[str]]]:
    """For each node with bodies, what to call it and the names inside, of deeper bodies too."""
    for node in graph.nodes.values():
        names: set[str] = set()
        pending = [body.graph for body in node.bodies.values()]
        while pending:
            inner = pending.pop()
            for item in inner.nodes.values():
                names |= {item.name, *(inner.values[value].name for value in item.writes())}
                pending += [body.graph for body in item.bodies.values()]
        if names:
            yield f"a body of {node.op} {called(node, graph.values)}", names - {""}


def _check_convex(graph: Graph, nodes: Sequence[Node]) -> None:
    """Raise E10008, with the path, when one leaves the nodes and enters them again."""
    inside = {node.id for node in nodes}
    came_from: dict[int, int] = {}
    pending: list[int] = []
    for node in nodes:
        for reader in _readers(graph, node.id):
            if reader not in inside and reader not in came_from:
                came_from[reader] = node.id
                pending.append(reader)
    while pending:
        at = pending.pop(0)
        for reader in _readers(graph, at):
            if reader in inside:
                path = _path(came_from, at, inside)
                names = " -> ".join(called(graph.nodes[item], graph.values) for item in [*path, reader])
                raise refusal(
                    f"a path leaves them and enters them again: {names}",
                    f"take {', '.join(called(graph.nodes[item], graph.values) for item in path[1:])} in, "
                    "or leave nodes out",
                )
            if reader not in came_from:
                came_from[reader] = at
                pending.append(reader)


def _path(came_from: Mapping[int, int], at: int, inside: set[int]) -> list[int]:
    path = [at]
    while path[-1] not in inside:
        path.append(came_from[path[-1]])
    return path[::-1]
