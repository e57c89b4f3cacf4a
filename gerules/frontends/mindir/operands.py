"""One node while it becomes ours: its arguments by place or name, and the operators written for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.frontends.mindir.items import Array, Build, Item, Items, Known, NodeFault, Tensor, capture
from gerules.frontends.mindir.tensors import DTYPE_OF_TYPE_ID
from gerules.ir import NO_ATTRS, Attr, DType, Origin, TensorType

Given = int | float | bool | str | None | tuple["Given", ...]
"""A value known while reading: of an argument, or of an attribute of the operator."""

_MISSING: Final = object()


class Call:
    """A node of MindIR being written as nodes of ONNX into a graph.

    The newer format gives most parameters as arguments, the older one as attributes of the operator: `given`
    takes them from wherever they are.
    """

    def __init__(
        self,
        build: Build,
        op: str,
        items: Sequence[Item],
        attrs: Mapping[str, Given],
        declared: Sequence[TensorType],
        origin: Origin,
    ) -> None:
        self.build = build
        self.op = op
        self.items = items
        self.attrs = attrs
        self.declared = declared
        self.origin = origin

    # ------------------------------------------------------------ reading
    def has(self, place: int) -> bool:
        """Whether there is an argument at a place, other than None."""
        return place < len(self.items) and self.items[place] != Known(None)

    def item(self, place: int) -> Item:
        """Return an argument. Raises NodeFault when there is none."""
        if place >= len(self.items):
            raise NodeFault(f"it has {len(self.items)} arguments, and argument {place + 1} is needed")
        return self.items[place]

    def tensor(self, place: int, like: int | None = None) -> int:
        """Return an argument as a value; a number takes the element type of the value `like`."""
        return self.value_of(self.item(place), like)

    def value_of(self, item: Item, like: int | None = None) -> int:
        """Return an item as a value of this graph. Raises NodeFault for one that is no tensor."""
        if isinstance(item, Tensor):
            return capture(self.build, item)
        if isinstance(item, Array):
            return self.build.editor.add_const(item.array)
        if isinstance(item, Known) and isinstance(item.value, int | float):
            return self.number(item.value, like)
        if isinstance(item, Items):
            return self.list_of(item)
        raise NodeFault(f"an argument is no tensor but {type(item).__name__.lower()}")

    def list_of(self, item: Items) -> int:
        """Return a tuple of whole numbers as a vector; numbers computed at run time may be among them."""
        known = [one.value for one in item.items if isinstance(one, Known) and isinstance(one.value, int)]
        if len(known) == len(item.items):
            return self.ints(known)
        axes = self.ints([0])
        parts: list[int] = []
        for one in item.items:
            part = self.value_of(one)
            if self.dtype(part) is not DType.I64:
                part = self.add("Cast", [part], {"to": DType.I64})
            parts.append(self.add("Unsqueeze", [part, axes]))
        if not parts:
            return self.ints([])
        return self.add("Concat", parts, {"axis": 0})

    def tensors(self, place: int) -> list[int]:
        """Return a tuple of tensors."""
        item = self.item(place)
        return [self.value_of(one) for one in (item.items if isinstance(item, Items) else (item,))]

    def given(self, name: str, place: int = 1 << 30, default: Given = None) -> Given:
        """Return a parameter known while reading: the argument at a place, or else the attribute of a name.

        Raises:
            NodeFault: when the argument is computed at run time.
        """
        if place < len(self.items):
            found = self._known(self.items[place])
            if found is _MISSING:
                raise NodeFault(f"its {name} is computed when the model runs")
            return default if found is None else found  # pyright: ignore[reportReturnType] (not the mark)
        return self.attrs.get(name, default)

    def is_known(self, place: int) -> bool:
        """Whether an argument is known while reading."""
        return place >= len(self.items) or self._known(self.items[place]) is not _MISSING

    def _known(self, item: Item) -> object:
        if isinstance(item, Known):
            return item.value
        if isinstance(item, Items):
            found = [self._known(one) for one in item.items]
            return _MISSING if any(one is _MISSING for one in found) else tuple(found)
        if isinstance(item, Array) and item.array.size <= 1 << 16 and item.array.dtype.kind in "iufb":
            return _as_tuple(item.array.tolist())
        return _MISSING

    def integer(self, name: str, place: int = 1 << 30, default: int | None = None) -> int:
        """Return a whole number; a tuple of one is it too. Raises NodeFault."""
        found = self.given(name, place, default)
        if isinstance(found, tuple) and len(found) == 1:
            found = found[0]
        if isinstance(found, bool) or not isinstance(found, int):
            raise NodeFault(f"its {name} is no whole number")
        return found

    def truth(self, name: str, place: int = 1 << 30, default: bool = False) -> bool:
        """Return a truth value. Raises NodeFault."""
        found = self.given(name, place, default)
        if not isinstance(found, bool | int):
            raise NodeFault(f"its {name} is neither true nor false")
        return bool(found)

    def real(self, name: str, place: int = 1 << 30, default: float | None = None) -> float:
        """Return a number. Raises NodeFault."""
        found = self.given(name, place, default)
        if isinstance(found, tuple) and len(found) == 1:
            found = found[0]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise NodeFault(f"its {name} is no number")
        return float(found)

    def word(self, name: str, place: int = 1 << 30, default: str = "") -> str:
        """Return a text. Raises NodeFault."""
        found = self.given(name, place, default)
        if not isinstance(found, str):
            raise NodeFault(f"its {name} is no text")
        return found

    def list(self, name: str, place: int = 1 << 30, default: Sequence[int] | None = None) -> list[int]:
        """Return whole numbers; one alone counts as a list of it. Raises NodeFault."""
        found = self.given(name, place, tuple(default) if default is not None else None)
        items = found if isinstance(found, tuple) else (found,)
        numbers = [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
        if len(numbers) != len(items):
            raise NodeFault(f"its {name} is no list of whole numbers")
        return numbers

    def dtype_given(self, name: str, place: int) -> DType:
        """Return an element type that is given by MindSpore's number. Raises NodeFault."""
        found = DTYPE_OF_TYPE_ID.get(self.integer(name, place))
        if found is None:
            raise NodeFault(f"its {name} is an element type that is not known")
        return found

    # ------------------------------------------------------------ types
    @property
    def declared_dtype(self) -> DType:
        """The element type that the file declares for the first result."""
        return self.declared_dtype_of(0)

    def declared_dtype_of(self, place: int) -> DType:
        """Return the element type that the file declares for a result."""
        return self.declared[place].dtype if place < len(self.declared) else DType.UNKNOWN

    def type(self, value: int) -> TensorType:
        """Return what is known of a value."""
        found = self.build.editor.values[value].type
        return found if isinstance(found, TensorType) else TensorType()

    def dtype(self, value: int) -> DType:
        """Return the element type of a value."""
        return self.type(value).dtype

    def rank(self, value: int) -> int:
        """Return the rank of a value. Raises NodeFault when it is not known."""
        found = self.type(value).rank
        if found is None:
            raise NodeFault("the rank of an argument is not known")
        return found

    # ------------------------------------------------------------ writing
    def ints(self, numbers: Sequence[int]) -> int:
        """Add a vector of whole numbers. Raises NodeFault when one does not fit 64 bits."""
        try:
            return self.build.editor.add_const(np.array(list(numbers), np.int64))
        except OverflowError:
            raise NodeFault("a whole number does not fit 64 bits") from None

    def number(self, value: float, like: int | None = None) -> int:
        """Add one number, of the element type of a value where one is given."""
        dtype = self.dtype(like) if like is not None else DType.UNKNOWN
        if dtype is DType.UNKNOWN:
            if like is not None:
                raise NodeFault("the element type beside a number is not known")
            dtype = (
                DType.BOOL if isinstance(value, bool) else DType.I64 if isinstance(value, int) else DType.F32
            )
        try:
            return self.build.editor.add_const(np.array(value).astype(dtype.numpy))
        except (OverflowError, ValueError):
            raise NodeFault(f"{value} does not fit {dtype}") from None

    def add(self, op: str, inputs: Sequence[int | None], attrs: Mapping[str, Attr] = NO_ATTRS) -> int:
        """Add an operator and return its first output."""
        return self.add_many(op, inputs, attrs, 1)[0]

    def add_many(
        self, op: str, inputs: Sequence[int | None], attrs: Mapping[str, Attr], n_outputs: int
    ) -> list[int]:
        """Add an operator and return its outputs; the first has the element type of the first input.

        A better type is declared for what the node of MindIR gives; this one serves what stands in between.
        """
        node = self.build.editor.add_node(op, inputs, attrs=attrs, origin=self.origin, n_outputs=n_outputs)
        made = [value for value in node.outputs if value is not None]
        first = next((value for value in inputs if value is not None), None)
        if first is not None and op not in _OTHER_TYPE:
            self.build.editor.set_type(made[0], TensorType(self.dtype(first), None))
        if op == "Cast":
            to = attrs.get("to")
            self.build.editor.set_type(
                made[0], TensorType(to if isinstance(to, DType) else DType.UNKNOWN, None)
            )
        return made


_OTHER_TYPE: Final = frozenset(
    {"Cast", "Shape", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf", "Where",
     "ArgMax", "ArgMin", "OneHot"}
)  # fmt: skip
"""Operators whose result is not of the element type of their first input."""


def _as_tuple(found: object) -> object:
    return tuple(_as_tuple(item) for item in found) if isinstance(found, list) else found  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] (numpy's lists of lists)
