"""Readers of one value, and nodes of one operator, in graph order: how the roots of a rule find each other.

A search looks at a few neighbours in that order and never at all of them, so that a value with 800
readers costs eight times one with 100.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Iterator
from typing import Final

from gerules.ir import GraphEditor, Node

_Row = list[tuple[float, int]]

_MOST_DEAD: Final = 32
"""A walk that passes more nodes which are gone takes them out of the row."""


class Fans:
    """Rows of nodes by order key, made when first asked for and kept up to date."""

    def __init__(self, editor: GraphEditor) -> None:
        self._editor = editor
        self._by_value: dict[int, _Row] = {}
        self._by_ops: dict[frozenset[str], _Row] = {}

    def add(self, node: Node, values: Iterable[int | None]) -> None:
        """Enter a node that is new, or reads some values that have changed."""
        if not self._by_value and not self._by_ops:
            return
        entry = (self._editor.order_key(node.id), node.id)
        for value in values:
            row = self._by_value.get(value) if value is not None else None
            if row is not None:
                _enter(row, entry)
        for ops, row in self._by_ops.items():
            if node.op in ops:
                _enter(row, entry)

    def readers(self, value: int, around: int, n_after: int, n_before: int) -> Iterator[Node]:
        """Yield readers of a value that come after a node, nearest first, then some that come before it."""
        alive = self._editor.readers(value)
        row = self._by_value.get(value)
        if row is None or not self._is_current(row, around):
            row = self._by_value[value] = self._sorted(alive)
        elif len(row) > 2 * len(alive) + 16:
            row[:] = [entry for entry in row if entry[1] in alive]
        nodes = self._editor.nodes
        for node_id in self._walk(row, around, n_after, n_before, alive):
            yield nodes[node_id]

    def with_ops(self, ops: frozenset[str], around: int, n_after: int) -> Iterator[Node]:
        """Yield nodes with one of these operators that come after a node, nearest first."""
        nodes = self._editor.nodes
        row = self._by_ops.get(ops)
        if row is None or not self._is_current(row, around):
            row = self._by_ops[ops] = self._sorted(i for i, node in nodes.items() if node.op in ops)
        for node_id in self._walk(row, around, n_after, 0, nodes):
            yield nodes[node_id]

    def _walk(self, row: _Row, around: int, n_after: int, n_before: int, alive: Container[int]) -> list[int]:
        key = self._editor.order_key(around)
        found: list[int] = []
        end = bisect_right(row, (key, around))
        while end < len(row) and len(found) < n_after:
            if row[end][1] in alive:
                found.append(row[end][1])
            end += 1
        n_wanted = len(found) + n_before
        start = bisect_left(row, (key, around))
        while start > 0 and len(found) < n_wanted:
            start -= 1
            if row[start][1] in alive:
                found.append(row[start][1])
        if end - start > 2 * len(found) + _MOST_DEAD:
            # Nobody passes the same dead entries again and again.
            row[start:end] = [entry for entry in row[start:end] if entry[1] in alive]
        return found

    def _sorted(self, node_ids: Iterable[int]) -> _Row:
        return sorted((self._editor.order_key(node_id), node_id) for node_id in node_ids)

    def _is_current(self, row: _Row, around: int) -> bool:
        """Whether order keys are still those that were entered; the editor may renumber them."""
        entry = (self._editor.order_key(around), around)
        place = bisect_left(row, entry)
        return place < len(row) and row[place] == entry


def _enter(row: _Row, entry: tuple[float, int]) -> None:
    place = bisect_left(row, entry)
    if place == len(row) or row[place] != entry:
        insort(row, entry)
