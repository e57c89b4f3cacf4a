"""All functions of the rule language, in one table."""

from __future__ import annotations

from typing import Final

from gerules.dsl.functions_array import round_to
from gerules.dsl.functions_graph import as_ops
from gerules.dsl.functions_shape import axis_in
from gerules.dsl.registry import BUILTINS, Function, FunctionTable

_FILLED_BY: Final = (round_to, as_ops, axis_in)
"""One name of each module whose import fills the table, so that the imports are seen to be used."""

FUNCTIONS: Final = FunctionTable(BUILTINS)
"""The functions that expressions may call: those built in, and those that this process registered."""

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


def documented() -> list[Function]:
    """The functions that are built in, by subject and name, for documentation."""
    return sorted(BUILTINS.values(), key=lambda item: (item.subject, item.name))
