"""Expressions of the rule language: what stands in `where`, `fold`, `gate`, `when` and `annotate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as Choice

from gerules.errors import Span


@dataclass(frozen=True, slots=True)
class Syntax:
    """A piece of a rule file. Two pieces are equal when they say the same, wherever they stand."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ident(Syntax):
    """A name as written: `x`, `ge::RmsNorm`, `fold.conv`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal(Syntax):
    """`1`, `0.5`, `"text"`, `true`, `none`."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Ref(Syntax):
    """A name that match, fold, the language (`f16`, `device`) or a capture gives a value."""

    name: str


@dataclass(frozen=True, slots=True)
class ParamRef(Syntax):
    """`$NAME`: a `const`, a `param`, or a setting of the profile or the device."""

    name: str


@dataclass(frozen=True, slots=True)
class ListExpr(Syntax):
    """`[a, b]`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MapExpr(Syntax):
    """`{"group": 2}`, as tests give attributes."""

    pairs: tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True)
class Negate(Syntax):
    """`-x`."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Not(Syntax):
    """`not x`."""

    operand: Expr


Operator = Choice["+", "-", "*", "/", "//", "%", "**"]


@dataclass(frozen=True, slots=True)
class Binary(Syntax):
    """`left op right`, arithmetic."""

    op: Operator
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class BoolOp(Syntax):
    """`left and right`, `left or right`; the right side is looked at only when it decides."""

    op: Choice["and", "or"]
    left: Expr
    right: Expr


Comparison = Choice["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Compare(Syntax):
    """`first < second <= third`: each neighbour compared, as in Python."""

    first: Expr
    rest: tuple[tuple[Comparison, Expr], ...]


@dataclass(frozen=True, slots=True)
class Membership(Syntax):
    """`item in container`, `item not in container`."""

    item: Expr
    container: Expr
    is_negated: bool


@dataclass(frozen=True, slots=True)
class IsNone(Syntax):
    """`x is none`, `x is not none`: whether an optional part was absent."""

    operand: Expr
    is_negated: bool


@dataclass(frozen=True, slots=True)
class IfElse(Syntax):
    """`then if condition else otherwise`."""

    then: Expr
    condition: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Attribute(Syntax):
    """`operand.name`; the names are a fixed list (`functions.ATTRIBUTES`)."""

    operand: Expr
    name: Ident


@dataclass(frozen=True, slots=True)
class Slice(Syntax):
    """`start:stop:step` inside an index."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True)
class Index(Syntax):
    """`operand[index]`."""

    operand: Expr
    index: Expr | Slice


@dataclass(frozen=True, slots=True)
class CallExpr(Syntax):
    """`function(args, name=value)`; the callee is a `Ref`, or an `Attribute` (`device.has("x")`)."""

    callee: Expr
    args: tuple[Expr, ...]
    kwargs: tuple[tuple[Ident, Expr], ...]


Expr = (
    Literal
    | Ref
    | ParamRef
    | ListExpr
    | MapExpr
    | Negate
    | Not
    | Binary
    | BoolOp
    | Compare
    | Membership
    | IsNone
    | IfElse
    | Attribute
    | Index
    | CallExpr
)


def parts(expr: Expr | Slice) -> Iterator[Expr]:
    """Yield the expressions directly inside one, in reading order."""
    match expr:
        case Literal() | Ref() | ParamRef():
            return
        case ListExpr(items=items):
            yield from items
        case MapExpr(pairs=pairs):
            for key, value in pairs:
                yield key
                yield value
        case Negate(operand=operand) | Not(operand=operand) | IsNone(operand=operand):
            yield operand
        case Attribute(operand=operand):
            yield operand
        case Binary(left=left, right=right) | BoolOp(left=left, right=right):
            yield left
            yield right
        case Compare(first=first, rest=rest):
            yield first
            for _, other in rest:
                yield other
        case Membership(item=item, container=container):
            yield item
            yield container
        case IfElse(then=then, condition=condition, otherwise=otherwise):
            yield then
            yield condition
            yield otherwise
        case Index(operand=operand, index=index):
            yield operand
            if isinstance(index, Slice):
                yield from parts(index)
            else:
                yield index
        case Slice(start=start, stop=stop, step=step):
            yield from (item for item in (start, stop, step) if item is not None)
        case CallExpr(callee=callee, args=args, kwargs=kwargs):
            yield callee
            yield from args
            for _, value in kwargs:
                yield value


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and everything inside it, outermost first."""
    stack: list[Expr] = [expr]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(reversed(list(parts(item))))
