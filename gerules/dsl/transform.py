"""Files read: from a source text to a `RuleFile`, with every fault of the file found in one go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final

from lark import Token, Tree

from gerules.dsl.declarations import (
    ConstDecl,
    Device,
    Engine,
    ExternDecl,
    FormatDecl,
    FormatDim,
    FormatInput,
    FormatLine,
    FormatsTable,
    Include,
    Item,
    OpsDecl,
    ParamDecl,
    Phase,
    Pipeline,
    Profile,
    RuleFile,
    RuleSet,
    Setting,
)
from gerules.dsl.expressions import Ident
from gerules.dsl.later_tests import LaterTests, without_tests
from gerules.dsl.read_expr import read_condition, read_expr
from gerules.dsl.read_pattern import read_opset
from gerules.dsl.read_rule import read_define, read_formal, read_pattern_def, read_rule
from gerules.dsl.syntax import Condition, OpSet, Rule, RuleTest
from gerules.dsl.tree import Reader, RuleError, kids, need_tree, tokens, trees
from gerules.errors import Faults, Source, table
from gerules.text import parse_rules

LANGUAGE_VERSION: Final = 1
"""The version of the language that this reader understands."""


def read_file(source: Source, *, later: bool = False) -> RuleFile:
    """Parse and read one rule file.

    Args:
        later: Leave its tests until somebody looks at them (`LaterTests`).

    Raises:
        TextError: what `parse_rules` raises.
        RuleError: E40020 literals without a value, E40021 a version of the language not known,
            E40101 parts that cannot stand where they do, E40102 unknown element types.
    """
    tree = parse_rules(Source(source.name, without_tests(source.text), source.lines) if later else source)
    faults = Faults()
    reader = Reader(source, faults)
    version = LANGUAGE_VERSION
    includes: list[Include] = []
    items: list[Item] = []
    for child in trees(kids(tree)):
        kind = str(child.data)
        if kind == "language_decl":
            version = reader.integer(kids(child)[0])
            if version != LANGUAGE_VERSION:
                faults.add(
                    table.LANGUAGE_VERSION, span=reader.line(child), version=version, known=LANGUAGE_VERSION
                )
        elif kind == "include_decl":
            includes.append(Include(reader.line(child), reader.text(kids(child)[0])))
        else:
            items.append(_READERS[kind](reader, child))
    faults.raise_if_any(RuleError)
    file = RuleFile(source, version, tuple(includes), tuple(items))
    return _with_later_tests(file) if later else file


def _with_later_tests(file: RuleFile) -> RuleFile:
    whole = cache(partial(read_file, file.source))

    def tests_at(index: int) -> Sequence[RuleTest]:
        item = whole().items[index]
        return item.tests if isinstance(item, Rule) else ()

    items = (
        replace(item, tests=LaterTests(partial(tests_at, index))) if isinstance(item, Rule) else item
        for index, item in enumerate(file.items)
    )
    return replace(file, items=tuple(items))


def _const(reader: Reader, tree: Tree[Token]) -> ConstDecl:
    name, value = kids(tree)
    return ConstDecl(reader.line(tree), reader.ident(name), read_expr(reader, value))


def _param(reader: Reader, tree: Tree[Token]) -> ParamDecl:
    name, value, doc = kids(tree)
    return ParamDecl(reader.line(tree), reader.ident(name), read_expr(reader, value), reader.text(doc))


def _ops(reader: Reader, tree: Tree[Token]) -> OpsDecl:
    name, ops = kids(tree)
    return OpsDecl(reader.line(tree), reader.ident(name), read_opset(reader, ops))


def _format(reader: Reader, tree: Tree[Token]) -> FormatDecl:
    name, *dims = kids(tree)
    return FormatDecl(
        reader.line(tree), reader.ident(name), tuple(_format_dim(reader, dim) for dim in trees(dims))
    )


def _format_dim(reader: Reader, tree: Tree[Token]) -> FormatDim:
    span, parts = reader.span(tree), kids(tree)
    if tree.data == "fdim_rest":
        return FormatDim(span, "rest", "", None)
    if tree.data == "fdim_axis":
        return FormatDim(span, "axis", str(parts[0]), None)
    block_tree = need_tree(parts[1])
    block = "C0" if block_tree.data == "block_c0" else reader.integer(kids(block_tree)[0])
    if block == 0:
        reader.misplaced(span, "this block", "its size is zero", "give a positive size, or C0")
    return FormatDim(span, "outer" if tree.data == "fdim_outer" else "inner", str(parts[0]), block)


def _extern(reader: Reader, tree: Tree[Token]) -> ExternDecl:
    kind_tree, name, *rest, result, module = kids(tree)
    formals = tuple(read_formal(reader, part) for part in trees(rest))
    returns = tokens([result])
    kind = "predicate" if kids(need_tree(kind_tree))[0] == "predicate" else "function"
    if kind == "predicate" and returns:
        reader.misplaced(reader.span(returns[0]), "a result", "a predicate gives a truth value", "remove it")
    what = "bool" if kind == "predicate" else str(returns[0]) if returns else ""
    return ExternDecl(reader.line(tree), kind, reader.ident(name), formals, what, reader.text(module))


def _ruleset(reader: Reader, tree: Tree[Token]) -> RuleSet:
    name, doc, *statements = kids(tree)
    when: list[Condition] = []
    is_on, priority = True, 0
    kind = None
    for item in trees(statements):
        child = kids(item)[0]
        match item.data:
            case "rs_when":
                when.append(read_condition(reader, item))
            case "rs_default":
                is_on = str(kids(need_tree(child))[0]) == "on"
            case "rs_priority":
                priority = int(reader.number(child))
            case _:
                kind = "UBFusion" if str(kids(need_tree(child))[0]) == "UBFusion" else "GraphFusion"
    return RuleSet(
        reader.span(tree), reader.ident(name), reader.text(doc), tuple(when), is_on, priority, kind
    )


def _phase(reader: Reader, tree: Tree[Token]) -> Phase:
    name, doc, *statements = kids(tree)
    run: list[Ident] = []
    then: list[Ident] = []
    is_backward = True
    is_fixpoint, is_once = False, False
    max_rounds: int | None = None
    requires: list[Condition] = []
    ensures: list[Condition] = []
    for item in trees(statements):
        children = kids(item)
        match item.data:
            case "ph_run":
                run += reader.idents(children)
            case "ph_then":
                then += reader.idents(children)
            case "ph_order":
                is_backward = str(kids(need_tree(children[0]))[0]) == "outputs_first"
            case "ph_fixpoint":
                is_fixpoint = True
                max_rounds = None if children[0] is None else reader.integer(children[0])
            case "ph_once":
                is_once = True
            case "ph_requires":
                requires.append(read_condition(reader, children[0]))
            case _:
                ensures.append(read_condition(reader, children[0]))
    ident = reader.ident(name)
    if is_once and is_fixpoint:
        reader.misplaced(ident.span, f"the phase {ident}", "it says `once` and `until fixpoint`", "keep one")
    return Phase(
        reader.span(tree),
        ident,
        reader.text(doc),
        tuple(run),
        tuple(then),
        "outputs_first" if is_backward else "inputs_first",
        is_fixpoint,
        max_rounds,
        is_once,
        tuple(requires),
        tuple(ensures),
    )


def _pipeline(reader: Reader, tree: Tree[Token]) -> Pipeline:
    name, *phases = kids(tree)
    return Pipeline(reader.line(tree), reader.ident(name), reader.idents(phases))


def _setting(reader: Reader, tree: Tree[Token]) -> Setting:
    name, value = kids(tree)
    return Setting(reader.line(tree), reader.ident(name), read_expr(reader, value))


def _profile(reader: Reader, tree: Tree[Token]) -> Profile:
    name, base, doc, *statements = kids(tree)
    settings: list[Setting] = []
    enable: list[Ident] = []
    disable: list[Ident] = []
    for item in trees(statements):
        match item.data:
            case "pf_set":
                settings.append(_setting(reader, item))
            case "pf_enable":
                enable += reader.idents(kids(item))
            case _:
                disable += reader.idents(kids(item))
    return Profile(
        reader.span(tree),
        reader.ident(name),
        None if base is None else reader.ident(base),
        reader.text(doc),
        tuple(settings),
        tuple(enable),
        tuple(disable),
    )


def _device(reader: Reader, tree: Tree[Token]) -> Device:
    name, base, doc, *statements = kids(tree)
    engines: list[Engine] = []
    lacks: list[OpSet] = []
    features: list[Ident] = []
    settings: list[Setting] = []
    for item in trees(statements):
        children = kids(item)
        match item.data:
            case "dv_engine":
                engine, priority, ops, where = children
                engines.append(
                    Engine(
                        reader.line(item),
                        reader.ident(engine),
                        0 if priority is None else int(reader.number(priority)),
                        read_opset(reader, ops),
                        None if where is None else read_condition(reader, where),
                    )
                )
            case "dv_lacks":
                lacks.append(read_opset(reader, children[0]))
            case "dv_has":
                features += reader.idents(children)
            case _:
                settings.append(_setting(reader, item))
    return Device(
        reader.span(tree),
        reader.ident(name),
        None if base is None else reader.ident(base),
        reader.text(doc),
        tuple(engines),
        tuple(lacks),
        tuple(features),
        tuple(settings),
    )


def _formats(reader: Reader, tree: Tree[Token]) -> FormatsTable:
    engine, *lines = kids(tree)
    return FormatsTable(
        reader.span(tree), reader.ident(engine), tuple(_format_line(reader, line) for line in trees(lines))
    )


def _format_line(reader: Reader, tree: Tree[Token]) -> FormatLine:
    op, *middle, where, cost = kids(tree)
    ops: Ident | OpSet
    # `_@SET` keeps the anonymous token `_` out of the tree; an operator name stays a token.
    ops = reader.ident(op) if isinstance(op, Token) else read_opset(reader, trees(kids(need_tree(op)))[-1])
    inputs: list[FormatInput] = []
    outputs: list[Ident] = []
    rest: Ident | None = None
    for part in trees(middle):
        span, parts = reader.span(part), kids(part)
        if part.data in {"fmt_out_one", "fmt_out_rest"}:
            layout = reader.ident(parts[0])
            if rest is not None:
                reader.misplaced(span, "this output", "`*` stands for all outputs that follow", "remove it")
            elif part.data == "fmt_out_rest":
                rest = layout
            else:
                outputs.append(layout)
        elif part.data == "fmt_rest":
            inputs.append(FormatInput(span, "", reader.ident(parts[0]), is_rest=True))
        else:
            name, mark, layout = parts
            inputs.append(FormatInput(span, str(name), reader.ident(layout), mark is not None))
    return FormatLine(
        reader.line(tree),
        ops,
        tuple(inputs),
        tuple(outputs),
        rest,
        None if where is None else read_condition(reader, where),
        None if cost is None else read_expr(reader, cost),
    )


_READERS: Final[dict[str, Callable[[Reader, Tree[Token]], Item]]] = {
    "const_decl": _const,
    "param_decl": _param,
    "ops_decl": _ops,
    "format_decl": _format,
    "extern_decl": _extern,
    "pattern_def": read_pattern_def,
    "define_def": read_define,
    "ruleset_def": _ruleset,
    "rule_block": read_rule,
    "rule_inline": read_rule,
    "phase_def": _phase,
    "pipeline_decl": _pipeline,
    "profile_def": _profile,
    "device_def": _device,
    "formats_def": _formats,
}
