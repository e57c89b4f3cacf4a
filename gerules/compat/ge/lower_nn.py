"""Convolutions, pools, norms and softmax of the Graph Engine."""

from __future__ import annotations

import numpy as np

from gerules.compat.ge.lowering import REQUIRED, Lowering, Value, operator
from gerules.errors.counts import count_text
from gerules.ir import Attr, DType

_AUTO_PAD = {"SAME": "SAME_UPPER", "VALID": "VALID"}


def _need_nchw(n: Lowering) -> None:
    if n.attr("data_format") not in ("NCHW", None):
        raise n.fault(
            f"data_format {n.attr('data_format')} is not lowered",
            "build the graph in NCHW, the default"
        )  # fmt: skip


def _spatial(n: Lowering, name: str) -> tuple[int, ...]:
    """The two sizes of height and width; the Graph Engine gives four, one for each axis."""
    values = n.ints_attr(name)
    if len(values) == 4:
        return tuple(values[2:])
    if len(values) == 1:
        return values[0], values[0]
    if len(values) == 2:
        return tuple(values)
    raise n.fault(f"{name} has {count_text(len(values), 'number')}", "give one for each of N, C, H, W")


def _pads(n: Lowering, name: str = "pads") -> tuple[int, ...]:
    """Top, bottom, left, right in ONNX's order: all beginnings, then all ends."""
    values = n.ints_attr(name)
    if len(values) != 4:
        raise n.fault(f"{name} has {count_text(len(values), 'number')}", "give top, bottom, left, right")
    top, bottom, left, right = values
    return top, left, bottom, right


def _conv_attrs(n: Lowering) -> dict[str, Attr]:
    _need_nchw(n)
    n.refuse_offset()
    found: dict[str, Attr] = {"strides": _spatial(n, "strides"), "dilations": _spatial(n, "dilations")}
    padding = n.attr("padding")
    if padding in _AUTO_PAD:
        return found | {"auto_pad": _AUTO_PAD[str(padding)]}
    return found | {"pads": _pads(n)}


@operator(
    "Conv2D", "x filter bias? offset_w?", strides=REQUIRED, pads=REQUIRED, dilations=(1, 1, 1, 1), groups=1,
    data_format="NCHW", padding=None,
)  # fmt: skip
def _conv(n: Lowering) -> Value:
    return n.op("Conv", n["x"], n["filter"], n.get("bias"), group=n.int_attr("groups"), **_conv_attrs(n))


@operator(
    "Conv2DTransposeD", "x filter bias? offset_w?", input_size=(), strides=REQUIRED, pads=REQUIRED,
    dilations=(1, 1, 1, 1), groups=1, data_format="NCHW", output_padding=(0, 0, 0, 0), padding=None,
)  # fmt: skip
def _conv_transpose(n: Lowering) -> Value:
    made = n.op(
        "ConvTranspose", n["x"], n["filter"], n.get("bias"), group=n.int_attr("groups"),
        output_padding=_spatial(n, "output_padding"), **_conv_attrs(n),
    )  # fmt: skip
    wanted, shape = n.ints_attr("input_size"), n.sink.type_of(made).shape
    is_other = shape is not None and (
        len(shape) != len(wanted)
        or any(isinstance(dim, int) and dim != size for dim, size in zip(shape, wanted, strict=True))
    )
    if any(wanted) and is_other:
        given = list(shape or ())
        raise n.fault(f"input_size is {wanted}, and it gives {given}", "correct pads or output_padding")
    return made


@operator("BiasAdd", "x bias", data_format="NCHW")
def _bias_add(n: Lowering) -> Value:
    if n.attr("data_format") == "NHWC":
        return n.op("Add", n["x"], n["bias"])
    bias = n.sink.array_of(n["bias"])
    if bias is not None:
        return n.op("Add", n["x"], n.sink.add_const(bias.reshape(-1, 1, 1)))
    return n.op("Add", n["x"], n.op("Reshape", n["bias"], n.const([-1, 1, 1])))


# ---------------------------------------------------------------- pools
@operator("MaxPool", "x", ksize=REQUIRED, strides=REQUIRED, padding=REQUIRED, data_format="NCHW")
def _max_pool(n: Lowering) -> Value:
    _need_nchw(n)
    return n.op("MaxPool", n["x"], **_window(n), auto_pad=_auto_pad(n, n.text_attr("padding")))


@operator("AvgPool", "x", ksize=REQUIRED, strides=REQUIRED, padding=REQUIRED, data_format="NCHW")
def _avg_pool(n: Lowering) -> Value:
    _need_nchw(n)
    return n.op("AveragePool", n["x"], **_window(n), auto_pad=_auto_pad(n, n.text_attr("padding")))


@operator(
    "MaxPoolV3", "x", ksize=REQUIRED, strides=REQUIRED, padding_mode="CALCULATED", pads=(0, 0, 0, 0),
    data_format="NCHW", global_pooling=False, ceil_mode=False,
)  # fmt: skip
def _max_pool_v3(n: Lowering) -> Value:
    if n.int_attr("global_pooling"):
        return n.op("GlobalMaxPool", n["x"])
    return n.op("MaxPool", n["x"], **_window(n), **_calculated(n))


