"""Types of what moves elements without changing them: reshapes, transposes, joins and splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.ir import UNKNOWN_DIM, Dim, Shape, TensorType, ValueType
from gerules.ops.call import HIGHEST_RANK, Call, Rule, Vector, axes_in, bad_attr, misfit, unknown_shape
from gerules.ops.dims import add_dims, broadcast_shapes, mul_dims, product, quotient


def _transpose(call: Call) -> list[ValueType]:
    shape, perm = call.shape(0), call.ints_attr("perm")
    if shape is None:
        return [TensorType(call.dtypes[0], None if perm is None else unknown_shape(len(perm)))]
    if perm is None:
        return [TensorType(call.dtypes[0], shape[::-1])]
    if sorted(perm) != list(range(len(shape))):
        raise bad_attr("perm", f"is {list(perm)}, no permutation of {len(shape)} axes")
    return [TensorType(call.dtypes[0], tuple(shape[axis] for axis in perm))]


def _reshape(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    target: Vector | None = call.ints_attr("shape") if call.opset < 5 else call.vector(1)
    if target is None:
        listed = call.shape(1)
        is_counted = listed is not None and len(listed) == 1 and isinstance(listed[0], int)
        return [TensorType(call.dtypes[0], ("?",) * _small(listed) if is_counted else None)]
    keeps_zero = bool(call.int_attr("allowzero", 0)) and call.opset >= 14
    return [TensorType(call.dtypes[0], reshaped(shape, target, keeps_zero=keeps_zero))]


def _small(listed: Shape | None) -> int:
    size = listed[0] if listed else 0
    if isinstance(size, int) and 0 <= size <= HIGHEST_RANK:
        return size
    raise misfit(f"{size} dims are more than a tensor has")


def reshaped(shape: Shape | None, target: Vector, *, keeps_zero: bool = False) -> Shape:
    """Return the shape after Reshape to `target`: 0 copies a dim (unless `keeps_zero`), -1 takes the rest.

    Raises Misfit (E30002) when the numbers of elements differ, or `target` has two -1.
    """
    if any(isinstance(dim, int) and dim < -1 for dim in target) or target.count(-1) > 1:
        raise misfit(f"{_text(target)} is no shape to reshape to")
    out: list[Dim] = []
    left: list[Dim] = list(shape or ())
    kept: list[Dim] = []
    for place, dim in enumerate(target):
        if dim != 0 or keeps_zero:
            out.append(dim)
            kept.append(dim)
            continue
        if shape is not None and place >= len(shape):
            raise misfit(f"{_text(target)} copies dim {place} of rank {len(shape)}")
        # A copied dim stands on both sides, and cancels even when unknown.
        out.append(shape[place] if shape is not None else UNKNOWN_DIM)
        if shape is not None:
            left.remove(shape[place])
    if shape is None:
        return tuple(UNKNOWN_DIM if dim == -1 else dim for dim in out)
    unknown = [place for place, dim in enumerate(out) if dim == -1]
    if not unknown and out.count(UNKNOWN_DIM) == 1 and kept.count(UNKNOWN_DIM) == 1:
        unknown = [out.index(UNKNOWN_DIM)]
    if not unknown:
        if 0 not in shape or 0 not in out:
            _check_count(left, kept, shape, target)
        return tuple(out)
    sought = out[unknown[0]]
    rest = [dim for dim in kept if dim != sought]
    if 0 in rest and sought == -1:
        raise misfit(f"{_text(target)} has both 0 and -1")
    size = quotient(left, rest)
    if size is None:
        raise misfit(f"{_text(shape)} has no shape {_text(target)}")
    out[unknown[0]] = size
    return tuple(out)


def _check_count(left: Sequence[Dim], kept: Sequence[Dim], shape: Shape, target: Vector) -> None:
    before, after = product(left), product(kept)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        raise misfit(f"{_text(shape)} has {before} elements, {_text(target)} has {after}")


def _text(dims: Sequence[Dim]) -> str:
    return "[" + ", ".join(map(str, dims)) + "]"


def _flatten(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    if shape is None:
        return [TensorType(call.dtypes[0], unknown_shape(2))]
    axis = call.int_attr("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise bad_attr("axis", f"is {axis}, but the rank is {len(shape)}")
    axis += len(shape) if axis < 0 else 0
    return [TensorType(call.dtypes[0], (product(shape[:axis]), product(shape[axis:])))]


def given_axes(call: Call, index: int) -> tuple[int, ...] | None:
    """Return axes from the input, or from the attribute of older opsets; None when not known."""
    return call.ints(index) if call.has(index) else call.ints_attr("axes")


def _squeeze(call: Call) -> list[ValueType]:
    shape, axes = call.shape(0), given_axes(call, 1)
    if shape is None:
        return [TensorType(call.dtypes[0])]
    if axes is None:
        if call.has(1) or any(not isinstance(dim, int) for dim in shape):
            return [TensorType(call.dtypes[0])]
        return [TensorType(call.dtypes[0], tuple(dim for dim in shape if dim != 1))]
    gone = set(axes_in(axes, len(shape)))
    for axis in gone:
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise misfit(f"axis {axis} has {shape[axis]} entries, only 1 can be squeezed")
    return [TensorType(call.dtypes[0], tuple(dim for place, dim in enumerate(shape) if place not in gone))]


def _unsqueeze(call: Call) -> list[ValueType]:
    shape, axes = call.shape(0), given_axes(call, 1)
    if axes is None and not call.has(1):
        raise bad_attr("axes", "is missing")
    if shape is None or axes is None:
        return [TensorType(call.dtypes[0])]
    places = set(axes_in(axes, len(shape) + len(axes)))
    rest = iter(shape)
    n = len(shape) + len(axes)
    return [TensorType(call.dtypes[0], tuple(1 if place in places else next(rest) for place in range(n)))]


def _concat(call: Call) -> list[ValueType]:
    shapes = [call.shape(index) for index in range(len(call.inputs))]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return [TensorType(call.dtypes[0])]
    rank = len(known[0])
    if any(len(shape) != rank for shape in known):
        raise misfit("the ranks differ")
    if call.opset >= 4 and "axis" not in call.attrs:
        raise bad_attr("axis", "is missing")
    axis = call.axis_attr("axis", 1, rank)
    out = list(known[0])
    for shape in known[1:]:
        for place, dim in enumerate(shape):
            if place == axis:
                out[axis] = add_dims(out[axis], dim)
            elif out[place] != dim:
                out[place] = _agreed(out[place], dim, place)
    if len(known) != len(shapes):
        out[axis] = UNKNOWN_DIM
    return [TensorType(call.dtypes[0], tuple(out))]


def _agreed(known: Dim, dim: Dim, place: int) -> Dim:
    if isinstance(known, int):
        if isinstance(dim, int):
            raise misfit(f"axis {place} has {known} and {dim} entries")
        return known
    return dim if isinstance(dim, int) or known == UNKNOWN_DIM else known


def _split(call: Call) -> list[ValueType]:
    n, shape, dtype = call.n_outputs, call.shape(0), call.dtypes[0]
    if shape is None:
        return [TensorType(dtype)] * n
    axis = call.axis_attr("axis", 0, len(shape))
    if call.opset >= 18 and call.has(1) == ("num_outputs" in call.attrs):
        given = "both are given" if call.has(1) else "neither is given"
        raise misfit(f"Split takes either the sizes of its parts or num_outputs, {given}")
    sizes: Sequence[Dim] | None = call.ints_attr("split")
    if call.has(1):
        sizes = call.vector(1)
        if sizes is None:
            sizes = ("?",) * n
    if sizes is None:
        sizes = _even_parts(call, shape[axis], n)
    _check_parts(sizes, shape[axis], n)
    return [TensorType(dtype, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]


def _even_parts(call: Call, dim: Dim, n: int) -> Sequence[Dim]:
    if "num_outputs" in call.attrs and call.int_attr("num_outputs", n) != n:
        raise bad_attr("num_outputs", f"is {call.int_attr('num_outputs', n)}, the node has {n} outputs")
    if not isinstance(dim, int):
        # Parts that may be uneven are only known when the name divides.
        size = quotient((dim,), (n,)) if call.opset < 18 else UNKNOWN_DIM
        return (UNKNOWN_DIM if size is None else size,) * n
    if call.opset < 18:
        if n and dim % n:
            raise misfit(f"{dim} entries do not divide into {n} parts")
        return (dim // max(n, 1),) * n
    part = -(-dim // max(n, 1))
    return [min(part, max(dim - part * place, 0)) for place in range(n)]


def _check_parts(sizes: Sequence[Dim], dim: Dim, n: int) -> None:
    if len(sizes) != n:
        raise misfit(f"{len(sizes)} parts are asked for, the node has {n} outputs")
    numbers = [size for size in sizes if isinstance(size, int)]
    if any(size < 0 for size in numbers):
        raise misfit("a part has a negative size")
    if isinstance(dim, int) and (sum(numbers) > dim or (len(numbers) == n and sum(numbers) != dim)):
        raise misfit(f"the parts have {sum(numbers)} entries together, the axis {dim}")


def _expand(call: Call) -> list[ValueType]:
    shape, target = call.shape(0), call.vector(1)
    if target is None:
        listed = call.shape(1)
        if listed is not None and len(listed) == 1 and isinstance(listed[0], int):
            target = unknown_shape(_small(listed))
    if shape is None or target is None:
        return [TensorType(call.dtypes[0])]
    if any(isinstance(dim, int) and dim < 0 for dim in target):
        raise misfit(f"{_text(target)} is no shape to expand to")
    out = broadcast_shapes(shape, target)
    if out is None:
        raise misfit(f"{_text(shape)} does not expand to {_text(target)}")
    return [TensorType(call.dtypes[0], out)]


def _tile(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    if shape is None:
        return [TensorType(call.dtypes[0])]
    if call.opset < 6:
        return [TensorType(call.dtypes[0], unknown_shape(len(shape)))]
    repeats = call.vector(1)
    if repeats is None:
        return [TensorType(call.dtypes[0], unknown_shape(len(shape)))]
    if len(repeats) != len(shape):
        raise misfit(f"{len(repeats)} repeats are given for rank {len(shape)}")
    if any(isinstance(count, int) and count < 0 for count in repeats):
        raise misfit("a count of repeats is negative")
    return [TensorType(call.dtypes[0], tuple(map(mul_dims, shape, repeats)))]


def _depth_to_space(call: Call) -> list[ValueType]:
    block, shape = _block(call), call.shape(0)
    if shape is None:
        return [TensorType(call.dtypes[0], unknown_shape(4))]
    batch, channels, height, width = _four(shape)
    depth = quotient((channels,), (block * block,))
    if depth is None:
        raise misfit(f"{channels} channels do not divide by {block * block}")
    return [TensorType(call.dtypes[0], (batch, depth, mul_dims(height, block), mul_dims(width, block)))]


def _space_to_depth(call: Call) -> list[ValueType]:
    block, shape = _block(call), call.shape(0)
    if shape is None:
        return [TensorType(call.dtypes[0], unknown_shape(4))]
    batch, channels, height, width = _four(shape)
    rows, columns = quotient((height,), (block,)), quotient((width,), (block,))
    if rows is None or columns is None:
        raise misfit(f"{height} x {width} does not divide into blocks of {block}")
    return [TensorType(call.dtypes[0], (batch, mul_dims(channels, block * block), rows, columns))]


def _block(call: Call) -> int:
    block = call.int_attr("blocksize", 0)
    if not 1 <= block < 2**31:
        raise bad_attr("blocksize", f"is {block}")
    return block


def _four(shape: Shape) -> tuple[Dim, Dim, Dim, Dim]:
    if len(shape) != 4:
        raise misfit(f"rank 4 is needed, not {len(shape)}")
    return shape[0], shape[1], shape[2], shape[3]


RULES: Final[dict[str, Rule]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
