"""Names that are none in an alternative of a pattern, and what needs them there all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Final

from gerules.analysis.abstract import NONE, NOTHING, Facts, conjuncts
from gerules.analysis.guards import facts_of
from gerules.analysis.variants import (
    TooMany,
    bound_names,
    choice_names,
    optional_names,
    type_names,
    variants,
)
from gerules.dsl.book import RuleBook, suggest
from gerules.dsl.expressions import Expr, IsNone, Ref, walk
from gerules.dsl.syntax import (
    ANY,
    Alternatives,
    BuildCall,
    BuildEach,
    BuildFunction,
    BuildLine,
    BuildRef,
    CallPattern,
    FoldLine,
    MatchedOp,
    PlainOp,
    Rule,
    Target,
    VariableOp,
    match_lines,
    patterns_in,
)
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Diagnostic, Span, table
from gerules.ops import Schemas
from gerules.ops.schema import ParamKind

_MOST_VARIANTS: Final = 256


@dataclass(frozen=True, slots=True)
class _Need:
    """What keeps a rule from applying where a name is none."""

    name: str
    span: Span
    text: str
    """What is written where the name is used."""


@dataclass(slots=True)
class _Way:
    """One variant of a pattern: the names that are none in it, and what is known there."""

    absent: Set[str]
    facts: Facts
    need: _Need | None = None


def absent_needs(
    rule: Rule, book: RuleBook, vocabulary: Vocabulary, schemas: Schemas
) -> Iterator[Diagnostic]:
    """Yield a warning for each use of a name that only one alternative binds, or an optional operator, where
    that use keeps the rule from ever applying without it, and no `is none` is asked.
    """
    names = Counter(_rule_names(rule))
    ways: list[_Way] = []
    try:
        for variant in variants(rule, vocabulary, limit=_MOST_VARIANTS):
            absent = {name for name, n in variant.not_bound.items() if name != ANY and n == names[name]}
            facts = facts_of(variant, rule, book, vocabulary)
            facts.settled |= {Ref(rule.span, name): NONE for name in absent}
            ways.append(_Way(absent, facts))
    except TooMany:
        return
    if not any(way.absent for way in ways):
        return
    for way in ways:
        way.need = _first_need(rule, way, schemas)
    told: set[_Need] = set()
    for way in ways:
        need = way.need
        if need is None or need in told:
            continue
        if all(other.need is not None for other in ways if need.name in other.absent):
            told.add(need)
            yield _warning(rule, need, ways)


def _first_need(rule: Rule, way: _Way, schemas: Schemas) -> _Need | None:
    """Return what stops a rule in one variant for want of a name; None where nothing does or `where` asks."""
    for step in rule.steps:
        if isinstance(step, FoldLine):
            value = way.facts.value(step.value)
            if value == NOTHING:
                return _need(step.value, way)
            if len(step.names) == 1:
                way.facts.settled[Ref(step.span, step.names[0].name)] = value
            continue
        for part in conjuncts(step.test):
            if True not in way.facts.truth(part):
                return _need(part, way)
        way.facts.learn(step.test)
    for line in rule.rewrite:
        found = _need_of_line(line, way, schemas)
        if found is not None:
            return found
    return None


def _need(expr: Expr, way: _Way) -> _Need | None:
    """The first absent name of an expression without a value, unless it asks for one that is absent."""
    used = [item.name for item in walk(expr) if isinstance(item, Ref) and item.name in way.absent]
    asked = any(
        isinstance(item, IsNone) and isinstance(item.operand, Ref) and item.operand.name in way.absent
        for item in walk(expr)
    )
    return _Need(used[0], expr.span, expr.span.text) if used and not asked else None


def _need_of_line(line: BuildLine, way: _Way, schemas: Schemas) -> _Need | None:
    """Return what a line of a rewrite cannot be built without."""
    if isinstance(line.build, BuildRef):
        name, span = line.build.name, line.build.span
        return _Need(name, span, line.span.text) if name in way.absent else None
    pending = [line.build]
    while pending:
        build = pending.pop()
        if isinstance(build, BuildEach | BuildFunction):
            continue
        absent = [isinstance(arg, BuildRef) and arg.name in way.absent for arg in build.args]
        args = build.args
        if isinstance(build.op, PlainOp) and build.op.is_optional and any(absent[1:]):
            args = args[:1]  # it is left out
        elif isinstance(build.op, MatchedOp):
            if build.op.name in way.absent:
                return _Need(build.op.name, build.op.span, build.span.text)
        else:
            schema = schemas.get(build.op.name)
            params = schema.inputs if schema is not None else ()
            for arg, param, is_absent in zip(args, params, absent, strict=False):
                if is_absent and isinstance(arg, BuildRef) and param.kind is ParamKind.REQUIRED:
                    return _Need(arg.name, arg.span, build.span.text)
        for _, value in build.attrs:
            if way.facts.value(value) == NOTHING and (found := _need(value, way)) is not None:
                return found
        pending += [arg for arg in args if isinstance(arg, BuildCall)]
    return None


def _rule_names(rule: Rule) -> Iterator[str]:
    for line in match_lines(rule.match):
        yield from bound_names(line.pattern)
        for target in line.targets:
            if isinstance(target, Target):
                yield target.name
                yield from () if target.type is None else type_names(target.type)


def _warning(rule: Rule, need: _Need, ways: list[_Way]) -> Diagnostic:
    where, others = _missing_in(rule, need.name)
    notes = (f"{where} does not bind `{need.name}`, so the rule never applies there",) if where else ()
    return Diagnostic(
        table.NEEDS_ABSENT,
        {"text": " ".join(need.text.split()), "name": need.name},
        need.span,
        notes=(*notes, *suggest(need.name, others)),
        severity="warning",
    )


def _missing_in(rule: Rule, name: str) -> tuple[str, Set[str]]:
    """Return the part of the pattern that goes without a name, as written, and what it binds instead."""
    for line in match_lines(rule.match):
        for pattern in patterns_in(line.pattern):
            if isinstance(pattern, Alternatives):
                names = [set(choice_names(choice)) for choice in pattern.choices]
                lacking = [place for place, own in enumerate(names) if name not in own]
                if lacking and len(lacking) < len(names):
                    place = lacking[0]
                    text = " ".join(pattern.choices[place].span.text.split())
                    shared = set[str]().union(*(own for at, own in enumerate(names) if at != place))
                    return f"the alternative `{text}`", names[place] - shared
            elif (
                isinstance(pattern, CallPattern)
                and isinstance(pattern.op, PlainOp | VariableOp)
                and pattern.op.is_optional
                and name in optional_names(pattern)
            ):
                return f"the pattern without `{pattern.op.span.text}`", set()
    return "", set()
