"""Sizes in exported programs: texts that torch evaluates, so that only arithmetic may pass."""

from __future__ import annotations

import ast
from typing import Final

_LONGEST: Final = 2000
_LARGEST: Final = 1 << 64
_LARGEST_EXPONENT: Final = 9
_FUNCTIONS: Final = frozenset({
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "Piecewise"),
    *("Eq", "Ne", "Lt", "Le", "Gt", "Ge", "Equality", "Unequality", "And", "Or", "Not"),
    *("StrictGreaterThan", "StrictLessThan", "GreaterThan", "LessThan"),
    *("FloorDiv", "CleanDiv", "CeilDiv", "ModularIndexing", "Where", "PythonMod", "Identity"),
    *("CeilToInt", "FloorToInt", "TruncToInt", "RoundToInt", "IntTrueDiv", "FloatTrueDiv", "ToFloat"),
    *("PowByNatural", "LShift", "RShift", "IsNonOverlappingAndDenseIndicator"),
})  # fmt: skip
"""Source: sympy, srepr; torch, utils/_sympy/functions.py."""

_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod)


def is_plain_size(text: object) -> bool:
    """Whether a text is arithmetic on symbols and small numbers, and nothing else.

    Sympy evaluates such a text as Python, and computes powers whatever their size.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return False
    try:
        root = ast.parse(text, mode="eval").body
        return _is_plain(root)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_plain(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bool()):
            return True
        case ast.Constant(value=int() | float() as number):
            return abs(number) <= _LARGEST
        case ast.Name(id=name):
            return name.isalnum()
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _is_plain(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            return isinstance(operator, _OPERATORS) and _is_plain(left) and _is_plain(right)
        case ast.Compare(left=left, comparators=rights):
            return _is_plain(left) and all(_is_plain(right) for right in rights)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return name in _FUNCTIONS and _are_plain_arguments(name, args, keywords)
        case _:
            return False


def _are_plain_arguments(name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    if any(word.arg is None or not isinstance(word.value, ast.Constant) for word in keywords):
        return False
    if name in ("Symbol", "Float", "Integer"):
        # The only texts: a name, or digits.
        return all(isinstance(arg, ast.Constant | ast.UnaryOp) and _is_word_or_number(arg) for arg in args)
    if name in ("Pow", "PowByNatural", "LShift", "RShift"):
        return len(args) == 2 and _is_plain(args[0]) and _is_small(args[1])
    return all(_is_plain(arg) for arg in args)


def _is_word_or_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (
            node.value.replace("_", "a").replace(".", "0").replace("-", "0").isalnum()
            and len(node.value) < 60
        )
    return _is_plain(node)


def _is_small(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Integer":
        return len(node.args) == 1 and _is_small(node.args[0])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_small(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= _LARGEST_EXPONENT
