"""The functions of Python that the example rules of this folder declare."""

from __future__ import annotations

import math

from gerules.dsl import FunctionTable, ValueView, function, predicate

FUNCTIONS = FunctionTable()


@predicate(functions=FUNCTIONS)
def fits_l1(v: ValueView, bytes: int) -> bool:
    """Whether a value fits into a buffer."""
    return v.tensor_type.n_elements * 4 <= bytes


@function(functions=FUNCTIONS)
def tile_count(shape: tuple[int, ...], tile: int) -> int:
    """Tiles that a value takes."""
    return math.prod(-(-dim // tile) for dim in shape)
