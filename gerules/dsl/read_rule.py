"""Rules, named patterns and operator definitions read from a parse tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from lark import Token, Tree

from gerules.dsl.expressions import Comparison, Expr, Ident
from gerules.dsl.read_expr import read_comparison, read_condition, read_expr
from gerules.dsl.read_pattern import read_match, read_pattern, read_type
from gerules.dsl.syntax import (
    Annotation,
    Build,
    BuildArg,
    BuildCall,
    BuildEach,
    BuildFunction,
    BuildLine,
    BuildNone,
    BuildNumber,
    BuildParam,
    BuildRef,
    BuildRest,
    Condition,
    Define,
    DefineParam,
    Elements,
    FoldLine,
    Formal,
    GivenAttr,
    GivenChoice,
    GivenValue,
    MatchedOp,
    MatchLine,
    MatchStatement,
    NamedPattern,
    PatternDef,
    PlainOp,
    RestTargets,
    Rule,
    RuleTest,
    Target,
)
from gerules.dsl.tree import Branch, Reader, kids, need_token, need_tree, trees

UNNAMED_ROOT = "%y"
"""The name of a one-line rule's root when `as` gives none; users cannot write it."""

DEFAULT_SET = "main"
"""The rule set of a rule that names none."""


@dataclass
class _Parts:
    """The sections of a rule while it is read."""

    match: list[MatchStatement] = field(default_factory=list[MatchStatement])
    steps: list[Condition | FoldLine] = field(default_factory=list[Condition | FoldLine])
    gates: list[Condition] = field(default_factory=list[Condition])
    rewrite: list[BuildLine] = field(default_factory=list[BuildLine])
    annotations: list[Annotation] = field(default_factory=list[Annotation])
    tests: list[RuleTest] = field(default_factory=list[RuleTest])
    when: list[Condition] = field(default_factory=list[Condition])
    opsets: list[tuple[Comparison, int]] = field(default_factory=list[tuple[Comparison, int]])
    priority: int = 0
    overrides: list[Ident] = field(default_factory=list[Ident])
    aliases: list[str] = field(default_factory=list[str])
    is_inexact: bool = False
    inexact_reason: str = ""
    is_once: bool = False
    decreases: Expr | None = None
    seen: set[str] = field(default_factory=set[str])


_REPEATABLE = {
    "meta_when",
    "meta_opset",
    "meta_overrides",
    "meta_alias",
    "where_sec",
    "fold_sec",
    "gate_sec",
    "test_sec",
}


def read_rule(reader: Reader, tree: Tree[Token]) -> Rule:
    """Read a `rule_block` or a `rule_inline`."""
    name, ruleset, doc, *rest = kids(tree)
    parts = _Parts()
    for part in trees(rest):
        kind = str(part.data)
        if kind in parts.seen and kind not in _REPEATABLE:
            reader.misplaced(reader.line(part), "this part", "the rule has one already", "merge the two")
            continue
        parts.seen.add(kind)
        if kind == "inline_rule":
            _inline(reader, part, parts)
        else:
            _part(reader, kind, part, parts)
    ident = reader.ident(name)
    if not parts.match:
        reader.misplaced(ident.span, f"the rule {ident}", "it matches nothing", "add a `match:` section")
    if not parts.rewrite and not parts.annotations:
        reader.misplaced(
            ident.span,
            f"the rule {ident}",
            "it changes nothing",
            "add a `rewrite:` or an `annotate:` section",
        )
    return Rule(
        reader.span(tree),
        ident,
        DEFAULT_SET if ruleset is None else reader.ident(ruleset).name,
        reader.text(doc),
        tuple(parts.match),
        tuple(parts.steps),
        tuple(parts.gates),
        tuple(parts.rewrite),
        tuple(parts.annotations),
        tuple(parts.tests),
        tuple(parts.when),
        tuple(parts.opsets),
        parts.priority,
        tuple(parts.overrides),
        tuple(parts.aliases),
        parts.is_inexact,
        parts.inexact_reason,
        parts.is_once,
        parts.decreases,
    )


def _part(reader: Reader, kind: str, tree: Tree[Token], parts: _Parts) -> None:
    children = kids(tree)
    match kind:
        case "match_sec":
            parts.match += read_match(reader, trees(children))
        case "where_sec":
            parts.steps += [read_condition(reader, child) for child in children]
        case "fold_sec":
            parts.steps += read_folds(reader, tree)
        case "gate_sec":
            parts.gates += [read_condition(reader, child) for child in children]
        case "rewrite_sec":
            parts.rewrite += [read_build_line(reader, child) for child in trees(children)]
        case "annotate_sec":
            for child in trees(children):
                value_name, key, value = kids(child)
                parts.annotations.append(
                    Annotation(
                        reader.line(child),
                        reader.ident(value_name),
                        reader.ident(key),
                        read_expr(reader, value),
                    )
                )
        case "test_sec":
            parts.tests.append(_test(reader, tree))
        case "meta_when":
            parts.when.append(read_condition(reader, tree))
        case "meta_opset":
            parts.opsets.append((read_comparison(children[0]), reader.integer(children[1])))
        case "meta_priority":
            parts.priority = int(reader.number(children[0]))
        case "meta_overrides":
            parts.overrides += reader.idents(children)
        case "meta_alias":
            parts.aliases += [reader.text(child) for child in children]
        case "meta_inexact":
            parts.is_inexact, parts.inexact_reason = True, reader.text(children[0])
        case "meta_once":
            parts.is_once = True
        case _:
            parts.decreases = read_expr(reader, children[0])


