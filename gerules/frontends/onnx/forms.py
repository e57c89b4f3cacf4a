"""Operators whose form at another version is more than their parameters in other places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from gerules.frontends.onnx.draft import Draft
from gerules.ir import Attr, DType

Form = Callable[[Draft], bool]
"""Adds what stands for the draft's node; False leaves it to the general way."""

_FIRST_BY_AXIS: Final = 13
"""Before it Softmax and its kin take all axes from `axis` on as one. Source: onnx Changelog.md."""

_FIRST_WITH_CLIP_INPUTS: Final = 11
_FIRST_WITH_GEMM_WITHOUT_C: Final = 11
_FIRST_WITH_SLICED_SHAPE: Final = 15
_FIRST_WITH_UNEQUAL_SPLIT: Final = 18
_FIRST_WITH_SPLIT_INPUT: Final = 13
_FIRST_WITH_FLOORED_MOD: Final = 28
_FIRST_WITH_UNLIKE_POW: Final = 12
_FIRST_WITH_RESIZE_BY_COORDINATES: Final = 11
_FIRST_WITH_OPTIONAL_ROI: Final = 13
_FIRST_WITH_QUANTIZED_AXES: Final = 13
_FIRST_WITH_LAYER_NORM: Final = 17
_FIRST_WITH_RMS_NORM: Final = 23
_FIRST_WITH_BROADCAST_SUMS: Final = 8
"""Source of all: onnx Changelog.md."""

_FIRST_WITHOUT_OUTER_WINDOWS: Final[Mapping[str, int]] = {"AveragePool": 22, "LpPool": 22, "MaxPool": 22}

OTHER_MEANING: Final[Mapping[str, int]] = {
    "DFT": 20,
    "GridSample": 20,
    "GroupNormalization": 21,
    "Hardmax": 13,
    "LogSoftmax": 13,
    "OptionalGetElement": 18,
    "OptionalHasElement": 18,
    "Resize": 11,
    "RoiAlign": 16,
    "Scan": 9,
    "Softmax": 13,
    "Upsample": 9,
}
"""Versions at which an operator became another under the same name. Source: onnx Changelog.md."""


def crosses_meaning(op: str, source: int, target: int) -> bool:
    """Whether an operator means something else at one version than at the other."""
    version = OTHER_MEANING.get(op)
    return version is not None and (source < version) != (target < version)


# ---------------------------------------------------------------- one axis, or all from it on
def _softmax(draft: Draft) -> bool:
    if (draft.source < _FIRST_BY_AXIS) == (draft.target < _FIRST_BY_AXIS):
        return False
    op, rank = draft.node.op, draft.type(0).rank
    axis = draft.attr("axis")
    assert isinstance(axis, int)
    if axis == -1 or (rank is not None and axis in (-1, rank - 1)):
        place = rank - 1 if rank is not None else axis
        draft.write(op, draft.node.inputs, {"axis": place})
        return True
    if draft.source < _FIRST_BY_AXIS or op == "Hardmax":
        raise draft.fail("its axis is not the last one, and means something else there")
    x = draft.input(0)
    below = draft.call("Sub", [x, draft.call("ReduceMax", [x, draft.ints([axis])])])
    powers = draft.call("Exp", [below])
    total = draft.call("ReduceSum", [powers, draft.ints([axis])])
    if op == "Softmax":
        draft.call("Div", [powers, total], outputs=draft.node.outputs)
    else:
        draft.call("Sub", [below, draft.call("Log", [total])], outputs=draft.node.outputs)
    return True


def _reduce(draft: Draft) -> bool:
    """No axes mean all, unless the node says that they mean none."""
    schema = draft.schemas.get(draft.node.op, draft.target)
    if schema is None or "noop_with_empty_axes" in schema.attrs:
        return False
    attrs = dict(draft.node.attrs)
    is_noop = bool(attrs.pop("noop_with_empty_axes", 0))
    axes = draft.const(1)
    is_empty = draft.input(1) is None if axes is None else axes.array.size == 0
    if is_empty and is_noop:
        draft.call("Identity", draft.node.inputs[:1], outputs=draft.node.outputs)
        return True
    inputs = draft.node.inputs[:1] if is_empty else draft.node.inputs
    if (inputs, attrs) == (draft.node.inputs, draft.node.attrs):
        return False
    draft.call(draft.node.op, inputs, attrs, outputs=draft.node.outputs, version=draft.source)
    return True


