"""What a pass looks for and builds, before it is written in a language."""

from __future__ import annotations

from dataclasses import dataclass, field

from gerules.errors import Span
from gerules.exporting.operators import GeForm


class Refusal(Exception):  # noqa: N818 - it becomes a note about one rule
    """A rule, or a part of it, that no pass can say; `kind` is a word for counting."""

    def __init__(self, kind: str, reason: str, span: Span | None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True)
class Input:
    """A value from outside the pattern, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a node, by the node's number."""

    node: int


@dataclass(frozen=True, slots=True)
class Number:
    """A constant. In a pattern `value` None is any; elsewhere it is built with this value."""

    value: float | int | tuple[int, ...] | None
    tolerance: float | None = None

    @property
    def number(self) -> float:
        """The value of a constant that is one number."""
        return float(self.value) if isinstance(self.value, int | float) else 0.0


@dataclass(frozen=True, slots=True)
class Computed:
    """A number that is computed from constants and attributes of the match, as both languages say it."""

    python: str
    cpp: str


Source = Input | Output | Number | Computed | None
"""What an input of a node reads; None where it is left out."""


@dataclass(frozen=True, slots=True)
class Captured:
    """The value of an attribute of a matched node."""

    node: int
    name: str
    kind: str


AttrValue = int | float | bool | str | tuple[int, ...] | Captured | Computed
"""What an attribute is, or where it is taken from."""


@dataclass(slots=True)
class PlanNode:
    """An operator of a pattern or of what replaces it.

    `attrs` are compared in a pattern, and set in a replacement; a pattern node that `is_open` has
    attributes which may be anything. `copies` is the matched node whose attributes a new node takes over.
    """

    form: GeForm
    inputs: list[Source]
    attrs: dict[str, AttrValue] = field(default_factory=dict[str, AttrValue])
    is_open: bool = False
    copies: int | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition in both languages, and what is said when it does not hold."""

    python: str
    cpp: str
    reason: str
    is_of_attr: bool = False
    """Compares an attribute, which the matcher does too when it is strict."""
    is_of_number: bool = False
    """Compares a constant exactly, likewise."""


@dataclass(slots=True)
class Plan:
    """One form of a rule as a pass. `name` is the name of the pass, legal and unlike those of others."""

    name: str
    rule: str
    doc: str
    n_inputs: int = 0
    nodes: list[PlanNode] = field(default_factory=list[PlanNode])
    outputs: list[Source] = field(default_factory=list["Source"])
    requirements: list[Requirement] = field(default_factory=list[Requirement])
    built: list[PlanNode] = field(default_factory=list[PlanNode])
    results: list[Source] = field(default_factory=list["Source"])

    @property
    def is_strict(self) -> bool:
        """Whether all attributes are compared, so that the matcher itself can do it."""
        return any(node.attrs for node in self.nodes) and not any(node.is_open for node in self.nodes)

    @property
    def has_exact_numbers(self) -> bool:
        """Whether there are constants, all compared exactly, so that the matcher itself can do it."""
        numbers = [item for node in self.nodes for item in node.inputs if isinstance(item, Number)]
        return bool(numbers) and all(item.value is not None and item.tolerance is None for item in numbers)

    @property
    def needs_match(self) -> bool:
        """Whether the replacement reads the match, for attributes that it takes over."""
        return self.is_computed or any(
            node.copies is not None or any(isinstance(value, Captured) for value in node.attrs.values())
            for node in self.built
        )

    @property
    def is_computed(self) -> bool:
        """Whether constants or attributes of the replacement are computed."""
        return any(
            isinstance(item, Computed) for node in self.built for item in (*node.inputs, *node.attrs.values())
        )
