"""Gates: what a rewrite costs before and after, and which refusals need not be worked out again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final

from gerules.dsl import expr as dsl
from gerules.dsl.values import CostView, Value
from gerules.engine.binding import Match
from gerules.engine.candidate import Candidate, CostOf, Refused
from gerules.engine.evaluation import MatchEvaluator
from gerules.engine.program import Program
from gerules.engine.reasons import partial_at
from gerules.engine.site import Site
from gerules.engine.trace import RuleCount
from gerules.engine.witness import Refusal, WatchedMatch
from gerules.errors import Diagnostic
from gerules.ir import Node
from gerules.ops.type_memory import contents_of

_MOST_KEPT: Final = 10_000
"""Refusals that are remembered; then all are forgotten."""

_QUANTITY: Final = re.compile(r"\b(?:before|after)\.(\w+)")
_UNITS: Final = {"time": " us", "bytes": "", "flops": ""}

Signature = tuple[object, ...]
"""What the costs of a match depend on."""


class Gates:
    """The gates of one rule. They see time, bytes and operations of what leaves and of what comes.

    Where a gate has refused a match, others of the same form are refused without being built: equal
    operators, attributes and types, wired alike. What many floating-point numbers are shapes nothing;
    other constants count by what they hold. Only refusals are remembered, so a rewrite is never
    made unseen, and never while somebody watches, who sees the numbers.
    """

    def __init__(
        self,
        program: Program,
        site: Site,
        evaluator: MatchEvaluator,
        cost: CostOf,
        note: Callable[[Sequence[Diagnostic]], None],
    ) -> None:
        self._program = program
        self._rule = program.rule
        self._site = site
        self._evaluator = evaluator
        self._cost = cost
        self._note = note
        self._refused: dict[Signature, str] = {}

    def signature(self, m: Match, removed: Mapping[int, Node]) -> Signature | None:
        """Return what the costs of a match depend on; None when it is not to be remembered."""
        if isinstance(m, WatchedMatch):
            return None
        values, consts = self._site.values, self._site.consts
        numbers: dict[int, int] = {}
        parts: list[object] = []
        for node in m.nodes:
            if node.bodies:
                return None
            parts += node.op, node.id in removed, len(node.inputs), *node.attrs.items()
            for value in node.inputs:
                if value is None:
                    parts.append(None)
                    continue
                const = consts.get(value)
                parts += numbers.setdefault(value, len(numbers)), values[value].type, contents_of(const)
            for value in node.writes():
                parts += numbers.setdefault(value, len(numbers)), values[value].type
        return tuple(parts)

    def refuse_known(self, signature: Signature, count: RuleCount) -> None:
        """Raise Refused for a match of a form that was refused before."""
        reason = self._refused.get(signature)
        if reason is not None:
            count.refuse(reason)
            raise Refused("")

    def check(self, m: Match, candidate: Candidate, count: RuleCount, signature: Signature | None) -> None:
        """Raise Refused when a gate does not hold for what was built."""
        before = candidate.cost(self._cost, list(candidate.removed.values()))
        after = candidate.cost(self._cost, candidate.nodes)
        views: dict[str, Value] = {"before": CostView(*before), "after": CostView(*after)}
        program, n_steps = self._program, len(self._rule.steps)
        for gate in self._rule.gates:
            verdict = dsl.judge(gate, self._evaluator.seen(m, program.scope, gate.test, views))
            if verdict.fault is not None:
                self._note([verdict.fault])
            if verdict.holds:
                continue
            ratios, numbers = _compared(gate.test.span.text, before, after)
            count.refuse(verdict.reason)
            if isinstance(m, WatchedMatch):
                m.refuse(Refusal("gate", n_steps, gate.span, verdict.reason, f"{ratios}: {numbers}"))
            if count.best is None or count.best.depth <= program.n_calls + n_steps:
                depth = program.n_calls + n_steps + 1
                count.best = partial_at(m, self._site, depth, gate.span, f"{verdict.reason} ({numbers})")
            if signature is not None:
                if len(self._refused) >= _MOST_KEPT:
                    self._refused.clear()
                self._refused[signature] = verdict.reason
            raise Refused("")


def _compared(test: str, before: Sequence[float], after: Sequence[float]) -> tuple[str, str]:
    """Return what a gate compares, as ratios and as numbers: its one quantity, else all of them."""
    named = set(_QUANTITY.findall(test))
    ratios: list[str] = []
    numbers: list[str] = []
    for (name, unit), one, two in zip(_UNITS.items(), before, after, strict=True):
        if named == {name} or len(named) != 1:
            ratio = two / one if one else 1.0 if not two else inf
            ratios.append(f"{ratio:.4g} x the {name}")
            numbers.append(f"{name} {one:.4g} -> {two:.4g}{unit}")
    return ", ".join(ratios), ", ".join(numbers)
