"""Checks of operators in rules: that they exist, how many inputs and outputs they have, which keywords."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gerules.dsl.book import RuleBook, SchemaSource, suggest
from gerules.dsl.expressions import Ident
from gerules.dsl.syntax import (
    Build,
    BuildCall,
    BuildEach,
    BuildFunction,
    BuildLine,
    Define,
    OpSet,
    PatternDef,
    PlainOp,
)
from gerules.errors import Faults, Span, table
from gerules.errors.counts import count_text
from gerules.ops.schema import ParamKind

MAX_OPSET: Final = 40
"""Opsets below this are tried for an operator that the latest opset no longer has."""
COUNTING: Final = ("split", "num_outputs", "size_splits", "num_split")
"""Parameters that say how many outputs an operator has: as a list of sizes, or as a number."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How an operator may be called, over all its versions.

    `inputs` are names by position; `most` inputs and outputs are None when variadic. `attrs` is None
    when anything is accepted. A keyword may name an attribute or an input.
    """

    inputs: tuple[str, ...]
    least_inputs: int
    most_inputs: int | None
    most_outputs: int | None
    attrs: frozenset[str] | None
    required_attrs: frozenset[str]


class Operators:
    """Operators by name: those of the schemas, and those that the book defines."""

    def __init__(self, book: RuleBook, schemas: SchemaSource) -> None:
        self._book = book
        self._schemas = schemas
        self._made = _made_by_fn(book) - frozenset(book.defines)
        self.names: frozenset[str] = frozenset(schemas.names()) | frozenset(book.defines) | self._made
        # One lookup an operator, however many rules name it.
        self.shape = lru_cache(maxsize=None)(self._shape)
        self.attributes_of = lru_cache(maxsize=None)(self._attributes_of)

    def _shape(self, name: str) -> Shape | None:
        if name in self._book.defines:
            return _shape_of_define(self._book.defines[name])
        if name in self._made:
            return Shape((), 0, None, None, None, frozenset())
        found = [schema for schema in (self._schemas.get(name, None),) if schema is not None]
        if not found and name in self.names:
            versions = (self._schemas.get(name, opset) for opset in range(1, MAX_OPSET))
            found = [schema for schema in versions if schema is not None]
        if not found:
            return None
        older = [self._schemas.get(name, opset) for opset in range(1, MAX_OPSET)]
        every = [*found, *(schema for schema in older if schema is not None)]
        latest = found[-1]
        is_open = latest.max_inputs is None
        outputs = latest.outputs
        return Shape(
            tuple(param.name for param in latest.inputs),
            min(schema.min_inputs for schema in every),
            None if is_open else max(schema.max_inputs or 0 for schema in every),
            None
            if outputs and outputs[-1].kind is ParamKind.VARIADIC
            else max(len(s.outputs) for s in every),
            frozenset(attr for schema in every for attr in schema.attrs)
            | frozenset(param.name for schema in every for param in schema.inputs),
            frozenset(attr.name for attr in latest.attrs.values() if attr.is_required),
        )

    def check_known(self, op: Ident, faults: Faults, also: Collection[str] = ()) -> Shape | None:
        """Return how an operator is called; an unknown one is recorded."""
        shape = self.shape(op.name)
        if shape is None:
            known = [*self.names, *also]
            faults.add(table.UNKNOWN_OPERATOR, span=op.span, name=op.name, notes=suggest(op.name, known))
        return shape

    def attributes(self, ops: Iterable[str]) -> frozenset[str]:
        """Return the attributes that some of the operators have at some version, by name."""
        return frozenset(name for op in ops for name in self.attributes_of(op))

    def _attributes_of(self, op: str) -> frozenset[str]:
        found: set[str] = set()
        seen: set[str] = set()
        pending = [op]
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            define = self._book.defines.get(name)
            if define is not None:
                found |= {param.name.name for param in define.params if param.default is not None}
                pending += passed_on(define)
                continue
            versions = (self._schemas.get(name, opset) for opset in (None, *range(1, MAX_OPSET)))
            found |= {attr for schema in versions if schema is not None for attr in schema.attrs}
        return frozenset(found)

    def check_set(self, ops: OpSet, faults: Faults) -> None:
        """Record unknown operators and unknown named sets of a set expression."""
        for term in ops.terms:
            if term.ref is not None and term.ref.name not in self._book.ops:
                notes = suggest(term.ref.name, self._book.ops)
                faults.add(table.UNKNOWN_OPSET, span=term.ref.span, name=term.ref.name, notes=notes)
            for op in term.ops:
                self.check_known(op, faults)


def pattern_shape(clauses: Iterable[PatternDef]) -> Shape:
    """How a named pattern is called."""
    first = next(iter(clauses))
    n_required = sum(1 for formal in first.formals if not formal.is_optional)
    names = tuple(formal.name.name for formal in first.formals)
    return Shape(names, n_required, len(names), len(first.results), frozenset(names), frozenset())


def check_call(
    op: str,
    shape: Shape,
    span: Span,
    n_args: int,
    keywords: Mapping[str, Span],
    n_outputs: int,
    faults: Faults,
    *,
    has_rest_inputs: bool,
    has_rest_attrs: bool,
    is_build: bool,
) -> None:
    """Record what does not fit in one call of an operator: inputs, outputs, keywords."""
    named_inputs = {name for name in keywords if name in shape.inputs}
    for name, place in keywords.items():
        if shape.attrs is not None and name not in shape.attrs:
            faults.add(
                table.UNKNOWN_ATTRIBUTE, span=place, name=name, owner=op, notes=suggest(name, shape.attrs)
            )
        elif name in shape.inputs[:n_args]:
            reason = f"{name} is given by position and by name"
            faults.add(table.BAD_ARITY, span=place, op=op, reason=reason)
    if shape.most_inputs is not None and n_args > shape.most_inputs:
        faults.add(
            table.BAD_ARITY, span=span, op=op,
            reason=f"it takes {count_text(shape.most_inputs, 'input')}, not {n_args}",
        )  # fmt: skip
    given = n_args + len(named_inputs - set(shape.inputs[:n_args]))
    if not has_rest_inputs and given < shape.least_inputs:
        reason = f"it needs {shape.least_inputs} inputs, not {given}"
        faults.add(table.BAD_ARITY, span=span, op=op, reason=reason)
    if shape.most_outputs is not None and n_outputs > shape.most_outputs:
        reason = f"it gives {shape.most_outputs} outputs, not {n_outputs}"
        faults.add(table.BAD_ARITY, span=span, op=op, reason=reason)
    if is_build and not has_rest_attrs:
        missing = sorted(shape.required_attrs - set(keywords))
        if missing:
            reason = f"the attribute {missing[0]} must be given"
            faults.add(table.BAD_ARITY, span=span, op=op, reason=reason)


def calls_of(build: Build) -> Iterator[BuildCall]:
    """Yield the operators that a build line makes, outermost first."""
    pending: list[object] = [build]
    while pending:
        item = pending.pop()
        if isinstance(item, BuildFunction | BuildEach):
            item = item.call
        if isinstance(item, BuildCall):
            yield item
            pending += item.args


def passed_on(define: Define) -> set[str]:
    """Return the operators that get the definition's `**attrs`."""
    if define.rest_attrs is None:
        return set()
    name = define.rest_attrs.name
    return {
        call.op.name
        for line in define.body
        if isinstance(line, BuildLine)
        for call in calls_of(line.build)
        if isinstance(call.op, PlainOp) and any(rest.name == name for rest in call.rests)
    }


def _made_by_fn(book: RuleBook) -> frozenset[str]:
    """The operators that `fn` of some rule makes; their meaning is the region that was matched."""
    found: set[str] = set()
    for rule in book.rules:
        for line in rule.rewrite:
            stack = [line.build]
            while stack:
                build = stack.pop()
                if isinstance(build, BuildFunction):
                    if isinstance(build.call.op, PlainOp):
                        found.add(build.call.op.name)
                    stack.append(build.call)
                elif isinstance(build, BuildEach):
                    stack.append(build.call)
                elif isinstance(build, BuildCall):
                    calls = BuildCall | BuildFunction | BuildEach
                    stack += [arg for arg in build.args if isinstance(arg, calls)]
    return frozenset(found)


def _shape_of_define(define: Define) -> Shape:
    inputs = [param for param in define.params if param.default is None]
    names = tuple(param.name.name for param in inputs)
    attrs = frozenset(param.name.name for param in define.params)
    return Shape(
        names,
        sum(1 for param in inputs if not param.is_optional),
        None if define.rest_inputs is not None else len(names),
        None if define.rest_results is not None else len(define.results),
        None if define.rest_attrs is not None else attrs,
        frozenset(),
    )
