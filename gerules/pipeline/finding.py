"""Finding: every place of a model where a pattern of the rule language matches, and where it almost does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gerules.dsl import RuleBook, check_rules
from gerules.dsl.expressions import Not
from gerules.dsl.syntax import (
    Alternatives,
    AnyInputs,
    CallPattern,
    Condition,
    MatchLine,
    MatchStatement,
    NamedPattern,
    Pattern,
    RestAttrs,
    RestInputs,
    Rule,
)
from gerules.dsl.transform import read_file
from gerules.dsl.tree import RuleError
from gerules.dsl.values import ChainView, OpView, Value, ValueView, describe
from gerules.engine.reasons import called
from gerules.engine.search import STEP_BUDGET, Place, search
from gerules.errors import Diagnostic, GerulesError, Source, Span, table
from gerules.errors.arguments import checked
from gerules.ir import Dim, Graph, Node
from gerules.ops import Schemas, infer_graph
from gerules.passes.bind import bind_shapes
from gerules.pipeline.api import Model, Rules, book_of, graph_of
from gerules.pipeline.attempts import Attempt, AttemptGroup, Recorder, group_attempts
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.toolchain import HOST, make_toolchain

_RULE: Final = "found"
"""The name of the rule that a pattern becomes, and of its result where the pattern gives none."""

_NAME: Final = re.compile(r"\s*(?:shared\s+)?\*?([^\W\d]\w*)\s*[:,=]")


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node of a match: what people call it, its operator, the type of its first output."""

    name: str
    op: str
    type: str


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a pattern matches.

    `nodes` stand in the order of the graph, the last one makes the result. `bound` says what the names of the
    pattern stand for. `escapes` are values inside that others read too, with their readers: a rule with
    this pattern could not replace it here.
    """

    graph: str
    nodes: tuple[FoundNode, ...]
    bound: Mapping[str, str]
    escapes: Mapping[str, tuple[str, ...]]

    @property
    def is_closed(self) -> bool:
        """Whether nobody else reads a value inside."""
        return not self.escapes

    def as_json(self) -> dict[str, object]:
        """Return the place as plain values."""
        return {
            "graph": self.graph,
            "nodes": [{"name": node.name, "op": node.op, "type": node.type} for node in self.nodes],
            "bound": dict(self.bound),
            "is_closed": self.is_closed,
            "escapes": {name: list(readers) for name, readers in self.escapes.items()},
        }


@dataclass(frozen=True, slots=True)
class Findings:
    """Where a pattern matches in a model; `near` is where it almost does, if asked for (`is_near`)."""

    model: str
    pattern: str
    occurrences: tuple[Occurrence, ...]
    near: tuple[AttemptGroup, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    is_near: bool = False

    @property
    def n_closed(self) -> int:
        """How many of them a rule could replace."""
        return sum(1 for item in self.occurrences if item.is_closed)

    def as_json(self) -> dict[str, object]:
        """Return the findings as plain values."""
        return {
            "model": self.model,
            "pattern": self.pattern,
            "n_found": len(self.occurrences),
            "n_closed": self.n_closed,
            "found": [item.as_json() for item in self.occurrences],
            "near": [group.as_json() for group in self.near],
            "warnings": [item.as_json() for item in self.warnings],
        }


@checked("model")
def find(
    model: Model,
    pattern: str,
    *,
    where: str | Sequence[str] = (),
    strict: bool = False,
    near: bool = False,
    rules: RuleBook | Rules | None = None,
    device: str = HOST,
    input_shapes: Mapping[str, Sequence[Dim]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Findings:
    """Find every place of a model, as it is written, where a pattern matches; bodies of nodes included.

    Attributes that the pattern does not mention may be anything, and others may read the values inside; with
    `strict` it matches as it would in a rule.

    Args:
        model: A file, a graph, or an ONNX model in memory.
        pattern: A pattern, `Relu(Conv(x, ...))`, or the lines of a `match`.
        where: Conditions on the names of the pattern, `x.shape[1] == 3`; all must hold.
        strict: Attributes not mentioned have their defaults, and nobody else reads a value inside.
        near: Tell also how far it came elsewhere.
        rules: What declares operators, operator sets and named patterns; without it the rules of gerules.
        device: What `device` is in conditions.

    Returns:
        The places, in the order of the graph. Of two ways to match the same nodes one is told, and none that
        is a part of another.

    Raises:
        TextError, RuleError: for what is wrong in the pattern or a condition; E40110 for a condition that
            has a value at no place.
        GerulesError: what reading the model raises.

    Cost: nodes of the pattern's root operators, times the ways to match there.
    """
    book = book_of(rules)
    rule = _read_pattern(pattern, [where] if isinstance(where, str) else where, book)
    read = bind_shapes(graph_of(model, book), input_shapes, dims)
    tools = make_toolchain(book, read.opsets, device=device)
    graph = infer_graph(read, tools.schemas, extra=tools.extra, names_sizes=True)
    recorder = Recorder(None) if near else None
    if not strict:
        rule = replace(rule, match=tuple(_opened(item) for item in rule.match))

    def places_of(one: Rule) -> Sequence[Place]:
        return search(graph, one, schemas=tools.schemas, context=tools.context).places

    done = search(graph, rule, schemas=tools.schemas, context=tools.context, witness=recorder)
    if not done.places:
        _refuse_without_value(rule, done.faults, places_of)
    found = [_occurrence(place) for place in done.places if not strict or not place.escapes]
    warnings = [*(replace(fault, severity="warning") for fault in done.faults)]
    warnings += [_too_many_steps(node, graph) for node in done.cut]
    groups: tuple[AttemptGroup, ...] = ()
    if recorder is not None:
        (plan,) = done.plans.plans
        groups = group_attempts(_near(recorder.attempts({_RULE: plan}), done.places))
    return Findings(graph.name, pattern.strip(), tuple(found), groups, tuple(warnings), near)


def _read_pattern(pattern: str, where: Sequence[str], book: RuleBook) -> Rule:
    """Return the rule that a pattern and conditions make, checked; it marks its result and does no more."""
    written = [line for line in pattern.strip("\n").splitlines() if line.strip()] or [""]
    lines = written
    if not any("=" in line.partition("(")[0] or line.split()[:1] == ["many"] for line in lines):
        written = [written[0].lstrip(), *written[1:]]
        lines = [f"{_RULE} = {written[0]}", *written[1:]]
    names = [name[1] for line in lines if (name := _NAME.match(line)) and name[1] not in ("_", "many")]
    if not names:
        raise PipelineError(
            table.BAD_OPTION, option="the pattern", value=pattern.strip(), reason="no value has a name",
            remedy="give what it looks for a name: y = Relu(...)",
        )  # fmt: skip
    # The pattern comes last, so that a bracket left open ends at the end and not in what stands around it.
    text = [f"rule {_RULE} in {_RULE}:", "    annotate:", f"        {names[-1]}.{_RULE} = true"]
    for condition in where:
        text += ["    where:", f"        {' '.join(condition.split())}"]
    told = (*(1 for _ in text), 1, *range(1, len(lines) + 1))
    text += ["    match:", *(f"        {line}" for line in lines)]
    source = Source("the pattern", "\n".join(text) + "\n", told)
    try:
        rule = next(item for item in read_file(source).items if isinstance(item, Rule))
        alone = replace(
            book, rules=(rule,), rulesets={}, phases={}, pipelines={}, profiles={}, tables=(), devices={}
        )
        check_rules(alone, Schemas(), book.functions).raise_if_any(RuleError)
    except GerulesError as error:
        raise type(error)([_as_written(item, written) for item in error.diagnostics]) from None
    return rule


def _as_written(item: Diagnostic, written: Sequence[str]) -> Diagnostic:
    """Return a fault of the rule that a pattern became as one of the text that the user wrote.

    The lines of the pattern end the rule; a fault of what stands above them, such as a condition, stays.
    """
    if item.span is None:
        return item
    made = item.span.source.text.rstrip("\n").split("\n")
    line, column = item.span.source.line_column(item.span.start)
    number = min(line, len(made)) - 1 - (len(made) - len(written))
    if number < 0:
        return item
    n_put_before = len(made[min(line, len(made)) - 1]) - len(written[number])
    at = len(written[number]) if line > len(made) else max(0, column - 1 - n_put_before)
    start = sum(len(one) + 1 for one in written[:number]) + at
    span = Span(Source(item.span.source.name, "\n".join(written)), start, start + len(item.span.text))
    return replace(item, span=span)


def _refuse_without_value(
    rule: Rule, faults: Sequence[Diagnostic], places_of: Callable[[Rule], Sequence[Place]]
) -> None:
    """Raise those of the faults of a search that a condition has which neither holds nor fails anywhere."""
    for place, step in enumerate(rule.steps):
        own = [
            fault
            for fault in faults
            if fault.span is not None and step.span.start <= fault.span.start < step.span.end
        ]
        if not own or not isinstance(step, Condition):
            continue
        opposite = replace(step, test=Not(step.span, step.test))
        if not any(places_of(replace(rule, steps=(*rule.steps[:place], one))) for one in (step, opposite)):
            raise RuleError(own)


def _opened(statement: MatchStatement) -> MatchStatement:
    """The statement with attributes left open that it does not mention."""
    if isinstance(statement, MatchLine):
        return replace(statement, pattern=_open(statement.pattern))
    return replace(
        statement, lines=tuple(replace(line, pattern=_open(line.pattern)) for line in statement.lines)
    )


def _open(pattern: Pattern) -> Pattern:
    match pattern:
        case CallPattern(args=args, rest=rest):
            inner = tuple(arg if isinstance(arg, RestInputs | AnyInputs) else _open(arg) for arg in args)
            return replace(pattern, args=inner, rest=rest or RestAttrs(pattern.span, None))
        case Alternatives(choices=choices):
            return replace(
                pattern, choices=tuple(replace(one, pattern=_open(one.pattern)) for one in choices)
            )
        case NamedPattern(pattern=inside):
            return replace(pattern, pattern=_open(inside))
        case _:
            return pattern


# ---------------------------------------------------------------- what was found
def _occurrence(place: Place) -> Occurrence:
    graph = place.graph
    bound = {name: _told(value) for name, value in place.bound.items() if _is_told(name, value)}
    escapes = {
        graph.values[value].name or f"%{value}": tuple(_reader(node, graph) for node in readers)
        for value, readers in place.escapes
    }
    return Occurrence(place.path, tuple(_found_node(node, graph) for node in place.nodes), bound, escapes)


def _found_node(node: Node, graph: Graph) -> FoundNode:
    made = next(node.writes(), None)
    return FoundNode(called(node, graph.values), node.op, "" if made is None else str(graph.type_of(made)))


def _reader(node: Node | None, graph: Graph) -> str:
    return "the output of the graph" if node is None else f"{node.op} {called(node, graph.values)}"


def _is_told(name: str, value: Value) -> bool:
    return name != _RULE and name.isidentifier() and value is not None


def _told(value: Value) -> str:
    match value:
        case ValueView():
            return f"{value.name}: {'' if value.const is None else 'const '}{value.type}"
        case OpView():
            return value.op
        case ChainView():
            return " -> ".join(op.op for op in value.ops)
        case np.ndarray():
            return str(value.tolist()) if value.size <= _MOST_ELEMENTS else describe(value)
        case tuple():
            return f"[{', '.join(_told(item) for item in value)}]"
        case Mapping():
            return f"{{{', '.join(f'{name}: {_told(item)}' for name, item in value.items())}}}"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


_MOST_ELEMENTS: Final = 16
"""Elements of a constant that are written out."""


def _near(attempts: Sequence[Attempt], places: Sequence[Place]) -> list[Attempt]:
    """The attempts that found something of the pattern, outside of all matches, nearest first."""
    taken = {(place.path, called(node, place.graph.values)) for place in places for node in place.nodes}
    kept = [
        item for item in attempts
        if item.outcome != "fits" and item.n_matched and (item.graph, item.node) not in taken
    ]  # fmt: skip
    return sorted(kept, key=lambda item: (-item.nearness, -item.n_ops))


def _too_many_steps(node: Node, graph: Graph) -> Diagnostic:
    facts = {"rule": "the pattern", "limit": STEP_BUDGET}
    return Diagnostic(table.TOO_MANY_STEPS, facts, place=called(node, graph.values), severity="warning")
