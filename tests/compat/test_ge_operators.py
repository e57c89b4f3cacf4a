"""Every operator that the Graph Engine's interface lowers, against numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import erf, pi, sqrt

import numpy as np
import numpy.typing as npt
import pytest

from gerules.compat import ge
from gerules.compat.ge.lowering import OPERATORS
from gerules.compat.ge.to_graph import to_graph
from gerules.ir import TensorType, dtype_of
from gerules.ops import Schemas, infer_graph
from gerules.runtime.reference import evaluate

Array = npt.NDArray[np.generic]
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """An operator on tensors; what is no array is a constant or an attribute, as scripts write it."""

    type: str
    inputs: Sequence[object]
    expected: object
    attrs: Mapping[str, object] = field(default_factory=dict)
    tolerance: float = 2e-6


def f32(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    rng = np.random.default_rng(sum(shape) + 17)
    return rng.uniform(low, high, shape).astype(np.float32)


X, Y, POSITIVE, SMALL = (
    f32(2, 3, 4),
    f32(2, 3, 4) + 0.3,
    f32(2, 3, 4, low=0.2),
    f32(2, 3, 4, low=-0.9, high=0.9),
)
IMAGE = f32(2, 4, 7, 6)
SCHEMAS = Schemas()


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def tanh_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def erf_of(x: Array) -> Array:
    return np.vectorize(erf)(x)


UNARY: Mapping[str, tuple[Array, Callable[[Array], Array]]] = {
    "Relu": (X, lambda x: np.maximum(x, 0)), "Sigmoid": (X, sigmoid), "Tanh": (X, np.tanh),
    "Abs": (X, np.abs),    "Neg": (X, np.negative), "Exp": (X, np.exp), "Sqrt": (POSITIVE, np.sqrt),
    "Log": (POSITIVE, np.log),
    "Reciprocal": (POSITIVE, lambda x: 1 / x), "Erf": (X, erf_of), "Sin": (X, np.sin), "Cos": (X, np.cos),
    "Floor": (X, np.floor), "Ceil": (X, np.ceil), "Round": (X, np.rint), "Rint": (X, np.rint),
    "Sign": (X, np.sign), "IsNan": (X, np.isnan), "LogicalNot": (X > 0, np.logical_not),
    "Softplus": (X, lambda x: np.log1p(np.exp(x))), "Softsign": (X, lambda x: x / (1 + np.abs(x))),
    "Identity": (X, lambda x: x), "TensorMove": (X, lambda x: x), "StopGradient": (X, lambda x: x),
    "HardSwish": (X, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Mish": (X, lambda x: x * np.tanh(np.log1p(np.exp(x)))), "Asin": (SMALL, np.arcsin),
    "Acos": (SMALL, np.arccos),    "Atan": (X, np.arctan), "Sinh": (X, np.sinh), "Cosh": (X, np.cosh),
    "Square": (X, np.square),
    "Rsqrt": (POSITIVE, lambda x: 1 / np.sqrt(x)), "Relu6": (X * 5, lambda x: np.clip(x, 0, 6)),
    "Gelu": (X, tanh_gelu), "FastGelu": (X, lambda x: x / (1 + np.exp(-1.702 * x))),
}  # fmt: skip

BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "RealDiv": np.divide,
    "Div": np.divide, "Maximum": np.maximum, "Minimum": np.minimum, "Equal": np.equal, "Less": np.less,
    "LessEqual": np.less_equal, "Greater": np.greater, "GreaterEqual": np.greater_equal,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}  # fmt: skip

REDUCTIONS = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceProd": np.prod,
}  # fmt: skip


def conv(
    x: Array, w: Array, strides: tuple[int, int], pads: Sequence[int], dilation: int, groups: int
) -> Array:
    """A convolution by its definition; `pads` are top, bottom, left, right."""
    top, bottom, left, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, m, (kh, kw) = x.shape[0], w.shape[0], w.shape[2:]
    height = (padded.shape[2] - dilation * (kh - 1) - 1) // strides[0] + 1
    width = (padded.shape[3] - dilation * (kw - 1) - 1) // strides[1] + 1
    out = np.zeros((n, m, height, width))
    per = m // groups
    for o in range(m):
        channels = slice(o // per * w.shape[1], (o // per + 1) * w.shape[1])
        for i in range(height):
            for j in range(width):
                window = padded[
                    :, channels, i * strides[0] : i * strides[0] + dilation * kh : dilation,
                    j * strides[1] : j * strides[1] + dilation * kw : dilation,
                ]  # fmt: skip
                out[:, o, i, j] = (window[:, :, :kh, :kw] * w[o]).sum((1, 2, 3))
    return out


def pool(x: Array, size: int, stride: int, pads: Sequence[int], kind: str) -> Array:
    """A pool by its definition; an average counts what is inside."""
    top, bottom, left, right = pads
    padded = np.pad(
        x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=np.nan
    )
    height, width = ((length - size) // stride + 1 for length in padded.shape[2:])
    reduce = np.nanmax if kind == "max" else np.nanmean
    rows = [
        [
            reduce(padded[:, :, i * stride : i * stride + size, j * stride : j * stride + size], axis=(2, 3))
            for j in range(width)
        ]
        for i in range(height)
    ]  # fmt: skip
    return np.moveaxis(np.array(rows), (0, 1), (2, 3))


def transposed_conv(x: Array, w: Array, stride: int) -> Array:
    out = np.zeros((x.shape[0], w.shape[1], (x.shape[2] - 1) * stride + 3, (x.shape[3] - 1) * stride + 3))
    for i in range(x.shape[2]):
        for j in range(x.shape[3]):
            made = np.einsum("nc,cmhw->nmhw", x[:, :, i, j], w)
            out[:, :, i * stride : i * stride + 3, j * stride : j * stride + 3] += made
    return out


def normalized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def softmax(x: Array, axis: int) -> Array:
    shifted = np.exp(x - x.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


A, B, BIAS = f32(3, 5), f32(5, 4), f32(4)
W, WG, V4 = f32(8, 4, 3, 3), f32(8, 2, 3, 3), f32(4)
INDEX = np.array([[2, 0], [1, 1]], np.int64)
SPREAD = POSITIVE[0, 0] + 0.5
CHANNEL = (1, 4, 1, 1)
BATCH_T = f32(2, 3, 5).swapaxes(1, 2).copy()

CASES = [
    *(Case(type, [x], call(x)) for type, (x, call) in UNARY.items()),
    *(Case(type, [X, Y], call(X, Y)) for type, call in BINARY.items()),
    Case("Pow", [POSITIVE, Y], POSITIVE**Y),
    Case("LogicalAnd", [X > 0, Y > 0], (X > 0) & (Y > 0)),
    Case("LogicalOr", [X > 0, Y > 0], (X > 0) | (Y > 0)),
    *(Case(op, [X, [0, 2]], call(X, axis=(0, 2))) for op, call in REDUCTIONS.items()),
    *(
        Case(f"{op}D", [X], call(X, axis=(1,), keepdims=True), {"axes": [1], "keep_dims": True})
        for op, call in REDUCTIONS.items()
    ),
    Case("GeluV2", [X], X * 0.5 * (1 + erf_of(X / sqrt(2)))),
    Case("GeluV2", [X], tanh_gelu(X), {"approximate": "tanh"}),
    Case("Swish", [X], X * sigmoid(X)),
    Case("Swish", [X], X * sigmoid(1.5 * X), {"scale": 1.5}),
    Case("ClipByValue", [X, -0.5, 1.0], np.clip(X, -0.5, 1)),
    Case("LeakyRelu", [X], np.where(X > 0, X, 0.2 * X), {"negative_slope": 0.2}),
    Case("Elu", [X], np.where(X > 0, X, 0.7 * np.expm1(X)), {"alpha": 0.7}),
    Case("HardSigmoid", [X], np.clip(X / 6 + 0.5, 0, 1)),
    *(
        Case("PRelu", [IMAGE, weight], np.where(IMAGE > 0, IMAGE, IMAGE * V4.reshape(CHANNEL)))
        for weight in (V4, V4.reshape(4, 1, 1))
    ),
    Case("PRelu", [IMAGE, V4[:1]], np.where(IMAGE > 0, IMAGE, IMAGE * V4[0])),
    Case("PRelu", [A, A[0]], np.where(A > 0, A, A * A[0])),
    Case("Muls", [X], X * np.float32(1.5), {"value": 1.5}),
    Case("Adds", [X], X + np.float32(1.5), {"value": 1.5}),
    Case("AddN", [[X, Y, X]], X + Y + X, {"N": 3}),
    Case("Select", [X > 0, X, Y], np.where(X > 0, X, Y)),
    Case("SelectV2", [X > 0, X, Y], np.where(X > 0, X, Y)),
    Case("Cast", [X], X.astype(np.int32), {"dst_type": ge.DataType.DT_INT32}),
    # ------------------------------------------------------------ products
    Case("MatMul", [A, B], A @ B),
    Case("MatMulV2", [A, B, BIAS], A @ B + BIAS),
    Case("MatMulV2", [A.T.copy(), B.T.copy()], A @ B, {"transpose_x1": True, "transpose_x2": True}),
    Case("BatchMatMul", [f32(2, 3, 5), f32(2, 5, 4)], f32(2, 3, 5) @ f32(2, 5, 4)),
    Case("BatchMatMul", [BATCH_T, f32(2, 5, 4)], f32(2, 3, 5) @ f32(2, 5, 4), {"adj_x1": True}),
    Case("BatchMatMulV2", [BATCH_T, B.T.copy(), BIAS], f32(2, 3, 5) @ B + BIAS,
         {"adj_x1": True, "adj_x2": True}),
    Case("BatchMatMulV2", [f32(2, 3, 5), f32(5, 4), BIAS], f32(2, 3, 5) @ f32(5, 4) + BIAS),
    Case("GEMM", [A, B, BIAS, 0.5, 2.0], 0.5 * A @ B + 2 * BIAS),
    # ------------------------------------------------------------ choices
    Case("ArgMaxV2", [X, 1], X.argmax(1)),
    Case("ArgMaxV2", [X, 2], X.argmax(2).astype(np.int32), {"dtype": ge.DataType.DT_INT32}),
    Case("ArgMin", [X, 0], X.argmin(0)),
    Case("TopKV2", [X, 2], (np.sort(X)[..., ::-1][..., :2], np.argsort(-X)[..., :2].astype(np.int32))),
    Case("Cumsum", [X, 1], X.cumsum(1)),
    # ------------------------------------------------------------ convolutions and pools
    Case(
        "Conv2D", [IMAGE, W], conv(IMAGE, W, (2, 1), (1, 0, 2, 1), 1, 1),
        {"strides": [1, 1, 2, 1], "pads": [1, 0, 2, 1]}, 1e-5,
    ),
    Case(
        "Conv2D", [IMAGE, WG, f32(8)],
        conv(IMAGE, WG, (1, 1), (2, 2, 2, 2), 2, 2) + f32(8).reshape(1, 8, 1, 1),
        {"strides": [1, 1, 1, 1], "pads": [2, 2, 2, 2], "dilations": [1, 1, 2, 2], "groups": 2}, 1e-5,
    ),
    Case(
        "Conv2DTransposeD", [IMAGE, f32(4, 5, 3, 3)], transposed_conv(IMAGE, f32(4, 5, 3, 3), 2),
        {"strides": [1, 1, 2, 2], "pads": [0, 0, 0, 0]}, 1e-5,
    ),
    Case("BiasAdd", [IMAGE, V4], IMAGE + V4.reshape(CHANNEL)),
    Case("BiasAdd", [X, V4], X + V4, {"data_format": "NHWC"}),
    Case(
        "MaxPool", [IMAGE], pool(IMAGE, 2, 2, (0, 0, 0, 0), "max"),
        {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "padding": "VALID"},
    ),
    Case(
        "AvgPool", [IMAGE], pool(IMAGE, 2, 2, (0, 0, 0, 0), "mean"),
        {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "padding": "VALID"},
    ),
    Case(
        "MaxPoolV3", [IMAGE], pool(IMAGE, 3, 2, (1, 0, 1, 1), "max"),
        {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [1, 0, 1, 1]},
    ),
    Case(
        "AvgPoolV2", [IMAGE], pool(IMAGE, 3, 2, (1, 1, 1, 1), "mean"),
        {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1]},
    ),
    Case(
        "AvgPoolV2", [IMAGE], IMAGE.mean((2, 3), keepdims=True),
        {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "global_pooling": True},
    ),
    Case("GlobalAveragePool", [IMAGE], IMAGE.mean((2, 3), keepdims=True)),
    # ------------------------------------------------------------ norms
    *(
        Case(
            type, [IMAGE, V4, BIAS, V4 / 2, SPREAD],
            (IMAGE - (V4 / 2).reshape(CHANNEL)) / np.sqrt(SPREAD.reshape(CHANNEL) + 1e-3)
            * V4.reshape(CHANNEL) + BIAS.reshape(CHANNEL),
            {"epsilon": 1e-3}, 1e-5,
        )
        for type in ("BNInference", "BNInfer")
    ),
    Case(
        "BatchNorm", [IMAGE, V4, BIAS, V4 / 2, SPREAD],
        (
            (IMAGE - (V4 / 2).reshape(CHANNEL)) / np.sqrt(SPREAD.reshape(CHANNEL) + 1e-3)
            * V4.reshape(CHANNEL) + BIAS.reshape(CHANNEL), V4 / 2, SPREAD, V4 / 2, SPREAD,
        ),
        {"epsilon": 1e-3}, 1e-5,
    ),
    Case(
        "LayerNorm", [X, V4, BIAS],
        (
            normalized(X, (2,), 1e-3) * V4 + BIAS, X.mean(2, keepdims=True), X.var(2, keepdims=True),
        ),
        {"begin_norm_axis": 2, "epsilon": 1e-3}, 1e-5,
    ),
    *(
        Case(
            "LayerNormV4", [X, shape, *more],
            (
                normalized(X, axes, 1e-5) * scale + shift, X.mean(axes, keepdims=True),
                1 / np.sqrt(X.var(axes, keepdims=True) + 1e-5),
            ),
            {}, 1e-5,
        )
        for shape, axes, more, scale, shift in (
            ([3, 4], (1, 2), [], 1, 0), ([4], (2,), [V4, BIAS], V4, BIAS),
        )
    ),
    Case("SoftmaxV2", [X], softmax(X, -1)),
    Case("SoftmaxV2", [X], softmax(X, 1), {"axes": [1]}),
    Case("LogSoftmaxV2", [X], np.log(softmax(X, -1))),
    # ------------------------------------------------------------ shapes
    Case("Reshape", [X, [4, -1]], X.reshape(4, -1)),
    Case("FlattenV2", [X], X.reshape(2, 12)),
    Case("FlattenV2", [IMAGE], IMAGE.reshape(2, 28, 6), {"axis": 1, "end_axis": 2}),
    Case("FlattenV2", [IMAGE], IMAGE.reshape(2, 4, 42), {"axis": -2}),
    Case("FlattenV2", [IMAGE], IMAGE.reshape(-1), {"axis": 0}),
    Case("FlattenV2", [IMAGE], IMAGE, {"axis": 3, "end_axis": 3}),
    Case("Flatten", [X], X.reshape(2, 12)),
    Case("Squeeze", [X.reshape(2, 1, 3, 4, 1)], X.reshape(2, 3, 4, 1), {"axis": [1]}),
    Case("Squeeze", [X.reshape(2, 1, 3, 4, 1)], X),
    Case("Unsqueeze", [X], X[:, None], {"axes": [1]}),
    Case("ExpandDims", [X, -1], X[..., None]),
    Case("Transpose", [X, [2, 0, 1]], X.transpose(2, 0, 1)),
    Case("TransposeD", [X], X.transpose(1, 0, 2), {"perm": [1, 0, 2]}),
    Case("Shape", [X], np.array([2, 3, 4])),
    Case("ConcatV2", [[X, Y], 1], np.concatenate([X, Y], 1), {"N": 2}),
    Case("Concat", [2, [X, Y]], np.concatenate([X, Y], 2), {"N": 2}),
    Case("ConcatD", [[X, Y]], np.concatenate([X, Y], 0), {"concat_dim": 0, "N": 2}),
    Case("ConcatV2D", [[X, Y]], np.concatenate([X, Y], 0), {"concat_dim": 0, "N": 2}),
    Case("Pack", [[X, Y]], np.stack([X, Y], 1), {"axis": 1, "N": 2}),
    Case("Split", [2, X], tuple(np.split(X, 2, 2)), {"num_split": 2}),
    Case("SplitD", [X], tuple(np.split(X, 3, 1)), {"split_dim": 1, "num_split": 3}),
    Case("SplitV", [X, [1, 3], 2], (X[..., :1], X[..., 1:]), {"num_split": 2}),
    Case("Slice", [X, [0, 1, 1], [2, -1, 2]], X[:, 1:, 1:3]),
    Case("SliceD", [X], X[1:, :2, :], {"offsets": [1, 0, 0], "size": [1, 2, 4]}),
    Case("StridedSliceV2", [X, [3], [0], [2], [-2]], X[:, :, 3:0:-2]),
    Case("GatherV2", [X, INDEX, 1], X.take(INDEX, 1)),
    Case("Gather", [X, np.array([1, 0, 1])], X[[1, 0, 1]]),
    Case("GatherV2D", [X, INDEX], X.take(INDEX, 2), {"axis": 2}),
    Case("Tile", [X, [1, 2, 1]], np.tile(X, (1, 2, 1))),
    Case("TileD", [X], np.tile(X, (2, 1, 1)), {"multiples": [2, 1, 1]}),
    Case("BroadcastTo", [V4, [3, 4]], np.broadcast_to(V4, (3, 4))),
    Case("BroadcastToD", [V4], np.broadcast_to(V4, (2, 4)), {"shape": [2, 4]}),
    Case("Pad", [X, np.array([[0, 1], [2, 0], [1, 1]])], np.pad(X, ((0, 1), (2, 0), (1, 1)))),
    Case("PadD", [X], np.pad(X, ((0, 1), (2, 0), (1, 1))), {"paddings": [[0, 1], [2, 0], [1, 1]]}),
    Case("PadV3", [X, [0, 1, 2, 0, 1, 1], 3.0], np.pad(X, ((0, 1), (2, 0), (1, 1)), constant_values=3)),
    Case("PadV3", [X, [0, 2, 1, 1, 0, 1]], np.pad(X, ((0, 1), (2, 0), (1, 1)), mode="reflect"),
         {"mode": "reflect", "paddings_contiguous": False}),
]  # fmt: skip


def build(case: Case) -> tuple[ge.Graph, list[Array]]:
    """The graph of a case: float arrays of two or more dimensions come from outside, the rest is constant."""
    builder = ge.GraphBuilder("case")
    given: list[Array] = []

    def take(item: object) -> object:
        if isinstance(item, list) and item and isinstance(item[0], np.ndarray):
            return [take(one) for one in item]
        if not isinstance(item, np.ndarray):
            return item
        if item.ndim < 2 or item.dtype == np.int64:
            return builder.create_const(ge.Tensor(item))
        types = {np.dtype(bool): ge.DataType.DT_BOOL, np.dtype(np.float32): ge.DataType.DT_FLOAT}
        given.append(item)
        return builder.create_input(
            len(given) - 1, name=f"x{len(given)}", data_type=types[item.dtype], shape=item.shape
        )

    inputs = [take(item) for item in case.inputs]
    made = getattr(ge.es.all, case.type)(*inputs, owner_builder=builder, **case.attrs)
    outputs = list(made) if isinstance(made, tuple) else [made]
    # The last output of some is reserved for something, and is not there.
    return builder.build_and_reset(outputs[: 5 if case.type == "BatchNorm" else None]), given


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_an_operator_computes_what_it_says(case: Case) -> None:
    graph, given = build(case)
    lowered = infer_graph(to_graph(graph), SCHEMAS)
    found = list(evaluate(lowered, {f"x{at + 1}": item for at, item in enumerate(given)}).values())
    expected = case.expected if isinstance(case.expected, tuple) else (case.expected,)
    assert len(found) == len(expected)
    for value, array, wanted in zip(lowered.outputs, found, expected, strict=True):
        assert lowered.type_of(value) == TensorType(dtype_of(array), np.shape(wanted))
        if np.asarray(wanted).dtype.kind == "f":
            tolerance = case.tolerance * 10
            np.testing.assert_allclose(array, wanted, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(array, wanted)
            assert array.dtype.kind == np.asarray(wanted).dtype.kind


def test_every_operator_has_a_case() -> None:
    # Those with graphs inside are tested with the graphs.
    assert sorted(OPERATORS) == sorted({case.type for case in CASES} | {"If"})


def test_numbers_of_an_operator_are_of_the_type_beside_them() -> None:
    builder = ge.GraphBuilder("half")
    x = builder.create_input(0, name="x", data_type=ge.DataType.DT_FLOAT16, shape=[2, 4])
    ops = ge.es.all
    gamma = ge.Tensor(np.ones(4, np.float16))
    made = [
        ops.Muls(x, value=1.5), ops.Adds(x, value=1.5), ops.Relu6(x), ops.Swish(x, scale=1.5),
        ops.FastGelu(x), ops.LayerNormV4(x, [4])[0], *ops.LayerNorm(x, gamma, gamma, begin_norm_axis=1),
    ]  # fmt: skip
    lowered = infer_graph(to_graph(builder.build_and_reset(made)), SCHEMAS)
    # Statistics are computed in f32.
    assert [str(lowered.type_of(value))[:3] for value in lowered.outputs] == ["f16"] * 7 + ["f32"] * 2


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda x: ge.es.all.BatchMatMul(x, x, adj_x1=True), "rank of its input x1 is not known"),
        (lambda x: ge.es.all.FlattenV2(x, axis=0), "rank of its input x is not known"),
        (lambda x: ge.es.all.ArgMaxV2(x, 1, dtype=77), "77 is no element type"),
        (lambda x: ge.es.all.Relu(x, x), "it has 2 inputs"),
        (lambda x: ge.es.all.Gather(x, [0], batch_dims=1), "batch_dims is not lowered"),
        (lambda x: ge.es.all.Conv2D(x, x, x, x, strides=[1], pads=[0] * 4), "offset_w is not lowered"),
        (lambda x: ge.es.all.MatMulV2(x, x, x, x), "offset_w is not lowered"),
    ],
)
def test_what_an_operator_cannot_be_is_told(
    make: Callable[[ge.TensorHolder], ge.TensorHolder], reason: str
) -> None:
    builder = ge.GraphBuilder("open")
    with pytest.raises(ge.GeError, match=reason) as error:
        to_graph(builder.build_and_reset([make(builder.create_input(0))]))
    assert error.value.code == "E41002"


def test_a_transposed_convolution_gives_the_size_that_is_asked_for() -> None:
    def graph(size: list[int]) -> ge.Graph:
        builder = ge.GraphBuilder("up")
        x = builder.create_input(0, shape=IMAGE.shape)
        made = ge.es.all.Conv2DTransposeD(
            x, ge.Tensor(f32(4, 5, 3, 3)), input_size=size, strides=[1, 1, 2, 2], pads=[0, 0, 0, 0]
        )
        return builder.build_and_reset([made])

    to_graph(graph([2, 5, 15, 13]))
    with pytest.raises(ge.GeError, match="it gives") as error:
        to_graph(graph([2, 5, 16, 13]))
    assert error.value.code == "E41002"


def test_axes_that_are_none_are_told() -> None:
    builder = ge.GraphBuilder("flat")
    x = builder.create_input(0, shape=[2, 3])
    with pytest.raises(ge.GeError, match="no axes are 1 to 2 of 2"):
        to_graph(builder.build_and_reset([ge.es.all.FlattenV2(x, axis=1, end_axis=2)]))
