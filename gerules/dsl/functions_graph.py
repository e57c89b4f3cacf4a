"""Functions that ask about the graph around a match, through the engine's `MatchContext`."""

from __future__ import annotations

from typing import cast

from gerules.dsl.registry import MatchContext, builtin
from gerules.dsl.values import ChainView, EvalError, OpView, Value, as_text, as_view, describe


def as_ops(value: Value) -> frozenset[str]:
    """An argument that the evaluator read as operators, or a list of their names."""
    if isinstance(value, frozenset):
        return value
    if isinstance(value, OpView):
        return frozenset({value.op})
    if isinstance(value, str):
        return frozenset({value})
    if isinstance(value, tuple):
        return frozenset(as_text(item, "every operator") for item in value)
    raise EvalError(f"{describe(value)} is no set of operators")


@builtin("graph", needs_graph=True, ops=("op", "via"))
def _reaches(graph: MatchContext, x: Value, op: Value, via: Value) -> Value:
    """Whether a path of readers leads from a value, through operators of `via`, to `op`."""
    return graph.reaches(as_view(x, "the value"), as_ops(op), as_ops(via))


@builtin("graph", needs_graph=True)
def _n_readers(graph: MatchContext, x: Value) -> Value:
    """How often a value is read; graph outputs and captures by bodies count."""
    return graph.n_readers(as_view(x, "the value"))


@builtin("graph", needs_graph=True)
def _is_graph_output(graph: MatchContext, x: Value) -> Value:
    """Whether a value is an output of its graph."""
    return graph.is_graph_output(as_view(x, "the value"))


@builtin("graph", needs_graph=True)
def _ordered(graph: MatchContext, *xs: Value) -> Value:
    """Whether values are produced in this order, so that like nodes match once and not in every order."""
    return graph.ordered([as_view(item, "every argument") for item in xs])


@builtin("graph", needs_graph=True)
def _all_same_format(graph: MatchContext, chain: Value) -> Value:
    """Whether all operators of a chain work in one storage format."""
    if isinstance(chain, ChainView):
        return graph.all_same_format(chain.ops)
    if isinstance(chain, tuple) and all(isinstance(item, OpView) for item in chain):
        return graph.all_same_format(cast("tuple[OpView, ...]", chain))
    raise EvalError(f"{describe(chain)} is no chain of operators")


@builtin("graph", needs_graph=True, ops=("op",))
def _distance_to_output(graph: MatchContext, op: Value) -> Value:
    """The longest paths from the nodes with an operator to a graph output, added up."""
    return graph.distance_to_output(as_ops(op))


@builtin("graph", needs_graph=True, ops=("op",))
def _count(graph: MatchContext, op: Value) -> Value:
    """Number of nodes with an operator."""
    return graph.count(as_ops(op))


@builtin("graph", needs_graph=True)
def _no_op(graph: MatchContext, ops: Value) -> Value:
    """Whether no node has one of these operators."""
    return graph.count(as_ops(ops)) == 0


@builtin("graph", needs_graph=True)
def _tagged(graph: MatchContext, x: Value, tag: Value) -> Value:
    """Whether the user tagged a value, or the node that makes it, such as with `keep_f32`."""
    return graph.tagged(as_view(x, "the value"), as_text(tag, "the tag"))
