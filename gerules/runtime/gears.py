"""Gears of an offline model that is read: which there are, and which one inputs ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gerules.backend.emit_gears import CASE, DYNAMIC, OPEN_TYPE, SHAPE_DATA, TABLE
from gerules.backend.exact import read_type
from gerules.backend.om import OmError, OmList, OmModel, OmOp, OmTask, constant_array, read_int, read_text
from gerules.errors import GerulesError, table
from gerules.ir import Graph, TensorType
from gerules.passes.gear_options import MOST, OPTIONS
from gerules.passes.gears import OPEN, Gear, GearKind, Gears, Shapes
from gerules.runtime.feeds import Item, Port
from gerules.runtime.kernels import RunError
from gerules.runtime.rebuild import PlacedGraph

_MOST_NOTES = 10
"""Gears whose shapes are told one by one."""


def read_gears(model: OmModel, placed: PlacedGraph) -> Gears | None:
    """Return the gears of a model, or None when it has none.

    Everything the file says of them is held against everything else: the table that chooses, the branches
    and their inputs, the shapes of the model's inputs.

    Raises:
        OmError: E80034 for whatever does not agree.
    """
    case = next((op for op in model.root.ops if op.name == CASE and op.type == "Case"), None)
    if case is None:
        return None
    try:
        return _read(model, case, placed)
    except GerulesError as error:
        reason = error.diagnostics[0].message
    except (ValueError, IndexError, KeyError) as fault:
        reason = str(fault) or type(fault).__name__
    raise OmError(table.OM_BAD_GEARS, reason=reason)


def _read(model: OmModel, case: OmOp, placed: PlacedGraph) -> Gears:
    kind = GearKind(read_int(case.attrs, "mbatch_dynamic_type"))
    n_gears = read_int(case.attrs, "_batch_num")
    if not 1 <= n_gears <= MOST:
        raise ValueError(f"{n_gears} gears are announced, 1 to {MOST} are possible")
    ops = {op.name: op for op in model.root.ops}
    labels = [f"Batch_{at}" for at in range(n_gears)]
    is_hybrid = DYNAMIC in placed.branches
    if list(placed.branches) != [*labels, *([DYNAMIC] if is_hybrid else ())]:
        raise ValueError(f"there are {n_gears} gears and {len(placed.branches)} branches")
    inputs = _inputs(model)
    values = [_ints(case, f"_pred_value_{at}") for at in range(n_gears)]
    if SHAPE_DATA not in ops or TABLE not in ops:
        raise ValueError("there is nothing that chooses one")
    stored = [int(item) for item in constant_array(ops[TABLE], model.weights).reshape(-1)]
    if stored != [item for row in values for item in row]:
        raise ValueError("the table that chooses one has other values than the branches")
    types = tuple(type for _, type in inputs)
    order = case.attrs.get("user_designate_shape_order")
    gears = Gears(
        kind,
        tuple(
            Gear(row, _shapes(placed.branches[label].graph, types, row, kind, label))
            for row, label in zip(values, labels, strict=True)
        ),
        tuple(name for name, _ in inputs),
        types,
        tuple(str(item) for item in order.items) if isinstance(order, OmList) else (),
        is_hybrid,
    )
    if len({gear.shapes for gear in gears.gears}) != n_gears:
        raise ValueError("two gears have the same shapes")
    return gears


def _inputs(model: OmModel) -> list[tuple[str, TensorType]]:
    """The inputs that callers give, in order, with their open types."""
    found: dict[int, tuple[str, TensorType]] = {}
    for op in model.root.ops:
        if op.type != "Data" or op.name == SHAPE_DATA:
            continue
        type = read_type(read_text(op.attrs, OPEN_TYPE))
        if not isinstance(type, TensorType) or type.shape is None:
            raise ValueError(f"the input {op.name} is no tensor of known rank")
        found[read_int(op.attrs, "index")] = op.name, type
    if sorted(found) != list(range(len(found))):
        raise ValueError("the inputs are not numbered from 0 on")
    return [found[at] for at in sorted(found)]


def _shapes(
    graph: Graph, types: Sequence[TensorType], values: Sequence[int], kind: GearKind, label: str
) -> Shapes:
    """The shapes of a branch's inputs, which must be the open ones with the gear's values in them."""
    found: list[tuple[int, ...]] = []
    chosen: list[int] = []
    if len(graph.inputs) != len(types):
        raise ValueError(f"{label} has {len(graph.inputs)} inputs, the model {len(types)}")
    for value, wanted in zip(graph.inputs, types, strict=True):
        type = graph.type_of(value)
        if not isinstance(type, TensorType) or not type.is_static or type.dtype is not wanted.dtype:
            raise ValueError(f"{label} takes {type} for {wanted}")
        shape, open_shape = type.static_shape, wanted.shape or ()
        fits = len(shape) == len(open_shape) and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(open_shape, shape, strict=True)
        )
        if not fits:
            raise ValueError(f"{label} takes {type} for {wanted}")
        sizes = tuple(size for dim, size in zip(open_shape, shape, strict=True) if not isinstance(dim, int))
        if kind is GearKind.DIMS:
            chosen += sizes
        elif sizes and sizes != tuple(values):
            raise ValueError(f"{label} takes {type}, which is not the gear {','.join(map(str, values))}")
        found.append(shape)
    if kind is GearKind.DIMS and sorted(chosen) != sorted(values):
        raise ValueError(f"{label} has other sizes than its gear {','.join(map(str, values))}")
    return tuple(found)


def split_tasks(
    tasks: Sequence[OmTask], branches: Sequence[PlacedGraph]
) -> Sequence[Sequence[OmTask] | None]:
    """Return the tasks of each branch, by the operators they belong to; what belongs to none goes first.

    None for all when there are no tasks.
    """
    if not tasks:
        return [None] * len(branches)
    owner = {op.id: at for at, branch in enumerate(branches) for op in branch.ops.values()}
    found: list[list[OmTask]] = [[] for _ in branches]
    for task in tasks:
        found[owner.get(-1 if task.op_id is None else task.op_id, 0)].append(task)
    return found


# ---------------------------------------------------------------- choosing
def no_gear(gears: Gears, shapes: Sequence[Sequence[int] | None]) -> RunError:
    """Return the error for inputs of shapes that are no gear's: E20008, with all that are."""
    option = OPTIONS[gears.kind].replace("_", "-")
    given = {
        name: tuple(shape)
        for name, shape, wanted in zip(gears.names, shapes, gears.open_shapes, strict=True)
        if shape is not None and OPEN in wanted
    }
    notes = [f"gear {gear.text}: {_named(gears, gear)}" for gear in gears.gears[:_MOST_NOTES]]
    if len(gears.gears) > _MOST_NOTES:
        notes.append(f"and {len(gears.gears) - _MOST_NOTES} more")
    return RunError(
        table.SHAPE_NOT_COMPILED, found=_shapes_text(given), compiled=f"the gears {gears.as_text()}",
        notes=notes,
        remedy=f"pad the inputs to a gear, or compile with one more in --{option}, or with "
        "--compile-hybrid-mode 1 for a plan of any shape",
    )  # fmt: skip


