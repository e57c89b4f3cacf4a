"""Inputs of a model that is not compiled yet: read from files, or made up in sizes with which it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gerules.backend.ports import input_names
from gerules.cli.feeds import read_feeds
from gerules.cli.made_up import are_fixed, dims_of, run_made_up
from gerules.cli.running import evaluate_graph
from gerules.ir import Dim, Graph
from gerules.passes.bind import bind_shapes
from gerules.pipeline.asking import Target
from gerules.runtime.kernels import Array


def target_feeds(graph: Graph, texts: Sequence[str], target: Target, *, seed: int) -> dict[str, Array]:
    """Return the inputs of a model of the sizes that a target says; see `model_feeds`."""
    shapes, dims = target.get("input_shapes") or {}, target.get("dims") or {}
    return model_feeds(graph, texts, shapes=shapes, dims=dims, seed=seed)


def model_feeds(
    graph: Graph,
    texts: Sequence[str],
    *,
    shapes: Mapping[str, Sequence[Dim]],
    dims: Mapping[str, int],
    seed: int,
) -> dict[str, Array]:
    """Return the inputs of a model: those of files, and what these leave out made up, of sizes that fit.

    Args:
        texts: As for `read_feeds`.
        shapes: Shape by input name; see `bind_shapes`. Likewise `dims`.

    Raises:
        PassError: E10041 to E10046 for sizes that do not fit the model.
        GerulesError: as `read_feeds` and `run_made_up`.
    """
    bound = bind_shapes(graph, shapes, dims)
    ports = dict(zip(input_names(bound), map(bound.type_of, bound.inputs), strict=True))
    feeds = read_feeds(texts, list(ports))
    has_default = {name for name, value in zip(ports, bound.inputs, strict=True) if value in bound.defaults}
    rest = {name: type for name, type in ports.items() if name not in feeds and name not in has_default}
    return run_made_up(
        rest,
        lambda given: given if are_fixed(rest) else evaluate_graph(bound, given),
        dims=dims_of(ports, feeds, rest),
        seed=seed,
        beside=feeds,
    ).feeds
