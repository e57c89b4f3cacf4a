"""Folds of small constants, each computed once.

A model repeats its blocks, and with them its epsilons, its factors and at times its weights. What a fold
line gives depends on nothing but what it reads, so for the same constants it gives the same array again:
less work, and one array where there would be many equal ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gerules.dsl import expr as dsl
from gerules.dsl.expressions import Attribute, CallExpr, Expr, Ref, walk
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.syntax import FoldLine
from gerules.dsl.values import Array, Value, ValueView
from gerules.engine.constants import const_of_value
from gerules.ir import Const, DType

_LARGEST_BYTES: Final = 1 << 16
"""Larger constants are folded again: that costs more than remembering, and their memory is needed."""

_MOST_KEPT: Final = 512
"""Results kept, so at most 32 MiB; then all are forgotten."""

_OF_CONSTANTS: Final = frozenset(["dtype", "rank", "shape"])
"""Attributes that say the same of a value and of the constant it is."""

_Key = tuple[object, ...]


class FoldMemory:
    """Evaluates fold lines, and remembers what small constants gave."""

    def __init__(self) -> None:
        self._pure: dict[int, tuple[FoldLine, tuple[str, ...] | None]] = {}
        """The names that a line depends on; None when it depends on more than constants."""
        self._found: dict[_Key, tuple[object, dict[str, Value]]] = {}
        """With what the key names by identity, which must stay."""
        self._consts: dict[tuple[int, DType | None], tuple[Array, Const]] = {}

    def fold(self, line: FoldLine, scope: dsl.Scope) -> dict[str, Value]:
        """Evaluate a fold line; as `gerules.dsl.expr.fold`."""
        known = self._pure.get(id(line))
        if known is None:
            known = self._pure[id(line)] = line, _names_read(line.value)
        names = known[1]
        if names is None:
            return dsl.fold(line, scope)
        key: list[object] = [id(line)]
        kept: list[object] = []
        for name in names:
            if name in scope.names:
                value = scope.names[name]
                part = _part(value)
                if part is None:
                    return dsl.fold(line, scope)
                key.append(part)
                kept.append(value)
        entry = self._found.get(tuple(key))
        if entry is not None:
            return entry[1]
        found = dsl.fold(line, scope)
        if all(_part(value) is not None for value in found.values()):
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
                self._consts.clear()
            self._found[tuple(key)] = kept, found
        return found

    def const(self, value: Value, dtype: DType | None, what: str) -> Const:
        """Make an initializer of a value, one for each array; as `constants.const_of_value`."""
        if not isinstance(value, np.ndarray) or value.nbytes > _LARGEST_BYTES:
            return const_of_value(value, dtype, what)
        key = id(value), dtype
        known = self._consts.get(key)
        if known is None:
            if len(self._consts) >= _MOST_KEPT:
                self._consts.clear()
            known = self._consts[key] = value, const_of_value(value, dtype, what)
        return known[1]


def _names_read(expr: Expr) -> tuple[str, ...] | None:
    names: dict[str, None] = {}
    for part in walk(expr):
        match part:
            case Ref(name=name):
                names[name] = None
            case Attribute(name=name) if name.name not in _OF_CONSTANTS:
                return None
            case CallExpr(callee=callee):
                function = FUNCTIONS.get(callee.name) if isinstance(callee, Ref) else None
                if function is None or function.needs_graph or function.external is not None:
                    return None
            case _:
                pass
    return tuple(names)


def _part(value: Value) -> object:
    """Return what stands for a value in a key; None when it is no small constant."""
    if isinstance(value, ValueView):
        const = value.const
        return const if const is not None and const.array.nbytes <= _LARGEST_BYTES else None
    if isinstance(value, np.ndarray):
        return ("array", id(value)) if value.nbytes <= _LARGEST_BYTES else None
    if value is None or isinstance(value, bool | int | float | str | DType):
        return type(value), repr(value)  # 0.0 and -0.0 are equal
    if isinstance(value, tuple) and all(isinstance(item, bool | int | float | str) for item in value):
        return "list", repr(value)
    return None
