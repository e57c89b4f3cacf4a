"""Gears of a tensor's sizes: the values that its dimensions may have, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gerules.errors import table
from gerules.pipeline import PipelineError

MARK: Final = "_dim_gears"
"""Attribute of a tensor that has gears: sizes by dimension."""

Gears = dict[int, dict[int, tuple[int, ...]]]
"""Sizes by dimension by number of the argument."""


def gears_of(args: Sequence[Any]) -> Gears:
    """Return the gears that arguments are marked with."""
    found: Gears = {}
    for at, arg in enumerate(args):
        marked: Mapping[int, Sequence[int]] | None = getattr(arg, MARK, None)
        if marked:
            found[at] = {dim: tuple(sizes) for dim, sizes in marked.items()}
    return found


def check_gears(gears: Gears, args: Sequence[Any], *, is_zipped: bool, names: Sequence[str] = ()) -> None:
    """Raise when arguments have sizes that are no gear.

    Args:
        is_zipped: Whether the first sizes of all dimensions are one gear, the second ones another, and so
            on; otherwise every combination is one.
        names: What the user calls each argument; numbers without.

    Raises:
        PipelineError: E10094 with the size and the gears.
    """
    places: list[tuple[int, tuple[int, ...]]] = []
    for at, dims in gears.items():
        for dim, sizes in dims.items():
            size = int(args[at].shape[dim])
            if size not in sizes:
                name = names[at] if at < len(names) else at
                raise PipelineError(
                    table.UNDECLARED_GEAR, dim=dim, argument=name, size=size, gears=list(sizes)
                )
            places.append((size, sizes))
    if not is_zipped or not places:
        return
    n_gears = min(len(sizes) for _, sizes in places)
    if not any(all(sizes[step] == size for size, sizes in places) for step in range(n_gears)):
        together = [list(gear) for gear in zip(*(sizes for _, sizes in places), strict=False)]
        raise PipelineError(
            table.UNDECLARED_GEAR,
            dim="all",
            argument="all",
            size=[size for size, _ in places],
            gears=together,
        )
