"""Stages: what each step of a compile did, with the graph it left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gerules.engine.trace import Trace
from gerules.ir import Graph, Marks


@dataclass(frozen=True, slots=True, eq=False)
class StageCounts:
    """One step of a compile in numbers: how long it took, operators before and after, and what it counted.

    `detail` holds plain values by name (`fusions`, `n_transdata`, `peak_bytes`, ...).
    """

    name: str
    took_us: float
    n_nodes_before: int
    n_nodes_after: int
    detail: Mapping[str, object]

    def as_json(self) -> dict[str, object]:
        """Return them as plain values."""
        return {
            "stage": self.name,
            "took_us": round(self.took_us, 1),
            "n_nodes_before": self.n_nodes_before,
            "n_nodes_after": self.n_nodes_after,
            **self.detail,
        }


@dataclass(frozen=True, slots=True, eq=False)
class StageReport(StageCounts):
    """One step of a compile, with the graph that it left; `marks` is what is known beside it by then."""

    graph: Graph
    marks: Marks = field(default_factory=dict[int, "dict[str, int | str]"], repr=False)
    trace: Trace | None = None


Observe = Callable[[StageReport], None]
"""Told of each stage as it ends."""


def fusions_of(trace: Trace) -> dict[str, int]:
    """Return how often each rule was applied, most often first."""
    counts = {name: item.applications for name, item in trace.rules.items() if item.applications}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def count_casts(graph: Graph) -> int:
    """Count the Casts of a graph, bodies included."""
    n_casts = 0
    for node in graph.nodes.values():
        n_casts += node.op in ("Cast", "ge::Cast")
        n_casts += sum(count_casts(body.graph) for body in node.bodies.values())
    return n_casts
