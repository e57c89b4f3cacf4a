"""Searching: every place of a graph where the pattern of a rule matches; nothing is rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gerules.dsl.syntax import Rule
from gerules.dsl.values import Value
from gerules.engine.binding import Match, StepLimitError
from gerules.engine.evaluation import MatchEvaluator, RuleContext
from gerules.engine.index import CONST
from gerules.engine.probe import probe
from gerules.engine.programs import Programs
from gerules.engine.ranking import RulePlans, plan_rules
from gerules.engine.session import Options, Session
from gerules.engine.trace import RuleCount
from gerules.engine.witness import Witness
from gerules.errors import Diagnostic
from gerules.ir import Const, Graph, GraphEditor, Node
from gerules.ir.collector import paused_collector
from gerules.ops import Schemas

STEP_BUDGET: Final = 200_000
"""Steps at one node; a search goes on where a rewrite would have begun."""


@dataclass(frozen=True, slots=True)
class Place:
    """One match: the graph it is in and the path that leads there, its nodes, the names it binds.

    `escapes` pairs each value inside the match that others read too with those readers; None is an output
    of the graph.
    """

    graph: Graph
    path: str
    nodes: tuple[Node, ...]
    bound: Mapping[str, Value]
    escapes: tuple[tuple[int, tuple[Node | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class Search:
    """All places, in the order of the graph. `cut` are nodes at which matching was given up."""

    plans: RulePlans
    places: tuple[Place, ...]
    cut: tuple[Node, ...]
    faults: tuple[Diagnostic, ...]


def search(
    graph: Graph,
    rule: Rule,
    *,
    schemas: Schemas,
    context: RuleContext,
    witness: Witness | None = None,
) -> Search:
    """Find every place where a rule matches and its guards hold, in a graph and the bodies of its nodes.

    Of matches on the same nodes the first counts; one on a part of another's nodes is left out.

    Args:
        rule: One that only annotates; what it says of its results is not carried out.
        witness: Is told how far matching came at each node.

    Raises:
        RuleError: E40032 to E40035 when the pattern cannot be compiled.

    Cost: nodes of the pattern's root operators, times the ways to match there.
    """
    plans = plan_rules([rule], context)
    session = Session(Programs(plans, schemas, _no_types, phase="find"), Options(), 0)
    searcher = _Searcher(session, MatchEvaluator(session.site, context))
    with paused_collector():
        searcher.visit(graph, "", {})
        if witness is not None:
            programs = Programs(plans, schemas, _no_types, phase="find", witness=witness)
            watched = Session(programs, Options(), 0)
            for inner, path, consts in searcher.visited:
                probe(watched, inner, path, frozenset(), consts, "before")
    return Search(plans, tuple(searcher.places), tuple(searcher.cut), tuple(searcher.faults))


def _no_types(*_: object) -> tuple[()]:
    """Nothing is built, so nothing is inferred."""
    return ()


class _Searcher:
    def __init__(self, session: Session, evaluator: MatchEvaluator) -> None:
        self._session = session
        self._evaluator = evaluator
        self.visited: list[tuple[Graph, str, Mapping[int, Const]]] = []
        self.places: list[Place] = []
        self.cut: list[Node] = []
        self.faults: list[Diagnostic] = []

    def visit(self, graph: Graph, path: str, outer: Mapping[int, Const]) -> None:
        self.visited.append((graph, path, outer))
        self._search(graph, path, outer)
        for node in graph.nodes.values():
            made = (graph.values[value].name for value in node.writes())
            label = node.name or next((name for name in made if name), str(node.id))
            for name, body in node.bodies.items():
                known = {**graph.consts, **outer}
                consts = {inside: known[outside] for outside, inside in body.captures if outside in known}
                self.visit(body.graph, f"{path}{label}.{name}.", consts)

    def _search(self, graph: Graph, path: str, outer: Mapping[int, Const]) -> None:
        session, (plan,) = self._session, self._session.plans.plans
        roots = [node for node in graph.nodes.values() if node.op in plan.root_ops and node.outputs]
        editor = GraphEditor(graph)
        editor.consts.update(outer)
        op_of: dict[int, str] = dict.fromkeys(editor.consts, CONST)
        for node in graph.nodes.values():
            op_of.update(dict.fromkeys(node.writes(), node.op))
        session.site.enter(editor, op_of)
        if not roots or session.is_off(0, session.site.opset or 0):
            return
        program, applier = session.programs[0]
        program.chain_memory.failed.clear()
        # The first match of a path is the longest, and all further ones are parts of it.
        is_path = bool(program.chain_ops)
        taken: set[int] = set()
        count = RuleCount(program.rule.name.name)
        found: dict[frozenset[int], tuple[tuple[Node, ...], Mapping[str, Value]]] = {}

        def accept(m: Match) -> bool:
            ids = frozenset(node.id for node in m.nodes)
            if ids not in found and applier.attempt(m, count, {}, is_dry=True) is not None:
                scope = program.scope
                bound = {
                    name: self._evaluator.view(m.slots[slot], scope.kinds[name])
                    for name, slot in scope.slots.items()
                }
                nodes = sorted({node.id: node for node in m.nodes}.values(), key=lambda node: order[node.id])
                found[ids] = (tuple(nodes), bound)
                taken.update(ids if is_path else ())
            return is_path  # otherwise on to the next way to match

        order = {node_id: place for place, node_id in enumerate(graph.nodes)}
        step, m = program.start(accept), program.match
        for node in reversed(roots):
            if node.id in taken:
                continue
            m.budget = STEP_BUDGET
            m.slots[program.root_slot] = node.outputs[0]
            try:
                step(m)
            except (StepLimitError, RecursionError):
                self.cut.append(node)
            m.clear()
        self.faults += [fault for fault in applier.faults if fault not in self.faults]
        for ids in sorted(_largest(found), key=lambda ids: [order[node] for node in sorted(ids)]):
            nodes, bound = found[ids]
            self.places.append(Place(graph, path, nodes, bound, tuple(_escapes(graph, nodes))))


def _largest(found: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """The sets that are no part of another one."""
    kept: list[frozenset[int]] = []
    of_node: dict[int, list[frozenset[int]]] = {}
    for ids in sorted(found, key=len, reverse=True):
        if any(ids < other for other in of_node.get(next(iter(ids)), ())):
            continue
        kept.append(ids)
        for node in ids:
            of_node.setdefault(node, []).append(ids)
    return kept


def _escapes(graph: Graph, nodes: Iterable[Node]) -> Iterable[tuple[int, tuple[Node | None, ...]]]:
    inside = {node.id: node for node in nodes}
    for node in inside.values():
        for value in node.writes():
            readers = graph.readers.get(value, ())
            if not any(reader in inside for reader in readers):
                continue
            others: list[Node | None] = [graph.nodes[reader] for reader in readers if reader not in inside]
            others += [None] if value in graph.output_set else []
            if others:
                yield value, tuple(others)
