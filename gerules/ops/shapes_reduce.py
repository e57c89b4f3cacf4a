"""Types of reductions, normalizations with statistics, and searches along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.ir import Dim, DType, Shape, TensorType, ValueType
from gerules.ops.call import Call, Rule, axes_in, axis_in, bad_attr, misfit
from gerules.ops.shapes_elementwise import check_broadcasts_to

_REDUCTIONS: Final = [
    "Reduce" + kind
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
]


def _reduce(call: Call) -> list[ValueType]:
    """Axes come from an attribute or, at later opsets, an input; none means all or, if told so, no-op."""
    shape, dtype = call.shape(0), call.dtypes[0]
    if shape is None:
        return [TensorType(dtype)]
    is_kept = bool(call.int_attr("keepdims", 1))
    axes: Sequence[int] | None = call.ints_attr("axes")
    if call.has(1):
        axes = call.ints(1)
        if axes is None:
            return [TensorType(dtype, _reduced_somewhere(call, shape, is_kept))]
    if not axes:
        if call.int_attr("noop_with_empty_axes", 0):
            return [TensorType(dtype, shape)]
        return [TensorType(dtype, (1,) * len(shape) if is_kept else ())]
    gone = set(axes_in(axes, len(shape)))
    return [TensorType(dtype, without_axes(shape, gone, is_kept))]


def without_axes(shape: Shape, gone: set[int], is_kept: bool) -> Shape:
    """Return a shape whose `gone` axes have become 1, or have left."""
    if is_kept:
        return tuple(1 if place in gone else dim for place, dim in enumerate(shape))
    return tuple(dim for place, dim in enumerate(shape) if place not in gone)


def _reduced_somewhere(call: Call, shape: Shape, is_kept: bool) -> Shape | None:
    """The axes are not known: what is left of the shape."""
    if is_kept:
        return tuple(1 if dim == 1 else "?" for dim in shape)
    listed = call.shape(1)
    if listed is None or len(listed) != 1 or not isinstance(listed[0], int) or listed[0] == 0:
        return None
    if listed[0] > len(shape):
        raise misfit(f"{listed[0]} axes are reduced, the rank is {len(shape)}")
    return ("?",) * (len(shape) - listed[0])


def _arg(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    axis = call.int_attr("axis", 0)
    is_kept = bool(call.int_attr("keepdims", 1))
    if shape is None:
        return [TensorType(DType.I64)]
    return [TensorType(DType.I64, without_axes(shape, {axis_in(axis, len(shape))}, is_kept))]


def _top_k(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    if shape is None:
        return [TensorType(call.dtypes[0]), TensorType(DType.I64)]
    axis = call.axis_attr("axis", -1, len(shape))
    count: Dim = "?"
    if call.opset < 10:
        count = call.int_attr("k", -1)
    else:
        known = call.vector(1)
        if known is not None and len(known) == 1:
            count = known[0]
    if isinstance(count, int):
        size = shape[axis]
        if count < 0 or (isinstance(size, int) and count > size):
            raise misfit(f"k is {count}, axis {axis} has {size}")
    out = (*shape[:axis], count, *shape[axis + 1 :])
    return [TensorType(call.dtypes[0], out), TensorType(DType.I64, out)]


def _batch_norm(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    channels: Dim = "?"
    if shape is not None:
        channels = shape[1] if len(shape) > 1 else 1
    for index in range(1, min(5, len(call.inputs))):
        given = call.shape(index)
        if given is None:
            continue
        if len(given) != 1:
            raise misfit(f"input {index} has rank {len(given)}, one value per channel is needed")
        if isinstance(given[0], int):
            if isinstance(channels, int) and channels != given[0]:
                raise misfit(f"input {index} has {given[0]} values for {channels} channels")
            channels = given[0]
    statistic = (channels,)
    return [
        TensorType(call.dtypes[0], shape),
        *(TensorType(dtype, statistic) for dtype in call.dtypes[1:]),
    ]


def _layer_norm(call: Call) -> list[ValueType]:
    """The statistics keep the leading dims, and have 1 for each normalized axis."""
    shape = call.shape(0)
    stash = call.dtype_attr("stash_type")
    stash = DType.F32 if stash is DType.UNKNOWN else stash
    if shape is None:
        return [TensorType(call.dtypes[0]), TensorType(stash), TensorType(stash)]
    axis = call.axis_attr("axis", -1, len(shape))
    for index, what in ((1, "the scale"), (2, "the bias")):
        given = call.shape(index)
        if given is not None:
            check_broadcasts_to(given, shape, what)
    statistic = TensorType(stash, (*shape[:axis], *((1,) * (len(shape) - axis))))
    return [TensorType(call.dtypes[0], shape), statistic, statistic]


def _rms_norm(call: Call) -> list[ValueType]:
    shape, scale = call.shape(0), call.shape(1)
    if shape is not None:
        call.axis_attr("axis", -1, len(shape))
        if scale is not None:
            check_broadcasts_to(scale, shape, "the scale")
    return [TensorType(call.dtypes[0], shape)]


def _skip_layer_norm(call: Call) -> list[ValueType]:
    """com.microsoft: the sum and, as fourth output, what was summed have the input's shape."""
    data = TensorType(call.tensor(0).dtype, call.shape(0))
    return [data, TensorType(DType.F32), TensorType(DType.F32), data]


def _one_hot(call: Call) -> list[ValueType]:
    shape, dtype = call.shape(0), call.tensor(2).dtype
    if shape is None:
        return [TensorType(dtype)]
    axis = axis_in(call.int_attr("axis", -1), len(shape) + 1)
    depth: Dim = "?"
    known = call.vector(1)
    numbers = call.floats(1)
    if known is not None and len(known) == 1:
        depth = known[0]
    elif numbers is not None and len(numbers) == 1 and numbers[0] == int(numbers[0]):
        depth = int(numbers[0])
    if isinstance(depth, int) and depth < 0:
        raise bad_attr("depth", f"is {depth}")
    return [TensorType(dtype, (*shape[:axis], depth, *shape[axis:]))]


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "TopK": _top_k,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "com.microsoft::SkipLayerNormalization": _skip_layer_norm,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_layer_norm,
    "OneHot": _one_hot,
}
