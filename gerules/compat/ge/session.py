"""Sessions: graphs by number, compiled and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from gerules.compat.ge.compiling import TensorMemory, check_graph, compile_graph, memory_of
from gerules.compat.ge.error import GeError, told
from gerules.compat.ge.graph.conversion import is_whole, shown
from gerules.compat.ge.graph.graph import Graph
from gerules.compat.ge.graph.tensor import Tensor
from gerules.compat.ge.options import Options, merged
from gerules.errors import table
from gerules.errors.counts import count_text
from gerules.pipeline import CompiledModel


@dataclass(slots=True)
class _Entry:
    graph: Graph
    options: Options
    model: CompiledModel | None = None


class Session:
    """Graphs that are compiled with the same options."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = merged(options)
        self._entries: dict[int, _Entry] = {}

    def add_graph(self, graph_id: int, graph: Graph, options: Options | None = None) -> None:
        """Add a graph under a number.

        Raises:
            GeError: E41004 for what is no graph, E41006 when another one has the number.
        """
        check_graph(graph)
        if not is_whole(graph_id):
            raise GeError(
                table.GE_SEQUENCE, reason=f"a graph has the number {shown(graph_id)}",
                remedy="number graphs by whole numbers",
            )  # fmt: skip
        if graph_id in self._entries:
            raise GeError(
                table.GE_SEQUENCE, reason=f"the session has a graph {graph_id} already",
                remedy="remove it first, or give another number",
            )  # fmt: skip
        self._entries[graph_id] = _Entry(graph, options or {})

    def compile_graph(self, graph_id: int) -> CompiledModel:
        """Compile a graph, once. Raises GeError: its faults, or E41006 for a number without a graph."""
        entry = self._entry(graph_id)
        if entry.model is None:
            entry.model = compile_graph(entry.graph, merged(self._options, entry.options))
        return entry.model

    def run_graph(self, graph_id: int, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run a graph, compiled if it is not yet, on one tensor for each input, in their order.

        Raises:
            GeError: as `compile_graph`; E41006 for another number of inputs,
            E41007 for what is no Tensor, E20001 to E20008 for what they are.
        """
        model = self.compile_graph(graph_id)
        ports = model.om.inputs
        if len(inputs) != len(ports):
            raise GeError(
                table.GE_SEQUENCE,
                reason=f"graph {graph_id} takes {count_text(len(ports), 'input')}, not {len(inputs)}",
                remedy=f"give one for each of {', '.join(port.name for port in ports) or 'none'}",
            )  # fmt: skip
        for port, tensor in zip(ports, inputs, strict=True):
            if not isinstance(cast(object, tensor), Tensor):
                raise GeError(
                    table.GE_BAD_TENSOR,
                    reason=f"what is given for {port.name} is a {type(tensor).__name__}, no Tensor",
                    remedy="wrap it: ge.Tensor(array)",
                )
        feeds = {port.name: tensor.array for port, tensor in zip(ports, inputs, strict=True)}
        made = told(lambda: model.run(feeds))
        return [Tensor(array) for array in made.values()]

    def remove_graph(self, graph_id: int) -> None:
        """Forget a graph. Raises GeError E41006 when there is none of the number."""
        self._entry(graph_id)
        del self._entries[graph_id]

    def get_memory_info(self, graph_id: int) -> list[TensorMemory]:
        """Return where the tensors of a compiled graph lie. Raises GeError E41006 before it is compiled."""
        model = self._entry(graph_id).model
        if model is None:
            raise GeError(
                table.GE_SEQUENCE,
                reason=f"graph {graph_id} is not compiled",
                remedy="call compile_graph first",
            )
        return memory_of(model)

    AddGraph = add_graph
    CompileGraph = compile_graph
    RunGraph = run_graph
    RemoveGraph = remove_graph
    GetMemoryInfo = get_memory_info

    def _entry(self, graph_id: int) -> _Entry:
        entry = self._entries.get(graph_id)
        if entry is None:
            known = ", ".join(map(str, self._entries)) or "none"
            raise GeError(
                table.GE_SEQUENCE, reason=f"the session has no graph {graph_id}; it has {known}",
                remedy="call add_graph first",
            )  # fmt: skip
        return entry
