"""A rule as a program: what it needs, where it starts, and its steps, compiled when first needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gerules.dsl.expressions import BoolOp, CallExpr, Compare, Expr, Literal, ParamRef, Ref, walk
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.syntax import (
    ANY,
    Alternatives,
    CallPattern,
    ChainOp,
    Condition,
    MatchLine,
    PlainOp,
    RestTargets,
    Rule,
    Target,
    ValuePattern,
    patterns_in,
)
from gerules.dsl.tree import RuleError
from gerules.engine.binding import Kind, Link, Match, Scope, Step, chain_up
from gerules.engine.evaluation import MatchEvaluator
from gerules.engine.groups import LARGEST_GROUP, Group, OtherRoot, group_link, other_root_link
from gerules.engine.index import Feature
from gerules.engine.names import Frame, declare, names_of
from gerules.engine.patterns import PatternCompiler
from gerules.engine.requirements import PatternGraph, Requirement, Rung
from gerules.engine.site import Site
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import table
from gerules.ir import Node


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a rule before it meets a graph.

    `root_ops` are the operators its first root can have; `depth` how many nodes the pattern reaches
    below a root; `n_calls` its size.
    """

    rule: Rule
    graph: PatternGraph
    roots: tuple[MatchLine, ...]
    requirements: tuple[Requirement, ...]
    others: tuple[Feature, ...]
    """What the other roots need."""
    root_ops: frozenset[str]
    depth: int
    n_calls: int
    is_group: bool
    positions: tuple[tuple[frozenset[str], tuple[Rung, ...]], ...]
    """Every place of an operator below the first root, and the climb from there."""
    other_ops: frozenset[str]
    """Operators of further roots, or of the members of a group."""
    shared_names: frozenset[str]
    """Names declared `shared`: their values may have other readers."""
    looks_outward: bool
    """Whether it can matter for a match who reads what the root makes."""


def plan_rule(rule: Rule, vocabulary: Vocabulary) -> Plan:
    """Return what a rule needs and where it starts.

    Raises:
        RuleError: E40034 when no root of the pattern names an operator.
    """
    try:
        graph = PatternGraph(rule.match, vocabulary)
        is_group = graph.group is not None and not graph.outer
        lines = graph.group.lines if is_group and graph.group is not None else graph.outer
        roots = tuple(graph.roots(lines))
        root_ops = graph.ops_of(roots[0].pattern) if roots else None
        if root_ops is None:
            raise RuleError(table.NO_ROOT_OPERATOR, span=rule.name.span, rule=rule.name.name)
        depth = max(graph.depth(line.pattern) for line in graph.lines)
        requirements = graph.requirements(roots[0].pattern)
        others = [item.feature for root in roots[1:] for item in graph.requirements(root.pattern)]
        shared = frozenset(
            target.name
            for line in graph.lines
            if line.is_shared
            for target in line.targets
            if isinstance(target, Target)
        )
        other_ops: frozenset[str] = root_ops if is_group else frozenset()
        for root in roots[1:]:
            other_ops |= graph.ops_of(root.pattern) or frozenset()
        return Plan(
            rule,
            graph,
            roots,
            tuple(requirements),
            tuple(others),
            root_ops,
            depth,
            graph.n_calls(),
            is_group,
            tuple(graph.positions(roots[0].pattern)),
            other_ops,
            shared,
            bool(shared) or is_group or len(roots) > 1 or _looks_outward(rule, graph, vocabulary),
        )
    except RecursionError:
        raise RuleError(
            table.PATTERN_TOO_LARGE, span=rule.name.span, limit="the nesting Python allows"
        ) from None


