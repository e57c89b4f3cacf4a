"""Patterns compiled to steps: values, calls, alternatives, named sub-patterns.

Every step gets the value it looks at from a slot and calls the next one, so that a failure anywhere
comes back to the last choice: operand order, alternative, association, length of a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, Protocol

from gerules.dsl.expressions import Expr
from gerules.dsl.syntax import (
    ANY,
    Alternatives,
    AnyInputs,
    AnyTargets,
    CallPattern,
    CaptureAttr,
    ChainOp,
    Condition,
    DimName,
    DimSeq,
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
    TypePattern,
    ValuePattern,
    VariableOp,
    patterns_in,
)
from gerules.dsl.tree import RuleError
from gerules.dsl.values import Value
from gerules.engine.binding import UNBOUND, Kind, Link, Match, Scope, Step, chain_up
from gerules.engine.chains import ChainMemory, chain_link
from gerules.engine.keywords import Keywords
from gerules.engine.requirements import LONGEST_CHAIN, MOST_LEAVES, PatternGraph
from gerules.engine.site import Site
from gerules.engine.trees import tree_link
from gerules.engine.value_types import compile_type, is_number
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Span, table
from gerules.ir import Node

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


@dataclass(slots=True)
class Frame:
    """The lines that a pattern's names belong to: a rule's, or those of one clause of a named pattern."""

    graph: PatternGraph
    scope: Scope = field(default_factory=Scope)
    expanding: set[str] = field(default_factory=set[str])


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

    def slot(self, frame: Frame, name: str, kind: Kind) -> int:
        """Return the slot of a name, given to it when first seen."""
        found = frame.scope.slots.get(name)
        if found is None:
            found = frame.scope.slots[name] = self.new_slot()
            frame.scope.kinds[name] = kind
        return found

    def declare(self, frame: Frame) -> None:
        """Give slots to every name that the lines of a frame bind."""
        for line in frame.graph.lines:
            for target in line.targets:
                if isinstance(target, Target) and target.name != ANY:
                    self.slot(frame, target.name, Kind.VALUE)
                    self._declare_type(target.type, frame)
                elif isinstance(target, RestTargets):
                    self.slot(frame, target.name, Kind.VALUES)
            for pattern in patterns_in(line.pattern):
                self._declare_one(pattern, frame)

    def _declare_one(self, pattern: Pattern, frame: Frame) -> None:
        match pattern:
            case ValuePattern(name=name, type=type):
                if name != ANY:
                    self.slot(frame, name, Kind.VALUE)
                self._declare_type(type, frame)
            case NamedPattern(name=name):
                self.slot(frame, name.name, Kind.VALUE)
            case Alternatives(choices=choices):
                for choice in choices:
                    for binding in choice.bindings:
                        self.slot(frame, binding.name.name, Kind.RESULT)
            case CallPattern():
                self._declare_call(pattern, frame)
            case _:
                pass

    def _declare_call(self, call: CallPattern, frame: Frame) -> None:
        if not isinstance(call.op, PlainOp) and call.op.name != ANY:
            self.slot(frame, call.op.name, Kind.CHAIN if isinstance(call.op, ChainOp) else Kind.OP)
        for arg in call.args:
            if isinstance(arg, RestInputs):
                self.slot(frame, arg.name, Kind.VALUES)
        for attr in call.attrs:
            if isinstance(attr.pattern, CaptureAttr) and attr.pattern.name != ANY:
                self.slot(frame, attr.pattern.name, Kind.ATTR)
        if call.rest is not None and call.rest.name is not None:
            self.slot(frame, call.rest.name, Kind.ATTRS)

    def _declare_type(self, type: TypePattern | None, frame: Frame) -> None:
        if type is None:
            return
        if type.dtype_name not in (None, ANY):
            self.slot(frame, type.dtype_name, Kind.DTYPE)
        for dim in type.dims or ():
            if isinstance(dim, DimName) and dim.name != ANY:
                self.slot(frame, dim.name, Kind.DIM)
            elif isinstance(dim, DimSeq) and dim.name != ANY:
                self.slot(frame, dim.name, Kind.DIMS)

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
            case NumberPattern(value=number, tolerance=tolerance):
                return [self._number(number, tolerance, source, at, pattern.span)]
            case ParamPattern(name=name, tolerance=tolerance):
                return [self._number(self.vocabulary.number(name), tolerance, source, at, pattern.span)]
            case NonePattern():
                return [_absent(source)]
            case Alternatives():
                return [self._alternatives(pattern, source, frame, bound, at)]
            case NamedPattern(pattern=inside, name=name):
                bound.add(name.name)
                links = [self._bind_or_compare(frame.scope.slots[name.name], source, pattern.span)]
                return links + self.value(inside, source, frame, bound, at)

    def _named(self, pattern: ValuePattern, source: int, frame: Frame, bound: set[str]) -> list[Link]:
        span = pattern.span
        checks = [compile_type(pattern.type, frame.scope.slots, self.site)] if pattern.type is not None else []
        name = pattern.name
        if name == ANY:
            return [_ignored(source, pattern.is_optional, checks, self.n_calls, span)]
        slot = frame.scope.slots[name]
        definition = frame.graph.definitions.get(name)
        if definition is not None and name not in bound and name not in frame.expanding:
            line, place = definition
            frame.expanding.add(name)
            inner_bound = bound | {name}
            links = self.definition(line, place, source, frame, inner_bound)
            frame.expanding.discard(name)
            bound |= inner_bound
            return [self._defined(slot, source, links, checks)]
        is_known = name in bound
        bound.add(name)
        if pattern.is_optional:
            return [_optional_value(slot, source, checks, self.site, self.n_calls, span)]
        if is_known and not checks:
            return [self._bind_or_compare(slot, source, span)]
        return [_plain_value(slot, source, checks, self.site, self.n_calls, span)]

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
                links.append(_ignored(source, False, [check], self.n_calls, target.span))
            bound.add(target.name)
        if isinstance(line.pattern, CallPattern) and len(line.targets) > 1:
            return links + self.call(line.pattern, source, frame, bound, line.targets, place)
        return links + self.value(line.pattern, source, frame, bound, -1)

    def _defined(self, slot: int, source: int, links: list[Link], checks: Sequence[Callable[[Match, int], bool]]) -> Link:
        """A name with a definition: compared when something else bound it, else bound and followed."""
        site = self.site

        def link(nxt: Step) -> Step:
            follow = chain_up(links, nxt)

            def step(m: Match) -> bool:
                found = m.slots[source]
                known = m.slots[slot]
                if known is not UNBOUND:
                    return _agrees(known, found, site) and nxt(m)
                mark = len(m.trail)
                m.bind(slot, found)
                if isinstance(found, int) and not all(check(m, found) for check in checks):
                    m.undo(mark)
                    return False
                if follow(m):
                    return True
                m.undo(mark)
                return False

            return step

        return link

    def _bind_or_compare(self, slot: int, source: int, span: Span) -> Link:
        return _plain_value(slot, source, [], self.site, self.n_calls, span, needs_value=False)

    def _number(self, number: float | None, tolerance: float | None, source: int, at: int, span: Span) -> Link:
        site, depth = self.site, self.n_calls

        def link(nxt: Step) -> Step:
            def step(m: Match) -> bool:
                value = m.value(source)
                const = site.const(value)
                if const is None or number is None or not is_number(const, number, tolerance):
                    return m.miss(depth, span, value)
                if const.array.ndim and not _keeps_rank(m, at, value, const.array.ndim, site):
                    return m.miss(depth, span, value)
                return nxt(m)

            return step

        return link

    def _alternatives(self, pattern: Alternatives, source: int, frame: Frame, bound: set[str], at: int) -> Link:
        branches: list[list[Link]] = []
        after: list[set[str]] = []
        for choice in pattern.choices:
            inner = set(bound)
            links = self.value(choice.pattern, source, frame, inner, at)
            for binding in choice.bindings:
                compute = self.evaluator.value(binding.value, frame.scope)
                links.append(_bind_result(frame.scope.slots[binding.name.name], compute))
                inner.add(binding.name.name)
            branches.append(links)
            after.append(inner)
        bound |= set.intersection(*after)
        return _branch(branches)

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
        link = self._node(call, op, source, frame, targets, place, node_slot, slots, args, rest)
        bound |= _bound_by_call(call, targets)
        return [link, *self.arguments(args, slots, frame, bound, node_slot)]

    def arguments(
        self, args: Sequence[Pattern], slots: Sequence[int], frame: Frame, bound: set[str], node_slot: int
    ) -> list[Link]:
        """Compile the arguments of a call, cheap tests before deep ones."""
        links: list[Link] = []
        for place in sorted(range(len(args)), key=lambda place: _effort(args[place], frame, bound)):
            links += self.value(args[place], slots[place], frame, bound, node_slot)
        return links

    def _node(
        self,
        call: CallPattern,
        op: PlainOp | VariableOp,
        source: int,
        frame: Frame,
        targets: Sequence[Target | RestTargets | AnyTargets],
        place: int,
        node_slot: int,
        slots: Sequence[int],
        args: Sequence[Pattern],
        rest: object,
    ) -> Link:
        site, depth, span = self.site, self.n_calls - 1, call.span
        ops = self.vocabulary.ops(op.ops) if isinstance(op, VariableOp) else frozenset([op.name])
        op_slot = frame.scope.slots[op.name] if isinstance(op, VariableOp) and op.name != ANY else None
        keywords = Keywords(site, call, frame.scope.slots, self.vocabulary.settings)
        forms = keywords.forms
        filters = tuple(frame.graph.ops_of(arg) for arg in args)
        n_args = len(args)
        may_commute = n_args > 1 and rest is None and not (isinstance(op, PlainOp) and op.order == "ordered")
        as_written = (tuple(range(n_args)),)
        all_orders = tuple(permutations(range(n_args))) if may_commute and n_args <= 6 else as_written
        is_open = rest is not None
        rest_slot = frame.scope.slots[rest.name] if isinstance(rest, RestInputs) else None
        bind_outputs = _bind_targets(targets, frame.scope) if targets else None

        def link(nxt: Step) -> Step:
            def step(m: Match) -> bool:
                slots_of_match = m.slots
                value = slots_of_match[source]
                node = site.producer(value) if isinstance(value, int) else None
                if node is None or node.op not in ops:
                    return m.miss(depth, span, m.value(source))
                m.budget -= 1
                if m.budget < 0:
                    m.spend()
                outputs = node.outputs
                if place >= len(outputs) or outputs[place] != value:
                    return m.miss(depth, span, m.value(source))
                inputs = node.inputs
                n_inputs = len(inputs)
                form = forms.get(node.op) or keywords.form(node.op)
                if n_inputs > n_args and not is_open:
                    for extra in range(n_args, n_inputs):
                        if inputs[extra] is not None and extra not in form.claimed:
                            return m.miss(depth, span, m.value(source))
                mark = len(m.trail)
                for check in form.checks:
                    if not check(m, node):
                        m.undo(mark)
                        return m.miss(depth + 1, span, m.value(source))
                if op_slot is not None and not _bind_op(m, op_slot, node):
                    m.undo(mark)
                    return False
                if bind_outputs is not None and not bind_outputs(m, node.outputs):
                    m.undo(mark)
                    return False
                if rest_slot is not None:
                    extra_inputs = tuple(
                        v for i, v in enumerate(inputs) if i >= n_args and v is not None and i not in form.claimed
                    )
                    if slots_of_match[rest_slot] is UNBOUND:
                        m.bind(rest_slot, extra_inputs)
                    elif slots_of_match[rest_slot] != extra_inputs:
                        m.undo(mark)
                        return False
                slots_of_match[node_slot] = node
                m.nodes.append(node)
                op_of = site.op_of
                orders = all_orders if form.commutes and n_inputs == n_args else as_written
                if len(orders) == 2 and inputs[0] == inputs[1]:
                    orders = as_written
                for order in orders:
                    for pattern_place, input_place in enumerate(order):
                        found = inputs[input_place] if input_place < n_inputs else None
                        accepted = filters[pattern_place]
                        if accepted is not None and (found is None or op_of.get(found) not in accepted):
                            break
                        slots_of_match[slots[pattern_place]] = found
                    else:
                        if nxt(m):
                            return True
                m.nodes.pop()
                m.undo(mark)
                return m.miss(depth + 1, span, m.value(source))

            return step

        return link

    def _tree(self, call: CallPattern, op: PlainOp, source: int, frame: Frame, bound: set[str]) -> list[Link]:
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        if len(args) > MOST_LEAVES:
            raise RuleError(table.TOO_MANY_LEAVES, span=call.span, op=op.name, n=len(args), limit=MOST_LEAVES)
        self.n_calls += 1
        node_slot, slots = self.new_slot(), [self.new_slot() for _ in args]
        filters = [frame.graph.ops_of(arg) for arg in args]
        link = tree_link(self.site, op.name, source, node_slot, slots, filters, self.n_calls - 1, call.span)
        return [link, *self.arguments(args, slots, frame, bound, node_slot)]

    def _chain(self, call: CallPattern, op: ChainOp, source: int, frame: Frame, bound: set[str]) -> list[Link]:
        self.n_calls += 1
        node_slot, first_slot = self.new_slot(), self.new_slot()
        name_slot = frame.scope.slots[op.name] if op.name != ANY else None
        bound |= _own_names(call)
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
        plain = VariableOp(op.span, op.name, op.ops) if isinstance(op, VariableOp) else PlainOp(op.span, op.name, op.order)
        present_bound, absent_bound = set(bound), set(bound)
        present = self.call(
            CallPattern(call.span, plain, call.args, call.attrs, call.rest), source, frame, present_bound, targets, place
        )
        first = call.args[0]
        assert not isinstance(first, RestInputs | AnyInputs)
        absent = self.value(first, source, frame, absent_bound, -1)
        names = names_of(call) - names_of(first)
        absent.append(_bind_none(sorted(frame.scope.slots[name] for name in names if name in frame.scope.slots)))
        bound |= present_bound & (absent_bound | names)
        return _branch([present, absent])

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
        bound |= set.intersection(*after)
        return _branch(branches)

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
        for formal in clause.formals:
            self.slot(local, formal.name.name, Kind.VALUE)
        self.declare(local)
        links: list[Link] = []
        local_bound: set[str] = set()
        given = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        pairs = list(zip(clause.formals, given, strict=False))
        for formal, arg in pairs:
            if isinstance(arg, ValuePattern) and arg.name in bound:
                links.append(_copy(frame.scope.slots[arg.name], local.scope.slots[formal.name.name]))
                local_bound.add(formal.name.name)
        result = clause.results[0]
        links += self.value(ValuePattern(result.span, result.name), source, local, local_bound, -1)
        for guard in clause.guards:
            links.append(_guard(self.evaluator.condition(guard, local.scope), self.n_calls, guard.span))
        links.append(_bind_none([local.scope.slots[formal.name.name] for formal in clause.formals]))
        for formal, arg in pairs:
            links += self.value(arg, local.scope.slots[formal.name.name], frame, bound, -1)
        for target, name in zip(targets[1:], clause.results[1:], strict=False):
            if isinstance(target, Target) and target.name != ANY:
                outer = ValuePattern(target.span, target.name, target.type)
                bound.add(target.name)
                links += self.value(outer, local.scope.slots[name.name], frame, bound, -1)
        return links


# ---------------------------------------------------------------- links
def _branch(branches: list[list[Link]]) -> Link:
    def link(nxt: Step) -> Step:
        steps = tuple(chain_up(links, nxt) for links in branches)

        def step(m: Match) -> bool:
            m.budget -= 1
            if m.budget < 0:
                m.spend()
            return any(inner(m) for inner in steps)

        return step

    return link


def _plain_value(
    slot: int,
    source: int,
    checks: Sequence[Callable[[Match, int], bool]],
    site: Site,
    depth: int,
    span: Span,
    *,
    needs_value: bool = True,
) -> Link:
    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            found = m.slots[source]
            known = m.slots[slot]
            if known is not UNBOUND and not _agrees(known, found, site):
                return m.miss(depth, span, m.value(source))
            if not isinstance(found, int):
                return not needs_value and known is not UNBOUND and nxt(m)
            mark = len(m.trail)
            if known is UNBOUND:
                m.bind(slot, found)
            for check in checks:
                if not check(m, found):
                    m.undo(mark)
                    return m.miss(depth, span, found)
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def _optional_value(
    slot: int, source: int, checks: Sequence[Callable[[Match, int], bool]], site: Site, depth: int, span: Span
) -> Link:
    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            found = m.slots[source]
            known = m.slots[slot]
            if known is not UNBOUND and not _agrees(known, found, site):
                return m.miss(depth, span, m.value(source))
            mark = len(m.trail)
            if known is UNBOUND:
                m.bind(slot, found)
            if isinstance(found, int):
                for check in checks:
                    if not check(m, found):
                        m.undo(mark)
                        return m.miss(depth, span, found)
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def _ignored(
    source: int, is_optional: bool, checks: Sequence[Callable[[Match, int], bool]], depth: int, span: Span
) -> Link:
    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            found = m.slots[source]
            if not isinstance(found, int):
                return is_optional and nxt(m)
            mark = len(m.trail)
            for check in checks:
                if not check(m, found):
                    m.undo(mark)
                    return m.miss(depth, span, found)
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def _absent(source: int) -> Link:
    return lambda nxt: lambda m: m.slots[source] is None and nxt(m)


def _copy(source: int, slot: int) -> Link:
    """Bind a slot to what another one holds."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            mark = len(m.trail)
            m.bind(slot, m.slots[source])
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def _bind_none(slots: Sequence[int]) -> Link:
    """Bind what nothing bound to none: names of a part that is absent."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            mark = len(m.trail)
            for slot in slots:
                if m.slots[slot] is UNBOUND:
                    m.bind(slot, None)
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def _bind_result(slot: int, compute: Callable[[Match], Value]) -> Link:
    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            mark = len(m.trail)
            if m.slots[slot] is UNBOUND:
                m.bind(slot, compute(m))
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def _guard(holds: Callable[[Match], bool], depth: int, span: Span) -> Link:
    return lambda nxt: lambda m: nxt(m) if holds(m) else m.miss(depth, span, None)


def _bind_targets(
    targets: Sequence[Target | RestTargets | AnyTargets], scope: Scope
) -> Callable[[Match, Sequence[int | None]], bool]:
    """Bind the outputs of a node to the names of a line; an output not listed must be unused (seen later)."""
    slots = [scope.slots.get(target.name, -1) if isinstance(target, Target) else -1 for target in targets]
    last = targets[-1]
    rest_slot = scope.slots[last.name] if isinstance(last, RestTargets) else -1
    n_named = len(targets) - (not isinstance(last, Target))

    def bind(m: Match, outputs: Sequence[int | None]) -> bool:
        for place in range(n_named):
            slot = slots[place]
            if slot < 0:
                continue
            found = outputs[place] if place < len(outputs) else None
            known = m.slots[slot]
            if known is UNBOUND:
                if found is None:
                    return False
                m.bind(slot, found)
            elif known != found:
                return False
        if rest_slot >= 0:
            m.bind(rest_slot, tuple(v for v in outputs[n_named:] if v is not None))
        return True

    return bind


# ---------------------------------------------------------------- small questions
def _agrees(known: object, found: object, site: Site) -> bool:
    if isinstance(known, int) and isinstance(found, int):
        return known == found or site.is_same(known, found)
    return known is found


def _bind_op(m: Match, slot: int, node: object) -> bool:
    known = m.slots[slot]
    if known is UNBOUND:
        m.bind(slot, node)
        return True
    return isinstance(known, Node) and isinstance(node, Node) and known.op == node.op


def _keeps_rank(m: Match, at: int, value: int | None, rank: int, site: Site) -> bool:
    """Whether some other operand has at least this rank, so that the number does not raise the result's."""
    node = m.slots[at] if at >= 0 else None
    inputs = getattr(node, "inputs", ())
    others = [site.rank_of(other) for other in inputs if other is not None and other != value]
    return any(other is not None and other >= rank for other in others)


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


def _bound_by_call(call: CallPattern, targets: Sequence[object]) -> set[str]:
    names = {target.name for target in targets if isinstance(target, Target | RestTargets)}
    return names | _own_names(call)


def _own_names(call: CallPattern) -> set[str]:
    names = {a.pattern.name for a in call.attrs if isinstance(a.pattern, CaptureAttr)}
    names |= {arg.name for arg in call.args if isinstance(arg, RestInputs)}
    if call.rest is not None and call.rest.name is not None:
        names.add(call.rest.name)
    if not isinstance(call.op, PlainOp):
        names.add(call.op.name)
    return names - {ANY}


def names_of(pattern: Pattern) -> set[str]:
    """Every name that a pattern binds, without following definitions."""
    names: set[str] = set()
    for inner in patterns_in(pattern):
        if isinstance(inner, ValuePattern):
            names.add(inner.name)
        elif isinstance(inner, NamedPattern):
            names.add(inner.name.name)
        elif isinstance(inner, CallPattern):
            names |= _own_names(inner)
        elif isinstance(inner, Alternatives):
            names |= {binding.name.name for choice in inner.choices for binding in choice.bindings}
    return names - {ANY}



