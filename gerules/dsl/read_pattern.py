"""Patterns and value types read from a parse tree."""

from __future__ import annotations

import difflib
from typing import Final

from lark import Token, Tree

from gerules.dsl.expressions import Expr, Ident
from gerules.dsl.read_expr import read_expr
from gerules.dsl.syntax import (
    ANY,
    AbsentAttr,
    Alternative,
    Alternatives,
    AnyInputs,
    AnyTargets,
    AttrArg,
    AttrPattern,
    CallPattern,
    CaptureAttr,
    ChainOp,
    DimName,
    DimPattern,
    DimRest,
    DimSeq,
    DimSize,
    ListAttr,
    LiteralAttr,
    LiteralValue,
    ManyLines,
    MatchLine,
    MatchStatement,
    NamedPattern,
    NonePattern,
    NumberPattern,
    OneOfAttr,
    OpRef,
    OpSet,
    OpSetTerm,
    ParamAttr,
    ParamPattern,
    Pattern,
    PlainOp,
    RestAttrs,
    RestInputs,
    RestTargets,
    Target,
    TypePattern,
    ValuePattern,
    VariableOp,
    WithBinding,
)
from gerules.dsl.tree import Branch, Reader, kids, need_token, need_tree, trees
from gerules.errors import table
from gerules.ir import DType

DTYPES: Final = {dtype.value: dtype for dtype in DType if dtype is not DType.UNKNOWN}
"""Element types by the name texts use."""

DTYPE_SPELLINGS: Final = {
    f"{word}{n_bits}": DTYPES[f"{letter}{n_bits}"]
    for word, letter, widths in (
        ("float", "f", (16, 32, 64)),
        ("fp", "f", (16, 32, 64)),
        ("bfloat", "bf", (16,)),
        ("int", "i", (4, 8, 16, 32, 64)),
        ("uint", "u", (4, 8, 16, 32, 64)),
        ("complex", "c", (64, 128)),
    )
    for n_bits in widths
} | {"half": DType.F16, "float": DType.F32, "double": DType.F64}
"""Element types by the names that ONNX and numpy have for them, in lower case."""

DTYPE_CLASSES: Final = {
    "float": frozenset(dtype for dtype in DType if dtype.is_float),
    "int": frozenset(dtype for dtype in DType if dtype.is_integer),
    "signed": frozenset(dtype for dtype in DType if dtype.is_integer and dtype.value[0] == "i"),
    "unsigned": frozenset(dtype for dtype in DType if dtype.is_integer and dtype.value[0] == "u"),
    "number": frozenset(dtype for dtype in DType if dtype.is_integer or dtype.is_float),
}
"""Names for several element types, usable wherever one is."""


# ---------------------------------------------------------------- operator sets
def read_opset(reader: Reader, branch: Branch) -> OpSet:
    """Read an `opset_expr`, or a single `opset`."""
    tree = need_tree(branch)
    if tree.data != "opset_expr":
        return OpSet(reader.span(tree), (_term(reader, "+", tree),))
    terms: list[OpSetTerm] = []
    sign = "+"
    for child in trees(kids(tree)):
        if child.data == "opset_sign":
            sign = str(kids(child)[0])
        else:
            terms.append(_term(reader, sign, child))
    return OpSet(reader.span(tree), tuple(terms))


def _term(reader: Reader, sign: str, tree: Tree[Token]) -> OpSetTerm:
    plus_minus = "-" if sign == "-" else "+"
    names = [child for child in kids(tree) if child is not None]
    if tree.data == "opset_ref":
        return OpSetTerm(reader.span(tree), plus_minus, reader.ident(names[0]), ())
    return OpSetTerm(reader.span(tree), plus_minus, None, reader.idents(names))


# ---------------------------------------------------------------- value types
def read_type(reader: Reader, branch: Branch) -> TypePattern:
    """Read a `ty`: parts in any order, each kind once; a dtype variable may stand with a dtype set."""
    tree = need_tree(branch)
    is_const = False
    dtypes: frozenset[DType] | None = None
    dtype_name: str | None = None
    dims: tuple[DimPattern, ...] | None = None
    layout: Ident | None = None
    for part in trees(kids(tree)):
        repeated = False
        match part.data:
            case "ty_const":
                repeated, is_const = is_const, True
            case "ty_dtype":
                token = need_token(kids(part)[0])
                if (known := _dtype_set(str(token))) is not None:
                    repeated, dtypes = dtypes is not None, known
                elif token[0].islower():
                    _fault_dtype(reader, token)
                else:
                    repeated, dtype_name = dtype_name is not None, str(token)
            case "ty_dtypes":
                repeated, dtypes = dtypes is not None, _dtypes(reader, part)
            case "ty_shape":
                repeated, dims = dims is not None, _dims(reader, part)
            case _:
                repeated, layout = layout is not None, reader.ident(kids(part)[0])
        if repeated:
            reader.misplaced(
                reader.span(part), "this", "a part of its kind stands before it", "remove one of the two"
            )
    if dtype_name == ANY:
        dtype_name = None
    return TypePattern(reader.span(tree), is_const, dtypes, dtype_name, dims, layout)


