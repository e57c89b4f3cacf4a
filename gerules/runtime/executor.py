"""Running offline models by the order and offsets of the file alone, in one arena: wrong plans show."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from gerules.backend.emit_gears import SHAPE_DATA
from gerules.backend.om import OmError, OmModel, read_om, read_text, read_texts
from gerules.errors import Faults, table
from gerules.ir import UNKNOWN_DIM, Graph, TensorType, ValueType
from gerules.ir.collector import paused_collector
from gerules.passes.gears import Gears
from gerules.runtime.definitions import read_definitions
from gerules.runtime.feeds import Item, Port, check_feeds
from gerules.runtime.gears import check_ranges, no_gear, one_shape, read_gears, split_tasks
from gerules.runtime.interpreter import Interpreter, find_unknown
from gerules.runtime.kernels import Array, RunError
from gerules.runtime.program import OpTime, Program, Watch
from gerules.runtime.rebuild import rebuild_graph
from gerules.runtime.slots import FLOAT_POISON

ARENA_LIMIT_BYTES: Final = 1 << 36
"""Largest arena that is allocated unless a caller allows more."""

FALLBACK: Final = -1
"""The number of the plan of a hybrid model that runs any shape."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What a model takes and gives; shapes are logical, symbolic dimensions by name."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class Executor:
    """A loaded model: arena, weights and steps, ready to run any number of times.

    A model with gears has a plan for each of them; the shapes of the inputs choose one, or the caller does.

    One run at a time: the arena is one. Callers on several threads wait for each other; for runs in
    parallel load the model several times, the weights stay shared where they are views of the file.

    Args:
        limit_bytes: Largest arena.

    Raises:
        OmError: E80030 to E80034 and E80010 to E80013 for a file that cannot be run, all at once.
        RunError: E70001 for operators that nothing here computes, E70007 for an arena beyond the limit.
        RuleError, TextError: for definitions in the file that cannot be read.
    """

    def __init__(self, model: OmModel, *, limit_bytes: int = ARENA_LIMIT_BYTES) -> None:
        if model.submodels:
            raise OmError(table.OM_NOT_RUNNABLE, reason="it is made of several models")
        placed = rebuild_graph(model)
        self._graph = placed.graph
        self._gears = read_gears(model, placed)
        branches = [placed] if self._gears is None else list(placed.branches.values())
        definitions = read_texts(model.attrs, "_gerules_defines", ())
        body_of = read_definitions(definitions)
        faults = Faults()
        for branch in branches:
            find_unknown(branch.graph, faults, has_definitions=body_of is not None)
        faults.raise_if_any(RunError)
        saturates = read_text(model.attrs, "_gerules_f16_overflow", "infinity") == "saturate"
        self._arena = _allocate(model.memory_size_bytes, limit_bytes)
        interpreter = Interpreter(body_of)
        stored = model.tasks.tasks if model.tasks.is_stored else ()
        self._programs = [
            Program(branch, tasks, self._arena, interpreter, saturates=saturates)
            for branch, tasks in zip(branches, split_tasks(stored, branches), strict=True)
        ]
        self._interfaces = [_interface(branch.graph, model, self._gears) for branch in branches]
        self._interface = _open(self._interfaces, self._gears)
        self._ranges = {port.name: port.ranges for port in model.inputs if port.ranges}
        self._lock = threading.Lock()

    @property
    def io(self) -> Interface:
        """The inputs and outputs, in the model's order. What gears fix is a symbolic dimension."""
        return self._interface

    @property
    def gears(self) -> Gears | None:
        """The gears, in the order of the file; None for a model without."""
        return self._gears

    @property
    def ranges(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """The least and the largest size of each dimension, -1 for no end, of inputs that have ranges."""
        return {name: tuple(ranges) for name, ranges in self._ranges.items()}

    def io_of(self, gear: int) -> Interface:
        """Return the inputs and outputs in one gear: their types are those it was compiled for."""
        return self._interfaces[gear]

    @property
    def graph(self) -> Graph:
        """The graph that the file holds; that of a model with gears chooses one of their graphs."""
        return self._graph

    @property
    def memory_bytes(self) -> int:
        """The size of the arena."""
        return len(self._arena)

    def storage_of(self, value: int) -> Array | None:
        """Return the memory of a value of `graph` as the device would see it, in its storage shape.

        A view: the next run, and later steps of this one, write to it. None for values on the heap.
        """
        program = next((item for item in self._programs if value in item.graph.values), None)
        return None if program is None else program.storage_of(value)

    def run(
        self,
        feeds: Mapping[str, object],
        *,
        gear: int | None = None,
        poison: bool = False,
        threads: bool = False,
        profile: list[OpTime] | None = None,
        keep: Callable[[int, Item], None] | None = None,
    ) -> dict[str, Array]:
        """Run the model once and return its outputs by name, in memory of their own.

        Args:
            feeds: Arrays by input name (`io`).
            gear: The number of the gear to run (`gears`); the inputs must have its shapes. Without it their
                shapes choose one.
            poison: Fill the arena before the run, and the bytes of each value when the plan says that
                nobody needs them any more, so that a lifetime that is too short spoils the outputs.
            threads: Run each stream on a thread of its own, ordered by the file's events alone; without
                it steps run in the order of issue. Excludes `poison` at the end of lifetimes.
            profile: Gets one entry for each launch.
            keep: Told every value that a launch made, right after it, by its id in `graph`; the array
                may be a view of the arena.

        Raises:
            RunError: E20001 to E20006 for the feeds, all at once; E20008 for shapes that the model was not
                compiled for; E70002 to E70006 from a step.
        """
        given, chosen = self._choose(feeds, gear)
        program = self._programs[chosen]
        names = [port.name for port in self._interface.inputs]
        with self._lock:
            if poison:
                self._arena.fill(FLOAT_POISON)
            outputs = program.run(given, names, Watch(profile, keep), poison=poison, threads=threads)
        return dict(zip([port.name for port in self._interface.outputs], outputs, strict=True))

    def gear_of(self, feeds: Mapping[str, object]) -> int | None:
        """Return the gear that these inputs run in: `FALLBACK` for a hybrid model's plan of any shape.

        None for a model without gears. Raises as `run`.
        """
        _, chosen = self._choose(feeds, None)
        if self._gears is None:
            return None
        return chosen if chosen < len(self._gears.gears) else FALLBACK

    def _other_shape(self, shapes: Mapping[str, tuple[int, ...]]) -> RunError:
        types = {port.name: port.type for port in self._interface.inputs}
        return one_shape(shapes, {name: _shape(types[name]) for name in shapes})

    def _choose(self, feeds: Mapping[str, object], gear: int | None) -> tuple[list[Item], int]:
        """Check what is given, and return it with the number of the program to run."""
        inputs = self._interface.inputs
        gears = self._gears
        if gears is None:
            found = check_feeds(inputs, feeds, other_shape=self._other_shape)
            check_ranges(self._ranges, inputs, found)
            return found, 0
        given = check_feeds(inputs, feeds)
        shapes = [item.shape if isinstance(item, np.ndarray) else None for item in given]
        found = gears.find(shapes)
        if gear is not None and found != gear:
            asked = gears.gears[gear : gear + 1] if gear >= 0 else ()
            raise no_gear(replace(gears, gears=asked or gears.gears), shapes)
        if found is None and not gears.is_hybrid:
            raise no_gear(gears, shapes)
        return given, len(gears.gears) if found is None else found


def load_om(source: str | Path | bytes, *, limit_bytes: int = ARENA_LIMIT_BYTES) -> Executor:
    """Read an offline model and make it ready to run. Raises as `read_om` and `Executor`."""
    with paused_collector():
        return Executor(read_om(source), limit_bytes=limit_bytes)


def _allocate(size_bytes: int, limit_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
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


def _interface(graph: Graph, model: OmModel, gears: Gears | None) -> Interface:
    """The ports of one program, named as the file does; of a model with gears without what chooses one."""
    names = [port.name for port in model.inputs]
    outs = [port.name for port in model.outputs]
    if gears is not None:
        if names[-1:] != [SHAPE_DATA]:
            raise OmError(table.OM_BAD_INTERFACE, reason=f"its last input is not {SHAPE_DATA}")
        names.pop()
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


def _open(interfaces: Sequence[Interface], gears: Gears | None) -> Interface:
    """What callers see of all programs together."""
    first = interfaces[0]
    if gears is None:
        return first
    inputs = [replace(port, type=type) for port, type in zip(first.inputs, gears.types, strict=True)]
    outputs = [
        replace(port, type=_common([item.outputs[at].type for item in interfaces]))
        for at, port in enumerate(first.outputs)
    ]
    return Interface(tuple(inputs), tuple(outputs))


def _common(types: Sequence[ValueType]) -> ValueType:
    """The type that all have; a size in which they differ is unknown."""
    first = types[0]
    shapes = [type.shape for type in types if isinstance(type, TensorType)]
    if not isinstance(first, TensorType) or len(shapes) != len(types):
        return first
    if any(shape is None for shape in shapes) or len({len(shape or ()) for shape in shapes}) != 1:
        return TensorType(first.dtype)
    columns = zip(*(shape or () for shape in shapes), strict=True)
    dims = tuple(column[0] if len(set(column)) == 1 else UNKNOWN_DIM for column in columns)
    return TensorType(first.dtype, dims)


def _shape(type: ValueType) -> tuple[int, ...]:
    return type.static_shape if isinstance(type, TensorType) else ()
