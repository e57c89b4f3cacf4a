"""Clusters: connected nodes of one colour that can run as one unit without a cycle between units."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from gerules.ir import Graph


def find_clusters(graph: Graph, colour_of: Mapping[int, Hashable]) -> list[list[int]]:
    """Group connected nodes of one colour so that the units depend on each other without a cycle.

    Every node gets a level that never falls along an edge and rises where the colour changes; nodes of
    one colour and level that an edge joins are one unit. Edges between units then lead to higher
    levels, so there is no cycle, whatever is merged. Units are then moved up to the level of a reader
    of their colour where nothing in between depends on them.

    Returns:
        The nodes of each unit in topological order; units in topological order of the quotient graph.

    Cost: linear in nodes and edges, but for one sort of the units.
    """
    level: dict[int, int] = {}
    group = _Groups()
    for node in graph.nodes.values():
        found = 0
        sources = _sources(graph, node.id)
        for source in sources:
            found = max(found, level[source] + (colour_of[source] != colour_of[node.id]))
        level[node.id] = found
        for source in sources:
            if level[source] == found and colour_of[source] == colour_of[node.id]:
                group.join(node.id, source)
    _move_up(graph, colour_of, level, group)
    members: dict[int, list[int]] = {}
    for node_id in graph.nodes:
        members.setdefault(group.of(node_id), []).append(node_id)
    top = {root: level[root] for root in members}
    place = {node_id: at for at, node_id in enumerate(graph.nodes)}
    return sorted(members.values(), key=lambda nodes: (top[group.of(nodes[0])], place[nodes[0]]))


def _move_up(graph: Graph, colour_of: Mapping[int, Hashable], level: dict[int, int], group: _Groups) -> None:
    """Join units with a reader of their colour on a higher level, where all their readers allow it."""
    readers: dict[int, set[int]] = {}
    for node in graph.nodes.values():
        for source in _sources(graph, node.id):
            if group.of(source) != group.of(node.id):
                readers.setdefault(group.of(source), set()).add(node.id)
    units = sorted({group.of(node) for node in graph.nodes}, key=lambda unit: (-level[unit], unit))
    for unit in units:
        mine = colour_of[unit]
        targets = readers.get(unit, ())
        if not targets:
            continue
        # Levels of units are those of their roots: they change when a unit moves.
        highest = min(level[group.of(one)] - (colour_of[one] != mine) for one in targets)
        same = [
            group.of(one) for one in targets if colour_of[one] == mine and level[group.of(one)] == highest
        ]
        if highest <= level[unit] or not same:
            continue
        for other in same:
            group.join(unit, other)
        level[group.of(unit)] = highest


def _sources(graph: Graph, node_id: int) -> list[int]:
    producer = graph.producer
    return [producer[value] for value in graph.nodes[node_id].reads() if value in producer]


class _Groups:
    """Disjoint sets of nodes; a node nobody joined is a set of its own."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def of(self, node: int) -> int:
        """Return the node that stands for a set."""
        root = node
        while (above := self._parent.get(root, root)) != root:
            root = above
        while (above := self._parent.get(node, node)) != root:
            self._parent[node] = root
            node = above
        return root

    def join(self, node: int, other: int) -> None:
        """Make two sets one; the second one's representative stays."""
        one, two = self.of(node), self.of(other)
        if one != two:
            self._parent[one] = two
