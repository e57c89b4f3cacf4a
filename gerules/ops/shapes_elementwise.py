"""Types of what works element by element: unary, broadcasting, casts, and all that keeps a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.errors import table
from gerules.ir import DType, Shape, TensorType, ValueType
from gerules.ops.call import Call, Misfit, Rule, misfit
from gerules.ops.dims import broadcast_shapes
from gerules.ops.onnx_types import DTYPE_OF_ONNX_NAME

_UNARY: Final = """
Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid
HardSwish IsInf IsNaN LeakyRelu Log Mish Neg Not ParametricSoftplus Reciprocal Relu Round ScaledTanh Selu
Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
Affine CumProd CumSum GroupNormalization ImageScaler InstanceNormalization LRN LpNormalization
MeanVarianceNormalization ReverseSequence RotaryEmbedding Scatter ScatterElements ScatterND Trilu
com.microsoft::FastGelu com.microsoft::Gelu com.microsoft::QuickGelu com.microsoft::BiasGelu
com.microsoft::RotaryEmbedding
""".split()  # noqa: SIM905 - sixty lines of one name each read worse

_BINARY: Final = """
Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean
Min Mod Mul Or Pow Sub Sum Xor
""".split()  # noqa: SIM905 - sixty lines of one name each read worse

_LIMITED: Final = frozenset(
    ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less", "Pow")
)
"""Before opset 7 these broadcast only their second input, and only when told to."""

_FIRST_NUMPY_OPSET: Final = 7
_FIRST_NUMPY_NARY_OPSET: Final = 8


def same_shape(call: Call) -> list[ValueType]:
    """The first input's shape."""
    return [TensorType(call.dtypes[0], call.tensor(0).shape)]


def broadcast(call: Call) -> list[ValueType]:
    """All inputs broadcast together, as numpy does."""
    if call.opset < _FIRST_NUMPY_OPSET and call.op in _LIMITED:
        return _limited(call)
    return [
        TensorType(call.dtypes[0], broadcast_all([call.tensor(i).shape for i in range(len(call.inputs))]))
    ]


def broadcast_all(shapes: Sequence[Shape | None]) -> Shape | None:
    """Return the common shape; None when any rank is unknown. Raises Misfit (E30002) when there is none."""
    known = shapes[0] if shapes else ()
    if known is None:
        return None
    for shape in shapes[1:]:
        if shape is None:
            return None
        if shape != known:
            found = broadcast_shapes(known, shape)
            if found is None:
                raise misfit(f"{_text(known)} and {_text(shape)} do not broadcast")
            known = found
    return known


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _limited(call: Call) -> list[ValueType]:
    """Opset 1 and 6: the second input is aligned at `axis`, or equal to the first without `broadcast`."""
    left, right = call.shape(0), call.shape(1)
    if left is not None and right is not None:
        if not call.int_attr("broadcast", 0):
            fits = len(left) == len(right) and broadcast_shapes(left, right) is not None
        else:
            axis = call.int_attr("axis", len(left) - len(right))
            axis += len(left) if axis < 0 else 0
            part = left[axis : axis + len(right)] if axis >= 0 else ()
            fits = len(part) == len(right) and broadcast_shapes(part, right) is not None
        if not fits:
            raise misfit(f"{_text(right)} cannot be added along {_text(left)} at opset {call.opset}")
    return [TensorType(call.dtypes[0], left)]


def _prelu(call: Call) -> list[ValueType]:
    """The slope broadcasts to the input, never the other way."""
    shape, slope = call.shape(0), call.shape(1)
    if call.opset >= _FIRST_NUMPY_OPSET and shape is not None and slope is not None:
        check_broadcasts_to(slope, shape, "the slope")
    return [TensorType(call.dtypes[0], shape)]


def check_broadcasts_to(shape: Shape, target: Shape, what: str) -> None:
    """Raise Misfit (E30002) unless `shape` broadcasts to `target` without widening it."""
    if len(shape) > len(target):
        raise misfit(f"{what} {_text(shape)} has more dims than {_text(target)}")
    for dim, wanted in zip(reversed(shape), reversed(target), strict=False):
        if isinstance(dim, int) and isinstance(wanted, int) and dim not in (1, wanted):
            raise misfit(f"{what} {_text(shape)} does not broadcast to {_text(target)}")


def _where(call: Call) -> list[ValueType]:
    return [TensorType(call.dtypes[0], broadcast_all([call.shape(0), call.shape(1), call.shape(2)]))]


def _cast(call: Call) -> list[ValueType]:
    to = call.attrs.get("to")
    if isinstance(to, str):
        # Opset 1 wrote the type's name.
        to = DTYPE_OF_ONNX_NAME.get(to.lower())
    if not isinstance(to, DType):
        raise Misfit(table.BAD_ATTRIBUTE, attr="to", reason="names no element type")
    return [TensorType(to, call.tensor(0).shape)]


def _cast_like(call: Call) -> list[ValueType]:
    return [TensorType(call.tensor(1).dtype, call.tensor(0).shape)]


def _bit_cast(call: Call) -> list[ValueType]:
    data, to = call.tensor(0), call.dtype_attr("to")
    if data.dtype.bits and to.bits and data.dtype.bits != to.bits:
        raise Misfit(
            table.BAD_ATTRIBUTE, attr="to", reason=f"is {to}, which has not the bits of {data.dtype}"
        )
    return [TensorType(to, data.shape)]


def _identity(call: Call) -> list[ValueType]:
    type = call.inputs[0]
    assert type is not None  # required, checked against the schema
    return [TensorType(type.dtype, type.shape) if isinstance(type, TensorType) else type]


def _dropout(call: Call) -> list[ValueType]:
    shape = call.tensor(0).shape
    # Before opset 10 the mask had the type of the data; the schema says which.
    mask = call.dtypes[1] if len(call.dtypes) > 1 else DType.BOOL
    return [TensorType(call.dtypes[0], shape), TensorType(mask, shape)]


def _softmax(call: Call) -> list[ValueType]:
    shape = call.shape(0)
    if shape is not None:
        axis = call.int_attr("axis", -1 if call.opset >= 13 else 1)
        # Up to opset 12 the input is flattened at the axis, which may then be its rank.
        highest = len(shape) - 1 if call.opset >= 13 else len(shape)
        if not -len(shape) <= axis <= max(highest, 0):
            raise Misfit(table.BAD_ATTRIBUTE, attr="axis", reason=f"is {axis}, but the rank is {len(shape)}")
    return [TensorType(call.dtypes[0], shape)]


def _like_with_dtype(call: Call) -> list[ValueType]:
    """EyeLike, RandomNormalLike ...: the shape of the input, its type too unless `dtype` says otherwise."""
    data, dtype = call.tensor(0), call.dtype_attr("dtype")
    return [TensorType(data.dtype if dtype is DType.UNKNOWN else dtype, data.shape)]


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_UNARY, same_shape),
    **dict.fromkeys(_BINARY, broadcast),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("EyeLike", "RandomNormalLike", "RandomUniformLike", "Bernoulli"), _like_with_dtype),
    "PRelu": _prelu,
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
    "BitCast": _bit_cast,
    "Identity": _identity,
    "Dropout": _dropout,
}
