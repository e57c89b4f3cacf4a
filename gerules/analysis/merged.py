"""Graphs that two rules match at one node: unified patterns, written as a rule and built from their tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Final

from gerules.analysis.unify import Unifier, together
from gerules.analysis.variants import TooMany, Variant
from gerules.dsl.expressions import Ident, Ref, walk
from gerules.dsl.syntax import (
    AbsentAttr,
    AnyInputs,
    AttrArg,
    AttrPattern,
    BuildLine,
    BuildRef,
    CallPattern,
    CaptureAttr,
    GivenAttr,
    GivenValue,
    ListAttr,
    LiteralAttr,
    MatchLine,
    NonePattern,
    NumberPattern,
    OneOfAttr,
    ParamAttr,
    Pattern,
    PlainOp,
    RestAttrs,
    Rule,
    RuleTest,
    Target,
    ValuePattern,
)
from gerules.dsl.tree import RuleError
from gerules.ir import Graph
from gerules.ops import Schemas
from gerules.report.rule_bench import Bench, Place, seed_of
from gerules.report.rule_graphs import Instance, instances
from gerules.report.rule_inputs import Unbuildable

_MOST_WAYS: Final = 6
_MOST_TESTS: Final = 3
_FIXED: Final = (LiteralAttr, ListAttr, OneOfAttr, ParamAttr, AbsentAttr)


@dataclass(frozen=True, slots=True)
class Reading:
    """A variant of a rule's pattern, and the call that it is found by."""

    rule: Rule
    variant: Variant
    root: int


def unifications(one: Reading, two: Reading, schemas: Schemas) -> Iterator[Unifier]:
    """Yield the ways in which the roots of two variants are one node."""
    joint, _, base = together(one.variant, two.variant)
    try:
        yield from islice(Unifier(joint, schemas).ways(one.root, two.root + base), _MOST_WAYS)
    except TooMany:
        return  # what takes so long to compare is not worth a finding


def merged_graphs(one: Reading, two: Reading, place: Place, bench: Bench) -> Iterator[Instance]:
    """Yield graphs that both patterns match at one node, as far as the tests give them values."""
    if any(
        reading.variant.has_group or any(c.times > 1 for c in reading.variant.calls) for reading in (one, two)
    ):
        return
    tests = product(_tests(one.rule), _tests(two.rule), (False, True))
    for unifier, (left, right, is_swapped) in product(
        list(unifications(one, two, bench.schemas)), list(tests)
    ):
        writer = _Writer(unifier, one, two, left, right, is_swapped=is_swapped)
        for is_read in (True, False):
            rule, test = writer.write(is_read=is_read)
            try:
                found = instances(rule, test, place.setting, limit=1, seed=seed_of(one.rule))
                yield from (instance for instance in found if not _is_foldable(instance.graph))
            except (Unbuildable, RuleError):
                continue


def _tests(rule: Rule) -> list[RuleTest]:
    return [test for test in rule.tests if test.expects_match][:_MOST_TESTS]


