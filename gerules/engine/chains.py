"""`ch@SET{2..16}(x, ...)`: a path of operators in which each reads the one before, and nobody else does."""

from __future__ import annotations

from gerules.engine.binding import UNBOUND, Link, Match, Path, Step
from gerules.engine.site import Site
from gerules.errors import Span
from gerules.ir import Node


class ChainMemory:
    """Last nodes of paths that could not be taken; shorter paths may end right below them."""

    def __init__(self) -> None:
        self.failed: set[int] = set()


def chain_link(
    site: Site,
    ops: frozenset[str],
    least: int,
    most: int,
    source: int,
    node_slot: int,
    first_slot: int,
    name_slot: int | None,
    memory: ChainMemory,
    depth: int,
    span: Span,
) -> Link:
    """Match the longest path that ends in the value of slot `source`, then shorter ones.

    `first_slot` gets what the path starts from: for a path cut short the value that connected it,
    else each input of its first node, those that are computed before constants.
    """

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            value = m.slots[source]
            last = site.producer(value) if isinstance(value, int) else None
            if last is None or not _fits(last, ops) or _goes_on(last, ops, site, memory):
                return m.miss(depth, span, m.value(source))
            path = _path_to(last, ops, most, site)
            mark, height = len(m.trail), len(m.nodes)
            for length in range(len(path), least - 1, -1):
                nodes = path[:length]
                connected = path[length].outputs[0] if length < len(path) else None
                for place in _starts(nodes[-1], connected, site):
                    m.spend()
                    m.slots[first_slot] = nodes[-1].inputs[place]
                    m.slots[node_slot] = nodes[-1]
                    if name_slot is not None:
                        m.slots[name_slot] = UNBOUND
                        m.bind(name_slot, Path(tuple(reversed(nodes)), _side_inputs(nodes, place)))
                    m.nodes += nodes
                    if nxt(m):
                        return True
                    del m.nodes[height:]
                    m.undo(mark)
            return m.miss(depth + 1, span, m.value(source))

        return step

    return link


def _fits(node: Node, ops: frozenset[str]) -> bool:
    return node.op in ops and len(node.outputs) == 1 and not node.bodies


def _goes_on(last: Node, ops: frozenset[str], site: Site, memory: ChainMemory) -> bool:
    """Whether the path continues beyond its last node, so that a longer one is matched from there."""
    value = last.outputs[0]
    if value is None or site.editor.is_output(value) or site.editor.n_uses(value) != 1:
        return False
    reader = site.editor.nodes[next(iter(site.editor.readers(value)))]
    return _fits(reader, ops) and reader.id not in memory.failed


def _path_to(last: Node, ops: frozenset[str], most: int, site: Site) -> list[Node]:
    """Return the path, last node first; at a node with several candidates the first input wins."""
    path = [last]
    while len(path) < most:
        before = next(
            (
                node
                for value in path[-1].inputs
                if value is not None
                and (node := site.producer(value)) is not None
                and _fits(node, ops)
                and site.editor.n_uses(value) == 1
            ),
            None,
        )
        if before is None:
            break
        path.append(before)
    return path


def _starts(first: Node, connected: int | None, site: Site) -> list[int]:
    places = [place for place, value in enumerate(first.inputs) if value is not None]
    if connected is not None:
        return [place for place in places if first.inputs[place] == connected]
    return sorted(places, key=lambda place: first.inputs[place] in site.consts)


def _side_inputs(nodes: list[Node], start: int) -> tuple[int, ...]:
    """What enters the path besides its start, each value once, in the order of the path."""
    inside = {node.outputs[0] for node in nodes}
    found: dict[int, None] = {}
    for node in reversed(nodes):
        for place, value in enumerate(node.inputs):
            if value is None or value in inside or (node is nodes[-1] and place == start):
                continue
            found[value] = None
    found.pop(nodes[-1].inputs[start] or -1, None)
    return tuple(found)
