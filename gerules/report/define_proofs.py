"""What follows for the operands of an operator from its `define`."""

from __future__ import annotations

from collections.abc import Hashable

from gerules.dsl.expressions import Ref
from gerules.dsl.syntax import BuildCall, BuildLine, BuildRef, BuildRest, Define, PlainOp
from gerules.report.rule_inputs import Setting
from gerules.report.syntax_pieces import pieces_in
from gerules.report.type_forest import TypeForest


def may_swap(define: Define, setting: Setting) -> bool:
    """Whether the first two operands may be swapped: one operator alone reads them, and it commutes."""
    names = _inputs_of(define)[:2]
    read = [
        item.name
        for item in pieces_in(define.body)
        if isinstance(item, BuildRef | Ref) and item.name in names
    ]
    if len(names) < 2 or sorted(read) != sorted(names) or {name.name for name in define.results} & {*names}:
        return False
    for call in pieces_in(define.body):
        if isinstance(call, BuildCall) and isinstance(call.op, PlainOp) and not call.op.is_optional:
            schema = setting.schema(call.op.name)
            args = [arg.name for arg in call.args if isinstance(arg, BuildRef)]
            if len(call.args) == 2 and sorted(args) == sorted(names):
                return schema is not None and schema.is_commutative
    return False


def have_one_type(define: Define, first: int, second: int, setting: Setting) -> bool:
    """Whether two operands, by their places, must have one element type where both are given."""
    names = _inputs_of(define)
    if max(first, second) >= len(names):
        return False
    forest = TypeForest()
    for line in define.body:
        if isinstance(line, BuildLine):
            found = _join_types(line.build, setting, forest)
            if len(line.targets) == 1:
                forest.join([found, line.targets[0].name])
    return forest.is_one(names[first], names[second])


def _join_types(build: object, setting: Setting, forest: TypeForest) -> Hashable | None:
    match build:
        case BuildRef(name=name):
            return name
        case BuildCall(op=PlainOp(name=op, is_optional=is_optional), args=args):
            items = [_join_types(arg, setting, forest) for arg in args]
            schema = setting.schema(op)
            if schema is None or any(isinstance(arg, BuildRest) for arg in args):
                return None  # after a list nobody knows the places
            # Without its second operand an optional operator gives the first: that must not change its type.
            ends = schema.inputs[0].type_var, schema.outputs[0].type_var
            if is_optional and (len(args) != 2 or ends[0] != ends[1]):
                return None
            forest.join_operands(schema, items, id(build))
            return id(build)
        case _:
            return None


def _inputs_of(define: Define) -> list[str]:
    return [param.name.name for param in define.params if param.default is None]
