"""Running offline models by the order and offsets of the file alone, in one arena: wrong plans show."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import numpy as np

from gerules.backend.nested import arena_bytes
from gerules.backend.om import OmError, OmModel, read_om, read_text, read_texts
from gerules.errors import Faults, GerulesError, table
from gerules.ir import Graph
from gerules.ir.collector import paused_collector
from gerules.runtime.definitions import read_definitions
from gerules.runtime.feeds import Item, Port, check_feeds
from gerules.runtime.interpreter import Interpreter, find_unknown, opset_of, place_of
from gerules.runtime.kernels import Array, RunError
from gerules.runtime.kernels.precision import saturating
from gerules.runtime.launches import Launch, find_launches
from gerules.runtime.rebuild import PlacedGraph, rebuild_graph
from gerules.runtime.slots import FLOAT_POISON, Slot, poison_byte
from gerules.runtime.steps import Action, Binder
from gerules.runtime.streams import run_streams

ARENA_LIMIT_BYTES: Final = 1 << 36
"""Largest arena that is allocated unless a caller allows more."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What a model takes and gives; shapes are logical, symbolic dimensions by name."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class OpTime:
    """How long one launch took in one run."""

    name: str
    op: str
    stream: int
    took_us: float


class Executor:
    """A loaded model: arena, weights and steps, ready to run any number of times.

    One run at a time: the arena is one. Callers on several threads wait for each other; for runs in
    parallel load the model several times, the weights stay shared where they are views of the file.

    Args:
        limit_bytes: Largest arena.

    Raises:
        OmError: E80030 to E80033 and E80010 to E80013 for a file that cannot be run, all at once.
        RunError: E70001 for operators that nothing here computes, E70007 for an arena beyond the limit.
        RuleError, TextError: for definitions in the file that cannot be read.
    """

    def __init__(self, model: OmModel, *, limit_bytes: int = ARENA_LIMIT_BYTES) -> None:
        if model.submodels:
            raise OmError(table.OM_NOT_RUNNABLE, reason="it is made of several models")
        placed = rebuild_graph(model)
        self._launches = find_launches(model, placed)
        definitions = read_texts(model.attrs, "_gerules_defines", ())
        body_of = read_definitions(definitions)
        faults = Faults()
        find_unknown(placed.graph, faults, has_definitions=body_of is not None)
        faults.raise_if_any(RunError)
        self._placed = placed
        self._saturates = read_text(model.attrs, "_gerules_f16_overflow", "infinity") == "saturate"
        self._arena = _allocate(model.memory_size_bytes, placed, limit_bytes)
        self._interpreter = Interpreter(body_of)
        binder = Binder(self._arena, self._interpreter)
        self._slots = binder.slots(placed, {})
        self._actions = self._bind(binder)
        self._dying = _heap_deaths(placed, self._launches, self._slots)
        self._poison = _poison_plan(placed, self._launches)
        self._interface = _interface(placed.graph, model)
        self._lock = threading.Lock()

    @property
    def io(self) -> Interface:
        """The inputs and outputs, in the model's order."""
        return self._interface

    @property
    def graph(self) -> Graph:
        """The graph that the file holds."""
        return self._placed.graph

    @property
    def memory_bytes(self) -> int:
        """The size of the arena."""
        return len(self._arena)

    def storage_of(self, value: int) -> Array | None:
        """Return the memory of a value of `graph` as the device would see it, in its storage shape.

        A view: the next run, and later steps of this one, write to it. None for values on the heap.
        """
        return self._slots[value].storage

    def run(
        self,
        feeds: Mapping[str, object],
        *,
        poison: bool = False,
        threads: bool = False,
        profile: list[OpTime] | None = None,
        keep: Callable[[int, Item], None] | None = None,
    ) -> dict[str, Array]:
        """Run the model once and return its outputs by name, in memory of their own.

        Args:
            feeds: Arrays by input name (`io`).
            poison: Fill the arena before the run, and the bytes of each value when the plan says that
                nobody needs them any more, so that a lifetime that is too short spoils the outputs.
            threads: Run each stream on a thread of its own, ordered by the file's events alone; without
                it steps run in the order of issue. Excludes `poison` at the end of lifetimes.
            profile: Gets one entry for each launch.
            keep: Told every value that a launch made, right after it, by its id in `graph`; the array
                may be a view of the arena.

        Raises:
            RunError: E20001 to E20006 for the feeds, all at once; E70002 to E70006 from a step.
        """
        inputs = self._interface.inputs
        given = check_feeds(inputs, feeds)
        with self._lock:
            if poison:
                self._arena.fill(FLOAT_POISON)
            for port, value, item in zip(inputs, self.graph.inputs, given, strict=True):
                default = None if port.name in feeds else self.graph.defaults.get(value)
                chosen = item if default is None else cast(Array, default.array)
                self._slots[value].write(chosen, f"input {port.name}")
            actions = self._instrumented(profile, keep)
            if threads:
                run_streams(self._launches, [self._saturated(action) for action in actions])
            else:
                with saturating(self._saturates):
                    self._run_in_order(actions, poison)
            outputs = [self._slots[value].snapshot() for value in self.graph.outputs]
            for slot in self._slots.values():
                slot.item = None
        names = [port.name for port in self._interface.outputs]
        return dict(zip(names, cast("list[Array]", outputs), strict=True))

    def _bind(self, binder: Binder) -> list[Action]:
        opset = opset_of(self.graph)
        return [
            _placed_errors(binder.bind(self._placed, launch.node, self._slots, opset), launch.node.name)
            for launch in self._launches
        ]

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

    def _instrumented(
        self, profile: list[OpTime] | None, keep: Callable[[int, Item], None] | None
    ) -> Sequence[Action]:
        if profile is None and keep is None:
            return self._actions
        return [
            self._watched(action, launch, profile, keep)
            for action, launch in zip(self._actions, self._launches, strict=True)
        ]

    def _watched(
        self,
        action: Action,
        launch: Launch,
        profile: list[OpTime] | None,
        keep: Callable[[int, Item], None] | None,
    ) -> Action:
        node = launch.node

        def run() -> None:
            start = time.perf_counter()
            action()
            took_us = (time.perf_counter() - start) * 1e6
            if profile is not None:
                profile.append(OpTime(place_of(node), node.op, launch.stream, took_us))
            if keep is not None:
                for value in node.writes():
                    keep(value, self._slots[value].read())

        return run


