"""A test of a rule as text, ready to paste below the rule."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gerules.dsl.expressions import Expr, ListExpr, Literal, MapExpr, Negate, Ref
from gerules.dsl.syntax import (
    DimName,
    DimPattern,
    DimSeq,
    DimSize,
    Elements,
    GivenValue,
    RuleTest,
    TypePattern,
)


def test_text(test: RuleTest) -> str:
    """Return a test as a block of a rule file; reading it gives an equal test."""
    name = f" {_quoted(test.doc)}" if test.doc else ""
    return "\n".join([f"    test{name}:", *(f"        {line}" for line in _lines(test))]) + "\n"


# pytest collects functions by this prefix; this one is no test.
setattr(test_text, "__test__", False)  # noqa: B010 (pyright knows no such attribute)


def _lines(test: RuleTest) -> Iterator[str]:
    for item in test.inputs:
        if isinstance(item, GivenValue):
            yield f"{item.name}{'?' if item.is_optional else ''}: {_given(item)}"
        else:
            yield f"{item.name} = {expr_text(item.value)}"
    for word, choices in (("choose", test.choices), ("after", test.after)):
        for choice in choices:
            yield f"{word} {choice.name} = [{', '.join(op.name for op in choice.ops)}]"
    if test.device is not None:
        yield f"device {test.device}"
    if test.profile is not None:
        yield f"profile {test.profile}"
    if test.escapes:
        yield f"escapes {', '.join(name.name for name in test.escapes)}"
    if test.rtol is not None:
        yield f"close {_number(test.rtol)}" + (f", {_number(test.atol)}" if test.atol is not None else "")
    if not test.expects_match:
        yield "expect no match" + (f" {_quoted(test.reason)}" if test.reason is not None else "")


def _given(item: GivenValue) -> str:
    if item.type is None:
        return "none"
    text = _type(item.type)
    if item.elements is not None:
        return f"{text} = {_elements(item.elements)}"
    if item.low is not None and item.high is not None:
        return f"{text} in {_number(item.low)} .. {_number(item.high)}"
    return text


def _type(type: TypePattern) -> str:
    parts = ["const"] if type.is_const else []
    if type.dtype_name is not None:
        parts.append(type.dtype_name)
    elif type.dtypes is not None:
        names = sorted(dtype.value for dtype in type.dtypes)
        parts.append(names[0] if len(names) == 1 else f"{{{', '.join(names)}}}")
    text = " ".join(parts)
    if type.dims is not None:
        text += f"[{', '.join(_dim(dim) for dim in type.dims)}]"
    return text + (f" @{type.format}" if type.format is not None else "")


def _dim(dim: DimPattern) -> str:
    match dim:
        case DimSize(size=size):
            return str(size)
        case DimName(name=name):
            return name
        case DimSeq(name=name):
            return f"*{name}"
        case _:
            return "..."


def _elements(given: Elements) -> str:
    values = ", ".join(_number(value) for value in given.values)
    return f"[{values}]" if given.kind == "list" else f"{given.kind}({values})"


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value)


def expr_text(expr: Expr) -> str:
    """Return an expression as text: literals and lists as they are, others as they were written."""
    match expr:
        case Literal(value=str() as value):
            return _quoted(value)
        case Literal(value=bool() as value):
            return "true" if value else "false"
        case Literal(value=None):
            return "none"
        case Literal(value=int() | float() as value):
            return _number(value)
        case Negate(operand=Literal() as operand):
            return f"-{expr_text(operand)}"
        case Ref(name=name):
            return name
        case ListExpr(items=items):
            return f"[{', '.join(expr_text(item) for item in items)}]"
        case MapExpr(pairs=pairs):
            return "{" + ", ".join(f"{expr_text(key)}: {expr_text(value)}" for key, value in pairs) + "}"
        case _:
            return expr.span.text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
