"""Elementwise operators, products and reductions of the Graph Engine."""

from __future__ import annotations

from gerules.compat.ge.graph.types import DataType
from gerules.compat.ge.lowering import REQUIRED, Lowering, Value, operator

_UNARY = {
    "Relu": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Abs": "Abs", "Neg": "Neg", "Exp": "Exp",
    "Sqrt": "Sqrt", "Reciprocal": "Reciprocal", "Erf": "Erf", "Sin": "Sin", "Cos": "Cos", "Floor": "Floor",
    "Ceil": "Ceil", "Round": "Round", "Rint": "Round", "Sign": "Sign", "IsNan": "IsNaN", "LogicalNot": "Not",
    "Softplus": "Softplus", "Softsign": "Softsign", "Identity": "Identity", "TensorMove": "Identity",
    "HardSwish": "HardSwish", "Mish": "Mish", "Log": "Log", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan",
    "Sinh": "Sinh", "Cosh": "Cosh", "StopGradient": "Identity",
}  # fmt: skip

_BINARY = {
    "Add": "Add", "AddV2": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "Div": "Div",
    "Maximum": "Max",
    "Minimum": "Min", "Pow": "Pow", "Equal": "Equal", "Less": "Less", "LessEqual": "LessOrEqual",
    "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "LogicalAnd": "And", "LogicalOr": "Or",
}  # fmt: skip

_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")


def _define_plain() -> None:
    for type, op in _UNARY.items():
        operator(type, "x")(lambda n, op=op: n.op(op, n["x"]))
    for type, op in _BINARY.items():
        operator(type, "x1 x2")(lambda n, op=op: n.op(op, n["x1"], n["x2"]))
    for op in _REDUCTIONS:
        operator(op, "x axes", keep_dims=False, noop_with_empty_axes=True)(
            lambda n, op=op: n.op(op, n["x"], n.const(n.ints("axes")), keepdims=n.int_attr("keep_dims"))
        )
        operator(f"{op}D", "x", axes=REQUIRED, keep_dims=False, noop_with_empty_axes=True)(
            lambda n, op=op: n.op(op, n["x"], n.const(n.ints_attr("axes")), keepdims=n.int_attr("keep_dims"))
        )


_define_plain()


# ---------------------------------------------------------------- elementwise
@operator("Gelu", "x")
def _gelu(n: Lowering) -> Value:
    # The Graph Engine's Gelu is the one by tanh.
    return n.op("Gelu", n["x"], approximate="tanh")


@operator("FastGelu", "x")
def _fast_gelu(n: Lowering) -> Value:
    # x / (1 + exp(-1.702 x)). Source: cann/ops-nn, `fast_gelu_proto.h`, for Ascend910B and later.
    return _gated(n, 1.702)


@operator("GeluV2", "x", approximate="none")
def _gelu_v2(n: Lowering) -> Value:
    return n.op("Gelu", n["x"], approximate=n.text_attr("approximate"))


@operator("Swish", "x", scale=1.0)
def _swish(n: Lowering) -> Value:
    return _gated(n, n.float_attr("scale"))


def _gated(n: Lowering, scale: float) -> Value:
    inner = n["x"] if scale == 1.0 else n.op("Mul", n["x"], n.number_like(scale, n["x"]))
    return n.op("Mul", n["x"], n.op("Sigmoid", inner))


@operator("Relu6", "x")
def _relu6(n: Lowering) -> Value:
    return n.op("Clip", n["x"], n.number_like(0, n["x"]), n.number_like(6, n["x"]))


@operator("ClipByValue", "x clip_value_min clip_value_max")
def _clip(n: Lowering) -> Value:
    return n.op("Clip", n["x"], n["clip_value_min"], n["clip_value_max"])


@operator("LeakyRelu", "x", negative_slope=0.0)
def _leaky_relu(n: Lowering) -> Value:
    return n.op("LeakyRelu", n["x"], alpha=n.float_attr("negative_slope"))


@operator("Elu", "x", alpha=1.0, scale=1.0, input_scale=1.0)
def _elu(n: Lowering) -> Value:
    if n.float_attr("scale") != 1.0 or n.float_attr("input_scale") != 1.0:
        raise n.fault("a scale other than 1 is not lowered", "multiply by it")
    return n.op("Elu", n["x"], alpha=n.float_attr("alpha"))


@operator("HardSigmoid", "input_x", alpha=0.16666666, beta=0.5)
def _hard_sigmoid(n: Lowering) -> Value:
    return n.op("HardSigmoid", n["input_x"], alpha=n.float_attr("alpha"), beta=n.float_attr("beta"))


@operator("PRelu", "x weight")
def _prelu(n: Lowering) -> Value:
    # A weight for each channel, which is the second dimension; one number alone goes as it is.
    shape = n.sink.type_of(n["weight"]).shape
    if shape is None or len(shape) != 1 or shape == (1,):
        return n.op("PRelu", n["x"], n["weight"])
    n_after = max(0, n.rank_of("x") - 2)
    if not n_after:
        return n.op("PRelu", n["x"], n["weight"])
    found = n.sink.array_of(n["weight"])
    if found is not None:
        return n.op("PRelu", n["x"], n.sink.add_const(found.reshape(-1, *[1] * n_after)))
    return n.op("PRelu", n["x"], n.op("Reshape", n["weight"], n.const([-1, *[1] * n_after])))


@operator("Square", "x")
def _square(n: Lowering) -> Value:
    return n.op("Mul", n["x"], n["x"])