def load_om(source: str | Path | bytes, *, limit_bytes: int = ARENA_LIMIT_BYTES) -> Executor:
    """Read an offline model and make it ready to run. Raises as `read_om` and `Executor`."""
    with paused_collector():
        return Executor(read_om(source), limit_bytes=limit_bytes)


def _allocate(
    size_bytes: int, placed: PlacedGraph, limit_bytes: int
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    machine_bytes = _machine_bytes()
    if not 0 <= size_bytes <= limit_bytes:
        reason = f"{limit_bytes} are allowed"
    elif machine_bytes is not None and size_bytes > machine_bytes:
        # The system would promise them, and end the process once they are used.
        reason = f"this machine has {machine_bytes}"
    else:
        try:
            return np.zeros(size_bytes, np.uint8)
        except (MemoryError, ValueError, OverflowError):
            reason = "the system does not give them"
    raise RunError(table.NO_ARENA, size_bytes=size_bytes, reason=reason)


def _machine_bytes() -> int | None:
    """Return the size of the machine's memory, or None where the system does not tell."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return found if found > 0 else None


def _interface(graph: Graph, model: OmModel) -> Interface:
    names = [port.name for port in model.inputs]
    outs = [port.name for port in model.outputs]
    if len(names) != len(graph.inputs) or len(outs) != len(graph.outputs):
        raise OmError(
            table.OM_BAD_INTERFACE,
            reason=f"it names {len(names)} inputs and {len(outs)} outputs, the graph has "
            f"{len(graph.inputs)} and {len(graph.outputs)}",
        )
    if len(set(names)) != len(names) or len(set(outs)) != len(outs):
        raise OmError(table.OM_BAD_INTERFACE, reason="a name comes twice")
    inputs = [
        Port(name, graph.type_of(value), value in graph.defaults)
        for name, value in zip(names, graph.inputs, strict=True)
    ]
    outputs = [Port(name, graph.type_of(value)) for name, value in zip(outs, graph.outputs, strict=True)]
    return Interface(tuple(inputs), tuple(outputs))


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
