"""The trace: what was rewritten, in order, and for each rule how often, how long, and why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gerules.errors import Diagnostic, Span

_MOST_REASONS: Final = 32
"""Different reasons kept for one rule; further ones are counted together."""

OTHER_REASONS: Final = "other reasons"


@dataclass(frozen=True, slots=True)
class Application:
    """One rewrite.

    `sources` are the names, in the model as read, of what was matched; `replaced` the values that got
    a new producer; `removed` and `added` the nodes, as `name: op`; `graph` the path of bodies that
    leads to the graph it happened in.
    """

    order: int
    rule: str
    phase: str
    graph: str
    sources: tuple[str, ...]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return the rewrite as plain values."""
        return {
            "order": self.order,
            "rule": self.rule,
            "phase": self.phase,
            "graph": self.graph,
            "sources": list(self.sources),
            "replaced": list(self.replaced),
            "removed": list(self.removed),
            "added": list(self.added),
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rewrite before it is carried out; its parts are those of `Application`."""

    rule: str
    phase: str
    graph: str
    sources: tuple[str, ...]
    replaced: tuple[str, ...]


Allow = Callable[[Proposal], bool]
"""Says whether a rewrite may be carried out."""

VETOED: Final = "whoever runs the rules does not allow it here"


@dataclass(frozen=True, slots=True)
class Partial:
    """The attempt that came furthest: where, how many operators matched, and what then did not."""

    node: str
    depth: int
    span: Span | None
    reason: str

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        out: dict[str, object] = {"node": self.node, "depth": self.depth, "reason": self.reason}
        if self.span is not None:
            out["at"] = str(self.span)
            out["text"] = self.span.text
        return out


Explain = Callable[[], Mapping[str, Partial]]
"""Says of rules that were never tried what they lack."""


@dataclass(slots=True)
class RuleCount:
    """What one rule did. `matches` fit the pattern; `applications` of them were carried out."""

    rule: str
    attempts: int = 0
    matches: int = 0
    applications: int = 0
    took_us: float = 0.0
    refusals: dict[str, int] = field(default_factory=dict[str, int])
    best: Partial | None = None

    def refuse(self, reason: str) -> None:
        """Count a match that was not taken."""
        if reason not in self.refusals and len(self.refusals) >= _MOST_REASONS:
            reason = OTHER_REASONS
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def as_json(self) -> dict[str, object]:
        """Return the counts as plain values."""
        return {
            "rule": self.rule,
            "attempts": self.attempts,
            "matches": self.matches,
            "applications": self.applications,
            "took_us": round(self.took_us, 1),
            "refusals": dict(self.refusals),
            "best": self.best.as_json() if self.best is not None else None,
        }


@dataclass(slots=True, repr=False)
class Trace:
    """Everything that happened while rewriting.

    `off` says why rules were not tried at all, `later` has what finds the reasons in `missing`;
    `annotations` are what `annotate:` wrote, by node id of the graph as committed (of the outermost graph;
    those of bodies are under `graph path` in `body_annotations`); `warnings` are faults of rules that
    did not stop the run.
    """

    applications: list[Application] = field(default_factory=list[Application])
    rules: dict[str, RuleCount] = field(default_factory=dict[str, RuleCount])
    off: dict[str, str] = field(default_factory=dict[str, str])
    later: list[Explain] = field(default_factory=list["Explain"])
    annotations: dict[int, dict[str, object]] = field(default_factory=dict[int, dict[str, object]])
    body_annotations: dict[str, dict[int, dict[str, object]]] = field(
        default_factory=dict[str, dict[int, dict[str, object]]]
    )
    warnings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    took_us: float = 0.0

    def __repr__(self) -> str:
        return f"<Trace: {len(self.applications)} applications, {len(self.rules)} rules tried>"

    def count(self, rule: str) -> RuleCount:
        """Return the counts of a rule, made when first asked for."""
        found = self.rules.get(rule)
        if found is None:
            found = self.rules[rule] = RuleCount(rule)
        return found

    @property
    def missing(self) -> dict[str, Partial]:
        """What the graph lacks for rules that were never tried; without `node`, an operator that is nowhere.

        Found when first asked for, in one pass over the graph of each run.
        """
        found: dict[str, Partial] = {}
        for explain in self.later:
            for name, lack in explain().items():
                if name not in found or found[name].depth < lack.depth:
                    found[name] = lack
        self.later = [lambda: found]
        return {name: lack for name, lack in found.items() if name not in self.rules}

    def extend(self, other: Trace) -> None:
        """Add what happened later; annotations by the same key keep their first value."""
        shift = len(self.applications)
        for item in other.applications:
            self.applications.append(
                Application(
                    item.order + shift, item.rule, item.phase, item.graph,
                    item.sources, item.replaced, item.removed, item.added,
                )
            )  # fmt: skip
        for name, count in other.rules.items():
            mine = self.count(name)
            mine.attempts += count.attempts
            mine.matches += count.matches
            mine.applications += count.applications
            mine.took_us += count.took_us
            for reason, n in count.refusals.items():
                mine.refusals[reason] = mine.refusals.get(reason, 0) + n
            if count.best is not None and (mine.best is None or count.best.depth > mine.best.depth):
                mine.best = count.best
        self.off.update(other.off)
        self.later += other.later
        for node, marks in other.annotations.items():
            self.annotations[node] = {**marks, **self.annotations.get(node, {})}
        for path, table in other.body_annotations.items():
            self.body_annotations.setdefault(path, {}).update(table)
        self.warnings += other.warnings
        self.took_us += other.took_us

    def as_json(self) -> dict[str, object]:
        """Return the trace as plain values, stable between runs except for times."""
        return {
            "applications": [item.as_json() for item in self.applications],
            "rules": [self.rules[name].as_json() for name in self.rules],
            "off": dict(self.off),
            "missing": {name: lack.as_json() for name, lack in self.missing.items()},
            "warnings": [item.as_json() for item in self.warnings],
            "took_us": round(self.took_us, 1),
        }

    def render(self) -> str:
        """Return the trace as a user reads it."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for item in self.applications:
            where = f" in {item.graph}" if item.graph else ""
            at = ", ".join(item.replaced or item.sources)
            yield f"{item.order + 1}. {item.rule}{where} at {at}"
            yield f"   - {', '.join(item.removed) or 'nothing'}"
            yield f"   + {', '.join(item.added) or 'nothing'}"
        for count in self.rules.values():
            yield (
                f"{count.rule}: {count.applications} of {count.matches} matches applied, "
                f"{count.attempts} attempts, {count.took_us:.0f} us"
            )
            for reason, n in count.refusals.items():
                yield f"   {n} x not taken: {reason}"
            if count.applications == 0 and count.best is not None:
                place = f" ({count.best.span})" if count.best.span is not None else ""
                yield f"   came furthest at {count.best.node}: {count.best.reason}{place}"
        for name, lack in self.missing.items():
            where = f"came nearest at {lack.node}: " if lack.node else ""
            yield f"{name}: never tried, {where}{lack.reason}"
        for name, reason in self.off.items():
            yield f"{name}: off, {reason}"
