"""The index of a graph under change: nodes by operator, and by the operators of what they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gerules.ir import GraphEditor, Node

CONST: Final = "<const>"
"""Stands for the operator of a value that is known at compile time."""


@dataclass(frozen=True, slots=True)
class Feature:
    """Something a graph must have for a rule to match: an operator of `ops`, reading one of `sources`.

    With `sources` None the operator alone is asked for.
    """

    ops: frozenset[str]
    sources: frozenset[str] | None = None


class Bucket:
    """Nodes with one feature, in the order found; some may be gone or changed since."""

    __slots__ = ("nodes", "waiting")

    def __init__(self) -> None:
        self.nodes: dict[int, None] = {}
        self.waiting: list[int] = []
        """Programs that were not tried because this was empty."""


class GraphIndex:
    """Buckets for the features that a set of rules asks for. Others cost nothing."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self.by_op: dict[str, Bucket] = {}
        self.by_edge: dict[str, dict[str, Bucket]] = {}
        """Operator of the reader, then operator of what it reads."""
        self.op_of: dict[int, str] = {}
        """The operator that produces a value; `CONST` for initializers."""
        self.woken: list[int] = []
        """Programs whose missing feature appeared since this was last emptied."""
        for feature in features:
            for op in feature.ops:
                if feature.sources is None:
                    self.by_op.setdefault(op, Bucket())
                else:
                    row = self.by_edge.setdefault(op, {})
                    for source in feature.sources:
                        row.setdefault(source, Bucket())

    def fill(self, editor: GraphEditor, consts: Mapping[int, object]) -> None:
        """Enter every node of a graph, in topological order."""
        op_of = self.op_of
        op_of.update(dict.fromkeys(consts, CONST))
        by_op, by_edge = self.by_op, self.by_edge
        for node_id, node in editor.nodes.items():
            op = node.op
            for value in node.outputs:
                if value is not None:
                    op_of[value] = op
            bucket = by_op.get(op)
            if bucket is not None:
                bucket.nodes[node_id] = None
            row = by_edge.get(op)
            if row is not None:
                for value in node.inputs:
                    source = op_of.get(value) if value is not None else None
                    bucket = row.get(source) if source is not None else None
                    if bucket is not None:
                        bucket.nodes[node_id] = None

    def add_consts(self, values: Iterable[int]) -> None:
        """Enter new initializers."""
        self.op_of.update(dict.fromkeys(values, CONST))

    def declare(self, node: Node) -> None:
        """Say what produces a new node's outputs; all of a rewrite are declared before one is added."""
        for value in node.writes():
            self.op_of[value] = node.op

    def add(self, node: Node, values: Iterable[int | None]) -> None:
        """Enter a node that is new, or reads some values that have changed."""
        bucket = self.by_op.get(node.op)
        if bucket is not None:
            self._enter(bucket, node.id)
        row = self.by_edge.get(node.op)
        if row is not None:
            for value in values:
                source = self.op_of.get(value) if value is not None else None
                bucket = row.get(source) if source is not None else None
                if bucket is not None:
                    self._enter(bucket, node.id)

    def count(self, feature: Feature) -> int:
        """How many nodes have (or had) a feature; an upper bound."""
        return sum(len(bucket.nodes) for bucket in self.buckets(feature))

    def nodes(self, feature: Feature) -> list[int]:
        """Return the nodes that have (or had) a feature."""
        buckets = [bucket.nodes for bucket in self.buckets(feature) if bucket.nodes]
        if len(buckets) == 1:
            return list(buckets[0])
        return list(dict.fromkeys(node for bucket in buckets for node in bucket))

    def wait(self, feature: Feature, program: int) -> None:
        """Ask to be told, through `woken`, when a feature that no node has appears."""
        for bucket in self.buckets(feature):
            bucket.waiting.append(program)

    def _enter(self, bucket: Bucket, node_id: int) -> None:
        if bucket.waiting:
            self.woken += bucket.waiting
            bucket.waiting.clear()
        bucket.nodes[node_id] = None

    def buckets(self, feature: Feature) -> Iterator[Bucket]:
        """Yield the buckets that hold the nodes with a feature."""
        if feature.sources is None:
            for op in feature.ops:
                yield self.by_op[op]
        else:
            for op in feature.ops:
                row = self.by_edge[op]
                for source in feature.sources:
                    yield row[source]