def _dtype_set(name: str) -> frozenset[DType] | None:
    if name in DTYPES:
        return frozenset({DTYPES[name]})
    return DTYPE_CLASSES.get(name)


def _dtypes(reader: Reader, tree: Tree[Token]) -> frozenset[DType]:
    found: set[DType] = set()
    for child in kids(tree):
        token = need_token(child)
        known = _dtype_set(str(token))
        if known is None:
            _fault_dtype(reader, token)
        else:
            found |= known
    return frozenset(found)


def _fault_dtype(reader: Reader, token: Token) -> None:
    near = difflib.get_close_matches(token, [*DTYPES, *DTYPE_CLASSES], n=1)
    spelt = DTYPE_SPELLINGS.get(token.lower())
    best = spelt.value if spelt is not None else near[0] if near else ""
    remedy = f"did you mean {best}?" if best else "write one of " + ", ".join(DTYPES)
    reader.faults.add(table.UNKNOWN_DTYPE, span=reader.span(token), name=str(token), remedy=remedy)


def _dims(reader: Reader, tree: Tree[Token]) -> tuple[DimPattern, ...]:
    dims: list[DimPattern] = []
    n_open = 0
    for part in trees(kids(tree)):
        span = reader.span(part)
        match part.data:
            case "dim_name":
                dims.append(DimName(span, str(kids(part)[0])))
            case "dim_int":
                dims.append(DimSize(span, reader.integer(kids(part)[0])))
            case "dim_seq":
                dims.append(DimSeq(span, str(kids(part)[0])))
                n_open += 1
            case _:
                dims.append(DimRest(span))
                n_open += 1
        if n_open == 2:
            reader.misplaced(
                span,
                "a second open part",
                "where the first ends would be a guess",
                "leave one `...` or `*name` in a shape",
            )
            n_open = -len(dims)
    return tuple(dims)


# ---------------------------------------------------------------- patterns
def read_pattern(reader: Reader, branch: Branch) -> Pattern:
    """Read a `pat`."""
    tree = need_tree(branch)
    atom, name = kids(tree)
    pattern = _atom(reader, need_tree(atom))
    return pattern if name is None else NamedPattern(reader.span(tree), pattern, reader.ident(name))


def _atom(reader: Reader, tree: Tree[Token]) -> Pattern:
    span = reader.span(tree)
    match tree.data:
        case "call":
            return _call(reader, tree)
        case "pvar":
            name, mark, kind = kids(tree)
            return ValuePattern(
                span, str(name), None if kind is None else read_type(reader, kind), mark is not None
            )
        case "p_number":
            value, tolerance = kids(tree)
            return NumberPattern(span, reader.number(value), _tolerance(reader, tolerance))
        case "p_param":
            name, tolerance = kids(tree)
            return ParamPattern(span, str(name), _tolerance(reader, tolerance))
        case "alternatives":
            choices = tuple(_alternative(reader, child) for child in trees(kids(tree)))
            return Alternatives(span, choices)
        case _:
            return NonePattern(span)


def _tolerance(reader: Reader, branch: Branch) -> float | None:
    if branch is None:
        return None
    value = float(reader.number(branch))
    if value < 0:
        reader.misplaced(
            reader.span(need_tree(branch)), "this tolerance", "it is negative", "give a positive one"
        )
    return abs(value)


def _alternative(reader: Reader, tree: Tree[Token]) -> Alternative:
    pattern, *rest = kids(tree)
    bindings: list[WithBinding] = []
    for child in trees(rest):
        name, value = kids(child)
        bindings.append(WithBinding(reader.span(child), reader.ident(name), read_expr(reader, value)))
    return Alternative(reader.span(tree), read_pattern(reader, pattern), tuple(bindings))


def _op(reader: Reader, tree: Tree[Token]) -> OpRef:
    span, parts = reader.span(tree), kids(tree)
    name = str(parts[0])
    match tree.data:
        case "op_ordered":
            return PlainOp(span, name, order="ordered")
        case "op_assoc":
            return PlainOp(span, name, order="any")
        case "op_optional":
            return PlainOp(span, name, is_optional=True)
        case "op_var":
            return VariableOp(span, name, read_opset(reader, parts[1]), parts[2] is not None)
        case "op_chain":
            least, most = _range(reader, parts[2])
            return ChainOp(span, name, read_opset(reader, parts[1]), least, most)
        case _:
            return PlainOp(span, name)


def _range(reader: Reader, branch: Branch) -> tuple[int, int | None]:
    tree = need_tree(branch)
    low, high = kids(tree)
    least, most = reader.integer(low), None if high is None else reader.integer(high)
    if least < 1 or (most is not None and most < least):
        reader.misplaced(
            reader.span(tree),
            "this range",
            "it holds no positive count",
            "write `least..most` with 1 <= least <= most",
        )
        return 1, None
    return least, most


