"""Fills: constants that repeat one element, kept as views of it, and what operators make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from gerules.errors import GerulesError
from gerules.ir import Attr, Const, DType, Node, TensorType, ValueType

Array = npt.NDArray[np.generic]

Evaluate = Callable[[str, Sequence[Array | None], Mapping[str, Attr], int, int], Sequence[Array]]
"""Computes one operator: (operator, inputs, attributes, opset, number of outputs) to results.

Raises GerulesError for what it cannot compute; the node then stays.
"""

LARGEST_VIEW_BYTES: Final = 4 << 30
"""Largest result that repeats one element; it takes no memory here, and will where it is stored."""

_ELEMENTWISE: Final = frozenset({
    "Cast", "Identity", "Neg", "Abs", "Add", "Sub", "Mul", "Div", "Sqrt", "Reciprocal", "Exp", "Not", "Equal",
    "Where", "Less", "Greater", "And", "Or", "Relu",
})  # fmt: skip
_REARRANGED: Final = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Tile"})
"""Operators whose result repeats one element when their first input does."""


def repeats(array: Array) -> bool:
    """Whether every element is the same bytes in memory."""
    return array.size == 1 or (array.size > 0 and not any(array.strides))


def own_bytes(array: Array) -> int:
    """Return the bytes of an array in memory; what repeats one element takes that element."""
    return array.dtype.itemsize if array.size and repeats(array) else array.nbytes


def repeated_view(
    node: Node, arrays: Sequence[Array | None], type: ValueType, opset: int, evaluate: Evaluate
) -> Array | None:
    """Return a result that costs no memory as a view: of one element, or of an input that is expanded.

    None when the result is not of that kind, its size is not known, or it is beyond
    `LARGEST_VIEW_BYTES`.
    """
    if not isinstance(type, TensorType) or not type.is_static or type.dtype is DType.UNKNOWN:
        return None
    if len(node.outputs) != 1 or type.n_elements <= 1 or type.size_bytes > LARGEST_VIEW_BYTES:
        return None
    shape = type.static_shape
    if node.op == "ConstantOfShape":
        value = node.attrs.get("value")
        fill = value.array.reshape(-1)[:1] if isinstance(value, Const) else np.zeros(1, np.float32)
        return np.broadcast_to(fill, shape) if fill.size else None
    first = arrays[0] if arrays else None
    if first is None or not first.size:
        return None
    if node.op == "Expand":
        return np.broadcast_to(first, shape)
    if node.op in _REARRANGED and repeats(first):
        return np.broadcast_to(first.reshape(-1)[:1], shape)
    given = [array for array in arrays if array is not None]
    if node.op in _ELEMENTWISE and any(array.size > 1 for array in given) and all(map(repeats, given)):
        try:
            results = evaluate(node.op, [array.reshape(-1)[:1] for array in given], node.attrs, opset, 1)
        except GerulesError:
            return None
        return np.broadcast_to(results[0].reshape(-1)[:1], shape) if results[0].size == 1 else None
    return None
