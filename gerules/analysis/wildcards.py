"""`_` where it hides something that changes the result: an axis, a border, a permutation.

A rule that does not look at such a parameter holds for all its values, or is wrong. Which of the two is for
the author to say, in a comment on the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gerules.dsl.book import RuleBook, SchemaSource
from gerules.dsl.syntax import (
    ANY,
    AnyInputs,
    CallPattern,
    CaptureAttr,
    MatchStatement,
    PatternDef,
    PlainOp,
    RestInputs,
    Rule,
    ValuePattern,
    VariableOp,
    match_lines,
    patterns_in,
)
from gerules.dsl.tokens import TOKEN
from gerules.errors import Diagnostic, Span, table

HARMLESS: Final = frozenset(
    {
        "allowzero",  # what the shape says; the type of the result shows it
        "kernel_shape",  # that of the weights
        "momentum",  # of training
        "qk_matmul_output_mode",  # what a further output holds
        "shape",  # that of the result
        "softmax_precision",  # of what is in between
        "stash_type",
        "storage_order",  # of the indices that a further output holds
    }
)
"""Parameters that leave the elements of the first result as they are, or show in its type."""

STEERING_INPUTS: Final = frozenset(
    {
        "axes",
        "axis",
        "ends",
        "indices",
        "k",
        "max",
        "min",
        "pads",
        "perm",
        "repeats",
        "split",
        "starts",
        "steps",
    }
)
"""Inputs that say what is done, rather than what it is done to."""


def hidden_parameters(rule: Rule | PatternDef, book: RuleBook, schemas: SchemaSource) -> Iterator[Diagnostic]:
    """Yield a warning for each `_` that stands for a parameter that matters, without comment on its line."""
    for name, op, span in _hidden(rule.match, book, schemas):
        if not has_comment(span):
            yield Diagnostic(table.HIDDEN_PARAMETER, {"op": op, "name": name}, span, severity="warning")


def _hidden(
    statements: tuple[MatchStatement, ...], book: RuleBook, schemas: SchemaSource
) -> Iterator[tuple[str, str, Span]]:
    for line in match_lines(statements):
        for call in patterns_in(line.pattern):
            if not isinstance(call, CallPattern) or not isinstance(call.op, PlainOp | VariableOp):
                continue
            op = call.op
            shown = op.name if isinstance(op, PlainOp) else op.ops.span.text
            for attr in call.attrs:
                is_hidden = isinstance(attr.pattern, CaptureAttr) and attr.pattern.name == ANY
                if is_hidden and attr.name.name not in HARMLESS:
                    yield attr.name.name, shown, attr.span
            schema = schemas.get(op.name, None) if isinstance(op, PlainOp) else None
            for place, arg in enumerate(call.args if schema is not None else ()):
                if isinstance(arg, RestInputs | AnyInputs) or schema is None or place >= len(schema.inputs):
                    break
                name = schema.inputs[place].name
                if isinstance(arg, ValuePattern) and arg.name == ANY and name in STEERING_INPUTS:
                    yield name, shown, arg.span


def has_comment(span: Span) -> bool:
    """Whether a comment stands on one of the lines that a span touches."""
    first, _ = span.source.line_column(span.start)
    last, _ = span.source.line_column(span.end)
    return any(
        piece.lastgroup == "comment" and piece[0].strip("# ")
        for number in range(first, last + 1)
        for piece in TOKEN.finditer(span.source.line(number))
    )
