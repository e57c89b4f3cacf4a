"""Shapes and element types of what a pass matches and builds, as far as types of operators imply them.

The engine takes a rewrite only when each replaced value keeps its shape and its element type. A pass has to
see to that itself: nothing is asked where the operators imply it, else the types of the match are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from gerules.compat.ge.lowering import OPERATORS
from gerules.exporting.conditions import DT, Code, Desc
from gerules.exporting.plan import Captured, Computed, Input, Number, Output, Plan, PlanNode, Refusal, Source
from gerules.ir import DType

_UNARY: Final = frozenset([
    "Abs", "Acos", "Adds", "Asin", "Atan", "BNInfer", "BNInference", "BatchNorm", "BiasAdd", "Cast", "Ceil",
    "Cos", "Cosh", "Cumsum", "Elu", "Erf", "Exp", "FastGelu", "Floor", "Gelu", "GeluV2", "HardSigmoid",
    "HardSwish", "Identity", "IsNan", "LayerNormV4", "LeakyRelu", "Log", "LogSoftmaxV2", "LogicalNot",
    "Mish", "Muls", "Neg", "PRelu", "Reciprocal", "Relu", "Relu6", "Rint", "Round", "Rsqrt", "Sigmoid",
    "Sign", "Sin", "Sinh", "SoftmaxV2", "Softplus", "Softsign", "Sqrt", "Square", "StopGradient", "Swish",
    "Tanh", "TensorMove",
])  # fmt: skip
"""Types whose result has the shape of the first input."""

_BROADCAST: Final = frozenset([
    "Add", "AddV2", "ClipByValue", "Div", "Equal", "Greater", "GreaterEqual", "Less", "LessEqual",
    "LogicalAnd", "LogicalOr", "Maximum", "Minimum", "Mul", "Pow", "RealDiv", "Select", "SelectV2",
    "SquaredDifference", "Sub",
])  # fmt: skip
"""Types whose result has the shape that all inputs broadcast to."""

_TRUTH: Final = frozenset([
    "Equal", "Greater", "GreaterEqual", "IsNan", "Less", "LessEqual", "LogicalAnd", "LogicalNot",
    "LogicalOr",
])  # fmt: skip
_OWN_DTYPE: Final = frozenset(["ArgMaxV2", "ArgMin", "Shape"])
_MATMUL: Final[Mapping[str, tuple[str, str]]] = {
    "BatchMatMul": ("adj_x1", "adj_x2"), "BatchMatMulV2": ("adj_x1", "adj_x2"),
    "MatMul": ("transpose_x1", "transpose_x2"), "MatMulV2": ("transpose_x1", "transpose_x2"),
    "GEMM": ("transpose_a", "transpose_b"),
}  # fmt: skip
_BY_SHAPE: Final = frozenset([*_MATMUL, "Conv2D", "GlobalAveragePool", "Gather", "GatherV2D"])
"""Other types that read the shapes of inputs alone; the rest reads elements of those after the first."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A shape that is not taken apart: of a value from outside, or of the result of an operator.

    `key` is equal for shapes that are the same in every match. `what` and `args` are the operator with its
    attributes, and the shapes that it reads. The code returns sizes, -1 for an open one.
    """

    key: object
    python: str = field(compare=False)
    cpp: str = field(compare=False)
    what: object = field(default=None, compare=False)
    args: tuple[Shape, ...] = field(default=(), compare=False)


Shape = frozenset[Leaf]
"""The shape that all of them broadcast to; nothing is a scalar."""


@dataclass(frozen=True, slots=True)
class Dtype:
    """An element type; equal keys are equal types in every match that is well typed."""

    key: object
    python: str = field(compare=False)
    cpp: str = field(compare=False)


@dataclass(slots=True)
class Types:
    """The types of one form's values; conditions that are found on the way go to `found`."""

    plan: Plan
    reads: Mapping[Source, Desc]
    """Where a node of the pattern reads each value from outside."""
    found: list[tuple[Code, str]] = field(default_factory=list[tuple[Code, str]])
    _leaves: dict[Leaf, Leaf] = field(default_factory=dict[Leaf, Leaf])
    _same_dtypes: dict[object, object] = field(default_factory=dict[object, object])
    _shapes: dict[tuple[bool, int], Shape] = field(default_factory=dict[tuple[bool, int], Shape])
    _dtypes: dict[tuple[bool, int], Dtype] = field(default_factory=dict[tuple[bool, int], Dtype])

    def require_kept(self) -> list[tuple[Code, str]]:
        """Return the conditions under which each new value has the type of the old one. Raises Refusal."""
        for is_new, nodes in ((False, self.plan.nodes), (True, self.plan.built)):
            for place, node in enumerate(nodes):
                self._shapes[is_new, place] = self._shape_of_node(node, place, is_new=is_new)
                self._dtypes[is_new, place] = self._dtype_of_node(node, place, is_new=is_new)
        for old, new in zip(self.plan.outputs, self.plan.results, strict=True):
            if not isinstance(new, Input | Output):
                raise Refusal("build", "a number alone replaces a value", None)
            one, other = (self._shape(old, None, is_new=False), self._shape(new, None, is_new=True))
            self._require_same_shape(one, other)
            self._require_same_dtype(
                self._dtype(old, None, is_new=False), self._dtype(new, None, is_new=True)
            )
        return self.found

    # ------------------------------------------------------------ shapes
    def _shape(self, source: Source, read: Desc | None, *, is_new: bool) -> Shape:
        match source:
            case Output(node=node):
                return self._shapes[is_new, node]
            case Input():
                return frozenset([_of_desc(self.reads[source])])
            case Number() if read is not None and not is_new:
                return frozenset([_of_desc(read)])
            case Number(value=tuple(value)):
                size = f"{len(value)}"
                return frozenset([Leaf(("fixed", size), f"[{size}]", f"std::vector<int64_t>{{{size}}}")])
            case _:
                return frozenset()

    def _shape_of_node(self, node: PlanNode, place: int, *, is_new: bool) -> Shape:
        kind = node.form.type
        shapes = [
            self._shape(source, Desc(place, slot, False), is_new=is_new)
            for slot, source in enumerate(node.inputs)
        ]
        if kind in _UNARY:
            return shapes[0]
        if kind in _BROADCAST:
            return frozenset[Leaf]().union(*shapes)
        attrs = _attributes(node, place, is_new=is_new)
        if kind in _MATMUL:
            what: object = ("matmul", *(attrs[name] for name in _MATMUL[kind]))
            shapes = shapes[:2]
        else:
            read = () if kind in _BY_SHAPE else node.inputs[1:]
            values = tuple(_named(item, place, is_new) for item in read)
            what = (kind, tuple(sorted(attrs.items())), values)
        key = (what, *shapes)
        if not is_new:
            code = Desc(place, 0, True).code
            leaf = Leaf(key, f"_dims({code[0]})", f"Dims({code[1]}, known)", what, tuple(shapes))
            return frozenset([self._leaves.setdefault(leaf, leaf)])
        return frozenset([self._built_leaf(node, key, what, tuple(shapes))])

    def _built_leaf(self, node: PlanNode, key: object, what: object, shapes: tuple[Shape, ...]) -> Leaf:
        """The shape of a new operator: that of a matched one that reads the same shapes, or computed."""
        found = self._leaves.get(Leaf(key, "", ""))
        if found is not None:
            return found
        for leaf in self._leaves:
            pairs = list(zip(leaf.args, shapes, strict=False))
            if (
                leaf.what == what
                and len(leaf.args) == len(shapes)
                and all(one <= other or other <= one for one, other in pairs)
            ):
                for one, other in pairs:
                    self._require_same_shape(one, other)
                return leaf
        if what == ("matmul", False, False):
            codes = [_broadcast(shape) for shape in shapes]
            python, cpp = (", ".join(code[at] for code in codes) for at in (0, 1))
            return Leaf(key, f"_product({python})", f"Product({cpp}, known)", what, shapes)
        raise Refusal("type", f"whether a result of {node.form.type} keeps the shape cannot be asked", None)

    def _require_same_shape(self, old: Shape, new: Shape) -> None:
        if old == new:
            return
        one, two = _broadcast(old), _broadcast(new)
        python, cpp = f"{one[0]} == {two[0]}", f"{one[1]} == {two[1]}"
        if not (old <= new or new <= old):
            # Open sizes of unlike values may be unlike.
            python, cpp = f"_is_fixed({one[0]}) and {python}", f"IsFixed({one[1]}) && {cpp}"
        self.found.append((Code(python, cpp, "bool"), "the shape changes"))

    # ------------------------------------------------------------ element types
    def _dtype(self, source: Source, read: Desc | None, *, is_new: bool) -> Dtype | None:
        match source:
            case Output(node=node):
                return self._dtypes[is_new, node]
            case Input(number=number):
                return _dtype_of_desc(("input", number), self.reads[source])
            case Number() if read is not None and not is_new:
                return _dtype_of_desc(("number", read), read)
            case Number() | Computed() | None:
                return None  # a number takes the type of what is beside it

    def _dtype_of_node(self, node: PlanNode, place: int, *, is_new: bool) -> Dtype:
        kind, own = node.form.type, Desc(place, 0, True)
        given = [
            self._dtype(source, Desc(place, slot, False), is_new=is_new)
            for slot, source in enumerate(node.inputs)
        ]
        if kind in _BROADCAST | frozenset(_MATMUL) and kind != "Pow":
            first = 1 if kind in ("Select", "SelectV2") else 0
            given = [item for item in given[first:] if item is not None]
            for item in given[1:]:
                self._same(given[0], item, is_new=is_new)
        if kind.startswith("Logical"):
            for item in given:
                self._same(_fixed_dtype(DType.BOOL), item, is_new=is_new)
        if kind in _TRUTH:
            return _fixed_dtype(DType.BOOL)
        if kind == "Cast" or kind in _OWN_DTYPE:
            name = "dst_type" if kind == "Cast" else "dtype"
            wanted = _attributes(node, place, is_new=is_new).get(name)
            if isinstance(wanted, int):
                return Dtype(("fixed", wanted), str(wanted), f"static_cast<DataType>({wanted})")
            key = (kind, wanted)
            if not is_new:
                return _dtype_of_desc(key, own)
            for at, other in enumerate(self.plan.nodes):
                if self._dtypes[False, at].key == key and other.form.type == kind:
                    return self._dtypes[False, at]
            raise Refusal("type", f"the element type of a result of {kind} cannot be asked", None)
        if given and given[0] is not None:
            return given[0]
        return _dtype_of_desc(("output", place), own) if not is_new else _fixed_dtype(DType.F32)

    def _same(self, one: Dtype | None, other: Dtype | None, *, is_new: bool) -> None:
        """Operands of one type: in a match they have it, in a replacement they need it."""
        if is_new:
            self._require_same_dtype(one, other)
        elif one is not None and other is not None:
            first, second = self._root(one.key), self._root(other.key)
            if first != second:
                self._same_dtypes[second] = first

    def _root(self, key: object) -> object:
        while key in self._same_dtypes:
            key = self._same_dtypes[key]
        return key

    def _require_same_dtype(self, one: Dtype | None, other: Dtype | None) -> None:
        if one is None or other is None or self._root(one.key) == self._root(other.key):
            return
        code = Code(f"{one.python} == {other.python}", f"{one.cpp} == {other.cpp}", "bool")
        self.found.append((code, "the element type changes"))