def _looks_outward(rule: Rule, graph: PatternGraph, vocabulary: Vocabulary) -> bool:
    """Whether a rule with one root has a chain, or an expression that asks about the graph around."""
    patterns = [inner for line in graph.lines for inner in patterns_in(line.pattern)]
    exprs = [step.test if isinstance(step, Condition) else step.value for step in rule.steps]
    exprs += [gate.test for gate in rule.gates] + [line.value for line in rule.annotations]
    calls = [inner.op for inner in patterns if isinstance(inner, CallPattern)]
    if any(isinstance(op, PlainOp) and op.name in vocabulary.patterns for op in calls):
        # Sub-patterns use each other; all of them are looked at.
        for clause in (clause for clauses in vocabulary.patterns.values() for clause in clauses):
            exprs += [guard.test for guard in clause.guards]
            patterns += [
                inner
                for line in PatternGraph(clause.match, vocabulary).lines
                for inner in patterns_in(line.pattern)
            ]
    for inner in patterns:
        if isinstance(inner, CallPattern) and isinstance(inner.op, ChainOp):
            return True
        if isinstance(inner, Alternatives):
            exprs += [binding.value for choice in inner.choices for binding in choice.bindings]
    functions = [
        FUNCTIONS.get(part.callee.name) if isinstance(part.callee, Ref) else None
        for expr in exprs
        for part in walk(expr)
        if isinstance(part, CallExpr)
    ]
    return any(function is None or function.needs_graph for function in functions)


class Program:
    """The steps of one rule. Pointed at a graph through the `Site` it was made for."""

    def __init__(self, plan: Plan, site: Site, vocabulary: Vocabulary, evaluator: MatchEvaluator) -> None:
        self.plan = plan
        self.rule = plan.rule
        self._site = site
        self._evaluator = evaluator
        compiler = self._compiler = PatternCompiler(site, vocabulary, evaluator)
        frame = Frame(plan.graph)
        declare(frame, compiler.new_slot)
        self.scope = frame.scope
        for line in plan.rule.folds:
            for name in line.names:
                frame.slot(compiler.new_slot, name.name, Kind.RESULT)
        compiler.chain_limits = dict(_chain_limits(plan.rule, vocabulary))
        try:
            self._links = self._compile(frame)
        except RecursionError:
            raise RuleError(
                table.PATTERN_TOO_LARGE, span=plan.rule.name.span, limit="the nesting Python allows"
            ) from None
        self.n_calls = compiler.n_calls
        self.chain_ops = compiler.chain_ops
        self.chain_memory = compiler.chain_memory
        self.match = Match(compiler.n_slots)
        self._step: Step | None = None

    def start(self, accept: Step) -> Step:
        """Return the step that matches the value in slot `root_slot` and hands each match to `accept`."""
        return chain_up(self._links, accept)

    @property
    def root_slot(self) -> int:
        """The slot that takes the value at which to match."""
        return self._root_slots[0]

    def root_value(self, node: Node) -> int | None:
        """Return the value of a node at which the first root is matched."""
        return node.outputs[0] if node.outputs else None

    # ------------------------------------------------------------ compiling
    def _compile(self, frame: Frame) -> list[Link]:
        compiler, plan = self._compiler, self.plan
        self._root_slots = [compiler.new_slot() for _ in plan.roots]
        bound: set[str] = set()
        links: list[Link] = []
        if not plan.is_group:
            for number, line in enumerate(plan.roots):
                if number:
                    links.append(self._other_root(number, line, bound))
                links += compiler.root(line, self._root_slots[number], frame, bound)
        if plan.graph.group is not None:
            links += self._group(frame, bound)
        return links

    def _other_root(self, number: int, line: MatchLine, bound: set[str]) -> Link:
        plan, slots = self.plan, self.scope.slots
        found = plan.graph.climb_from(line.pattern, bound)
        if found is None:
            raise RuleError(table.ROOTS_NOT_CONNECTED, span=line.span, rule=plan.rule.name.name)
        name, rungs = found
        before = self._ordered_before(line, bound)
        after_slot = slots[before] if before is not None else None
        text = " ".join(line.pattern.span.text.split())
        behind = "" if before is None else f" and comes after `{before}`"
        note = f"there is no other node for `{text}`: none that it could be reads `{name}`{behind}"
        root = OtherRoot(slots[name], rungs, 0, after_slot, self._compiler.n_calls, line.pattern.span, note)
        return other_root_link(self._site, self._root_slots[number], root, self._root_slots[0])

    def _ordered_before(self, line: MatchLine, bound: set[str]) -> str | None:
        """Return the bound name that an `ordered(...)` guard puts right before this line's target."""
        target = line.targets[0]
        name = target.name if isinstance(target, Target) else ANY
        for guard in self.plan.rule.guards:
            for names in _ordered_names(guard):
                if name in names and names.index(name) > 0 and names[names.index(name) - 1] in bound:
                    return names[names.index(name) - 1]
        return None

    def _group(self, frame: Frame, bound: set[str]) -> list[Link]:
        compiler, plan = self._compiler, self.plan
        block = plan.graph.group
        assert block is not None
        line = (plan.roots[0] if plan.is_group else plan.graph.roots(block.lines)[0]) if block.lines else None
        ops = plan.graph.ops_of(line.pattern) if line is not None else None
        if line is None or ops is None:
            raise RuleError(table.NO_ROOT_OPERATOR, span=block.span, rule=plan.rule.name.name)
        links: list[Link] = []
        source = self._root_slots[0] if plan.is_group else compiler.new_slot()
        outer = set(bound)
        if not plan.is_group:
            found = plan.graph.climb_from(line.pattern, bound)
            if found is None:
                raise RuleError(table.ROOTS_NOT_CONNECTED, span=block.span, rule=plan.rule.name.name)
            seed = OtherRoot(frame.scope.slots[found[0]], found[1], 0)
            links.append(other_root_link(self._site, source, seed, self._root_slots[0]))
        member = chain_up(compiler.root(line, source, frame, bound), lambda _: True)
        same = {item.name for item in block.same} | outer
        names = _names_of_lines(block.lines, frame.scope)
        collected = tuple(sorted(name for name in names if name not in same))
        frame.scope.grouped |= set(collected)
        shared = plan.graph.climb_from(
            line.pattern, {n for n in same if frame.scope.kinds.get(n) is Kind.VALUE}
        )
        limits = [Condition(limit.span, limit) for limit in block.limits]
        checks = [self._evaluator.condition(limit, frame.scope) for limit in limits]
        group = Group(
            least=max(1, block.least),
            most=block.most if block.most is not None else LARGEST_GROUP,
            source_slot=source,
            place=0,
            member=member,
            collected=tuple(frame.scope.slots[name] for name in collected),
            same=tuple(frame.scope.slots[name] for name in sorted(same) if name in frame.scope.slots),
            shared_slot=frame.scope.slots[shared[0]] if shared is not None else None,
            rungs=shared[1] if shared is not None else (),
            ops=ops,
            within_limits=lambda m: all(check(m) for check in checks),
        )
        return [*links, group_link(self._site, group)]


