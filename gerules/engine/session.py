"""What the runs over a graph and its bodies share: programs, the trace, fuel."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gerules.dsl.expr import judge
from gerules.dsl.syntax import Rule
from gerules.dsl.tree import RuleError
from gerules.engine.diagnosis import Diagnosis
from gerules.engine.program import Program
from gerules.engine.programs import Programs
from gerules.engine.trace import Allow, Trace
from gerules.errors import Diagnostic, table

_REMEMBERED: Final = 128
"""Rule names kept to show a cycle."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a phase runs; see `rewrite`."""

    outputs_first: bool = True
    is_once: bool = False
    max_rounds: int | None = None
    has_bodies: bool = True


class Session:
    """One call of `rewrite`; its programs may serve several, one after another."""

    def __init__(
        self,
        programs: Programs,
        options: Options,
        fuel: int,
        allow: Allow | None = None,
    ) -> None:
        self.programs = programs
        self.plans = programs.plans
        self.site = programs.site
        self.witness = programs.witness
        self.options = options
        self.trace = Trace()
        self.allow = allow
        self.fuel = fuel
        self.budget = fuel
        self._off: dict[tuple[int, int], bool] = {}
        self._diagnoses: dict[str, Diagnosis] = {}
        self._recent: deque[str] = deque(maxlen=_REMEMBERED)
        programs.begin()

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
