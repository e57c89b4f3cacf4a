"""Expressions read from a parse tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

from lark import Token, Tree

from gerules.dsl.expressions import (
    Attribute,
    Binary,
    BoolOp,
    CallExpr,
    Compare,
    Comparison,
    Expr,
    Ident,
    IfElse,
    Index,
    IsNone,
    ListExpr,
    Literal,
    MapExpr,
    Membership,
    Negate,
    Not,
    Operator,
    ParamRef,
    Ref,
    Slice,
)
from gerules.dsl.syntax import Condition
from gerules.dsl.tree import Branch, Reader, kids, need_token, need_tree


def read_expr(reader: Reader, branch: Branch) -> Expr:
    """Read an `expr`."""
    tree = need_tree(branch)
    return _READERS[str(tree.data)](reader, tree)


def read_condition(reader: Reader, branch: Branch) -> Condition:
    """Read a `cond`, or any tree that holds an expression and perhaps a reason."""
    tree = need_tree(branch)
    test, reason = kids(tree)
    return Condition(
        reader.line(tree), read_expr(reader, test), None if reason is None else reader.text(reason)
    )


def read_comparison(branch: Branch) -> Comparison:
    """Read a `cmp_op`."""
    return _COMPARISONS[str(need_token(kids(need_tree(branch))[0]))]


_COMPARISONS: Final[dict[str, Comparison]] = {op: op for op in get_args(Comparison)}


def _int(reader: Reader, tree: Tree[Token]) -> Expr:
    return Literal(reader.span(tree), reader.number(tree))


def _string(reader: Reader, tree: Tree[Token]) -> Expr:
    return Literal(reader.span(tree), reader.text(kids(tree)[0]))


def _constant(value: bool | None) -> Callable[[Reader, Tree[Token]], Expr]:
    return lambda reader, tree: Literal(reader.span(tree), value)


def _ref(reader: Reader, tree: Tree[Token]) -> Expr:
    return Ref(reader.span(tree), str(kids(tree)[0]))


def _param(reader: Reader, tree: Tree[Token]) -> Expr:
    return ParamRef(reader.span(tree), str(kids(tree)[0]))


def _list(reader: Reader, tree: Tree[Token]) -> Expr:
    items = tuple(read_expr(reader, child) for child in kids(tree) if child is not None)
    return ListExpr(reader.span(tree), items)


def _map(reader: Reader, tree: Tree[Token]) -> Expr:
    pairs: list[tuple[Expr, Expr]] = []
    for child in kids(tree):
        if child is not None:
            key, value = kids(need_tree(child))
            pairs.append((read_expr(reader, key), read_expr(reader, value)))
    return MapExpr(reader.span(tree), tuple(pairs))


def _binary(op: Operator) -> Callable[[Reader, Tree[Token]], Expr]:
    def read(reader: Reader, tree: Tree[Token]) -> Expr:
        left, right = kids(tree)
        return Binary(reader.span(tree), op, read_expr(reader, left), read_expr(reader, right))

    return read


def _and(reader: Reader, tree: Tree[Token]) -> Expr:
    left, right = kids(tree)
    return BoolOp(reader.span(tree), "and", read_expr(reader, left), read_expr(reader, right))


def _or(reader: Reader, tree: Tree[Token]) -> Expr:
    left, right = kids(tree)
    return BoolOp(reader.span(tree), "or", read_expr(reader, left), read_expr(reader, right))


def _not(reader: Reader, tree: Tree[Token]) -> Expr:
    return Not(reader.span(tree), read_expr(reader, kids(tree)[0]))


def _neg(reader: Reader, tree: Tree[Token]) -> Expr:
    return Negate(reader.span(tree), read_expr(reader, kids(tree)[0]))


def _compare(reader: Reader, tree: Tree[Token]) -> Expr:
    first, *rest = kids(tree)
    sides = zip(rest[::2], rest[1::2], strict=True)
    pairs: tuple[tuple[Comparison, Expr], ...] = tuple(
        (read_comparison(op), read_expr(reader, side)) for op, side in sides
    )
    return Compare(reader.span(tree), read_expr(reader, first), pairs)


def _membership(is_negated: bool) -> Callable[[Reader, Tree[Token]], Expr]:
    def read(reader: Reader, tree: Tree[Token]) -> Expr:
        item, container = kids(tree)
        return Membership(
            reader.span(tree), read_expr(reader, item), read_expr(reader, container), is_negated
        )

    return read


def _is_none(is_negated: bool) -> Callable[[Reader, Tree[Token]], Expr]:
    return lambda reader, tree: IsNone(reader.span(tree), read_expr(reader, kids(tree)[0]), is_negated)


def _if_else(reader: Reader, tree: Tree[Token]) -> Expr:
    then, condition, otherwise = kids(tree)
    return IfElse(
        reader.span(tree),
        read_expr(reader, then),
        read_expr(reader, condition),
        read_expr(reader, otherwise),
    )


def _attribute(reader: Reader, tree: Tree[Token]) -> Expr:
    operand, name = kids(tree)
    return Attribute(reader.span(tree), read_expr(reader, operand), reader.ident(name))


def _index(reader: Reader, tree: Tree[Token]) -> Expr:
    operand, subscript = kids(tree)
    inner = need_tree(subscript)
    index: Expr | Slice
    if inner.data == "slice":
        start, stop, step = (None if part is None else read_expr(reader, part) for part in kids(inner))
        # `[:]` has no tokens of its own to point at.
        span = reader.span(tree) if inner.meta.empty else reader.span(inner)
        index = Slice(span, start, stop, step)
    else:
        index = read_expr(reader, inner)
    return Index(reader.span(tree), read_expr(reader, operand), index)


def _call(reader: Reader, tree: Tree[Token]) -> Expr:
    callee, *rest = kids(tree)
    args: list[Expr] = []
    kwargs: list[tuple[Ident, Expr]] = []
    for child in rest:
        if child is None:
            continue
        inner = need_tree(child)
        if inner.data == "e_kw":
            name, value = kids(inner)
            kwargs.append((reader.ident(name), read_expr(reader, value)))
        else:
            if kwargs:
                reader.misplaced(
                    reader.span(inner),
                    "this argument",
                    "it follows a named one",
                    "put it before the named ones",
                )
            args.append(read_expr(reader, inner))
    return CallExpr(reader.span(tree), read_expr(reader, callee), tuple(args), tuple(kwargs))


_READERS: Final[dict[str, Callable[[Reader, Tree[Token]], Expr]]] = {
    "int": _int,
    "float": _int,
    "string": _string,
    "true": _constant(True),
    "false": _constant(False),
    "none": _constant(None),
    "name": _ref,
    "param": _param,
    "e_list": _list,
    "e_map": _map,
    "e_add": _binary("+"),
    "e_sub": _binary("-"),
    "e_mul": _binary("*"),
    "e_div": _binary("/"),
    "e_floordiv": _binary("//"),
    "e_mod": _binary("%"),
    "e_pow": _binary("**"),
    "e_and": _and,
    "e_or": _or,
    "e_not": _not,
    "e_neg": _neg,
    "e_cmp": _compare,
    "e_in": _membership(False),
    "e_not_in": _membership(True),
    "e_is_none": _is_none(False),
    "e_is_some": _is_none(True),
    "e_if": _if_else,
    "e_attr": _attribute,
    "e_index": _index,
    "e_call": _call,
}
