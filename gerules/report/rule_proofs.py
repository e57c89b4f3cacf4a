"""Which edits of a rule say the same as the rule, proven from its text and the schemas of its operators.

What is not proven here counts as an edit that tests should notice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from gerules.dsl.expressions import (
    Attribute,
    Binary,
    BoolOp,
    CallExpr,
    Compare,
    Expr,
    IfElse,
    IsNone,
    ListExpr,
    Literal,
    Negate,
    Not,
    Ref,
    Syntax,
    parts,
)
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.syntax import (
    AnyInputs,
    BuildCall,
    BuildRef,
    CallPattern,
    Condition,
    DimName,
    DimPattern,
    FoldLine,
    MatchedOp,
    MatchLine,
    NamedPattern,
    Pattern,
    PlainOp,
    RestInputs,
    Rule,
    Target,
    TypePattern,
    ValuePattern,
    WithBinding,
    match_lines,
    patterns_in,
)
from gerules.engine.constants import param_at
from gerules.ops import OpSchema
from gerules.report.define_proofs import have_one_type, may_swap
from gerules.report.rule_edits import plain
from gerules.report.rule_inputs import Setting
from gerules.report.syntax_pieces import pieces_in
from gerules.report.type_forest import TypeForest


def is_default(op: PlainOp | MatchedOp, name: str, value: Expr, setting: Setting) -> bool:
    """Whether an attribute says what the operator does without it."""
    schema = setting.schema(op.name) if isinstance(op, PlainOp) else None
    spec = schema.attrs.get(name) if schema is not None else None
    known = plain(value)
    is_known = isinstance(value, Literal) or known is not None
    return spec is not None and is_known and spec.default == known


def may_capture(rule: Rule, rest: str, name: str) -> bool:
    """Whether `**rest` of a pattern may hold an attribute: not where the pattern itself names it."""
    calls = [
        item
        for item in pieces_in(rule.match)
        if isinstance(item, CallPattern) and item.rest is not None and item.rest.name == rest
    ]
    return not calls or any(name not in {attr.name.name for attr in call.attrs} for call in calls)


def is_name_unused(rule: Rule, dim: DimPattern) -> bool:
    """Whether a dimension has a name that nothing else in the rule says: any dimension fits, as for `_`."""
    return isinstance(dim, DimName) and sum(_name_of(item) == dim.name for item in pieces_in(rule)) == 1


def is_asked_again(rule: Rule, node: TypePattern, setting: Setting) -> bool:
    """Whether the right side takes no other element types than a pattern allows.

    The engine refuses an operator that does not take its operands, so the pattern need not say it. (A value
    whose type is not inferred yet is looked at again when it is.)
    """
    if node.dtypes is None or node.dtype_name is not None:
        return False
    names = _names_with(rule, node, with_optional=False)
    return any(
        isinstance(arg, BuildRef)
        and arg.name in names
        and (param := param_at(schema, place)) is not None
        and param.dtypes is not None
        and param.dtypes <= node.dtypes
        for call, schema in _calls(rule, setting)
        for place, arg in enumerate(call.args)
    )


def is_tied_again(rule: Rule, node: TypePattern, setting: Setting) -> bool:
    """Whether the right side takes a value only with the element type `T` that the pattern gives it.

    Some operator of it takes the value and another one that every match has, whose type is `T` by the
    pattern, and by its schema or its `define` both have one type.
    """
    if node.dtype_name is None or node.dtypes is not None:
        return False
    names = _names_with(rule, node, with_optional=True)
    others = {
        pattern.name
        for line in rule.match
        if isinstance(line, MatchLine)
        for pattern in _in_every_match(line.pattern, setting)
        if pattern.type is not node and _variable(pattern) == node.dtype_name
    }
    return any(
        _have_one_type(call, schema, one, two, setting)
        for call, schema in _calls(rule, setting)
        for one, arg in enumerate(call.args)
        if isinstance(arg, BuildRef) and arg.name in names
        for two, other in enumerate(call.args)
        if isinstance(other, BuildRef) and other.name in others - names
    )


def _in_every_match(pattern: Pattern, setting: Setting) -> Iterator[ValuePattern]:
    """Yield the values inside that no match goes without.

    Not those of alternatives, of optional parts, or of named patterns.
    """
    match pattern:
        case ValuePattern(is_optional=False):
            yield pattern
        case NamedPattern(pattern=inside):
            yield from _in_every_match(inside, setting)
        case CallPattern(op=PlainOp(name=op, is_optional=False), args=args) if setting.schema(op) is not None:
            for arg in args:
                if not isinstance(arg, RestInputs | AnyInputs):
                    yield from _in_every_match(arg, setting)
        case _:
            pass


def _variable(pattern: ValuePattern) -> str | None:
    return None if pattern.type is None else pattern.type.dtype_name


def _have_one_type(call: BuildCall, schema: OpSchema, one: int, two: int, setting: Setting) -> bool:
    define = setting.book.defines.get(call.op.name) if isinstance(call.op, PlainOp) else None
    if define is not None:
        return have_one_type(define, one, two, setting)
    first, second = param_at(schema, one), param_at(schema, two)
    if first is None or second is None or schema.is_commutative:
        return False
    return bool(first.type_var) and first.type_var == second.type_var


def is_swapped_anyhow(node: BuildCall, setting: Setting) -> bool:
    """Whether the first two operands of what is built may stand in either order, by its `define`."""
    define = setting.book.defines.get(node.op.name) if isinstance(node.op, PlainOp) else None
    are_both = all(isinstance(arg, BuildRef | BuildCall) for arg in node.args[:2])
    return define is not None and are_both and may_swap(define, setting)


def _calls(rule: Rule, setting: Setting) -> Iterator[tuple[BuildCall, OpSchema]]:
    """Yield what the right side builds in any case, with its schema."""
    for item in pieces_in(rule.rewrite):
        if isinstance(item, BuildCall) and isinstance(item.op, PlainOp) and not item.op.is_optional:
            schema = setting.schema(item.op.name)
            if schema is not None:
                yield item, schema


def _names_with(rule: Rule, node: TypePattern, *, with_optional: bool) -> set[str]:
    return {
        pattern.name
        for line in match_lines(rule.match)
        for pattern in patterns_in(line.pattern)
        if isinstance(pattern, ValuePattern)
        and pattern.type is node
        and (with_optional or not pattern.is_optional)
    }


def _name_of(item: Syntax) -> str | None:
    name = getattr(item, "name", None)
    return name if isinstance(name, str) else getattr(name, "name", None)


# ---------------------------------------------------------------- `const`
_READERS: Final = frozenset({"scalar", "all_zero", "all_equal", "all_finite", "close"})
_ELEMENTS: Final = frozenset({"arrays", "numbers"})
"""Subjects of functions that read the elements of what they are given; `_READERS` are the others."""


def needs_elements(rule: Rule, node: TypePattern, setting: Setting) -> bool:
    """Whether a `const` says nothing new: something reads the elements in any case, and rejects without.

    That is a step, or an attribute of what is built.
    """
    names = _names_with(rule, node, with_optional=True)
    for item in pieces_in(rule.match):
        if isinstance(item, WithBinding):
            if any(_reads(item.value, name) for name in names):
                return True
            if any(_is(item.value, name) for name in names):
                names.add(item.name.name)
    attrs = [value for call, _ in _calls(rule, setting) for _, value in call.attrs]
    return any(
        any(_reads(value, name) for value in attrs)
        or any(
            _reads(step.value, name) if isinstance(step, FoldLine) else _rejects(step.test, name)
            for step in rule.steps
        )
        for name in names
    )


def _rejects(test: Expr, name: str) -> bool:
    """Whether a condition never holds when the elements of a name are not known."""
    match test:
        case BoolOp(op="and", left=left, right=right):
            return _rejects(left, name) or _rejects(right, name)
        case BoolOp(left=IsNone(operand=Ref(name=found), is_negated=False), right=right) if found == name:
            return _rejects(right, name)
        case BoolOp(left=left, right=right):
            # A side that is not known does not matter when the other decides.
            return _rejects(left, name) and _rejects(right, name)
        case _:
            return _reads(test, name)


def _reads(expr: Expr, name: str) -> bool:
    """Whether the value of an expression always takes the elements of a name, where there is one."""
    match expr:
        case Binary(left=left, right=right):
            return any(_is(side, name) or _reads(side, name) for side in (left, right))
        case Negate(operand=operand):
            return _is(operand, name) or _reads(operand, name)
        case Compare(first=first, rest=((op, second), *_)):
            is_order = op not in ("==", "!=")
            return any((is_order and _is(side, name)) or _reads(side, name) for side in (first, second))
        case CallExpr(callee=Ref(name=callee), args=args):
            known = FUNCTIONS.get(callee)
            is_reader = known is not None and (known.subject in _ELEMENTS or callee in _READERS)
            if callee in ("concat", "stack") and args and isinstance(args[0], ListExpr):
                args = (*args[0].items, *args[1:])
            return is_reader and any(_is(arg, name) or _reads(arg, name) for arg in args)
        case IfElse(condition=condition):
            return _reads(condition, name)
        case Not():
            return any(_reads(part, name) for part in parts(expr))
        case _:
            return False


def _is(expr: Expr, name: str) -> bool:
    """Whether an expression is the value of a name, where there is one."""
    match expr:
        case Ref(name=found):
            return found == name
        case CallExpr(callee=Ref(name="default"), args=(Ref(name=found), *_)):
            return found == name
        case _:
            return False


# ---------------------------------------------------------------- `cast`
def is_rounded_anyway(rule: Rule, node: Syntax, setting: Setting) -> bool:
    """Whether the value of a fold gets the element type of its `cast` without it.

    A computed value is rounded once when it becomes an initializer, to the type of an operand that the
    schema ties it to. Where each use of the value is such an operand, and the pattern makes that type the
    one of the `cast`, the `cast` says nothing new.
    """
    line = next((step for step in rule.steps if isinstance(step, FoldLine) and step.value is node), None)
    if line is None or len(line.names) != 1:
        return False
    match line.value:
        case CallExpr(args=(first, Attribute(operand=Ref(name=typed), name=attribute))):
            if attribute.name != "dtype":
                return False
        case _:
            return False
    name = line.names[0].name
    types = _types_of(rule, setting)
    n_uses = sum(isinstance(item, Ref | BuildRef) and item.name == name for item in pieces_in(rule))
    n_tied = sum(
        _is_tied(call, schema, place, types, typed, setting)
        for call, schema in _calls(rule, setting)
        for place in _places_of(call, schema, name)
    )
    n_sizes = _n_sizes(rule, name) if isinstance(first, Binary) and _are_values(first, types) else 0
    return n_tied > 0 and n_uses == n_tied + n_sizes


def _places_of(call: BuildCall, schema: OpSchema, name: str) -> Iterator[int]:
    yield from (
        place for place, arg in enumerate(call.args) if isinstance(arg, BuildRef) and arg.name == name
    )
    keywords = {key.name for key, value in call.attrs if isinstance(value, Ref) and value.name == name}
    yield from (place for place, param in enumerate(schema.inputs) if param.name in keywords)


def _is_tied(
    call: BuildCall, schema: OpSchema, place: int, types: TypeForest, typed: str, setting: Setting
) -> bool:
    """Whether an operand has, by the schema, the type of another that has the type of `typed`."""
    param = param_at(schema, place)
    if param is None or not param.type_var:
        return False
    others = [(at, arg) for at, arg in enumerate(call.args) if at != place]
    return any(
        (other := param_at(schema, at)) is not None
        and other.type_var == param.type_var
        and _has_type(arg, types, typed, setting)
        for at, arg in others
    )


def _has_type(arg: Syntax, types: TypeForest, typed: str, setting: Setting) -> bool:
    """Whether an operand has the type of a matched value: it is one like it, or is made of one like it."""
    match arg:
        case BuildRef(name=name):
            return types.is_one(name, typed)
        case BuildCall(op=PlainOp(name=op, is_optional=False), args=args):
            schema = setting.schema(op)
            result = schema.outputs[0].type_var if schema is not None and schema.outputs else ""
            return bool(result) and any(
                (param := param_at(schema, at)) is not None
                and param.type_var == result
                and _has_type(inner, types, typed, setting)
                for at, inner in enumerate(args)
            )
        case _:
            return False


def _are_values(expr: Binary, types: TypeForest) -> bool:
    return all(isinstance(side, Ref) and side.name in types for side in (expr.left, expr.right))


def _n_sizes(rule: Rule, name: str) -> int:
    """Return how often a rule asks for the number of elements of a name: no type changes that."""
    return sum(
        isinstance(item, CallExpr)
        and isinstance(item.callee, Ref)
        and item.callee.name == "numel"
        and any(isinstance(arg, Ref) and arg.name == name for arg in item.args)
        for step in rule.steps
        if isinstance(step, Condition)
        for item in pieces_in(step)
    )


def _types_of(rule: Rule, setting: Setting) -> TypeForest:
    """Return which values of a match have one element type by the schemas.

    Only what every match has: no alternatives, no optional values or operators, no groups.
    """
    forest = TypeForest()
    for line in rule.match:
        if isinstance(line, MatchLine):
            found = _join_types(line.pattern, setting, forest)
            if len(line.targets) == 1 and isinstance(line.targets[0], Target):
                forest.join([found, line.targets[0].name])
    return forest


def _join_types(pattern: Pattern, setting: Setting, forest: TypeForest) -> Hashable | None:
    match pattern:
        case ValuePattern(name=name, is_optional=False):
            forest.add(name)
            return name
        case NamedPattern(pattern=inside, name=ident):
            forest.join([_join_types(inside, setting, forest), ident.name])
            return ident.name
        case CallPattern(op=op, args=args):
            items = [
                _join_types(arg, setting, forest)
                if isinstance(arg, CallPattern | ValuePattern | NamedPattern)
                else None
                for arg in args
            ]
            schema = setting.schema(op.name) if isinstance(op, PlainOp) and not op.is_optional else None
            if schema is None:
                return None
            forest.join_operands(schema, items, id(pattern))
            return id(pattern)
        case _:
            return None
