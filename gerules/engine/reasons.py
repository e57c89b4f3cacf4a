"""Reasons: how places and values are told, and why a rule was never tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gerules.engine.index import CONST, Feature, GraphIndex
from gerules.engine.requirements import Requirement
from gerules.engine.site import Site
from gerules.engine.trace import Partial
from gerules.errors import Span
from gerules.ir import Node

_MOST_NAMED: Final = 3
"""Operators that a reason names."""


def called(node: Node, site: Site) -> str:
    """What people call a node: its name, or that of the first value it makes."""
    made = (site.values[value].name for value in node.writes() if value in site.values)
    return node.name or next((name for name in made if name), f"%{node.id}")


def told_miss(span: Span | None, value_id: int | None, site: Site) -> str:
    """Say which words of a rule do not match, and what stands there instead."""
    text = f"`{span.text if span is not None else ''}` does not match"
    value = site.values.get(value_id) if value_id is not None else None
    if value is None:
        return text
    maker = site.op_of.get(value.id)
    if maker is None:
        maker = "a graph input" if value.id in site.editor.inputs else "outside"
    elif maker == CONST:
        maker = "a constant"
    return f"{text}; {value.name or value.id} is {value.type} from {maker}"


class Absences:
    """Says of rules that were never tried what the graph lacks. Costs nothing until asked; then one pass."""

    def __init__(self, site: Site, index: GraphIndex) -> None:
        self._site = site
        self._index = index
        self._first: dict[str, Node] = {}
        for node in site.editor.nodes.values():
            self._first.setdefault(node.op, node)

    def explain(self, features: Sequence[Feature], requirements: Sequence[Requirement]) -> Partial | None:
        """Return the first thing missing: an operator, or what one reads, with a node where it is not so."""
        for feature in features:
            if self._index.count(feature):
                continue
            sources = feature.sources or frozenset()
            if not any(op in self._first for op in feature.ops):
                return Partial("", 0, None, f"no {_listed(feature.ops)} in the graph")
            if sources and CONST not in sources and not any(op in self._first for op in sources):
                return Partial("", 0, None, f"no {_listed(sources)} in the graph")
            span = next((item.span for item in requirements if item.feature == feature), None)
            return self._nearest(feature, features, span)
        return None

    def _nearest(self, missing: Feature, features: Sequence[Feature], span: Span | None) -> Partial:
        present = [one for one in features if one.ops == missing.ops and one.sources and one != missing]
        node = next((node for one in present for node in self._nodes(one)), None)
        if node is None:
            node = next(self._first[op] for op in sorted(missing.ops) if op in self._first)
        settled = frozenset(op for one in present if self._index.count(one) for op in one.sources or ())
        op_of = self._site.op_of
        read = next((value for value in node.reads() if op_of.get(value) not in settled), None)
        return Partial(called(node, self._site), 1, span, told_miss(span, read, self._site))

    def _nodes(self, feature: Feature) -> Iterator[Node]:
        for bucket in self._index.buckets(feature):
            for node_id in bucket.nodes:
                node = self._site.editor.nodes.get(node_id)
                if node is not None:
                    yield node


def _listed(ops: frozenset[str]) -> str:
    names = sorted(ops)
    if len(names) <= _MOST_NAMED:
        return " or ".join(names)
    return f"{', '.join(names[:_MOST_NAMED])} or {len(names) - _MOST_NAMED} more"
