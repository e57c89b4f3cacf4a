"""The operators of the Graph Engine as functions: `Conv2D(x, filter, strides=..., pads=...)`.

Inputs come first, in their order, attributes by keyword; an input that is any number of tensors is a list.
Numbers, lists and tensors stand for constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, cast, overload

from gerules.compat.ge.error import GeError
from gerules.compat.ge.es.graph_builder import GraphBuilder, TensorHolder
from gerules.compat.ge.graph.graph import Graph
from gerules.compat.ge.lowering import OPERATORS, GeOperator
from gerules.errors import table

Operator = Callable[..., "TensorHolder | tuple[TensorHolder, ...]"]


@overload
def __getattr__(name: Literal["__all__"]) -> list[str]: ...  # pyright: ignore[reportOverlappingOverload] (the one name that is no operator)
@overload
def __getattr__(name: str) -> Operator: ...
def __getattr__(name: str) -> Operator | list[str]:
    if name == "__all__":  # what `import *` asks for
        return sorted(OPERATORS)
    if name in OPERATORS:
        return _function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(OPERATORS)


@cache
def _function(type: str) -> Operator:
    operator = OPERATORS[type]

    def call(
        *inputs: object, name: str = "", owner_builder: GraphBuilder | None = None, **attrs: object
    ) -> TensorHolder | tuple[TensorHolder, ...]:
        flat = _flat(operator, inputs)
        builder = owner_builder or next(
            (item.builder for item in flat if isinstance(item, TensorHolder)), None
        )
        if builder is None:
            raise GeError(
                table.GE_BAD_NODE, place=name, type=type, reason="none of its inputs belongs to a builder",
                remedy="pass a value of a builder, or owner_builder",
            )  # fmt: skip
        made = builder.add_operator(type, flat, attrs, _n_outputs(operator, flat, attrs), name)
        return made if len(operator.outputs) > 1 or _is_open(operator) else made[0]

    call.__name__ = call.__qualname__ = type
    call.__doc__ = (
        f"Add {type}({', '.join(operator.inputs)}) with attributes {', '.join(operator.attrs) or 'none'}."
    )
    return call


def _flat(operator: GeOperator, inputs: Sequence[object]) -> list[object]:
    found: list[object] = []
    for at, item in enumerate(inputs):
        if at == operator.dynamic and isinstance(item, list | tuple):
            found.extend(cast("Sequence[object]", item))
        else:
            found.append(item)
    return found


def _is_open(operator: GeOperator) -> bool:
    """Whether the number of outputs is the caller's choice."""
    return any(name.endswith("*") for name in operator.outputs)


def _n_outputs(operator: GeOperator, inputs: Sequence[object], attrs: dict[str, object]) -> int:
    if not _is_open(operator):
        return len(operator.outputs)
    branch = attrs.get("then_branch")
    if isinstance(branch, Graph):
        return len(branch.outputs)
    given = attrs.get("num_split")
    if isinstance(given, int) and given > 0:
        return given
    sizes = inputs[1] if len(inputs) > 1 else None
    return len(cast("Sequence[object]", sizes)) if isinstance(sizes, list | tuple) else 1
