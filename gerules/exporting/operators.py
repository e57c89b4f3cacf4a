"""Operators of rules as the Graph Engine's: which type, which inputs, which attributes.

Rules are written in ONNX's operators and in `ge::` ones; passes see graphs that the Graph Engine has read,
where each operator of ONNX has become one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gerules.compat.ge.lowering import OPERATORS, REQUIRED, GeOperator

AttrKind = Literal["int", "float", "bool", "text", "list", "dtype"]


@dataclass(frozen=True, slots=True)
class GeAttr:
    """An attribute: its name there, its kind, and its default (None: it must be given)."""

    name: str
    kind: AttrKind
    default: object = None


@dataclass(frozen=True, slots=True)
class GeForm:
    """How one operator of rules is said there.

    `attrs` are by the name that rules use; `const_inputs` are parameters that are constant inputs there, by
    place, with `const_defaults` for those that may be left out; `fixed` are attributes that ONNX does not
    have, with the values at which the type means the same.
    """

    type: str
    n_inputs: int
    n_required: int
    attrs: Mapping[str, GeAttr] = field(default_factory=dict[str, GeAttr])
    const_inputs: Mapping[str, int] = field(default_factory=dict[str, int])
    const_defaults: Mapping[str, float] = field(default_factory=dict[str, float])
    fixed: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def required(self) -> tuple[GeAttr, ...]:
        """Attributes that have to be given where a node is built, in their order."""
        return tuple(attr for attr in self.attrs.values() if attr.default is None)


_SAME: Final = (
    "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Sqrt", "Reciprocal", "Erf", "Sin", "Cos", "Floor",
    "Ceil", "Round", "Sign", "Softplus", "Softsign", "Identity", "HardSwish", "Mish", "Log", "Asin", "Acos",
    "Atan", "Sinh", "Cosh", "Add", "Sub", "Mul", "Pow", "Equal", "Less", "Greater", "PRelu",
    "GlobalAveragePool",
)  # fmt: skip
_RENAMED: Final[Mapping[str, str]] = {
    "IsNaN": "IsNan", "Not": "LogicalNot", "Div": "RealDiv", "Max": "Maximum", "Min": "Minimum",
    "LessOrEqual": "LessEqual", "GreaterOrEqual": "GreaterEqual", "And": "LogicalAnd", "Or": "LogicalOr",
    "Where": "SelectV2",
}  # fmt: skip

_ONNX: Final[Mapping[str, tuple[str, Mapping[str, str], Mapping[str, int]]]] = {
    "MatMul": ("BatchMatMulV2", {}, {}),
    "Softmax": ("SoftmaxV2", {"axis": "axes"}, {}),
    "LogSoftmax": ("LogSoftmaxV2", {"axis": "axes"}, {}),
    "LeakyRelu": ("LeakyRelu", {"alpha": "negative_slope"}, {}),
    "Elu": ("Elu", {"alpha": "alpha"}, {}),
    "HardSigmoid": ("HardSigmoid", {"alpha": "alpha", "beta": "beta"}, {}),
    "Cast": ("Cast", {"to": "dst_type"}, {}),
    "Clip": ("ClipByValue", {}, {"min": 1, "max": 2}),
    "BatchNormalization": ("BNInference", {"epsilon": "epsilon"}, {}),
    "Gelu": ("GeluV2", {"approximate": "approximate"}, {}),
    "Reshape": ("Reshape", {"allowzero": "allowzero"}, {"shape": 1}),
    "Flatten": ("Flatten", {"axis": "axis"}, {}),
    "CumSum": ("Cumsum", {"exclusive": "exclusive", "reverse": "reverse"}, {}),
    "Gemm": ("GEMM", {"transA": "transpose_a", "transB": "transpose_b"}, {"alpha": 3, "beta": 4}),
    "Transpose": ("TransposeD", {"perm": "perm"}, {}),
    "Squeeze": ("Squeeze", {"axes": "axis"}, {}),
    "Unsqueeze": ("Unsqueeze", {"axes": "axes"}, {}),
    "Tile": ("Tile", {}, {"repeats": 1}),
    "Expand": ("BroadcastTo", {}, {"shape": 1}),
    "ReduceMean": ("ReduceMeanD", {"axes": "axes", "keepdims": "keep_dims"}, {}),
    "ReduceSum": ("ReduceSumD", {"axes": "axes", "keepdims": "keep_dims"}, {}),
    "ReduceMax": ("ReduceMaxD", {"axes": "axes", "keepdims": "keep_dims"}, {}),
    "ReduceMin": ("ReduceMinD", {"axes": "axes", "keepdims": "keep_dims"}, {}),
    "ReduceProd": ("ReduceProdD", {"axes": "axes", "keepdims": "keep_dims"}, {}),
    "Conv": ("Conv2D", {}, {}),
}  # fmt: skip
"""Type, attributes by ONNX's name, and parameters of ONNX that are constant inputs, by place."""

