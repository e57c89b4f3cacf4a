"""The invariants of a graph, checked."""

from __future__ import annotations

from gerules.ir.graph import Graph


def broken_invariants(graph: Graph) -> list[str]:
    """Return what is wrong with a graph's structure, in words; empty when it is sound.

    Checked: one producer a value, producers before readers, every id known and below `next_id`,
    inputs and consts without producer, captures that exist on both sides, sound bodies.
    """
    found: list[str] = []
    given = set(graph.inputs) | set(graph.consts)
    available = set(given)
    produced: set[int] = set()
    if overlap := set(graph.inputs) & set(graph.consts):
        found.append(f"values {sorted(overlap)} are inputs and constants at once")
    orphans = set(graph.values) - available - {v for node in graph.nodes.values() for v in node.writes()}
    available |= orphans  # captured values of a body
    for node_id, node in graph.nodes.items():
        if node_id != node.id:
            found.append(f"node {node.id} is filed under {node_id}")
        if node.inputs and node.inputs[-1] is None:
            found.append(f"node {node.id} ({node.op}) ends in an absent input")
        for value in node.reads():
            if value not in available:
                found.append(f"node {node.id} ({node.op}) reads value {value} before it exists")
        for value in node.writes():
            if value in produced or value in given:
                found.append(f"value {value} has more than one producer")
            produced.add(value)
            available.add(value)
            if value not in graph.values:
                found.append(f"value {value} of node {node.id} is not in the table of values")
        for name, body in node.bodies.items():
            inner = {inside for _, inside in body.captures}
            bound = inner | set(body.graph.inputs) | set(body.graph.consts)
            made = {v for n in body.graph.nodes.values() for v in n.writes()}
            loose = set(body.graph.values) - bound - made
            if loose:
                found.append(f"body {name} of node {node.id} reads {sorted(loose)}, which nothing gives it")
            found += [f"{name} of node {node.id}: {text}" for text in broken_invariants(body.graph)]
    for value in graph.outputs:
        if value not in available:
            found.append(f"output {value} has no producer")
    top = max([*graph.values, *graph.nodes], default=-1)
    if top >= graph.next_id:
        found.append(f"id {top} is not below next_id {graph.next_id}")
    if set(graph.values) & set(graph.nodes):
        found.append("a value and a node share an id")
    return found
