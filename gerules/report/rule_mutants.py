"""Small wrong edits of a rule: what its tests must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar, cast

from gerules.dsl.expressions import (
    Binary,
    BoolOp,
    CallExpr,
    Compare,
    Comparison,
    Expr,
    IsNone,
    ListExpr,
    Literal,
    Membership,
    Not,
    Operator,
    Ref,
    Syntax,
)
from gerules.dsl.syntax import (
    ANY,
    AnyTargets,
    AttrArg,
    BuildArg,
    BuildCall,
    BuildFunction,
    BuildNumber,
    CallPattern,
    Condition,
    DimName,
    DimSize,
    LiteralAttr,
    MatchLine,
    NumberPattern,
    PlainOp,
    Rule,
    TypePattern,
    ValuePattern,
    match_lines,
    patterns_in,
)
from gerules.errors import Span
from gerules.report.rule_inputs import Setting
from gerules.report.rule_proofs import (
    is_asked_again,
    is_default,
    is_name_unused,
    is_rounded_anyway,
    is_swapped_anyhow,
    is_tied_again,
    may_capture,
    needs_elements,
)

KINDS: Final = (
    "guard dropped", "gate dropped", "comparison", "condition", "arithmetic", "operand order", "attribute",
    "attributes dropped", "number", "const dropped", "type widened", "shared", "cast dropped", "optional",
)  # fmt: skip
"""Kinds of edits, as they are counted."""

_COMPARISONS: Final[dict[Comparison, Comparison]] = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
}  # fmt: skip
_ARITHMETIC: Final[dict[Operator, Operator]] = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "//", "**": "*",
}  # fmt: skip

_S = TypeVar("_S")
_Put = Callable[[object], object]
_Edit = tuple[str, object, str]
"""Kind, the piece that takes the place, and what was done in words."""


@dataclass(frozen=True, slots=True, eq=False)
class Mutant:
    """A rule with one edit; `span` is what was edited, `edit` says how.

    `is_equivalent`: it is proven that no graph tells it from the rule. `widened` is what it no longer asks of
    the type of an input: the name of the input, and "dtype", "shape" or the place of a dimension.
    """

    rule: Rule
    kind: str
    span: Span
    edit: str
    is_equivalent: bool = False
    widened: tuple[str, str | int] | None = None

    def __str__(self) -> str:
        return f"{self.span}: {self.rule.name}: {self.kind}: {self.edit}"


def mutants(rule: Rule, setting: Setting) -> Iterator[Mutant]:
    """Yield the edits of a rule, each once; those that say the same as the rule are left out."""
    seen: list[Rule] = [rule]
    for mutant in _all(rule, setting):
        if mutant.rule not in seen:
            seen.append(mutant.rule)
            yield mutant


def _all(rule: Rule, setting: Setting) -> Iterator[Mutant]:
    yield from _without(rule, rule.steps, "guard dropped", lambda steps: replace(rule, steps=steps))
    yield from _without(rule, rule.gates, "gate dropped", lambda gates: replace(rule, gates=gates))
    for section in ("steps", "gates", "rewrite", "annotations", "match"):
        for node, put in _places(
            getattr(rule, section), lambda new, name=section: replace(rule, **{name: new})
        ):
            for kind, new, edit in _edits(node, setting):
                mutant = cast("Rule", put(new))
                is_same = _is_same(rule, node, new, kind, setting)
                kind = "attribute" if kind == "default" else kind
                widened = _widened(rule, node, new) if kind == "type widened" else None
                yield Mutant(mutant, kind, node.span, edit, is_same, widened)
    yield from _shared(rule)


def _is_same(rule: Rule, node: Syntax, new: object, kind: str, setting: Setting) -> bool:
    """Whether it is proven that an edit says the same as the rule."""
    match kind, node, new:
        case "default", BuildFunction(call=old), BuildFunction(call=call):
            return _is_same(rule, old, call, kind, setting)
        case "default", BuildCall(), BuildCall():
            (name,) = {name.name for name, _ in node.attrs} - {name.name for name, _ in new.attrs}
            return not any(may_capture(rule, rest.name, name) for rest in node.rests)
        case "const dropped", TypePattern(), _:
            return needs_elements(rule, node, setting)
        case "cast dropped", CallExpr(), _:
            return is_rounded_anyway(rule, node, setting)
        case "type widened", TypePattern(), TypePattern() if new.dims != node.dims:
            pairs = zip(node.dims or (), new.dims or (), strict=False)
            return any(one != two and is_name_unused(rule, one) for one, two in pairs)
        case "type widened", TypePattern(), _:
            return is_asked_again(rule, node, setting) or is_tied_again(rule, node, setting)
        case "operand order", BuildCall(), _:
            return is_swapped_anyhow(node, setting)
        case _:
            return False


def _without(
    rule: Rule, lines: Sequence[_S], kind: str, put: Callable[[tuple[_S, ...]], Rule]
) -> Iterator[Mutant]:
    for place, line in enumerate(lines):
        if isinstance(line, Condition):
            rest = (*lines[:place], *lines[place + 1 :])
            yield Mutant(put(rest), kind, line.span, f"drop `{line.test.span.text}`")


def _shared(rule: Rule) -> Iterator[Mutant]:
    if not rule.rewrite:
        return  # what only annotates takes no node away
    replaced = {target.name for line in rule.rewrite for target in line.targets}
    for place, line in enumerate(rule.match):
        if not isinstance(line, MatchLine):
            continue
        names = {target.name for target in line.targets if not isinstance(target, AnyTargets)}
        if line.is_shared or not names & replaced:
            other = replace(line, is_shared=not line.is_shared)
            edit = f"{'remove' if line.is_shared else 'add'} `shared` at `{', '.join(sorted(names))}`"
            match = (*rule.match[:place], other, *rule.match[place + 1 :])
            yield Mutant(replace(rule, match=match), "shared", line.span, edit)


# ---------------------------------------------------------------- every place in a rule
def _places(
    item: object, put: Callable[[object], object]
) -> Iterator[tuple[Syntax, Callable[[object], object]]]:
    """Yield each piece of syntax inside, and what puts another one in its place."""
    if isinstance(item, tuple):
        items = cast("tuple[object, ...]", item)
        for at, child in enumerate(items):
            yield from _places(child, lambda new, at=at: put((*items[:at], new, *items[at + 1 :])))
    elif isinstance(item, Syntax):
        yield item, put
        if isinstance(item, BuildFunction):
            return  # what it computes is the region itself, in whatever order its operands come
        for part in fields(item):
            if part.name != "span":
                value = getattr(item, part.name)
                yield from _places(value, lambda new, name=part.name: put(replace(item, **{name: new})))


def _edits(node: Syntax, setting: Setting) -> Iterator[_Edit]:
    match node:
        case Compare():
            yield from _compare_edits(node)
        case BoolOp(op=op):
            other = "or" if op == "and" else "and"
            yield "condition", replace(node, op=other), f"`{op}` becomes `{other}` in `{node.span.text}`"
        case Not(operand=operand):
            yield "condition", operand, f"drop `not` in `{node.span.text}`"
        case IsNone() | Membership():
            yield "condition", replace(node, is_negated=not node.is_negated), f"negate `{node.span.text}`"
        case Binary(op=op):
            other = _ARITHMETIC[op]
            yield "arithmetic", replace(node, op=other), f"`{op}` becomes `{other}` in `{node.span.text}`"
        case CallExpr(callee=Ref(name="cast"), args=(first, *_)):
            yield "cast dropped", first, f"drop the cast in `{node.span.text}`"
        case BuildCall():
            yield from _build_edits(node, setting)
        case BuildFunction(call=call):
            for kind, edited, text in _build_edits(call, setting):
                if kind != "operand order":
                    yield kind, replace(node, call=cast("BuildCall", edited)), text
        case BuildNumber(value=value):
            yield "number", replace(node, value=value + 1), f"`{value}` becomes `{value + 1}`"
        case NumberPattern(value=value):
            yield "number", replace(node, value=value + 1), f"`{value}` becomes `{value + 1}` in the pattern"
        case CallPattern():
            yield from _call_edits(node)
        case TypePattern():
            yield from _type_edits(node)
        case ValuePattern(is_optional=True, name=name):
            yield "optional", replace(node, is_optional=False), f"`{name}?` becomes `{name}`"
        case _:
            pass


def _compare_edits(node: Compare) -> Iterator[_Edit]:
    for at, (op, operand) in enumerate(node.rest):
        other = _COMPARISONS[op]
        rest = (*node.rest[:at], (other, operand), *node.rest[at + 1 :])
        yield "comparison", replace(node, rest=rest), f"`{op}` becomes `{other}` in `{node.span.text}`"
        if isinstance(operand, Literal) and type(operand.value) is int:
            for change in (1, -1):
                new = operand.value + change
                rest = (*node.rest[:at], (op, replace(operand, value=new)), *node.rest[at + 1 :])
                edit = f"`{operand.value}` becomes `{new}` in `{node.span.text}`"
                yield "comparison", replace(node, rest=rest), edit


def _build_edits(node: BuildCall, setting: Setting) -> Iterator[_Edit]:
    text, op = node.span.text, node.op
    if isinstance(op, PlainOp) and len(node.args) > 1:
        schema = setting.schema(op.name)
        first, second, *others = node.args
        if schema is None or not schema.is_commutative:
            swapped = cast("tuple[BuildArg, ...]", (second, first, *others))
            yield "operand order", replace(node, args=swapped), f"swap the first two operands of `{text}`"
    if isinstance(op, PlainOp) and op.name == "Cast" and node.args:
        yield "cast dropped", node.args[0], f"drop the Cast in `{text}`"
    for at, (name, value) in enumerate(node.attrs):
        rest = (*node.attrs[:at], *node.attrs[at + 1 :])
        kind = "default" if is_default(op, name.name, value, setting) else "attribute"
        yield kind, replace(node, attrs=rest), f"drop `{name}` in `{text}`"
        for new in _other_values(value):
            attrs = (*node.attrs[:at], (name, new), *node.attrs[at + 1 :])
            yield "attribute", replace(node, attrs=attrs), f"change `{name}` in `{text}`"
    for at, rest in enumerate(node.rests):
        fewer = (*node.rests[:at], *node.rests[at + 1 :])
        yield "attributes dropped", replace(node, rests=fewer), f"drop `**{rest}` in `{text}`"


def _other_values(value: Expr) -> Iterator[Expr]:
    match value:
        case Literal(value=int() | float() as number) if not isinstance(number, bool):
            # One of two states becomes the other; 2 would mean the same as 1.
            yield replace(value, value=1 - number if number in (0, 1) else number + 1)
        case ListExpr(items=(first, second, *rest)):
            yield replace(value, items=(second, first, *rest))
        case ListExpr(items=(Literal(value=int() as number) as first,)):
            yield replace(value, items=(replace(first, value=number + 1),))
        case _:
            pass


def _call_edits(node: CallPattern) -> Iterator[_Edit]:
    for at, attr in enumerate(node.attrs):
        pattern = attr.pattern
        if isinstance(pattern, LiteralAttr) and type(pattern.value) is int:
            new = 1 - pattern.value if pattern.value in (0, 1) else pattern.value + 1
            changed: AttrArg = replace(attr, pattern=replace(pattern, value=new))
            attrs = (*node.attrs[:at], changed, *node.attrs[at + 1 :])
            yield "attribute", replace(node, attrs=attrs), f"`{attr.name}` is {new} in the pattern"
    op = node.op
    if isinstance(op, PlainOp) and op.is_optional:
        required = replace(node, op=replace(op, is_optional=False))
        yield "optional", required, f"`{op.name}?` becomes `{op.name}`"
    if isinstance(op, PlainOp) and op.order == "ordered":
        yield (
            "operand order",
            replace(node, op=replace(op, order="schema")),
            f"`{op.name}!` becomes `{op.name}`",
        )


def _type_edits(node: TypePattern) -> Iterator[_Edit]:
    text = node.span.text
    if node.is_const:
        yield "const dropped", replace(node, is_const=False), f"drop `const` in `{text}`"
    if node.dtypes is not None or node.dtype_name is not None:
        yield "type widened", replace(node, dtypes=None, dtype_name=None), f"any element type in `{text}`"
    if node.dims is not None:
        yield "type widened", replace(node, dims=None), f"any shape in `{text}`"
        for at, dim in enumerate(node.dims):
            if isinstance(dim, DimSize) or (isinstance(dim, DimName) and dim.name != ANY):
                dims = (*node.dims[:at], DimName(dim.span, ANY), *node.dims[at + 1 :])
                shown = dim.size if isinstance(dim, DimSize) else dim.name
                yield "type widened", replace(node, dims=dims), f"any dimension for {shown} in `{text}`"


# ---------------------------------------------------------------- what is widened
def _widened(rule: Rule, node: Syntax, new: object) -> tuple[str, str | int] | None:
    """Return which input a widened type belongs to, and what part of it was widened."""
    names = [
        pattern.name
        for line in match_lines(rule.match)
        for pattern in patterns_in(line.pattern)
        if isinstance(pattern, ValuePattern) and pattern.type is node
    ]
    if not names or not isinstance(node, TypePattern) or not isinstance(new, TypePattern):
        return None
    if new.dims is None and node.dims is not None:
        return names[0], "shape"
    if new.dims != node.dims:
        pairs = zip(node.dims or (), new.dims or (), strict=True)
        return names[0], next(at for at, (one, two) in enumerate(pairs) if one != two)
    return names[0], "dtype"
