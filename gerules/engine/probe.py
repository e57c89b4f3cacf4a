"""Probing: rules tried at every node of a graph without carrying anything out, for a witness."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gerules.engine.apply import Applier
from gerules.engine.binding import Match, StepLimitError
from gerules.engine.index import CONST, Feature
from gerules.engine.program import Program
from gerules.engine.reasons import called
from gerules.engine.session import Session
from gerules.engine.trace import RuleCount
from gerules.engine.witness import Refusal, Sighting, WatchedMatch, When, Witness
from gerules.ir import Const, Graph, GraphEditor, Node

STEP_BUDGET: Final = 50_000
"""Steps of one attempt, as in a run."""

_SETTING: Final = re.compile(r"\$([^\W\d]\w*)")

_REMEDIES: Final = (
    ("has readers outside the match", "let only the match read it, or declare its line `shared` in the rule"),
    (
        "is a graph output",
        "take it out of the outputs, or declare its line `shared` in the rule",
    ),
)


def probe(
    session: Session,
    graph: Graph,
    path: str,
    banned: frozenset[str],
    outer_consts: Mapping[int, Const],
    when: When,
) -> None:
    """Try the rules that the witness wants at every node they could start from, and tell it of each.

    The index of a run skips places where a part of the pattern is missing; here they are asked as well.
    The graph gets an editor of its own, so that no id is spent.

    Cost: nodes times rules wanted.
    """
    witness = session.witness
    if witness is None:
        return
    plans = session.plans.plans
    ranks = [
        rank
        for rank, plan in enumerate(plans)
        if plan.rule.name.name not in banned and witness.wants(plan.rule.name.name)
    ]
    if not ranks:
        return
    editor = GraphEditor(graph)
    editor.consts.update(outer_consts)
    op_of: dict[int, str] = dict.fromkeys(editor.consts, CONST)
    by_op: dict[str, list[Node]] = {}
    edges: set[tuple[str, str]] = set()
    for node in editor.nodes.values():
        by_op.setdefault(node.op, []).append(node)
        op_of.update(dict.fromkeys(node.writes(), node.op))
        edges.update((node.op, op_of[value]) for value in node.inputs if value is not None and value in op_of)
    session.site.enter(editor, op_of)
    marks = session.trace.body_annotations.get(path, {}) if path else session.trace.annotations
    for rank in ranks:
        plan = plans[rank]
        if session.is_off(rank, session.site.opset or 0):
            continue
        name = plan.rule.name.name
        for feature in session.plans.features[rank]:
            if not _is_there(feature, by_op, edges):
                witness.lack(name, path, feature, when)
        anchors = [node for op in sorted(plan.root_ops) for node in by_op.get(op, ()) if node.outputs]
        if not anchors:
            continue
        program, applier = session.programs[rank]
        program.chain_memory.failed.clear()
        trial = _Trial(session, witness, program, applier, path, marks)
        for node in anchors:
            trial.at(node, when)


def _is_there(feature: Feature, by_op: Mapping[str, object], edges: set[tuple[str, str]]) -> bool:
    if feature.sources is None:
        return any(op in by_op for op in feature.ops)
    return any((op, source) in edges for op in feature.ops for source in feature.sources)


class _Trial:
    def __init__(
        self,
        session: Session,
        witness: Witness,
        program: Program,
        applier: Applier,
        path: str,
        marks: Mapping[int, Mapping[str, object]],
    ) -> None:
        self._session, self._witness, self._path = session, witness, path
        self._program, self._applier, self._marks = program, applier, marks
        self._count = RuleCount(program.rule.name.name)
        self._step = program.start(self._would_apply)

    def _would_apply(self, m: Match) -> bool:
        change = self._applier.attempt(m, self._count, self._marks, is_dry=True)
        if change is None or not isinstance(m, WatchedMatch):
            return False
        m.is_fit, m.matched = True, tuple(m.nodes)
        return True

    def at(self, node: Node, when: When) -> None:
        m = self._program.match
        if not isinstance(m, WatchedMatch):
            return
        m.begin()
        m.budget = STEP_BUDGET
        m.slots[self._program.root_slot] = node.outputs[0]
        try:
            self._step(m)
        except (StepLimitError, RecursionError):
            m.refuse(Refusal("check", 1 << 20, None, "matching here takes too many steps", ""))
        m.clear()
        self._witness.see(sighting(self._session, self._program, m, node, self._path, when))


def sighting(
    session: Session, program: Program, m: WatchedMatch, node: Node, path: str, when: When
) -> Sighting:
    """Return what the attempt that `m` has just made came to."""
    name, phase = program.rule.name.name, session.programs.phase
    matched = tuple(dict.fromkeys(item.id for item in m.matched))
    n_steps, label = len(program.rule.steps), called(node, session.site.values)
    if m.is_fit:
        return Sighting(
            name, phase, path, node, when, "fits", len(matched), n_steps, None, "", "", "", matched, label
        )
    refusal = m.refusal
    if refusal is not None:
        reason, seen = _in_general(refusal, m, session)
        wanted = next((remedy for words, remedy in _REMEDIES if refusal.reason.endswith(words)), "")
        if refusal.stage in ("guard", "gate") and refusal.span is not None:
            test = " ".join(refusal.span.text.partition(' else "')[0].split())
            settings = session.plans.vocabulary.settings
            known = [f"${name} = {settings[name]}" for name in _SETTING.findall(test) if name in settings]
            seen = ", ".join(filter(None, [seen, *known]))
            wanted = f"`{test}` has to hold"
        passed = min(refusal.place, n_steps + len(program.rule.gates))
        return Sighting(
            name, phase, path, node, when, refusal.stage, len(matched), passed, refusal.span,
            reason, seen, wanted, matched, label,
        )  # fmt: skip
    found = session.diagnosis(program).explain(m)
    # A node whose operands do not fit has been taken back already; its depth still tells of it.
    n_matched = len(matched) + (m.best_depth > len(matched))
    return Sighting(
        name, phase, path, node, when, "pattern", n_matched, 0, m.best_span,
        found.reason, found.seen, found.wanted, matched, label,
    )  # fmt: skip


def _in_general(refusal: Refusal, m: WatchedMatch, session: Session) -> tuple[str, str]:
    """Return a reason without the name of the value it begins with, so that alike ones are alike."""
    values = session.site.values
    for node in m.matched:
        for value in (*node.writes(), *node.reads()):
            name = values[value].name or f"%{value}" if value in values else ""
            if name and refusal.reason.startswith(f"{name} "):
                return f"a value{refusal.reason[len(name) :]}", refusal.seen or refusal.reason
    return refusal.reason, refusal.seen
