"""Layouts that were mixed up: whether an operator's inputs fit when the axes of one are in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from gerules.ir import TensorType, ValueType
from gerules.ops.call import Misfit

Perm = tuple[int, ...]

_CONVOLUTIONS: Final = frozenset({"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv"})
_PRODUCTS: Final = frozenset({"MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"})
_BROADCASTS: Final = frozenset({
    "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "Mod", "And", "Or",
    "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Concat",
})  # fmt: skip
_NORMALIZATIONS: Final = frozenset({"BatchNormalization", "InstanceNormalization", "GroupNormalization"})

_TO_CHANNELS_FIRST: Final[dict[int, Perm]] = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
_TO_CHANNELS_LAST: Final[dict[int, Perm]] = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
_FROM_HWIO: Final[dict[int, Perm]] = {3: (2, 1, 0), 4: (3, 2, 0, 1), 5: (4, 3, 0, 1, 2)}
"""Weights as TensorFlow keeps them."""


def find_transpose(
    op: str, inputs: Sequence[ValueType | None], infer: Callable[[list[ValueType | None]], object]
) -> tuple[int, Perm] | None:
    """Return which input fits with its axes in which order, or None when no order of one input helps.

    Args:
        infer: Infers the operator for other inputs; raises Misfit when they do not fit.

    Cost: a few inferences; for operators that have no layout none.
    """
    for at, perm in _candidates(op, inputs):
        type = inputs[at]
        if not isinstance(type, TensorType) or type.shape is None or perm == tuple(range(len(perm))):
            continue
        turned = replace(type, shape=tuple(type.shape[axis] for axis in perm))
        if turned == type:
            continue
        try:
            infer([turned if place == at else one for place, one in enumerate(inputs)])
        except Misfit:
            continue
        return at, perm
    return None


def _candidates(op: str, inputs: Sequence[ValueType | None]) -> Iterator[tuple[int, Perm]]:
    ranks = [type.rank if isinstance(type, TensorType) else None for type in inputs]

    def turned(at: int, table: dict[int, Perm]) -> Iterator[tuple[int, Perm]]:
        rank = ranks[at] if at < len(ranks) else None
        if rank in table:
            yield at, table[rank]

    def swapped(at: int) -> Iterator[tuple[int, Perm]]:
        rank = ranks[at]
        if rank is not None and rank >= 2:
            yield at, (*range(rank - 2), rank - 1, rank - 2)

    if op in _CONVOLUTIONS:
        weight = 3 if op == "QLinearConv" else 1
        yield from turned(0, _TO_CHANNELS_FIRST)
        for table in (_FROM_HWIO, _TO_CHANNELS_FIRST):
            yield from turned(weight, table)
    elif op in _NORMALIZATIONS:
        yield from turned(0, _TO_CHANNELS_FIRST)
    elif op in _PRODUCTS:
        right = 3 if op == "QLinearMatMul" else 1
        yield from (pair for at in (right, 0) if at < len(ranks) for pair in swapped(at))
    elif op in _BROADCASTS:
        for at in reversed(range(len(ranks))):
            yield from turned(at, _TO_CHANNELS_FIRST)
            yield from turned(at, _TO_CHANNELS_LAST)
            if ranks[at] == 2:
                yield at, (1, 0)
