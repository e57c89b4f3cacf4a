"""Compiling gears: the same stages for each of them, and one offline model that holds all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from gerules.backend.definitions import definition_texts
from gerules.backend.emit_gears import Branch, emit_gears
from gerules.backend.om import OmAttr, OmModel
from gerules.errors import Diagnostic, GerulesError
from gerules.ir import Const, Graph
from gerules.passes.gear_options import GearOptions, read_gears
from gerules.passes.gears import Gear, Gears
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.toolchain import Toolchain

ANY_SHAPE: Final = "any"
"""What the plan of a hybrid model that runs any shape is called among the gears."""

RunStages = Callable[[Compilation, Sequence[str], CompileOptions], None]
"""Runs stages on a compile, and leaves in it what they made."""


def gears_of(graph: Graph, options: CompileOptions) -> Gears | None:
    """Return the gears that a compile is asked for, or None. Raises what `read_gears` raises."""
    asked = GearOptions(
        options.dynamic_batch_size,
        options.dynamic_image_size,
        options.dynamic_dims,
        options.compile_hybrid_mode,
    )
    return read_gears(graph, asked, options.input_shapes, options.dims)


def compile_gears(
    tools: Toolchain,
    graph: Graph,
    gears: Gears,
    options: CompileOptions,
    stages: Sequence[str],
    run: RunStages,
) -> Compilation:
    """Compile a graph for each gear, and put what came of it together.

    Args:
        stages: Those of a whole compile; all but the emission are run for each gear.

    Raises:
        GerulesError: every fault of every gear, one that several have once, with the gears as a note.

    Cost: a compile for each gear; constants that gears have in common are kept once.
    """
    alone = [name for name in stages if name != "emit"]
    branches: list[Compilation] = []
    errors: dict[str, GerulesError] = {}
    known: dict[bytes, Const] = {}
    asked: list[Gear | None] = [*gears.gears, *([None] if gears.is_hybrid else ())]
    for gear in asked:
        label = ANY_SHAPE if gear is None else gear.text
        shapes = options.input_shapes if gear is None else dict(zip(gears.names, gear.shapes, strict=True))
        branch = Compilation(tools, graph, graph, branch=label)
        try:
            run(branch, alone, replace(options, input_shapes=shapes))
        except GerulesError as error:
            errors[label] = error
            continue
        branch.graph = _share(branch.graph, known)
        branches.append(branch)
    if errors:
        raise _all_errors(errors, len(asked))
    largest = branches[gears.largest]
    whole = Compilation(
        tools,
        graph,
        largest.graph,
        stages=[stage for branch in branches for stage in branch.stages],
        trace=largest.trace,
        partition=largest.partition,
        plans=largest.plans,
        gears=gears,
        branches=branches,
    )
    run(whole, [name for name in stages if name == "emit"], options)
    return whole


def emit_branches(state: Compilation, attrs: dict[str, OmAttr]) -> OmModel:
    """Return the offline model of a compile with gears. Raises what `emit_gears` raises."""
    gears = state.gears
    if gears is None:
        raise AssertionError("a compile without gears has no branches")
    branches: list[Branch] = []
    for branch in state.branches:
        if branch.plans is None or branch.partition is None:
            raise AssertionError("emission comes after partition and plans")
        branches.append(Branch(branch.graph, branch.plans, branch.partition.engine_of))
    return emit_gears(
        gears,
        branches,
        device=state.tools.device.name,
        definitions=definition_texts(state.tools.book, *(branch.graph for branch in branches)),
        schemas=state.tools.schemas,
        attrs=attrs,
    )


def _share(graph: Graph, known: dict[bytes, Const]) -> Graph:
    """The graph with each constant that an earlier gear has too in the memory of that one."""
    consts = {
        value: known.setdefault(const.digest, const) if const.array.nbytes else const
        for value, const in graph.consts.items()
    }
    return replace(graph, consts=consts)


def _all_errors(errors: dict[str, GerulesError], n_asked: int) -> GerulesError:
    """One error with the faults of all gears, each once."""
    gears_with: dict[tuple[str, str, str], list[str]] = {}
    first: dict[tuple[str, str, str], Diagnostic] = {}
    for label, error in errors.items():
        for item in error.diagnostics:
            key = (item.code.code, item.message, item.place)
            first.setdefault(key, item)
            gears_with.setdefault(key, []).append(label)
    found = [
        item
        if len(gears_with[key]) == n_asked
        else replace(item, notes=(*item.notes, f"in the gear {'; '.join(gears_with[key])}"))
        for key, item in first.items()
    ]
    return type(next(iter(errors.values())))(found)
