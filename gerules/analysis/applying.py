"""Applying rules to generated graphs, once each: what they make is left alone, so that none runs for ever."""

from __future__ import annotations

from collections.abc import Sequence

from gerules.dsl.syntax import Rule
from gerules.engine.ranking import plan_rules
from gerules.engine.rewrite import rewrite
from gerules.engine.witness import Witness
from gerules.errors import GerulesError
from gerules.ir import Graph
from gerules.ops import Schemas
from gerules.report.rule_bench import FUEL, Place


def apply_once(
    graph: Graph, rules: Sequence[Rule], place: Place, schemas: Schemas, witness: Witness | None = None
) -> Graph | None:
    """Return what rules make of the graph as it is; None when none applies, or one cannot be compiled."""
    try:
        after, trace = rewrite(
            graph,
            plan_rules(rules, place.context),
            schemas=schemas,
            infer=place.setting.infer,
            cost=place.cost,
            phase="check",
            once=True,
            fuel=FUEL,
            witness=witness,
        )
    except GerulesError:
        return None
    return after if trace.applications else None
