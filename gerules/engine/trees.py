"""`Op~(a, b, c)`: a tree of one operator with exactly these leaves, in any order and association."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gerules.engine.binding import Link, Match, Step
from gerules.engine.site import Site
from gerules.errors import Span
from gerules.ir import Node


def tree_link(
    site: Site,
    op: str,
    source: int,
    node_slot: int,
    slots: Sequence[int],
    filters: Sequence[frozenset[str] | None],
    depth: int,
    span: Span,
) -> Link:
    """Match a tree whose root is in slot `source`; leaf `i` of the pattern goes to `slots[i]`.

    Inner nodes of the tree have no other reader. Leaves are tried in every order that `filters`
    (operators that can produce each) allow.
    """
    n_leaves = len(slots)

    def link(nxt: Step) -> Step:
        def step(m: Match) -> bool:
            value = m.slots[source]
            root = site.producer(value) if isinstance(value, int) else None
            if root is None or root.op != op:
                return m.miss(depth, span, m.value(source))
            m.slots[node_slot] = root
            for leaves, nodes in _trees(root, n_leaves, site):
                m.spend()
                height = len(m.nodes)
                m.nodes += nodes
                if _assign(m, leaves, 0, slots, filters, site, nxt):
                    return True
                del m.nodes[height:]
            return m.miss(depth + 1, span, m.value(source))

        return step

    return link


def _trees(root: Node, n_leaves: int, site: Site) -> Iterator[tuple[list[int], list[Node]]]:
    """Yield each way to open inner nodes of a tree until it has so many leaves."""
    pending: list[tuple[list[int], int, list[Node]]] = [(_operands(root), 0, [root])]
    while pending:
        leaves, place, nodes = pending.pop()
        if len(leaves) == n_leaves:
            yield leaves, nodes
            continue
        if len(leaves) > n_leaves or place >= len(leaves):
            continue
        pending.append((leaves, place + 1, nodes))
        inner = _inner(leaves[place], root.op, site)
        if inner is not None:
            opened = [*leaves[:place], *_operands(inner), *leaves[place + 1 :]]
            pending.append((opened, place, [*nodes, inner]))


def _inner(value: int, op: str, site: Site) -> Node | None:
    """Return the node of a value that can be opened: the same operator, read by the tree alone."""
    node = site.producer(value)
    if node is None or node.op != op or node.attrs or len(node.inputs) < 2 or site.editor.n_uses(value) != 1:
        return None
    return node


def _operands(node: Node) -> list[int]:
    return [value for value in node.inputs if value is not None]


def _assign(
    m: Match,
    leaves: Sequence[int],
    place: int,
    slots: Sequence[int],
    filters: Sequence[frozenset[str] | None],
    site: Site,
    nxt: Step,
) -> bool:
    """Give each slot from `place` on one of the leaves left, and go on; backtracks over the orders."""
    if place == len(slots):
        return nxt(m)
    accepted = filters[place]
    tried: set[int] = set()
    for index, value in enumerate(leaves):
        if value in tried or (accepted is not None and site.op_of.get(value) not in accepted):
            continue
        tried.add(value)
        m.spend()
        m.slots[slots[place]] = value
        if _assign(m, [*leaves[:index], *leaves[index + 1 :]], place + 1, slots, filters, site, nxt):
            return True
    return False
