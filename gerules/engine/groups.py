"""Rules with several roots, and `many` groups: finding the other roots from what one of them bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gerules.engine.binding import UNBOUND, Link, Match, Step
from gerules.engine.requirements import MOST_LEAVES, Rung
from gerules.engine.site import Site
from gerules.errors import Span
from gerules.ir import Node

NEIGHBOURS: Final = 16
"""Other roots are looked for among this many readers of the shared value, on either side in graph order."""

ORDERED_TRIES: Final = 4
"""With `ordered(a, b)`, `b` is one of this many that come next after `a`."""

LARGEST_GROUP: Final = 64
"""Members of a group without upper bound."""

TREE_LEVELS: Final = MOST_LEAVES - 1
"""Nodes on the way from a leaf of `Op~(...)` to its root."""

_DEEPEST_LOOK: Final = 1_000
"""Nodes looked at to see that two members of a group do not depend on each other."""


def climb(nodes: Sequence[Node], rungs: Sequence[Rung], site: Site) -> list[Node]:
    """Return the nodes reached from `nodes` through readers, level by level."""
    editor = site.editor
    level = {node.id: node for node in nodes}
    for rung in rungs:
        above = dict(level) if rung.is_optional else {}
        fresh = list(level.values())
        for _ in range(TREE_LEVELS if rung.repeats else 1):
            found: list[Node] = []
            for node in fresh:
                for value in node.writes():
                    for reader in editor.readers(value):
                        node_above = editor.nodes[reader]
                        if node_above.op in rung.ops and reader not in above:
                            above[reader] = node_above
                            found.append(node_above)
            fresh = found
            if not fresh:
                break
        level = above
    return list(level.values())


@dataclass(frozen=True, slots=True)
class OtherRoot:
    """How to find one more root: the slot of a bound value, and the climb from there."""

    bound_slot: int
    rungs: tuple[Rung, ...]
    place: int
    """Which output of the root node the pattern starts from."""
    after_slot: int | None = None
    """Slot of a value that `ordered` puts right before this root."""
    depth: int = 0
    span: Span | None = None
    note: str = ""
    """Where the root stands in the rule, and what to say when there is no candidate for it."""


def other_root_link(site: Site, found_slot: int, root: OtherRoot, first_slot: int) -> Link:
    """Try each candidate for another root; its value goes to `found_slot`."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            taken = {node.id for node in m.nodes}
            is_alone = True
            for node in _candidates(m, site, root, first_slot):
                value = node.outputs[root.place] if root.place < len(node.outputs) else None
                if node.id in taken or value is None:
                    continue
                m.spend()
                is_alone = False
                m.slots[found_slot] = value
                if nxt(m):
                    return True
            if is_alone and root.span is not None:
                return m.miss(root.depth, root.span, None, root.note)
            return False

        return step

    return link


def _candidates(m: Match, site: Site, root: OtherRoot, first_slot: int) -> Iterator[Node]:
    value, first = m.value(root.bound_slot), m.value(first_slot)
    after = m.value(root.after_slot) if root.after_slot is not None else None
    around = site.producer(after if after is not None else first) if first is not None else None
    if value is None or around is None:
        return
    lowest = root.rungs[0]
    n_after, n_before = (ORDERED_TRIES, 0) if after is not None else (NEIGHBOURS, NEIGHBOURS)
    for node in site.fans.readers(value, around.id, n_after, n_before):
        if node.op in lowest.ops:
            start = [node]
            rest = root.rungs[1:]
            yield from climb(start, rest, site) if rest else start
    if lowest.is_optional:
        own = site.producer(value)
        if own is not None:
            yield from climb([own], root.rungs[1:], site)


@dataclass(frozen=True, slots=True)
class Group:
    """A `many` block, compiled: how its members are matched, found and collected."""

    least: int
    most: int
    source_slot: int
    place: int
    member: Step
    collected: tuple[int, ...]
    """Slots that differ between members; each becomes a list."""
    same: tuple[int, ...]
    shared_slot: int | None
    """Slot of the value that all members read, when there is one."""
    rungs: tuple[Rung, ...]
    ops: frozenset[str]
    within_limits: Callable[[Match], bool]


def group_link(site: Site, group: Group) -> Link:
    """Match the member in `source_slot` and as many like it as may be; then go on with lists bound."""

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            mark, height = len(m.trail), len(m.nodes)
            seed = site.producer(m.value(group.source_slot) or -1)
            lists: list[list[object]] = [[] for _ in group.collected]
            if seed is None or not _take(m, group, lists):
                m.undo(mark)
                del m.nodes[height:]
                return False
            roots = [seed]
            for node in _likely(m, site, group, seed):
                if len(roots) == group.most:
                    break
                value = node.outputs[group.place] if group.place < len(node.outputs) else None
                if value is None or any(node.id == root.id for root in roots) or _depends(node, roots, site):
                    continue
                m.spend()
                m.slots[group.source_slot] = value
                before = len(m.nodes)
                if not _take(m, group, lists):
                    continue
                if not _within(m, group, lists):
                    for items in lists:
                        items.pop()
                    del m.nodes[before:]
                    break
                roots.append(node)
            if len(roots) >= group.least:
                for slot, items in zip(group.collected, lists, strict=True):
                    m.bind(slot, items)
                if nxt(m):
                    return True
            m.undo(mark)
            del m.nodes[height:]
            return False

        return step

    return link


def _take(m: Match, group: Group, lists: list[list[object]]) -> bool:
    """Match one member and collect what it bound; only what all members share stays bound."""
    mark, height = len(m.trail), len(m.nodes)
    if not group.member(m):
        m.undo(mark)
        del m.nodes[height:]
        return False
    shared = [(slot, m.slots[slot]) for slot in group.same]
    for slot, items in zip(group.collected, lists, strict=True):
        found = m.slots[slot]
        items.append(None if found is UNBOUND else found)
    m.undo(mark)
    for slot, value in shared:
        if m.slots[slot] is UNBOUND:
            m.bind(slot, value)
    return True


def _within(m: Match, group: Group, lists: list[list[object]]) -> bool:
    mark = len(m.trail)
    for slot, items in zip(group.collected, lists, strict=True):
        m.bind(slot, items)
    holds = group.within_limits(m)
    m.undo(mark)
    return holds


def _likely(m: Match, site: Site, group: Group, seed: Node) -> Iterator[Node]:
    n_looked_at = 4 * group.most
    if group.shared_slot is None:
        yield from site.fans.with_ops(group.ops, seed.id, n_looked_at)
        return
    value = m.value(group.shared_slot)
    if value is None:
        return
    for node in list(site.fans.readers(value, seed.id, n_looked_at, 0)):
        if node.op in group.rungs[0].ops:
            yield from climb([node], group.rungs[1:], site)


def _depends(node: Node, roots: Sequence[Node], site: Site) -> bool:
    """Whether a node needs what one of `roots` makes; also when that would take too long to see."""
    editor = site.editor
    wanted = {root.id for root in roots}
    low = min(editor.order_key(root) for root in wanted)
    seen: set[int] = set()
    pending = [node]
    while pending:
        for value in pending.pop().reads():
            producer = site.producer(value)
            if producer is None or producer.id in seen or editor.order_key(producer.id) < low:
                continue
            if producer.id in wanted or len(seen) > _DEEPEST_LOOK:
                return True
            seen.add(producer.id)
            pending.append(producer)
    return False
