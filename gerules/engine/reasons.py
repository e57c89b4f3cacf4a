"""Reasons: how places and values are told, and why a rule was never tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gerules.engine.binding import Match
from gerules.engine.index import CONST, Feature
from gerules.engine.requirements import Requirement
from gerules.engine.site import Site
from gerules.engine.trace import Partial
from gerules.errors import Span
from gerules.ir import Graph, Node, Value

_MOST_NAMED: Final = 3
"""Operators that a reason names."""


def called(node: Node, values: Mapping[int, Value]) -> str:
    """What people call a node: its name, or that of the first value it makes."""
    made = (values[value].name for value in node.writes() if value in values)
    return node.name or next((name for name in made if name), f"%{node.id}")


def sources_of(node: Node) -> tuple[str, ...]:
    """Return the names of the model's nodes that a node stands for."""
    return node.origin.sources or ((node.name,) if node.name else ())


def partial_at(m: Match, site: Site, depth: int, span: Span | None, reason: str) -> Partial:
    """Return how far a rule came at a match, for whoever asks why it went no further."""
    node = m.nodes[0] if m.nodes else None
    if node is None:
        return Partial("", depth, span, reason)
    sources = () if node.name else sources_of(node)
    return Partial(sources[0] if sources else called(node, site.values), depth, span, reason)


def told_miss(span: Span | None, value: Value | None, maker: str | None, inputs: Collection[int]) -> str:
    """Say which words of a rule do not match, and what stands there instead.

    Args:
        maker: The operator that makes the value, `CONST` for a constant.
        inputs: Of the graph.
    """
    text = f"`{span.text if span is not None else ''}` does not match"
    if value is None:
        return text
    if maker is None:
        maker = "a graph input" if value.id in inputs else "outside"
    elif maker == CONST:
        maker = "a constant"
    return f"{text}; {value.name or value.id} is {value.type} from {maker}"


@dataclass(frozen=True, slots=True)
class Untried:
    """A rule that was never tried: all that it needs, and the first thing that the graph did not have."""

    rule: str
    missing: Feature
    features: Sequence[Feature]
    requirements: Sequence[Requirement]


def explain_untried(graph: Graph, rules: Sequence[Untried]) -> dict[str, Partial]:
    """Say what a graph lacks for rules, with a node that comes near where there is one.

    Cost: one pass over the graph.
    """
    looks = _Looks(graph)
    return {one.rule: looks.explain(one) for one in rules}


class _Looks:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.op_of = dict.fromkeys(graph.consts, CONST)
        self.first: dict[str, Node] = {}
        self.first_edge: dict[tuple[str, str], Node] = {}
        for node in graph.nodes.values():
            self.first.setdefault(node.op, node)
            for value in node.reads():
                source = self.op_of.get(value)
                if source is not None:
                    self.first_edge.setdefault((node.op, source), node)
            self.op_of.update(dict.fromkeys(node.writes(), node.op))

    def explain(self, rule: Untried) -> Partial:
        missing, first = rule.missing, self.first
        sources = missing.sources or frozenset()
        if not any(op in first for op in missing.ops):
            return Partial("", 0, None, f"no {_listed(missing.ops)} in the graph")
        if sources and CONST not in sources and not any(op in first for op in sources):
            return Partial("", 0, None, f"no {_listed(sources)} in the graph")
        span = next((item.span for item in rule.requirements if item.feature == missing), None)
        others = [one for one in rule.features if one.ops == missing.ops and one.sources and one != missing]
        node = next((node for one in others if (node := self.having(one)) is not None), None)
        if node is None:
            node = next(first[op] for op in sorted(missing.ops) if op in first)
        settled = frozenset(op for one in others for op in one.sources or ())
        read = next((value for value in node.reads() if self.op_of.get(value) not in settled), None)
        values = self.graph.values
        value, maker = (None, None) if read is None else (values[read], self.op_of.get(read))
        return Partial(called(node, values), 1, span, told_miss(span, value, maker, self.graph.inputs))

    def having(self, feature: Feature) -> Node | None:
        """Return a node that has a feature."""
        for op in sorted(feature.ops):
            for source in sorted(feature.sources or ()):
                if (op, source) in self.first_edge:
                    return self.first_edge[op, source]
        return None


def _listed(ops: frozenset[str]) -> str:
    names = sorted(ops)
    if len(names) <= _MOST_NAMED:
        return " or ".join(names)
    return f"{', '.join(names[:_MOST_NAMED])} or {len(names) - _MOST_NAMED} more"
