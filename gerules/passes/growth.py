"""Preparation within a budget of bytes: what would make the weights grow too much stays computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gerules.ir import Graph
from gerules.ops import Extra, Schemas
from gerules.passes.fold import Evaluate
from gerules.passes.prepare import PrepareReport, prepare

SMALL_BYTES: Final = 1024
"""Results up to this size are always folded: shapes, axes, scalars, of which a file may have many."""


def prepare_within(
    graph: Graph,
    evaluate: Evaluate,
    *,
    schemas: Schemas,
    max_growth: float | None,
    extra: Extra | None = None,
) -> tuple[Graph, PrepareReport]:
    """Prepare a graph; where folding makes its constants larger than allowed, fold small results only.

    What repeats one element counts in full, as a file spells it out.

    Args:
        max_growth: Bytes of all constants after, over those before; None folds whatever can be folded.

    Returns:
        The new graph, and the report of the preparation that gave it.

    Raises:
        ShapeError: E30001 to E30008 when types contradict.

    Cost: that of `prepare`, three times where the budget is exceeded.
    """
    after, report = prepare(graph, evaluate, schemas=schemas, extra=extra)
    if max_growth is None or weight_bytes(after) <= max_growth * weight_bytes(graph):
        return after, report
    # Merged constants would hide who made the others; folding itself leaves values under their ids.
    apart, _ = prepare(graph, evaluate, schemas=schemas, extra=extra, merges=False)
    return prepare(graph, evaluate, schemas=schemas, extra=extra, keep=frozenset(_growing(graph, apart)))


def _growing(graph: Graph, after: Graph) -> Iterator[int]:
    """Yield the nodes whose results are large, and larger than the constants that went with them."""
    for node in graph.nodes.values():
        made = sum(_size_bytes(after, value) for value in node.writes())
        if made > SMALL_BYTES:
            gone = sum(_size_bytes(graph, value) for value in node.reads() if value not in after.consts)
            if made > gone:
                yield node.id


def _size_bytes(graph: Graph, value: int) -> int:
    const = graph.consts.get(value)
    return 0 if const is None else const.array.nbytes


def weight_bytes(graph: Graph) -> int:
    """Return the bytes of all constants of a graph, and of the bodies in it, as a file has them."""
    return sum(const.array.nbytes for const in graph.consts.values()) + sum(
        weight_bytes(body.graph) for node in graph.nodes.values() for body in node.bodies.values()
    )
