"""From a match to a change: guards, the candidate, its checks, and the commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from gerules.dsl import expr as dsl
from gerules.dsl.external import FunctionError
from gerules.dsl.syntax import (
    Build,
    BuildArg,
    BuildCall,
    BuildEach,
    BuildFunction,
    BuildRef,
    BuildRest,
    Condition,
    FoldLine,
    Rule,
)
from gerules.dsl.tree import RuleError
from gerules.dsl.values import Reject
from gerules.engine.binding import UNBOUND, Kind, Match
from gerules.engine.build import Builder
from gerules.engine.candidate import Candidate, CostOf, Infer, Refused
from gerules.engine.evaluation import MatchEvaluator, RuleContext, names_of, spoken
from gerules.engine.gates import Gates
from gerules.engine.index import CONST
from gerules.engine.keywords import is_equal, value_of_attr
from gerules.engine.program import Program
from gerules.engine.reasons import partial_at, sources_of
from gerules.engine.site import Site
from gerules.engine.trace import RuleCount
from gerules.engine.witness import Refusal, WatchedMatch
from gerules.errors import Diagnostic, GerulesError
from gerules.ir import CycleError, Node, Origin, TensorType, ValueType, unify
from gerules.ir import Value as GraphValue

_NO_MARKS: Final[dict[int, dict[str, object]]] = {}


@dataclass(frozen=True, slots=True)
class Change:
    """What an application did: nodes that left and came, values with a new producer, marks for nodes."""

    removed: tuple[Node, ...]
    added: tuple[Node, ...]
    replaced: tuple[int, ...]
    moved: Sequence[int]
    """Nodes that read another value now."""
    marks: Mapping[int, Mapping[str, object]]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sides:
    """Names on the right and left of a rule's build lines."""

    replaced: tuple[str, ...]
    read: tuple[str, ...]


def sides_of(rule: Rule, program: Program) -> Sides:
    """Return which matched names a rule replaces, and which its build lines read."""
    kinds = program.scope.kinds
    replaced = [
        target.name
        for line in rule.rewrite
        for target in line.targets
        if kinds.get(target.name) in (Kind.VALUE, Kind.VALUES)
    ]
    read: list[str] = []
    for line in rule.rewrite:
        read += _names_read(line.build)
    return Sides(tuple(dict.fromkeys(replaced)), tuple(dict.fromkeys(read)))


def _names_read(build: Build) -> list[str]:
    pending: list[BuildArg] = [build]
    names: list[str] = []
    while pending:
        match pending.pop():
            case BuildRef(name=name):
                names.append(name)
            case BuildRest(path=path):
                names.append(path[0])
            case BuildCall(args=args):
                pending += args
            case BuildFunction(call=call) | BuildEach(call=call):
                pending += call.args
            case _:
                pass
    return names


