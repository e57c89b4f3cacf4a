"""What stands behind the dot of an expression, by the kind of value in front of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import numpy as np

from gerules.dsl.values import (
    Array,
    ChainView,
    CostView,
    DeviceRef,
    EvalError,
    OpView,
    Value,
    ValueView,
    describe,
)
from gerules.ir import DType, dtype_of


def readers_of(name: str) -> dict[type, Callable[[Value], Value]]:
    """Return what reads a member, by the type of the values that have one of this name."""
    return {kind: read for kind, members in _BY_TYPE.items() if (read := members.get(name)) is not None}


def _end(chain: ChainView, place: int, name: str) -> Value:
    if not chain.ops:
        raise EvalError(f"{describe(chain)} has no {name}")
    return chain.ops[place]


_OF_VALUE: Final[dict[str, Callable[[ValueView], Value]]] = {
    "dtype": lambda value: value.dtype,
    "shape": lambda value: value.shape,
    "rank": lambda value: len(value.shape),
    "name": lambda value: value.name,
    "format": lambda value: value.tensor_type.format.name,
    "is_const": lambda value: value.const is not None,
}
_OF_ARRAY: Final[dict[str, Callable[[Array], Value]]] = {
    "dtype": dtype_of,
    "shape": lambda array: array.shape,
    "rank": lambda array: array.ndim,
}
_OF_OP: Final[dict[str, Callable[[OpView], Value]]] = {"name": lambda op: op.op}
_OF_CHAIN: Final[dict[str, Callable[[ChainView], Value]]] = {
    "ops": lambda chain: chain.ops,
    "side_inputs": lambda chain: chain.side_inputs,
    "first": lambda chain: _end(chain, 0, "first"),
    "last": lambda chain: _end(chain, -1, "last"),
}
_OF_COST: Final[dict[str, Callable[[CostView], Value]]] = {
    "time": lambda cost: cost.time,
    "bytes": lambda cost: cost.bytes,
    "flops": lambda cost: cost.flops,
}
_OF_DEVICE: Final[dict[str, Callable[[DeviceRef], Value]]] = {
    "name": lambda ref: ref.device.name,
    "lacks_list": lambda ref: tuple(ref.device.lacks_list),
}
_OF_DTYPE: Final[dict[str, Callable[[DType], Value]]] = {
    "bits": lambda dtype: dtype.bits,
    "is_float": lambda dtype: dtype.is_float,
    "is_integer": lambda dtype: dtype.is_integer,
}
_BY_TYPE: Final = cast(
    "dict[type, dict[str, Callable[[Value], Value]]]",
    {
        ValueView: _OF_VALUE,
        np.ndarray: _OF_ARRAY,
        OpView: _OF_OP,
        ChainView: _OF_CHAIN,
        CostView: _OF_COST,
        DeviceRef: _OF_DEVICE,
        DType: _OF_DTYPE,
    },
)
