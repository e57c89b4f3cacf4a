"""What a pattern says of its operands: which may be left out, and which are lists that steer an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gerules.dsl.expressions import Ident
from gerules.dsl.syntax import (
    ANY,
    AnyTargets,
    CallPattern,
    DimPattern,
    DimSize,
    GivenValue,
    PlainOp,
    Rule,
    RuleTest,
    TypePattern,
    ValuePattern,
    match_lines,
    patterns_in,
)
from gerules.ir import DType
from gerules.ops import OpSchema, Param

_LIST_PARAMS: Final = frozenset({
    "axes", "block_shape", "ends", "image_shape", "K", "output_shape", "pads", "repeats", "shape", "sizes",
    "split", "starts", "steps",
})  # fmt: skip
"""Inputs of integers that have one axis, whatever the others have; schemas do not say so."""


def is_list(param: Param) -> bool:
    """Whether an input is a list that steers an operator: a shape, axes, bounds, ..."""
    is_integer = param.dtypes is not None and all(dtype.is_integer for dtype in param.dtypes)
    return is_integer and param.name in _LIST_PARAMS


def leaves(rule: Rule) -> Iterator[ValuePattern]:
    """Yield the values that a test gives, each at its first place in the pattern."""
    targets = [target for line in match_lines(rule.match) for target in line.targets]
    seen = {target.name for target in targets if not isinstance(target, AnyTargets)} | {ANY}
    for line in match_lines(rule.match):
        for pattern in patterns_in(line.pattern):
            if isinstance(pattern, ValuePattern) and pattern.name not in seen:
                seen.add(pattern.name)
                yield pattern


def lists(rule: Rule, schema_of: Callable[[str], OpSchema | None]) -> frozenset[str]:
    """Return the names of values that an operator takes as a list."""
    found: set[str] = set()
    for line in match_lines(rule.match):
        for call in patterns_in(line.pattern):
            if not isinstance(call, CallPattern) or not isinstance(call.op, PlainOp):
                continue
            schema = schema_of(call.op.name)
            for arg, param in zip(call.args, schema.inputs if schema is not None else (), strict=False):
                if isinstance(arg, ValuePattern) and is_list(param):
                    found.add(arg.name)
    return frozenset(found)


def test_of_pattern(rule: Rule) -> RuleTest:
    """Return a test of what the pattern alone says: sizes it does not name are 4."""
    items = tuple(_given(pattern) for pattern in leaves(rule))
    return RuleTest(rule.span, "", items, (), (), None, None, None, None, (), True, None)


# pytest collects functions by this prefix; this one is no test.
setattr(test_of_pattern, "__test__", False)  # noqa: B010 (pyright knows no such attribute)


def _given(pattern: ValuePattern) -> GivenValue:
    wanted = pattern.type
    dtypes = wanted.dtypes if wanted is not None else None
    dtype = DType.F32 if dtypes is None or DType.F32 in dtypes else min(dtypes, key=lambda item: item.value)
    dims: list[DimPattern] = []
    for dim in wanted.dims if wanted is not None and wanted.dims is not None else (None, None):
        size = dim.size if isinstance(dim, DimSize) else 4
        dims.append(DimSize(pattern.span, size))
    is_const = wanted is not None and wanted.is_const
    type = TypePattern(pattern.span, is_const, frozenset([dtype]), None, tuple(dims), None)
    return GivenValue(pattern.span, Ident(pattern.span, pattern.name), type, pattern.is_optional)