# ---------------------------------------------------------------- views and moves
def _split(draft: Draft) -> bool:
    """Parts of one size need not be said before 18; from then on their number must be."""
    node, n_parts = draft.node, len(draft.node.outputs)
    is_new = draft.target >= _FIRST_WITH_UNEQUAL_SPLIT
    if is_new == (draft.source >= _FIRST_WITH_UNEQUAL_SPLIT) or draft.input(1) is not None:
        return False
    attrs = dict(node.attrs)
    if is_new:
        if "split" not in attrs:
            attrs["num_outputs"] = n_parts
        draft.call("Split", node.inputs, attrs, outputs=node.outputs)
        return True
    attrs.pop("num_outputs", None)
    inputs, axis = node.inputs, attrs.get("axis", 0)
    size = _size_of(draft, axis)
    if size is None:
        if draft.target < _FIRST_WITH_SPLIT_INPUT or not isinstance(axis, int):
            raise draft.fail("the size of the axis it splits is not known")
        inputs = (*node.inputs[:1], _computed_parts(draft, axis, n_parts))
    elif size % n_parts:
        part = -(-size // n_parts)
        parts = [max(0, min(part, size - part * place)) for place in range(n_parts)]
        inputs = (*node.inputs[:1], draft.ints(parts))
    draft.call("Split", inputs, attrs, outputs=node.outputs, version=_FIRST_WITH_UNEQUAL_SPLIT - 1)
    return True


def _size_of(draft: Draft, axis: Attr) -> int | None:
    """The size of an axis of the first input, None when it is not known."""
    shape = draft.type(0).shape
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None


def _computed_parts(draft: Draft, axis: int, n_parts: int) -> int:
    """All parts but the last are the size divided by their number, rounded up."""
    size = draft.call("Gather", [draft.call("Shape", [draft.input(0)]), draft.ints([axis])])
    raised = draft.call("Add", [size, draft.ints([n_parts - 1])])
    part = draft.call("Div", [raised, draft.ints([n_parts])])
    last = draft.call("Sub", [size, draft.call("Mul", [part, draft.ints([n_parts - 1])])])
    return draft.call("Concat", [*[part] * (n_parts - 1), last], {"axis": 0})


def _shape(draft: Draft) -> bool:
    if draft.target >= _FIRST_WITH_SLICED_SHAPE:
        return False
    start, end = draft.node.attrs.get("start", 0), draft.node.attrs.get("end")
    assert isinstance(start, int)
    if start == 0 and end is None:
        draft.write("Shape", draft.node.inputs, {})
        return True
    whole = draft.call("Shape", draft.node.inputs)
    stop = end if isinstance(end, int) else np.iinfo(np.int64).max
    draft.call("Slice", [whole, draft.ints([start]), draft.ints([int(stop)])], outputs=draft.node.outputs)
    return True


def _reshape(draft: Draft) -> bool:
    """`allowzero` says nothing of a shape without zeros."""
    schema = draft.schemas.get("Reshape", draft.target)
    wanted = draft.const(1)
    if schema is None or "allowzero" in schema.attrs or not draft.attr("allowzero") or wanted is None:
        return False
    if np.any(wanted.array == 0):
        return False
    draft.call("Reshape", draft.node.inputs, outputs=draft.node.outputs)
    return True


def _pad(draft: Draft) -> bool:
    """Pads of some axes are pads of all of them, with zeros for the others."""
    schema = draft.schemas.get("Pad", draft.target)
    if schema is None or draft.input(3) is None or any(param.name == "axes" for param in schema.inputs):
        return False
    pads, axes, rank = draft.const(1), draft.const(3), draft.type(0).rank
    if pads is None or axes is None or rank is None:
        raise draft.fail("its pads, their axes and the rank must be known when compiling")
    given = [int(entry) for entry in pads.array.reshape(-1)]
    places = [int(axis) % rank for axis in axes.array.reshape(-1)]
    wide = [0] * (2 * rank)
    for index, axis in enumerate(places):
        wide[axis], wide[rank + axis] = given[index], given[len(places) + index]
    draft.call(
        "Pad",
        [draft.input(0), draft.ints(wide), draft.input(2)],
        draft.node.attrs,
        outputs=draft.node.outputs,
        version=draft.source,
    )
    return True


def _resize(draft: Draft) -> bool:
    """Version 11 wants a region and scales, even where they say nothing."""
    low, high = _FIRST_WITH_RESIZE_BY_COORDINATES, _FIRST_WITH_OPTIONAL_ROI
    if not low <= draft.target < high or draft.source < high:
        return False
    roi, scales = draft.input(1), draft.input(2)
    if roi is not None and scales is not None:
        return False
    empty = np.array([], np.float32)
    inputs = [
        draft.input(0),
        roi if roi is not None else draft.editor.add_const(empty),
        scales if scales is not None else draft.editor.add_const(empty),
        draft.input(3),
    ]
    draft.call("Resize", inputs, draft.node.attrs, outputs=draft.node.outputs, version=draft.source)
    return True


# ---------------------------------------------------------------- arithmetic
def _clip(draft: Draft) -> bool:
    """Bounds that are computed, or of a type that Clip does not take yet, become Max and Min."""
    if draft.target >= _FIRST_WITH_CLIP_INPUTS or draft.source < _FIRST_WITH_CLIP_INPUTS:
        return False
    bounds = [draft.input(1), draft.input(2)]
    if all(bound is None or bound in draft.editor.consts for bound in bounds):
        return False
    value = draft.input(0)
    if bounds[0] is not None:
        last = bounds[1] is None
        value = draft.call("Max", [value, bounds[0]], outputs=draft.node.outputs if last else None)
    if bounds[1] is not None:
        draft.call("Min", [value, bounds[1]], outputs=draft.node.outputs)
    return True


def _gemm(draft: Draft) -> bool:
    if draft.target >= _FIRST_WITH_GEMM_WITHOUT_C or draft.input(2) is not None:
        return False
    zero = draft.scalar(0.0, draft.type(0).dtype)
    draft.write("Gemm", [*draft.node.inputs[:2], zero], draft.node.attrs)
    return True


def _pow(draft: Draft) -> bool:
    """Before 12 base and exponent have one type."""
    base, exponent = draft.type(0).dtype, draft.type(1).dtype
    if draft.target >= _FIRST_WITH_UNLIKE_POW or base is exponent or DType.UNKNOWN in (base, exponent):
        return False
    other = draft.call("Cast", [draft.input(1)], {"to": base})
    draft.call("Pow", [draft.input(0), other], outputs=draft.node.outputs)
    return True


def _sum(draft: Draft) -> bool:
    """Before 8 Sum takes tensors of one shape only, but Add does not mind."""
    inputs = draft.node.inputs
    if draft.target >= _FIRST_WITH_BROADCAST_SUMS or len(inputs) == 1:
        return False
    total = inputs[0]
    for value in inputs[1:-1]:
        total = draft.call("Add", [total, value])
    draft.call("Add", [total, inputs[-1]], outputs=draft.node.outputs)
    return True


def _extreme(draft: Draft) -> bool:
    """Before 8 Max, Min and Mean take tensors of one shape only."""
    if draft.target >= _FIRST_WITH_BROADCAST_SUMS or len(draft.node.inputs) == 1:
        return False
    shapes = {draft.type(place).shape for place in range(len(draft.node.inputs))}
    if len(shapes) != 1 or None in shapes:
        raise draft.fail("its inputs must have one shape there")
    return False


def _mod(draft: Draft) -> bool:
    if draft.target < _FIRST_WITH_FLOORED_MOD and not draft.attr("fmod") and draft.type(0).dtype.is_float:
        raise draft.fail("of numbers with fractions it gives the sign of the first only, there")
    return False


def _pool(draft: Draft) -> bool:
    """Since some version no window starts in the padding behind the last element; `ceil_mode` asks for it."""
    first = _FIRST_WITHOUT_OUTER_WINDOWS[draft.node.op]
    if (draft.source < first) == (draft.target < first) or not draft.attr("ceil_mode"):
        return False
    shape, kernel = draft.type(0).shape, draft.attr("kernel_shape")
    if shape is None or not isinstance(kernel, tuple):
        return False
    rank = len(kernel)
    strides, pads = _entries(draft, "strides", 1, rank), _entries(draft, "pads", 0, 2 * rank)
    dilations = _entries(draft, "dilations", 1, rank)
    for place, (size, window) in enumerate(zip(shape[2:], kernel, strict=False)):
        if not isinstance(size, int) or not isinstance(window, int):
            continue
        reach = size + pads[place] + pads[place + rank] - (dilations[place] * (window - 1) + 1)
        n_steps = -(-reach // strides[place])
        if n_steps * strides[place] >= size + pads[place]:
            raise draft.fail("its last window starts in the padding, and counts there")
    return False


def _entries(draft: Draft, name: str, default: int, n_entries: int) -> list[int]:
    """A list of integers among the attributes, or as many defaults."""
    found = draft.attr(name)
    entries = [entry for entry in found if isinstance(entry, int)] if isinstance(found, tuple) else []
    return entries if len(entries) == n_entries else [default] * n_entries


def _cast_like(draft: Draft) -> bool:
    wanted, const = draft.type(1).dtype, draft.const(0)
    if wanted is DType.UNKNOWN or draft.schemas.get("CastLike", draft.target) is not None:
        return False
    if const is not None and wanted.is_float:
        draft.call(
            "Identity", [draft.editor.add_const(const.array.astype(wanted.numpy))], outputs=draft.node.outputs
        )
    else:
        draft.call("Cast", draft.node.inputs[:1], {"to": wanted}, outputs=draft.node.outputs)
    return True


def _quantize(draft: Draft) -> bool:
    if draft.target >= _FIRST_WITH_QUANTIZED_AXES:
        return False
    scale = draft.type(1)
    if scale.shape is None or len(scale.shape) > 1 or (scale.shape and scale.shape != (1,)):
        raise draft.fail("it has one scale for the whole tensor there")
    attrs = {name: value for name, value in draft.node.attrs.items() if name != "axis"}
    if attrs == draft.node.attrs:
        return False
    draft.call(draft.node.op, draft.node.inputs, attrs, outputs=draft.node.outputs)
    return True


# ---------------------------------------------------------------- normalization
def _layer_norm(draft: Draft) -> bool:
    """The mean and the deviation, taken in float32 as the operator says."""
    if draft.target >= _FIRST_WITH_LAYER_NORM or len(draft.node.outputs) > 1:
        return False
    return _normalize(draft, is_centred=True)


def _rms_norm(draft: Draft) -> bool:
    """The root of the mean square, taken in float32 as the operator says."""
    return draft.target < _FIRST_WITH_RMS_NORM and _normalize(draft, is_centred=False)


def _normalize(draft: Draft, *, is_centred: bool) -> bool:
    axes = _last_axes(draft)
    wide, found = draft.attr("stash_type"), draft.type(0)
    epsilon = draft.attr("epsilon")
    if axes is None or found.dtype is DType.UNKNOWN or not isinstance(epsilon, float):
        return False
    wide = wide if isinstance(wide, DType) else DType.F32
    x = draft.input(0)
    if found.dtype is not wide:
        x = draft.call("Cast", [x], {"to": wide})
    if is_centred:
        x = draft.call("Sub", [x, draft.call("ReduceMean", [x, draft.ints(axes)])])
    power = draft.call("ReduceMean", [draft.call("Mul", [x, x]), draft.ints(axes)])
    root = draft.call("Sqrt", [draft.call("Add", [power, draft.scalar(epsilon, wide)])])
    normal = draft.call("Div", [x, root])
    if found.dtype is not wide:
        normal = draft.call("Cast", [normal], {"to": found.dtype})
    bias, outputs = draft.input(2), draft.node.outputs
    scaled = draft.call("Mul", [normal, draft.input(1)], outputs=outputs if bias is None else None)
    if bias is not None:
        draft.call("Add", [scaled, bias], outputs=outputs)
    return True


def _last_axes(draft: Draft) -> list[int] | None:
    axis, rank = draft.attr("axis"), draft.type(0).rank
    if not isinstance(axis, int):
        return None
    if axis < 0:
        return list(range(axis, 0))
    return None if rank is None else list(range(axis - rank, 0))


_REDUCTIONS: Final = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip

FORMS: Final[Mapping[str, Form]] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "AveragePool": _pool,
    "CastLike": _cast_like,
    "Clip": _clip,
    "DequantizeLinear": _quantize,
    "Gemm": _gemm,
    "Hardmax": _softmax,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _softmax,
    "LpPool": _pool,
    "Max": _extreme,
    "MaxPool": _pool,
    "Mean": _extreme,
    "Min": _extreme,
    "Mod": _mod,
    "Pad": _pad,
    "Pow": _pow,
    "QuantizeLinear": _quantize,
    "RMSNormalization": _rms_norm,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Softmax": _softmax,
    "Split": _split,
    "Sum": _sum,
}
"""The operators that need more than other places for their parameters."""