def _inline(reader: Reader, tree: Tree[Token], parts: _Parts) -> None:
    pattern_tree, build_tree, condition = kids(tree)
    pattern = read_pattern(reader, pattern_tree)
    span = reader.span(need_tree(pattern_tree))
    root = UNNAMED_ROOT
    if isinstance(pattern, NamedPattern):
        root, pattern = pattern.name.name, pattern.pattern
    parts.match.append(MatchLine(span, (Target(span, root),), pattern))
    build = _build(reader, need_tree(build_tree))
    parts.rewrite.append(BuildLine(build.span, (Target(span, root),), build))
    if condition is not None:
        parts.steps.append(read_condition(reader, condition))


# ---------------------------------------------------------------- fold and rewrite
def read_folds(reader: Reader, tree: Tree[Token]) -> list[FoldLine]:
    """Read a `fold_sec`."""
    found: list[FoldLine] = []
    for child in trees(kids(tree)):
        *names, value = kids(child)
        found.append(FoldLine(reader.line(child), reader.idents(names), read_expr(reader, value)))
    return found


def read_build_line(reader: Reader, tree: Tree[Token]) -> BuildLine:
    """Read a `build_stmt`."""
    *targets, build = kids(tree)
    return BuildLine(
        reader.line(tree),
        tuple(_build_target(reader, target) for target in trees(targets)),
        _build(reader, need_tree(build)),
    )


def _build_target(reader: Reader, tree: Tree[Token]) -> Target | RestTargets:
    name = str(kids(tree)[0])
    return RestTargets(reader.span(tree), name) if tree.data == "bt_rest" else Target(reader.span(tree), name)


def _build(reader: Reader, tree: Tree[Token]) -> Build:
    match tree.data:
        case "b_var":
            return BuildRef(reader.span(tree), str(kids(tree)[0]))
        case "b_function":
            return BuildFunction(reader.span(tree), _build_call(reader, need_tree(kids(tree)[0])))
        case "b_each":
            return BuildEach(reader.span(tree), _build_call(reader, need_tree(kids(tree)[0])))
        case _:
            return _build_call(reader, tree)


def _build_call(reader: Reader, tree: Tree[Token]) -> BuildCall:
    op_tree, *rest = kids(tree)
    op_branch = need_tree(op_tree)
    op_span, op_name = reader.span(op_branch), str(kids(op_branch)[0])
    op: PlainOp | MatchedOp
    if op_branch.data == "bop_var":
        op = MatchedOp(op_span, op_name)
    else:
        op = PlainOp(op_span, op_name, is_optional=op_branch.data == "bop_optional")
    args: list[BuildArg] = []
    attrs: list[tuple[Ident, Expr]] = []
    rests: list[Ident] = []
    for child in trees(rest):
        match child.data:
            case "b_kw":
                name, value = kids(child)
                attrs.append((reader.ident(name), read_expr(reader, value)))
            case "b_kwrest":
                rests.append(reader.ident(kids(child)[0]))
            case _:
                if attrs or rests:
                    reader.misplaced(
                        reader.span(child),
                        "this input",
                        "it follows a keyword",
                        "put inputs before attributes",
                    )
                args.append(_build_arg(reader, child))
    return BuildCall(reader.span(tree), op, tuple(args), tuple(attrs), tuple(rests))


def _build_arg(reader: Reader, tree: Tree[Token]) -> BuildArg:
    span = reader.span(tree)
    match tree.data:
        case "b_number":
            return BuildNumber(span, reader.number(kids(tree)[0]))
        case "b_param":
            return BuildParam(span, str(kids(tree)[0]))
        case "b_none":
            return BuildNone(span)
        case "b_rest":
            path = need_tree(kids(tree)[0])
            return BuildRest(span, tuple(str(name) for name in kids(path)))
        case _:
            return _build(reader, tree)


