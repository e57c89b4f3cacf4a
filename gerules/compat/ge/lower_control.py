"""Control flow of the Graph Engine: branches that are graphs."""

from __future__ import annotations

from gerules.compat.ge.graph.graph import Graph
from gerules.compat.ge.lowering import REQUIRED, Lowering, Value, operator


@operator("If", "cond input*", "output*", then_branch=REQUIRED, else_branch=REQUIRED)
def _if(n: Lowering) -> tuple[Value, ...]:
    branches = {name: n.attr(name) for name in ("then_branch", "else_branch")}
    graphs = {name: graph for name, graph in branches.items() if isinstance(graph, Graph)}
    for name in branches:
        if name not in graphs:
            raise n.fault(f"its attribute {name} is no graph", "give a Graph, or the name of a subgraph")
    counts = {name: len(graph.outputs) for name, graph in graphs.items()}
    if len(set(counts.values())) != 1 or not all(counts.values()):
        told = ", ".join(f"{count} by {name}" for name, count in counts.items())
        raise n.fault(f"its branches give back different numbers of values: {told}", "let them give the same")
    return n.sink.add_branches("If", n["cond"], n.all("input"), graphs, n.name)
