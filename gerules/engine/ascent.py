"""Where rules start around a node that has changed: all climbs to roots at once, as an automaton.

A state stands for a node on the way up from the change, and knows for which rules that node is a root.
States are made when first reached, so a climb costs what the graph around the node costs, and not what
the rules do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gerules.engine.groups import TREE_LEVELS
from gerules.engine.index import Feature
from gerules.engine.program import Plan
from gerules.engine.requirements import Rung
from gerules.ir import GraphEditor, Node

_MOST_INPUTS: Final = 8
"""A node with more inputs is a root whatever they are; finding out would take longer than trying."""

_Level = tuple[frozenset[str], bool]
"""Operators of one level of a climb, and whether it may be absent."""

_Climb = tuple[int, tuple[_Level, ...]]
"""A rule, and the levels from a node to one of its roots."""


class State:
    """A node on the way up, by what is known of the way: its operator, and what may come above it."""

    __slots__ = ("_by_inputs", "_climbs", "_needs", "above", "outward", "ranks")

    def __init__(
        self,
        climbs: frozenset[_Climb],
        op: str,
        plans: Sequence[Plan],
        needs: Mapping[int, Sequence[frozenset[str]]],
    ) -> None:
        self._climbs = climbs
        self._needs = needs
        self._by_inputs: dict[tuple[str | None, ...], tuple[int, ...]] = {}
        self.above: dict[str, State | None] = {}
        """The states of readers, by operator; None where no rule goes on."""
        self.ranks = tuple(
            sorted({rank for rank, levels in climbs if not levels and op in plans[rank].root_ops})
        )
        """The rules that the node may be a root of."""
        self.outward = tuple([rank for rank in self.ranks if plans[rank].looks_outward])
        """Those for which it matters who reads the root."""

    def beyond(self, op: str, plans: Sequence[Plan]) -> State | None:
        """Return the state of a reader with this operator."""
        climbs = _closure(
            (rank, levels[1:]) for rank, levels in self._climbs if levels and op in levels[0][0]
        )
        found = self.above[op] = State(climbs, op, plans, self._needs) if climbs else None
        return found

    def ranks_at(self, node: Node, op_of: Mapping[int, str]) -> tuple[int, ...]:
        """Return the rules of `ranks` whose root can read what the node does."""
        inputs = node.inputs
        if not self.ranks or len(inputs) > _MOST_INPUTS:
            return self.ranks
        sources = tuple([op_of.get(value) if value is not None else None for value in inputs])
        found = self._by_inputs.get(sources)
        if found is None:
            found = self._by_inputs[sources] = tuple(
                rank
                for rank in self.ranks
                if not any(needed.isdisjoint(sources) for needed in self._needs.get(rank, ()))
            )
        return found


class Ascent:
    """The climbs of the rules that are tried in a graph.

    `needs` says which operators the root of a rule must read; a place that has none of them is no place.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._plans = plans
        self._climbs: dict[str, set[_Climb]] = {}
        self._needs: dict[int, tuple[frozenset[str], ...]] = {}
        self._first: dict[str, State | None] = {}

    def enter(self, rank: int) -> None:
        """Add a rule."""
        for ops, rungs in self._plans[rank].positions:
            levels = tuple(_levels(rungs))
            for op in ops:
                self._climbs.setdefault(op, set()).add((rank, levels))
        self._first.clear()

    def demand(self, rank: int, requirements: Iterable[Feature]) -> None:
        """From now on pass over the places of a rule where a feature of its root is missing."""
        self._needs[rank] = tuple(feature.sources for feature in requirements if feature.sources is not None)
        if self._needs[rank]:
            self._first.clear()

    def roots(
        self, node: Node, editor: GraphEditor, op_of: Mapping[int, str], passed: Collection[int] = ()
    ) -> Iterator[tuple[Node, tuple[int, ...]]]:
        """Yield nodes at and above one that changed, each with the rules that it may be a root of now.

        Args:
            passed: Nodes that were climbed from already. With any, only the readers of `node` changed.
        """
        state = self._first.get(node.op, _NEW)
        if state is _NEW:
            climbs = _closure(self._climbs.get(node.op, ()))
            state = State(climbs, node.op, self._plans, self._needs) if climbs else None
            self._first[node.op] = state
        if state is None:
            return
        nodes, plans = editor.nodes, self._plans
        pending: list[tuple[Node, State]] = [(node, state)]
        seen: set[tuple[int, State]] = set()
        first = state.outward if passed and len(node.outputs) == 1 else state.ranks_at(node, op_of)
        if first:
            yield node, first
        is_first = True
        while pending:
            node, state = pending.pop()
            if is_first:
                is_first = False
            else:
                ranks = state.ranks_at(node, op_of)
                if ranks:
                    yield node, ranks
            for value in node.outputs:
                for reader in editor.readers(value) if value is not None else ():
                    if reader in passed:
                        continue
                    above = nodes[reader]
                    try:
                        further = state.above[above.op]
                    except KeyError:
                        further = state.beyond(above.op, plans)
                    if further is not None and (reader, further) not in seen:
                        seen.add((reader, further))
                        pending.append((above, further))


_NEW: Final = State(frozenset(), "", (), {})


def _levels(rungs: Sequence[Rung]) -> Iterator[_Level]:
    for rung in rungs:
        yield rung.ops, rung.is_optional
        if rung.repeats:
            yield from [(rung.ops, True)] * (TREE_LEVELS - 1)


def _closure(climbs: Iterable[_Climb]) -> frozenset[_Climb]:
    """Add what remains of climbs where levels are absent."""
    found: set[_Climb] = set()
    for rank, levels in climbs:
        found.add((rank, levels))
        while levels and levels[0][1]:
            levels = levels[1:]
            found.add((rank, levels))
    return frozenset(found)
