"""Gears from options, written as ATC's: `dynamic_batch_size`, `dynamic_image_size`, `dynamic_dims`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gerules.errors import Faults, table
from gerules.errors.counts import count_text
from gerules.ir import UNKNOWN_DIM, Dim, DType, Graph, TensorType
from gerules.passes.bind import bind_shapes, ranges_of
from gerules.passes.errors import PassError
from gerules.passes.gears import OPEN, Gear, GearKind, Gears, Shapes

FEWEST: Final = 2
MOST: Final = 100
"""How many gears a model may have. Source: the Graph Engine's E10035 and E10036."""

LARGEST: Final = 2**31 - 1
"""The largest size: the table of gears in a file has 32 bits for each."""

OPTIONS: Final[Mapping[GearKind, str]] = {
    GearKind.BATCH: "dynamic_batch_size",
    GearKind.IMAGE: "dynamic_image_size",
    GearKind.DIMS: "dynamic_dims",
}
"""The option of each kind."""

_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)
_IMAGE_RANK: Final = 4
_IMAGE_AXES: Final = ((2, 3), (1, 2))
"""Where height and width are: NCHW, NHWC."""


@dataclass(frozen=True, slots=True)
class GearOptions:
    """The options as texts; None where one is not given."""

    batch: str | None = None
    image: str | None = None
    dims: str | None = None
    is_hybrid: bool = False

    def given(self) -> dict[GearKind, str]:
        """Return the texts by kind."""
        texts = {GearKind.BATCH: self.batch, GearKind.IMAGE: self.image, GearKind.DIMS: self.dims}
        return {kind: text for kind, text in texts.items() if text is not None}