def one_shape(given: Mapping[str, Sequence[int]], compiled: Mapping[str, Sequence[int]]) -> RunError:
    """Return the error for a model of one shape that is given another: E20008, with how to compile gears."""
    opened = ";".join(f"{name}:{_opened(given[name], shape)}" for name, shape in compiled.items())
    is_batch = all(list(given[name][1:]) == list(shape[1:]) for name, shape in compiled.items())
    sizes = sorted({given[name][0] for name in compiled} | {shape[0] for shape in compiled.values()})
    option = f"--dynamic-batch-size {','.join(map(str, sizes))}" if is_batch else "--dynamic-dims"
    return RunError(
        table.SHAPE_NOT_COMPILED, found=_shapes_text(given), compiled=f"one shape, {_shapes_text(compiled)}",
        remedy=f"give that shape; for more shapes compile gears: --input-shape \"{opened}\" {option}, "
        "or leave the dimension open to run any size",
    )  # fmt: skip


def check_ranges(
    ranges: Mapping[str, Sequence[tuple[int, int]]], ports: Sequence[Port], given: Sequence[Item]
) -> None:
    """Refuse inputs whose sizes are outside of the ranges that a model was compiled for.

    Raises:
        RunError: E20008 with all of them.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for port, item in zip(ports, given, strict=True):
        known = ranges.get(port.name)
        if known is None or not isinstance(item, np.ndarray) or len(known) != item.ndim:
            continue
        if any(size < low or size > high >= 0 for size, (low, high) in zip(item.shape, known, strict=True)):
            shapes[port.name] = item.shape
    if not shapes:
        return
    compiled = ", ".join(f"{name}[{', '.join(map(_range_text, ranges[name]))}]" for name in shapes)
    wider = ";".join(
        f"{name}:{','.join(map(_range_text, _widened(ranges[name], shape)))}"
        for name, shape in shapes.items()
    )
    raise RunError(
        table.SHAPE_NOT_COMPILED, found=_shapes_text(shapes), compiled=f"the range {compiled}",
        remedy=f'give sizes inside of it, or set the range: --input-shape "{wider}"',
    )  # fmt: skip


def _widened(ranges: Sequence[tuple[int, int]], shape: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges with the sizes of a shape in them."""
    return [
        (min(low, size), high if high < 0 else max(high, size))
        for (low, high), size in zip(ranges, shape, strict=True)
    ]


def _range_text(ends: tuple[int, int]) -> str:
    low, high = ends
    if high < 0:
        return f"{low}~-1" if low else "-1"
    return str(low) if low == high else f"{low}~{high}"


def _opened(given: Sequence[int], compiled: Sequence[int]) -> str:
    """A compiled shape with -1 where another size was given."""
    pairs = zip(given, compiled, strict=True)
    return ",".join(str(wanted) if size == wanted else "-1" for size, wanted in pairs)


def _ints(op: OmOp, name: str) -> tuple[int, ...]:
    value = op.attrs.get(name)
    items = value.items if isinstance(value, OmList) else ()
    found = tuple(item for item in items if type(item) is int)
    if not found or len(found) != len(items):
        raise ValueError(f"{name} is no list of sizes")
    return found


def _named(gears: Gears, gear: Gear) -> str:
    return _shapes_text(
        {
            name: shape
            for name, shape, wanted in zip(gears.names, gear.shapes, gears.open_shapes, strict=True)
            if OPEN in wanted
        }
    )


def _shapes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{name}[{', '.join(map(str, shape))}]" for name, shape in shapes.items())