def _chain_limits(rule: Rule, vocabulary: Vocabulary) -> Iterator[tuple[str, int]]:
    """Yield what guards like `len(ch) <= $MAX_CHAIN` say, so that longer paths are not even tried."""
    for guard in rule.guards:
        match guard.test:
            case Compare(
                first=CallExpr(callee=Ref(name="len"), args=(Ref(name=name),)),
                rest=(("<" | "<=" as op, bound),),
            ):
                found = bound.value if isinstance(bound, Literal) else None
                if isinstance(bound, ParamRef):
                    found = vocabulary.number(bound.name)
                if isinstance(found, int):
                    yield name, found - (op == "<")
            case _:
                pass


def _ordered_names(guard: Condition) -> Iterator[list[str]]:
    pending: list[Expr] = [guard.test]
    while pending:
        expr = pending.pop()
        match expr:
            case BoolOp(op="and", left=left, right=right):
                pending += [left, right]
            case CallExpr(callee=Ref(name="ordered"), args=args):
                yield [arg.name for arg in args if isinstance(arg, Ref)]
            case _:
                pass


def _names_of_lines(lines: Sequence[MatchLine], scope: Scope) -> set[str]:
    """Every name that lines bind: targets, values, dimensions, captures."""
    names: set[str] = set()
    for line in lines:
        names |= {target.name for target in line.targets if isinstance(target, Target | RestTargets)}
        for pattern in patterns_in(line.pattern):
            if isinstance(pattern, ValuePattern | CallPattern):
                names |= _mentioned(pattern)
    for line in lines:
        for target in line.targets:
            if isinstance(target, Target) and target.type is not None:
                names |= _mentioned(ValuePattern(target.span, target.name, target.type))
    return {name for name in names if name in scope.slots}


def _mentioned(pattern: ValuePattern | CallPattern) -> set[str]:
    names = names_of(pattern)
    if isinstance(pattern, ValuePattern) and pattern.type is not None:
        type = pattern.type
        names |= {getattr(dim, "name", ANY) for dim in type.dims or ()} | {type.dtype_name or ANY}
    return names - {ANY}
