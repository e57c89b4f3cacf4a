"""MindSpore's reductions, in those of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gerules.frontends.mindir.items import Items, Known, NodeFault, Tensor
from gerules.frontends.mindir.operands import Call
from gerules.frontends.mindir.translate import Translate
from gerules.ir import Attr, DType

_REDUCTIONS: Final[Mapping[str, str]] = {
    "ReduceMean": "ReduceMean", "ReduceSum": "ReduceSum", "ReduceMax": "ReduceMax", "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd", "SumExt": "ReduceSum", "MeanExt": "ReduceMean", "ProdExt": "ReduceProd",
}  # fmt: skip
_TYPED: Final = frozenset(("SumExt", "MeanExt", "ProdExt"))
"""Those that end in an element type to compute in."""


def _reduce(call: Call) -> int:
    value = call.tensor(0)
    wanted = call.declared_dtype
    if call.op in _TYPED and wanted not in (DType.UNKNOWN, call.dtype(value)):
        value = call.add("Cast", [value], {"to": wanted})
    return _reduced(call, _REDUCTIONS[call.op], value)


def _reduced(call: Call, op: str, value: int) -> int:
    axes = _axes(call)
    attrs: dict[str, Attr] = {"keepdims": int(call.truth("keep_dims", 2))}
    return call.add(op, [value, call.ints(axes)] if axes else [value], attrs)


def _axes(call: Call) -> list[int]:
    """The axes; none of them means all."""
    return [] if call.given("axis", 1, ()) is None else call.list("axis", 1, ())


def _reduce_truth(call: Call) -> int:
    """All of some truth values is their least, any of them their greatest."""
    number = call.add("Cast", [call.tensor(0)], {"to": DType.I32})
    found = _reduced(call, "ReduceMin" if call.op == "ReduceAll" else "ReduceMax", number)
    return call.add("Cast", [found], {"to": DType.BOOL})


def _extreme(call: Call) -> int:
    return call.add("ReduceMax" if call.op == "Max" else "ReduceMin", [call.tensor(0)], {"keepdims": 0})


def _arg(call: Call) -> int:
    """The place of the greatest or least element, as the declared kind of whole number."""
    value, op = call.tensor(0), "ArgMin" if call.op in ("Argmin", "ArgMinExt", "ArgMin") else "ArgMax"
    keeps = int(call.op.endswith("Ext") and call.truth("keepdim", 2))
    if call.given("axis", 1, -1) is None:
        value, axis = call.add("Reshape", [value, call.ints([-1])]), 0
    else:
        axis = call.integer("axis", 1, -1)
    found = call.add(op, [value], {"axis": axis, "keepdims": keeps})
    wanted = call.declared_dtype
    return found if wanted in (DType.UNKNOWN, DType.I64) else call.add("Cast", [found], {"to": wanted})


def _arg_with_value(call: Call) -> Items:
    value, is_least = call.tensor(0), "Min" in call.op
    axis, keeps = call.integer("axis", 1, 0), int(call.truth("keep_dims", 2))
    place = call.add("ArgMin" if is_least else "ArgMax", [value], {"axis": axis, "keepdims": keeps})
    op = "ReduceMin" if is_least else "ReduceMax"
    best = call.add(op, [value, call.ints([axis])], {"keepdims": keeps})
    if call.declared_dtype_of(0) is DType.I32:
        place = call.add("Cast", [place], {"to": DType.I32})
    return Items((Tensor(call.build, place), Tensor(call.build, best)))


def _cumulative_sum(call: Call) -> int:
    attrs: dict[str, Attr] = {
        "exclusive": int(call.truth("exclusive", 2)),
        "reverse": int(call.truth("reverse", 3)),
    }
    axis = call.add("Squeeze", [call.ints([call.integer("axis", 1)])])
    return call.add("CumSum", [call.tensor(0), axis], attrs)


def _top_k(call: Call) -> Items:
    """The greatest, or with `TopkExt` also the least, along an axis; places are 32 bits wide in `TopK`."""
    is_ext = call.op == "TopkExt"
    attrs: dict[str, Attr] = {
        "axis": call.integer("dim", 2, -1) if is_ext else -1,
        "largest": int(call.truth("largest", 3, True)) if is_ext else 1,
        "sorted": 1,
    }
    best, places = call.add_many("TopK", [call.tensor(0), call.ints([call.integer("k", 1)])], attrs, 2)
    if call.declared_dtype_of(1) is DType.I32:
        places = call.add("Cast", [places], {"to": DType.I32})
    return Items((Tensor(call.build, best), Tensor(call.build, places)))


def _softmax(call: Call) -> int:
    op = "LogSoftmax" if call.op.startswith("Log") else "Softmax"
    axes = call.list("axis", 1, (-1,))
    if len(axes) != 1:
        raise NodeFault("a softmax over several axes is not read")
    return call.add(op, [call.tensor(0)], {"axis": axes[0]})


def _layer_norm(call: Call) -> Items:
    value, scale, bias = call.tensor(0), call.tensor(1), call.tensor(2)
    axis = call.integer("begin_norm_axis", 3, 1)
    if call.integer("begin_params_axis", 4, axis) != axis:
        raise NodeFault("its parameters begin at another axis than the normalization")
    attrs: dict[str, Attr] = {"axis": axis, "epsilon": call.real("epsilon", 5, 1e-7)}
    made, mean = call.add_many("LayerNormalization", [value, scale, bias], attrs, 2)
    # The third result is the variance, which ONNX does not give; nobody reads it at inference.
    return Items((Tensor(call.build, made), Tensor(call.build, mean), Known(None)))


def _layer_norm_ext(call: Call) -> Items:
    value, axes = call.tensor(0), call.list("normalized_shape", 1)
    if not (call.has(2) and call.has(3)):
        raise NodeFault("a LayerNorm without scale or bias is not read")
    attrs: dict[str, Attr] = {"axis": -len(axes), "epsilon": call.real("eps", 4, 1e-5)}
    made, mean = call.add_many("LayerNormalization", [value, call.tensor(2), call.tensor(3)], attrs, 2)
    return Items((Tensor(call.build, made), Tensor(call.build, mean), Known(None)))


def _rms_norm(call: Call) -> Items:
    """Computed from its parts: the operator of ONNX is newer than the opset written."""
    value, scale = call.tensor(0), call.tensor(1)
    square = call.add("ReduceMean", [call.add("Mul", [value, value]), call.ints([-1])], {"keepdims": 1})
    shifted = call.add("Add", [square, call.number(call.real("epsilon", 2, 1e-6), value)])
    inverse = call.add("Reciprocal", [call.add("Sqrt", [shifted])])
    made = call.add("Mul", [call.add("Mul", [value, inverse]), scale])
    return Items((Tensor(call.build, made), Tensor(call.build, inverse)))


def _group_norm(call: Call) -> Items:
    attrs: dict[str, Attr] = {
        "num_groups": call.integer("num_groups", 1),
        "epsilon": call.real("eps", 4, 1e-5),
    }
    made = call.add("GroupNormalization", [call.tensor(0), call.tensor(2), call.tensor(3)], attrs)
    return Items((Tensor(call.build, made), Known(None), Known(None)))


def _batch_norm(call: Call) -> Items:
    if call.truth("is_training", 5):
        raise NodeFault("it normalizes by the batch, as in training; export the model with set_train(False)")
    if call.given("format", 8, "NCHW") not in ("NCHW", 0, "NCDHW", 14):
        raise NodeFault("its channels come last, which is not read")
    places = [call.tensor(place) for place in range(5)]
    made = call.add("BatchNormalization", places, {"epsilon": call.real("epsilon", 6, 1e-5)})
    return Items((Tensor(call.build, made), *(Known(None) for _ in range(4))))


def _batch_norm_ext(call: Call) -> Items:
    if call.truth("training", 5):
        raise NodeFault("it normalizes by the batch, as in training; export the model with set_train(False)")
    places = [call.tensor(place) for place in range(5)]
    made = call.add("BatchNormalization", places, {"epsilon": call.real("epsilon", 7, 1e-5)})
    return Items((Tensor(call.build, made), Known(None), Known(None)))


REDUCTIONS: Final[Mapping[str, Translate]] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "ReduceAll": _reduce_truth, "ReduceAny": _reduce_truth,
    "Max": _extreme, "Min": _extreme,
    "Argmax": _arg, "Argmin": _arg, "ArgMax": _arg, "ArgMin": _arg, "ArgMaxExt": _arg, "ArgMinExt": _arg,
    "ArgMaxWithValue": _arg_with_value, "ArgMinWithValue": _arg_with_value,
    "CumSum": _cumulative_sum, "TopK": _top_k, "TopkExt": _top_k,
    "Softmax": _softmax, "LogSoftmax": _softmax, "LogSoftmaxExt": _softmax,
    "LayerNorm": _layer_norm, "LayerNormExt": _layer_norm_ext, "RmsNorm": _rms_norm, "GroupNorm": _group_norm,
    "BatchNorm": _batch_norm, "BatchNormExt": _batch_norm_ext,
}  # fmt: skip
