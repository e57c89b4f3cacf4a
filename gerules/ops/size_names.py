"""Names for sizes that nothing is known of: `[?, 4]` becomes `[u7_0, 4]`, and what follows says the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from typing import Final

from gerules.ir import UNKNOWN_DIM, Dim, Graph, TensorType, Value, ValueType

_WORD: Final = re.compile(r"[^\W\d]\w*")
_GIVEN: Final = re.compile(r"u\d+_\d+")
"""The form of a name that is given here: by value and axis."""


def own_names(graph: Graph) -> frozenset[str]:
    """Return the names of sizes that a graph uses."""
    return frozenset(
        word
        for value in graph.values.values()
        if isinstance(value.type, TensorType)
        for dim in value.type.shape or ()
        if isinstance(dim, str) and dim != UNKNOWN_DIM
        for word in _WORD.findall(dim)
    )


def with_names(types: Iterable[tuple[int, ValueType]], taken: Set[str]) -> Iterator[tuple[int, ValueType]]:
    """Yield types by value, every unknown size with a name that says the value and the axis."""
    for value, type in types:
        if isinstance(type, TensorType) and type.shape is not None and UNKNOWN_DIM in type.shape:
            dims = tuple(
                _fresh(value, axis, taken) if dim == UNKNOWN_DIM else dim
                for axis, dim in enumerate(type.shape)
            )
            yield value, replace(type, shape=dims)
        else:
            yield value, type


def _fresh(value: int, axis: int, taken: Set[str]) -> str:
    name = f"u{value}_{axis}"
    while name in taken:
        name += "_"
    return name


def without_names(graph: Graph, own: Set[str]) -> Graph:
    """Return a graph without the names that were given here; those in `own` are the model's."""
    values = {id: _unnamed(value, own) for id, value in graph.values.items()}
    if all(value is graph.values[id] for id, value in values.items()):
        return graph
    return replace(graph, values=values)


def _unnamed(value: Value, own: Set[str]) -> Value:
    type = value.type
    if not isinstance(type, TensorType) or type.shape is None or type.is_static:
        return value
    dims = tuple(UNKNOWN_DIM if _holds_given(dim, own) else dim for dim in type.shape)
    return value if dims == type.shape else Value(value.id, value.name, replace(type, shape=dims))


def _holds_given(dim: Dim, own: Set[str]) -> bool:
    return isinstance(dim, str) and any(_is_given(word, own) for word in _WORD.findall(dim))


def _is_given(word: str, own: Set[str]) -> bool:
    return word not in own and _GIVEN.fullmatch(word.rstrip("_")) is not None
