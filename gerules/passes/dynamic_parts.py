"""Why parts of a graph are dynamic: inputs left open, operators whose sizes are in their data."""

from __future__ import annotations

from collections.abc import Iterator

from gerules.ir import Graph, Node, TensorType
from gerules.passes.partition import Partition


def find_causes(graph: Graph, partition: Partition) -> list[str]:
    """Return in words where the dynamic clusters of a graph begin, in the order of the graph.

    A cause is an input of open shape, or an operator that makes a value of unknown size from values of
    known size. What only follows from another cause is not told.
    """
    is_static = {node: cluster.is_static for cluster in partition.clusters for node in cluster.nodes}
    return [*_open_inputs(graph, is_static), *_data_dependent(graph, is_static), *_demoted(partition)]


def _open_inputs(graph: Graph, is_static: dict[int, bool]) -> Iterator[str]:
    for value in graph.inputs:
        readers = graph.readers.get(value, ())
        if not _is_known(graph, value) and not all(is_static.get(node, True) for node in readers):
            record = graph.values[value]
            yield f"input {record.name} is open: {record.type}"


def _data_dependent(graph: Graph, is_static: dict[int, bool]) -> Iterator[str]:
    for node in graph.nodes.values():
        if is_static.get(node.id, True) or not all(_is_known(graph, value) for value in node.reads()):
            continue
        made = [value for value in node.writes() if not _is_known(graph, value)]
        if made:
            yield f"{_name(graph, node)} ({node.op}): the size of {graph.values[made[0]].type} is in its data"


def _demoted(partition: Partition) -> Iterator[str]:
    if partition.n_demoted:
        n = partition.n_demoted
        yield f"{n} static operator{'s' if n > 1 else ''} beside dynamic ones, too few to stand alone"


def _is_known(graph: Graph, value: int) -> bool:
    type = graph.type_of(value)
    return isinstance(type, TensorType) and type.is_static


def _name(graph: Graph, node: Node) -> str:
    return node.name or next((graph.values[value].name for value in node.writes()), "") or node.op
