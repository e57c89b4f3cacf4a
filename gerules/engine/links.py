"""Single steps: binding, comparing, branching. Each gets its value from a slot and calls the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gerules.dsl.syntax import AnyTargets, RestTargets, Target
from gerules.dsl.tree import RuleError
from gerules.dsl.values import Reject, Value
from gerules.engine.binding import UNBOUND, Link, Match, Scope, Step, chain_up
from gerules.engine.keywords import is_equal
from gerules.engine.site import Site
from gerules.engine.value_types import is_number
from gerules.errors import Span

Check = Callable[[Match, int], bool]


def branch(branches: list[list[Link]]) -> Link:
    """Try several ways in order."""

    def link(nxt: Step) -> Step:
        steps = tuple(chain_up(links, nxt) for links in branches)

        def step(m: Match) -> bool:
            m.budget -= 1
            if m.budget < 0:
                m.spend()
            return any(inner(m) for inner in steps)

        return step

    return link


def plain_value(
    slot: int,
    source: int,
    checks: Sequence[Check],
    site: Site,
    depth: int,
    span: Span,
    *,
    needs_value: bool = True,
) -> Link:
    """A value: bound, or compared with what the name is bound to."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            found = m.slots[source]
            known = m.slots[slot]
            if known is not UNBOUND and not agrees(known, found, site):
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


def optional_value(
    slot: int, source: int, checks: Sequence[Check], site: Site, depth: int, span: Span
) -> Link:
    """A value that may be absent; then the name is bound to none."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            found = m.slots[source]
            known = m.slots[slot]
            if known is not UNBOUND and not agrees(known, found, site):
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


def ignored(source: int, is_optional: bool, checks: Sequence[Check], depth: int, span: Span) -> Link:
    """A value that no name takes; only its type is checked."""

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


def absent(source: int) -> Link:
    """An absent input."""
    return lambda nxt: lambda m: m.slots[source] is None and nxt(m)


def copy(source: int, slot: int) -> Link:
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


def attribute(slot: int, source: int) -> Link:
    """An attribute from inside a sub-pattern: bound, or compared with what the name is bound to."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            found, known = m.slots[source], m.slots[slot]
            if known is not UNBOUND:
                return (known is found or is_equal(known, found, None)) and nxt(m)
            mark = len(m.trail)
            m.bind(slot, found)
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def attribute_is(wanted: object, source: int, depth: int, span: Span) -> Link:
    """An attribute from inside a sub-pattern that has to have a value."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            if not is_equal(m.slots[source], wanted, None):
                return m.miss(depth, span, None)
            return nxt(m)

        return step

    return link


def bind_none(slots: Sequence[int]) -> Link:
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


def bind_result(slot: int, compute: Callable[[Match], Value], depth: int, span: Span) -> Link:
    """Bind a name to what an expression gives; where that has no value, this way does not match."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            mark = len(m.trail)
            if m.slots[slot] is UNBOUND:
                try:
                    found = compute(m)
                except Reject as reject:
                    return m.miss(depth, span, None, f"`{span.text}` is not known: {reject.reason}")
                except RuleError as error:
                    return m.miss(depth, span, None, error.diagnostics[0].message)
                m.bind(slot, found)
            if nxt(m):
                return True
            m.undo(mark)
            return False

        return step

    return link


def guard(holds: Callable[[Match], bool], depth: int, span: Span) -> Link:
    """Go on only when a condition holds."""
    return lambda nxt: lambda m: nxt(m) if holds(m) else m.miss(depth, span, None)


def bind_targets(
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


def agrees(known: object, found: object, site: Site) -> bool:
    """Whether two bindings are one value, or equal constants, or both absent."""
    if isinstance(known, int) and isinstance(found, int):
        return known == found or site.is_same(known, found)
    return known is found


def keeps_rank(m: Match, at: int, value: int | None, rank: int, site: Site) -> bool:
    """Whether some other operand has at least this rank, so that the number does not raise the result's."""
    node = m.slots[at] if at >= 0 else None
    inputs = getattr(node, "inputs", ())
    others = [site.rank_of(other) for other in inputs if other is not None and other != value]
    return any(other is not None and other >= rank for other in others)


def number(
    wanted: float | None, tolerance: float | None, source: int, at: int, site: Site, depth: int, span: Span
) -> Link:
    """A one-element constant with this value; slot `at` has the node that reads it."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            value = m.value(source)
            const = site.const(value)
            if const is None or wanted is None or not is_number(const, wanted, tolerance):
                return m.miss(depth, span, value)
            if const.array.ndim and not keeps_rank(m, at, value, const.array.ndim, site):
                return m.miss(depth, span, value)
            return nxt(m)

        return step

    return link


def defined(slot: int, source: int, links: list[Link], checks: Sequence[Check], site: Site) -> Link:
    """A name with a definition: compared when something else bound it, else bound and followed."""

    def link(nxt: Step) -> Step:
        follow = chain_up(links, nxt)

        def step(m: Match) -> bool:
            found = m.slots[source]
            known = m.slots[slot]
            if known is not UNBOUND:
                return agrees(known, found, site) and nxt(m)
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