def _broadcast(shape: Shape) -> tuple[str, str]:
    leaves = sorted(shape, key=lambda leaf: leaf.python)
    if len(leaves) == 1:
        return leaves[0].python, leaves[0].cpp
    python = ", ".join(leaf.python for leaf in leaves)
    cpp = ", ".join(leaf.cpp for leaf in leaves)
    return f"_broadcast({python})", f"Broadcast({{{cpp}}}, known)"


def _of_desc(desc: Desc) -> Leaf:
    python, cpp = desc.code
    return Leaf(desc, f"_dims({python})", f"Dims({cpp}, known)")


def _dtype_of_desc(key: object, desc: Desc) -> Dtype:
    python, cpp = desc.code
    return Dtype(key, f"int({python}.data_type)", f"{cpp}.GetDataType()")


def _fixed_dtype(dtype: DType) -> Dtype:
    number, name = DT[dtype]
    return Dtype(("fixed", number), str(number), f"ge::{name}")


def _named(source: Source, place: int, is_new: bool) -> object:
    """What stands for the elements of an input; a constant of any value is like no other."""
    if isinstance(source, Output) or (isinstance(source, Number) and source.value is None):
        return (source, place, is_new)
    return source


def _attributes(node: PlanNode, place: int, *, is_new: bool) -> dict[str, object]:
    """All attributes with their values, defaults included; those that are taken over by where they are."""
    found: dict[str, object] = {}
    for name, default in OPERATORS[node.form.type].attrs.items():
        value = node.attrs.get(name)
        if isinstance(value, Computed):
            found[name] = ("computed", value.python)
        elif isinstance(value, Captured):
            found[name] = ("of", value.node, value.name)
        elif value is not None:
            found[name] = value
        elif is_new and node.copies is not None:
            found[name] = ("of", node.copies, name)
        elif not is_new and node.is_open:
            found[name] = ("of", place, name)
        else:
            found[name] = default if isinstance(default, int | float | str) else _tuple(default)
    return found


def _tuple(value: object) -> object:
    return tuple(cast("Sequence[object]", value)) if isinstance(value, Sequence) else value
