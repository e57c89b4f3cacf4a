"""MindSpore's operators that move elements, and those that make them, in those of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.frontends.mindir.items import Array, Item, Items, Known, NodeFault, Tensor
from gerules.frontends.mindir.operands import Call
from gerules.frontends.mindir.tensors import DTYPE_OF_TYPE_ID
from gerules.frontends.mindir.translate import Translate
from gerules.ir import Attr, DType, TensorType

_MOST_PARTS: Final = 4096
_END: Final = (1 << 63) - 1


# ---------------------------------------------------------------- forms
def _reshape(call: Call) -> int:
    return call.add("Reshape", [call.tensor(0), _sizes(call, 1)], {"allowzero": 1})


def _sizes(call: Call, place: int) -> int:
    """A shape that is given as numbers, or as a tensor that the model computes."""
    value = call.tensor(place)
    return value if call.dtype(value) is DType.I64 else call.add("Cast", [value], {"to": DType.I64})


def _transpose(call: Call) -> int:
    value, perm = call.tensor(0), call.list("perm", 1)
    return call.add(
        "Transpose", [value], {"perm": tuple(axis + len(perm) if axis < 0 else axis for axis in perm)}
    )


def _flatten(call: Call) -> int:
    return call.add("Flatten", [call.tensor(0)], {"axis": 1})


def _expand_dims(call: Call) -> int:
    return call.add("Unsqueeze", [call.tensor(0), call.ints([call.integer("axis", 1)])])


def _squeeze(call: Call) -> int:
    value, axes = call.tensor(0), call.list("axis", 1, ())
    return call.add("Squeeze", [value, call.ints(axes)] if axes else [value])


def _concat(call: Call) -> int:
    return call.add("Concat", call.tensors(0), {"axis": call.integer("axis", 1, 0)})


def _stack(call: Call) -> int:
    axis = call.integer("axis", 1, 0)
    axes = call.ints([axis])
    return call.add(
        "Concat", [call.add("Unsqueeze", [item, axes]) for item in call.tensors(0)], {"axis": axis}
    )


def _split(call: Call) -> Items:
    n_parts = call.integer("output_num", 2, 1)
    if not 0 < n_parts <= _MOST_PARTS:
        raise NodeFault(f"it gives {n_parts} parts")
    attrs: dict[str, Attr] = {"axis": call.integer("axis", 1, 0), "num_outputs": n_parts}
    return _items(call, call.add_many("Split", [call.tensor(0)], attrs, n_parts))


def _split_sizes(call: Call) -> Items:
    sizes = call.list("split_size", 1)
    if not 0 < len(sizes) <= _MOST_PARTS:
        raise NodeFault(f"it gives {len(sizes)} parts")
    attrs: dict[str, Attr] = {"axis": call.integer("axis", 2, 0)}
    return _items(call, call.add_many("Split", [call.tensor(0), call.ints(sizes)], attrs, len(sizes)))


def _unstack(call: Call) -> Items:
    value, axis = call.tensor(0), call.integer("axis", 1, 0)
    shape = call.type(value).shape
    n_parts = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    if not isinstance(n_parts, int) or not 0 < n_parts <= _MOST_PARTS:
        raise NodeFault("how many parts it gives is not known")
    parts = call.add_many("Split", [value], {"axis": axis, "num_outputs": n_parts}, n_parts)
    axes = call.ints([axis])
    return _items(call, [call.add("Squeeze", [part, axes]) for part in parts])


def _items(call: Call, values: Sequence[int]) -> Items:
    return Items(tuple(Tensor(call.build, value) for value in values))


# ---------------------------------------------------------------- parts
def _slice(call: Call) -> int:
    begins, sizes = call.list("begin", 1), call.list("size", 2)
    if len(begins) != len(sizes):
        raise NodeFault("its begin and size have different lengths")
    ends = [_END if size < 0 else begin + size for begin, size in zip(begins, sizes, strict=True)]
    axes = call.ints(range(len(begins)))
    return call.add("Slice", [call.tensor(0), call.ints(begins), call.ints(ends), axes])


def _strided_slice(call: Call) -> int:
    """Masks say by bits which entries of the lists mean something else."""
    begins, ends, steps = call.list("begin", 1), call.list("end", 2), call.list("strides", 3)
    if not len(begins) == len(ends) == len(steps):
        raise NodeFault("its begin, end and strides have different lengths")
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = [call.integer(name, place, 0) for place, name in enumerate(names, 4)]
    is_open, is_endless, is_ellipsis, is_new, is_single = (
        [bool(mask >> place & 1) for place in range(len(begins))] for mask in masks
    )
    value = call.tensor(0)
    starts, stops, axes, strides, dropped, made = [list[int]() for _ in range(6)]
    axis = out_axis = 0
    for place, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if is_ellipsis[place]:
            rest = sum(not is_new[later] for later in range(place + 1, len(begins)))
            skipped = max(call.rank(value) - axis - rest, 0)
            axis, out_axis = axis + skipped, out_axis + skipped
            continue
        if is_new[place]:
            made.append(out_axis)
            out_axis += 1
            continue
        if is_single[place]:
            starts.append(begin)
            stops.append(begin + 1 if begin != -1 else _END)
            strides.append(1)
            dropped.append(axis)
        else:
            starts.append((0 if step > 0 else _END) if is_open[place] else begin)
            stops.append((_END if step > 0 else -_END) if is_endless[place] else end)
            strides.append(step)
            out_axis += 1
        axes.append(axis)
        axis += 1
    if axes:
        value = call.add("Slice", [value, *(call.ints(item) for item in (starts, stops, axes, strides))])
    if dropped:
        value = call.add("Squeeze", [value, call.ints(dropped)])
    return call.add("Unsqueeze", [value, call.ints(made)]) if made else value


def _gather(call: Call) -> int:
    if call.integer("batch_dims", 3, 0):
        raise NodeFault("batch_dims other than 0 is not read")
    return call.add("Gather", [call.tensor(0), call.tensor(1)], {"axis": call.integer("axis", 2, 0)})


def _gather_nd(call: Call) -> int:
    return call.add("GatherND", [call.tensor(0), _sizes(call, 1)])


def _gather_elements(call: Call) -> int:
    return call.add("GatherElements", [call.tensor(0), call.tensor(2)], {"axis": call.integer("dim", 1, 0)})


def _reverse(call: Call) -> int:
    axes = call.list("axis", 1)
    last, end, step = (call.ints([number] * len(axes)) for number in (-1, -_END, -1))
    return call.add("Slice", [call.tensor(0), last, end, call.ints(axes), step])


def _triangle(call: Call) -> int:
    attrs: dict[str, Attr] = {"upper": int(call.op == "Triu")}
    return call.add(
        "Trilu", [call.tensor(0), call.add("Squeeze", [call.ints([call.integer("diagonal", 1, 0)])])], attrs
    )


# ---------------------------------------------------------------- repetition and padding
def _tile(call: Call) -> int:
    value, times = call.tensor(0), call.list("multiples", 1)
    rank = call.rank(value)
    if len(times) > rank:
        value = call.add("Unsqueeze", [value, call.ints(range(len(times) - rank))])
    return call.add("Tile", [value, call.ints([1] * max(rank - len(times), 0) + times)])


def _broadcast_to(call: Call) -> int:
    """-1 keeps a dimension, which a 1 does in ONNX."""
    value = call.tensor(0)
    if call.is_known(1):
        return call.add(
            "Expand", [value, call.ints([1 if size == -1 else size for size in call.list("shape", 1)])]
        )
    return call.add("Expand", [value, _sizes(call, 1)])


def _pad(call: Call) -> int:
    """Pairs of each axis, from the first one."""
    found = call.given("paddings")
    pairs = (
        [pair for pair in found if isinstance(pair, tuple) and len(pair) == 2]
        if isinstance(found, tuple)
        else []
    )
    numbers = [number for pair in pairs for number in pair if isinstance(number, int)]
    if not pairs or len(numbers) != 2 * len(pairs):
        raise NodeFault("its paddings are no pairs of whole numbers")
    return call.add("Pad", [call.tensor(0), call.ints([*numbers[::2], *numbers[1::2]])])


def _pad_v3(call: Call) -> int:
    """Pairs of the last axes, from the last one; or all begins and ends when not contiguous."""
    value, pads = call.tensor(0), call.list("paddings", 1)
    if len(pads) % 2:
        raise NodeFault("its paddings are no pairs")
    if not call.truth("paddings_contiguous", default=True):
        raise NodeFault("paddings that are not contiguous are not read")
    n_axes = len(pads) // 2
    pairs = [(pads[2 * place], pads[2 * place + 1]) for place in reversed(range(n_axes))]
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge", "circular": "wrap"}.get(
        call.word("mode", default="constant")
    )
    if mode is None:
        raise NodeFault(f"mode {call.word('mode')} is not known")
    ends = call.ints([*(first for first, _ in pairs), *(last for _, last in pairs)])
    fill = call.tensor(2, value) if mode == "constant" and call.has(2) else None
    return call.add("Pad", [value, ends, fill, call.ints(range(-n_axes, 0))], {"mode": mode})


# ---------------------------------------------------------------- made
def _shape(call: Call) -> Item:
    """Numbers where they are known; a tuple of scalars where the model finds them out."""
    value = call.tensor(0)
    found = call.type(value)
    if found.is_static:
        return Items(tuple(Known(dim) for dim in found.static_shape))
    sizes = call.add("Shape", [value])
    if found.shape is None:
        raise NodeFault("the rank of its argument is not known")
    call.build.editor.set_type(sizes, TensorType(DType.I64, (len(found.shape),)))
    items: list[Item] = []
    for axis, dim in enumerate(found.shape):
        if isinstance(dim, int):
            items.append(Known(dim))
            continue
        place = call.add("Squeeze", [call.ints([axis])])
        one = call.add("Gather", [sizes, place])
        call.build.editor.set_type(one, TensorType(DType.I64, ()))
        items.append(Tensor(call.build, one))
    return Items(tuple(items))


def _tensor_shape(call: Call) -> int:
    return call.add("Shape", [call.tensor(0)])


def _filled_like(call: Call) -> int:
    value = call.tensor(0)
    number = call.number(1 if call.op.startswith("Ones") else 0, value)
    return call.add("Expand", [number, call.add("Shape", [value])])


def _fill(call: Call) -> int:
    wanted = call.declared_dtype
    value = call.tensor(1)
    if wanted not in (DType.UNKNOWN, call.dtype(value)):
        value = call.add("Cast", [value], {"to": wanted})
    return call.add("Expand", [value, _sizes(call, 0)])


def _fill_number(call: Call) -> int:
    """`Zeros(shape, dtype)` and `Ones(shape, dtype)`."""
    dtype = call.declared_dtype
    if dtype is DType.UNKNOWN:
        raise NodeFault("its element type is not known")
    number = np.array(1 if call.op == "Ones" else 0).astype(dtype.numpy)
    return call.add("Expand", [call.build.editor.add_const(number), _sizes(call, 0)])


def _one_hot(call: Call) -> int:
    """ONNX takes the two values as one vector, and depth as a number."""
    values = [call.add("Unsqueeze", [call.tensor(place), call.ints([0])]) for place in (3, 2)]
    both = call.add("Concat", values, {"axis": 0})
    depth = call.add("Squeeze", [call.ints([call.integer("depth", 1)])])
    # onnxruntime has it for 64 bits alone.
    index = call.add("Cast", [call.tensor(0)], {"to": DType.I64})
    return call.add("OneHot", [index, depth, both], {"axis": call.integer("axis", 4, -1)})


def _scalar_to_tensor(call: Call) -> Item | int:
    item, wanted = call.item(0), call.declared_dtype
    if isinstance(item, Known) and isinstance(item.value, int | float):
        number = call.given("dtype", 1)
        dtype = DTYPE_OF_TYPE_ID.get(number, wanted) if isinstance(number, int) else wanted
        if dtype is DType.UNKNOWN:
            raise NodeFault("its element type is not known")
        return Array(np.array(item.value).astype(dtype.numpy))
    value = call.value_of(item)
    return (
        value if wanted in (DType.UNKNOWN, call.dtype(value)) else call.add("Cast", [value], {"to": wanted})
    )


def _tuple_to_tensor(call: Call) -> int:
    item, wanted = call.item(0), call.declared_dtype
    if not isinstance(item, Items):
        raise NodeFault("its argument is no tuple")
    value = call.list_of(item)
    return value if wanted in (DType.UNKNOWN, DType.I64) else call.add("Cast", [value], {"to": wanted})


def _to_scalar(call: Call) -> Item:
    return call.item(0)


def _scalars(call: Call) -> Item | int:
    """Arithmetic of plain numbers: worked out where both are known, else a node on scalars."""
    op = _SCALAR_OPS[call.op]
    first, second = call.item(0), call.item(1)
    if isinstance(first, Known) and isinstance(second, Known):
        return _computed(op, first.value, second.value)
    if isinstance(first, Known):
        right = call.tensor(1)
        return call.add(op, [call.tensor(0, right), right])
    left = call.tensor(0)
    return call.add(op, [left, call.tensor(1, left)])


def _computed(op: str, first: object, second: object) -> Known:
    if not isinstance(first, int | float) or not isinstance(second, int | float):
        raise NodeFault("it computes with what is no number")
    if max(abs(first), abs(second)) > 1 << 62:
        raise NodeFault("a number is too large")
    match op:
        case "Add":
            return Known(first + second)
        case "Sub":
            return Known(first - second)
        case "Mul":
            return Known(first * second)
        case "Less":
            return Known(first < second)
        case "Greater":
            return Known(first > second)
        case "Equal":
            return Known(first == second)
        case _ if second == 0:
            raise NodeFault("it divides by zero")
        case "Mod":
            return Known(first % second)
        case _:
            return Known(first // second)


_SCALAR_OPS: Final[Mapping[str, str]] = {
    "ScalarAdd": "Add", "ScalarSub": "Sub", "ScalarMul": "Mul", "ScalarFloorDiv": "Div", "ScalarMod": "Mod",
    "ScalarLt": "Less", "ScalarGt": "Greater", "ScalarEq": "Equal", "scalar_add": "Add", "scalar_sub": "Sub",
    "scalar_mul": "Mul", "scalar_floordiv": "Div", "scalar_mod": "Mod", "scalar_lt": "Less",
    "scalar_gt": "Greater", "scalar_eq": "Equal",
}  # fmt: skip
"""Sizes are no less than zero, so that a quotient of run time needs no rounding down."""


SHAPING: Final[Mapping[str, Translate]] = {
    "Reshape": _reshape, "View": _reshape, "Transpose": _transpose, "Flatten": _flatten,
    "ExpandDims": _expand_dims, "Squeeze": _squeeze,
    "Concat": _concat, "Stack": _stack, "Split": _split, "SplitTensor": _split_sizes,
    "SplitWithSize": _split_sizes, "Unstack": _unstack,
    "Slice": _slice, "StridedSlice": _strided_slice, "Gather": _gather, "GatherV2": _gather,
    "GatherNd": _gather_nd, "GatherD": _gather_elements, "ReverseV2": _reverse, "Tril": _triangle,
    "Triu": _triangle,
    "Tile": _tile, "BroadcastTo": _broadcast_to, "Pad": _pad, "PadV3": _pad_v3,
    "Shape": _shape, "TensorShape": _tensor_shape, "DynamicShape": _tensor_shape,
    "ZerosLike": _filled_like, "OnesLike": _filled_like, "ZerosLikeExt": _filled_like,
    "OnesLikeExt": _filled_like, "FillV2": _fill, "Zeros": _fill_number, "Ones": _fill_number,
    "OneHot": _one_hot,
    "ScalarToTensor": _scalar_to_tensor, "TupleToTensor": _tuple_to_tensor, "ListToTensor": _tuple_to_tensor,
    **dict.fromkeys(_SCALAR_OPS, _scalars),
    "TensorToScalar": _to_scalar, "ScalarCast": _to_scalar,
}  # fmt: skip
