"""Explanations: why a rule did not fire on a model, which rules almost did, and what made a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Unpack

from gerules.dsl.syntax import Rule
from gerules.engine.index import Feature
from gerules.engine.program import Plan
from gerules.engine.reasons import called
from gerules.ir import Graph
from gerules.pipeline.api import Model, graph_of
from gerules.pipeline.asking import Target, check_node, find_rules, options_of, toolchain_of
from gerules.pipeline.attempts import Attempt, AttemptGroup, Recorder, group_attempts
from gerules.pipeline.compiler import compile_graph
from gerules.pipeline.phases import phase_names, phase_of
from gerules.pipeline.story import Step, Story, why
from gerules.pipeline.toolchain import Toolchain, shipped_rules

NO_EFFECT: Final = "it would change nothing"
_MOST_NAMED: Final = 4
"""Nodes named that one rule took."""
_LEAST_MATCHED: Final = 2
"""Operators without which a pattern did not almost match: one alone is everywhere."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why rules did not apply.

    Attributes:
        rules: The rules asked about; empty when all of them were.
        phases: The phases that ran them.
        off: Why rules were not tried at all, by name.
        missing: What the graph has none of when a rule has its turn, though the rule needs it, by name of the
            rule; where the model as read has it, also which rules took it.
        applied: How often each rule did apply, at which nodes.
        attempts: Those that failed, the nearest first.
    """

    model: str
    device: str
    precision: str
    rules: tuple[str, ...]
    phases: tuple[str, ...]
    off: Mapping[str, str]
    missing: Mapping[str, tuple[str, ...]]
    applied: Mapping[str, tuple[str, ...]]
    attempts: tuple[Attempt, ...]

    def groups(self) -> tuple[AttemptGroup, ...]:
        """Return the attempts by rule and reason, the nearest first."""
        return group_attempts(self.attempts)

    def as_json(self) -> dict[str, object]:
        """Return the explanation as plain values."""
        return {
            "model": self.model,
            "device": self.device,
            "precision": self.precision,
            "rules": list(self.rules),
            "phases": list(self.phases),
            "off": dict(self.off),
            "missing": {name: list(items) for name, items in self.missing.items()},
            "applied": {name: list(items) for name, items in self.applied.items()},
            "groups": [group.as_json() for group in self.groups()],
            "attempts": [item.as_json() for item in self.attempts],
        }


def explain(
    model: Model, rule: str | None = None, *, node: str | None = None, **target: Unpack[Target]
) -> Explanation:
    """Say why a rule did not apply to a model, or which rules almost did.

    The compile runs up to the phase of the rule. The rule is tried at every node it could start from,
    before that phase, during it, and on the graph that it leaves.

    Args:
        rule: A rule, or an alias that stands for several; without it all rules of all phases.
        node: Only attempts at nodes that this node of the model went into.

    Raises:
        PipelineError: E40052 for an unknown rule, E10006 for an unknown node.
        GerulesError: what the compile raises.

    Cost: a compile, and for each rule asked about an attempt at each node of its kind.
    """
    book, options = shipped_rules(target.get("rules", ())), options_of(target)
    graph = graph_of(model, book)
    rules = () if rule is None else find_rules(book, rule)
    tools = toolchain_of(book, graph, options)
    phases = _phases_of(tools, options.pipeline, rules)
    names = tuple(item.name.name for item in rules)
    off = {name: tools.selection.off[name] for name in names if name in tools.selection.off}
    for item in rules:
        if item.name.name not in off and not any(item.name.name in plans for plans in phases.values()):
            off[item.name.name] = f"no phase of the pipeline {options.pipeline} runs the set {item.ruleset}"
    recorder = Recorder(frozenset(names) if rules else None)
    running = {name: plans for name, plans in phases.items() if plans}
    if rules and not running:
        if node is not None:
            check_node(node, [graph])
        return Explanation(
            graph.name, tools.device.name, tools.precision, names, (), off, {}, {}, ()
        )  # fmt: skip
    done = compile_graph(graph, book, replace(options, stop_after=list(running)[-1]), witness=recorder)
    if node is not None:
        check_node(node, [graph, *(stage.graph for stage in done.stages)])
    for name in names:
        if name in done.trace.off:
            off[name] = done.trace.off[name]
    plan_of = {name: plan for plans in running.values() for name, plan in plans.items()}
    attempts = [
        item for item in recorder.attempts(plan_of) if node is None or node in (item.node, *item.sources)
    ]
    if not rules:
        attempts = _first_of_each(item for item in attempts if _is_near(item))
    attempts.sort(key=lambda item: (item.outcome == "lost" and not rules, -item.nearness, -item.n_ops))
    return Explanation(
        graph.name,
        tools.device.name,
        tools.precision,
        names,
        tuple(running),
        off,
        _missing(recorder, graph) if rules else {},
        recorder.applied_at(),
        tuple(attempts),
    )


def _missing(recorder: Recorder, graph: Graph) -> dict[str, tuple[str, ...]]:
    """What rules lacked, and what took it away where the model as read has it."""
    found = recorder.missing()
    for rule, features in recorder.lacking().items():
        notes = [note for item in features if (note := _taken(item, recorder, graph))]
        found[rule] = (*found[rule], *dict.fromkeys(notes))
    return found


def _taken(feature: Feature, recorder: Recorder, graph: Graph) -> str:
    """Say which rules took the nodes of the model that have a feature; empty when there are none."""
    maker = {value: node for node in graph.nodes.values() for value in node.writes()}
    sources = feature.sources
    wanted: set[int] = set()
    for node in graph.nodes.values():
        if node.op not in feature.ops:
            continue
        read = [maker[value] for value in node.reads() if value in maker]
        fitting = [item.id for item in read if sources is not None and item.op in sources]
        if sources is None or fitting:
            wanted.update((node.id, *fitting))
    takers: dict[tuple[str, str], dict[int, str]] = {}
    for one in recorder.applied:
        gone = {node.id: called(node, graph.values) for node in one.removed if node.id in wanted}
        if gone and not one.graph:
            record = one.application
            takers.setdefault((record.rule, record.phase), {}).update(gone)
    told = [
        f"{rule} ({phase}) took {', '.join([*names.values()][:_MOST_NAMED])}"
        + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
        for (rule, phase), names in takers.items()
    ]
    return f"the model has them; {'; '.join(told)}" if told else ""


def _first_of_each(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Leave out what a later phase says again of the same rule and node."""
    found: dict[tuple[str, str, str, str], Attempt] = {}
    for item in attempts:
        found.setdefault((item.rule, item.graph, item.node, item.reason), item)
    return list(found.values())


def _is_near(item: Attempt) -> bool:
    if item.outcome == "pattern":
        return item.n_matched >= _LEAST_MATCHED
    return item.reason != NO_EFFECT


def _phases_of(tools: Toolchain, pipeline: str, rules: Sequence[Rule]) -> dict[str, dict[str, Plan]]:
    """The plans of the rules asked about, by phase and name, for each phase that has one of them."""
    wanted = {rule.name.name for rule in rules}
    found: dict[str, dict[str, Plan]] = {}
    also: dict[str, dict[str, Plan]] = {}
    for phase in phase_names(tools.book, pipeline):
        plans = tools.phases.plans(phase_of(tools.book, phase))
        for place, plan in enumerate(plans.plans):
            name = plan.rule.name.name
            if not wanted or name in wanted:
                (found if place < plans.n_run else also).setdefault(phase, {})[name] = plan
    if not wanted:
        return {
            phase: also.get(phase, {}) | found.get(phase, {})
            for phase in phase_names(tools.book, pipeline)
            if phase in found or phase in also
        }
    # A rule that cleans up after every phase is explained where it runs everywhere.
    return found or also


__all__ = ["Attempt", "AttemptGroup", "Explanation", "Step", "Story", "Target", "explain", "why"]
