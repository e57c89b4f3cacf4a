"""The graphs that a rule's pattern stands for: one for each alternative, optional part and association.

A variant has no shapes and no elements, only which operators read which values. Counting operators and
unifying patterns both work on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gerules.dsl.syntax import (
    ANY,
    AbsentAttr,
    Alternative,
    Alternatives,
    AnyInputs,
    AttrPattern,
    CallPattern,
    CaptureAttr,
    ChainOp,
    DimName,
    DimRest,
    DimSeq,
    LiteralAttr,
    ManyLines,
    MatchLine,
    MatchStatement,
    NamedPattern,
    NonePattern,
    NumberPattern,
    ParamPattern,
    Pattern,
    PatternDef,
    PlainOp,
    RestInputs,
    RestTargets,
    Rule,
    Target,
    TypePattern,
    ValuePattern,
    VariableOp,
    patterns_in,
)
from gerules.engine.vocabulary import Vocabulary
from gerules.report.rule_choices import Choices

MOST_VARIANTS: Final = 4096
"""Variants of one rule that are looked at."""

MOST_CALLS: Final = 256
"""Operators of one variant that are looked at."""

_DEEPEST: Final = 200
"""Nesting of patterns; a pattern that contains itself ends here."""


def bound_names(pattern: Pattern) -> Iterator[str]:
    """Yield the names that a pattern binds, one as often as it does."""
    for item in patterns_in(pattern):
        match item:
            case ValuePattern():
                yield item.name
                yield from () if item.type is None else type_names(item.type)
            case NamedPattern():
                yield item.name.name
            case CallPattern():
                yield from _call_names(item)
            case Alternatives():
                yield from (binding.name.name for one in item.choices for binding in one.bindings)
            case _:
                pass


def choice_names(choice: Alternative) -> Iterator[str]:
    """Yield the names that one alternative binds."""
    yield from bound_names(choice.pattern)
    yield from (binding.name.name for binding in choice.bindings)


def optional_names(call: CallPattern) -> Iterator[str]:
    """Yield the names that `Op?(x, ...)` binds and its first argument alone does not."""
    yield from _call_names(call)
    for arg in call.args[1:]:
        if not isinstance(arg, RestInputs | AnyInputs):
            yield from bound_names(arg)


def type_names(type: TypePattern) -> Iterator[str]:
    """Yield the names of dimensions, and of the element type, that a type binds."""
    yield from (dim.name for dim in type.dims or () if isinstance(dim, DimName | DimSeq))
    if type.dtype_name is not None:
        yield type.dtype_name


def _call_names(call: CallPattern) -> Iterator[str]:
    if not isinstance(call.op, PlainOp):
        yield call.op.name
    yield from (arg.name for arg in call.args if isinstance(arg, RestInputs))
    yield from (attr.pattern.name for attr in call.attrs if isinstance(attr.pattern, CaptureAttr))
    if call.rest is not None and call.rest.name is not None:
        yield call.rest.name


class TooMany(Exception):  # noqa: N818 - an outcome, not a fault
    """A rule has more variants, or is nested deeper, than is looked at."""


@dataclass(slots=True)
class Leaf:
    """A value that no call of the variant makes: its name, the types it must have, a number it must be."""

    name: str
    types: list[TypePattern] = field(default_factory=list[TypePattern])
    number: int | float | None = None
    is_optional: bool = False

    @property
    def is_const(self) -> bool:
        """Whether it is known when compiling."""
        return self.number is not None or any(type.is_const for type in self.types)


@dataclass(slots=True)
class Call:
    """One operator of a variant, or `times` of them: a chain, or what each member of a group has.

    `ops` are the operators it can be; `label` tells which calls of a set have the same one (`f@SET`).
    `is_open`: it may have more inputs. `is_ordered`: its operands stay as written.
    """

    pattern: CallPattern
    ops: frozenset[str]
    label: str
    inputs: list[int | None]
    outputs: list[int | None]
    attrs: dict[str, AttrPattern]
    is_open: bool
    is_ordered: bool
    times: int = 1


@dataclass(slots=True)
class Variant:
    """One reading of a pattern. Values are numbers; `producer` has the call that makes one, and the output.

    `names` are the values by name, `lists` those of groups and of `*xs`; `types` what calls' results must be.
    """

    calls: list[Call] = field(default_factory=list[Call])
    producer: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    leaves: dict[int, Leaf] = field(default_factory=dict[int, Leaf])
    names: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    lists: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    shared: set[int] = field(default_factory=set[int])
    types: dict[int, list[TypePattern]] = field(default_factory=dict[int, list[TypePattern]])
    absent_ops: set[str] = field(default_factory=set[str])
    """Labels of operators that this variant goes without."""
    has_group: bool = False
    not_bound: Counter[str] = field(default_factory=Counter[str])
    """How often each name is bound in parts of the pattern that this variant goes without."""

    def values_of(self, name: str) -> list[int]:
        """Return the value of a name, those of a group's or a list's name, or none."""
        value = self.names.get(name)
        return [value] if value is not None else self.lists.get(name, [])


def variants(rule: Rule, vocabulary: Vocabulary, limit: int = MOST_VARIANTS) -> Iterator[Variant]:
    """Yield the variants of a rule's pattern.

    Raises:
        TooMany: after `limit` of them, or when patterns nest without end.
    """
    choices: Choices | None = Choices()
    n_seen = 0
    while choices is not None:
        n_seen += 1
        if n_seen > limit:
            raise TooMany(f"more than {limit} variants")
        try:
            variant = _Reader(vocabulary, choices).read(rule.match)
        except RecursionError:
            raise TooMany("a pattern nested too deeply") from None
        yield variant
        choices = choices.following()


class _Reader:
    """Reads one variant; `choices` answers which alternative, and whether optional parts are there."""

    def __init__(self, vocabulary: Vocabulary, choices: Choices) -> None:
        self.vocabulary = vocabulary
        self.choices = choices
        self.variant = Variant()
        self.n_values = 0
        self.n_frames = 0
        self.depth = 0

    def read(self, statements: Sequence[MatchStatement]) -> Variant:
        outer = [item for item in statements if isinstance(item, MatchLine)]
        frame = _Frame(outer, self.variant.names, self.variant.lists, {}, "")
        for line in outer:
            self.line(line, frame)
        for many in statements:
            if isinstance(many, ManyLines):
                self.group(many, frame)
        return self.variant

    def group(self, many: ManyLines, frame: _Frame) -> None:
        """All members take the same way: the one that removes least is as likely for each of them."""
        self.variant.has_group = True
        before = len(self.variant.calls)
        same = {name.name for name in many.same}
        names = dict(frame.names)
        inner = _Frame(many.lines, names, {}, {}, "")
        for line in many.lines:
            self.line(line, inner)
        for name, value in names.items():
            if name in same:
                frame.names[name] = value
            elif name not in frame.names and value is not None:
                frame.lists[name] = [value]
        alike = {value for name in same if (value := names.get(name)) is not None}
        for call in self.variant.calls[before:]:
            if not alike & set(call.outputs):
                call.times *= max(1, many.least)

    # ------------------------------------------------------------ lines
    def line(self, line: MatchLine, frame: _Frame) -> None:
        if id(line) in frame.done:
            return
        frame.done.add(id(line))
        names = [target.name for target in line.targets if isinstance(target, Target)]
        rest = next((target.name for target in line.targets if isinstance(target, RestTargets)), None)
        n_outputs = len(names) + (rest is not None)
        if isinstance(line.pattern, CallPattern) and n_outputs != 1:
            values = self.call(line.pattern, frame, n_outputs)
        else:
            values = [self.value(line.pattern, frame)]
        for target, value in zip(line.targets, values, strict=False):
            if isinstance(target, Target):
                if target.name != ANY:
                    frame.names[target.name] = value
                if target.type is not None and value is not None:
                    self.constrain(value, target.type, frame)
            elif isinstance(target, RestTargets) and value is not None:
                frame.lists[target.name] = [value]
            if line.is_shared and value is not None:
                self.variant.shared.add(value)

    def new_value(self) -> int:
        self.n_values += 1
        return self.n_values

    def leaf(self, leaf: Leaf) -> int:
        value = self.new_value()
        self.variant.leaves[value] = leaf
        return value

    def constrain(self, value: int, type: TypePattern, frame: _Frame) -> None:
        if frame.prefix:
            # Names of another pattern's dimensions mean nothing here; how many there are does.
            dims = tuple(DimName(d.span, ANY) if isinstance(d, DimName) else d for d in type.dims or ())
            dims = tuple(DimRest(d.span) if isinstance(d, DimSeq) else d for d in dims)
            type = replace(type, dims=None if type.dims is None else dims, dtype_name=None)
        leaf = self.variant.leaves.get(value)
        (leaf.types if leaf is not None else self.variant.types.setdefault(value, [])).append(type)

    # ------------------------------------------------------------ values
    def value(self, pattern: Pattern, frame: _Frame) -> int | None:
        match pattern:
            case ValuePattern():
                return self.named(pattern, frame)
            case CallPattern():
                return self.call(pattern, frame, 1)[0]
            case NumberPattern(value=number):
                return self.leaf(Leaf("", number=number))
            case ParamPattern(name=name):
                return self.leaf(Leaf("", number=self.vocabulary.number(name) or 0))
            case NonePattern():
                return None
            case Alternatives(choices=choices):
                chosen = choices[self.choices.pick(len(choices))]
                for choice in choices:
                    if choice is not chosen and not frame.prefix:
                        self.variant.not_bound.update(choice_names(choice))
                return self.value(chosen.pattern, frame)
            case NamedPattern(pattern=inside, name=name):
                found = self.value(inside, frame)
                frame.names[name.name] = found
                return found

    def named(self, pattern: ValuePattern, frame: _Frame) -> int | None:
        name = pattern.name
        if name != ANY and name not in frame.names:
            line = frame.line_of(name)
            if line is not None:
                self.line(line, frame)
        if name != ANY and name in frame.names:
            found = frame.names[name]
        else:
            found = self.leaf(Leaf(frame.prefix + name, is_optional=pattern.is_optional))
            if name != ANY:
                frame.names[name] = found
        if pattern.type is not None and found is not None:
            self.constrain(found, pattern.type, frame)
        return found

    # ------------------------------------------------------------ calls
    def call(self, call: CallPattern, frame: _Frame, n_outputs: int) -> list[int | None]:
        self.depth += 1
        if len(self.variant.calls) > MOST_CALLS:
            raise TooMany(f"more than {MOST_CALLS} operators")
        if self.depth > _DEEPEST:
            raise TooMany(f"patterns nested deeper than {_DEEPEST}")
        try:
            return self._call(call, frame, n_outputs)
        finally:
            self.depth -= 1

    def _call(self, call: CallPattern, frame: _Frame, n_outputs: int) -> list[int | None]:
        op = call.op
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        if isinstance(op, PlainOp | VariableOp) and op.is_optional and self.choices.pick(2):
            if not isinstance(op, PlainOp):
                self.variant.absent_ops.add(frame.prefix + op.name)
            if not frame.prefix:
                self.variant.not_bound.update(optional_names(call))
            return [self.value(args[0], frame)]
        if isinstance(op, PlainOp) and op.name in self.vocabulary.patterns:
            return self.clause(self.vocabulary.patterns[op.name], op.name, call, frame)
        inputs = [self.value(arg, frame) for arg in args]
        if isinstance(op, PlainOp) and op.order == "any":
            return [self.tree(call, op.name, inputs)]
        rest = call.args[-1] if len(args) < len(call.args) else None
        if isinstance(rest, RestInputs):
            frame.lists.setdefault(rest.name, [])
        return self.add(call, frame, inputs, n_outputs, is_open=rest is not None)

    def add(
        self, call: CallPattern, frame: _Frame, inputs: list[int | None], n_outputs: int, *, is_open: bool
    ) -> list[int | None]:
        op = call.op
        is_set = not isinstance(op, PlainOp)
        label = (
            "" if not is_set else frame.prefix + op.name if op.name != ANY else f"%{len(self.variant.calls)}"
        )
        attrs = {attr.name.name: frame.attrs_given(attr.pattern) for attr in call.attrs}
        outputs: list[int | None] = [self.new_value() for _ in range(n_outputs)]
        ops = self.vocabulary.ops(op.ops) if is_set else frozenset([op.name])
        is_ordered = isinstance(op, PlainOp) and op.order == "ordered"
        times = max(1, op.least) if isinstance(op, ChainOp) else 1
        made = Call(call, ops, label, inputs, outputs, attrs, is_open, is_ordered, times)
        for place, value in enumerate(outputs):
            if value is not None:
                self.variant.producer[value] = (len(self.variant.calls), place)
        self.variant.calls.append(made)
        return outputs

    def tree(self, call: CallPattern, name: str, leaves: list[int | None]) -> int | None:
        """Associate leaves in one of all ways; the order of two operands is left to unification."""
        values = list(leaves)
        while len(values) > 1:
            first = self.choices.pick(len(values) - 1)
            second = first + 1 + self.choices.pick(len(values) - 1 - first)
            made = self.new_value()
            inputs = [values[first], values[second]]
            self.variant.producer[made] = (len(self.variant.calls), 0)
            ops = frozenset([name])
            self.variant.calls.append(Call(call, ops, "", inputs, [made], {}, False, False))
            del values[second], values[first]
            values.append(made)
        return values[0]

    def clause(
        self, clauses: Sequence[PatternDef], name: str, call: CallPattern, frame: _Frame
    ) -> list[int | None]:
        clause = clauses[self.choices.pick(len(clauses))]
        self.n_frames += 1
        lines = [line for line in clause.match if isinstance(line, MatchLine)]
        inner = _Frame(lines, {}, {}, {}, f"{name}.{self.n_frames}.")
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        attr_places = self.vocabulary.attr_places(name)
        for place, (formal, arg) in enumerate(zip(clause.formals, args, strict=False)):
            if place in attr_places:
                inner.attrs[formal.name.name] = _as_attr(arg, frame)
            else:
                inner.names[formal.name.name] = self.value(arg, frame)
        for line in lines:
            self.line(line, inner)
        return [inner.names.get(result.name) for result in clause.results]


@dataclass(slots=True)
class _Frame:
    """The lines that names belong to; `attrs` are attributes that a caller hands to a named pattern."""

    lines: Sequence[MatchLine]
    names: dict[str, int | None]
    lists: dict[str, list[int]]
    attrs: dict[str, AttrPattern]
    prefix: str
    done: set[int] = field(default_factory=set[int])

    def line_of(self, name: str) -> MatchLine | None:
        for line in self.lines:
            if any(isinstance(target, Target) and target.name == name for target in line.targets):
                return line
        return None

    def attrs_given(self, pattern: AttrPattern) -> AttrPattern:
        if isinstance(pattern, CaptureAttr) and pattern.name in self.attrs:
            return self.attrs[pattern.name]
        return pattern


def _as_attr(arg: Pattern, frame: _Frame) -> AttrPattern:
    match arg:
        case ValuePattern(span=span, name=name, is_optional=is_optional):
            return frame.attrs.get(name) or CaptureAttr(span, name, is_optional)
        case NumberPattern(span=span, value=value):
            return LiteralAttr(span, value)
        case _:
            return AbsentAttr(arg.span)
