"""One run: the rules of a phase over one graph, until nothing is left to try."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from gerules.engine.apply import Applier, Change
from gerules.engine.ascent import Ascent
from gerules.engine.binding import Match, Step, StepLimitError
from gerules.engine.groups import NEIGHBOURS, climb
from gerules.engine.index import Feature, GraphIndex
from gerules.engine.probe import probe, sighting
from gerules.engine.program import Program
from gerules.engine.reasons import Untried, called, explain_untried, sources_of, told_miss
from gerules.engine.requirements import LONGEST_CHAIN, Requirement
from gerules.engine.session import Session
from gerules.engine.trace import VETOED, Application, Partial, Proposal, RuleCount
from gerules.engine.witness import Applied, Refusal, WatchedMatch
from gerules.engine.worklist import Place, Worklist
from gerules.errors import Diagnostic, table
from gerules.ir import Body, Const, Graph, GraphEditor, Node

STEP_BUDGET: Final = 50_000
"""Steps of one attempt; the largest shipped patterns take some hundreds."""

_MOST_INNER_READERS: Final = 8
"""A value with more readers cannot be an inner value of a match; losing one of them changes nothing."""

_DEPTH_OF_OPERANDS: Final = 1
"""How far an attempt comes when the root fits, and nothing that it reads."""

_DEEPEST_BODY: Final = 64
"""Bodies within bodies; deeper ones are left as they are."""

_ROUNDS_BEYOND_NODES: Final = 1_000
"""A chain of rewrites on one's own results this much longer than the graph has nodes does not stop."""


@dataclass(slots=True)
class Active:
    """A rule that is tried in this graph."""

    rank: int
    program: Program
    applier: Applier
    step: Step
    count: RuleCount
    best_depth: int = -1


def run_graph(
    session: Session,
    graph: Graph,
    *,
    path: str = "",
    depth: int = 0,
    banned: frozenset[str] = frozenset(),
    outer_consts: Mapping[int, Const] | None = None,
) -> Graph:
    """Run a session's rules over a graph, its bodies first; returns the graph itself when nothing changed.

    Args:
        path: Names of the nodes and bodies that lead here.
        banned: Rules that made the body this graph is; they would only find themselves.
        outer_consts: Captured values that are constants outside.

    Raises:
        RuleError: E40030 when the rules do not stop.
    """
    bodies = _run_bodies(session, graph, path, depth) if session.options.has_bodies else {}
    consts = outer_consts or {}
    if session.witness is None:
        return _Run(session, graph, path, banned, consts, bodies).go()
    probe(session, graph, path, banned, consts, "before")
    after = _Run(session, graph, path, banned, consts, bodies).go()
    probe(session, after, path, banned, consts, "after")
    return after


def _run_bodies(session: Session, graph: Graph, path: str, depth: int) -> dict[int, dict[str, Body]]:
    changed: dict[int, dict[str, Body]] = {}
    if depth >= _DEEPEST_BODY:
        return changed
    for node in graph.nodes.values():
        if not node.bodies:
            continue
        made = (graph.values[value].name for value in node.writes())
        inner_path = f"{path}{node.name or next((name for name in made if name), node.id)}."
        for name, body in node.bodies.items():
            banned = frozenset(node.origin.rules) if name == "body" and "::" in node.op else frozenset[str]()
            consts = {inner: graph.consts[outer] for outer, inner in body.captures if outer in graph.consts}
            after = run_graph(
                session,
                body.graph,
                path=inner_path + name,
                depth=depth + 1,
                banned=banned,
                outer_consts=consts,
            )
            if after is not body.graph:
                captures = tuple(pair for pair in body.captures if pair[1] in after.values)
                changed.setdefault(node.id, dict(node.bodies))[name] = Body(after, captures)
    return changed


