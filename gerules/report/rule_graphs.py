"""Graphs that a rule should match: built from its pattern and the values that a test gives.

A pattern stands for many graphs: optional parts, alternatives, swapped operands, associations. Building
asks `Choices` at every such point; running through all answers gives all graphs, up to a cap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, cast

import numpy as np

from gerules.dsl.syntax import (
    ANY,
    AbsentAttr,
    Alternatives,
    AnyInputs,
    AttrPattern,
    BuildRef,
    CallPattern,
    CaptureAttr,
    ChainOp,
    GivenAttr,
    GivenValue,
    ListAttr,
    LiteralAttr,
    ManyLines,
    MatchLine,
    NamedPattern,
    NonePattern,
    NumberPattern,
    OneOfAttr,
    ParamAttr,
    ParamPattern,
    Pattern,
    PlainOp,
    RestInputs,
    RestTargets,
    Rule,
    RuleTest,
    Target,
    ValuePattern,
    VariableOp,
)
from gerules.dsl.values import Value
from gerules.ir import Attr, DType, Format, Graph, GraphEditor, TensorType
from gerules.passes.format_costs import TRANSDATA
from gerules.report.rule_choices import Choices, RandomChoices
from gerules.report.rule_inputs import Array, Setting, TestGraph, Unbuildable

N_COPIES: Final = 2
"""Members of a group, and values of a list, unless the rule wants more; groups have one more, too."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One graph of a test, the arrays to run it on, and how it came about.

    `is_whole`: it reads every value that the test gives; other alternatives go without some. `names` are the
    values of the graph that names of the match stand for, those of groups and lists left out. `read` are
    outputs that stand for a value that cannot be one, with an axis put before; by the values they stand for.
    """

    graph: Graph
    feeds: Mapping[str, Array]
    choices: tuple[int, ...]
    is_whole: bool
    names: Mapping[str, int] = field(default_factory=dict[str, int])
    read: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def widened(self) -> frozenset[int]:
        """The places of results that have an axis before their own."""
        made = set(self.read.values())
        return frozenset(place for place, value in enumerate(self.graph.outputs) if value in made)

    def bare(self) -> Graph:
        """Return the graph without the nodes that only read a result."""
        stands_for = {made: value for value, made in self.read.items()}
        editor = GraphEditor(self.graph)
        editor.set_outputs([stands_for.get(value, value) for value in self.graph.outputs])
        editor.prune()
        return editor.commit()


@dataclass(slots=True)
class Frame:
    """The lines that names belong to; `given` are values handed in from outside."""

    lines: Sequence[MatchLine]
    names: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    lists: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def line_of(self, name: str) -> tuple[MatchLine, int] | None:
        """Return the line that defines a name, and the place among its targets."""
        for line in self.lines:
            for place, target in enumerate(line.targets):
                if isinstance(target, Target | RestTargets) and target.name == name:
                    return line, place
        return None


def instances(rule: Rule, test: RuleTest, setting: Setting, *, limit: int, seed: int) -> Iterator[Instance]:
    """Yield the graphs of a test; those that cannot be typed are left out.

    Raises:
        Unbuildable: when not one graph can be built; with the reason of the first.
    """
    choices: Choices | None = Choices()
    first: Unbuildable | None = None
    n_built = n_tried = 0
    while choices is not None and n_built < limit and n_tried < 4 * limit:
        n_tried += 1
        builder = _Builder(rule, test, setting, choices, np.random.default_rng(seed))
        try:
            built = builder.build()
        except Unbuildable as reason:
            first = first or reason
        else:
            n_built += 1
            yield built
        choices = choices.following()
    if not n_built:
        raise first or Unbuildable("nothing was built")


def random_instance(
    rule: Rule, test: RuleTest, setting: Setting, random: np.random.Generator, *, seed: int
) -> Instance:
    """Return one graph of a test, with answers drawn by `random`. Raises Unbuildable."""
    return _Builder(rule, test, setting, RandomChoices(random), np.random.default_rng(seed)).build()


class _Builder:
    def __init__(
        self, rule: Rule, test: RuleTest, setting: Setting, choices: Choices, random: np.random.Generator
    ) -> None:
        self.rule = rule
        self.test = test
        self.setting = setting
        self.choices = choices
        self.parts = TestGraph(test, setting, random)
        self.editor = self.parts.editor
        self.ops: dict[str, str] = {}
        self.read_by: dict[int, int] = {}
        self.chosen = {item.name.name: [op.name for op in item.ops] for item in test.choices}

    # ------------------------------------------------------------ the whole
    def build(self) -> Instance:
        for item in self.test.inputs:
            if isinstance(item, GivenValue) and item.is_optional and self.choices.pick(2):
                self.parts.absent.add(item.name.name)
        lines = [line for line in self.rule.match if isinstance(line, MatchLine)]
        frame = Frame(lines)
        for statement in self.rule.match:
            if isinstance(statement, ManyLines):
                self.group(statement, frame)
        for line in lines:
            self.line(line, frame)
        outputs = self.followed(self.outputs(frame), frame)
        if not outputs:
            raise Unbuildable("the pattern gives no value")
        self.editor.set_outputs(outputs)
        graph = self.editor.commit()
        wanted = {name for name, item in self.parts.given.items() if _has_value(item)} - self.parts.absent
        choices = tuple(answer for answer, _ in self.choices.taken)
        names = {name: value for name, value in frame.names.items() if value is not None}
        return Instance(graph, self.parts.feeds, choices, wanted <= self.parts.used, names, self.read_by)

    def outputs(self, frame: Frame) -> list[int]:
        """What the rewrite replaces, what escapes, and what nothing else reads."""
        found: list[int] = []
        for line in self.rule.rewrite:
            forwards = isinstance(line.build, BuildRef)
            for target in line.targets:
                value = frame.names.get(target.name)
                values = [value] if value is not None else frame.lists.get(target.name, [])
                # A value that is replaced by one that exists cannot be an output itself: something reads it.
                found += [self.read(value) for value in values] if forwards else values
        for name in self.test.escapes:
            value = frame.names.get(name.name)
            found += [value] if value is not None else []
        for line in self.rule.match:
            if isinstance(line, MatchLine):
                for target in line.targets:
                    value = frame.names.get(target.name) if isinstance(target, Target) else None
                    if value is not None and self.editor.n_uses(value) == 0:
                        found.append(value)
        return list(dict.fromkeys(value for value in found if self.editor.producer(value) is not None))

    def followed(self, outputs: list[int], frame: Frame) -> list[int]:
        """Return the outputs, those that `after` speaks of through the operators that read them."""
        for item in self.test.after:
            value = first = frame.names.get(item.name.name)
            if first is None:
                raise Unbuildable(f"the pattern gives no {item.name.name}")
            for op in item.ops:
                inputs: list[int | None] = [value]
                attrs = self._undoing(value) if op.name == TRANSDATA else dict[str, Attr]()
                self.parts.complete(op.name, inputs, attrs, is_open=True)
                value = self.parts.node(op.name, inputs, attrs, 1)[0]
            if value is not None:
                outputs = [value if output == first else output for output in outputs]
                outputs += [value] if value not in outputs else []
        return outputs

    def _undoing(self, value: int | None) -> dict[str, Attr]:
        """Return the attributes of a conversion out of the storage format in which a value lies."""
        type = None if value is None else self.editor.values[value].type
        if not isinstance(type, TensorType) or type.format is Format.ND:
            return {}
        return {"src_format": type.format.name, "dst_format": Format.ND.name, "groups": 1}

    def read(self, value: int) -> int:
        inputs: list[int | None] = [value]
        attrs: dict[str, Attr] = {}
        self.parts.put("Unsqueeze", "axes", (0,), inputs, attrs)
        read = self.parts.node("Unsqueeze", inputs, attrs, 1)[0]
        if read is None:
            return value
        self.read_by[value] = read
        return read

    def group(self, many: ManyLines, frame: Frame) -> None:
        shared = {name.name for name in many.same}
        n_members = max(many.least, N_COPIES)
        if many.most is None or many.most > n_members:
            n_members += self.choices.pick(2)
        for _ in range(n_members):
            inner = Frame(many.lines, {name: frame.names[name] for name in shared & frame.names.keys()})
            for line in many.lines:
                self.line(line, inner)
            for name, value in inner.names.items():
                if name in shared:
                    frame.names[name] = value
                elif value is not None:
                    frame.lists.setdefault(name, []).append(value)

    def line(self, line: MatchLine, frame: Frame) -> None:
        names = [target.name for target in line.targets if isinstance(target, Target)]
        if names and all(name in frame.names for name in names if name != ANY):
            return
        rest = next((target.name for target in line.targets if isinstance(target, RestTargets)), None)
        if rest is not None and rest in frame.lists:
            return
        if (rest is not None or len(line.targets) > 1) and isinstance(line.pattern, CallPattern):
            n_named = len(line.targets) - (rest is not None)
            values = self.call(line.pattern, frame, n_named + (N_COPIES if rest is not None else 0))
            for target, value in zip(line.targets, values, strict=False):
                if isinstance(target, Target):
                    frame.names[target.name] = value
            if rest is not None:
                frame.lists[rest] = [value for value in values[n_named:] if value is not None]
            return
        value = self.value(line.pattern, frame, None)
        for name in names:
            frame.names[name] = value

    # ------------------------------------------------------------ values
    def value(self, pattern: Pattern, frame: Frame, like: DType | None) -> int | None:
        match pattern:
            case ValuePattern():
                return self.named(pattern, frame)
            case CallPattern():
                return self.call(pattern, frame, 1)[0]
            case NumberPattern(value=number):
                return self.parts.number(number, like or DType.F32)
            case ParamPattern(name=name):
                number = self.setting.scope.params.get(name)
                if not isinstance(number, int | float):
                    raise Unbuildable(f"${name} is no number")
                return self.parts.number(number, like or DType.F32)
            case NonePattern():
                return None
            case Alternatives(choices=choices):
                choice = choices[self.choices.pick(len(choices))]
                return self.value(choice.pattern, frame, like)
            case NamedPattern(pattern=inside, name=name):
                found = self.value(inside, frame, like)
                frame.names[name.name] = found
                return found

    def named(self, pattern: ValuePattern, frame: Frame) -> int | None:
        name = pattern.name
        if name in frame.names:
            return frame.names[name]
        defined = frame.line_of(name)
        if defined is not None:
            self.line(defined[0], frame)
            return frame.names.get(name)
        found = self.parts.leaf(name, pattern.type)
        if found is None and not pattern.is_optional:
            raise Unbuildable(f"the test does not give {name}")
        if name != ANY:
            frame.names[name] = found
        return found

    # ------------------------------------------------------------ calls
    def call(self, call: CallPattern, frame: Frame, n_outputs: int) -> list[int | None]:
        op = call.op
        if isinstance(op, ChainOp):
            return [self.chain(call, op, frame)]
        if isinstance(op, PlainOp) and op.name in self.setting.book.patterns:
            return self.sub_pattern(op.name, call, frame)
        if op.is_optional:
            required = isinstance(op, PlainOp) and any(self.is_absent(arg, frame) for arg in call.args[1:])
            if required or self.choices.pick(2):
                first = call.args[0]
                if isinstance(first, RestInputs | AnyInputs):
                    raise Unbuildable("an optional operator needs a first argument")
                return [self.value(first, frame, None)]
        name = self.op_of(op)
        if isinstance(op, PlainOp) and op.order == "any":
            return [self.tree(name, call, frame)]
        inputs = self.arguments(
            name, call, frame, is_ordered=isinstance(op, PlainOp) and op.order == "ordered"
        )
        attrs: dict[str, Attr] = {}
        for attr in call.attrs:
            self.keyword(name, attr.name.name, attr.pattern, inputs, attrs)
        if call.rest is not None and call.rest.name is not None and call.rest.name in self.parts.given:
            for key, value in cast("Mapping[str, Value]", self.parts.attr_given(call.rest.name)).items():
                self.parts.put(name, key, value, inputs, attrs)
        is_open = call.rest is not None and call.rest.name is None
        if is_open:
            self.ignored(name, {attr.name.name for attr in call.attrs}, inputs, attrs)
        self.parts.complete(name, inputs, attrs, is_open=is_open)
        return self.parts.node(name, inputs, attrs, max(n_outputs, self.parts.n_parts(name, inputs, attrs)))

    def op_of(self, op: PlainOp | VariableOp) -> str:
        if isinstance(op, PlainOp):
            return op.name
        if op.name in self.ops:
            return self.ops[op.name]
        known = self.chosen.get(op.name) or sorted(self.setting.book.resolve(op.ops))
        known = [name for name in known if self.setting.schema(name) is not None]
        if not known:
            raise Unbuildable(f"no operator of {op.name} exists at this version")
        name = known[self.choices.pick(len(known))]
        if op.name != ANY:
            self.ops[op.name] = name
        return name

    def is_absent(self, arg: object, frame: Frame) -> bool:
        return (
            isinstance(arg, ValuePattern)
            and arg.name not in frame.names
            and frame.line_of(arg.name) is None
            and (arg.name in self.parts.absent or getattr(self.parts.given.get(arg.name), "type", 0) is None)
        )

    def arguments(self, name: str, call: CallPattern, frame: Frame, *, is_ordered: bool) -> list[int | None]:
        found: dict[int, int | None] = {}
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        literal = (NumberPattern, ParamPattern)
        # Numbers last: they take the element type of the others.
        for place in sorted(range(len(args)), key=lambda place: isinstance(args[place], literal)):
            like = next((self.parts.dtype_of(value) for value in found.values() if value is not None), None)
            if name == "Where" and place > 0 and isinstance(args[place], literal):
                like = next((self.parts.dtype_of(found[i]) for i in (1, 2) if found.get(i) is not None), None)
            found[place] = self.value(args[place], frame, like)
        inputs = [found[place] for place in range(len(args))]
        rest = call.args[-1] if len(args) < len(call.args) else None
        if isinstance(rest, RestInputs) and rest.name in self.parts.given:
            values = frame.lists.get(rest.name)
            if values is None:
                values = [
                    value
                    for value in (self.parts.leaf(rest.name, None) for _ in range(N_COPIES))
                    if value is not None
                ]
                frame.lists[rest.name] = values
            inputs += values
        schema = self.setting.schema(name)
        may_swap = schema is not None and schema.is_commutative and not is_ordered and rest is None
        if may_swap and len(inputs) == 2 and self.choices.pick(2):
            inputs.reverse()
        return inputs

    def sub_pattern(self, name: str, call: CallPattern, frame: Frame) -> list[int | None]:
        clauses = self.setting.book.patterns[name]
        clause = clauses[self.choices.pick(len(clauses))]
        inner = Frame([line for line in clause.match if isinstance(line, MatchLine)])
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        for formal, arg in zip(clause.formals, args, strict=False):
            inner.names[formal.name.name] = self.value(arg, frame, None)
        for line in inner.lines:
            self.line(line, inner)
        return [inner.names.get(result.name) for result in clause.results]

    def tree(self, name: str, call: CallPattern, frame: Frame) -> int | None:
        leaves: dict[int, int | None] = {}
        literal = (NumberPattern, ParamPattern)
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        for place in sorted(range(len(args)), key=lambda place: isinstance(args[place], literal)):
            like = next((self.parts.dtype_of(value) for value in leaves.values() if value is not None), None)
            leaves[place] = self.value(args[place], frame, like)
        orders = list(permutations(range(len(args))))
        order = orders[self.choices.pick(len(orders))]
        values = [leaves[place] for place in order]
        while len(values) > 1:
            at = self.choices.pick(len(values) - 1)
            values[at : at + 2] = self.parts.node(name, values[at : at + 2], {}, 1)
        return values[0]

    def chain(self, call: CallPattern, op: ChainOp, frame: Frame) -> int | None:
        names = self.chosen.get(op.name)
        first = call.args[0]
        if not names or isinstance(first, RestInputs | AnyInputs):
            raise Unbuildable(f"the test does not choose the operators of {op.name}")
        value = self.value(first, frame, None)
        for name in names:
            schema = self.setting.schema(name)
            inputs = [value]
            if schema is not None and schema.min_inputs > 1 and value is not None:
                inputs.append(self.side(op.name, value))
                if schema.is_commutative and self.choices.pick(2):
                    inputs.reverse()
            value = self.parts.node(name, inputs, {}, 1)[0]
        return value

    def side(self, chain: str, value: int) -> int | None:
        """Return another operand for an operator of a chain: as the test gives it, or like the value."""
        if chain in self.parts.given:
            return self.parts.leaf(chain, None)
        type = self.editor.values[value].type
        if not isinstance(type, TensorType) or not type.is_static:
            raise Unbuildable("a chain over values of unknown shape")
        name = f"side{len(self.parts.feeds)}"
        self.parts.feeds[name] = self.parts.random(type.dtype, type.static_shape, None, None)
        return self.editor.add_input(type, name)

    # ------------------------------------------------------------ keywords
    def ignored(self, op: str, named: set[str], inputs: list[int | None], attrs: dict[str, Attr]) -> None:
        """Give what `**` ignores: of `_ = {...}`, what the operator has and the call does not name."""
        schema = self.setting.schema(op)
        for key, value in self.parts.ignored().items():
            if schema is not None and key in schema.attrs and key not in named:
                self.parts.put(op, key, value, inputs, attrs)

    def keyword(
        self, op: str, name: str, pattern: AttrPattern, inputs: list[int | None], attrs: dict[str, Attr]
    ) -> None:
        match pattern:
            case CaptureAttr(name=bound) if bound == ANY:
                self.parts.put(op, name, self.parts.ignored().get(name), inputs, attrs)
            case CaptureAttr(name=bound):
                if bound in self.parts.given and isinstance(self.parts.given[bound], GivenAttr):
                    self.parts.put(op, name, self.parts.attr_given(bound), inputs, attrs)
            case LiteralAttr(value=value):
                self.parts.put(op, name, value, inputs, attrs)
            case ListAttr(values=values):
                self.parts.put(op, name, tuple(values), inputs, attrs)
            case OneOfAttr(values=values):
                self.parts.put(op, name, values[self.choices.pick(len(values))], inputs, attrs)
            case ParamAttr(name=setting):
                self.parts.put(op, name, self.setting.scope.params.get(setting), inputs, attrs)
            case AbsentAttr():
                pass


def _has_value(item: GivenValue | GivenAttr) -> bool:
    return isinstance(item, GivenValue) and item.type is not None
