"""Phases: which rules run together, in which order, what must hold before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gerules.dsl.book import RuleBook
from gerules.dsl.declarations import Phase
from gerules.dsl.expr import Scope, judge
from gerules.dsl.expressions import Ident
from gerules.dsl.selection import Selection
from gerules.dsl.syntax import Condition, Rule
from gerules.dsl.tree import RuleError
from gerules.engine.candidate import CostOf, Infer
from gerules.engine.evaluation import Questions, RuleContext
from gerules.engine.ranking import RulePlans, plan_rules
from gerules.engine.rewrite import rewrite
from gerules.engine.site import Site
from gerules.engine.trace import Allow, Trace
from gerules.engine.witness import Witness
from gerules.errors import ErrorCode, Faults, table
from gerules.ir import Graph, GraphEditor
from gerules.ops import Schemas


@dataclass(slots=True)
class PhaseRunner:
    """Runs the phases of one book and selection; rules are made ready once, whatever the number of graphs."""

    book: RuleBook
    selection: Selection
    schemas: Schemas
    context: RuleContext
    _plans: dict[str, RulePlans] = field(default_factory=dict[str, RulePlans])

    def run(
        self,
        graph: Graph,
        phase: Phase,
        *,
        infer: Infer,
        cost: CostOf | None = None,
        fuel: int | None = None,
        witness: Witness | None = None,
        allow: Allow | None = None,
    ) -> tuple[Graph, Trace]:
        """Run a phase over a graph; a witness is told of attempts and rewrites, `allow` asked before each.

        Raises:
            RuleError: E40036 or E40037 with every condition that does not hold before or after;
                otherwise as `rewrite`.
        """
        name = phase.name.name
        self._demand(graph, phase, phase.requires, table.PHASE_REQUIRES)
        after, trace = rewrite(
            graph,
            self.plans(phase),
            schemas=self.schemas,
            infer=infer,
            cost=cost,
            phase=name,
            order=phase.order,
            once=phase.is_once or not phase.is_fixpoint,
            max_rounds=phase.max_rounds,
            fuel=fuel,
            witness=witness,
            allow=allow,
        )
        for rule in self._named(phase.run):
            reason = self.selection.off.get(rule.name.name)
            if reason is not None:
                trace.off[rule.name.name] = reason
        self._demand(after, phase, phase.ensures, table.PHASE_ENSURES)
        return after, trace

    def plans(self, phase: Phase) -> RulePlans:
        """Return the rules of a phase that are on, made ready."""
        found = self._plans.get(phase.name.name)
        if found is None:
            on = {rule.name.name for rule in self.selection.rules}
            found = self._plans[phase.name.name] = plan_rules(
                [rule for rule in self._named(phase.run) if rule.name.name in on],
                self.context,
                then=[rule for rule in self._named(phase.then) if rule.name.name in on],
                priorities={name: item.priority for name, item in self.book.rulesets.items()},
            )
        return found

    def _named(self, sets: Sequence[Ident]) -> list[Rule]:
        """The rules of sets, each once; `fuse` names `fuse.conv` and `fuse.norm` too."""
        found: dict[str, Rule] = {}
        for wanted in sets:
            for ruleset in self.book.set_names:
                if ruleset == wanted.name or ruleset.startswith(wanted.name + "."):
                    found.update({rule.name.name: rule for rule in self.book.rules_of(ruleset)})
        place = {rule.name.name: number for number, rule in enumerate(self.book.rules)}
        return sorted(found.values(), key=lambda rule: place[rule.name.name])

    def _demand(self, graph: Graph, phase: Phase, conditions: Sequence[Condition], code: ErrorCode) -> None:
        if not conditions:
            return
        site = Site(self.schemas)
        site.enter(GraphEditor(graph), {})
        given = self.context.scope
        scope = Scope(
            given.names, given.params, given.opsets, Questions(site, self.context.tags), given.functions
        )
        faults = Faults()
        for condition in conditions:
            verdict = judge(condition, scope)
            if not verdict.holds:
                faults.add(code, span=condition.test.span, phase=phase.name.name, reason=verdict.reason)
        faults.raise_if_any(RuleError)


def run_phase(
    graph: Graph,
    phase: Phase,
    book: RuleBook,
    selection: Selection,
    *,
    schemas: Schemas,
    infer: Infer,
    context: RuleContext | None = None,
    cost: CostOf | None = None,
    fuel: int | None = None,
) -> tuple[Graph, Trace]:
    """Run one phase over one graph; see `PhaseRunner` for several.

    Raises:
        RuleError: E40030 when its rules do not stop, E40036 or E40037 when its conditions do not hold.
    """
    context = context or RuleContext(selection.scope, book.patterns)
    return PhaseRunner(book, selection, schemas, context).run(graph, phase, infer=infer, cost=cost, fuel=fuel)
