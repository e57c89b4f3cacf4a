"""Choice: the storage format of each region, the cheapest by kernels and by conversions at its border."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gerules.ir import Format, Graph, Node
from gerules.passes.format_costs import FormatState
from gerules.passes.format_options import Option

_SWEEPS: Final = 2
"""Times that each node is asked whether another option would be cheaper by itself."""


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that choose their format together, and what each format would have cost in microseconds."""

    nodes: tuple[int, ...]
    format: Format
    costs_us: tuple[tuple[Format, float], ...]

    @property
    def reason(self) -> str:
        """The choice in words."""
        costs = ", ".join(f"{format.name} {cost:.2f} us" for format, cost in self.costs_us)
        return f"cheapest for its region of {len(self.nodes)} nodes: {costs}"


def choose_options(graph: Graph, options: dict[int, list[Option]], state: FormatState) -> list[Region]:
    """Choose an option for each node.

    Nodes with one option have it. The others form regions, connected by values that are not constants;
    each region tries each format as a whole, keeps the cheapest, and then each node alone tries its
    other options.

    Returns:
        The regions, for the report.

    Cost: linear in nodes and edges.
    """
    free: list[Node] = []
    for node in graph.nodes.values():
        found = options[node.id]
        state.choose(node, found[0])
        if len(found) > 1:
            free.append(node)
    regions: list[Region] = []
    for nodes in _connected(graph, free):
        regions.append(_settle(nodes, options, state))
    return regions


def _settle(nodes: Sequence[Node], options: dict[int, list[Option]], state: FormatState) -> Region:
    labels = list(dict.fromkeys(option.label for node in nodes for option in options[node.id]))
    values = {value for node in nodes for value in state.around(node)}
    costs: list[tuple[Format, float]] = []
    picks: dict[Format, list[Option]] = {}
    for label in labels:
        picks[label] = [_pick(node, options[node.id], label, state) for node in nodes]
        for node, option in zip(nodes, picks[label], strict=True):
            state.choose(node, option)
        kernels = sum(state.node_us(node, option) for node, option in zip(nodes, picks[label], strict=True))
        costs.append((label, kernels + state.conversions_us(values)))
    best = min(costs, key=lambda entry: (entry[1], labels.index(entry[0])))[0]
    for node, option in zip(nodes, picks[best], strict=True):
        state.choose(node, option)
    for _ in range(_SWEEPS):
        # Every node is asked in every sweep: `any` would stop at the first that changes.
        if not sum(_improve(node, options[node.id], state) for node in nodes):
            break
    return Region(tuple(node.id for node in nodes), best, tuple(costs))


def _pick(node: Node, options: Sequence[Option], label: Format, state: FormatState) -> Option:
    """Return the cheapest option of a format; the cheapest plain one, or any, where there is none."""
    for wanted in (label, Format.ND):
        found = [option for option in options if option.label is wanted]
        if found:
            return min(found, key=lambda option: state.node_us(node, option))
    return options[0]


def _improve(node: Node, options: Sequence[Option], state: FormatState) -> bool:
    """Take another option of one node if that alone is cheaper."""
    before = state.option[node.id]
    around = state.around(node)
    best, best_us = before, state.node_us(node, before) + state.conversions_us(around)
    for option in options:
        if option is before:
            continue
        state.choose(node, option)
        cost = state.node_us(node, option) + state.conversions_us(around)
        if cost < best_us - 1e-9:
            best, best_us = option, cost
    state.choose(node, best)
    return best is not before


def _connected(graph: Graph, free: Sequence[Node]) -> list[list[Node]]:
    """Group nodes that share a value that is no constant, in topological order."""
    is_free = {node.id for node in free}
    touching: dict[int, list[Node]] = {}
    for node in free:
        for value in {*node.inputs, *node.outputs}:
            if value is not None and value not in graph.consts:
                touching.setdefault(value, []).append(node)
    seen: set[int] = set()
    out: list[list[Node]] = []
    for start in free:
        if start.id in seen:
            continue
        seen.add(start.id)
        members, pending = [start], [start]
        while pending:
            node = pending.pop()
            for value in (*node.inputs, *node.outputs):
                # Each value is followed once, so that one with many readers costs no more than they do.
                for other in touching.pop(value, ()) if value is not None else ():
                    if other.id in is_free and other.id not in seen:
                        seen.add(other.id)
                        members.append(other)
                        pending.append(other)
        out.append(members)
    place = {node_id: at for at, node_id in enumerate(graph.nodes)}
    return [sorted(members, key=lambda node: place[node.id]) for members in out]
