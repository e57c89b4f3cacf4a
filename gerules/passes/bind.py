"""Binding: sizes given from outside for the inputs and the symbolic dimensions of a graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Final, SupportsIndex

from gerules.dsl.book import suggest
from gerules.errors import Faults, table
from gerules.ir import UNKNOWN_DIM, Body, Dim, Graph, Shape, TensorType, Value, ValueType
from gerules.ops.dims import LARGEST_DIM, add_dims, mul_dims
from gerules.passes.errors import PassError

_TERM: Final = re.compile(r"\s*([+-]?)\s*([^+-]+)")
_NO_SIZE: Final = ("-1", "?")
"""How a text leaves a dimension as it is."""

_RANGE: Final = re.compile(r"\s*([0-9]{1,18})\s*~\s*([0-9]{1,18}|-1)\s*", re.ASCII)
"""A dimension that stays open between two sizes; -1 is no upper end. Source: ATC's `--input_shape`."""

Ranges = tuple[tuple[int, int] | None, ...]
"""For each dimension of an input the least and the largest size (-1: no end); None where none is given."""


def parse_shapes(text: str) -> dict[str, Shape]:
    """Read `data=1,3,224,224;mask=1,128`; `data:1,3,224,224` is understood too.

    A size of -1 or `?` leaves the dimension as the model has it, and so does a range such as `1~16`, which
    stays as it is written; an empty shape is a scalar's.

    Raises:
        PassError: E10040 for each part that is no shape, E10044 for sizes out of range, all together.
    """
    faults = Faults()
    found: dict[str, Shape] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        # Names of inputs may hold `:`, as in `input:0`; the last mark before the sizes counts.
        mark = max(part.rfind("="), part.rfind(":"))
        name, sizes = part[:mark].strip(), part[mark + 1 :].strip()
        if mark < 0 or not name:
            faults.add(table.BAD_SHAPE_TEXT, text=part, reason="there is no `name=`")
            continue
        if name in found:
            faults.add(table.BAD_SHAPE_TEXT, text=part, reason=f"{name} is given twice")
        dims: list[Dim] = []
        for size in (size.strip() for size in sizes.strip("[]").split(",")) if sizes else ():
            if size in _NO_SIZE:
                dims.append(UNKNOWN_DIM)
            elif re.fullmatch(r"[0-9]{1,18}", size):
                dims.append(int(size))
            elif (ends := _RANGE.fullmatch(size)) is not None and _is_range(int(ends[1]), int(ends[2])):
                dims.append(f"{int(ends[1])}~{int(ends[2])}")
            elif ends is not None and int(ends[1]) > int(ends[2]) > 0:
                reason = f"the ends of {size} are swapped: write {int(ends[2])}~{int(ends[1])}"
                faults.add(table.BAD_SHAPE_TEXT, text=part, reason=reason)
            else:
                faults.add(table.BAD_SHAPE_TEXT, text=part, reason=f"{size or 'nothing'} is no size")
        found[name] = tuple(dims)
    for name, shape in found.items():
        _check_sizes(name, shape, faults)
    faults.raise_if_any(PassError)
    return found


def ranges_of(shapes: Mapping[str, Sequence[Dim]] | None) -> dict[str, Ranges]:
    """Return the ranges that shapes give, by input; inputs without any are not there.

    >>> ranges_of({"x": ("1~16", 3, "2~-1"), "y": (4,)})
    {'x': ((1, 16), None, (2, -1))}
    """
    found = {name: tuple(map(_range, shape)) for name, shape in (shapes or {}).items()}
    return {name: ranges for name, ranges in found.items() if any(ranges)}


def _range(size: object) -> tuple[int, int] | None:
    ends = _RANGE.fullmatch(size) if isinstance(size, str) else None
    return None if ends is None else (int(ends[1]), int(ends[2]))


def _is_range(low: int, high: int) -> bool:
    return 0 < low <= LARGEST_DIM and (high == -1 or low <= high <= LARGEST_DIM)