def _call(reader: Reader, tree: Tree[Token]) -> CallPattern:
    op, *rest = kids(tree)
    args: list[Pattern | RestInputs | AnyInputs] = []
    attrs: list[AttrArg] = []
    rest_attrs: RestAttrs | None = None
    for child in trees(rest):
        span = reader.span(child)
        is_closed = bool(args) and isinstance(args[-1], RestInputs | AnyInputs)
        match child.data:
            case "p_kw":
                name, value = kids(child)
                attrs.append(AttrArg(span, reader.ident(name), _attr(reader, need_tree(value))))
            case "p_kwrest":
                if rest_attrs is not None:
                    reader.misplaced(
                        span, "this", "the remaining attributes are named already", "remove one of the two"
                    )
                name = kids(child)[0]
                rest_attrs = RestAttrs(span, None if name is None else str(name))
            case "p_rest" | "p_any_rest":
                if is_closed:
                    reader.misplaced(
                        span, "this", "the remaining inputs are named already", "remove one of the two"
                    )
                elif child.data == "p_rest":
                    args.append(RestInputs(span, str(kids(child)[0])))
                else:
                    args.append(AnyInputs(span))
            case _:
                if attrs or rest_attrs is not None or is_closed:
                    reader.misplaced(
                        span, "this input", "it follows a keyword or the remaining inputs", "put inputs first"
                    )
                    continue
                args.append(read_pattern(reader, child))
    return CallPattern(reader.span(tree), _op(reader, need_tree(op)), tuple(args), tuple(attrs), rest_attrs)


def _attr(reader: Reader, tree: Tree[Token]) -> AttrPattern:
    span = reader.span(tree)
    match tree.data:
        case "a_capture":
            name = str(kids(tree)[0])
            return LiteralAttr(span, DTYPES[name]) if name in DTYPES else CaptureAttr(span, name)
        case "a_optional":
            return CaptureAttr(span, str(kids(tree)[0]), is_optional=True)
        case "a_literal":
            return LiteralAttr(span, _literal(reader, kids(tree)[0]))
        case "a_param":
            return ParamAttr(span, str(kids(tree)[0]))
        case "a_list":
            return ListAttr(span, tuple(_literal(reader, item) for item in trees(kids(tree))))
        case "a_oneof":
            return OneOfAttr(span, tuple(_literal(reader, item) for item in trees(kids(tree))))
        case _:
            return AbsentAttr(span)


def _literal(reader: Reader, branch: Branch) -> LiteralValue:
    tree = need_tree(branch)
    match tree.data:
        case "string":
            return reader.text(kids(tree)[0])
        case "true":
            return True
        case "false":
            return False
        case _:
            return reader.number(tree)


# ---------------------------------------------------------------- match statements
def read_match(reader: Reader, statements: list[Tree[Token]]) -> tuple[MatchStatement, ...]:
    """Read the statements of a `match` section or of a `pattern`."""
    return tuple(
        _many(reader, item) if item.data == "match_many" else _match_line(reader, item) for item in statements
    )


def _match_line(reader: Reader, tree: Tree[Token]) -> MatchLine:
    shared, *targets, pattern = kids(tree)
    return MatchLine(
        reader.line(tree),
        tuple(_target(reader, target) for target in trees(targets)),
        read_pattern(reader, pattern),
        shared is not None,
    )


def _target(reader: Reader, tree: Tree[Token]) -> Target | RestTargets | AnyTargets:
    span = reader.span(tree)
    match tree.data:
        case "target_name":
            name, kind = kids(tree)
            return Target(span, str(name), None if kind is None else read_type(reader, kind))
        case "target_rest":
            return RestTargets(span, str(kids(tree)[0]))
        case _:
            return AnyTargets(span)


def _many(reader: Reader, tree: Tree[Token]) -> ManyLines:
    span, *statements = kids(tree)
    least, most = _range(reader, span)
    lines: list[MatchLine] = []
    same: list[Ident] = []
    limits: list[Expr] = []
    for outer in trees(statements):
        match outer.data:
            case "many_same":
                same += reader.idents(kids(outer))
            case "many_limit":
                limits.append(read_expr(reader, kids(outer)[0]))
            case _:
                inner = need_tree(kids(outer)[0]) if outer.data == "many_stmt" else outer
                if inner.data == "match_many":
                    reader.misplaced(
                        reader.line(inner), "this group", "it stands inside a group", "take it out"
                    )
                else:
                    lines.append(_match_line(reader, inner))
    if not lines:
        reader.misplaced(reader.line(tree), "this group", "it matches nothing", "add a line `y = Op(x)`")
    return ManyLines(reader.line(tree), least, most, tuple(lines), tuple(same), tuple(limits))
