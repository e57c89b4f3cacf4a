"""Operator schemas: what an operator takes and gives, whether ONNX or a `define` says so."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from gerules.ir import Attr, DType


class ParamKind(enum.Enum):
    """How often an input or output may appear."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    VARIADIC = "variadic"


@dataclass(frozen=True, slots=True)
class Param:
    """One input or output of an operator; `dtypes` is None when anything is accepted.

    Parameters with the same non-empty `type_var` have the same type in one node (ONNX's `T`).
    `min_count` is how often a variadic one appears at least.
    """

    name: str
    kind: ParamKind = ParamKind.REQUIRED
    dtypes: frozenset[DType] | None = None
    type_var: str = ""
    min_count: int = 1


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """One attribute: its kind (`int`, `floats`, `dtype`, `tensor`, `graph`, ...), and its default.

    `default` is None when there is none; then `is_required` says whether it must be given.
    """

    name: str
    kind: str
    default: Attr | None = None
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class OpSchema:
    """An operator at one version."""

    op: str
    since: int
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    attrs: Mapping[str, AttrSpec]
    is_commutative: bool = False
    is_associative: bool = False
    is_deterministic: bool = True
    """False for operators such as RandomNormal: never folded, never merged."""
    doc: str = ""
    is_deprecated: bool = False

    @property
    def min_inputs(self) -> int:
        """The fewest inputs a node must have."""
        return sum(_fewest(param) for param in self.inputs)

    @property
    def max_inputs(self) -> int | None:
        """The most inputs a node may have; None when the last is variadic."""
        is_open = bool(self.inputs) and self.inputs[-1].kind is ParamKind.VARIADIC
        return None if is_open else len(self.inputs)


def _fewest(param: Param) -> int:
    if param.kind is ParamKind.VARIADIC:
        return param.min_count
    return 1 if param.kind is ParamKind.REQUIRED else 0
