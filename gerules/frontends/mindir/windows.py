"""MindSpore's products, convolutions, pools and resizing, in those of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from gerules.frontends.mindir.items import Items, Known, NodeFault, Tensor
from gerules.frontends.mindir.operands import Call
from gerules.frontends.mindir.translate import Translate
from gerules.ir import Attr

_LARGEST_SIDE: Final = 1 << 14
"""Elements of a side whose averages are written out as a matrix."""


# ---------------------------------------------------------------- products
def _matmul(call: Call) -> int:
    first, second = call.tensor(0), call.tensor(1)
    if call.truth("transpose_a" if call.op == "MatMul" else "transpose_x1", 2):
        first = _swapped(call, first)
    if call.truth("transpose_b" if call.op == "MatMul" else "transpose_x2", 3):
        second = _swapped(call, second)
    return call.add("MatMul", [first, second])


def _batch_matmul(call: Call) -> int:
    first, second = call.tensor(0), call.tensor(1)
    if call.truth("transpose_a", 2):
        first = _swapped(call, first)
    if call.truth("transpose_b", 3):
        second = _swapped(call, second)
    return call.add("MatMul", [first, second])


def _plain_matmul(call: Call) -> int:
    return call.add("MatMul", [call.tensor(0), call.tensor(1)])


def _dense(call: Call) -> int:
    made = call.add("MatMul", [call.tensor(0), _swapped(call, call.tensor(1))])
    return call.add("Add", [made, call.tensor(2)]) if call.has(2) else made


def _swapped(call: Call, value: int) -> int:
    rank = call.rank(value)
    if rank < 2:
        raise NodeFault("it transposes an argument of fewer than two dimensions")
    return call.add("Transpose", [value], {"perm": (*range(rank - 2), rank - 1, rank - 2)})


def _bias_add(call: Call) -> int:
    value, bias = call.tensor(0), call.tensor(1)
    rank = call.rank(value)
    is_last = call.given("format", 2, "NCHW") in ("NHWC", 1)
    if rank > 2 and not is_last:
        bias = call.add("Unsqueeze", [bias, call.ints(range(1, rank - 1))])
    return call.add("Add", [value, bias])


# ---------------------------------------------------------------- windows
def _convolution(call: Call) -> int:
    n_axes = _axes_of(call)
    strides, dilations = _last(call, "stride", n_axes), _last(call, "dilation", n_axes)
    value, weight = call.tensor(0), call.tensor(1)
    attrs: dict[str, Attr] = {
        "strides": strides,
        "dilations": dilations,
        "group": call.integer("group", default=call.integer("groups", default=1)),
    }
    return call.add("Conv", [value, weight], attrs | _padding(call, n_axes))


def _axes_of(call: Call) -> int:
    layout = call.word("format", default="NCDHW" if "3D" in call.op else "NCHW")
    if layout not in ("NCHW", "NCDHW"):
        raise NodeFault(f"format {layout} is not read")
    return len(layout) - 2


def _last(call: Call, name: str, n_axes: int, place: int = 1 << 30) -> tuple[int, ...]:
    """Numbers of each spatial axis: one for all, or the last of those given."""
    found = call.list(name, place, (1,))
    if len(found) == 1:
        return tuple(found * n_axes)
    if len(found) < n_axes:
        raise NodeFault(f"its {name} has {len(found)} numbers for {n_axes} axes")
    return tuple(found[-n_axes:])


def _padding(call: Call, n_axes: int, place: int = 1 << 30) -> dict[str, Attr]:
    """`pad_list` holds pairs of an axis, as (top, bottom, left, right); ONNX begins of all, then ends."""
    mode = call.given("pad_mode", place, "valid")
    if isinstance(mode, int):
        mode = {0: "pad", 1: "same", 2: "valid"}.get(mode, str(mode))
    match str(mode).lower():
        case "same":
            return {"auto_pad": "SAME_UPPER"}
        case "valid":
            return {"pads": (0,) * (2 * n_axes)}
        case "pad":
            found = call.list("pad", default=call.list("pad_list", default=()) or (0,))
            if len(found) == 1:
                found *= 2 * n_axes
            if len(found) != 2 * n_axes:
                raise NodeFault(f"its padding has {len(found)} numbers for {n_axes} axes")
            return {"pads": (*found[::2], *found[1::2])}
        case _:
            raise NodeFault(f"pad_mode {mode} is not known")


def _transposed_convolution(call: Call) -> int:
    """What is cut off follows from the size of the result, which is given."""
    n_axes = _axes_of(call)
    value, weight = call.tensor(0), call.tensor(1)
    strides, dilations = _last(call, "stride", n_axes), _last(call, "dilation", n_axes)
    attrs: dict[str, Attr] = {
        "strides": strides,
        "dilations": dilations,
        "group": call.integer("group", default=call.integer("groups", default=1)),
    }
    wanted, given, kernel = call.list("input_size", 2), call.type(value), call.type(weight)
    if given.shape is None or kernel.shape is None or len(wanted) != n_axes + 2:
        raise NodeFault("its sizes are not known")
    begins: list[int] = []
    ends: list[int] = []
    extra: list[int] = []
    pads = call.list("pad_list", default=(0,) * (2 * n_axes))
    for axis in range(n_axes):
        size, width = given.shape[axis + 2], kernel.shape[axis + 2]
        if not isinstance(size, int) or not isinstance(width, int):
            raise NodeFault("its sizes are not known")
        full = (size - 1) * strides[axis] + (width - 1) * dilations[axis] + 1
        cut = full - wanted[axis + 2]
        begin = pads[2 * axis] if len(pads) == 2 * n_axes else 0
        if str(call.given("pad_mode", default="valid")).lower() == "same":
            begin = max(cut, 0) // 2
        begins.append(begin)
        ends.append(max(cut - begin, 0))
        extra.append(max(begin - cut, 0))
    attrs |= {"pads": (*begins, *ends), "output_padding": tuple(extra)}
    return call.add("ConvTranspose", [value, weight], attrs)


def _pool(call: Call) -> int:
    """`MaxPool` has attributes in both formats, `AvgPool` arguments in the newer one."""
    n_axes = 3 if "3D" in call.op else 2
    is_max = call.op.startswith("Max")
    if call.word("format", default="NCHW") not in ("NCHW", "NCDHW"):
        raise NodeFault("its channels come last, which is not read")
    attrs: dict[str, Attr] = {
        "kernel_shape": _last(call, "kernel_size", n_axes, 1 if not is_max else 1 << 30),
        "strides": _last(call, "strides", n_axes, 2 if not is_max else 1 << 30),
        "ceil_mode": call.integer("ceil_mode", default=0),
    }
    attrs |= _padding(call, n_axes, 3 if not is_max else 1 << 30)
    return call.add("MaxPool" if is_max else "AveragePool", [call.tensor(0)], attrs)


def _adaptive_average(call: Call) -> int:
    """An average over bins that follow from the sizes: one row of a matrix for each, along each axis."""
    value, wanted = call.tensor(0), call.list("output_size", 1)
    if len(wanted) == 1:
        wanted *= 2
    if wanted == [1, 1]:
        return call.add("GlobalAveragePool", [value])
    found = call.type(value)
    if found.shape is None or len(found.shape) < 2 or len(wanted) != 2:
        raise NodeFault("the sizes of its argument are not known")
    for place, (size, n_bins) in enumerate(zip(found.shape[-2:], wanted, strict=True)):
        if not isinstance(size, int) or not 0 < size <= _LARGEST_SIDE or not -1 <= n_bins <= _LARGEST_SIDE:
            raise NodeFault("the sizes of its argument are not known, or too large")
        matrix = _averages(size, size if n_bins in (-1, 0) else n_bins).astype(found.dtype.numpy)
        if place == 0:
            value = call.add("MatMul", [call.build.editor.add_const(matrix), value])
        else:
            value = call.add("MatMul", [value, call.build.editor.add_const(np.ascontiguousarray(matrix.T))])
    return value


def _averages(size: int, n_bins: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    matrix = np.zeros((n_bins, size))
    for place in range(n_bins):
        first, end = place * size // n_bins, -(-(place + 1) * size // n_bins)
        matrix[place, first:end] = 1 / (end - first)
    return matrix


# ---------------------------------------------------------------- recurrence
def _lstm(call: Call) -> Items:
    """One layer, one direction: all weights in one vector, gates as i, f, g, o; in ONNX i, o, f, g."""
    if call.integer("num_layers", default=1) != 1 or call.truth("bidirectional"):
        raise NodeFault("several layers or directions in one operator are not read")
    if call.integer("proj_size", default=0):
        raise NodeFault("a projection is not read")
    n_in, n_hidden = call.integer("input_size"), call.integer("hidden_size")
    value, hidden, cell, weights = (call.tensor(place) for place in range(4))
    n_gates = 4 * n_hidden
    sizes = [n_gates * n_in, n_gates * n_hidden] + ([n_gates] if call.truth("has_bias", default=True) else [])
    if call.type(weights).shape != (sum(sizes), 1, 1):
        raise NodeFault(f"its weights are {call.type(weights)}, and {sum(sizes)} numbers are wanted")
    flat = call.add("Reshape", [weights, call.ints([-1])])
    parts = call.add_many("Split", [flat, call.ints(sizes)], {"axis": 0}, len(sizes))
    made: list[int | None] = []
    for part, width in zip(parts, (n_in, n_hidden, 1), strict=False):
        gates = call.add("Reshape", [part, call.ints([4, n_hidden, width])])
        ordered = call.add("Gather", [gates, call.ints([0, 3, 1, 2])], {"axis": 0})
        made.append(call.add("Reshape", [ordered, call.ints([1, n_gates, width])]))
    if len(made) == 3:
        bias = call.add("Squeeze", [made[2], call.ints([2])])
        made[2] = call.add("Concat", [bias, call.add("Sub", [bias, bias])], {"axis": 1})
    inputs = [value, *made, *[None] * (3 - len(made)), None, hidden, cell]
    results = call.add_many("LSTM", inputs, {"hidden_size": n_hidden}, 3)
    results[0] = call.add("Squeeze", [results[0], call.ints([1])])
    return Items((*(Tensor(call.build, item) for item in results), Known(None), Known(None)))


def _resize(call: Call) -> int:
    is_nearest = "Nearest" in call.op
    value, sizes = call.tensor(0), call.list("size", 1)
    is_aligned, is_half = call.truth("align_corners", 2), call.truth("half_pixel_centers", 3)
    attrs: dict[str, Attr] = {
        "mode": "nearest" if is_nearest else "linear",
        "coordinate_transformation_mode": "align_corners"
        if is_aligned
        else "half_pixel"
        if is_half
        else "asymmetric",
    }
    if is_nearest:
        attrs["nearest_mode"] = "round_prefer_ceil" if is_aligned or is_half else "floor"
    axes = tuple(range(2, 2 + len(sizes)))
    return call.add("Resize", [value, None, None, call.ints(sizes)], attrs | {"axes": axes})


WINDOWS: Final[Mapping[str, Translate]] = {
    "MatMul": _matmul, "MatMulV2": _matmul, "BatchMatMul": _batch_matmul, "BatchMatMulExt": _plain_matmul,
    "MatMulExt": _plain_matmul, "Mm": _plain_matmul, "Dense": _dense, "BiasAdd": _bias_add,
    "Conv2D": _convolution, "Conv3D": _convolution,
    "Conv2DTranspose": _transposed_convolution, "Conv2DBackpropInput": _transposed_convolution,
    "MaxPool": _pool, "MaxPool3D": _pool, "AvgPool": _pool, "AvgPool3D": _pool,
    "AdaptiveAvgPool2D": _adaptive_average,
    "LSTM": _lstm,
    "ResizeNearestNeighborV2": _resize, "ResizeBilinearV2": _resize, "ResizeNearestNeighbor": _resize,
    "ResizeBilinear": _resize,
}  # fmt: skip
