"""The programs of rules, compiled when a graph first needs them, for one run after another."""

from __future__ import annotations

from gerules.engine.apply import Applier
from gerules.engine.binding import Kind
from gerules.engine.candidate import CostOf, Infer
from gerules.engine.evaluation import MatchEvaluator
from gerules.engine.program import Program
from gerules.engine.ranking import RulePlans
from gerules.engine.site import Site
from gerules.engine.witness import WatchedMatch, Witness
from gerules.ops import Schemas


class Programs:
    """What rules compile to, and the site that all of it looks at: one graph at a time."""

    def __init__(
        self,
        plans: RulePlans,
        schemas: Schemas,
        infer: Infer,
        cost: CostOf | None = None,
        phase: str = "",
        witness: Witness | None = None,
    ) -> None:
        self.plans = plans
        self.site = Site(schemas)
        self.phase = phase
        self.witness = witness
        self._infer = infer
        self._cost = cost
        self._evaluator = MatchEvaluator(self.site, plans.context)
        self._compiled: dict[int, tuple[Program, Applier]] = {}

    def __getitem__(self, rank: int) -> tuple[Program, Applier]:
        """Return the program of a rule and what carries out its matches."""
        found = self._compiled.get(rank)
        if found is None:
            found = self._compiled[rank] = self._compile(rank)
        return found

    def begin(self) -> None:
        """Begin a run that knows nothing of the faults of rules that were found in earlier ones."""
        for _, applier in self._compiled.values():
            applier.faults.clear()

    def forget(self) -> None:
        """Compile again what is needed: a run was broken off, and matches may be half bound."""
        self._compiled.clear()

    def _compile(self, rank: int) -> tuple[Program, Applier]:
        plan = self.plans.plans[rank]
        program = Program(plan, self.site, self.plans.vocabulary, self._evaluator)
        applier = Applier(
            program,
            self.site,
            self._evaluator,
            self.plans.context,
            self._infer,
            self._cost,
            self.phase,
        )
        if self.witness is not None and self.witness.wants(plan.rule.name.name):
            scope = program.scope
            values = frozenset(name for name, kind in scope.kinds.items() if kind is Kind.VALUE)
            program.match = WatchedMatch(len(program.match.slots), scope.slots, values)
        return program, applier
