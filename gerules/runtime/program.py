"""A program: one graph of an offline model bound to its places in the arena, ready to run many times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from gerules.backend.nested import arena_bytes
from gerules.backend.om import OmTask
from gerules.errors import GerulesError
from gerules.ir import Graph, Node
from gerules.runtime.feeds import Item
from gerules.runtime.interpreter import Interpreter, opset_of, place_of
from gerules.runtime.kernels import Array, RunError
from gerules.runtime.kernels.precision import saturating
from gerules.runtime.launches import Launch, find_launches
from gerules.runtime.rebuild import PlacedGraph
from gerules.runtime.slots import Slot, poison_byte
from gerules.runtime.steps import Action, Binder
from gerules.runtime.streams import run_streams


@dataclass(frozen=True, slots=True)
class OpTime:
    """How long one launch took in one run."""

    name: str
    op: str
    stream: int
    took_us: float


@dataclass(frozen=True, slots=True)
class Watch:
    """What is told of a run: times of launches, and every value as it is made."""

    profile: list[OpTime] | None = None
    keep: Callable[[int, Item], None] | None = None


class Program:
    """One plan: its launches, and the places of all values.

    Args:
        tasks: Those of the graph; None: it runs in the order of its operators.
        arena: The memory that offsets count in; programs may share one, if they run one at a time.
        saturates: Whether float16 stops at its largest number.

    Raises:
        OmError: E80032 for an order in which the graph could not run.
    """

    def __init__(
        self,
        placed: PlacedGraph,
        tasks: Sequence[OmTask] | None,
        arena: npt.NDArray[np.uint8],
        interpreter: Interpreter,
        *,
        saturates: bool,
    ) -> None:
        self._placed = placed
        self._launches = find_launches(tasks, placed)
        self._arena = arena
        self._saturates = saturates
        binder = Binder(arena, interpreter)
        self._slots = binder.slots(placed, {})
        opset = opset_of(placed.graph)
        self._actions = [
            _placed_errors(binder.bind(placed, launch.node, self._slots, opset), _told_name(launch.node))
            for launch in self._launches
        ]
        self._dying = _heap_deaths(placed, self._launches, self._slots)
        self._poison = _poison_plan(placed, self._launches)

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._placed.graph

    def storage_of(self, value: int) -> Array | None:
        """Return the memory of a value in its storage shape; None for values on the heap."""
        return self._slots[value].storage

    def run(
        self, given: Sequence[Item], names: Sequence[str], watch: Watch, *, poison: bool, threads: bool
    ) -> list[Array]:
        """Run once and return the outputs, in memory of their own.

        Args:
            given: One item for each input; None where a default of the graph stands in.
            names: What callers call the inputs.
        """
        for name, value, item in zip(names, self.graph.inputs, given, strict=True):
            default = self.graph.defaults.get(value) if item is None else None
            chosen = item if default is None else cast(Array, default.array)
            self._slots[value].write(chosen, f"input {name}")
        actions = self._instrumented(watch)
        if threads:
            run_streams(self._launches, [self._saturated(action) for action in actions])
        else:
            with saturating(self._saturates):
                self._run_in_order(actions, poison)
        outputs = [self._slots[value].snapshot() for value in self.graph.outputs]
        for slot in self._slots.values():
            slot.item = None
        return cast("list[Array]", outputs)

    def _saturated(self, action: Action) -> Action:
        """A thread begins without the context of the one that starts it."""

        def run() -> None:
            with saturating(self._saturates):
                action()

        return run

    def _run_in_order(self, actions: Sequence[Action], poison: bool) -> None:
        for step, action in enumerate(actions):
            action()
            for slot in self._dying.get(step, ()):
                slot.item = None
            if poison:
                for low, high, byte in self._poison.get(step, ()):
                    self._arena[low:high] = byte

    def _instrumented(self, watch: Watch) -> Sequence[Action]:
        if watch.profile is None and watch.keep is None:
            return self._actions
        return [
            self._watched(action, launch, watch)
            for action, launch in zip(self._actions, self._launches, strict=True)
        ]

    def _watched(self, action: Action, launch: Launch, watch: Watch) -> Action:
        node = launch.node

        def run() -> None:
            start = time.perf_counter()
            action()
            took_us = (time.perf_counter() - start) * 1e6
            if watch.profile is not None:
                watch.profile.append(OpTime(place_of(node), node.op, launch.stream, took_us))
            if watch.keep is not None:
                for value in node.writes():
                    watch.keep(value, self._slots[value].read())

        return run


def _heap_deaths(
    placed: PlacedGraph, launches: Sequence[Launch], slots: Mapping[int, Slot]
) -> dict[int, list[Slot]]:
    """For each step the values on the heap that nobody reads after it."""
    last: dict[int, int] = {}
    for step, launch in enumerate(launches):
        for value in (*launch.node.reads(), *launch.node.writes()):
            last[value] = step
    dying: dict[int, list[Slot]] = {}
    for value, step in last.items():
        slot = slots[value]
        if slot.is_on_heap and value not in placed.graph.output_set:
            dying.setdefault(step, []).append(slot)
    return dying


def _poison_plan(placed: PlacedGraph, launches: Sequence[Launch]) -> dict[int, list[tuple[int, int, int]]]:
    """For each step the bytes that are free after it, by the lifetimes in the file."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for value, step in placed.life_ends.items():
        type = placed.graph.type_of(value)
        size, offset = arena_bytes(type), placed.offsets.get(value)
        if size and offset is not None and step < len(launches):
            found.setdefault(step, []).append((offset, offset + size, poison_byte(type)))
    return found


def _told_name(node: Node) -> str:
    """What users call a step: the nodes of their model that it came from."""
    return ", ".join(node.origin.sources) or node.name


def _placed_errors(action: Action, name: str) -> Action:
    """The same action; what goes wrong in it names the operator."""

    def run() -> None:
        try:
            action()
        except GerulesError as error:
            if not name or all(item.place or item.span is not None for item in error.diagnostics):
                raise
            raise RunError(
                [replace(item, place=item.place or name) for item in error.diagnostics]
            ) from error.__cause__

    return run
