"""The reference run: a graph by meaning, each value an array of its own; what other runs are judged by."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import cast

from gerules.backend.ports import input_names, output_names
from gerules.errors import Faults
from gerules.ir import Graph
from gerules.runtime.feeds import Item, Port, check_feeds
from gerules.runtime.interpreter import Interpreter, find_unknown
from gerules.runtime.kernels import Array, RunError
from gerules.target.cost import BodyOf


def evaluate(
    graph: Graph,
    feeds: Mapping[str, object],
    *,
    body_of: BodyOf | None = None,
    keep: MutableMapping[int, Item] | None = None,
    interpreter: Interpreter | None = None,
) -> dict[str, Array]:
    """Run a graph and return its outputs by name (`gerules.backend.ports.output_names`).

    Formats do not count here: every array is logical. Symbolic dimensions are what is fed. Results are never
    views of the feeds' memory that a later run would write to; they may be views of constants.

    Args:
        feeds: Arrays by input name; lists of arrays for sequences, None for an absent optional.
        body_of: What operators without kernel (those of `ge::`) compute.
        keep: Filled with every value that a node of `graph` computed, by value id; nothing is freed then.
        interpreter: Keeps expansions from run to run; `body_of` is not used when one is given.

    Raises:
        RunError: E20001 to E20006 for the feeds, E70001 for operators that nothing can run, each with
            all faults at once; E70002 to E70006 from the node where the run ended.

    Cost: that of the kernels; some microseconds a node on top.
    """
    names = input_names(graph)
    ports = [
        Port(name, graph.type_of(value), value in graph.defaults)
        for name, value in zip(names, graph.inputs, strict=True)
    ]
    given = check_feeds(ports, feeds)
    if interpreter is None:
        faults = Faults()
        find_unknown(graph, faults, has_definitions=body_of is not None)
        faults.raise_if_any(RunError)
        interpreter = Interpreter(body_of)
    values: dict[int, Item] = {}
    for name, value, item in zip(names, graph.inputs, given, strict=True):
        values[value] = item if name in feeds else cast(Array, graph.defaults[value].array)
    results = interpreter.run_graph(graph, values, keep=keep)
    # Sequences and absent optionals are rare enough that callers who expect tensors need not see them.
    return dict(zip(output_names(graph), cast("list[Array]", results), strict=True))