class _Run:
    def __init__(
        self,
        session: Session,
        graph: Graph,
        path: str,
        banned: frozenset[str],
        outer_consts: Mapping[int, Const],
        bodies: Mapping[int, Mapping[str, Body]],
    ) -> None:
        self.session = session
        self.site = session.site
        self.graph = graph
        self.path = path
        self.banned = banned
        self.outer_consts = outer_consts
        self.bodies = bodies
        self.plans = session.plans.plans
        self.touched: dict[int, None] = {}
        self.editor = GraphEditor(graph)
        self.index = GraphIndex(feature for features in session.plans.features for feature in features)
        self.work = Worklist(len(self.plans))
        self.active: dict[int, Active] = {}
        self.lacking: dict[int, Feature] = {}
        """What rules wait for, the first thing of each."""
        self.ascent = Ascent(self.plans)
        self.siblings: dict[str, list[int]] = {}
        """Rules with several roots, by the operators of all but the first."""
        self.chains: dict[str, list[int]] = {}
        """Rules with chains, by the operators of those."""
        self.untold: set[int] = set()
        """Rules of which no attempt has yet come far enough to say what is missing."""
        self.round: dict[int, int] = {}
        self.marks: dict[int, dict[str, object]] = (
            session.trace.body_annotations.setdefault(path, {}) if path else session.trace.annotations
        )
        outward = -1.0 if session.options.outputs_first else 1.0
        # Groups grow forward from their first member, whatever the order of the phase.
        self.signs = [1.0 if plan.is_group or len(plan.roots) > 1 else outward for plan in self.plans]
        self.limit_round = len(graph.nodes) + _ROUNDS_BEYOND_NODES
        self.n_changes = 0

    def go(self) -> Graph:
        editor = self.editor
        for node_id, bodies in self.bodies.items():
            editor.replace_node(replace(editor.nodes[node_id], bodies=bodies))
        editor.consts.update(self.outer_consts)
        self.index.fill(editor, editor.consts)
        self.site.enter(editor, self.index.op_of)
        editor.on_touch = self.touched.setdefault
        for rank in range(len(self.plans)):
            self._activate(rank)
        while (rank := self.work.next_rank()) is not None:
            self._drain(rank)
        for active in self.active.values():
            for fault in active.applier.faults:
                self.session.warn(replace(fault, severity="warning"))
        if not self.n_changes and not self.bodies:
            self._note_untried(self.graph)
            return self.graph
        committed = editor.commit()
        if self.outer_consts:
            own = {
                value: const for value, const in committed.consts.items() if value not in self.outer_consts
            }
            committed = replace(committed, consts=own)
        self._note_untried(committed)
        return committed

    # ------------------------------------------------------------ which rules, where
    def _activate(self, rank: int) -> None:
        """Start trying a rule, or wait for the first thing that the graph lacks."""
        plan, index = self.plans[rank], self.index
        for feature in self.session.plans.features[rank]:
            if not index.count(feature):
                index.wait(feature, rank)
                self.lacking[rank] = feature
                return
        name = plan.rule.name.name
        if rank in self.active or name in self.banned or self.session.is_off(rank, self.site.opset or 0):
            return
        program, applier = self.session.programs[rank]
        program.chain_memory.failed.clear()
        step = program.start(lambda m: self._accept(rank, m))
        self.active[rank] = Active(rank, program, applier, step, self.session.trace.count(name))
        is_run = rank < self.session.plans.n_run
        if not (is_run and self.session.options.is_once):
            self.ascent.enter(rank)
            for op in plan.other_ops:
                self.siblings.setdefault(op, []).append(rank)
            for op in program.chain_ops:
                self.chains.setdefault(op, []).append(rank)
            if self.session.witness is None and not program.chain_ops:
                self.untold.add(rank)
        if is_run:
            rarest = min(plan.requirements, key=lambda item: index.count(item.feature))
            self.work.fill(rank, self._places(rank, rarest))

    def _places(self, rank: int, start: Requirement) -> list[Place]:
        editor, root_ops = self.editor, self.plans[rank].root_ops
        nodes = [node for i in self.index.nodes(start.feature) if (node := editor.nodes.get(i)) is not None]
        if start.climb:
            nodes = climb(nodes, start.climb, self.site)
        key, sign = editor.order_key, self.signs[rank]
        return [(0, sign * key(node.id), node.id) for node in nodes if node.op in root_ops]

    # ------------------------------------------------------------ trying
    def _drain(self, rank: int) -> None:
        """Try the places of one rule until a rule before it has something to do."""
        active, queue, nodes = self.active[rank], self.work.queue(rank), self.editor.nodes
        program, step, count = active.program, active.step, active.count
        m, root_slot, root_ops = program.match, program.root_slot, self.plans[rank].root_ops
        m.best_depth = active.best_depth
        watched = m if isinstance(m, WatchedMatch) else None
        n_attempts = 0
        started = perf_counter()
        while (place := queue.take()) is not None:
            node = nodes.get(place)
            if node is None or node.op not in root_ops:
                continue
            outputs = node.outputs
            if not outputs:
                continue
            n_attempts += 1
            m.budget = STEP_BUDGET
            m.slots[root_slot] = outputs[0]
            if watched is not None:
                watched.begin()
            try:
                done = step(m)
            except (StepLimitError, RecursionError):
                done = False
                self._warn_of_steps(program)
            if m.trail:
                m.undo(0)
            if m.nodes:
                m.nodes.clear()
            if done:
                if self.index.woken:
                    self._wake()
                if not self.work.is_first(rank):
                    break
            elif m.best_depth > active.best_depth:
                self._note_best(active, m, node)
            if watched is not None and not done:
                self._tell(program, watched, node)
            if not done and program.chain_ops:
                self._cut_chain(rank, active, node)
        count.attempts += n_attempts
        count.took_us += (perf_counter() - started) * 1e6

    def _tell(self, program: Program, m: WatchedMatch, node: Node) -> None:
        witness = self.session.witness
        if witness is not None:
            witness.see(sighting(self.session, program, m, node, self.path, "during"))

    def _warn_of_steps(self, program: Program) -> None:
        name = program.rule.name
        self.session.warn(
            Diagnostic(
                table.TOO_MANY_STEPS, {"rule": name.name, "limit": STEP_BUDGET}, name.span, severity="warning"
            )
        )

    def _note_best(self, active: Active, m: Match, node: Node) -> None:
        active.best_depth = m.best_depth
        rank = active.rank
        if rank in self.untold and m.best_depth >= _DEPTH_OF_OPERANDS:
            # Places without what the root needs would tell nothing new.
            self.untold.discard(rank)
            direct = [item.feature for item in self.plans[rank].requirements if not item.climb]
            self.ascent.demand(rank, direct)
        known = active.count.best
        if known is not None and known.depth >= m.best_depth:
            return
        values = self.editor.values
        value = values.get(m.best_value) if m.best_value is not None else None
        maker = self.site.op_of.get(value.id) if value is not None else None
        reason = m.best_note or told_miss(m.best_span, value, maker, self.editor.inputs)
        active.count.best = Partial(called(node, values), m.best_depth, m.best_span, reason)

    def _note_untried(self, graph: Graph) -> None:
        """Remember which rules were never tried on the outermost graph; whoever asks why is told then."""
        if self.path:
            return
        features, opset = self.session.plans.features, self.site.opset or 0
        untried = [
            Untried(self.plans[rank].rule.name.name, lack, features[rank], self.plans[rank].requirements)
            for rank, lack in self.lacking.items()
            if rank not in self.active and not self.session.is_off(rank, opset)
        ]
        if untried:
            self.session.trace.later.append(lambda: explain_untried(graph, untried))

    def _cut_chain(self, rank: int, active: Active, node: Node) -> None:
        """A path that cannot be taken as a whole may be taken without its last node."""
        memory, ops = active.program.chain_memory, active.program.chain_ops
        if node.id in memory.failed or rank >= self.session.plans.n_run:
            return
        memory.failed.add(node.id)
        for value in node.inputs:
            producer = self.site.producer(value) if value is not None else None
            if producer is not None and producer.op in ops:
                self._queue(rank, producer)

    # ------------------------------------------------------------ after a match
    def _accept(self, rank: int, m: Match) -> bool:
        active, options = self.active[rank], self.session.options
        number = max([self.round.get(node.id, 0) for node in m.nodes], default=0) if self.round else 0
        if options.is_once and number and rank < self.session.plans.n_run:
            return self._refuse(active, m, "the phase tries each place once")
        if options.max_rounds is not None and number >= options.max_rounds:
            return self._refuse(active, m, f"the phase stops after {options.max_rounds} rounds")
        if self.session.allow is not None and not self.session.allow(self._proposal(active, m)):
            return self._refuse(active, m, VETOED)
        self.touched.clear()
        change = active.applier.attempt(m, active.count, self.marks)
        if change is None:
            return False
        self.n_changes += bool(change.removed or change.added)
        self._record(active, change, m)
        self.session.burn(active.count.rule)
        if number + 1 > self.limit_round:
            self.session.fail_to_stop()
        for node in change.added:
            self.round[node.id] = number + 1
        self._follow(change)
        return True

    def _proposal(self, active: Active, m: Match) -> Proposal:
        key = self.editor.order_key
        region = sorted({node.id: node for node in m.nodes}.values(), key=lambda node: key(node.id))
        sources = dict.fromkeys(name for node in region for name in sources_of(node))
        rule, phase = active.count.rule, self.session.programs.phase
        return Proposal(rule, phase, self.path, tuple(sources), active.applier.replaced_names(m))

    def _refuse(self, active: Active, m: Match, reason: str) -> bool:
        active.count.refuse(reason)
        if isinstance(m, WatchedMatch):
            m.refuse(Refusal("check", len(active.program.rule.steps), None, reason, ""))
        return False

    def _record(self, active: Active, change: Change, m: Match) -> None:
        active.count.applications += 1
        for node_id, marks in change.marks.items():
            self.marks.setdefault(node_id, {}).update(marks)
        values = self.editor.values
        trace = self.session.trace
        trace.applications.append(
            Application(
                len(trace.applications),
                active.count.rule,
                self.session.programs.phase,
                self.path,
                change.sources,
                tuple(values[value].name or f"%{value}" for value in change.replaced),
                tuple(f"{called(node, values)}: {node.op}" for node in change.removed),
                tuple(f"{called(node, values)}: {node.op}" for node in change.added),
            )
        )
        if self.session.witness is not None:
            matched = tuple({node.id: node for node in m.nodes}.values())
            self.session.witness.apply(
                Applied(trace.applications[-1], self.path, matched, change.removed, change.added)
            )

    def _follow(self, change: Change) -> None:
        """Enter what is new into the index, drop what nobody reads now, and queue the places around."""
        editor, index, fans = self.editor, self.index, self.site.fans
        self._drop_unread(change)
        moved: dict[int, list[int]] = {}
        """What nodes read that has another producer now."""
        for node in change.added:
            index.declare(node)
        fresh = {node.id for node in change.added}
        for node in change.added:
            for value in node.writes():
                for reader in editor.readers(value):
                    moved.setdefault(reader, []).append(value)
        for node_id in change.moved:
            if node_id in editor.nodes:
                moved[node_id] = list(editor.nodes[node_id].reads())
        around: list[Node] = []
        beside: list[Node] = []
        for node_id in self.touched:
            node = editor.nodes.get(node_id)
            if node is None:
                continue
            values = node.inputs if node_id in fresh else moved.get(node_id)
            if values is not None:
                index.add(node, values)
                fans.add(node, values)
                around.append(node)
            elif all(editor.has_few_uses(value, _MOST_INNER_READERS) for value in node.writes()):
                beside.append(node)
        if index.woken:
            self._wake()
        for node in around:
            self._queue_around(node, ())
        if beside:
            # Whoever reads what has changed was around: the climb from there went to the same roots.
            passed = {node.id for node in around}
            for node in beside:
                self._queue_around(node, passed)

    def _wake(self) -> None:
        woken = dict.fromkeys(self.index.woken)
        self.index.woken.clear()
        for rank in woken:
            self._activate(rank)

    def _queue_around(self, node: Node, passed: Collection[int]) -> None:
        """Queue the places that a node may be part of, but not by way of nodes in `passed`.

        With any of those, only the readers of the node have changed.
        """
        for root, ranks in self.ascent.roots(node, self.editor, self.index.op_of, passed):
            for rank in ranks:
                self._queue(rank, root)
        siblings = self.siblings.get(node.op)
        if siblings is not None:
            self._queue_siblings(node, siblings)
        chains = self.chains.get(node.op)
        if chains is not None:
            for rank in chains:
                self._queue(rank, self._top_of_chain(node, self.active[rank].program.chain_ops))

    def _queue_siblings(self, node: Node, ranks: Sequence[int]) -> None:
        site = self.site
        for value in node.inputs:
            if value is None or value in site.consts or len(site.editor.readers(value)) < 2:
                continue
            for sibling in site.fans.readers(value, node.id, NEIGHBOURS // 4, NEIGHBOURS):
                for rank in ranks:
                    if sibling.op in self.plans[rank].root_ops:
                        self._queue(rank, sibling)

    def _queue(self, rank: int, root: Node) -> None:
        place = root.id
        if self.work.is_waiting(rank, place):
            return
        order = self.signs[rank] * self.editor.order_key(place)
        # A group takes what was there first: else it would grow by a few members again and again.
        n_before = self.round.get(place, 0) if self.plans[rank].is_group else 0
        self.work.push(rank, (n_before, order, place))

    def _top_of_chain(self, node: Node, ops: frozenset[str]) -> Node:
        editor = self.editor
        for _ in range(LONGEST_CHAIN):
            value = node.outputs[0] if node.outputs else None
            if value is None or editor.n_uses(value) != 1 or editor.is_output(value):
                break
            above = editor.nodes[next(iter(editor.readers(value)))]
            if above.op not in ops:
                break
            node = above
        return node

    def _drop_unread(self, change: Change) -> None:
        """Delete nodes that only what was removed had read."""
        editor, effects = self.editor, self.session.plans.context.effects
        pending = [value for node in change.removed for value in node.reads()]
        while pending:
            node = editor.producer(pending.pop())
            if node is None or node.op in effects or any(editor.is_read(value) for value in node.writes()):
                continue
            editor.remove_node(node.id)
            pending += node.reads()