@operator(
    "AvgPoolV2", "x", ksize=REQUIRED, strides=REQUIRED, padding_mode="CALCULATED", pads=(0, 0, 0, 0),
    data_format="NCHW", global_pooling=False, ceil_mode=False, exclusive=True, divisor_override=0,
)  # fmt: skip
def _avg_pool_v2(n: Lowering) -> Value:
    if n.int_attr("global_pooling"):
        return n.op("GlobalAveragePool", n["x"])
    if n.int_attr("divisor_override"):
        raise n.fault("divisor_override is not lowered", "multiply instead")
    counts = int(not n.int_attr("exclusive"))
    return n.op("AveragePool", n["x"], **_window(n), **_calculated(n), count_include_pad=counts)


@operator("GlobalAveragePool", "x")
def _global_average(n: Lowering) -> Value:
    return n.op("GlobalAveragePool", n["x"])


def _window(n: Lowering) -> dict[str, Attr]:
    return {"kernel_shape": _spatial(n, "ksize"), "strides": _spatial(n, "strides")}


def _calculated(n: Lowering) -> dict[str, Attr]:
    _need_nchw(n)
    mode = n.text_attr("padding_mode")
    if mode == "CALCULATED":
        return {"pads": _pads(n), "ceil_mode": n.int_attr("ceil_mode")}
    return {"auto_pad": _auto_pad(n, mode), "ceil_mode": n.int_attr("ceil_mode")}


def _auto_pad(n: Lowering, mode: str) -> str:
    if mode not in _AUTO_PAD:
        raise n.fault(f"padding {mode} is none", "use SAME or VALID")
    return _AUTO_PAD[mode]


# ---------------------------------------------------------------- norms
@operator("BNInference BNInfer", "x scale offset mean variance", epsilon=0.0001)
def _batch_norm_inference(n: Lowering) -> Value:
    return _normalized(n)


@operator(
    "BatchNorm", "x scale offset mean variance",
    "y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3", epsilon=0.0001,
    data_format="NCHW", is_training=False, exponential_avg_factor=1.0,
)  # fmt: skip
def _batch_norm(n: Lowering) -> tuple[Value, ...]:
    _need_nchw(n)
    if n.int_attr("is_training"):
        raise n.fault("training is not lowered", "set is_training to False")
    # Without training, statistics are passed on; the last output means nothing, and is not there.
    return _normalized(n), n["mean"], n["variance"], n["mean"], n["variance"]


def _normalized(n: Lowering) -> Value:
    inputs = (n["x"], n["scale"], n["offset"], n["mean"], n["variance"])
    return n.op("BatchNormalization", *inputs, epsilon=n.float_attr("epsilon"))


@operator(
    "LayerNorm", "x gamma beta", "y mean variance", begin_norm_axis=0, begin_params_axis=0, epsilon=1e-7
)
def _layer_norm(n: Lowering) -> tuple[Value, ...]:
    epsilon = n.float_attr("epsilon")
    made = n.ops(
        n.n_read, "LayerNormalization", n["x"], n["gamma"], n["beta"], axis=n.int_attr("begin_norm_axis"),
        epsilon=epsilon
    )  # fmt: skip
    if len(made) < 3:
        return made
    y, mean, inverse = made
    square = n.op("Reciprocal", n.op("Mul", inverse, inverse))
    return y, mean, n.op("Sub", square, n.number_like(epsilon, inverse))


@operator("LayerNormV4", "x normalized_shape gamma? beta?", "y mean rstd", epsilon=1e-5)
def _layer_norm_v4(n: Lowering) -> tuple[Value, ...]:
    gamma = n.get("gamma")
    if gamma is None:
        dtype = n.sink.type_of(n["x"]).dtype
        known = np.float32 if dtype is DType.UNKNOWN else dtype.numpy
        gamma = n.const(np.ones(n.ints("normalized_shape")), known)
    axis = -len(n.ints("normalized_shape"))
    return n.ops(
        n.n_read, "LayerNormalization", n["x"], gamma, n.get("beta"), axis=axis,
        epsilon=n.float_attr("epsilon"),
    )  # fmt: skip


@operator("SoftmaxV2", "x", axes=(-1,), half_to_float=False)
def _softmax(n: Lowering) -> Value:
    return n.op("Softmax", n["x"], axis=_one_axis(n))


@operator("LogSoftmaxV2", "logits", axes=(-1,))
def _log_softmax(n: Lowering) -> Value:
    return n.op("LogSoftmax", n["logits"], axis=_one_axis(n))


def _one_axis(n: Lowering) -> int:
    axes = n.ints_attr("axes")
    if len(axes) != 1:
        raise n.fault(f"{len(axes)} axes at once are not lowered", "give one axis")
    return axes[0]
