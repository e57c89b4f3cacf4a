"""A graph of the Graph Engine's interface, compiled: one way for sessions and for offline models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import gerules.pipeline as pipeline
from gerules.compat.ge.error import GeError, told
from gerules.compat.ge.graph.conversion import shown
from gerules.compat.ge.graph.graph import Graph
from gerules.compat.ge.options import Options, merged, read_options
from gerules.compat.ge.to_graph import to_graph
from gerules.errors import table
from gerules.ir import Graph as IrGraph
from gerules.pipeline import CompiledModel


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """Where a tensor lies in the arena, and during which steps.

    Attributes:
        name: Of the node that makes it, or of the input.
        offset: Bytes from the start of the arena.
        size: Bytes.
        life_start, life_end: The first and the last step that need it, the last included.
    """

    name: str
    offset: int
    size: int
    life_start: int
    life_end: int


class Process:
    """What `ge_initialize` set, and what was compiled last."""

    def __init__(self) -> None:
        self.options: dict[str, object] = {}
        self.last: CompiledModel | None = None


PROCESS: Final = Process()
"""The one of this process."""


def check_graph(graph: object) -> None:
    """Raise GeError E41004 unless something is a graph."""
    if not isinstance(graph, Graph):
        raise GeError(
            table.GE_BAD_GRAPH, name=shown(graph), reason=f"it is a {type(graph).__name__}",
            remedy="pass a ge.Graph, such as GraphBuilder.build_and_reset returns",
        )  # fmt: skip


def compile_graph(graph: Graph, options: Options | None = None) -> CompiledModel:
    """Compile a graph with the options of the process and its own.

    Raises:
        GeError: every fault of the graph, of the options, and of the compile.
    """
    check_graph(graph)
    chosen = read_options(merged(PROCESS.options, options))
    lowered = to_graph(graph)
    model = told(
        lambda: pipeline.compile(
            lowered,
            device=chosen.device,
            precision=chosen.precision,
            fusion_switch_file=chosen.fusion_switch_file,
            input_shapes=chosen.input_shapes,
            dynamic_batch_size=chosen.dynamic_batch_size,
            dynamic_image_size=chosen.dynamic_image_size,
            dynamic_dims=chosen.dynamic_dims,
            n_streams=chosen.n_streams,
        )
    )
    PROCESS.last = model
    return model


def memory_of(model: CompiledModel) -> list[TensorMemory]:
    """Return where the tensors of a compiled model lie, by offset and then by start."""
    plan = model.memory_plan
    if plan is None:
        return []
    graph = model.graph
    names = {
        value: node.name or graph.values[value].name or ", ".join(node.origin.sources)
        for node in graph.nodes.values()
        for value in node.writes()
    }
    return [
        TensorMemory(
            names.get(row.id) or _name_of(graph, row.id),
            row.offset,
            row.size_bytes,
            row.life_start,
            row.life_end,
        )
        for row in plan.rows()
    ]


def _name_of(graph: IrGraph, value: int) -> str:
    # What is no value of the graph is memory that an operator works in.
    known = graph.values.get(value)
    return f"workspace {abs(value)}" if known is None else known.name


def get_memory_info() -> list[TensorMemory]:
    """Return where the tensors of the model that was compiled last lie. Raises GeError E41006 before any."""
    if PROCESS.last is None:
        raise GeError(
            table.GE_SEQUENCE, reason="nothing was compiled in this process",
            remedy="compile a graph first: Session.compile_graph, build_model or offline_compile",
        )  # fmt: skip
    return memory_of(PROCESS.last)


GetMemoryInfo = get_memory_info
