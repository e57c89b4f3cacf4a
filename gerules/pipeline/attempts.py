"""Attempts: what came of each rule at each node of a compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, Literal

from gerules.engine.index import CONST, Feature
from gerules.engine.program import Plan
from gerules.engine.reasons import sources_of
from gerules.engine.witness import Applied, Sighting, When
from gerules.errors import Span

Outcome = Literal["pattern", "guard", "check", "gate", "lost", "fits"]
"""Where an attempt ended. `lost`: it would have applied, but another rule took a node first."""

_MOST_OPS_NAMED: Final = 4
_MOST_EXAMPLES: Final = 3
"""Attempts that a group keeps whole."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rule at one node, and why it did not apply there.

    `n_matched` of `n_ops` operators of the pattern were found; `nearness` is the part of the way from
    nothing (0) to applied (1), guards and gates counted as steps like operators. `reason` is in words
    that all nodes share which fail alike, `seen` what was found here, `wanted` what would have to
    change; `at` and `text` are the place in the rules and what stands there.
    """

    rule: str
    phase: str
    graph: str
    node: str
    op: str
    sources: tuple[str, ...]
    outcome: Outcome
    n_matched: int
    n_ops: int
    nearness: float
    reason: str
    seen: str = ""
    wanted: str = ""
    at: str = ""
    text: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the attempt as plain values."""
        return {
            "rule": self.rule,
            "phase": self.phase,
            "graph": self.graph,
            "node": self.node,
            "op": self.op,
            "sources": list(self.sources),
            "outcome": self.outcome,
            "n_matched": self.n_matched,
            "n_ops": self.n_ops,
            "nearness": round(self.nearness, 4),
            "reason": self.reason,
            "seen": self.seen,
            "wanted": self.wanted,
            "at": self.at,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class SeenThere:
    """What was seen at some attempts of a group: how many, and the node of the first."""

    seen: str
    count: int
    node: str


@dataclass(frozen=True, slots=True)
class AttemptGroup:
    """Attempts of one rule that failed for one reason: how many, the nearest of them, all that was seen."""

    count: int
    examples: tuple[Attempt, ...]
    sights: tuple[SeenThere, ...]

    @property
    def best(self) -> Attempt:
        """The one that came furthest."""
        return self.examples[0]

    def as_json(self) -> dict[str, object]:
        """Return the group as plain values."""
        sights = [{"seen": item.seen, "count": item.count, "node": item.node} for item in self.sights]
        nodes = [item.node for item in self.examples]
        return self.best.as_json() | {"count": self.count, "nodes": nodes, "sights": sights}


def group_attempts(attempts: Iterable[Attempt]) -> tuple[AttemptGroup, ...]:
    """Return attempts by rule and reason, in the order in which they come."""
    found: dict[tuple[str, str, str, str, str], list[Attempt]] = {}
    for item in attempts:
        key = (item.rule, item.phase, item.outcome, item.at, item.reason)
        found.setdefault(key, []).append(item)
    return tuple(
        AttemptGroup(len(items), tuple(items[:_MOST_EXAMPLES]), _sights(items)) for items in found.values()
    )


def _sights(attempts: Sequence[Attempt]) -> tuple[SeenThere, ...]:
    counts = Counter(item.seen for item in attempts if item.seen)
    first = {item.seen: item.node for item in reversed(attempts)}
    return tuple(SeenThere(seen, count, first[seen]) for seen, count in counts.items())


Place = tuple[str, str, str, int]
"""Phase, rule, path of the graph, node."""


@dataclass(slots=True)
class Recorder:
    """A witness that keeps, for each rule and node, what explains the outcome. None wants all rules."""

    wanted: frozenset[str] | None
    last: dict[Place, Sighting] = field(default_factory=dict[Place, Sighting])
    fits: dict[Place, Sighting] = field(default_factory=dict[Place, Sighting])
    refused: dict[Place, Sighting] = field(default_factory=dict[Place, Sighting])
    """What the run itself refused, where a trial says that it fits."""
    applied: list[Applied] = field(default_factory=list[Applied])
    lacks: dict[str, dict[Feature, set[When]]] = field(default_factory=dict[str, dict[Feature, "set[When]"]])

    def wants(self, rule: str) -> bool:
        """Whether a rule was asked about."""
        return self.wanted is None or rule in self.wanted

    def see(self, sighting: Sighting) -> None:
        """Keep the last thing seen at a place, and that it once fitted."""
        place = (sighting.phase, sighting.rule, sighting.graph, sighting.node.id)
        if sighting.stage == "fits":
            self.fits[place] = sighting
            if sighting.when == "after" and place in self.refused:
                self.last[place] = self.refused[place]
                return
        elif sighting.when == "during":
            self.refused[place] = sighting
        self.last[place] = sighting

    def lack(self, rule: str, graph: str, feature: Feature, when: When) -> None:
        """Keep what the outermost graph lacks."""
        if not graph:
            self.lacks.setdefault(rule, {}).setdefault(feature, set()).add(when)

    def apply(self, applied: Applied) -> None:
        """Keep a rewrite."""
        self.applied.append(applied)

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Return, by rule, what the model had none of, neither before nor after the phase."""
        return {rule: tuple(dict.fromkeys(map(_told, told))) for rule, told in self.lacking().items()}

    def lacking(self) -> dict[str, tuple[Feature, ...]]:
        """Return, by rule, the features that the model had none of, neither before nor after the phase."""
        found: dict[str, tuple[Feature, ...]] = {}
        for rule, features in self.lacks.items():
            never = [item for item, whens in features.items() if len(whens) > 1]
            absent = [item.ops for item in never if item.sources is None]
            # Where an operator is absent, so is everything that would read or feed it.
            told = [item for item in never if item.sources is None or item.ops not in absent]
            if told:
                found[rule] = tuple(told)
        return found

    def applied_at(self) -> dict[str, tuple[str, ...]]:
        """Return, by rule, the first value or name of each application."""
        found: dict[str, list[str]] = {}
        for item in self.applied:
            if self.wants(item.application.rule):
                record = item.application
                found.setdefault(record.rule, []).append((record.replaced or record.sources or ("",))[0])
        return {name: tuple(items) for name, items in found.items()}

    def attempts(self, plan_of: Mapping[str, Plan]) -> list[Attempt]:
        """Return the attempts that came to nothing."""
        done: set[Place] = set()  # what a rule matched, and what it made: neither is a place it missed
        taken: dict[tuple[str, str, int], str] = {}
        for item in self.applied:
            record = item.application
            for node in (*item.matched, *item.added):
                done.add((record.phase, record.rule, item.graph, node.id))
            for node in item.removed:
                taken.setdefault((record.phase, item.graph, node.id), record.rule)
        found: list[Attempt] = []
        for place, seen in self.last.items():
            if place in done or seen.rule not in plan_of:
                continue
            found += self._attempt(place, seen, plan_of[seen.rule], taken)
        return found

    def _attempt(
        self,
        place: Place,
        seen: Sighting,
        plan: Plan,
        taken: Mapping[tuple[str, str, int], str],
    ) -> Iterator[Attempt]:
        phase, rule, graph, node_id = place
        fit = self.fits.get(place)
        if fit is not None:
            others = (taken.get((phase, graph, item)) for item in (node_id, *fit.matched))
            other = next((name for name in others if name is not None), None)
            if other == rule:  # an application of its own has taken a part of this match
                return
            if other is not None:
                yield _attempt_of(
                    fit, plan, "lost", f"lost to rule {other}, which took the node first",
                    wanted=f"--disable {other}, or `overrides {other}` in this rule",
                )  # fmt: skip
                return
        by = taken.get((phase, graph, node_id))
        if by is not None and (self.wanted is None or by == rule):
            return  # another rule has made something of the node, and this one had no claim to it
        if seen.stage == "fits":
            yield _attempt_of(seen, plan, "fits", "it fits, but the phase did not come back to this node")
            return
        note = f"; rule {by} took the node" if by is not None else ""
        yield _attempt_of(seen, plan, seen.stage, seen.reason, seen=seen.seen + note, wanted=seen.wanted)


def _attempt_of(
    at: Sighting, plan: Plan, outcome: Outcome, reason: str, *, seen: str = "", wanted: str = ""
) -> Attempt:
    n_ops = max(1, plan.n_calls)
    n_steps = len(plan.rule.steps) + len(plan.rule.gates)
    n_matched = min(at.n_matched, n_ops)
    if outcome == "pattern":
        # Whatever it matched, one thing is missing.
        nearness = min(n_matched, n_ops - 0.5) / (n_ops + n_steps)
    elif outcome in ("lost", "fits"):
        nearness, n_matched = 1.0, n_ops
    else:
        # What the engine itself demands comes on top of what the rule says.
        nearness = (n_ops + at.n_steps) / (n_ops + n_steps + (outcome == "check"))
        n_matched = n_ops
    text = "" if at.span is None else " ".join(at.span.text.partition(' else "')[0].split())
    return Attempt(
        at.rule, at.phase, at.graph, at.name, at.node.op, sources_of(at.node), outcome, n_matched, n_ops,
        nearness, reason, seen, wanted, _place_of(at.span), text,
    )  # fmt: skip


def _place_of(span: Span | None) -> str:
    """Folder, file, line and column: short enough to read, and enough to find the place."""
    return "" if span is None else "/".join(PurePath(str(span)).parts[-2:])


def _told(feature: Feature) -> str:
    ops = _listed(feature.ops)
    if feature.sources is None:
        return f"needs operator {ops}, which the graph has none of"
    sources = "a constant" if feature.sources == frozenset([CONST]) else _listed(feature.sources)
    return f"needs {ops} that reads {sources}, which the graph has none of"


def _listed(ops: frozenset[str]) -> str:
    names = [op for op in sorted(ops) if op != CONST]
    more = f" or {len(names) - _MOST_OPS_NAMED} more" if len(names) > _MOST_OPS_NAMED else ""
    return " or ".join(names[:_MOST_OPS_NAMED]) + more
