"""Guards of rules as conditions of passes, in Python and in C++.

What a guard asks of a value becomes a question to the type of an input or an output of a matched node. A size
or a rank that is not known when the pass runs makes the whole condition fail, as it does in a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gerules.dsl.expressions import (
    Attribute,
    Binary,
    BoolOp,
    CallExpr,
    Compare,
    Expr,
    Index,
    IsNone,
    ListExpr,
    Literal,
    Membership,
    Negate,
    Not,
    ParamRef,
    Ref,
)
from gerules.dsl.values import Value
from gerules.exporting.plan import Captured, Refusal
from gerules.exporting.texts import quoted
from gerules.ir import DType

DT: Final[Mapping[DType, tuple[int, str]]] = {
    DType.F32: (0, "DT_FLOAT"), DType.F16: (1, "DT_FLOAT16"), DType.I8: (2, "DT_INT8"),
    DType.I32: (3, "DT_INT32"), DType.U8: (4, "DT_UINT8"), DType.I16: (6, "DT_INT16"),
    DType.U16: (7, "DT_UINT16"), DType.U32: (8, "DT_UINT32"), DType.I64: (9, "DT_INT64"),
    DType.U64: (10, "DT_UINT64"), DType.F64: (11, "DT_DOUBLE"), DType.BOOL: (12, "DT_BOOL"),
    DType.BF16: (27, "DT_BF16"),
}  # fmt: skip
"""Number and name of element types there."""

_FAMILIES: Final[Mapping[str, Callable[[DType], bool]]] = {
    "is_float": lambda dtype: dtype.is_float,
    "is_integer": lambda dtype: dtype.is_integer,
}
"""Questions to an element type, by the names of the functions that rules ask them with."""

_NAMES: Final = {dtype.value: dtype for dtype in DT}


@dataclass(frozen=True, slots=True)
class Code:
    """An expression in both languages; `kind` is `number`, `bool`, `dtype`, `shape` or `text`."""

    python: str
    cpp: str
    kind: str


@dataclass(frozen=True, slots=True)
class Desc:
    """The type of a value: that of an input of a matched node, or of its result."""

    node: int
    slot: int
    is_output: bool
    is_const: bool = False

    @property
    def code(self) -> tuple[str, str]:
        """The expression that gets it, in Python and in C++."""
        way = "output" if self.is_output else "input"
        return (
            f"nodes[{self.node}].get_{way}_desc({self.slot})",
            f"{way.title()}Desc(nodes[{self.node}], {self.slot})",
        )


Binding = Desc | Captured | Code | Value
"""What a name of a rule is while its guards are written."""


@dataclass(slots=True)
class Writer:
    """Writes the expressions of one form of a rule."""

    names: Mapping[str, object]
    """Names of the rule: `Desc`, `Captured`, `Code`, or None for what is absent in this form."""
    params: Mapping[str, Value]

    def condition(self, expr: Expr) -> Code:
        """Return an expression that is true or false. Raises Refusal."""
        code = self.write(expr)
        if code.kind != "bool":
            raise Refusal("guard", f"`{expr.span.text}` is no condition that a pass can ask", expr.span)
        return code

    def write(self, expr: Expr) -> Code:
        """Return any expression. Raises Refusal for one that passes cannot compute."""
        match expr:
            case Literal(value=value):
                return _literal(value, expr)
            case ParamRef(name=name):
                return _literal(self.params.get(name), expr)
            case Ref(name=name):
                return self._name(name, expr)
            case Attribute(operand=Ref(name=name), name=wanted):
                return self._of_type(self._desc(name, expr), wanted.name, expr)
            case Index(operand=Attribute(operand=Ref(name=name), name=wanted), index=index) if (
                wanted.name == "shape"
            ):
                return self._dim(self._desc(name, expr), index, expr)
            case CallExpr(callee=Ref(name=name), args=args) if not expr.kwargs:
                return self._call(name, args, expr)
            case Not(operand=operand):
                inner = self.condition(operand)
                return Code(f"not ({inner.python})", f"!({inner.cpp})", "bool")
            case Negate(operand=operand):
                inner = self.write(operand)
                return Code(f"-{inner.python}", f"-{inner.cpp}", inner.kind)
            case BoolOp(op=op, left=left, right=right):
                one, two = self.condition(left), self.condition(right)
                mark = "&&" if op == "and" else "||"
                return Code(f"({one.python} {op} {two.python})", f"({one.cpp} {mark} {two.cpp})", "bool")
            case Binary(op=op, left=left, right=right) if op in ("+", "-", "*"):
                one, two = self.write(left), self.write(right)
                if (one.kind, two.kind) != ("number", "number"):
                    raise self._refuse(expr)
                return Code(f"({one.python} {op} {two.python})", f"({one.cpp} {op} {two.cpp})", "number")
            case Binary(op="%", left=left, right=Literal(value=int(divisor))) if divisor > 0:
                one = self.write(left)
                if one.kind != "number":
                    raise self._refuse(expr)
                return Code(f"{one.python} % {divisor}", f"Modulo({one.cpp}, {divisor})", "number")
            case Compare(first=first, rest=rest):
                return self._compare(first, rest, expr)
            case Membership(item=item, container=ListExpr(items=items), is_negated=is_negated):
                return self._member(item, items, is_negated)
            case IsNone(operand=Ref(name=name), is_negated=is_negated):
                is_absent = name in self.names and self.names[name] is None
                return _truth(is_absent is not is_negated)
            case _:
                raise self._refuse(expr)

    def _compare(self, first: Expr, rest: tuple[tuple[str, Expr], ...], whole: Expr) -> Code:
        python: list[str] = []
        cpp: list[str] = []
        left = self.write(first)
        for op, other in rest:
            right = self.write(other)
            if left.kind != right.kind or (left.kind != "number" and op not in ("==", "!=")):
                raise self._refuse(whole)
            python.append(f"{left.python} {op} {right.python}")
            cpp.append(f"{left.cpp} {op} {right.cpp}")
            left = right
        return Code(" and ".join(python), " && ".join(cpp), "bool")

    def _member(self, item: Expr, items: tuple[Expr, ...], is_negated: bool) -> Code:
        one, many = self.write(item), [self.write(other) for other in items]
        python = " or ".join(f"{one.python} == {other.python}" for other in many) or "False"
        cpp = " || ".join(f"{one.cpp} == {other.cpp}" for other in many) or "false"
        if is_negated:
            return Code(f"not ({python})", f"!({cpp})", "bool")
        return Code(f"({python})", f"({cpp})", "bool")

    def _name(self, name: str, expr: Expr) -> Code:
        if name in _NAMES and name not in self.names:
            number, text = DT[_NAMES[name]]
            return Code(str(number), f"ge::{text}", "dtype")
        found = self.names.get(name)
        if isinstance(found, Code):
            return found
        if isinstance(found, Captured):
            return captured(found, expr)
        raise self._refuse(expr)

    def _of_type(self, desc: Desc, wanted: str, expr: Expr) -> Code:
        python, cpp = desc.code
        match wanted:
            case "rank":
                return Code(f"_rank({python})", f"Rank({cpp}, known)", "number")
            case "dtype":
                return Code(f"int({python}.data_type)", f"{cpp}.GetDataType()", "dtype")
            case "shape":
                return Code(f"_sizes({python})", f"Sizes({cpp}, known)", "shape")
            case _:
                raise self._refuse(expr)

    def _dim(self, desc: Desc, index: object, expr: Expr) -> Code:
        place = _whole(index)
        if place is None:
            raise self._refuse(expr)
        return dim(desc, place)

    def _call(self, name: str, args: tuple[Expr, ...], expr: Expr) -> Code:
        if name == "len" and len(args) == 1 and isinstance(args[0], Attribute):
            inner = args[0]
            if isinstance(inner.operand, Ref) and inner.name.name == "shape":
                return self._of_type(self._desc(inner.operand.name, expr), "rank", expr)
        if name in _FAMILIES and len(args) == 1:
            return self._is_of_family(name, self.write(args[0]), expr)
        descs = [self._desc(arg.name, expr) for arg in args if isinstance(arg, Ref)]
        if len(descs) != len(args):
            raise self._refuse(expr)
        codes = [item.code for item in descs]
        match name, len(descs):
            case "numel", 1:
                return Code(f"_numel({codes[0][0]})", f"Numel({codes[0][1]}, known)", "number")
            case "is_scalar", 1:
                return Code(f"_numel({codes[0][0]}) == 1", f"Numel({codes[0][1]}, known) == 1", "bool")
            case "is_static", 1:
                return Code(f"_is_static({codes[0][0]})", f"IsStatic({codes[0][1]})", "bool")
            case "same_shape", 2:
                python = f"_sizes({codes[0][0]}) == _sizes({codes[1][0]})"
                return Code(python, f"Sizes({codes[0][1]}, known) == Sizes({codes[1][1]}, known)", "bool")
            case "scalar", 1 if descs[0].is_const:
                return const_number(descs[0])
            case _:
                raise self._refuse(expr)

    def _is_of_family(self, family: str, dtype: Code, expr: Expr) -> Code:
        if dtype.kind != "dtype":
            raise self._refuse(expr)
        known = sorted(number for kind, number in DT.items() if _FAMILIES[family](kind))
        numbers = ", ".join(str(number) for number, _ in known)
        tests = " || ".join(f"{dtype.cpp} == ge::{text}" for _, text in known)
        return Code(f"{dtype.python} in ({numbers})", f"({tests})", "bool")

    def _desc(self, name: str, expr: Expr) -> Desc:
        found = self.names.get(name)
        if isinstance(found, Desc):
            return found
        raise self._refuse(expr)

    def _refuse(self, expr: Expr) -> Refusal:
        return Refusal("guard", f"`{expr.span.text}` asks what a pass cannot find out", expr.span)


def dim(desc: Desc, place: int) -> Code:
    """Return one size of a value, from the front or, below zero, from the back."""
    python, cpp = desc.code
    return Code(f"_size({python}, {place})", f"Size({cpp}, {place}, known)", "number")


def const_number(desc: Desc) -> Code:
    """Return the one element of a constant that a matched node reads."""
    return Code(
        f"_number(nodes[{desc.node}], {desc.slot})",
        f"ConstNumber(nodes[{desc.node}], {desc.slot}, known)",
        "number",
    )


def captured(found: Captured, expr: Expr) -> Code:
    """Return the value of an attribute of a matched node. Raises Refusal for a list."""
    if found.kind not in ("int", "float", "bool", "text"):
        raise Refusal(
            "guard", f"`{expr.span.text}` is a list, which a guard of a pass does not read", expr.span
        )
    kind = {"int": "number", "float": "number", "bool": "number", "text": "text"}[found.kind]
    cpp_type = {"int": "int64_t", "float": "float", "bool": "bool", "text": "AscendString"}[found.kind]
    return Code(
        f'nodes[{found.node}].get_attr("{found.name}")',
        f'AttrOf<{cpp_type}>(nodes[{found.node}], "{found.name}", known)',
        kind,
    )


def _literal(value: object, expr: Expr) -> Code:
    match value:
        case bool():
            return _truth(value)
        case int() | float():
            return Code(repr(value), repr(value), "number")
        case str():
            text = quoted(value)
            return Code(text, f"AscendString({text})", "text")
        case _:
            raise Refusal("guard", f"`{expr.span.text}` is no number", expr.span)


def _truth(value: bool) -> Code:
    return Code(str(value), "true" if value else "false", "bool")


def _whole(expr: object) -> int | None:
    match expr:
        case Literal(value=int(value)):
            return value
        case Negate(operand=Literal(value=int(value))):
            return -value
        case _:
            return None
