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
import numpy.typing as npt

from gerules.dsl.book import RuleBook
from gerules.dsl.expr import Scope, evaluate, view_of
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
    DimSize,
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
    TypePattern,
    ValuePattern,
    VariableOp,
)
from gerules.dsl.values import Value
from gerules.engine.candidate import Infer, Refused
from gerules.engine.constants import attr_of_value
from gerules.errors import GerulesError
from gerules.ir import Attr, Const, DType, Graph, GraphEditor, Node, TensorType, ValueType, empty_graph
from gerules.ir import Value as GraphValue
from gerules.ops import ParamKind, Schemas

Array = npt.NDArray[np.generic]

N_COPIES: Final = 2
"""Members of a group, and values of a list, unless the rule wants more."""


class Unbuildable(Exception):  # noqa: N818 - an outcome, not a fault
    """A pattern, or one of its variants, cannot be built from what a test gives."""


class Choices:
    """Answers questions with numbers; `following` yields choices until every run of answers was given."""

    def __init__(self, script: Sequence[int] = ()) -> None:
        self._script = script
        self.taken: list[tuple[int, int]] = []

    def pick(self, n: int) -> int:
        """Return a number below `n`."""
        place = len(self.taken)
        answer = self._script[place] if place < len(self._script) else 0
        self.taken.append((answer, n))
        return answer

    def following(self) -> Choices | None:
        """Return the choices that come next, or None after the last."""
        taken = list(self.taken)
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        if not taken:
            return None
        last, _ = taken.pop()
        return Choices([*(answer for answer, _ in taken), last + 1])


@dataclass(frozen=True, slots=True)
class Instance:
    """One graph of a test, the arrays to run it on, and how it came about."""

    graph: Graph
    feeds: Mapping[str, Array]
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """What building needs besides a rule and a test."""

    book: RuleBook
    schemas: Schemas
    infer: Infer
    scope: Scope
    opset: int


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


