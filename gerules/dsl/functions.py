"""All functions of the rule language, in one table, and the door for functions from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gerules.dsl.functions_array import round_to
from gerules.dsl.functions_graph import as_ops
from gerules.dsl.functions_shape import axis_in
from gerules.dsl.registry import BUILTINS, Function, FunctionTable
from gerules.dsl.values import Value

_FILLED_BY: Final = (round_to, as_ops, axis_in)
"""One name of each module whose import fills the table, so that the imports are seen to be used."""

FUNCTIONS: Final = FunctionTable(BUILTINS)
"""The functions that expressions may call unless a caller gives another table."""

ATTRIBUTES: Final = {
    "value": ("dtype", "shape", "rank", "name", "format", "is_const"),
    "array": ("dtype", "shape", "rank"),
    "operator": ("name",),
    "chain": ("ops", "side_inputs", "first", "last"),
    "cost": ("time", "bytes", "flops"),
    "device": ("name", "lacks_list"),
    "element type": ("bits", "is_float", "is_integer"),
}
"""What may follow a dot, by what stands before it; there is nothing else."""

METHODS: Final = ("has", "lacks")
"""What may be called on the device."""


def register_function(
    name: str, params: Sequence[str], fn: Callable[..., Value], doc: str, *, needs_graph: bool = False
) -> None:
    """Make a Python function callable from rules in this process; see `FunctionTable.register`."""
    FUNCTIONS.register(name, params, fn, doc, needs_graph=needs_graph)


def documented() -> list[Function]:
    """The functions by subject and name, for documentation."""
    return sorted(FUNCTIONS.values(), key=lambda item: (item.subject, item.name))
