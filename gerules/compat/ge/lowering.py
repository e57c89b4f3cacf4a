"""How a node of the Graph Engine becomes ONNX operators: into a graph, or into the pattern of a rule."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.graph import Graph, Node
from gerules.errors import table
from gerules.errors.counts import count_text
from gerules.ir import Attr, DType, TensorType

Array = npt.NDArray[np.generic]
Value = int
"""A value, as the sink counts them."""

REQUIRED: Final = object()
"""What stands for the default of an attribute that must be given."""


class Sink(Protocol):
    """Where operators go."""

    def add(
        self, op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Attr], n_outputs: int, name: str
    ) -> tuple[Value, ...]:
        """Add an operator and return its outputs."""
        ...

    def add_const(self, array: Array, *, is_fixed: bool = False) -> Value:
        """Add a constant; `is_fixed` says that the operator is another one with another value."""
        ...

    def add_branches(
        self, op: str, condition: Value, inputs: Sequence[Value], branches: Mapping[str, Graph], name: str
    ) -> tuple[Value, ...]:
        """Add an operator that runs one of several graphs on the same inputs."""
        ...

    def array_of(self, value: Value) -> Array | None:
        """Return the elements of a constant, None for other values."""
        ...

    def type_of(self, value: Value) -> TensorType:
        """Return what is known of the type of a value."""
        ...


@dataclass(frozen=True, slots=True)
class GeOperator:
    """One type of operator.

    Attributes:
        inputs: Names; one ends in `?` when it may be absent, in `*` when it is any number of inputs.
        outputs: Names.
        attrs: Defaults by name; `REQUIRED` where there is none.
        lower: Builds it; returns the outputs, those that cannot be built left out at the end.
    """

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, object]
    lower: Callable[[Lowering], Value | tuple[Value, ...]]

    @property
    def dynamic(self) -> int | None:
        """The place of the input that is any number of inputs, or None."""
        return next((at for at, name in enumerate(self.inputs) if name.endswith("*")), None)

    def split(self, inputs: Sequence[Value | None]) -> list[tuple[Value | None, ...]]:
        """Sort inputs by name: each name with its values, one except for a dynamic input."""
        dynamic = self.dynamic
        n_more = 0 if dynamic is None else max(0, len(inputs) - (len(self.inputs) - 1))
        found: list[tuple[Value | None, ...]] = []
        at = 0
        for place in range(len(self.inputs)):
            n_taken = n_more if place == dynamic else 1
            found.append(tuple(inputs[at : at + n_taken]) or (() if place == dynamic else (None,)))
            at += n_taken
        return found


OPERATORS: Final[dict[str, GeOperator]] = {}
"""The operators by type; the modules that lower them fill it."""

Lower = Callable[["Lowering"], Value | tuple[Value, ...]]


def operator(types: str, inputs: str, outputs: str = "y", **attrs: object) -> Callable[[Lower], Lower]:
    """Say that a function lowers operators of some types, separated by blanks."""

    def register(lower: Lower) -> Lower:
        for type in types.split():
            OPERATORS[type] = GeOperator(
                type, tuple(inputs.split()), tuple(outputs.split()), attrs, lower
            )  # fmt: skip
        return lower

    return register


def find_operator(type: str, *, place: str = "") -> GeOperator:
    """Return an operator by its type. Raises GeError E41001 with the types that are near."""
    found = OPERATORS.get(type)
    if found is not None:
        return found
    near = difflib.get_close_matches(type, OPERATORS, n=3, cutoff=0.5)
    known = f"; near it: {', '.join(near)}" if near else ""
    raise GeError(
        table.GE_UNKNOWN_OPERATOR, place=place, type=type,
        remedy=f"use one of gerules.compat.ge.es.all{known}",
    )  # fmt: skip


def count_read(graph: Graph) -> dict[Node, int]:
    """Return how many outputs of each node are read, up to the last that is."""
    found: dict[Node, int] = {}
    sources = [source for node in graph.get_direct_nodes() for source in node.sources if source is not None]
    for node, at in [*sources, *graph.outputs]:
        found[node] = max(found.get(node, 0), at + 1)
    return found


class Lowering:
    """One node on its way: its inputs and attributes, and what builds operators in its place.

    Args:
        n_read: How many of its outputs somebody reads; those after them need not be built.
    """

    def __init__(
        self,
        operator: GeOperator,
        name: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, object],
        sink: Sink,
        n_read: int = 1,
    ) -> None:
        self.operator = operator
        self.name = name
        self.sink = sink
        self.n_read = max(1, n_read)
        self._groups = dict(
            zip((item.rstrip("?*") for item in operator.inputs), operator.split(inputs), strict=True)
        )
        self._attrs = attrs
        self._check(inputs)

    # ------------------------------------------------------------ inputs
    def all(self, name: str) -> list[Value]:
        """Return the values of a dynamic input."""
        return [value for value in self._groups[name] if value is not None]

    def get(self, name: str) -> Value | None:
        """Return an input, None when it is absent."""
        values = self._groups[name]
        return values[0] if values else None

    def __getitem__(self, name: str) -> Value:
        """Return an input that is there."""
        return cast(int, self.get(name))

    def array(self, name: str) -> Array:
        """Return the elements of an input that has to be a constant. Raises GeError E41002."""
        found = self.sink.array_of(self[name])
        if found is None:
            raise self.fault(f"its input {name} is no constant", "give it as a constant")
        return found

    def ints(self, name: str) -> list[int]:
        """Return an input that has to be constant whole numbers. Raises GeError E41002."""
        return [int(item) for item in cast("list[int]", self.array(name).reshape(-1).tolist())]

    def number(self, name: str) -> float:
        """Return an input that has to be one constant number. Raises GeError E41002."""
        array = self.array(name)
        if array.size != 1:
            raise self.fault(f"its input {name} is no single number", "give a scalar")
        return float(cast(float, array.reshape(-1)[0].item()))

    # ------------------------------------------------------------ attributes
    def attr(self, name: str) -> object:
        """Return an attribute, or its default."""
        return self._attrs.get(name, self.operator.attrs.get(name))

    def int_attr(self, name: str) -> int:
        """Return a whole number. Raises GeError E41002."""
        found = _whole(value := self.attr(name))
        if found is not None:
            return found
        raise self._no_kind(name, value, "whole number")

    def float_attr(self, name: str) -> float:
        """Return a number. Raises GeError E41002."""
        value = self.attr(name)
        if isinstance(value, int | float | np.integer | np.floating):
            return float(cast(float, value))
        raise self._no_kind(name, value, "number")

    def ints_attr(self, name: str) -> list[int]:
        """Return whole numbers; one alone counts as a list of one. Raises GeError E41002."""
        value = self.attr(name)
        is_list = isinstance(value, list | tuple)
        items: list[object] = list(cast("Sequence[object]", value)) if is_list else [value]
        found = [number for item in items if (number := _whole(item)) is not None]
        if len(found) == len(items):
            return found
        raise self._no_kind(name, value, "list of whole numbers")

    def text_attr(self, name: str) -> str:
        """Return a text. Raises GeError E41002."""
        value = self.attr(name)
        if isinstance(value, str):
            return value
        raise self._no_kind(name, value, "text")

    # ------------------------------------------------------------ building
    def op(self, op: str, *inputs: Value | None, **attrs: Attr) -> Value:
        """Add an operator with one output."""
        return self.sink.add(op, inputs, attrs, 1, self.name)[0]

    def ops(self, n_outputs: int, op: str, *inputs: Value | None, **attrs: Attr) -> tuple[Value, ...]:
        """Add an operator with several outputs."""
        return self.sink.add(op, inputs, attrs, n_outputs, self.name)

    def const(self, value: object, dtype: npt.DTypeLike = np.int64) -> Value:
        """Add a constant."""
        return self.sink.add_const(np.asarray(value, dtype))

    def number_like(self, value: float, like: Value) -> Value:
        """Add a number that the operator is made with, of the type of a value beside it."""
        dtype = self.sink.type_of(like).dtype
        known = DType.F32 if dtype is DType.UNKNOWN else dtype
        return self.sink.add_const(np.asarray(value, known.numpy), is_fixed=True)

    def rank_of(self, name: str) -> int:
        """Return the number of dimensions of an input. Raises GeError E41002 when it is not known."""
        shape = self.sink.type_of(self[name]).shape
        if shape is None:
            raise self.fault(f"the rank of its input {name} is not known", "give the shapes of what it reads")
        return len(shape)

    def refuse_offset(self) -> None:
        """Raise GeError E41002 for weights with an offset, which quantized ones have."""
        if self._groups.get("offset_w", (None,)) != (None,):
            raise self.fault("offset_w is not lowered", "leave it out")

    def fault(self, reason: str, remedy: str) -> GeError:
        """Return what is wrong with the node."""
        return GeError(
            table.GE_BAD_NODE, place=self.name, type=self.operator.type, reason=reason, remedy=remedy
        )

    # ------------------------------------------------------------ checks
    def _check(self, inputs: Sequence[Value | None]) -> None:
        operator = self.operator
        takes = ", ".join(operator.inputs) or "no input"
        if operator.dynamic is None and len(inputs) > len(operator.inputs):
            raise self.fault(f"it has {count_text(len(inputs), 'input')}", f"it takes {takes}")
        for name in operator.inputs:
            if not name.endswith(("?", "*")) and self.get(name) is None:
                raise self.fault(f"its input {name} is missing", f"it takes {takes}")
        for name, default in operator.attrs.items():
            if default is REQUIRED and name not in self._attrs:
                raise self.fault(f"its attribute {name} is missing", f"set {name}")
        known = set(operator.attrs) | _COMMON
        for name in self._attrs:
            if name not in known and not name.startswith("_"):
                near = difflib.get_close_matches(name, operator.attrs, n=1)
                remedy = (
                    f"did you mean {near[0]}?" if near else f"it has {', '.join(operator.attrs) or 'none'}"
                )
                raise self.fault(f"it has no attribute {name}", remedy)

    def _no_kind(self, name: str, value: object, kind: str) -> GeError:
        return self.fault(f"its attribute {name} is {value!r}, which is no {kind}", f"give a {kind}")


_COMMON: Final = frozenset(["data_type", "format", "N", "T", "dtype", "offset_x", "input_layout_info"])
"""Attributes that any node may have; none of them changes what is computed."""


def _whole(value: object) -> int | None:
    if isinstance(value, int):
        return int(value)
    return int(cast("np.int64", value)) if isinstance(value, np.integer) else None