@operator("SquaredDifference", "x1 x2")
def _squared_difference(n: Lowering) -> Value:
    difference = n.op("Sub", n["x1"], n["x2"])
    return n.op("Mul", difference, difference)


@operator("Rsqrt", "x")
def _rsqrt(n: Lowering) -> Value:
    return n.op("Reciprocal", n.op("Sqrt", n["x"]))


@operator("Muls", "x", value=REQUIRED)
def _muls(n: Lowering) -> Value:
    return n.op("Mul", n["x"], n.number_like(n.float_attr("value"), n["x"]))


@operator("Adds", "x", value=REQUIRED)
def _adds(n: Lowering) -> Value:
    return n.op("Add", n["x"], n.number_like(n.float_attr("value"), n["x"]))


@operator("AddN", "x*")
def _add_n(n: Lowering) -> Value:
    return n.op("Sum", *n.all("x"))


@operator("Select SelectV2", "condition then else")
def _select(n: Lowering) -> Value:
    return n.op("Where", n["condition"], n["then"], n["else"])


@operator("Cast", "x", dst_type=REQUIRED)
def _cast(n: Lowering) -> Value:
    return n.op("Cast", n["x"], to=_data_type(n, "dst_type").ir)


def _data_type(n: Lowering, name: str) -> DataType:
    number = n.int_attr(name)
    try:
        return DataType(number)
    except ValueError:
        raise n.fault(f"{number} is no element type", "pass a DataType") from None


# ---------------------------------------------------------------- products
@operator("MatMul MatMulV2", "x1 x2 bias? offset_w?", transpose_x1=False, transpose_x2=False)
def _matmul(n: Lowering) -> Value:
    return _product(n, n.int_attr("transpose_x1"), n.int_attr("transpose_x2"), rank=2)


@operator("BatchMatMul", "x1 x2", adj_x1=False, adj_x2=False)
def _batch_matmul(n: Lowering) -> Value:
    return _product(n, n.int_attr("adj_x1"), n.int_attr("adj_x2"), rank=0)


@operator("BatchMatMulV2", "x1 x2 bias? offset_w?", adj_x1=False, adj_x2=False)
def _batch_matmul_v2(n: Lowering) -> Value:
    return _product(n, n.int_attr("adj_x1"), n.int_attr("adj_x2"), rank=0)


def _product(n: Lowering, transposes_first: int, transposes_second: int, *, rank: int) -> Value:
    n.refuse_offset()
    if (transposes_first or transposes_second) and rank == 2:
        # Gemm says it with attributes, for matrices alone.
        bias = n.get("bias")
        return n.op(
            "Gemm", n["x1"], n["x2"], bias, transA=transposes_first, transB=transposes_second
        )  # fmt: skip
    first = _transposed(n, "x1") if transposes_first else n["x1"]
    second = _transposed(n, "x2") if transposes_second else n["x2"]
    product = n.op("MatMul", first, second)
    bias = n.get("bias") if "bias?" in n.operator.inputs else None
    return product if bias is None else n.op("Add", product, bias)


def _transposed(n: Lowering, name: str) -> Value:
    """Matrices of a batch, their rows and columns exchanged."""
    rank = n.rank_of(name)
    if rank < 2:
        raise n.fault(f"its input {name} has rank {rank}", "give matrices")
    return n.op("Transpose", n[name], perm=(*range(rank - 2), rank - 1, rank - 2))


@operator("GEMM", "a b c alpha beta", transpose_a=False, transpose_b=False)
def _gemm(n: Lowering) -> Value:
    return n.op(
        "Gemm", n["a"], n["b"], n["c"], alpha=n.number("alpha"), beta=n.number("beta"),
        transA=n.int_attr("transpose_a"), transB=n.int_attr("transpose_b"),
    )  # fmt: skip


# ---------------------------------------------------------------- choices along an axis
@operator("ArgMaxV2", "x dimension", dtype=int(DataType.DT_INT64))
def _arg_max(n: Lowering) -> Value:
    return _index_typed(n, n.op("ArgMax", n["x"], axis=int(n.number("dimension")), keepdims=0))


@operator("ArgMin", "x dimension", dtype=int(DataType.DT_INT64))
def _arg_min(n: Lowering) -> Value:
    return _index_typed(n, n.op("ArgMin", n["x"], axis=int(n.number("dimension")), keepdims=0))


@operator("TopKV2", "x k", "values indices", sorted=True, dim=-1, largest=True)
def _top_k(n: Lowering) -> tuple[Value, ...]:
    k = n.const([int(n.number("k"))])
    values, indices = n.ops(
        2, "TopK", n["x"], k, axis=n.int_attr("dim"), largest=n.int_attr("largest"),
        sorted=n.int_attr("sorted")
    )  # fmt: skip
    return values, n.op("Cast", indices, to=DataType.DT_INT32.ir)


@operator("Cumsum", "x axis", exclusive=False, reverse=False)
def _cumsum(n: Lowering) -> Value:
    axis = n.const(int(n.number("axis")))
    return n.op(
        "CumSum", n["x"], axis, exclusive=n.int_attr("exclusive"), reverse=n.int_attr("reverse")
    )  # fmt: skip


def _index_typed(n: Lowering, found: Value) -> Value:
    wanted = _data_type(n, "dtype")
    return found if wanted is DataType.DT_INT64 else n.op("Cast", found, to=wanted.ir)
