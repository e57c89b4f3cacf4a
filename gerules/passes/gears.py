"""Gears: the sets of input shapes that one offline model is compiled for, each with a plan of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Final

from gerules.ir import TensorType

Shapes = tuple[tuple[int, ...], ...]
"""One shape for each input of a model, in the model's order."""

OPEN: Final = -1
"""A size that a gear fixes."""


class GearKind(Enum):
    """What differs from gear to gear. The value is `mbatch_dynamic_type` in files."""

    BATCH = 1
    IMAGE = 2
    DIMS = 3

    @property
    def word(self) -> str:
        """The kind in reports: `batch`, `hw` or `dims`."""
        return {GearKind.BATCH: "batch", GearKind.IMAGE: "hw", GearKind.DIMS: "dims"}[self]


@dataclass(frozen=True, slots=True)
class Gear:
    """One gear.

    Attributes:
        values: What chooses it: `(batch,)`, `(height, width)`, or a size for each open dimension.
        shapes: The shape of each input.
    """

    values: tuple[int, ...]
    shapes: Shapes

    @property
    def text(self) -> str:
        """The gear as options write it: `8`, `224,224`."""
        return ",".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class Gears:
    """All gears of a model.

    Attributes:
        names: The inputs, in the model's order.
        types: Their types; what differs from gear to gear is a symbolic dimension.
        order: Inputs in the order in which `values` of kind DIMS go through their open dimensions.
        is_hybrid: Whether shapes that are no gear run by a fully dynamic plan.
    """

    kind: GearKind
    gears: tuple[Gear, ...]
    names: tuple[str, ...]
    types: tuple[TensorType, ...]
    order: tuple[str, ...] = ()
    is_hybrid: bool = False

    @property
    def open_shapes(self) -> Shapes:
        """The shape of each input, with -1 where gears differ."""
        return tuple(
            tuple(dim if isinstance(dim, int) else OPEN for dim in type.shape or ()) for type in self.types
        )

    @property
    def max_shapes(self) -> Shapes:
        """For each input its largest shape over all gears: what a caller has to have room for."""
        columns = zip(*(gear.shapes for gear in self.gears), strict=True)
        return tuple(max(column, key=prod) for column in columns)

    @property
    def largest(self) -> int:
        """The gear whose inputs have the most elements."""
        sizes = [sum(map(prod, gear.shapes)) for gear in self.gears]
        return sizes.index(max(sizes))

    def find(self, shapes: Sequence[Sequence[int] | None]) -> int | None:
        """Return the gear for these shapes, one for each input; None in place of one fits any gear."""
        for at, gear in enumerate(self.gears):
            pairs = zip(gear.shapes, shapes, strict=True)
            if all(given is None or mine == tuple(given) for mine, given in pairs):
                return at
        return None

    def find_values(self, values: Sequence[int]) -> int | None:
        """Return the gear of these values, or None when there is none."""
        wanted = tuple(values)
        return next((at for at, gear in enumerate(self.gears) if gear.values == wanted), None)

    def as_text(self) -> str:
        """Return the gears as options write them: `batch 1, 2, 4`; `hw 224,224; 448,448`."""
        mark = ", " if self.kind is GearKind.BATCH else "; "
        return f"{self.kind.word} {mark.join(gear.text for gear in self.gears)}"
