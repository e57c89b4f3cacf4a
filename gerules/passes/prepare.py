"""Preparation: sizes bound, types inferred, constants folded, until neither tells the other more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gerules.ir import Dim, Graph, TensorType
from gerules.ops import Extra, Schemas, Vectors, infer_graph
from gerules.passes.bind import bind_shapes
from gerules.passes.fold import DEFAULT_LIMIT_BYTES, Evaluate, FoldReport, fold_constants

MOST_ROUNDS: Final = 8
"""A round is needed only where folding made shapes known that inference could not tell; two are usual."""


@dataclass(frozen=True, slots=True)
class PrepareReport:
    """What preparation did: one folding report a round, and the values whose shape is still not known."""

    rounds: tuple[FoldReport, ...] = ()
    n_dynamic: int = 0
    dynamic_inputs: tuple[str, ...] = field(default_factory=tuple)


def prepare(
    graph: Graph,
    evaluate: Evaluate,
    *,
    schemas: Schemas,
    shapes: Mapping[str, Sequence[Dim]] | None = None,
    dims: Mapping[str, int] | None = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    extra: Extra | None = None,
    effects: frozenset[str] = frozenset(),
    keep: frozenset[int] = frozenset(),
    merges: bool = True,
    folds: bool = True,
) -> tuple[Graph, PrepareReport]:
    """Bind sizes, infer types and fold constants to a fixed point.

    Args:
        evaluate: Computes one operator; see `fold_constants`.
        shapes: Shape by input name; see `bind_shapes`.
        dims: Size by name of a symbolic dimension.
        limit_bytes: Largest folded result.
        extra: Inference for operators that only a higher floor knows.
        effects: Operators that must stay although nobody reads what they give.
        keep, merges: See `fold_constants`.
        folds: False infers only (`oo_constant_folding=false`).

    Raises:
        PassError: E10041 to E10046 for sizes that do not fit the model.
        ShapeError: E30001 to E30008 when types contradict.
    """
    graph = bind_shapes(graph, shapes, dims)
    rounds: list[FoldReport] = []
    while True:
        vectors: Vectors = {}
        graph = infer_graph(graph, schemas, extra=extra, vectors=vectors, names_sizes=True)
        if not folds or len(rounds) == MOST_ROUNDS or (rounds and not rounds[-1].n_changes):
            break
        graph, report = fold_constants(
            graph,
            evaluate,
            schemas=schemas,
            limit_bytes=limit_bytes,
            vectors=vectors,
            extra=extra,
            effects=effects,
            keep=keep,
            merges=merges,
        )
        rounds.append(report)
    unknown = {
        value.id
        for value in graph.values.values()
        if not isinstance(value.type, TensorType) or not value.type.is_static
    }
    inputs = tuple(graph.values[value].name for value in graph.inputs if value in unknown)
    return graph, PrepareReport(tuple(rounds), len(unknown), inputs)
