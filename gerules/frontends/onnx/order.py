"""Order: nodes sorted so that producers come first, and the circle named when they cannot be."""

from __future__ import annotations

from collections.abc import Mapping

from gerules.ir import Node


def sort_nodes(nodes: Mapping[int, Node]) -> tuple[dict[int, Node], list[Node]]:
    """Return the nodes with producers before readers, and the nodes of one circle if there is any.

    Nodes keep their order where it is already right. Nodes of a circle are left in the given order.

    Cost: linear in nodes and edges.
    """
    producer = {value: node.id for node in nodes.values() for value in node.writes()}
    done: dict[int, Node] = {}
    open_: dict[int, None] = {}
    circle: list[Node] = []
    for start in nodes.values():
        if start.id in done:
            continue
        stack = [(start, start.reads())]
        open_[start.id] = None
        while stack:
            node, reads = stack[-1]
            for value in reads:
                needed = producer.get(value)
                if needed is None or needed in done:
                    continue
                if needed in open_:
                    if not circle:
                        path = list(open_)
                        circle = [nodes[item] for item in path[path.index(needed) :]]
                    continue
                stack.append((nodes[needed], nodes[needed].reads()))
                open_[needed] = None
                break
            else:
                stack.pop()
                del open_[node.id]
                done[node.id] = node
    return done, circle
