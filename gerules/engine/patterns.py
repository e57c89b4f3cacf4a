"""Patterns compiled to steps: values, calls, alternatives, named sub-patterns.

Every step gets the value it looks at from a slot and calls the next one, so that a failure anywhere
comes back to the last choice: operand order, alternative, association, length of a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gerules.dsl.expressions import Expr
from gerules.dsl.syntax import (
    ANY,
    Alternatives,
    AnyInputs,
    AnyTargets,
    CallPattern,
    ChainOp,
    Condition,
    MatchLine,
    NamedPattern,
    NonePattern,
    NumberPattern,
    ParamPattern,
    Pattern,
    PatternDef,
    PlainOp,
    RestInputs,
    RestTargets,
    Target,
    ValuePattern,
    VariableOp,
)
from gerules.dsl.tree import RuleError
from gerules.dsl.values import Value
from gerules.engine.binding import Kind, Link, Match, Scope
from gerules.engine.chains import ChainMemory, chain_link
from gerules.engine.keywords import Keywords
from gerules.engine.links import (
    absent,
    attribute,
    attribute_is,
    bind_none,
    bind_result,
    bind_targets,
    branch,
    copy,
    defined,
    guard,
    ignored,
    number,
    optional_value,
    plain_value,
)
from gerules.engine.names import Frame, bound_by_call, declare, names_of, own_names
from gerules.engine.node_step import NodeShape, node_link
from gerules.engine.requirements import LONGEST_CHAIN, MOST_LEAVES, PatternGraph
from gerules.engine.site import Site
from gerules.engine.trees import tree_link
from gerules.engine.value_types import compile_type
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Span, table

_MOST_LINKS: Final = 5_000
"""Steps of one rule; names used in several alternatives are compiled once for each."""


class Evaluator(Protocol):
    """Compiles expressions over the names of a scope."""

    def value(self, expr: Expr, scope: Scope) -> Callable[[Match], Value]:
        """Return what computes an expression for a match. That raises Reject or RuleError."""
        ...

    def condition(self, condition: Condition, scope: Scope) -> Callable[[Match], bool]:
        """Return what says whether a condition holds for a match."""
        ...


class PatternCompiler:
    """Compiles the patterns of one rule. `n_slots` slots are needed in the end."""

    def __init__(self, site: Site, vocabulary: Vocabulary, evaluator: Evaluator) -> None:
        self.site = site
        self.vocabulary = vocabulary
        self.evaluator = evaluator
        self.n_slots = 0
        self._n_links = 0
        self.n_calls = 0
        self.chain_ops: frozenset[str] = frozenset()
        """Operators of the chains in the rule; empty when it has none."""
        self.chain_memory = ChainMemory()
        self.chain_limits: dict[str, int] = {}
        """Most nodes of a chain, by its name, where a guard says so."""

    # ------------------------------------------------------------ names
    def new_slot(self) -> int:
        """Return a slot that no name has."""
        self.n_slots += 1
        return self.n_slots - 1

    # ------------------------------------------------------------ patterns
    def value(self, pattern: Pattern, source: int, frame: Frame, bound: set[str], at: int) -> list[Link]:
        """Compile a pattern for the value in slot `source`.

        Args:
            bound: Names certainly bound before; those certainly bound after are added.
            at: Slot of the node that reads the value; only numbers look at it.
        """
        self._n_links += 1
        if self._n_links > _MOST_LINKS:
            raise RuleError(table.PATTERN_TOO_LARGE, span=pattern.span, limit=_MOST_LINKS)
        match pattern:
            case ValuePattern():
                return self._named(pattern, source, frame, bound)
            case CallPattern():
                return self.call(pattern, source, frame, bound)
            case NumberPattern(value=wanted, tolerance=tolerance):
                return [number(wanted, tolerance, source, at, self.site, self.n_calls, pattern.span)]
            case ParamPattern(name=name, tolerance=tolerance):
                return [
                    number(
                        self.vocabulary.number(name),
                        tolerance,
                        source,
                        at,
                        self.site,
                        self.n_calls,
                        pattern.span,
                    )
                ]
            case NonePattern():
                return [absent(source)]
            case Alternatives():
                return [self._alternatives(pattern, source, frame, bound, at)]
            case NamedPattern(pattern=inside, name=name):
                bound.add(name.name)
                links = [self._bind_or_compare(frame.scope.slots[name.name], source, pattern.span)]
                return links + self.value(inside, source, frame, bound, at)

    def _named(self, pattern: ValuePattern, source: int, frame: Frame, bound: set[str]) -> list[Link]:
        span = pattern.span
        checks = (
            [compile_type(pattern.type, frame.scope.slots, self.site)] if pattern.type is not None else []
        )
        name = pattern.name
        if name == ANY:
            return [ignored(source, pattern.is_optional, checks, self.n_calls, span)]
        slot = frame.scope.slots[name]
        definition = frame.graph.definitions.get(name)
        if definition is not None and name not in bound and name not in frame.expanding:
            line, place = definition
            frame.expanding.add(name)
            inner_bound = bound | {name}
            links = self.definition(line, place, source, frame, inner_bound)
            frame.expanding.discard(name)
            bound |= inner_bound
            return [defined(slot, source, links, checks, self.site)]
        is_known = name in bound
        bound.add(name)
        if pattern.is_optional:
            return [optional_value(slot, source, checks, self.site, self.n_calls, span)]
        if is_known and not checks:
            return [self._bind_or_compare(slot, source, span)]
        return [plain_value(slot, source, checks, self.site, self.n_calls, span)]

    def root(self, line: MatchLine, source: int, frame: Frame, bound: set[str]) -> list[Link]:
        """Compile a line that nothing refers to, for the value in slot `source`."""
        links: list[Link] = []
        target = line.targets[0]
        if isinstance(target, Target) and target.name != ANY:
            links.append(self._bind_or_compare(frame.scope.slots[target.name], source, target.span))
        return links + self.definition(line, 0, source, frame, bound)

    def definition(
        self, line: MatchLine, place: int, source: int, frame: Frame, bound: set[str]
    ) -> list[Link]:
        """Compile the line that defines the value in slot `source` as its target number `place`."""
        links: list[Link] = []
        target = line.targets[place]
        if isinstance(target, Target):
            if target.type is not None:
                check = compile_type(target.type, frame.scope.slots, self.site)
                links.append(ignored(source, False, [check], self.n_calls, target.span))
            bound.add(target.name)
        has_rest = isinstance(line.targets[-1], RestTargets)
        if isinstance(line.pattern, CallPattern) and (has_rest or len(line.targets) > 1):
            return links + self.call(line.pattern, source, frame, bound, line.targets, place)
        return links + self.value(line.pattern, source, frame, bound, -1)

    def _bind_or_compare(self, slot: int, source: int, span: Span) -> Link:
        return plain_value(slot, source, [], self.site, self.n_calls, span, needs_value=False)

    def _alternatives(
        self, pattern: Alternatives, source: int, frame: Frame, bound: set[str], at: int
    ) -> Link:
        branches: list[list[Link]] = []
        after: list[set[str]] = []
        for choice in pattern.choices:
            inner = set(bound)
            links = self.value(choice.pattern, source, frame, inner, at)
            for binding in choice.bindings:
                compute = self.evaluator.value(binding.value, frame.scope)
                slot = frame.scope.slots[binding.name.name]
                links.append(bind_result(slot, compute, self.n_calls, binding.value.span))
                inner.add(binding.name.name)
            branches.append(links)
            after.append(inner)
        bound |= _common(after)
        return branch(branches)

    # ------------------------------------------------------------ calls
    def call(
        self,
        call: CallPattern,
        source: int,
        frame: Frame,
        bound: set[str],
        targets: Sequence[Target | RestTargets | AnyTargets] = (),
        place: int = 0,
    ) -> list[Link]:
        """Compile a call for the value in slot `source`, output number `place` of a node."""
        op = call.op
        if isinstance(op, ChainOp):
            return self._chain(call, op, source, frame, bound)
        if op.is_optional:
            return [self._optional_call(call, source, frame, bound, targets, place)]
        if isinstance(op, PlainOp) and op.name in self.vocabulary.patterns:
            return [self._named_pattern(call, op.name, source, frame, bound, targets)]
        if isinstance(op, PlainOp) and op.order == "any":
            return self._tree(call, op, source, frame, bound)
        self.n_calls += 1
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        rest = call.args[-1] if len(args) < len(call.args) else None
        node_slot = self.new_slot()
        slots = [self.new_slot() for _ in args]
        is_ordered = isinstance(op, PlainOp) and op.order == "ordered"
        shape = NodeShape(
            ops=self.vocabulary.ops(op.ops) if isinstance(op, VariableOp) else frozenset([op.name]),
            source=source,
            place=place,
            node_slot=node_slot,
            slots=tuple(slots),
            filters=tuple(frame.graph.ops_of(arg) for arg in args),
            spans=tuple(frame.graph.resolve(arg).span for arg in args),
            may_commute=rest is None and not is_ordered,
            is_open=rest is not None,
            rest_slot=frame.scope.slots[rest.name] if isinstance(rest, RestInputs) else None,
            op_slot=frame.scope.slots[op.name] if isinstance(op, VariableOp) and op.name != ANY else None,
            bind_outputs=bind_targets(targets, frame.scope) if targets else None,
            depth=self.n_calls - 1,
            span=call.span,
        )
        link = node_link(
            shape, self.site, Keywords(self.site, call, frame.scope.slots, self.vocabulary.settings)
        )
        bound |= bound_by_call(call, targets)
        return [link, *self.arguments(args, slots, frame, bound, node_slot)]

    def arguments(
        self, args: Sequence[Pattern], slots: Sequence[int], frame: Frame, bound: set[str], node_slot: int
    ) -> list[Link]:
        """Compile the arguments of a call, cheap tests before deep ones."""
        links: list[Link] = []
        for place in sorted(range(len(args)), key=lambda place: _effort(args[place], frame, bound)):
            links += self.value(args[place], slots[place], frame, bound, node_slot)
        return links

    def _tree(self, call: CallPattern, op: PlainOp, source: int, frame: Frame, bound: set[str]) -> list[Link]:
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        if len(args) > MOST_LEAVES:
            raise RuleError(table.TOO_MANY_LEAVES, span=call.span, op=op.name, n=len(args), limit=MOST_LEAVES)
        self.n_calls += 1
        node_slot, slots = self.new_slot(), [self.new_slot() for _ in args]
        filters = [frame.graph.ops_of(arg) for arg in args]
        link = tree_link(self.site, op.name, source, node_slot, slots, filters, self.n_calls - 1, call.span)
        return [link, *self.arguments(args, slots, frame, bound, node_slot)]

    def _chain(
        self, call: CallPattern, op: ChainOp, source: int, frame: Frame, bound: set[str]
    ) -> list[Link]:
        self.n_calls += 1
        node_slot, first_slot = self.new_slot(), self.new_slot()
        name_slot = frame.scope.slots[op.name] if op.name != ANY else None
        bound |= own_names(call)
        most = op.most if op.most is not None else LONGEST_CHAIN
        most = min(most, self.chain_limits.get(op.name, most))
        ops = self.vocabulary.ops(op.ops)
        links = [
            chain_link(
                self.site, ops, max(1, op.least), most, source, node_slot, first_slot, name_slot,
                self.chain_memory, self.n_calls - 1, call.span,
            )
        ]  # fmt: skip
        self.chain_ops |= ops
        first = call.args[0] if call.args else None
        if first is not None and not isinstance(first, RestInputs | AnyInputs):
            links += self.value(first, first_slot, frame, bound, node_slot)
        return links

    def _optional_call(
        self,
        call: CallPattern,
        source: int,
        frame: Frame,
        bound: set[str],
        targets: Sequence[Target | RestTargets | AnyTargets],
        place: int,
    ) -> Link:
        op = call.op
        assert not isinstance(op, ChainOp)
        plain = (
            VariableOp(op.span, op.name, op.ops)
            if isinstance(op, VariableOp)
            else PlainOp(op.span, op.name, op.order)
        )
        present_bound, absent_bound = set(bound), set(bound)
        present = self.call(
            CallPattern(call.span, plain, call.args, call.attrs, call.rest),
            source,
            frame,
            present_bound,
            targets,
            place,
        )
        first = call.args[0]
        assert not isinstance(first, RestInputs | AnyInputs)
        missing = self.value(first, source, frame, absent_bound, -1)
        names = names_of(call) - names_of(first)
        missing.append(
            bind_none(sorted(frame.scope.slots[name] for name in names if name in frame.scope.slots))
        )
        bound |= present_bound & (absent_bound | names)
        return branch([present, missing])

    def _named_pattern(
        self,
        call: CallPattern,
        name: str,
        source: int,
        frame: Frame,
        bound: set[str],
        targets: Sequence[Target | RestTargets | AnyTargets],
    ) -> Link:
        branches: list[list[Link]] = []
        after: list[set[str]] = []
        for clause in self.vocabulary.patterns[name]:
            inner = set(bound)
            branches.append(self._clause(clause, call, source, frame, inner, targets))
            after.append(inner)
        bound |= _common(after)
        return branch(branches)

    def _clause(
        self,
        clause: PatternDef,
        call: CallPattern,
        source: int,
        frame: Frame,
        bound: set[str],
        targets: Sequence[Target | RestTargets | AnyTargets],
    ) -> list[Link]:
        local = Frame(PatternGraph(clause.match, self.vocabulary))
        attr_places = self.vocabulary.attr_places(clause.name.name)
        for place, formal in enumerate(clause.formals):
            kind = Kind.ATTR if place in attr_places else Kind.VALUE
            local.slot(self.new_slot, formal.name.name, kind)
        declare(local, self.new_slot)
        links: list[Link] = []
        local_bound: set[str] = set()
        given = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        pairs = list(zip(clause.formals, given, strict=False))
        for formal, arg in pairs:
            if isinstance(arg, ValuePattern) and arg.name in bound:
                links.append(copy(frame.scope.slots[arg.name], local.scope.slots[formal.name.name]))
                local_bound.add(formal.name.name)
        result = clause.results[0]
        links += self.value(ValuePattern(result.span, result.name), source, local, local_bound, -1)
        for condition in clause.guards:
            links.append(
                guard(self.evaluator.condition(condition, local.scope), self.n_calls, condition.span)
            )
        links.append(bind_none([local.scope.slots[formal.name.name] for formal in clause.formals]))
        for place, (formal, arg) in enumerate(pairs):
            source = local.scope.slots[formal.name.name]
            if place in attr_places:
                links += self._attr_argument(arg, source, frame, bound)
            else:
                links += self.value(arg, source, frame, bound, -1)
        for target, name in zip(targets[1:], clause.results[1:], strict=False):
            if isinstance(target, Target) and target.name != ANY:
                outer = ValuePattern(target.span, target.name, target.type)
                bound.add(target.name)
                links += self.value(outer, local.scope.slots[name.name], frame, bound, -1)
        return links

    def _attr_argument(self, arg: Pattern, source: int, frame: Frame, bound: set[str]) -> list[Link]:
        """Compile the argument for a formal that stands for an attribute: a name, a number or none."""
        match arg:
            case ValuePattern(name=name, type=None):
                if name == ANY:
                    return []
                bound.add(name)
                return [attribute(frame.scope.slots[name], source)]
            case NumberPattern(value=wanted):
                return [attribute_is(wanted, source, self.n_calls, arg.span)]
            case ParamPattern(name=name):
                return [attribute_is(self.vocabulary.settings.get(name), source, self.n_calls, arg.span)]
            case NonePattern():
                return [absent(source)]
            case _:
                raise RuleError(table.NO_ATTRIBUTE_HERE, span=arg.span)


def _common(sets: Sequence[set[str]]) -> set[str]:
    """The names that are in all of the sets."""
    return {name for name in sets[0] if all(name in other for other in sets)} if sets else set()


def _effort(arg: Pattern, frame: Frame, bound: set[str]) -> int:
    match arg:
        case NumberPattern() | ParamPattern() | NonePattern():
            return 0
        case ValuePattern(name=name) if name in bound:
            return 1
        case ValuePattern(name=name) if name not in frame.graph.definitions:
            return 2
        case CallPattern():
            return 3
        case _:
            return 4