_ONNX_DEFAULTS: Final[Mapping[tuple[str, str], object]] = {
    ("LeakyRelu", "alpha"): 0.01, ("HardSigmoid", "alpha"): 0.2, ("HardSigmoid", "beta"): 0.5,
    ("ReduceMean", "keepdims"): 1, ("ReduceSum", "keepdims"): 1, ("ReduceMax", "keepdims"): 1,
    ("ReduceMin", "keepdims"): 1, ("ReduceProd", "keepdims"): 1, ("BatchNormalization", "epsilon"): 1e-5,
}  # fmt: skip
"""Where ONNX has another default than the Graph Engine: what it means to leave the attribute out."""

_CONST_DEFAULTS: Final[Mapping[str, Mapping[str, float]]] = {
    "Gemm": {"alpha": 1.0, "beta": 1.0}, "ge::GEMM": {"alpha": 1.0, "beta": 1.0},
}  # fmt: skip
"""What it means to leave out a parameter that is a constant input there."""

_GE_CONST_INPUTS: Final[Mapping[str, Mapping[str, int]]] = {
    "ge::GEMM": {"alpha": 3, "beta": 4},
}  # fmt: skip
"""Parameters of `ge::` operators that rules write as attributes, and that are constant inputs there."""

_PLACEHOLDERS: Final[Mapping[str, object]] = {
    "strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0), "ksize": (1, 1, 1, 1), "axes": (0,), "perm": (0,),
    "padding": "SAME", "dst_type": 0, "value": 1.0, "num_split": 1, "split_dim": 0, "concat_dim": 0,
    "offsets": (0,), "size": (1,), "shape": (1,), "multiples": (1,), "paddings": (0, 0),
}  # fmt: skip


_NO_MEANING: Final = frozenset(["noop_with_empty_axes", "offset_x"])


def form_of(op: str) -> GeForm | None:
    """Return how an operator of rules is said there, None for one that it does not have.

    >>> form_of("LeakyRelu").attrs["alpha"].name, form_of("ge::Swish").type, form_of("Einsum")
    ('negative_slope', 'Swish', None)
    """
    if op.startswith("ge::"):
        found = OPERATORS.get(op.removeprefix("ge::"))
        const_inputs = _GE_CONST_INPUTS.get(op, {})
        return None if found is None else _form(found, {name: name for name in found.attrs}, const_inputs, op)
    if op in _SAME or op in _RENAMED:
        return _form(OPERATORS[_RENAMED.get(op, op)], {}, {}, op)
    entry = _ONNX.get(op)
    if entry is None:
        return None
    type_name, attrs, const_inputs = entry
    return _form(OPERATORS[type_name], attrs, const_inputs, op)


def placeholder(attr: GeAttr) -> object:
    """Return what a pattern says for an attribute that has to be given and is not compared."""
    return _PLACEHOLDERS.get(attr.name, 0)


def _form(
    found: GeOperator, attrs: Mapping[str, str], const_inputs: Mapping[str, int], op: str
) -> GeForm | None:
    if found.dynamic is not None or any(name.endswith("*") for name in found.outputs):
        return None  # the matcher takes no operator of any number of inputs or outputs
    kinds: dict[str, GeAttr] = {}
    for name, there in attrs.items():
        default = found.attrs.get(there, REQUIRED)
        usual = _ONNX_DEFAULTS.get((op, name), default)
        kinds[name] = GeAttr(there, _kind(there, default), None if usual is REQUIRED else usual)
    for there, default in found.attrs.items():
        if default is REQUIRED and there not in attrs.values():
            kinds[there] = GeAttr(there, _kind(there, default))
    n_required = sum(not name.endswith("?") for name in found.inputs)
    fixed = {
        there: default
        for there, default in found.attrs.items()
        if op in _ONNX and op != "Conv" and there not in attrs.values() and there not in _NO_MEANING
        if default is not REQUIRED and default is not None
    }
    const_defaults = _CONST_DEFAULTS.get(op, {})
    return GeForm(found.type, len(found.inputs), n_required, kinds, const_inputs, const_defaults, fixed)


def _kind(name: str, default: object) -> AttrKind:
    if name in ("dst_type", "dtype"):
        return "dtype"
    sample = _PLACEHOLDERS.get(name, 0) if default is REQUIRED else default
    match sample:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str() | None:
            return "text"
        case _:
            return "list"


def all_attributes(type_name: str) -> tuple[str, ...]:
    """Return the names of all attributes of a type of operator."""
    return tuple(OPERATORS[type_name].attrs)
