"""What a graph must have for a rule to match, and how to climb from there to the pattern's root.

The rarest requirement of a rule in a graph is where the search starts: a rule that needs an `Erf` costs
nothing on nodes that have none above them, however many `Mul` the graph has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gerules.dsl.syntax import (
    Alternatives,
    AnyInputs,
    CallPattern,
    ChainOp,
    ManyLines,
    MatchLine,
    MatchStatement,
    NamedPattern,
    NumberPattern,
    ParamPattern,
    Pattern,
    PatternDef,
    PlainOp,
    RestInputs,
    Target,
    ValuePattern,
    VariableOp,
    patterns_in,
)
from gerules.engine.index import CONST, Feature
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Span

LONGEST_CHAIN: Final = 64
"""Nodes of a chain without upper bound; a longer path is matched in pieces."""

MOST_LEAVES: Final = 6
"""Leaves of `Op~(...)`; matching tries their orders."""

_DEEPEST: Final = 64
"""Nesting of patterns that is followed when looking for requirements."""

_MOST_POSITIONS: Final = 2_000
"""Places of operators followed in one pattern; alternatives within alternatives multiply."""

CONSTS: Final = frozenset([CONST])


@dataclass(frozen=True, slots=True)
class Rung:
    """One level of a climb: from a node to those that read it and have one of `ops`.

    `repeats`: on through further nodes of these operators. `is_optional`: the level may be absent.
    """

    ops: frozenset[str]
    repeats: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Requirement:
    """A feature, and the climb from the node that has it to a root of the pattern."""

    feature: Feature
    climb: tuple[Rung, ...] = ()
    span: Span | None = field(default=None, compare=False)
    """The words of the rule that ask for it."""


class PatternGraph:
    """The lines of a rule (or of one clause of a named pattern) by the names they define."""

    def __init__(self, statements: Sequence[MatchStatement], vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.group = next((item for item in statements if isinstance(item, ManyLines)), None)
        self.outer: tuple[MatchLine, ...] = tuple(item for item in statements if isinstance(item, MatchLine))
        self.lines = (*self.outer, *(self.group.lines if self.group else ()))
        self.definitions: dict[str, tuple[MatchLine, int]] = {
            target.name: (line, place)
            for line in self.lines
            for place, target in enumerate(line.targets)
            if isinstance(target, Target)
        }
        # A name may be used many times at every level; without memory that would multiply.
        self._ops_by_name: dict[str, frozenset[str] | None] = {}
        self._depth_by_name: dict[str, int] = {}

    def roots(self, lines: Sequence[MatchLine]) -> list[MatchLine]:
        """Return the lines whose targets no other line uses, in the order written."""
        used = {
            inner.name
            for line in self.lines
            for inner in patterns_in(line.pattern)
            if isinstance(inner, ValuePattern)
        }
        return [
            line
            for line in lines
            if not any(isinstance(target, Target) and target.name in used for target in line.targets)
        ]

    def ops_of(self, pattern: Pattern, depth: int = 0) -> frozenset[str] | None:
        """Return the operators that can produce what a pattern matches; None when it can be anything."""
        if depth > _DEEPEST:
            return None
        match pattern:
            case CallPattern(op=op, args=args):
                own = self._ops_of_call(op, depth)
                if not isinstance(op, ChainOp) and op.is_optional:
                    inner = self._ops_of_arg(args, depth)
                    return None if own is None or inner is None else own | inner
                return own
            case NamedPattern(pattern=inside):
                return self.ops_of(inside, depth + 1)
            case NumberPattern() | ParamPattern():
                return CONSTS
            case Alternatives(choices=choices):
                found: frozenset[str] = frozenset()
                for choice in choices:
                    ops = self.ops_of(choice.pattern, depth + 1)
                    if ops is None:
                        return None
                    found |= ops
                return found
            case ValuePattern(name=name, type=type, is_optional=is_optional):
                if name in self.definitions:
                    if name not in self._ops_by_name:
                        defined = self.definitions[name][0].pattern
                        self._ops_by_name[name] = self.ops_of(defined, depth + 1)
                    return self._ops_by_name[name]
                return CONSTS if type is not None and type.is_const and not is_optional else None
            case _:
                return None

    def _ops_of_arg(
        self, args: Sequence[Pattern | RestInputs | AnyInputs], depth: int
    ) -> frozenset[str] | None:
        first = args[0] if args else None
        if first is None or isinstance(first, RestInputs | AnyInputs):
            return None
        return self.ops_of(first, depth + 1)

    def _ops_of_call(self, op: PlainOp | VariableOp | ChainOp, depth: int) -> frozenset[str] | None:
        if not isinstance(op, PlainOp):
            return self.vocabulary.ops(op.ops)
        clauses = self.vocabulary.patterns.get(op.name)
        if clauses is None:
            return frozenset([op.name])
        known = self.vocabulary.result_ops
        if op.name not in known:
            known[op.name] = None  # what a pattern that needs itself gives
            known[op.name] = self._ops_of_clauses(clauses, depth)
        return known[op.name]

    def _ops_of_clauses(self, clauses: Sequence[PatternDef], depth: int) -> frozenset[str] | None:
        found: frozenset[str] = frozenset()
        for clause in clauses:
            inner = PatternGraph(clause.match, self.vocabulary)
            ops = inner.ops_of(ValuePattern(clause.span, clause.results[0].name), depth + 1)
            if ops is None:
                return None
            found |= ops
        return found

    def depth(self, pattern: Pattern, level: int = 0) -> int:
        """Return how many nodes deep a pattern reaches below the value it matches."""
        if level > _DEEPEST:
            return 0
        match pattern:
            case CallPattern(op=op, args=args):
                inner = (arg for arg in args if not isinstance(arg, RestInputs | AnyInputs))
                below = max((self.depth(arg, level + 1) for arg in inner), default=0)
                return below + self._height(op, len(args), level)
            case NamedPattern(pattern=inside):
                return self.depth(inside, level + 1)
            case Alternatives(choices=choices):
                return max(self.depth(choice.pattern, level + 1) for choice in choices)
            case ValuePattern(name=name) if name in self.definitions:
                if name not in self._depth_by_name:
                    self._depth_by_name[name] = self.depth(self.definitions[name][0].pattern, level + 1)
                return self._depth_by_name[name]
            case _:
                return 0

    def _height(self, op: PlainOp | VariableOp | ChainOp, n_args: int, level: int) -> int:
        if isinstance(op, ChainOp):
            return 1  # the worklist walks along chains itself
        if not isinstance(op, PlainOp):
            return 1
        if op.name in self.vocabulary.patterns:
            known = self.vocabulary.result_depths
            if op.name not in known:
                known[op.name] = 0
                known[op.name] = max(
                    PatternGraph(clause.match, self.vocabulary).depth(
                        ValuePattern(clause.span, clause.results[0].name), level + 1
                    )
                    for clause in self.vocabulary.patterns[op.name]
                )
            return known[op.name]
        return max(1, n_args - 1) if op.order == "any" else 1

    def n_calls(self) -> int:
        """How many operators the pattern names; larger patterns are tried first."""
        return sum(
            isinstance(inner, CallPattern) for line in self.lines for inner in patterns_in(line.pattern)
        )

    def requirements(self, root: Pattern) -> list[Requirement]:
        """Return what a graph must have for `root` to match somewhere, outermost first."""
        found: list[Requirement] = []
        ops = self.ops_of(root)
        if ops is not None:
            found.append(Requirement(Feature(ops)))
        self._collect(root, (), found, 0, set())
        return list(dict.fromkeys(found))

    def _collect(
        self,
        pattern: Pattern,
        climb: tuple[Rung, ...],
        found: list[Requirement],
        depth: int,
        seen: set[object],
    ) -> None:
        """Add what `pattern`, which must be present, asks for; `climb` leads from it to the root."""
        pattern = self.resolve(pattern)
        if depth > _DEEPEST or (id(pattern), climb) in seen or len(seen) > _MOST_POSITIONS:
            return
        seen.add((id(pattern), climb))
        if not isinstance(pattern, CallPattern) or isinstance(pattern.op, ChainOp):
            return
        op = pattern.op
        if isinstance(op, PlainOp) and op.name in self.vocabulary.patterns:
            return
        own = self._ops_of_call(op, depth)
        if own is None:
            return
        is_tree = isinstance(op, PlainOp) and op.order == "any"
        rest_of_tree = (Rung(own, repeats=True, is_optional=True),) if is_tree else ()
        for place, arg in enumerate(pattern.args):
            if isinstance(arg, RestInputs | AnyInputs) or (op.is_optional and place > 0):
                continue
            self._collect_arg(arg, own, op.is_optional, rest_of_tree, climb, found, depth, seen)

    def _collect_arg(
        self,
        arg: Pattern,
        own: frozenset[str],
        is_optional: bool,
        rest_of_tree: tuple[Rung, ...],
        climb: tuple[Rung, ...],
        found: list[Requirement],
        depth: int,
        seen: set[object],
    ) -> None:
        sources = self.ops_of(arg)
        up = (Rung(own, is_optional=is_optional), *rest_of_tree, *climb)
        if sources is not None and not is_optional:
            span = self.resolve(arg).span
            found.append(Requirement(Feature(own, sources), (*rest_of_tree, *climb), span))
        elif sources is not None and sources != CONSTS:
            found.append(Requirement(Feature(sources), up))
        self._collect(arg, up, found, depth + 1, seen)

    def positions(
        self, root: Pattern, climb: tuple[Rung, ...] = ()
    ) -> list[tuple[frozenset[str], tuple[Rung, ...]]]:
        """Return every place of an operator in a pattern, with the climb from there to the root.

        Where a node changes, only roots at the end of such climbs can match anew.
        """
        found: dict[tuple[frozenset[str], tuple[Rung, ...]], None] = {}
        pending: list[tuple[PatternGraph, Pattern, tuple[Rung, ...], int]] = [(self, root, climb, 0)]
        seen: set[object] = set()
        while pending and len(seen) < _MOST_POSITIONS:
            graph, pattern, up, depth = pending.pop()
            pattern = graph.resolve(pattern)
            if depth > _DEEPEST or (id(pattern), up) in seen:
                continue
            seen.add((id(pattern), up))
            if isinstance(pattern, Alternatives):
                pending += [(graph, choice.pattern, up, depth + 1) for choice in pattern.choices]
            if not isinstance(pattern, CallPattern):
                continue
            op, args = (
                pattern.op,
                [arg for arg in pattern.args if not isinstance(arg, RestInputs | AnyInputs)],
            )
            if isinstance(op, PlainOp) and op.name in self.vocabulary.patterns:
                for clause in self.vocabulary.patterns[op.name]:
                    inner = PatternGraph(clause.match, self.vocabulary)
                    result = ValuePattern(clause.span, clause.results[0].name)
                    pending.append((inner, result, up, depth + 1))
                    formals = {
                        formal.name.name: arg for formal, arg in zip(clause.formals, args, strict=False)
                    }
                    for path in inner.paths_to(result, formals.keys()):
                        pending.append((graph, formals[path[0]], (*path[1], *up), depth + 1))
                continue
            own = self._ops_of_call(op, depth)
            if own is None:
                continue
            is_tree = isinstance(op, PlainOp) and op.order == "any"
            rest = (Rung(own, repeats=True, is_optional=True),) if is_tree else ()
            found[own, (*rest, *up)] = None
            is_optional = not isinstance(op, ChainOp) and op.is_optional
            above = (Rung(own, is_optional=is_optional), *rest, *up)
            pending += [(graph, arg, above, depth + 1) for arg in args]
        return list(found)

    def paths_to(self, root: Pattern, names: Collection[str]) -> list[tuple[str, tuple[Rung, ...]]]:
        """Return the climbs from values with these names to the root."""
        paths: list[tuple[str, tuple[Rung, ...]]] = []
        pending: list[tuple[Pattern, tuple[Rung, ...], int]] = [(root, (), 0)]
        seen: set[object] = set()
        while pending and len(seen) < _MOST_POSITIONS:
            pattern, up, depth = pending.pop()
            pattern = self.resolve(pattern)
            if depth > _DEEPEST or (id(pattern), up) in seen:
                continue
            seen.add((id(pattern), up))
            if isinstance(pattern, ValuePattern) and pattern.name in names:
                paths.append((pattern.name, up))
            elif isinstance(pattern, Alternatives):
                pending += [(choice.pattern, up, depth + 1) for choice in pattern.choices]
            elif isinstance(pattern, CallPattern):
                own = self._ops_of_call(pattern.op, depth)
                if own is not None:
                    rung = Rung(
                        own, is_optional=not isinstance(pattern.op, ChainOp) and pattern.op.is_optional
                    )
                    is_tree = isinstance(pattern.op, PlainOp) and pattern.op.order == "any"
                    rest = (Rung(own, repeats=True, is_optional=True),) if is_tree else ()
                    inner = [arg for arg in pattern.args if not isinstance(arg, RestInputs | AnyInputs)]
                    pending += [(arg, (rung, *rest, *up), depth + 1) for arg in inner]
        return paths

    def resolve(self, pattern: Pattern) -> Pattern:
        """Follow names and `as` to the pattern that says what stands there."""
        for _ in range(_DEEPEST):
            if isinstance(pattern, NamedPattern):
                pattern = pattern.pattern
            elif isinstance(pattern, ValuePattern) and pattern.name in self.definitions:
                pattern = self.definitions[pattern.name][0].pattern
            else:
                break
        return pattern

    def climb_from(
        self, root: Pattern, bound: Mapping[str, object] | set[str]
    ) -> tuple[str, tuple[Rung, ...]] | None:
        """Return a bound name inside `root` and the climb from its value to root; the shortest there is."""
        queue: list[tuple[Pattern, tuple[Rung, ...]]] = [(root, ())]
        for pattern, climb in queue:
            if len(queue) > 10_000:
                break
            if isinstance(pattern, ValuePattern) and pattern.name in bound and climb:
                return pattern.name, climb
            inner = self.resolve(pattern)
            if not isinstance(inner, CallPattern) or isinstance(inner.op, ChainOp):
                continue
            own = self._ops_of_call(inner.op, 0)
            if own is None or (isinstance(inner.op, PlainOp) and inner.op.name in self.vocabulary.patterns):
                continue
            is_tree = isinstance(inner.op, PlainOp) and inner.op.order == "any"
            rest = (Rung(own, repeats=True, is_optional=True),) if is_tree else ()
            up = (Rung(own, is_optional=inner.op.is_optional), *rest, *climb)
            queue += [(arg, up) for arg in inner.args if not isinstance(arg, RestInputs | AnyInputs)]
        return None
