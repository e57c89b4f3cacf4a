"""What golden blocks hold, written from an outcome: graphs, traces, reasons, figures of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from gerules.backend.plans import Plans
from gerules.engine.trace import Trace
from gerules.ir import NO_ORIGIN, Body, Graph, Node, TensorType, print_graph
from tests.golden.casefile import Case, CaseError
from tests.golden.running import Outcome


def graph_text(graph: Graph, *, with_origin: bool) -> str:
    """Return the text of a graph; without names of nodes and where they come from unless they count."""
    return print_graph(graph if with_origin else _plain(graph)).rstrip("\n")


def _plain(graph: Graph) -> Graph:
    nodes = {
        node.id: replace(
            node,
            name="",
            origin=NO_ORIGIN,
            bodies={key: Body(_plain(body.graph), body.captures) for key, body in node.bodies.items()},
        )
        for node in graph.nodes.values()
    }
    return replace(graph, nodes=nodes)


def trace_text(trace: Trace) -> str:
    """Return the applications, one a line: rule, origin of what was matched, the body it happened in."""
    return "\n".join(
        f"{item.rule} @ {', '.join(item.sources)}" + (f" in {item.graph}" if item.graph else "")
        for item in trace.applications
    )


def why_text(trace: Trace, rule: str) -> str:
    """Return why a rule was not applied, or not everywhere."""
    if rule in trace.off:
        return f"off: {trace.off[rule]}"
    count = trace.rules.get(rule)
    lack = trace.missing.get(rule)
    if count is None and lack is not None:
        place = f"came furthest at {lack.node}" if lack.node else "never tried"
        return f"{place}: {' '.join(lack.reason.split())}"
    if count is None:
        return "never tried"
    best = count.best
    lines: list[str] = []
    for reason, n in count.refusals.items():
        is_best = best is not None and best.reason.startswith(reason)
        lines.append(f"{n} x not taken: {best.reason if best is not None and is_best else reason}")
    if best is not None and not count.applications and not any(best.reason in line for line in lines):
        # Patterns that are quoted may run over several lines.
        lines.append(f"came furthest at {best.node}: {' '.join(best.reason.split())}")
    return "\n".join(lines) or f"applied {count.applications} times, nothing refused"


# ---------------------------------------------------------------- plans
def plan_text(case: Case, outcome: Outcome) -> str:
    """Return the figures that the `plan` block of a case names, as they are now."""
    block = case.one("plan")
    assert block is not None
    lines: list[str] = []
    for line in block.text.splitlines():
        if not line.strip():
            continue
        name = line.partition(":")[0].strip()
        if name not in FIGURES:
            raise CaseError(f"{case.name}: {name!r} is no figure of a plan; there are {', '.join(FIGURES)}")
        lines.append(f"{name}: {FIGURES[name](outcome)}".rstrip())
    return "\n".join(lines)


def _graph(outcome: Outcome) -> Graph:
    assert outcome.after is not None
    return outcome.after


def _plans(outcome: Outcome) -> Plans:
    assert outcome.plans is not None
    return outcome.plans


def _name(graph: Graph, node: Node) -> str:
    """A node goes by the first value that it makes."""
    return next((graph.values[value].name for value in node.writes()), node.op)


def _pairs(items: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in items)


def _engines(outcome: Outcome) -> str:
    graph, partition = _graph(outcome), outcome.partition
    assert partition is not None
    return _pairs((_name(graph, node), partition.engine_of[node.id]) for node in graph.nodes.values())


def _reasons(outcome: Outcome) -> str:
    graph, partition = _graph(outcome), outcome.partition
    assert partition is not None
    return _pairs((_name(graph, graph.nodes[node]), reason) for node, reason in partition.reasons.items())


def _clusters(outcome: Outcome) -> str:
    graph, partition = _graph(outcome), outcome.partition
    assert partition is not None
    return "; ".join(
        f"{cluster.engine} {'static' if cluster.is_static else 'dynamic'} "
        f"[{' '.join(_name(graph, graph.nodes[node]) for node in cluster.nodes)}]"
        for cluster in partition.clusters
    )


def _steps(outcome: Outcome) -> list[str]:
    graph, plans = _graph(outcome), _plans(outcome)
    return [_name(graph, graph.nodes[plans.lowering.tasks[at].id]) for at in plans.schedule.steps]


def _streams(outcome: Outcome) -> str:
    return _pairs(zip(_steps(outcome), _plans(outcome).schedule.streams, strict=True))


def _events(outcome: Outcome) -> str:
    steps = _steps(outcome)
    return (
        ", ".join(f"{steps[e.record]} -> {steps[e.wait]}" for e in _plans(outcome).schedule.events) or "none"
    )


def _offsets(outcome: Outcome) -> str:
    graph, plans = _graph(outcome), _plans(outcome)
    found = [(v.name, plans.offset_of(v.id)) for v in graph.values.values() if v.id not in graph.consts]
    return _pairs((name, offset) for name, offset in found if offset is not None)


def _in_place(outcome: Outcome) -> str:
    graph = _graph(outcome)
    taken = [
        f"{graph.values[wish.output].name} over {graph.values[wish.input].name}"
        for wish in _plans(outcome).in_place
    ]
    return ", ".join(taken) or "none"


def _sizes(outcome: Outcome) -> str:
    graph = _graph(outcome)
    return _pairs((graph.values[v].name, size) for v, size in _plans(outcome).lowering.sizes.items())


def _workspaces(outcome: Outcome) -> str:
    graph, plans = _graph(outcome), _plans(outcome)
    tasks = [task for task in plans.lowering.tasks if task.workspace_bytes]
    return _pairs((_name(graph, graph.nodes[t.id]), t.workspace_bytes) for t in tasks) or "none"


def _tensors(outcome: Outcome) -> Mapping[str, TensorType]:
    values = _graph(outcome).values.values()
    return {value.name: value.type for value in values if isinstance(value.type, TensorType)}


def _formats(outcome: Outcome) -> str:
    return _pairs((name, type.format.name) for name, type in _tensors(outcome).items())


def _stored(outcome: Outcome) -> str:
    shapes = {n: "x".join(map(str, t.storage_shape)) for n, t in _tensors(outcome).items() if t.is_static}
    return _pairs(shapes.items())


def _count(op: str) -> Callable[[Outcome], object]:
    return lambda outcome: sum(node.op.removeprefix("ge::") == op for node in _graph(outcome).nodes.values())


FIGURES: Final[Mapping[str, Callable[[Outcome], object]]] = {
    "engines": _engines,
    "reasons": _reasons,
    "clusters": _clusters,
    "demoted": lambda outcome: outcome.partition.n_demoted if outcome.partition is not None else 0,
    "order": lambda outcome: ", ".join(_steps(outcome)),
    "streams": _streams,
    "events": _events,
    "peak_bytes": lambda outcome: _plans(outcome).memory.peak_bytes,
    "lower_bound_bytes": lambda outcome: _plans(outcome).memory.lower_bound_bytes,
    "align_bytes": lambda outcome: _plans(outcome).memory.align_bytes,
    "offsets": _offsets,
    "in_place": _in_place,
    "sizes": _sizes,
    "workspaces": _workspaces,
    "formats": _formats,
    "stored": _stored,
    "n_transdata": _count("TransData"),
    "n_casts": _count("Cast"),
    "n_nodes": lambda outcome: len(_graph(outcome).nodes),
}
