"""What inference found before: nodes of a model are alike, and are asked about once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.ir import Attr, Const, Node, ValueType
from gerules.ops.call import MOST_FACTORS, Vector

Known = tuple[tuple[ValueType, ...], Vector | None]
"""The types of a node's outputs, and what is known of the entries of the first."""

Key = tuple[object, ...]

_MOST_KEPT: Final = 50_000
_LARGEST_COMPARED_BYTES: Final = 64
"""Constants up to this size (shapes, axes, scalars) are told apart by what they hold, others by identity."""

_BY_CONTENTS: Final[Known] = ((), None)
"""Stands for types that depend on what the inputs hold (by identity)."""


class TypeMemory:
    """Types by operator, attributes and input types; by constants too where those were asked for."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Key, Known] = {}

    def key(
        self, node: Node, inputs: Sequence[ValueType | None], vectors: Sequence[Vector | None] = ()
    ) -> Key:
        """Return all that types depend on apart from the constants among the inputs."""
        attrs = [(name, _kind_of(value), value) for name, value in node.attrs.items()] if node.attrs else ()
        return node.op, len(node.outputs), tuple(inputs), tuple(attrs), tuple(vectors)

    def get(self, key: Key, consts: Sequence[Const | None]) -> Known | None:
        """Return what was found; None when nothing was."""
        known = self._known.get(key)
        return self._known.get((key, *map(contents_of, consts))) if known is _BY_CONTENTS else known

    def keep(self, key: Key, consts: Sequence[Const | None] | None, found: Known) -> None:
        """Remember what was found; with `consts`, only for what these hold."""
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        if consts is None:
            self._known[key] = found
        else:
            self._known[key] = _BY_CONTENTS
            self._known[(key, *map(contents_of, consts))] = found


def _kind_of(value: Attr) -> object:
    """Equal numbers may be of different kinds, and not all kinds are accepted."""
    return tuple([type(item) for item in value]) if isinstance(value, tuple) else type(value)


def contents_of(const: Const | None) -> object:
    """What tells a constant from others of its element type and shape, as far as types may depend on it.

    Of floating-point numbers only a few in a row can be factors of sizes; others shape nothing.
    """
    if const is None:
        return None
    array = const.array
    if (array.ndim > 1 or array.size > MOST_FACTORS) and const.dtype.is_float:
        return True
    return const if array.nbytes > _LARGEST_COMPARED_BYTES or array.dtype.kind == "O" else array.tobytes()
