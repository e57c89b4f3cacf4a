"""Sizes of made-up inputs: where a model leaves sizes open, a few are tried until it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from gerules.cli.errors import CliError
from gerules.cli.feeds import check_dims, make_feeds
from gerules.errors import GerulesError, table
from gerules.ir import UNKNOWN_DIM, Dim, Shape, TensorType, ValueType
from gerules.runtime.kernels import Array

SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 224)
"""Tried in this order, first with one item in a batch."""

_MOST_ELEMENTS: Final = 1 << 24
"""Most elements of an input that is tried without being asked for."""

_DOES_NOT_FIT: Final = frozenset(
    {table.KERNEL_REFUSED, table.RESULT_DOES_NOT_FIT, table.SHAPES_DO_NOT_FIT, table.SHAPE_NOT_COMPILED}
)

T = TypeVar("T")

Types = Mapping[str, ValueType]
Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""For each dimension of an input the least and the largest size; -1 is no end."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Inputs with which a run went through, and what it gave.

    `sizes` says what was made up, such as `x[1, 3, 2, 2]`; empty where no size was open.
    """

    feeds: dict[str, Array]
    result: T
    sizes: str


def run_made_up(
    types: Types,
    run: Callable[[dict[str, Array]], T],
    *,
    dims: Mapping[str, int] | None = None,
    ranges: Ranges | None = None,
    seed: int = 0,
    beside: Mapping[str, Array] | None = None,
) -> Found[T]:
    """Make up inputs and run with them; open sizes are those of `SIZES` with which the run goes through.

    Args:
        types: Of the inputs to make up.
        dims: Sizes of symbolic dimensions that are not to be tried.
        ranges: Sizes that inputs may have.
        beside: Inputs that are there, and given to `run` too.

    Raises:
        CliError: E10048 when no size fits; E10003 for a dimension that no input has.
        GerulesError: what `make_feeds` raises, and `run` where no size is open or for other reasons.
    """
    check_dims(types, dims or {})
    return try_sizes(_trials(_with_dims(types, dims or {}), ranges or {}), run, seed=seed, beside=beside)


def try_sizes(
    trials: Iterator[Types],
    run: Callable[[dict[str, Array]], T],
    *,
    seed: int = 0,
    beside: Mapping[str, Array] | None = None,
) -> Found[T]:
    """Run with inputs of the first types that fit. Raises as `run_made_up`."""
    tried: list[str] = []
    last: GerulesError | None = None
    for types in trials:
        feeds = {**(beside or {}), **make_feeds(types, {}, seed)}
        sizes = ", ".join(f"{name}[{', '.join(map(str, feeds[name].shape))}]" for name in types)
        try:
            result = run(feeds)
        except GerulesError as error:
            if any(item.code not in _DOES_NOT_FIT for item in error.diagnostics):
                raise
            last = error
            tried.append(sizes)
            continue
        return Found(feeds, result, sizes)
    if last is None:
        raise AssertionError("nothing was tried")
    if len(tried) == 1:
        raise last
    first = last.diagnostics[0]
    raise CliError(
        table.NO_SIZES_FIT, place=first.place, reason=first.message,
        tried=f"{'; '.join(tried[:3])}; ...; {tried[-1]}" if len(tried) > 4 else "; ".join(tried),
    )  # fmt: skip


def are_fixed(types: Types) -> bool:
    """Whether no size is open."""
    return all(isinstance(type, TensorType) and type.is_static for type in types.values())


def dims_of(ports: Types, feeds: Mapping[str, Array], wanted: Types) -> dict[str, int]:
    """Return the sizes that arrays say of symbolic dimensions, of those alone that `wanted` has too."""
    known = {
        dim
        for type in wanted.values()
        if isinstance(type, TensorType)
        for dim in type.shape or ()
        if isinstance(dim, str) and dim != UNKNOWN_DIM
    }
    return {
        dim: size
        for name, array in feeds.items()
        if isinstance(type := ports.get(name), TensorType)
        for dim, size in zip(type.shape or (), array.shape, strict=False)
        if isinstance(dim, str) and dim in known
    }


def sizes_beside(gears: Sequence[Types], open_types: Types) -> Iterator[Types]:
    """Types of sizes for a plan of any shape, those near the gears first; some are gears themselves."""
    for factor, more in ((1, 1), (2, 0)):
        for gear in gears:
            yield {name: _changed(gear[name], type, factor, more) for name, type in open_types.items()}
    yield from _trials(open_types, {})


def _changed(gear: ValueType, type: ValueType, factor: int, more: int) -> ValueType:
    if not isinstance(gear, TensorType) or not isinstance(type, TensorType):
        return type
    pairs = zip(gear.static_shape, type.shape or (), strict=True)
    sizes = tuple(size if isinstance(dim, int) else factor * size + more for size, dim in pairs)
    return replace(type, shape=sizes)


def _with_dims(types: Types, dims: Mapping[str, int]) -> dict[str, ValueType]:
    return {
        name: replace(type, shape=tuple(dims.get(dim, dim) if isinstance(dim, str) else dim for dim in shape))
        if isinstance(type, TensorType) and (shape := type.shape) is not None
        else type
        for name, type in types.items()
    }


def _trials(types: Types, ranges: Ranges) -> Iterator[Types]:
    """The types with sizes in the place of open dimensions; once, unchanged, where there are none."""
    shapes = {
        name: type.shape
        for name, type in types.items()
        if isinstance(type, TensorType) and type.shape is not None and not type.is_static
    }
    batches = {shape[0] for shape in shapes.values() if not isinstance(shape[0], int)} - {UNKNOWN_DIM}
    seen: set[tuple[Shape, ...]] = set()
    for first, other in [*((1, size) for size in SIZES), *((size, size) for size in SIZES[1:])]:
        chosen: dict[str, int] = {}

        def size_of(
            name: str, axis: int, dim: Dim, first: int = first, other: int = other,
            chosen: dict[str, int] = chosen,
        ) -> int:  # fmt: skip
            if isinstance(dim, int):
                return dim
            wanted = first if dim in batches or axis == 0 else other
            least, most = (*ranges.get(name, ()), *[(0, -1)] * (axis + 1))[axis]
            fits = max(least, wanted if most < 0 else min(wanted, most))
            return fits if dim == UNKNOWN_DIM else chosen.setdefault(dim, fits)

        found = {
            name: tuple(size_of(name, axis, dim) for axis, dim in enumerate(shape))
            for name, shape in shapes.items()
        }
        is_large = any(_count(shape) > _MOST_ELEMENTS for shape in found.values())
        if (seen and is_large) or tuple(found.values()) in seen:
            continue
        seen.add(tuple(found.values()))
        yield {
            name: replace(type, shape=found[name]) if isinstance(type, TensorType) and name in found else type
            for name, type in types.items()
        }


def _count(shape: Sequence[int]) -> int:
    n_elements = 1
    for size in shape:
        n_elements *= size
    return n_elements
