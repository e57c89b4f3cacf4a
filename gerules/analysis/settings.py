"""What rules run together, and in which surroundings: phases, devices, versions of ONNX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gerules.dsl.book import RuleBook
from gerules.dsl.declarations import Phase
from gerules.dsl.selection import ALL, Environment, Selection, TextDevice, select_rules
from gerules.dsl.syntax import Rule
from gerules.engine.vocabulary import Vocabulary
from gerules.ops import Schemas
from gerules.pipeline.phases import CUSTOM, phase_of


@dataclass(frozen=True, slots=True)
class RunningPhase:
    """A phase and its rules. Those of `run` come before those of `then`; in a phase that runs once, what the
    first make is left alone, so only the `repeated` ones can go round."""

    phase: Phase
    rules: tuple[Rule, ...]
    then: tuple[Rule, ...]
    repeated: tuple[Rule, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.phase.name.name


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A device and a version of ONNX, and the rules that are on there, by name."""

    device: str
    opset: int
    selection: Selection
    on: frozenset[str]

    def __str__(self) -> str:
        return f"on {self.device} with opset {self.opset}" if self.device else f"with opset {self.opset}"


class Surveyed:
    """A book with what all analyses ask of it."""

    def __init__(self, book: RuleBook, schemas: Schemas) -> None:
        self.book = book
        self.schemas = schemas

    @cached_property
    def plain(self) -> Selection:
        """The rules without device or version."""
        return select_rules(self.book, Environment(enable=(ALL,)))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What patterns refer to by name."""
        return Vocabulary(self.book.op_sets, self.book.patterns, self.plain.scope.params)

    @cached_property
    def phases(self) -> tuple[RunningPhase, ...]:
        """The phases of the book, and the one that runs the sets that no phase names."""
        found = [self._running(phase) for phase in self.book.phases.values()]
        custom = self._running(phase_of(self.book, CUSTOM))
        return tuple([*found, custom] if custom.rules else found)

    @cached_property
    def surroundings(self) -> tuple[Surroundings, ...]:
        """Every device with every version that rules tell apart; each set of rules that are on, once."""
        versions = {version for rule in self.book.rules for _, version in rule.opsets}
        near = {version + step for version in versions for step in (-1, 0, 1)} | {self.schemas.latest_opset}
        opsets = [opset for opset in sorted(near) if 7 <= opset <= self.schemas.latest_opset]
        found: dict[frozenset[str], Surroundings] = {}
        devices = [*self.book.devices.values()] or [None]
        for opset in reversed(opsets):
            for device in devices:
                environment = Environment(
                    device=None if device is None else TextDevice(self.book, device),
                    enable=(ALL,),
                    opset=opset,
                )
                selection = select_rules(self.book, environment)
                on = frozenset(rule.name.name for rule in selection.rules)
                name = "" if device is None else device.name.name
                found.setdefault(on, Surroundings(name, opset, selection, on))
        return tuple(found.values())

    def where(self, rules: Sequence[Rule]) -> Surroundings | None:
        """Return surroundings in which all of these rules are on; None when they are never on together."""
        names = {rule.name.name for rule in rules}
        return next((item for item in self.surroundings if names <= item.on), None)

    def _running(self, phase: Phase) -> RunningPhase:
        run = list(self._named(name.name for name in phase.run))
        then = [rule for rule in self._named(name.name for name in phase.then) if rule not in run]
        is_once = phase.is_once or not phase.is_fixpoint
        return RunningPhase(phase, (*run, *then), tuple(then), tuple(then) if is_once else (*run, *then))

    def _named(self, wanted: Iterator[str]) -> Iterator[Rule]:
        names = list(wanted)
        for rule in self.book.rules:
            if any(rule.ruleset == name or rule.ruleset.startswith(f"{name}.") for name in names):
                yield rule
