"""Rewriting: rules over a graph and its bodies, to a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Literal

from gerules.dsl.syntax import Rule
from gerules.dsl.values import quiet_arithmetic
from gerules.engine.candidate import CostOf, Infer
from gerules.engine.evaluation import RuleContext
from gerules.engine.programs import Programs
from gerules.engine.ranking import RulePlans, plan_rules
from gerules.engine.run import run_graph
from gerules.engine.session import Options, Session
from gerules.engine.trace import Allow, Trace
from gerules.engine.witness import Witness
from gerules.ir import Graph
from gerules.ir.collector import paused_collector
from gerules.ops import Schemas

Order = Literal["outputs_first", "inputs_first"]

_FUEL_PER_NODE = 20
_LEAST_FUEL = 100_000


def rewrite(
    graph: Graph,
    rules: Sequence[Rule] | RulePlans,
    *,
    schemas: Schemas,
    infer: Infer,
    cost: CostOf | None = None,
    context: RuleContext | None = None,
    then: Sequence[Rule] = (),
    phase: str = "",
    order: Order = "outputs_first",
    once: bool = False,
    max_rounds: int | None = None,
    fuel: int | None = None,
    witness: Witness | None = None,
    allow: Allow | None = None,
) -> tuple[Graph, Trace]:
    """Rewrite a graph, and the graphs inside its nodes, to a fixed point of `rules`.

    The graph handed in is not changed; it comes back as it is when no rule applies. A pattern never
    spans two graphs.

    Args:
        rules: Rules, or what `plan_rules` made of them (then `context` and `then` are its own).
        schemas: Which operators exist, and what is optional, default or commutative.
        infer: Types of new nodes.
        cost: What `gate`s compare; without it they hold.
        context: What rules refer to: settings, operator sets, sub-patterns, the device, tags.
        then: Rules for the places that something has changed at; they run after all of `rules`.
        phase: Its name, for the trace and the origin of new nodes.
        order: Where to begin.
        once: `rules` are tried on the graph as it was, not on what they make.
        max_rounds: How often rules may apply to the results of each other.
        fuel: Rewrites allowed before the rules count as not stopping; default 20 for each node, and
            100,000 at least.
        witness: Is told of attempts and rewrites; without one nothing is spent on them.
        allow: Asked before each rewrite of a whole match, guards not yet judged; without one all may happen.

    Returns:
        The new graph, and what happened.

    Raises:
        RuleError: E40030 when the rules do not stop, with the cycle of rule names; E40032 to E40035 when
            a pattern cannot be compiled.

    Cost: linear in nodes, and nearly flat in rules that do not match.
    """
    plans = rules if isinstance(rules, RulePlans) else plan_rules(rules, context or RuleContext(), then=then)
    programs = Programs(plans, schemas, infer, cost, phase, witness)
    options = Options(order == "outputs_first", once, max_rounds)
    return Rewriter(programs, options, fuel=fuel, allow=allow).rewrite(graph)


class Rewriter:
    """Rewrites graphs one after another; rules are compiled once. See `rewrite`."""

    def __init__(
        self,
        programs: Programs,
        options: Options | None = None,
        *,
        fuel: int | None = None,
        allow: Allow | None = None,
    ) -> None:
        self._programs = programs
        self._options = options or Options()
        self._fuel = fuel
        self._allow = allow

    def rewrite(self, graph: Graph) -> tuple[Graph, Trace]:
        """Return a graph rewritten to a fixed point, and what happened. Raises as `rewrite` does."""
        started = perf_counter()
        limit = self._fuel if self._fuel is not None else max(_LEAST_FUEL, _FUEL_PER_NODE * len(graph.nodes))
        session = Session(self._programs, self._options, limit, self._allow)
        try:
            with paused_collector(), quiet_arithmetic():
                after = run_graph(session, graph)
        except BaseException:
            self._programs.forget()
            raise
        session.trace.took_us = (perf_counter() - started) * 1e6
        return after, session.trace
