"""What a match has bound so far: slots by number, a trail to take bindings back, and what names mean."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gerules.errors import Span
from gerules.ir import Node


class Unbound(enum.Enum):
    """The type of the one mark for a slot that nothing is bound to; None means an absent input."""

    UNBOUND = "unbound"


UNBOUND: Final = Unbound.UNBOUND


class Kind(enum.Enum):
    """What a name of a rule stands for."""

    __hash__ = object.__hash__

    VALUE = "value"
    """A value id, or None when an optional input is absent."""
    VALUES = "values"
    """A tuple of value ids (`*xs`)."""
    ATTR = "attr"
    """An attribute, or the `Const` of a constant input; None when absent."""
    ATTRS = "attrs"
    """The attributes that `**a` caught."""
    DIM = "dim"
    DIMS = "dims"
    DTYPE = "dtype"
    OP = "op"
    """The node that an operator variable matched."""
    CHAIN = "chain"
    """A `Path`."""
    RESULT = "result"
    """What an expression gave (`with`, `fold`)."""


@dataclass(frozen=True, slots=True)
class Path:
    """What `ch@SET{2..16}` matched: nodes from first to last, and the values that come in sideways."""

    nodes: tuple[Node, ...]
    side_inputs: tuple[int, ...]


@dataclass(slots=True)
class Scope:
    """The names of a rule (or of a clause of a named pattern): slot, kind, whether a group repeats it."""

    slots: dict[str, int] = field(default_factory=dict[str, int])
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    grouped: set[str] = field(default_factory=set[str])


class StepLimitError(Exception):
    """Matching at one place took more steps than a sane rule needs."""


class Match:
    """The state of one attempt. Every binding is on the trail, so that a branch that fails leaves nothing."""

    __slots__ = ("best_depth", "best_note", "best_span", "best_value", "budget", "nodes", "slots", "trail")

    def __init__(self, n_slots: int) -> None:
        self.slots: list[object] = [UNBOUND] * n_slots
        self.trail: list[int] = []
        self.nodes: list[Node] = []
        self.budget = 0
        self.best_depth = 0
        self.best_span: Span | None = None
        self.best_value: int | None = None
        self.best_note = ""

    def bind(self, slot: int, value: object) -> None:
        """Bind a slot until `undo`."""
        self.slots[slot] = value
        self.trail.append(slot)

    def undo(self, mark: int) -> None:
        """Take back every binding made since the trail had `mark` entries."""
        trail, slots = self.trail, self.slots
        while len(trail) > mark:
            slots[trail.pop()] = UNBOUND

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises StepLimitError when the attempt has used up its budget."""
        self.budget -= steps
        if self.budget < 0:
            raise StepLimitError

    def miss(self, depth: int, span: Span, value: int | None, note: str = "") -> bool:
        """Note how far the attempt came, when no other came further; always False.

        `note` says why, where the words and the value alone do not.
        """
        if depth > self.best_depth:
            self.best_depth, self.best_span, self.best_value = depth, span, value
            self.best_note = note
        return False

    def value(self, slot: int) -> int | None:
        """Return the value id in a slot, None when absent or not bound."""
        found = self.slots[slot]
        return found if isinstance(found, int) else None

    def clear(self) -> None:
        """Forget everything, for the next attempt."""
        self.undo(0)
        self.nodes.clear()


Step = Callable[[Match], bool]
"""One step of a program and all that follow it: True when the rest succeeded and was applied."""

Link = Callable[[Step], Step]
"""A step that does not know yet what follows."""


def chain_up(links: list[Link], last: Step) -> Step:
    """Return the program that runs the links in order and then `last`."""
    step = last
    for link in reversed(links):
        step = link(step)
    return step