def read_gears(
    graph: Graph,
    options: GearOptions,
    shapes: Mapping[str, Sequence[Dim]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Gears | None:
    """Return the gears that options ask for, or None when they ask for none.

    Args:
        shapes: Shape by input name; -1 or `?` is a size that gears fix. What they leave out is as the model
            has it, its symbolic dimensions open.
        dims: Size by name of a symbolic dimension.

    Raises:
        PassError: every fault of all options: E10035 to E10039 and E10070 to E10077 for the gears, E10041 to
            E10046 for shapes, E10003 for a hybrid compile without gears.
    """
    faults = Faults()
    given = options.given()
    if not given:
        if options.is_hybrid:
            faults.add(
                table.BAD_OPTION, option="compile_hybrid_mode", value=1, reason="there are no gears",
                remedy="give dynamic_batch_size, dynamic_image_size or dynamic_dims with it",
            )  # fmt: skip
        faults.raise_if_any(PassError)
        return None
    if len(given) > 1:
        options_text = " and ".join(OPTIONS[kind] for kind in given)
        remedy = "give one of them; dynamic_dims can say what the others say"
        faults.add(table.GEARS_EXCLUDE, options=options_text, remedy=remedy)
    for name in ranges_of(shapes):
        options_text = (
            f"{' and '.join(OPTIONS[kind] for kind in given)} and the range of {name} in input_shape"
        )
        remedy = f"write -1 for the dimensions of {name} that gears fix, or give the range without gears"
        faults.add(table.GEARS_EXCLUDE, options=options_text, remedy=remedy)
    rows = {kind: _read_rows(kind, text, faults) for kind, text in given.items()}
    found = _open_inputs(graph, shapes, dims, faults)
    for kind in given:
        _check_axes(kind, found, dims or {}, faults)
    if len(given) == 1 and len(faults) == 0:
        ((kind, values),) = rows.items()
        gears = _build(kind, values, found, options.is_hybrid, faults)
        faults.raise_if_any(PassError)
        return gears
    for kind, values in rows.items():
        if kind is GearKind.DIMS and values:
            _check_counts(values, found, faults)
    faults.raise_if_any(PassError)
    raise AssertionError("several kinds of gears are a fault")


def gear_text(rows: str | Sequence[int | Sequence[int]] | None) -> str | None:
    """Return gears given as numbers in the form of the options: `[1, 8]` is `1,8`, `[(1, 8)]` is `1,8`.

    >>> gear_text([1, 2, 4]), gear_text([(224, 224), (448, 448)])
    ('1,2,4', '224,224;448,448')
    """
    if rows is None or isinstance(rows, str):
        return rows
    texts = [",".join(map(str, row)) if isinstance(row, Sequence) else str(row) for row in rows]
    return (";" if any(isinstance(row, Sequence) for row in rows) else ",").join(texts)


# ---------------------------------------------------------------- the texts
def _read_rows(kind: GearKind, text: str, faults: Faults) -> list[tuple[int, ...]]:
    """Return the values of each gear; faults are E10035 to E10039 and E10073."""
    option = OPTIONS[kind]
    parts = text.split("," if kind is GearKind.BATCH else ";")
    if kind is not GearKind.BATCH and parts and not parts[-1].strip() and len(parts) > 1:
        parts.pop()  # a mark at the end is no gear
    before = len(faults)
    if len(parts) > MOST:
        faults.add(table.TOO_MANY_GEARS, option=option, found=len(parts), most=MOST)
        return []
    rows: list[tuple[int, ...]] = []
    for part in parts:
        sizes = [part] if kind is GearKind.BATCH else part.split(",")
        if not all(_NUMBER.fullmatch(size) for size in sizes):
            reason = f"{part.strip() or 'nothing'} is no {_FORM[kind]}"
            faults.add(table.BAD_GEAR_TEXT, option=option, text=text, reason=reason, example=_EXAMPLE[kind])
            continue
        row = tuple(int(size) for size in sizes)
        for size in row:
            if not 0 < size <= LARGEST:
                faults.add(table.GEAR_NOT_POSITIVE, option=option, size=size, gear=part.strip())
        rows.append(row)
    if len(rows) == len(parts) and len(rows) < FEWEST:
        faults.add(table.TOO_FEW_GEARS, option=option, found=len(rows), fewest=FEWEST)
    wanted = 2 if kind is GearKind.IMAGE else len(rows[0]) if rows else 0
    for row in rows:
        if len(row) != wanted:
            faults.add(
                table.GEAR_RANKS_DIFFER, option=option, gear=",".join(map(str, row)),
                found=count_text(len(row), "size"), wanted=count_text(wanted, "size"),
            )  # fmt: skip
    seen: set[tuple[int, ...]] = set()
    for row in dict.fromkeys(row for row in rows if row in seen or seen.add(row)):
        faults.add(table.GEARS_REPEAT, option=option, gear=",".join(map(str, row)))
    return rows if len(faults) == before else []


_FORM: Final = {
    GearKind.BATCH: "size", GearKind.IMAGE: "height and width", GearKind.DIMS: "list of sizes"
}  # fmt: skip
_EXAMPLE: Final = {GearKind.BATCH: "1,2,4,8", GearKind.IMAGE: "224,224;448,448", GearKind.DIMS: "1,128;8,64"}


# ---------------------------------------------------------------- the inputs
@dataclass(frozen=True, slots=True)
class _Input:
    """An input with its sizes as given: `OPEN` where gears decide."""

    name: str
    type: TensorType
    sizes: tuple[int, ...]

    @property
    def axes(self) -> list[int]:
        return [axis for axis, size in enumerate(self.sizes) if size == OPEN]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """All inputs in the model's order, and those with open dimensions in the order of the user."""

    all: list[_Input]
    open: list[_Input]


def _open_inputs(
    graph: Graph,
    shapes: Mapping[str, Sequence[Dim]] | None,
    dims: Mapping[str, int] | None,
    faults: Faults,
) -> _Inputs:
    try:
        bound = bind_shapes(graph, shapes, dims)
    except PassError as error:
        faults.extend(error.diagnostics)
        bound = graph
    found: list[_Input] = []
    for value in bound.inputs:
        name, type = bound.values[value].name, bound.type_of(value)
        given = (shapes or {}).get(name)
        if not isinstance(type, TensorType) or type.shape is None or type.dtype is DType.UNKNOWN:
            faults.add(table.INPUT_WITHOUT_GEARS, input=name, found=type)
            continue
        for axis, (size, declared) in enumerate(zip(given or (), type.shape, strict=False)):
            if size in (OPEN, None, UNKNOWN_DIM) and isinstance(declared, int):
                faults.add(
                    table.SHAPE_CONTRADICTS, input=name, axis=axis, declared=declared, given=OPEN,
                    notes=["gears fix what the model leaves open: export it with this dimension dynamic"],
                )  # fmt: skip
        sizes = tuple(dim if isinstance(dim, int) else OPEN for dim in type.shape)
        found.append(_Input(name, type, sizes))
    rank = {name: at for at, name in enumerate(shapes or {})}
    # Python's sort keeps the model's order among those that are not named.
    users = sorted(found, key=lambda item: rank.get(item.name, len(rank)))
    return _Inputs(found, [item for item in users if item.axes])


def _check_axes(kind: GearKind, inputs: _Inputs, dims: Mapping[str, int], faults: Faults) -> None:
    """Faults are E10071, E10072, E10074 and E10075."""
    option = OPTIONS[kind]
    if not inputs.open:
        code = table.NO_OPEN_BATCH if kind is GearKind.BATCH else table.NOTHING_TO_GEAR
        fixed = ", ".join(f"--dim {name}={size}" for name, size in dims.items())
        notes = [f"{fixed} fixes what the gears would: leave it out"] if fixed else []
        faults.add(code, option=option, notes=notes)
    for item in inputs.open:
        text = f"{item.name}:{','.join(map(str, item.sizes))}"
        if kind is GearKind.BATCH and item.axes != [0]:
            faults.add(table.ONLY_BATCH_OPEN, shape=text)
        is_image = len(item.sizes) == _IMAGE_RANK and tuple(item.axes) in _IMAGE_AXES
        if kind is GearKind.IMAGE and not is_image:
            faults.add(table.ONLY_IMAGE_OPEN, shape=text)


def _check_counts(rows: Sequence[tuple[int, ...]], inputs: _Inputs, faults: Faults) -> None:
    n_open = sum(len(item.axes) for item in inputs.open)
    if rows and n_open and len(rows[0]) != n_open:
        shapes = ";".join(f"{item.name}:{','.join(map(str, item.sizes))}" for item in inputs.open)
        faults.add(table.GEAR_COUNT_DIFFERS, n_open=n_open, shapes=shapes, found=len(rows[0]))


def _build(
    kind: GearKind, rows: Sequence[tuple[int, ...]], inputs: _Inputs, is_hybrid: bool, faults: Faults
) -> Gears:
    if kind is GearKind.DIMS:
        _check_counts(rows, inputs, faults)
    gears: list[Gear] = []
    for row in rows if len(faults) == 0 else ():
        sizes: dict[tuple[str, int], int] = {}
        values = iter(row)
        for item in inputs.open:
            for place, axis in enumerate(item.axes):
                sizes[item.name, axis] = row[place] if kind is not GearKind.DIMS else next(values)
        _check_names(inputs, sizes, row, faults)
        gears.append(Gear(row, _shapes_of(inputs, sizes)))
    return Gears(
        kind,
        tuple(gears),
        tuple(item.name for item in inputs.all),
        tuple(item.type for item in inputs.all),
        tuple(item.name for item in inputs.open),
        is_hybrid,
    )


def _shapes_of(inputs: _Inputs, sizes: Mapping[tuple[str, int], int]) -> Shapes:
    return tuple(
        tuple(sizes.get((item.name, axis), size) for axis, size in enumerate(item.sizes))
        for item in inputs.all
    )


def _check_names(
    inputs: _Inputs, sizes: Mapping[tuple[str, int], int], row: tuple[int, ...], faults: Faults
) -> None:
    """Dimensions of one name have one size in a gear."""
    known: dict[str, int] = {}
    for item in inputs.open:
        for axis in item.axes:
            name, size = str((item.type.shape or ())[axis]), sizes[item.name, axis]
            if name != UNKNOWN_DIM and known.setdefault(name, size) != size:
                gear = ",".join(map(str, row))
                faults.add(table.DIM_BOUND_TWICE, place=gear, dim=name, first=known[name], second=size)