def bind_shapes(
    graph: Graph,
    shapes: Mapping[str, Sequence[Dim]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Graph:
    """Fix the shapes of graph inputs, and with them every dimension of the same name.

    Args:
        graph: Any graph; it is not changed.
        shapes: Shape by input name; `?` and a range leave a dimension as it is.
        dims: Size by the name of a symbolic dimension.

    Returns:
        The graph with the sizes in the types of all values, bodies included. Types of other values
        become more precise only by inferring again.

    Raises:
        PassError: E10041 unknown input, E10042 rank, E10043 a fixed dimension, E10044 a size out of
            range, E10045 one name with two sizes, E10046 an unknown dimension, all faults together.
    """
    faults = Faults()
    by_name = {graph.values[value].name: value for value in graph.inputs}
    types: dict[int, ValueType] = {}
    sizes: dict[str, int] = {}
    known = {
        name
        for value in graph.inputs
        if isinstance(type := graph.type_of(value), TensorType)
        for dim in type.shape or ()
        for name in _names(dim)
    }
    for name, size in (dims or {}).items():
        if name not in known:
            text = ", ".join(sorted(known)) or "none"
            faults.add(table.UNKNOWN_DIM_NAME, dim=name, known=text, notes=suggest(name, known))
        read = _read_sizes(name, (size,), faults)
        if read is not None and isinstance(read[0], int):
            sizes[name] = read[0]
    for name, shape in (shapes or {}).items():
        value = by_name.get(name)
        if value is None:
            text = ", ".join(by_name) or "none"
            faults.add(table.UNKNOWN_INPUT, input=name, known=text, notes=suggest(name, by_name))
            continue
        read = _read_sizes(name, shape, faults)
        type = graph.type_of(value)
        if isinstance(type, TensorType) and read is not None:
            types[value] = _bound(name, type, read, sizes, faults)
    faults.raise_if_any(PassError)
    return _with_sizes(graph, sizes, types, faults)


def _bound(
    name: str, type: TensorType, shape: Sequence[Dim], sizes: dict[str, int], faults: Faults
) -> TensorType:
    """Return the type with the shape given, and note what it says of names."""
    declared: Sequence[Dim] = (UNKNOWN_DIM,) * len(shape) if type.shape is None else type.shape
    if len(declared) != len(shape):
        faults.add(table.SHAPE_RANK_DIFFERS, input=name, n_declared=len(declared), n_given=len(shape))
        return type
    out: list[Dim] = []
    for axis, (old, new) in enumerate(zip(declared, shape, strict=True)):
        out.append(old if new == UNKNOWN_DIM else new)
        if isinstance(old, int) and isinstance(new, str) and new != UNKNOWN_DIM:
            faults.add(table.SHAPE_CONTRADICTS, input=name, axis=axis, declared=old, given=new)
        if not isinstance(new, int) or old == UNKNOWN_DIM:
            continue
        if isinstance(old, int):
            if old != new:
                faults.add(table.SHAPE_CONTRADICTS, input=name, axis=axis, declared=old, given=new)
        elif sizes.setdefault(old, new) != new:
            faults.add(table.DIM_BOUND_TWICE, dim=old, first=sizes[old], second=new)
    return replace(type, shape=tuple(out))


def _read_sizes(name: str, shape: Sequence[object], faults: Faults) -> Shape | None:
    """Return sizes as dims, from whole numbers of any kind; None and -1 leave a dimension as it is."""
    found: list[Dim] = []
    for size in shape:
        if isinstance(size, str):
            ends = _range(size)
            if ends is not None and not _is_range(*ends):
                faults.add(table.DIM_OUT_OF_RANGE_GIVEN, name=name, given=size)
                return None
            found.append(UNKNOWN_DIM if ends is not None else size or UNKNOWN_DIM)
        elif size is None or size == -1:
            found.append(UNKNOWN_DIM)
        elif isinstance(size, SupportsIndex) and not isinstance(size, bool):
            found.append(index(size))
        else:
            faults.add(table.DIM_OUT_OF_RANGE_GIVEN, name=name, given=repr(size))
            return None
    _check_sizes(name, found, faults)
    return tuple(found)


def _check_sizes(name: str, shape: Sequence[Dim], faults: Faults) -> None:
    for size in shape:
        if isinstance(size, int) and not 0 < size <= LARGEST_DIM:
            faults.add(table.DIM_OUT_OF_RANGE_GIVEN, name=name, given=size)


def _with_sizes(
    graph: Graph, sizes: Mapping[str, int], types: Mapping[int, ValueType], faults: Faults
) -> Graph:
    if not sizes and not types:
        return graph
    values = {
        id: Value(id, value.name, _substituted(types.get(id, value.type), sizes))
        for id, value in graph.values.items()
    }
    nodes = {
        id: replace(
            node,
            bodies={
                name: Body(_with_sizes(body.graph, sizes, {}, faults), body.captures)
                for name, body in node.bodies.items()
            },
        )
        if node.bodies
        else node
        for id, node in graph.nodes.items()
    }
    return replace(graph, values=values, nodes=nodes)


def _substituted(type: ValueType, sizes: Mapping[str, int]) -> ValueType:
    if not isinstance(type, TensorType) or type.shape is None or type.is_static:
        return type
    return replace(type, shape=tuple(_size(dim, sizes) for dim in type.shape))


def _size(dim: Dim, sizes: Mapping[str, int]) -> Dim:
    """Return a dim with the sizes in it; `2*N + 1` is a sum of products of names."""
    if isinstance(dim, int) or dim == UNKNOWN_DIM:
        return dim
    if dim in sizes:
        return sizes[dim]
    if not any(name in sizes for name in _names(dim)):
        return dim
    total: Dim = 0
    for sign, product in _TERM.findall(dim):
        term: Dim = -1 if sign == "-" else 1
        for factor in product.split("*"):
            name = factor.strip()
            term = mul_dims(term, int(name) if name.isdigit() else sizes.get(name, name))
        total = add_dims(total, term)
    return total


def _names(dim: Dim) -> set[str]:
    if isinstance(dim, int) or dim == UNKNOWN_DIM:
        return set()
    parts = {part.strip() for part in re.split(r"[*+-]", dim)}
    return {dim} | {part for part in parts if part and not part.isdigit()}
