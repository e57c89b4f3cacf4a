"""MindSpore's operators that work element by element, in those of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gerules.frontends.mindir.items import Items, Known, NodeFault, Tensor
from gerules.frontends.mindir.operands import Call
from gerules.frontends.mindir.translate import Translate
from gerules.ir import DType

_UNARY: Final[Mapping[str, str]] = {
    "Abs": "Abs", "Neg": "Neg", "Exp": "Exp", "Sqrt": "Sqrt", "Floor": "Floor", "Ceil": "Ceil", "Erf": "Erf",
    "Sin": "Sin", "Cos": "Cos", "Tan": "Tan", "ASin": "Asin", "Asin": "Asin", "ACos": "Acos", "Acos": "Acos",
    "Atan": "Atan", "Sinh": "Sinh", "Cosh": "Cosh", "Asinh": "Asinh", "Acosh": "Acosh", "Atanh": "Atanh",
    "Reciprocal": "Reciprocal", "Sign": "Sign", "LogicalNot": "Not", "IsNan": "IsNaN", "IsInf": "IsInf",
    "ReLU": "Relu", "ReluExt": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Softplus": "Softplus",
    "Softsign": "Softsign", "Mish": "Mish", "HSwish": "HardSwish", "SeLU": "Selu", "BitwiseNot": "BitwiseNot",
    "Inv": "Reciprocal",
}  # fmt: skip
"""Same meaning, one argument."""

_BINARY: Final[Mapping[str, str]] = {
    "Add": "Add", "Sub": "Sub", "Mul": "Mul", "Pow": "Pow", "Maximum": "Max", "Minimum": "Min",
    "Equal": "Equal", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less",
    "LessEqual": "LessOrEqual", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor",
    "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr", "BitwiseXor": "BitwiseXor",
    "AddV2": "Add",
}  # fmt: skip
"""Same meaning, two arguments that are broadcast."""

_WHOLE: Final = frozenset(
    (DType.I8, DType.I16, DType.I32, DType.I64, DType.U8, DType.U16, DType.U32, DType.U64, DType.BOOL)
)


def _unary(call: Call) -> int:
    return call.add(_UNARY[call.op], [call.tensor(0)])


def _binary(call: Call) -> int:
    return call.add(_BINARY[call.op], _pair(call))


def _pair(call: Call) -> list[int]:
    """Both arguments; a number takes the type of the other one."""
    if isinstance(call.item(0), Known):
        second = call.tensor(1)
        return [call.tensor(0, second), second]
    first = call.tensor(0)
    return [first, call.tensor(1, first)]


def _with_number(call: Call) -> int:
    """`Muls` and its like: a tensor and a number, in the type that the node declares."""
    first, wanted = call.tensor(0), call.declared_dtype
    if wanted is not DType.UNKNOWN and call.dtype(first) is not wanted:
        first = call.add("Cast", [first], {"to": wanted})
    return call.add(_WITH_NUMBER[call.op], [first, call.tensor(1, first)])


_WITH_NUMBER: Final = {"Adds": "Add", "Subs": "Sub", "Muls": "Mul", "Divs": "Div"}


def _not_equal(call: Call) -> int:
    return call.add("Not", [call.add("Equal", _pair(call))])


def _divide(call: Call) -> int:
    """A quotient of whole numbers is a fraction in MindSpore."""
    first, second = _pair(call)
    if call.dtype(first) in _WHOLE:
        wanted = call.declared_dtype
        to = wanted if wanted not in _WHOLE and wanted is not DType.UNKNOWN else DType.F32
        first, second = (call.add("Cast", [item], {"to": to}) for item in (first, second))
    return call.add("Div", [first, second])


def _floor_divide(call: Call) -> int:
    first, second = _pair(call)
    if call.dtype(first) in _WHOLE:
        rest = call.add("Mod", [first, second])
        return call.add("Div", [call.add("Sub", [first, rest]), second])
    return call.add("Floor", [call.add("Div", [first, second])])


def _floor_modulo(call: Call) -> int:
    """The rest has the sign of the divisor."""
    first, second = _pair(call)
    if call.dtype(first) in _WHOLE:
        return call.add("Mod", [first, second])
    whole = call.add("Floor", [call.add("Div", [first, second])])
    return call.add("Sub", [first, call.add("Mul", [whole, second])])


def _modulo(call: Call) -> int:
    """The rest has the sign of the dividend."""
    return call.add("Mod", _pair(call), {"fmod": 1})


def _squared_difference(call: Call) -> int:
    apart = call.add("Sub", _pair(call))
    return call.add("Mul", [apart, apart])


def _square(call: Call) -> int:
    value = call.tensor(0)
    return call.add("Mul", [value, value])


def _rsqrt(call: Call) -> int:
    return call.add("Reciprocal", [call.add("Sqrt", [call.tensor(0)])])


def _log(call: Call) -> int:
    """Old files may scale and shift, and take another base: `base` -1 is e."""
    value = call.tensor(0)
    plain = (
        call.real("scale", default=1.0),
        call.real("shift", default=0.0),
        call.real("base", default=-1.0),
    )
    if plain != (1.0, 0.0, -1.0):
        raise NodeFault("a logarithm with scale, shift or base is not read")
    return call.add("Log", [value])


def _log1p(call: Call) -> int:
    value = call.tensor(0)
    return call.add("Log", [call.add("Add", [value, call.number(1, value)])])


def _expm1(call: Call) -> int:
    value = call.add("Exp", [call.tensor(0)])
    return call.add("Sub", [value, call.number(1, value)])


def _erfc(call: Call) -> int:
    value = call.add("Erf", [call.tensor(0)])
    return call.add("Sub", [call.number(1, value), value])


def _is_finite(call: Call) -> int:
    value = call.tensor(0)
    return call.add("Not", [call.add("Or", [call.add("IsNaN", [value]), call.add("IsInf", [value])])])


def _round(call: Call) -> int:
    if call.integer("decimals", 1, 0):
        raise NodeFault("rounding to decimals is not read")
    return call.add("Round", [call.tensor(0)])


def _silu(call: Call) -> int:
    value = call.tensor(0)
    return call.add("Mul", [value, call.add("Sigmoid", [value])])


def _gelu(call: Call) -> int:
    """`GeLU` is the form with tanh."""
    return call.add("Gelu", [call.tensor(0)], {"approximate": "tanh"})


def _gelu_ext(call: Call) -> int:
    found = call.given("approximate", 1, "none")
    how = {"none": "none", "tanh": "tanh", 0: "none", 1: "tanh"}.get(
        found if isinstance(found, int | str) else ""
    )
    if how is None:
        raise NodeFault(f"its form {found} is not known")
    return call.add("Gelu", [call.tensor(0)], {"approximate": how})


def _hard_sigmoid(call: Call) -> int:
    return call.add("HardSigmoid", [call.tensor(0)], {"alpha": 1 / 6, "beta": 0.5})


def _relu6(call: Call) -> int:
    value = call.tensor(0)
    return call.add("Clip", [value, call.number(0, value), call.number(6, value)])


def _elu(call: Call) -> int:
    return call.add("Elu", [call.tensor(0)], {"alpha": call.real("alpha", 1, 1.0)})


def _leaky_relu(call: Call) -> int:
    name = "negative_slope" if call.op == "LeakyReLUExt" else "alpha"
    return call.add(
        "LeakyRelu", [call.tensor(0)], {"alpha": call.real(name, 1, 0.2 if name == "alpha" else 0.01)}
    )


def _prelu(call: Call) -> int:
    """One slope for each channel, or one for all."""
    value, slope = call.tensor(0), call.tensor(1)
    if (rank := call.rank(value)) > 2:
        slope = call.add("Unsqueeze", [slope, call.ints(range(1, rank - 1))])
    return call.add("PRelu", [value, slope])


def _clamp(call: Call) -> int:
    value = call.tensor(0)
    bounds = [call.tensor(place, value) if call.has(place) else None for place in (1, 2)]
    # Clip takes scalars alone; bounds of other shapes are a Max and a Min.
    for op, bound in zip(("Max", "Min"), bounds, strict=True):
        if bound is not None:
            value = call.add(op, [value, bound])
    return value


def _cast(call: Call) -> int:
    return call.add("Cast", [call.tensor(0)], {"to": call.dtype_given("dtype", 1)})


def _select(call: Call) -> int:
    condition = call.tensor(0)
    if isinstance(call.item(1), Known):
        no = call.tensor(2)
        yes = call.tensor(1, no)
    else:
        yes = call.tensor(1)
        no = call.tensor(2, yes)
    return call.add("Where", [condition, yes, no])


def _masked_fill(call: Call) -> int:
    value = call.tensor(0)
    return call.add("Where", [call.tensor(1), call.tensor(2, value), value])


def _add_n(call: Call) -> int:
    return call.add("Sum", call.tensors(0))


def _same(call: Call) -> Tensor | Items:
    """Nothing happens at inference."""
    item = call.item(0)
    return item if isinstance(item, Tensor | Items) else Tensor(call.build, call.value_of(item))


def _dropout(call: Call) -> Items:
    return Items((_same(call), Known(None)))


ELEMENTWISE: Final[Mapping[str, Translate]] = {
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_WITH_NUMBER, _with_number),
    "NotEqual": _not_equal,
    "Div": _divide, "RealDiv": _divide,
    "FloorDiv": _floor_divide,
    "FloorMod": _floor_modulo, "RemainderTensorTensor": _floor_modulo, "RemainderTensorScalar": _floor_modulo,
    "Mod": _modulo, "FmodTensor": _modulo, "FmodScalar": _modulo,
    "SquaredDifference": _squared_difference,
    "Square": _square, "Rsqrt": _rsqrt, "Log": _log, "Log1p": _log1p, "Expm1": _expm1, "Erfc": _erfc,
    "IsFinite": _is_finite, "Round": _round,
    "SiLU": _silu, "Swish": _silu, "GeLU": _gelu, "Gelu": _gelu, "GeluExt": _gelu_ext,
    "HSigmoid": _hard_sigmoid, "ReLU6": _relu6, "Elu": _elu, "LeakyReLU": _leaky_relu,
    "LeakyReLUExt": _leaky_relu, "PReLU": _prelu,
    "ClampScalar": _clamp, "ClampTensor": _clamp,
    "Cast": _cast, "Select": _select, "MaskedFill": _masked_fill, "AddN": _add_n,
    "StopGradient": _same, "Identity": _same, "Copy": _same, "Contiguous": _same, "TensorMove": _same,
    "Dropout": _dropout,
}  # fmt: skip