class Applier:
    """Carries out the matches of one program, or says why not."""

    def __init__(
        self,
        program: Program,
        site: Site,
        evaluator: MatchEvaluator,
        context: RuleContext,
        infer: Infer,
        cost: CostOf | None,
        phase: str,
    ) -> None:
        self.program = program
        self.rule = program.rule
        self.name = program.rule.name.name
        self._site = site
        self._evaluator = evaluator
        self._context = context
        self._infer = infer
        self._phase = phase
        sides = sides_of(program.rule, program)
        self._replaced = self._places(sides.replaced)
        self._read = self._places(sides.read)
        self._shared = self._places(program.plan.shared_names)
        self.faults: list[Diagnostic] = []
        """Faults of the rule found while running it, the first of each kind."""
        self._gates = Gates(program, site, evaluator, cost, self._note) if cost and self.rule.gates else None

    def attempt(
        self,
        m: Match,
        count: RuleCount,
        marks: Mapping[int, Mapping[str, object]],
        *,
        is_dry: bool = False,
    ) -> Change | None:
        """Carry out a match, or count why not. Nothing of the graph has changed when it returns None.

        A dry attempt only says what it would do.
        """
        count.matches += 1
        mark = len(m.trail)
        try:
            change = self._apply(m, count, marks, is_dry)
        except Refused as refused:
            if refused.reason:  # empty: counted already
                count.refuse(refused.reason)
            if refused.reason and isinstance(m, WatchedMatch):
                m.refuse(Refusal("check", len(self.rule.steps), None, refused.reason, ""))
            if refused.reason and (count.best is None or count.best.depth <= self.program.n_calls):
                count.best = partial_at(m, self._site, self.program.n_calls, None, refused.reason)
            change = None
        if change is None:
            m.undo(mark)
        return change

    def _apply(
        self, m: Match, count: RuleCount, marks: Mapping[int, Mapping[str, object]], is_dry: bool
    ) -> Change | None:
        rule = self.rule
        matched = {node.id: node for node in m.nodes}
        if rule.is_once and any(self.name in node.origin.rules for node in matched.values()):
            raise Refused("it made some of these nodes itself, and applies once")
        replaced = self._bound(m, self._replaced)
        removed = self._removed(m, matched, replaced) if rule.rewrite else {}
        signature = self._gates.signature(m, removed) if self._gates is not None else None
        if signature is not None and self._gates is not None:
            self._gates.refuse_known(signature, count)
        if rule.steps and not self._run_steps(m, count):
            return None
        region = list(matched.values())
        if len(region) > 1:
            key = self._site.editor.order_key
            region.sort(key=lambda node: key(node.id))
        candidate = Candidate(self._site, removed, tuple(replaced))
        types: dict[int, ValueType] = {}
        sources: tuple[str, ...]
        if rule.rewrite:
            origin = origin_of(region, self.name, self._phase)
            sources = origin.sources
            self._build(
                Builder(candidate, rule, self.program.scope, m, self._evaluator, self._infer, origin, region)
            )
            types = self._checked_types(candidate)
            if is_same_region(candidate):
                raise Refused("it would change nothing")
            if self._gates is not None:
                self._gates.check(m, candidate, count, signature)
        else:
            sources = tuple(dict.fromkeys(name for node in region for name in sources_of(node)))
        wanted = self._marks(m, candidate, marks) if rule.annotations else _NO_MARKS
        if not rule.rewrite and not wanted:
            raise Refused("it would change nothing")
        moved = self._commit(candidate, types) if rule.rewrite and not is_dry else ()
        gone = tuple([node for node in region if node.id in removed])
        return Change(gone, tuple(candidate.nodes), candidate.replaced, moved, wanted, sources)

    def replaced_names(self, m: Match) -> tuple[str, ...]:
        """Return the names of the values that a match would replace."""
        return tuple(self._name(value) for value in self._bound(m, self._replaced))

    # ------------------------------------------------------------ what leaves
    def _places(self, names: Iterable[str]) -> tuple[tuple[int, bool], ...]:
        """Return the slots of names, each with whether it holds one value."""
        slots, kinds = self.program.scope.slots, self.program.scope.kinds
        return tuple((slots[name], kinds[name] is Kind.VALUE) for name in names if name in slots)

    def _bound(self, m: Match, places: Iterable[tuple[int, bool]]) -> list[int]:
        """Return the values in slots, each once."""
        found: dict[int, None] = {}
        for slot, is_one in places:
            value = m.slots[slot]
            if is_one and isinstance(value, int):
                found[value] = None
            elif isinstance(value, list | tuple):
                found.update({v: None for v in cast("Sequence[object]", value) if isinstance(v, int)})
        return list(found)

    def _removed(self, m: Match, matched: Mapping[int, Node], replaced: Sequence[int]) -> dict[int, Node]:
        """Return the nodes that leave. Raises Refused when somebody outside reads what they make."""
        site, editor, effects = self._site, self._site.editor, self._context.effects
        pending = [value for value in self._bound(m, self._read) if value not in replaced]
        for value in self._bound(m, self._shared) if self._shared else ():
            if editor.is_output(value) or any(reader not in matched for reader in editor.readers(value)):
                pending.append(value)
        kept: set[int] = set()
        while pending:
            node = site.producer(pending.pop())
            if node is not None and node.id in matched and node.id not in kept:
                kept.add(node.id)
                pending += node.reads()
        removed = {node_id: node for node_id, node in matched.items() if node_id not in kept}
        for node in removed.values():
            if node.op in effects and not self._rebuilds(node.op):
                raise Refused(f"{node.op} has effects and would be dropped")
            for value in node.outputs:
                if value is None or value in replaced:
                    continue
                if editor.is_output(value):
                    raise Refused(f"{self._name(value)} is a graph output")
                for reader in editor.readers(value):
                    if reader not in matched:
                        raise Refused(f"{self._name(value)} has readers outside the match")
        for value in replaced:
            node = site.producer(value)
            if node is None or node.id not in removed:
                raise Refused(f"{self._name(value)} is needed by what would replace it")
        return removed

    def _rebuilds(self, op: str) -> bool:
        pending: list[BuildArg] = [line.build for line in self.rule.rewrite]
        while pending:
            build = pending.pop()
            if isinstance(build, BuildFunction):
                return True
            if isinstance(build, BuildCall):
                if getattr(build.op, "name", "") == op:
                    return True
                pending += build.args
        return False

    def _name(self, value: int) -> str:
        return self._site.values[value].name or f"%{value}"

    # ------------------------------------------------------------ guards, folds, gates
    def _run_steps(self, m: Match, count: RuleCount) -> bool:
        scope = self.program.scope
        for place, step in enumerate(self.rule.steps):
            seen = self._evaluator.seen(m, scope, _expr_of(step))
            if isinstance(step, Condition):
                if not self._holds(step, seen, m, count, place):
                    return False
                continue
            try:
                found = self._evaluator.folds.fold(step, seen)
            except Reject as reject:
                raise Refused(reject.reason) from None
            except RuleError as error:
                self._note(error.diagnostics)
                raise Refused(error.diagnostics[0].message) from None
            for name, value in found.items():
                slot = scope.slots[name]
                if m.slots[slot] is UNBOUND:
                    m.bind(slot, value)
                else:
                    m.slots[slot] = value
        return True

    def _holds(self, condition: Condition, seen: dsl.Scope, m: Match, count: RuleCount, place: int) -> bool:
        verdict = dsl.judge(condition, seen)
        if verdict.holds:
            return True
        if verdict.fault is not None:
            self._note([verdict.fault])
        count.refuse(verdict.reason)
        depth = self.program.n_calls + 1 + place
        is_best = count.best is None or count.best.depth < depth
        if is_best or isinstance(m, WatchedMatch):
            names = names_of(condition.test)
            values = ", ".join(spoken({name: seen.names[name] for name in names if name in seen.names}))
            if isinstance(m, WatchedMatch):
                m.refuse(Refusal("guard", place, condition.span, verdict.reason, values))
            if not is_best:
                return False
            reason = f"{verdict.reason} ({values})" if values else verdict.reason
            count.best = partial_at(m, self._site, depth, condition.span, reason)
        return False

    def _note(self, faults: Sequence[Diagnostic]) -> None:
        for fault in faults:
            if len(self.faults) < 8 and fault not in self.faults:
                self.faults.append(fault)

    # ------------------------------------------------------------ checks of the candidate
    def _build(self, builder: Builder) -> None:
        try:
            builder.run()
        except FunctionError:  # no match is at fault
            raise
        except GerulesError as error:
            raise Refused(error.diagnostics[0].message) from None

    def _checked_types(self, candidate: Candidate) -> dict[int, ValueType]:
        """Return the types of all values made. Raises Refused when a replaced one would change its type."""
        site, nodes, forward = self._site, candidate.nodes, candidate.forward
        made: set[int] = set()
        if nodes:
            self._check_ops(candidate)
            made.update(value for node in nodes for value in node.writes())
        gone = {value for node in candidate.removed.values() for value in node.writes()}
        for reads in (*[node.reads() for node in nodes], forward.values()):
            for value in reads:
                if value in gone and value not in made:
                    raise Refused(f"{self._name(value)} would be read but no longer made")
        types = {value: type for value, type in candidate.types.items() if value in candidate.values}
        for value in candidate.replaced:
            new = forward.get(value, value)
            if new not in made and value not in forward:
                raise Refused(f"{self._name(value)} would no longer be made")
            old_type = site.values[value].type
            found = candidate.type_of(new)
            if found is None:
                continue
            both = unify_plain(old_type, found)
            if both is None:
                raise Refused(f"{self._name(value)} would change from {old_type} to {found}")
            if new == value or new in candidate.values:
                types[new] = both
        return types

    def _check_ops(self, candidate: Candidate) -> None:
        """Raise Refused for new operators that the device lacks, or that have effects."""
        before = {old.op for old in candidate.removed.values()}
        for node in candidate.nodes:
            if not node.bodies and node.op not in before:
                if self._context.lacks(node.op):
                    raise Refused(f"the device has no kernel for {node.op}")
                if node.op in self._context.effects:
                    raise Refused(f"{node.op} has effects and would be made")

    # ------------------------------------------------------------ marks
    def _marks(
        self, m: Match, candidate: Candidate, known: Mapping[int, Mapping[str, object]]
    ) -> dict[int, dict[str, object]]:
        """Return what `annotate` writes that is not written yet; the first rule to write a key wins."""
        found: dict[int, dict[str, object]] = {}
        for line in self.rule.annotations:
            slot = self.program.scope.slots.get(line.value_name.name)
            bound = m.slots[slot] if slot is not None else None
            items = cast("Sequence[object]", bound) if isinstance(bound, list | tuple) else [bound]
            seen = self._evaluator.seen(m, self.program.scope, line.value)
            try:
                value = dsl.evaluate(line.value, seen)
            except Reject as reject:
                raise Refused(reject.reason) from None
            except RuleError as error:
                self._note(error.diagnostics)
                raise Refused(error.diagnostics[0].message) from None
            for item in items:
                node = self._maker(item, candidate)
                if node is not None and line.key.name not in known.get(node, {}):
                    found.setdefault(node, {})[line.key.name] = value
        return found

    def _maker(self, value: object, candidate: Candidate) -> int | None:
        if not isinstance(value, int):
            return None
        for node in candidate.nodes:
            if value in node.outputs:
                return node.id
        old = self._site.producer(candidate.forward.get(value, value))
        return None if old is None else old.id

    # ------------------------------------------------------------ commit
    def _commit(self, candidate: Candidate, types: Mapping[int, ValueType]) -> Sequence[int]:
        """Change the graph, and return the nodes that read another value now, or of another type."""
        editor, nodes, forward = self._site.editor, candidate.nodes, candidate.forward
        new_values: list[int] = []
        new_consts: list[int] = []
        if candidate.values:
            used = {value for node in nodes for value in (*node.reads(), *node.writes())}
            used.update(forward.values())
            for value, record in candidate.values.items():
                if value in used:
                    new_values.append(value)
                    editor.values[value] = GraphValue(value, record.name, types.get(value, record.type))
                    const = candidate.consts.get(value)
                    if const is not None:
                        new_consts.append(value)
                        editor.consts[value] = const
        try:
            moved = editor.substitute(candidate.removed, nodes, forward)
        except (CycleError, ValueError) as error:
            for value in new_values:
                del editor.values[value]
            for value in new_consts:
                del editor.consts[value]
            if isinstance(error, CycleError):
                raise Refused("nodes outside lie between the matched ones: it would close a cycle") from None
            raise Refused(str(error)) from None
        for value in candidate.replaced:
            new = forward.get(value, value)
            type = types.get(new)
            if type is not None and type != editor.values[new].type:
                editor.set_type(new, type)
                moved = [*moved, *editor.readers(new)]
        for value in new_consts:
            self._site.op_of[value] = CONST
        return moved