class _Builder:
    def __init__(
        self, rule: Rule, test: RuleTest, setting: Setting, choices: Choices, random: np.random.Generator
    ) -> None:
        self.rule = rule
        self.test = test
        self.setting = setting
        self.choices = choices
        self.random = random
        self.editor = GraphEditor(empty_graph("test", {"": setting.opset}))
        self.feeds: dict[str, Array] = {}
        self.given = {item.name.name: item for item in test.inputs}
        self.absent: set[str] = set()
        self.arrays: dict[str, Array] = {}
        self.attrs: dict[str, Value] = {}
        self.ops: dict[str, str] = {}
        self.chosen = {item.name.name: [op.name for op in item.ops] for item in test.choices}

    # ------------------------------------------------------------ the whole
    def build(self) -> Instance:
        for item in self.test.inputs:
            if isinstance(item, GivenValue) and item.is_optional and self.choices.pick(2):
                self.absent.add(item.name.name)
        lines = [line for line in self.rule.match if isinstance(line, MatchLine)]
        frame = Frame(lines)
        for statement in self.rule.match:
            if isinstance(statement, ManyLines):
                self.group(statement, frame)
        for line in lines:
            self.line(line, frame)
        outputs = self.outputs(frame)
        if not outputs:
            raise Unbuildable("the pattern gives no value")
        self.editor.set_outputs(outputs)
        graph = self.editor.commit()
        return Instance(graph, self.feeds, tuple(answer for answer, _ in self.choices.taken))

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

    def read(self, value: int) -> int:
        inputs: list[int | None] = [value]
        attrs: dict[str, Attr] = {}
        self.put("Unsqueeze", "axes", (0,), inputs, attrs)
        read = self.node("Unsqueeze", inputs, attrs, 1)[0]
        return value if read is None else read

    def group(self, many: ManyLines, frame: Frame) -> None:
        shared = {name.name for name in many.same}
        for _ in range(max(many.least, N_COPIES)):
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
        if len(line.targets) > 1 and isinstance(line.pattern, CallPattern):
            values = self.call(line.pattern, frame, len(line.targets))
            for target, value in zip(line.targets, values, strict=True):
                if isinstance(target, Target):
                    frame.names[target.name] = value
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
                return self.editor.add_const(np.asarray(number, (like or DType.F32).numpy))
            case ParamPattern(name=name):
                number = self.setting.scope.params.get(name)
                if not isinstance(number, int | float):
                    raise Unbuildable(f"${name} is no number")
                return self.editor.add_const(np.asarray(number, (like or DType.F32).numpy))
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
        found = self.leaf(name, pattern.type)
        if found is None and not pattern.is_optional:
            raise Unbuildable(f"the test does not give {name}")
        if name != ANY:
            frame.names[name] = found
        return found

    def leaf(self, name: str, wanted: TypePattern | None) -> int | None:
        item = self.given.get(name)
        if item is None or name in self.absent:
            return None
        if isinstance(item, GivenAttr):
            value = self.attr_given(name)
            array = np.asarray(value)
            dtype = next(iter(wanted.dtypes)) if wanted and wanted.dtypes and len(wanted.dtypes) == 1 else None
            plain = DType.F32 if array.dtype.kind == "f" else DType.I64
            array = array.astype((dtype or plain).numpy)
            self.arrays[name] = array
            return self.editor.add_const(array, name)
        if item.type is None:
            return None
        dtype, shape = _static(item)
        array = self.random_array(dtype, shape, item.low, item.high)
        self.arrays.setdefault(name, array)
        if item.type.is_const:
            return self.editor.add_const(array, name)
        called = name
        while called in self.feeds:
            called += "_"
        self.feeds[called] = array
        return self.editor.add_input(TensorType(dtype, shape), called)

    def random_array(self, dtype: DType, shape: tuple[int, ...], low: float | None, high: float | None) -> Array:
        if dtype is DType.BOOL:
            return np.asarray(self.random.integers(0, 2, shape), np.bool_)
        if dtype.is_integer:
            first, last = (0 if low is None else int(low)), (9 if high is None else int(high))
            return np.asarray(self.random.integers(first, last + 1, shape)).astype(dtype.numpy)
        least, most = (-2.0 if low is None else low), (2.0 if high is None else high)
        return np.asarray(self.random.uniform(least, most, shape)).astype(dtype.numpy)

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
        inputs = self.arguments(name, call, frame, is_ordered=isinstance(op, PlainOp) and op.order == "ordered")
        attrs: dict[str, Attr] = {}
        for attr in call.attrs:
            self.keyword(name, attr.name.name, attr.pattern, inputs, attrs)
        if call.rest is not None and call.rest.name is not None and call.rest.name in self.given:
            for key, value in cast("Mapping[str, Value]", self.attr_given(call.rest.name)).items():
                self.put(name, key, value, inputs, attrs)
        is_open = call.rest is not None and call.rest.name is None
        self.complete(name, inputs, attrs, is_open=is_open)
        return self.node(name, inputs, attrs, n_outputs)

    def op_of(self, op: PlainOp | VariableOp) -> str:
        if isinstance(op, PlainOp):
            return op.name
        if op.name in self.ops:
            return self.ops[op.name]
        known = self.chosen.get(op.name) or sorted(self.setting.book.resolve(op.ops))
        known = [name for name in known if self.setting.schemas.get(name, self.version(name)) is not None]
        if not known:
            raise Unbuildable(f"no operator of {op.name} exists at this version")
        name = known[self.choices.pick(len(known))]
        if op.name != ANY:
            self.ops[op.name] = name
        return name

    def version(self, op: str) -> int | None:
        return None if "::" in op else self.setting.opset

    def is_absent(self, arg: object, frame: Frame) -> bool:
        return (
            isinstance(arg, ValuePattern)
            and arg.name not in frame.names
            and frame.line_of(arg.name) is None
            and (arg.name in self.absent or getattr(self.given.get(arg.name), "type", 0) is None)
        )

    def arguments(self, name: str, call: CallPattern, frame: Frame, *, is_ordered: bool) -> list[int | None]:
        found: dict[int, int | None] = {}
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        literal = (NumberPattern, ParamPattern)
        # Numbers last: they take the element type of the others.
        for place in sorted(range(len(args)), key=lambda place: isinstance(args[place], literal)):
            like = next((self.dtype_of(value) for value in found.values() if value is not None), None)
            if name == "Where" and place > 0 and isinstance(args[place], literal):
                like = next((self.dtype_of(found[i]) for i in (1, 2) if found.get(i) is not None), None)
            found[place] = self.value(args[place], frame, like)
        inputs = [found[place] for place in range(len(args))]
        rest = call.args[-1] if len(args) < len(call.args) else None
        if isinstance(rest, RestInputs) and rest.name in self.given:
            values = frame.lists.get(rest.name)
            if values is None:
                values = [value for value in (self.leaf(rest.name, None) for _ in range(N_COPIES)) if value is not None]
                frame.lists[rest.name] = values
            inputs += values
        schema = self.setting.schemas.get(name, self.version(name))
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
            like = next((self.dtype_of(value) for value in leaves.values() if value is not None), None)
            leaves[place] = self.value(args[place], frame, like)
        orders = list(permutations(range(len(args))))
        order = orders[self.choices.pick(len(orders))]
        values = [leaves[place] for place in order]
        while len(values) > 1:
            at = self.choices.pick(len(values) - 1)
            values[at : at + 2] = self.node(name, values[at : at + 2], {}, 1)
        return values[0]

    def chain(self, call: CallPattern, op: ChainOp, frame: Frame) -> int | None:
        names = self.chosen.get(op.name)
        first = call.args[0]
        if not names or isinstance(first, RestInputs | AnyInputs):
            raise Unbuildable(f"the test does not choose the operators of {op.name}")
        value = self.value(first, frame, None)
        for name in names:
            schema = self.setting.schemas.get(name, self.version(name))
            inputs = [value]
            if schema is not None and schema.min_inputs > 1 and value is not None:
                type = self.editor.values[value].type
                if not isinstance(type, TensorType) or not type.is_static:
                    raise Unbuildable("a chain over values of unknown shape")
                shape = tuple(dim for dim in type.shape or () if isinstance(dim, int))
                called = f"side{len(self.feeds)}"
                self.feeds[called] = self.random_array(type.dtype, shape, None, None)
                inputs.append(self.editor.add_input(type, called))
                if schema.is_commutative and self.choices.pick(2):
                    inputs.reverse()
            value = self.node(name, inputs, {}, 1)[0]
        return value

    # ------------------------------------------------------------ keywords
    def attr_given(self, name: str) -> Value:
        if name not in self.attrs:
            item = self.given[name]
            if not isinstance(item, GivenAttr):
                raise Unbuildable(f"{name} is no attribute")
            names: dict[str, Value] = {key: view_of(array, key) for key, array in self.arrays.items()}
            scope = Scope(
                names | self.attrs, self.setting.scope.params, self.setting.scope.opsets, None,
                self.setting.scope.functions,
            )  # fmt: skip
            self.attrs[name] = evaluate(item.value, scope)
        return self.attrs[name]

    def keyword(
        self, op: str, name: str, pattern: AttrPattern, inputs: list[int | None], attrs: dict[str, Attr]
    ) -> None:
        match pattern:
            case CaptureAttr(name=bound):
                if bound in self.given and isinstance(self.given[bound], GivenAttr):
                    self.put(op, name, self.attr_given(bound), inputs, attrs)
            case LiteralAttr(value=value):
                self.put(op, name, value, inputs, attrs)
            case ListAttr(values=values):
                self.put(op, name, tuple(values), inputs, attrs)
            case OneOfAttr(values=values):
                self.put(op, name, values[self.choices.pick(len(values))], inputs, attrs)
            case ParamAttr(name=setting):
                self.put(op, name, self.setting.scope.params.get(setting), inputs, attrs)
            case AbsentAttr():
                pass

    def put(self, op: str, name: str, value: Value, inputs: list[int | None], attrs: dict[str, Attr]) -> None:
        """Give a parameter: as attribute, or as constant input, whichever the operator has."""
        if value is None:
            return
        schemas = self.setting.schemas
        keyword = schemas.attr_or_input(op, name, self.version(op))
        schema = schemas.get(op, self.version(op))
        if keyword is None or schema is None:
            newest = schemas.get(op)
            if newest is not None and name in newest.attrs and newest.attrs[name].default == value:
                return
            raise Unbuildable(f"{op} has no parameter {name} at this version")
        if keyword.input_index is None:
            try:
                attrs[keyword.name] = attr_of_value(value, schema.attrs.get(keyword.name), keyword.name)
            except Refused as reason:
                raise Unbuildable(reason.reason) from None
            return
        place = keyword.input_index
        while len(inputs) <= place:
            inputs.append(None)
        param = schema.inputs[min(place, len(schema.inputs) - 1)]
        first = inputs[0]
        array = np.asarray(value)
        if array.dtype.kind == "f" or (param.type_var and param.type_var == schema.inputs[0].type_var):
            like = self.dtype_of(first) if first is not None else DType.F32
            array = array.astype(like.numpy)
        elif array.dtype.kind != "b":
            array = array.astype(np.int64)
        inputs[place] = self.editor.add_const(array, name)

    def complete(
        self, op: str, inputs: list[int | None], attrs: dict[str, Attr], *, is_open: bool
    ) -> None:
        """Give what an operator must have and a pattern leaves open."""
        first = inputs[0] if inputs else None
        type = self.editor.values[first].type if first is not None else None
        rank = len(type.shape) if isinstance(type, TensorType) and type.shape is not None else 0
        plain = op.removeprefix("ge::")
        if plain in ("MaxPool", "MaxPoolV3"):
            attrs.setdefault("kernel_shape", (2,) * (rank - 2))
        elif plain in ("AveragePool", "AvgPoolV2") and isinstance(type, TensorType) and type.shape is not None:
            attrs.setdefault("kernel_shape", tuple(dim for dim in type.shape[2:] if isinstance(dim, int)))
        elif "Conv" in plain and is_open and not attrs and rank == 4 and len(inputs) > 1 and inputs[1] is not None:
            self.complete_conv(type, self.editor.values[inputs[1]].type, attrs)
        schema = self.setting.schemas.get(op, self.version(op))
        if schema is None or len(inputs) >= schema.min_inputs or not isinstance(type, TensorType):
            self.complete_mean(plain, op, inputs, attrs, rank)
            return
        if plain == "Reshape" and type.shape:
            lead = type.shape[0]
            inputs.append(self.editor.add_const(np.asarray([lead if isinstance(lead, int) else 0, -1], np.int64)))
        elif plain == "Unsqueeze":
            inputs.append(self.editor.add_const(np.asarray([0], np.int64)))

    def complete_conv(self, x: ValueType | None, weight: ValueType, attrs: dict[str, Attr]) -> None:
        """A convolution whose attributes do not matter keeps the size of the picture, so that sums fit."""
        if not isinstance(x, TensorType) or not isinstance(weight, TensorType) or not x.shape or not weight.shape:
            return
        channels, each = x.shape[1], weight.shape[1]
        if isinstance(channels, int) and isinstance(each, int) and each and channels != each:
            attrs["group"] = channels // each
        if weight.shape[2:] != (1, 1):
            attrs["auto_pad"] = "SAME_UPPER"

    def complete_mean(
        self, plain: str, op: str, inputs: list[int | None], attrs: dict[str, Attr], rank: int
    ) -> None:
        if plain == "ReduceMean" and rank == 4 and len(inputs) == 1 and not attrs:
            self.put(op, "axes", (2, 3), inputs, attrs)
        elif plain == "Squeeze" and rank == 4 and len(inputs) == 1 and not attrs:
            self.put(op, "axes", (2, 3), inputs, attrs)

    # ------------------------------------------------------------ nodes
    def node(
        self, op: str, inputs: Sequence[int | None], attrs: Mapping[str, Attr], n_outputs: int
    ) -> list[int | None]:
        schema = self.setting.schemas.get(op, self.version(op))
        if schema is not None:
            required = [param for param in schema.inputs if param.kind is ParamKind.REQUIRED]
            if any(place >= len(inputs) or inputs[place] is None for place in range(len(required))) and not (
                _is_optional_before(schema.inputs)
            ):
                raise Unbuildable(f"{op} lacks an input")
        node = self.editor.add_node(op, inputs, attrs=attrs, n_outputs=n_outputs, name=f"n{self.editor.fresh_id()}")
        self.type(node)
        return list(node.outputs)

    def type(self, node: Node) -> None:
        types = [None if value is None else self.editor.values[value].type for value in node.inputs]
        consts: list[Const | None] = [None if value is None else self.editor.consts.get(value) for value in node.inputs]
        try:
            found = self.setting.infer(node, types, consts)
        except GerulesError as error:
            raise Unbuildable(f"{node.op}: {error.diagnostics[0].message}") from None
        for value, type in zip(node.outputs, found, strict=False):
            if value is not None:
                self.editor.values[value] = GraphValue(value, f"v{value}", type)

    def dtype_of(self, value: int | None) -> DType:
        type = self.editor.values[value].type if value is not None else None
        return type.dtype if isinstance(type, TensorType) else DType.F32


def _is_optional_before(params: Sequence[object]) -> bool:
    """Whether an optional parameter stands before a required one, as the bias before a residual does."""
    kinds = [getattr(param, "kind", None) for param in params]
    return ParamKind.OPTIONAL in kinds and ParamKind.REQUIRED in kinds[kinds.index(ParamKind.OPTIONAL) :]


def _static(item: GivenValue) -> tuple[DType, tuple[int, ...]]:
    type = item.type
    if type is None or type.dtypes is None or len(type.dtypes) != 1 or type.dims is None:
        raise Unbuildable(f"{item.name.name} needs an element type and a shape")
    sizes = [dim.size for dim in type.dims if isinstance(dim, DimSize)]
    if len(sizes) != len(type.dims):
        raise Unbuildable(f"the shape of {item.name.name} is not static")
    return next(iter(type.dtypes)), tuple(sizes)
