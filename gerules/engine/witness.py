"""Watching: what an attempt came to, for whoever asks why. Without a witness none of this runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from gerules.engine.binding import UNBOUND, Match
from gerules.engine.index import Feature
from gerules.engine.trace import Application
from gerules.errors import Span
from gerules.ir import Node

Stage = Literal["pattern", "guard", "check", "gate", "fits"]
"""Where an attempt ended: in the pattern, at a guard, at what the engine demands of every rewrite, at a
gate, or not at all."""

When = Literal["before", "during", "after"]
"""Of the phase: tried on the graph it found, by the run itself, or on the graph it left."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a whole match was not taken. `place` orders the refusals of one attempt, the last one highest."""

    stage: Stage
    place: int
    span: Span | None
    reason: str
    seen: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """One attempt of one rule at one node; `graph` is the path to the graph it is in.

    `reason` is the same for all nodes that fail alike, `seen` what was found at this one, `wanted` what
    would have to change. `matched` are the ids of the nodes matched when it ended, `n_matched` counts
    them; `n_steps` counts guards and gates that held.
    """

    rule: str
    phase: str
    graph: str
    node: Node
    when: When
    stage: Stage
    n_matched: int
    n_steps: int
    span: Span | None
    reason: str
    seen: str = ""
    wanted: str = ""
    matched: tuple[int, ...] = ()
    name: str = ""
    """What people call the node."""


class Witness(Protocol):
    """Is told what the engine tries and does. Graphs inside nodes are named by the path that leads there."""

    def wants(self, rule: str) -> bool:
        """Whether the attempts of a rule are of interest; they cost time."""
        ...

    def see(self, sighting: Sighting) -> None:
        """Hear of an attempt."""
        ...

    def lack(self, rule: str, graph: str, feature: Feature, when: When) -> None:
        """Hear that a graph has nothing of what a rule needs."""
        ...

    def apply(self, applied: Applied) -> None:
        """Hear of a rewrite."""
        ...


@dataclass(frozen=True, slots=True)
class Applied:
    """A rewrite with its nodes: all that the pattern matched, those that left, and those that came."""

    application: Application
    graph: str
    matched: tuple[Node, ...]
    removed: tuple[Node, ...]
    added: tuple[Node, ...]


class WatchedMatch(Match):
    """A match that remembers what it knew where it came furthest."""

    __slots__ = ("is_fit", "matched", "names", "refusal", "seen", "value_names")

    def __init__(self, n_slots: int, names: Mapping[str, int], value_names: frozenset[str]) -> None:
        super().__init__(n_slots)
        self.names, self.value_names = names, value_names
        self.begin()

    def begin(self) -> None:
        """Forget the last attempt."""
        self.best_depth, self.best_span, self.best_value, self.best_note = -1, None, None, ""
        self.matched: tuple[Node, ...] = ()
        self.seen: dict[str, object] = {}
        self.refusal: Refusal | None = None
        self.is_fit = False

    def miss(self, depth: int, span: Span, value: int | None, note: str = "") -> bool:
        """Note how far the attempt came, by nodes first: alternatives make depths incomparable."""
        n_nodes = len(self.nodes)
        if (n_nodes, depth) > (len(self.matched), self.best_depth):
            self.best_depth, self.best_span, self.best_value = depth, span, value
            self.best_note = note
            self.matched = tuple(self.nodes)
            slots = self.slots
            self.seen = {name: slots[slot] for name, slot in self.names.items() if slots[slot] is not UNBOUND}
        return False

    def refuse(self, refusal: Refusal) -> None:
        """Note that a whole match was not taken."""
        if self.refusal is None or refusal.place > self.refusal.place:
            self.refusal = refusal
            self.matched = tuple(self.nodes)