class _Writer:
    """Writes unified variants as a rule without guards, and a test that gives what its leaves need."""

    def __init__(
        self,
        unifier: Unifier,
        one: Reading,
        two: Reading,
        left: RuleTest,
        right: RuleTest,
        *,
        is_swapped: bool,
    ) -> None:
        self.unifier = unifier
        self.joint = unifier.variant
        self.one = one
        self.base = len(one.variant.calls)
        self.n_left = max([0, *one.variant.producer, *one.variant.leaves])
        self.given = (
            {item.name.name: item for item in left.inputs},
            {item.name.name: item for item in right.inputs},
        )
        self.order = (1, 0) if is_swapped else (0, 1)
        self.test = left
        self.chosen = {item.name.name: item.ops for item in left.choices}
        self.chosen |= {f"{item.name.name}'": item.ops for item in right.choices}
        self.inputs: dict[str, GivenValue | GivenAttr] = {}
        self.same = self._known_attrs()

    def write(self, *, is_read: bool) -> tuple[Rule, RuleTest]:
        """Return the rule and the test. `is_read`: something reads the result, so that it is no output."""
        rule, span = self.one.rule, self.one.rule.span
        self.inputs = {}
        places = [place for place in range(len(self.joint.calls)) if self.unifier.twin(place) == place]
        lines = tuple(self._line(place) for place in places)
        root = self.joint.calls[self.unifier.twin(self.one.root)].outputs[0]
        build = BuildLine(span, (Target(span, self._name(root or 0)),), BuildRef(span, "x"))
        made = replace(
            rule,
            match=lines,
            steps=(),
            gates=(),
            rewrite=(build,) if is_read else (),
            annotations=(),
            tests=(),
        )
        test = replace(self.test, inputs=tuple(self.inputs.values()), choices=(), after=(), escapes=())
        return made, test

    # ------------------------------------------------------------ calls
    def _line(self, place: int) -> MatchLine:
        members = [(other, self.joint.calls[other]) for other in self.unifier.members(place)]
        # Where one of them keeps its operands in order, the other may swap its own.
        call = max((member for _, member in members), key=lambda m: (m.is_ordered, len(m.inputs)))
        span = call.pattern.span
        args: list[Pattern | AnyInputs] = []
        for at, value in enumerate(call.inputs):
            is_cut = any(len(member.inputs) <= at and not member.is_open for _, member in members)
            args.append(NonePattern(span) if value is None or is_cut else self._arg(value, span))
        while args and isinstance(args[-1], NonePattern):
            args.pop()
        attrs: dict[str, AttrPattern] = {}
        rest: RestAttrs | None = None
        for other, member in members:
            side = int(other >= self.base)
            for name, pattern in member.attrs.items():
                attrs[name] = self._attr(side, pattern, attrs.get(name))
            written = member.pattern.rest
            if written is not None and (rest is None or rest.name is None):
                rest = RestAttrs(span, self._give(side, written.name))
        ops = sorted(self.unifier.ops_of(place))
        wanted = [op.name for _, member in members for op in self.chosen.get(member.label, ())]
        op = next((name for name in wanted if name in ops), ops[0])
        pattern = CallPattern(
            span,
            PlainOp(span, op, "ordered"),
            tuple(args),
            tuple(AttrArg(span, Ident(span, name), value) for name, value in attrs.items()),
            rest,
        )
        targets = tuple(Target(span, self._name(value or 0)) for value in call.outputs)
        return MatchLine(span, targets, pattern)

    def _arg(self, value: int, span: object) -> Pattern:
        value = self.unifier.find(value)
        at = self.one.rule.span
        if value in self.joint.producer:
            return ValuePattern(at, self._name(value))
        leaf = self.joint.leaves[value]
        if leaf.number is not None:
            return NumberPattern(at, leaf.number)
        name = self._name(value)
        members = [other for other in self.joint.leaves if self.unifier.find(other) == value]
        needs_const = any(self.joint.leaves[other].is_const for other in members)
        found: list[GivenValue | GivenAttr] = []
        for side in self.order:
            for other in members:
                item = self.given[side].get(self.joint.leaves[other].name)
                if item is not None and int(other > self.n_left) == side:
                    found.append(item)
        usable = [item for item in found if not isinstance(item, GivenValue) or item.type is not None]
        if needs_const:
            usable.sort(key=lambda item: isinstance(item, GivenValue) and not _is_const(item))
        if not usable:
            return (
                NonePattern(at)
                if all(self.joint.leaves[other].is_optional for other in members)
                else (ValuePattern(at, name))
            )
        item = usable[0]
        if isinstance(item, GivenValue):
            item = replace(item, is_optional=False)
        self.inputs[name] = replace(item, name=Ident(at, name))
        return ValuePattern(at, name)

    def _name(self, value: int) -> str:
        return f"v{self.unifier.find(value)}"

    # ------------------------------------------------------------ attributes
    def _known_attrs(self) -> Mapping[tuple[int, str], AttrPattern]:
        """Return what names of attributes must be because the other pattern says so."""
        found: dict[tuple[int, str], AttrPattern] = {}
        for place in range(len(self.joint.calls)):
            if self.unifier.twin(place) != place:
                continue
            members = [(int(p >= self.base), self.joint.calls[p]) for p in self.unifier.members(place)]
            for name in {name for _, member in members for name in member.attrs}:
                here = [(side, member.attrs[name]) for side, member in members if name in member.attrs]
                fixed = next((pattern for _, pattern in here if isinstance(pattern, _FIXED)), None)
                names = [(side, item.name) for side, item in here if isinstance(item, CaptureAttr)]
                for key in names if fixed is not None else names[1:]:
                    target = fixed if fixed is not None else self._captured(names[0])
                    found.setdefault(key, target)
        return found

    def _captured(self, key: tuple[int, str]) -> AttrPattern:
        return CaptureAttr(self.one.rule.span, f"a{key[0]}_{key[1]}")

    def _attr(self, side: int, pattern: AttrPattern, other: AttrPattern | None) -> AttrPattern:
        if other is not None and isinstance(other, _FIXED):
            return other
        if not isinstance(pattern, CaptureAttr):
            return pattern
        known = self.same.get((side, pattern.name))
        if known is not None:
            if isinstance(known, CaptureAttr):
                self._give(0, known.name[3:])
            return known
        name = self._give(side, pattern.name)
        return CaptureAttr(pattern.span, name or "_", pattern.is_optional)

    def _give(self, side: int, name: str | None) -> str | None:
        """Give an attribute what the test of its rule gives it; returns the name that it has here."""
        item = self.given[side].get(name or "")
        if (
            name is None
            or not isinstance(item, GivenAttr)
            or any(isinstance(p, Ref) for p in walk(item.value))
        ):
            return None
        called = f"a{side}_{name}"
        self.inputs[called] = replace(item, name=Ident(item.name.span, called))
        return called


def _is_foldable(graph: Graph) -> bool:
    """Whether some node reads constants only: such nodes are computed before any rule runs."""
    return any(all(v in graph.consts for v in node.reads()) for node in graph.nodes.values() if node.inputs)


def _is_const(item: GivenValue) -> bool:
    return item.type is not None and item.type.is_const
