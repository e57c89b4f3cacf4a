"""Rules that match at one node: who goes first, does it matter, and does a rule ever get its turn.

Patterns whose roots unify are candidates. Which rule goes first is decided by `overrides`, by priority, by
the size of the pattern, or by the two lists of a phase; only where nothing but the order of lines decides is
a pair looked at closely. It counts when a graph can be built on which both rules apply and from which they
lead to different results, whatever the phase makes of either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import Final

from gerules.analysis.applying import apply_once
from gerules.analysis.merged import Reading, merged_graphs, unifications
from gerules.analysis.root_index import RootIndex
from gerules.analysis.settings import RunningPhase, Surroundings, Surveyed
from gerules.analysis.unify import Unifier
from gerules.analysis.variants import TooMany, variants
from gerules.dsl.expressions import Ident
from gerules.dsl.syntax import CaptureAttr, Rule
from gerules.engine.evaluation import RuleContext
from gerules.engine.program import Plan
from gerules.engine.ranking import plan_rules
from gerules.engine.rewrite import rewrite
from gerules.errors import Diagnostic, GerulesError, table
from gerules.ir import Graph, print_graph
from gerules.pipeline.story import RewriteListener
from gerules.report.rule_bench import FUEL, Bench, Place, seed_of
from gerules.report.rule_graphs import Instance, instances
from gerules.report.rule_inputs import Unbuildable

MOST_VARIANTS: Final = 64
"""Variants of one pattern that are unified with those of another."""

MOST_PAIRS: Final = 20_000
"""Pairs of rules whose patterns are compared, of all phases together."""

MOST_TRIED: Final = 2_000
"""Pairs of rules with a common root that are looked at closely, of all phases together."""

_MOST_GRAPHS: Final = 12
"""Graphs on which two rules are tried."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two rules that apply at one node of `graph`, where only the order of lines says which goes first."""

    first: Rule
    second: Rule
    graph: Graph
    phase: str
    where: Surroundings


