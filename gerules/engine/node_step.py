"""The step that matches one node: operator, arity, attributes, then its operands in every allowed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from gerules.engine.binding import UNBOUND, Link, Match, Step
from gerules.engine.keywords import Keywords
from gerules.engine.site import Site
from gerules.errors import Span
from gerules.ir import Node


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What a call pattern asks of one node, apart from its keywords."""

    ops: frozenset[str]
    source: int
    """Slot of the value looked at, which is output number `place` of the node."""
    place: int
    node_slot: int
    slots: tuple[int, ...]
    """Slots for the operands, in the order of the pattern."""
    filters: tuple[frozenset[str] | None, ...]
    """Operators that can produce each operand; None: anything."""
    spans: tuple[Span, ...]
    """The words for each operand."""
    may_commute: bool
    is_open: bool
    """Whether further inputs are accepted; they go to `rest_slot` if there is one."""
    rest_slot: int | None
    op_slot: int | None
    bind_outputs: Callable[[Match, Sequence[int | None]], bool] | None
    depth: int
    span: Span


_MOST_COMMUTED: Final = 6
"""Operands of a commutative operator whose orders are all tried."""


def node_link(shape: NodeShape, site: Site, keywords: Keywords) -> Link:
    """Match a node; operands are tried in every order when the operator commutes."""
    ops, source, place, node_slot = shape.ops, shape.source, shape.place, shape.node_slot
    slots, filters, depth, span = shape.slots, shape.filters, shape.depth, shape.span
    spans = shape.spans
    rest_slot, op_slot, bind_outputs, is_open = (
        shape.rest_slot,
        shape.op_slot,
        shape.bind_outputs,
        shape.is_open,
    )
    forms = keywords.forms
    n_args = len(slots)
    as_written = (tuple(range(n_args)),)
    may_commute = shape.may_commute and 1 < n_args <= _MOST_COMMUTED
    all_orders = tuple(permutations(range(n_args))) if may_commute else as_written

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
                    if m.best_depth > depth:
                        return False
                    words, read = form.blame(check, node)
                    return m.miss(depth + 1, words or span, m.value(source) if read is None else read)
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
            n_best, stopper = -1, None
            for order in orders:
                for pattern_place, input_place in enumerate(order):
                    found = inputs[input_place] if input_place < n_inputs else None
                    accepted = filters[pattern_place]
                    if accepted is not None and (found is None or op_of.get(found) not in accepted):
                        if pattern_place > n_best:
                            n_best, stopper = pattern_place, found
                        break
                    slots_of_match[slots[pattern_place]] = found
                else:
                    if nxt(m):
                        return True
            m.nodes.pop()
            m.undo(mark)
            if stopper is not None and m.best_depth <= depth:
                return m.miss(depth + 1, spans[n_best], stopper)
            return m.miss(depth + 1, span, m.value(source))

        return step

    return link


def _bind_op(m: Match, slot: int, node: object) -> bool:
    known = m.slots[slot]
    if known is UNBOUND:
        m.bind(slot, node)
        return True
    return isinstance(known, Node) and isinstance(node, Node) and known.op == node.op
