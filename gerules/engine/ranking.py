"""The order of rules: priority, then size of the pattern, then file and line; `overrides` above all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from gerules.dsl.syntax import Rule
from gerules.engine.evaluation import RuleContext
from gerules.engine.index import Feature
from gerules.engine.program import Plan, plan_rule
from gerules.engine.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, eq=False)
class RulePlans:
    """The rules of a phase, analysed and in order. Made once, used for any number of graphs.

    The first `n_run` are tried everywhere, the others only where something has changed.
    """

    plans: tuple[Plan, ...]
    n_run: int
    features: tuple[tuple[Feature, ...], ...]
    """What each rule needs in a graph, all of it."""
    context: RuleContext
    vocabulary: Vocabulary


def plan_rules(
    rules: Sequence[Rule],
    context: RuleContext,
    *,
    then: Sequence[Rule] = (),
    priorities: Mapping[str, int] | None = None,
) -> RulePlans:
    """Analyse rules and put them in order.

    Args:
        then: Rules for what changed; they come after all of `rules`.
        priorities: What to add to a rule's own priority, by rule set. Higher goes first.

    Raises:
        RuleError: E40034 when a pattern names no operator to start from.
    """
    vocabulary = Vocabulary(context.scope.opsets, context.patterns, context.scope.params)
    extra = priorities or {}
    chosen = {rule.name.name for rule in rules}
    first = _ordered([plan_rule(rule, vocabulary) for rule in rules], extra)
    second = _ordered([plan_rule(rule, vocabulary) for rule in then if rule.name.name not in chosen], extra)
    plans = (*first, *second)
    features = tuple(
        tuple(dict.fromkeys((*(item.feature for item in plan.requirements), *plan.others))) for plan in plans
    )
    return RulePlans(plans, len(first), features, context, vocabulary)


def _ordered(plans: list[Plan], extra: Mapping[str, int]) -> list[Plan]:
    # Files and lines are the order in which the rules came.
    by_name = {plan.rule.name.name: place for place, plan in enumerate(plans)}
    later: dict[int, list[int]] = {}
    n_before = [0] * len(plans)
    for place, plan in enumerate(plans):
        for name in plan.rule.overrides:
            other = by_name.get(name.name)
            if other is not None and other != place:
                later.setdefault(place, []).append(other)
                n_before[other] += 1
    priorities = [plan.rule.priority + extra.get(plan.rule.ruleset, 0) for plan in plans]

    def key(place: int) -> tuple[int, int, int]:
        # Who goes before a rule must not hold it back: its priority is at least that of those it overrides.
        seen, stack = {place}, [place]
        while stack:
            for other in later.get(stack.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        return (-max(priorities[item] for item in seen), -plans[place].n_calls, place)

    ready = [key(place) for place in range(len(plans)) if n_before[place] == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        place = heappop(ready)[2]
        order.append(place)
        for other in later.get(place, ()):
            n_before[other] -= 1
            if n_before[other] == 0:
                heappush(ready, key(other))
    # Rules that override each other in a circle are a fault of the text; here they keep their order.
    placed = set(order)
    rest = sorted((place for place in range(len(plans)) if place not in placed), key=key)
    return [plans[place] for place in (*order, *rest)]
