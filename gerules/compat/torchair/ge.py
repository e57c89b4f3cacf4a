"""`torchair.ge`: what converters make operators with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gerules.compat.torchair.attr as attr
from gerules.compat.torchair.converters import emit, make_constant

__all__ = ["Cast", "Clone", "Const", "attr", "custom_op"]


def custom_op(
    op_type: str,
    *args: Any,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    attrs: Mapping[str, attr.Wrapper] | None = None,
    node_name: str | None = None,
) -> Any:
    """Make any operator: `args`, or `inputs` by name in their order; several results come as a tuple.

    `node_name` is taken and not kept: nodes are named after the nodes of torch that they come from.
    """
    given = list(args) if inputs is None else list(inputs.values())
    plain = {name: item.value for name, item in (attrs or {}).items()}
    return emit(op_type, given, plain, len(outputs) if outputs else 1)


def Const(v: Any, dtype: Any = None, node_name: str | None = None, readable: bool = True) -> Any:  # noqa: N802
    """Make a constant of a number, a list or an array; `dtype` is one of numpy."""
    return make_constant(v, dtype)


def Cast(x: Any, *, dst_type: int, dependencies: Sequence[Any] = (), node_name: str | None = None) -> Any:  # noqa: N802
    """Change the element type to one of GE's numbers."""
    return emit("Cast", [x], {"to": _ONNX_OF_GE[dst_type]}, 1)


def Clone(x: Any, *, node_name: str | None = None) -> Any:  # noqa: N802
    """Copy a tensor."""
    return emit("Identity", [x], {}, 1)


_ONNX_OF_GE = {0: 1, 1: 10, 2: 3, 3: 6, 4: 2, 6: 5, 7: 4, 8: 12, 9: 7, 10: 13, 11: 11, 12: 9, 27: 16}
"""ONNX's number of an element type by GE's. Source: onnx.proto, TensorProto.DataType; GE, DataType."""
