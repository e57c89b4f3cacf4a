"""Attributes of matched operators as the Graph Engine calls them: ONNX's, read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from gerules.compat.ge.graph.types import data_type_of
from gerules.ir import DType

Attrs = Mapping[str, object]
Tell = Callable[[Attrs], object]

UNTOLD: Final = object()
"""What stands for an attribute whose value in the model is not known here."""

_PADDING: Final = {"NOTSET": "EXPLICIT", "SAME_UPPER": "SAME", "VALID": "VALID"}


def _one(name: str, default: object) -> Tell:
    return lambda attrs: attrs.get(name, default)


def _flag(name: str, default: int) -> Tell:
    return lambda attrs: bool(attrs.get(name, default))


def _listed(name: str, default: object = UNTOLD) -> Tell:
    def tell(attrs: Attrs) -> object:
        value = attrs.get(name, default)
        if value is UNTOLD:
            return UNTOLD
        return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else [value]

    return tell


def _sizes(name: str, default: int = 1) -> Tell:
    """One number for each axis, those of batch and channels included."""
    return lambda attrs: [default] * 2 + list(cast("tuple[int, ...]", attrs.get(name, (default,) * 2)))


def _pads(attrs: Attrs) -> object:
    pads = cast("tuple[int, ...]", attrs.get("pads", (0, 0, 0, 0)))
    if attrs.get("auto_pad", "NOTSET") != "NOTSET" or len(pads) != 4:
        return UNTOLD
    top, left, bottom, right = pads
    return [top, bottom, left, right]


def _padding(names: Mapping[str, str]) -> Tell:
    return lambda attrs: names.get(str(attrs.get("auto_pad", "NOTSET")), UNTOLD)


def _data_type(attrs: Attrs) -> object:
    dtype = attrs.get("to")
    return data_type_of(dtype) if isinstance(dtype, DType) else UNTOLD


_CONV: Final[Mapping[str, Tell]] = {
    "strides": _sizes("strides"), "dilations": _sizes("dilations"), "groups": _one("group", 1),
    "pads": _pads, "padding": _padding(_PADDING),
}  # fmt: skip
_WINDOW: Final[Mapping[str, Tell]] = {"ksize": _sizes("kernel_shape"), "strides": _sizes("strides")}
_NAMED_PADS: Final[Mapping[str, Tell]] = {"padding": _padding({"SAME_UPPER": "SAME", "VALID": "VALID"})}
_POOL: Final[Mapping[str, Tell]] = {
    **_WINDOW, "pads": _pads, "ceil_mode": _flag("ceil_mode", 0),
    "padding_mode": _padding({**_PADDING, "NOTSET": "CALCULATED"}),
}  # fmt: skip
_EPSILON: Final = {"epsilon": _one("epsilon", 1e-5)}
_KEPT: Final = {"keep_dims": _flag("keepdims", 1)}
_AXIS: Final = _one("axis", 0)

# Source of the defaults: ONNX Operators, the newest version of each.
_TOLD: Final[Mapping[tuple[str, str], Mapping[str, Tell]]] = {
    ("LeakyRelu", "LeakyRelu"): {"negative_slope": _one("alpha", 0.01)},
    ("Elu", "Elu"): {"alpha": _one("alpha", 1.0)},
    ("HardSigmoid", "HardSigmoid"): {"alpha": _one("alpha", 0.2), "beta": _one("beta", 0.5)},
    ("GeluV2", "Gelu"): {"approximate": _one("approximate", "none")},
    ("Cast", "Cast"): {"dst_type": _data_type},
    ("GEMM", "Gemm"): {"transpose_a": _flag("transA", 0), "transpose_b": _flag("transB", 0)},
    ("TopKV2", "TopK"): {
        "dim": _one("axis", -1), "largest": _flag("largest", 1), "sorted": _flag("sorted", 1),
    },
    ("Cumsum", "CumSum"): {"exclusive": _flag("exclusive", 0), "reverse": _flag("reverse", 0)},
    ("Conv2D", "Conv"): _CONV,
    ("Conv2DTransposeD", "ConvTranspose"): {
        **_CONV, "output_padding": _sizes("output_padding", 0),
    },
    ("MaxPool", "MaxPool"): {**_WINDOW, **_NAMED_PADS},
    ("AvgPool", "AveragePool"): {**_WINDOW, **_NAMED_PADS},
    ("MaxPoolV3", "MaxPool"): _POOL,
    ("AvgPoolV2", "AveragePool"): {
        **_POOL, "exclusive": lambda attrs: not attrs.get("count_include_pad", 0),
    },
    ("BNInference", "BatchNormalization"): _EPSILON,
    ("BNInfer", "BatchNormalization"): _EPSILON,
    ("BatchNorm", "BatchNormalization"): _EPSILON,
    ("LayerNorm", "LayerNormalization"): {**_EPSILON, "begin_norm_axis": _one("axis", -1)},
    ("LayerNormV4", "LayerNormalization"): _EPSILON,
    ("SoftmaxV2", "Softmax"): {"axes": _listed("axis", -1)},
    ("LogSoftmaxV2", "LogSoftmax"): {"axes": _listed("axis", -1)},
    ("Reshape", "Reshape"): {"allowzero": _one("allowzero", 0)},
    ("Flatten", "Flatten"): {"axis": _one("axis", 1)},
    ("FlattenV2", "Flatten"): {"axis": _one("axis", 1)},
    ("TransposeD", "Transpose"): {"perm": _listed("perm")},
    ("ConcatD", "Concat"): {"concat_dim": _AXIS},
    ("ConcatV2D", "Concat"): {"concat_dim": _AXIS},
    ("SplitD", "Split"): {"split_dim": _AXIS},
    ("GatherV2D", "Gather"): {"axis": _AXIS},
    ("PadV3", "Pad"): {"mode": _one("mode", "constant")},
    **{
        (f"{op}{ending}", op): _KEPT
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
        for ending in ("", "D")
    },
}  # fmt: skip
"""By the Graph Engine's operator and the one of ONNX that has its attributes."""

_BY_CONSTANT: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("ReduceSumD", "ReduceMeanD", "ReduceMaxD", "ReduceMinD", "ReduceProdD"), ("axes",)),
    "Squeeze": ("axis",), "Unsqueeze": ("axes",), "TileD": ("multiples",), "BroadcastToD": ("shape",),
    "SliceD": ("offsets", "size"), "PadD": ("paddings",), "Pack": ("axis",),
}  # fmt: skip
"""Attributes that ONNX's operators have as constant inputs, which a pattern leaves open."""


def has_attrs(type: str, op: str) -> bool:
    """Whether an operator of ONNX has attributes of one of the Graph Engine's."""
    return (type, op) in _TOLD


def tell_attrs(type: str, op: str, attrs: Attrs) -> dict[str, object]:
    """Return the attributes of an operator as the Graph Engine calls them, from those of ONNX's.

    An attribute that has no such form, as pads that a mode chooses, is `UNTOLD`.
    """
    return {name: tell(attrs) for name, tell in _TOLD[type, op].items()}


def open_attrs(type: str) -> dict[str, object]:
    """Return the attributes that are constants where they are matched: all `UNTOLD`."""
    return dict.fromkeys(_BY_CONSTANT.get(type, ()), UNTOLD)
