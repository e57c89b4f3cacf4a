"""Conditions of rules that say nothing: true in every match, or in none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gerules.analysis.abstract import Facts, conjuncts
from gerules.analysis.variants import TooMany, Variant, variants
from gerules.dsl.book import RuleBook
from gerules.dsl.expr import Scope
from gerules.dsl.expressions import Expr
from gerules.dsl.syntax import (
    ANY,
    Condition,
    DimName,
    MatchLine,
    Rule,
    Target,
    TypePattern,
    ValuePattern,
    match_lines,
    patterns_in,
)
from gerules.dsl.values import Value
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Diagnostic, Span, table


def dead_guards(rule: Rule, book: RuleBook, vocabulary: Vocabulary) -> Iterator[Diagnostic]:
    """Yield a warning for each part of a `where` line that no match can make false, or none true."""
    if not any(True for _ in rule.guards):
        return
    try:
        known = [
            facts_of(variant, rule, book, vocabulary) for variant in variants(rule, vocabulary, limit=256)
        ]
    except TooMany:
        return
    seen: dict[Expr, Span] = {}
    for step in rule.steps:
        if not isinstance(step, Condition):
            continue
        for part in conjuncts(step.test):
            truth = {item for facts in known for item in facts.truth(part)}
            is_always = True in truth and len(truth) == 1
            if is_always or True not in truth:
                yield _warning(part, always=is_always, has_value=truth != {None}, first=seen.get(part))
            seen.setdefault(part, part.span)
            for facts in known:
                facts.learn(part)


def _warning(part: Expr, *, always: bool, has_value: bool, first: Span | None) -> Diagnostic:
    said = "always holds" if always else "never holds"
    if first is not None:
        note = f"it stands at {first} already"
    elif always:
        note = "the pattern, or a condition before it, says so already"
    elif not has_value:
        note = "it has no value in any match, so the rule never applies"
    else:
        note = "the pattern, or a condition before it, says otherwise, so the rule never applies"
    text = " ".join(part.span.text.split())
    return Diagnostic(
        table.DEAD_GUARD, {"text": text, "said": said}, part.span, notes=(note,), severity="warning"
    )


def facts_of(variant: Variant, rule: Rule, book: RuleBook, vocabulary: Vocabulary) -> Facts:
    """Return what the pattern alone says of one of its variants."""
    mentions = Counter(name for type in _types(rule) for name in _dim_names(type))
    # A `param` may be set to something else for a compile; a `const` stays.
    params: dict[str, Value] = {}
    for name in book.consts:
        number = vocabulary.number(name)
        if number is not None:
            params[name] = number
    bound = {name for line in match_lines(rule.match) for name in _bound(line)}
    bound |= {name.name for fold in rule.folds for name in fold.names}
    return Facts(
        variant,
        Scope({}, params, book.op_sets, None, book.functions),
        book.functions,
        frozenset(name for name, n_times in mentions.items() if n_times > 1),
        frozenset(bound) | variant.names.keys() | mentions.keys(),
    )


def _bound(line: MatchLine) -> Iterator[str]:
    yield from (target.name for target in line.targets if isinstance(target, Target))
    for pattern in patterns_in(line.pattern):
        if isinstance(pattern, ValuePattern):
            yield pattern.name


def _types(rule: Rule) -> Iterator[TypePattern]:
    for line in match_lines(rule.match):
        yield from (t.type for t in line.targets if isinstance(t, Target) and t.type is not None)
        for pattern in patterns_in(line.pattern):
            if isinstance(pattern, ValuePattern) and pattern.type is not None:
                yield pattern.type


def _dim_names(type: TypePattern) -> Iterator[str]:
    return (dim.name for dim in type.dims or () if isinstance(dim, DimName) and dim.name != ANY)
