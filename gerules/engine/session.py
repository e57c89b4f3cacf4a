"""What the runs over a graph and its bodies share: compiled programs, the trace, fuel."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gerules.dsl.expr import judge
from gerules.dsl.syntax import Rule
from gerules.dsl.tree import RuleError
from gerules.engine.apply import Applier
from gerules.engine.binding import Kind
from gerules.engine.candidate import CostOf, Infer
from gerules.engine.diagnosis import Diagnosis
from gerules.engine.evaluation import MatchEvaluator
from gerules.engine.program import Program
from gerules.engine.ranking import RulePlans
from gerules.engine.site import Site
from gerules.engine.trace import Allow, Trace
from gerules.engine.witness import WatchedMatch, Witness
from gerules.errors import Diagnostic, table
from gerules.ops import Schemas

_REMEMBERED: Final = 128
"""Rule names kept to show a cycle."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a phase runs; see `rewrite`."""

    phase: str = ""
    outputs_first: bool = True
    is_once: bool = False
    max_rounds: int | None = None
    has_bodies: bool = True


class Session:
    """One call of `rewrite`: the programs of its rules, compiled when a graph first needs them."""

    def __init__(
        self,
        plans: RulePlans,
        schemas: Schemas,
        infer: Infer,
        cost: CostOf | None,
        options: Options,
        fuel: int,
        witness: Witness | None = None,
        allow: Allow | None = None,
    ) -> None:
        self.plans = plans
        self.schemas = schemas
        self.site = Site(schemas)
        self.options = options
        self.trace = Trace()
        self.witness = witness
        self.allow = allow
        self.fuel = fuel
        self.budget = fuel
        self._infer = infer
        self._cost = cost
        self._evaluator = MatchEvaluator(self.site, plans.context)
        self._compiled: dict[int, tuple[Program, Applier]] = {}
        self._off: dict[tuple[int, int], bool] = {}
        self._diagnoses: dict[str, Diagnosis] = {}
        self._recent: deque[str] = deque(maxlen=_REMEMBERED)

    def program(self, rank: int) -> tuple[Program, Applier]:
        """Return the program of a rule and what carries out its matches."""
        found = self._compiled.get(rank)
        if found is None:
            plan = self.plans.plans[rank]
            program = Program(plan, self.site, self.plans.vocabulary, self._evaluator)
            applier = Applier(
                program,
                self.site,
                self._evaluator,
                self.plans.context,
                self._infer,
                self._cost,
                self.options.phase,
            )
            if self.witness is not None and self.witness.wants(plan.rule.name.name):
                scope = program.scope
                values = frozenset(name for name, kind in scope.kinds.items() if kind is Kind.VALUE)
                program.match = WatchedMatch(len(program.match.slots), scope.slots, values)
            found = self._compiled[rank] = (program, applier)
        return found

    def diagnosis(self, program: Program) -> Diagnosis:
        """Return what explains the misses of a program."""
        name = program.rule.name.name
        found = self._diagnoses.get(name)
        if found is None:
            found = self._diagnoses[name] = Diagnosis(program, self.site, self.plans.vocabulary)
        return found

    def is_off(self, rank: int, opset: int) -> bool:
        """Whether `when` or `opset` of a rule rule it out for a graph; the reason goes to the trace."""
        key = (rank, opset)
        if key not in self._off:
            rule = self.plans.plans[rank].rule
            reason = self._why_off(rule, opset)
            self._off[key] = reason is not None
            if reason is not None:
                self.trace.off[rule.name.name] = reason
        return self._off[key]

    def _why_off(self, rule: Rule, opset: int) -> str | None:
        for condition in rule.when:
            verdict = judge(condition, self.plans.context.scope)
            if not verdict.holds:
                return verdict.reason
        for op, version in rule.opsets:
            if opset and not _holds(opset, op, version):
                return f"it needs opset {op} {version}; the graph has {opset}"
        return None

    def burn(self, rule: str) -> None:
        """Count an application.

        Raises:
            RuleError: E40030 when there is no fuel left; it names the cycle of rules.
        """
        self._recent.append(rule)
        self.budget -= 1
        if self.budget < 0:
            self.fail_to_stop()

    def fail_to_stop(self) -> None:
        """Raise RuleError E40030 with the last cycle of rule names."""
        cycle = cycle_of(self._recent)
        spans = {plan.rule.name.name: plan.rule.name.span for plan in self.plans.plans}
        raise RuleError(
            table.RULES_DO_NOT_STOP,
            span=spans.get(cycle[0]),
            cycle=" -> ".join([*cycle, cycle[0]]),
            n=self.fuel - self.budget,
        )

    def warn(self, diagnostic: Diagnostic) -> None:
        """Keep a warning, once."""
        if diagnostic not in self.trace.warnings and len(self.trace.warnings) < 1_000:
            self.trace.warnings.append(diagnostic)


def cycle_of(names: Sequence[str]) -> list[str]:
    """Return the shortest sequence that the last names repeat, or the distinct names when none does."""
    recent = list(names)
    for period in range(1, len(recent) // 2 + 1):
        n_seen = min(len(recent), max(3 * period, 6))
        tail = recent[-n_seen:]
        if len(tail) >= 2 * period and all(tail[i] == tail[i + period] for i in range(len(tail) - period)):
            return recent[-period:]
    return list(dict.fromkeys(recent))


def _holds(have: int, op: str, want: int) -> bool:
    match op:
        case "==":
            return have == want
        case "!=":
            return have != want
        case "<":
            return have < want
        case "<=":
            return have <= want
        case ">":
            return have > want
        case _:
            return have >= want
