"""A graph from a rule's own pattern and one of its `test:` blocks, so that the rule can be run on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gerules.dsl import syntax as s
from gerules.dsl.book import RuleBook
from gerules.dsl.expr import Scope, evaluate, view_of
from gerules.engine.define import define_extra
from gerules.engine.evaluation import RuleContext
from gerules.engine.keywords import value_of_const
from gerules.engine.requirements import PatternGraph
from gerules.engine.vocabulary import Vocabulary
from gerules.ir import Const, DType, Graph
from gerules.ir.elements import equal_elements, listed_elements, random_elements
from gerules.ops import Schemas
from gerules.ops.inference import ShapeError
from tests.engine.graphs import Maker

MOST_INSTANCES = 12
BINARY = frozenset(["Add", "Mul", "Sub", "Div", "RealDiv", "Max", "Min", "Maximum", "Minimum"])


class UnfitError(Exception):
    """This reading of the pattern cannot be built from what the test gives."""


def elements_of(given: s.Elements, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """The elements that a test writes out."""
    match given.kind:
        case "list":
            return listed_elements(given.values, shape, dtype)
        case "fill":
            return equal_elements(given.values[0], shape, dtype)
        case "random":
            return random_elements(int(given.values[0]), shape, dtype)


class Instance:
    """Builds one reading of a pattern; `picks` says which alternative, optional part or clause."""

    def __init__(
        self,
        book: RuleBook,
        rule: s.Rule,
        test: s.RuleTest,
        scope: Scope,
        schemas: Schemas,
        opset: int,
        picks: Sequence[int],
    ) -> None:
        self.rule, self.test, self.scope, self.schemas, self.opset = rule, test, scope, schemas, opset
        self.vocabulary = Vocabulary(book.op_sets, book.patterns, scope.params)
        context = RuleContext(scope, book.patterns)
        extra = define_extra(book.defines, schemas=schemas, context=context)
        self.maker = Maker(opset, schemas, extra)
        self.picks = list(picks)
        self.asked: list[int] = []
        self.feeds: dict[str, np.ndarray] = {}
        self.given: dict[str, Any] = {}
        self.values: dict[str, int | None] = {}
        self.choices = {c.name.name: [op.name for op in c.ops] for c in test.choices}
        self.rng = np.random.default_rng(7)
        self._give()

    def _give(self) -> None:
        names: dict[str, Any] = {}
        for item in self.test.inputs:
            if isinstance(item, s.GivenAttr):
                names[item.name.name] = self.given[item.name.name] = evaluate(
                    item.value, self.scope.with_names(names)
                )
                continue
            name = item.name.name
            if item.type is None or (item.is_optional and self.pick(2)):
                self.values[name] = None
                continue
            (dtype,) = item.type.dtypes or {DType.F32}
            # A dimension known by name has some size when it runs.
            shape = tuple(getattr(dim, "size", 3) for dim in item.type.dims or ())
            low, high = (item.low, item.high) if item.low is not None else (-1.0, 1.0)
            if item.elements is not None:
                array = elements_of(item.elements, shape, dtype)
            elif dtype.is_float:
                array = self.rng.uniform(low, high, shape)
            else:
                low, high = (item.low, item.high) if item.low is not None else (0, 9)
                array = self.rng.integers(int(low), int(high) + 1, shape)
            array = np.asarray(array).astype(dtype.numpy)
            if item.type.is_const:
                self.values[name] = self.maker.editor.add_const(array, name)
                names[name] = view_of(array, name)
            else:
                self.values[name] = self.maker.input(name, *shape, dtype=dtype)
                self.feeds[name] = array

    def pick(self, n: int) -> int:
        place = len(self.asked)
        self.asked.append(n)
        return self.picks[place] if place < len(self.picks) else 0

    def graph(self) -> Graph:
        frame = PatternGraph(self.rule.match, self.vocabulary)
        outputs: list[int] = []
        group = frame.group
        for _ in range(3 if group is not None else 1):
            for line in frame.lines:
                outputs += self._line(line, frame, self.values)
            if group is not None:  # the next member gets weights of its own
                for line in group.lines:
                    for target in line.targets:
                        self.values.pop(target.name, None)
                for item in self.test.inputs:
                    if isinstance(item, s.GivenValue) and item.name.name not in {i.name for i in group.same}:
                        self._again(item)
        used = {v for node in self.maker.editor.nodes.values() for v in node.reads()}
        escapes = [self.values[n.name] for n in self.test.escapes]
        wanted = [v for v in dict.fromkeys(outputs) if v not in used]
        graph_inputs = set(self.maker.editor.inputs) | set(self.maker.editor.consts)
        extra = [self.maker.op("Identity", v) for v in escapes if v is not None and v not in graph_inputs]
        # Behind an Identity, so that the rule is free to return an input.
        returns = any(isinstance(line.build, s.BuildRef) for line in self.rule.rewrite)
        ends = [self.maker.op("Identity", v) if returns else v for v in wanted if v not in graph_inputs]
        return self.maker.graph(*ends, *extra)

    def _again(self, item: s.GivenValue) -> None:
        old = self.values[item.name.name]
        const = self.maker.editor.consts.get(old)
        if const is not None:
            self.values[item.name.name] = self.maker.editor.add_const(const.array + 1)
        elif old is not None:
            name = f"{item.name.name}_{len(self.feeds)}"
            type = self.maker.editor.values[old].type
            self.values[item.name.name] = self.maker.input(name, *type.shape, dtype=type.dtype)
            self.feeds[name] = self.feeds[item.name.name]

    # ------------------------------------------------------------ patterns
    def _line(self, line: s.MatchLine, frame: PatternGraph, names: dict[str, int | None]) -> list[int]:
        wanted = [t.name for t in line.targets if isinstance(t, s.Target)]
        # A list of outputs stands for two.
        wanted += [f"{t.name} {i}" for t in line.targets if isinstance(t, s.RestTargets) for i in range(2)]
        if all(name in names for name in wanted):
            return [names[name] for name in wanted if names[name] is not None]
        if len(wanted) > 1:
            made = self._call(line.pattern, frame, names, len(wanted))
            names.update(zip(wanted, made, strict=True))
        else:
            names[wanted[0]] = self._emit(line.pattern, frame, names)
        return [names[name] for name in wanted if names[name] is not None]

    def _emit(self, pattern: s.Pattern, frame: PatternGraph, names: dict[str, int | None]) -> int | None:
        match pattern:
            case s.ValuePattern(name=name):
                if name not in names:
                    if name not in frame.definitions:
                        raise UnfitError(name)
                    self._line(frame.definitions[name][0], frame, names)
                return names[name]
            case s.NumberPattern(value=value):
                return self.maker.const(value)
            case s.ParamPattern(name=name):
                return self.maker.const(self.scope.params[name])
            case s.NonePattern():
                return None
            case s.NamedPattern(pattern=inside, name=name):
                names[name.name] = self._emit(inside, frame, names)
                return names[name.name]
            case s.Alternatives(choices=choices):
                return self._emit(choices[self.pick(len(choices))].pattern, frame, names)
            case s.CallPattern():
                return self._call(pattern, frame, names, 1)[0]

    def _call(
        self, call: s.CallPattern, frame: PatternGraph, names: dict[str, int | None], n: int
    ) -> Sequence[int]:
        op = call.op
        args = [a for a in call.args if not isinstance(a, s.RestInputs | s.AnyInputs)]
        if not isinstance(op, s.ChainOp) and op.is_optional and self._is_absent(args):
            return [self._emit(args[0], frame, names)]
        if isinstance(op, s.PlainOp) and op.name in self.vocabulary.patterns:
            clauses = self.vocabulary.patterns[op.name]
            clause = clauses[self.pick(len(clauses))]
            local = {
                f.name.name: self._emit(a, frame, names) for f, a in zip(clause.formals, args, strict=False)
            }
            inner = PatternGraph(clause.match, self.vocabulary)
            return [self._emit(s.ValuePattern(clause.span, clause.results[0].name), inner, local)]
        inputs = [self._emit(a, frame, names) for a in args]
        if isinstance(op, s.ChainOp):
            value = inputs[0]
            for name in self.choices[op.name]:
                others = [self.maker.const(0.5)] if name.removeprefix("ge::") in BINARY else []
                value = self.maker.op(name, value, *others)
            return [value]
        if isinstance(op, s.PlainOp):
            name = op.name
        else:
            options = self.choices.get(op.name) or sorted(self.vocabulary.ops(op.ops))
            name = options[0]
        if isinstance(op, s.PlainOp) and op.order == "any":
            order = inputs if self.pick(2) == 0 else inputs[::-1]
            value = order[0]
            for other in order[1:]:
                value = self.maker.op(name, value, other)
            return [value]
        schema = self.schemas.get(name, self.opset)
        if schema is not None and schema.is_commutative and len(inputs) == 2 and self.pick(2):
            inputs = inputs[::-1]
        attrs = self._attrs(call, name, inputs)
        made = self.maker.op(name, *inputs, n=n, **attrs)
        return [made] if n == 1 else made

    def _is_absent(self, args: Sequence[s.Pattern]) -> bool:
        for arg in args[1:]:
            if isinstance(arg, s.ValuePattern) and arg.name in self.values:
                return self.values[arg.name] is None
            if isinstance(arg, s.ValuePattern):
                return True
        return bool(self.pick(2))

    def _attrs(self, call: s.CallPattern, op: str, inputs: list[int | None]) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        if call.rest is not None and call.rest.name in self.given:
            attrs |= self.given[call.rest.name]
        ignored = self.given.get(s.ANY, {})
        if call.rest is not None and call.rest.name is None:
            known = getattr(self.schemas.get(op, self.opset), "attrs", {})
            attrs |= {name: value for name, value in ignored.items() if name in known}
        for arg in call.attrs:
            is_ignored = isinstance(arg.pattern, s.CaptureAttr) and arg.pattern.name == s.ANY
            value = ignored.get(arg.name.name) if is_ignored else self._value(arg.pattern)
            if value is None and arg.name.name == "to":
                value = self.maker.editor.values[inputs[0]].type.dtype
            if value is None:
                continue
            keyword = self.schemas.attr_or_input(op, arg.name.name, self.opset)
            if keyword is None:
                raise UnfitError(arg.name.name)
            if keyword.is_attr:
                attrs[keyword.name] = value
                continue
            inputs += [None] * (keyword.input_index + 1 - len(inputs))
            param = self.schemas.get(op, self.opset).inputs[keyword.input_index]
            first = self.maker.editor.values[inputs[0]].type
            is_whole = param.dtypes is not None and DType.F32 not in param.dtypes
            dtype = (np.bool_ if isinstance(value, bool) else np.int64) if is_whole else first.dtype.numpy
            inputs[keyword.input_index] = self.maker.editor.add_const(np.asarray(value, dtype))
        return attrs

    def _value(self, pattern: s.AttrPattern) -> Any:
        match pattern:
            case s.CaptureAttr(name=name):
                found = self.given.get(name)
                return value_of_const(Const(found)) if isinstance(found, np.ndarray) else found
            case s.LiteralAttr(value=value):
                return value
            case s.ListAttr(values=values):
                return tuple(values)
            case s.OneOfAttr(values=values):
                return values[0]
            case s.ParamAttr(name=name):
                return self.scope.params[name]
            case _:
                return None


def opset_of(rule: s.Rule, schemas: Schemas) -> int:
    """The version nearest to 20 at which a rule exists."""
    meets = {
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
        "==": int.__eq__,
        "!=": int.__ne__,
    }
    fitting = [v for v in range(7, schemas.latest_opset + 1) if all(meets[op](v, n) for op, n in rule.opsets)]
    return min(fitting, key=lambda v: abs(v - 20))


def instances(
    book: RuleBook, rule: s.Rule, test: s.RuleTest, scope: Scope, schemas: Schemas, opset: int
) -> Iterator[tuple[Graph, Mapping[str, np.ndarray]]]:
    """Yield graphs for the readings of a pattern, at most `MOST_INSTANCES`."""
    seen: set[tuple[int, ...]] = set()
    pending: list[tuple[int, ...]] = [()]
    while pending and len(seen) < MOST_INSTANCES:
        picks = pending.pop(0)
        if picks in seen:
            continue
        seen.add(picks)
        made = Instance(book, rule, test, scope, schemas, opset, picks)
        try:
            graph = made.graph()
        except (UnfitError, ShapeError):
            graph = None
        for place in range(len(picks), len(made.asked)):
            for choice in range(1, made.asked[place]):
                pending.append((*picks, *(0 for _ in range(place - len(picks))), choice))
        if graph is not None:
            yield graph, made.feeds