def _expr_of(step: Condition | FoldLine) -> dsl.Expr:
    return step.test if isinstance(step, Condition) else step.value


def unify_plain(old: ValueType, new: ValueType) -> ValueType | None:
    """Unify two types, the storage format of the old one kept."""
    if old is new or old == new:
        return old
    if isinstance(old, TensorType) and isinstance(new, TensorType):
        return unify(old, TensorType(new.dtype, new.shape, old.format, old.groups))
    return unify(old, new)


def origin_of(region: Sequence[Node], rule: str, phase: str) -> Origin:
    """Return the origin of what replaces a region: its sources in graph order, its rules and this one."""
    if len(region) == 1:
        sources, rules = sources_of(region[0]), region[0].origin.rules
    else:
        sources = tuple(dict.fromkeys([name for node in region for name in sources_of(node)]))
        rules = dict.fromkeys([name for node in region for name in node.origin.rules])
    return Origin(sources, (*[name for name in rules if name != rule], rule), phase)


def is_same_region(candidate: Candidate) -> bool:
    """Whether every replaced value would be computed as it is now."""
    if candidate.forward or not candidate.replaced:
        return False
    new_maker = {value: node for node in candidate.nodes for value in node.writes()}
    site = candidate.site
    for value in candidate.replaced:
        one, two = site.producer(value), new_maker.get(value)
        if one is not None and two is not None and one.op != two.op:
            return False  # the common case, at no cost
    pairs = [(value, value) for value in candidate.replaced]
    seen: set[tuple[int, int]] = set()
    while pairs:
        old, new = pairs.pop()
        if (old, new) in seen:
            continue
        seen.add((old, new))
        one, two = site.producer(old), new_maker.get(new)
        if two is None:
            left, right = candidate.const_of(old), candidate.const_of(new)
            if old != new and not (left is not None and right is not None and left.equals(right)):
                return False
            continue
        if one is None or one.op != two.op or len(one.inputs) != len(two.inputs) or one.bodies or two.bodies:
            return False
        if one.attrs.keys() != two.attrs.keys() or not all(
            is_equal(value_of_attr(one.attrs[k]), value_of_attr(two.attrs[k]), None) for k in one.attrs
        ):
            return False
        schema = site.schema(one.op)
        if schema is not None and schema.is_commutative and set(one.inputs) == set(two.inputs):
            continue
        for before, after in zip(one.inputs, two.inputs, strict=True):
            if before is None or after is None:
                if before is not after:
                    return False
            else:
                pairs.append((before, after))
    return True