# ---------------------------------------------------------------- tests
def _test(reader: Reader, tree: Tree[Token]) -> RuleTest:
    doc, *statements = kids(tree)
    inputs: list[GivenValue | GivenAttr] = []
    choices: list[GivenChoice] = []
    after: list[GivenChoice] = []
    device: Ident | None = None
    profile: Ident | None = None
    rtol: float | None = None
    atol: float | None = None
    escapes: list[Ident] = []
    expects_match, reason = True, None
    for item in trees(statements):
        children = kids(item)
        match item.data:
            case "t_value":
                inputs += _given_values(reader, item)
            case "t_attr":
                inputs.append(
                    GivenAttr(reader.line(item), reader.ident(children[0]), read_expr(reader, children[1]))
                )
            case "t_choose" | "t_after":
                given = GivenChoice(reader.line(item), reader.ident(children[0]), reader.idents(children[1:]))
                (choices if item.data == "t_choose" else after).append(given)
            case "t_device":
                device = reader.ident(children[0])
            case "t_profile":
                profile = reader.ident(children[0])
            case "t_close":
                rtol = float(reader.number(children[0]))
                atol = None if children[1] is None else float(reader.number(children[1]))
                if min(rtol, atol or 0.0) < 0:
                    reader.misplaced(reader.line(item), "this tolerance", "it is negative", "give 0 or more")
            case "t_escapes":
                escapes += reader.idents(children)
            case _:
                expected = need_tree(children[0])
                expects_match = expected.data == "x_match"
                text = None if expects_match else kids(expected)[0]
                reason = None if text is None else reader.text(text)
    return RuleTest(
        reader.span(tree),
        reader.text(doc),
        tuple(inputs),
        tuple(choices),
        tuple(after),
        device,
        profile,
        rtol,
        atol,
        tuple(escapes),
        expects_match,
        reason,
    )


def _given_values(reader: Reader, tree: Tree[Token]) -> list[GivenValue]:
    *names, kind_branch = kids(tree)
    kind_tree = need_tree(kind_branch)
    kind, low, high, elements = None, None, None, None
    if kind_tree.data == "t_elements":
        ty, data = kids(kind_tree)
        kind, elements = read_type(reader, ty), _elements(reader, need_tree(data))
    elif kind_tree.data == "t_ty":
        ty, low_tree, high_tree = kids(kind_tree)
        kind = read_type(reader, ty)
        low = None if low_tree is None else float(reader.number(low_tree))
        high = None if high_tree is None else float(reader.number(high_tree))
    found: list[GivenValue] = []
    for name in trees(names):
        token, mark = kids(name)
        given = GivenValue(
            reader.line(tree), reader.ident(token), kind, mark is not None, low, high, elements
        )
        found.append(given)
    return found


def _elements(reader: Reader, tree: Tree[Token]) -> Elements:
    span = reader.span(tree)
    if tree.data == "random":
        return Elements(span, "random", (reader.integer(kids(tree)[0]),))
    values = tuple(_scalar(reader, item) for item in trees(kids(tree)))
    return Elements(span, "fill" if tree.data == "fill" else "list", values)


def _scalar(reader: Reader, tree: Tree[Token]) -> int | float:
    # One object for all: a text that is read twice says the same.
    special = {"inf": math.inf, "minus_inf": -math.inf, "nan": math.nan}
    return special[tree.data] if tree.data in special else reader.number(tree)


# ---------------------------------------------------------------- named patterns and definitions
def read_formal(reader: Reader, tree: Tree[Token]) -> Formal:
    """Read a `formal`."""
    name, mark, kind = kids(tree)
    return Formal(reader.span(tree), reader.ident(name), "" if kind is None else str(kind), mark is not None)


def read_pattern_def(reader: Reader, tree: Tree[Token]) -> PatternDef:
    """Read a `pattern_def`."""
    name, *rest = kids(tree)
    formals = tuple(read_formal(reader, part) for part in trees(rest) if part.data == "formal")
    lines = [part for part in trees(rest) if part.data in {"match_bind", "match_many"}]
    guards = [part for part in trees(rest) if part.data == "where_sec"]
    conditions = [read_condition(reader, child) for part in guards for child in kids(part)]
    return PatternDef(
        reader.span(tree),
        reader.ident(name),
        formals,
        _names(reader, rest),
        read_match(reader, lines),
        tuple(conditions),
    )


def read_define(reader: Reader, tree: Tree[Token]) -> Define:
    """Read a `define_def`."""
    name, *rest = kids(tree)
    params: list[DefineParam] = []
    rest_inputs: Ident | None = None
    rest_attrs: Ident | None = None
    results: list[Ident] = []
    rest_results: Ident | None = None
    body: list[BuildLine | FoldLine] = []
    for part in trees(rest):
        match part.data:
            case "dformal_one":
                param, mark, default = kids(part)
                params.append(
                    DefineParam(
                        reader.span(part),
                        reader.ident(param),
                        mark is not None,
                        None if default is None else read_expr(reader, default),
                    )
                )
            case "dformal_rest":
                rest_inputs = reader.ident(kids(part)[0])
            case "dformal_attrs":
                rest_attrs = reader.ident(kids(part)[0])
            case "dresult_one" | "dresult_rest":
                result = reader.ident(kids(part)[0])
                if rest_results is not None:
                    reason = "the result with a star takes all outputs that follow"
                    reader.misplaced(result.span, result.name, reason, "put it first")
                elif part.data == "dresult_rest":
                    rest_results = result
                else:
                    results.append(result)
            case "fold_sec":
                body += read_folds(reader, part)
            case _:
                body.append(read_build_line(reader, part))
    return Define(
        reader.span(tree),
        reader.ident(need_token(name)),
        tuple(params),
        rest_inputs,
        rest_attrs,
        tuple(results),
        rest_results,
        tuple(body),
    )


def _names(reader: Reader, branches: Sequence[Branch]) -> tuple[Ident, ...]:
    return tuple(reader.ident(item) for item in branches if isinstance(item, Token))