class Overlaps:
    """Looks for overlaps among the rules of phases; what is known of a rule is worked out once."""

    def __init__(self, survey: Surveyed, bench: Bench) -> None:
        self._survey = survey
        self._bench = bench
        self._readings: dict[str, list[Reading]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._n_compared = 0
        self._n_tried = 0
        self.is_cut = False
        """Whether there were more pairs than are looked at."""

    def pairs(
        self, names: Collection[str], on_step: Callable[[str], None] = lambda _name: None
    ) -> Iterator[Diagnostic]:
        """Yield what is to be said of pairs of which one is among `names`."""
        for phase in self._survey.phases:
            on_step(f"overlap in {phase.name}")
            for first, second, is_decided in self._candidates(phase, names):
                where = self._survey.where([first.rule, second.rule])
                if where is None:
                    continue
                shadowed = self._shadowed(first.rule, second.rule, where)
                if shadowed is not None:
                    yield shadowed
                elif not is_decided:
                    overlap = self._confirmed(first.rule, second.rule, phase, where)
                    if overlap is not None:
                        yield describe(overlap)

    # ------------------------------------------------------------ candidates
    def _candidates(self, phase: RunningPhase, names: Collection[str]) -> Iterator[tuple[Plan, Plan, bool]]:
        """Yield pairs whose roots unify, in the order they are tried in, and whether a rank decides it."""
        run = [rule for rule in phase.rules if rule not in phase.then]
        context = RuleContext(self._survey.plain.scope, self._survey.book.patterns)
        extra = {name: item.priority for name, item in self._survey.book.rulesets.items()}
        try:
            plans = plan_rules(run, context, then=phase.then, priorities=extra)
        except GerulesError:
            return  # a pattern without operator to start from; the engine says so
        index = RootIndex()
        for place, plan in enumerate(plans.plans):
            for reading in self._read(plan.rule):
                index.add(reading, place)
        for a, first in enumerate(plans.plans):
            for b in sorted(place for place in index.near(self._read(first.rule)) if place > a):
                second = plans.plans[b]
                key = (first.rule.name.name, second.rule.name.name)
                if key in self._seen or not any(name in names for name in key):
                    continue
                if self._n_compared == MOST_PAIRS or self._n_tried == MOST_TRIED:
                    self.is_cut = True
                    return
                self._seen.add(key)
                self._n_compared += 1
                if first.root_ops.isdisjoint(second.root_ops) or not self._unify(first.rule, second.rule):
                    continue
                self._n_tried += 1
                is_run = (a < plans.n_run, b < plans.n_run)
                yield first, second, is_run[0] != is_run[1] or _is_decided(first, second, extra)

    def _unify(self, one: Rule, two: Rule) -> bool:
        pairs = [(a, b) for a in self._read(one) for b in self._read(two)]
        return any(next(unifications(a, b, self._bench.schemas), None) is not None for a, b in pairs)

    def _read(self, rule: Rule) -> list[Reading]:
        """Return the variants of a rule by each call that makes what the rule replaces."""
        name = rule.name.name
        if name not in self._readings:
            found: list[Reading] = []
            replaced = [target.name for line in rule.rewrite for target in line.targets]
            replaced += [line.value_name.name for line in rule.annotations]
            try:
                for variant in islice(variants(rule, self._survey.vocabulary), MOST_VARIANTS):
                    values = [value for target in replaced for value in variant.values_of(target)]
                    roots = {variant.producer[value][0] for value in values if value in variant.producer}
                    found += (Reading(rule, variant, root) for root in sorted(roots))
            except TooMany:
                pass
            self._readings[name] = found
        return self._readings[name]

    # ------------------------------------------------------------ confirming
    def _confirmed(
        self, first: Rule, second: Rule, phase: RunningPhase, where: Surroundings
    ) -> Overlap | None:
        """Return an overlap on a graph on which both apply at one node, with results that never meet."""
        place = self._place(first, where)
        for instance in islice(self._graphs(first, second, place), _MOST_GRAPHS):
            if self._is_overlap(instance.graph, first, second, phase, where, place):
                bare = instance.bare()
                is_shown = self._is_overlap(bare, first, second, phase, where, place)
                return Overlap(first, second, bare if is_shown else instance.graph, phase.name, where)
        return None

    def _is_overlap(
        self, graph: Graph, first: Rule, second: Rule, phase: RunningPhase, where: Surroundings, place: Place
    ) -> bool:
        one, two = self._apply(graph, first, place), self._apply(graph, second, place)
        if one is None or two is None or one.matched.isdisjoint(two.matched):
            return False
        return self._normal(one.after, phase, where, place) != self._normal(two.after, phase, where, place)

    def _graphs(self, first: Rule, second: Rule, place: Place) -> Iterator[Instance]:
        for a in self._read(first):
            for b in self._read(second):
                yield from islice(merged_graphs(a, b, place, self._bench), 4)
        yield from self._own_graphs(first, place)
        yield from self._own_graphs(second, place)

    def _own_graphs(self, rule: Rule, place: Place, limit: int = 4) -> Iterator[Instance]:
        for test in rule.tests:
            if test.expects_match:
                try:
                    yield from instances(rule, test, place.setting, limit=limit, seed=seed_of(rule))
                except (Unbuildable, GerulesError):
                    continue

    def _place(self, rule: Rule, where: Surroundings) -> Place:
        test = rule.tests[0] if rule.tests else None
        if test is not None:
            test = replace(
                test, device=Ident(rule.span, where.device) if where.device else None, profile=None
            )
        return self._bench.place(replace(rule, opsets=(("==", where.opset),)), test)

    def _apply(self, graph: Graph, rule: Rule, place: Place) -> _Application | None:
        witness = RewriteListener()
        after = apply_once(graph, [rule], place, self._bench.schemas, witness)
        return (
            None
            if after is None
            else _Application(after, frozenset(node.id for one in witness.applied for node in one.matched))
        )

    def _normal(self, graph: Graph, phase: RunningPhase, where: Surroundings, place: Place) -> object:
        """Return what the whole phase makes of a graph, apart from names; its text where it does not end."""
        rules = [rule for rule in phase.rules if rule.name.name in where.on]
        try:
            plans = plan_rules(rules, place.context)
            infer, schemas = place.setting.infer, self._bench.schemas
            graph, _ = rewrite(graph, plans, schemas=schemas, infer=infer, cost=place.cost, fuel=FUEL)
        except GerulesError:
            return print_graph(graph)
        return signature(graph)

    # ------------------------------------------------------------ shadowing
    def _shadowed(self, first: Rule, second: Rule, where: Surroundings) -> Diagnostic | None:
        """Return what to say when the first rule takes every match of the second."""
        if any(
            second.name.name in item.on and first.name.name not in item.on
            for item in self._survey.surroundings
        ):
            return None
        covers = [self._covers(first, reading) for reading in self._read(second)]
        if not covers or not all(covers):
            return None
        place = self._place(second, where)
        n_seen = 0
        for graph in (item.graph for item in islice(self._own_graphs(second, place), _MOST_GRAPHS)):
            two = self._apply(graph, second, place)
            if two is None:
                continue
            n_seen += 1
            one = self._apply(graph, first, place)
            if one is None or one.matched.isdisjoint(two.matched):
                return None
        is_certain = not first.steps and not first.gates
        if not n_seen and not is_certain:
            return None
        notes = [f"{first.name.name} ({first.name.span}) is tried before it, and matches whatever it matches"]
        if n_seen:
            notes.append(f"it took all {n_seen} graphs made from the tests of {second.name.name}")
        facts = {"rule": second.name.name, "other": first.name.name}
        severity = "error" if is_certain else "warning"
        return Diagnostic(table.SHADOWED, facts, second.name.span, notes=tuple(notes), severity=severity)

    def _covers(self, first: Rule, reading: Reading) -> bool:
        """Whether a rule's pattern matches every graph that a variant of another stands for."""
        return any(
            is_covered(unifier, len(a.variant.calls), reading)
            for a in self._read(first)
            for unifier in unifications(a, reading, self._bench.schemas)
        )


@dataclass(frozen=True, slots=True)
class _Application:
    after: Graph
    matched: frozenset[int]


def _is_decided(first: Plan, second: Plan, extra: Mapping[str, int]) -> bool:
    """Whether something that an author wrote, or the sizes, put two rules in their order."""
    one, two = first.rule, second.rule
    ranks = [(plan.rule.priority + extra.get(plan.rule.ruleset, 0), plan.n_calls) for plan in (first, second)]
    named = {name.name for name in one.overrides} | {name.name for name in two.overrides}
    return ranks[0] != ranks[1] or one.name.name in named or two.name.name in named


def is_covered(unifier: Unifier, n_calls: int, reading: Reading) -> bool:
    """Whether unification asked nothing of the second variant: the first one is as general or more.

    The first `n_calls` calls of the unified variant are those of the first one.
    """
    joint = unifier.variant
    if reading.variant.shared or reading.variant.has_group:
        return False
    values = list(joint.leaves)
    of_first = {value for call in joint.calls[:n_calls] for value in (*call.inputs, *call.outputs)}
    seen: set[int] = set()
    for value in values:
        if value in of_first:
            continue
        found = unifier.find(value)
        # A leaf of the second became a call, or one with another leaf.
        if found in joint.producer or found in seen:
            return False
        seen.add(found)
    for value in values:
        leaf = joint.leaves[value]
        if value not in of_first or not (leaf.types or leaf.number is not None):
            continue
        others = [
            joint.leaves[o] for o in values if o not in of_first and unifier.find(o) == unifier.find(value)
        ]
        if not others or (leaf.number is not None and others[0].number != leaf.number):
            return False
        if any(type not in others[0].types for type in leaf.types):
            return False
    if any(joint.types.get(value) for value in of_first if value is not None):
        return False
    for place, call in enumerate(joint.calls):
        twins = [other for other in unifier.members(place) if (other < n_calls) != (place < n_calls)]
        if place < n_calls and not twins:
            return False
        if place < n_calls or not twins:
            continue
        for general in (joint.calls[other] for other in twins):
            if not call.ops <= general.ops or len(general.inputs) != len(call.inputs):
                return False
            if call.is_open and not general.is_open:
                return False
            if general.pattern.rest is None and (
                call.pattern.rest is not None or call.attrs.keys() - general.attrs
            ):
                return False
            for name, wanted in general.attrs.items():
                if not isinstance(wanted, CaptureAttr) and call.attrs.get(name) != wanted:
                    return False
    return True


def signature(graph: Graph) -> tuple[str, ...]:
    """Return what tells graphs apart that differ in more than names of inner values and nodes."""
    known: dict[int, str] = {value: f"input {place}" for place, value in enumerate(graph.inputs)}
    for value, const in graph.consts.items():
        known[value] = f"const {const.digest.hex()}"
    for node in graph.node_list():
        inputs = [None if value is None else known.get(value) for value in node.inputs]
        attrs = sorted((name, repr(attr)) for name, attr in node.attrs.items())
        bodies = [(name, signature(body.graph)) for name, body in sorted(node.bodies.items())]
        made = blake2b(repr((node.op, inputs, attrs, bodies)).encode(), digest_size=16).hexdigest()
        for place, value in enumerate(node.outputs):
            if value is not None:
                known[value] = f"{made}.{place}"
    return tuple(known.get(value, "") for value in graph.outputs)


def describe(overlap: Overlap) -> Diagnostic:
    """Return the warning for an overlap, with the graph on which both apply."""
    first, second = overlap.first.name, overlap.second.name
    notes = [f"{first} ({first.span}) goes first, only because it stands before {second} ({second.span})"]
    if overlap.first.when or overlap.second.when or overlap.first.opsets or overlap.second.opsets:
        notes.append(f"both are on {overlap.where}")
    notes.append(
        f"both apply to this graph, and lead to different ones:\n{print_graph(overlap.graph).rstrip()}"
    )
    facts = {"first": str(first), "second": str(second), "phase": overlap.phase}
    return Diagnostic(table.OVERLAP, facts, second.span, notes=tuple(notes), severity="warning")
