"""Whether two graphs are one: the same operators wired alike, whatever their values are called."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gerules.ir import UNKNOWN, Attr, Const, Graph, Node
from gerules.ops import Schemas

_RTOL = 1e-6
"""Folded constants may differ in the last digit from one machine to the next."""


class Differs(Exception):  # noqa: N818 - an outcome, not a fault
    """Two graphs are not the same; says where."""


def explain_difference(
    want: Graph, found: Graph, schemas: Schemas, *, with_origin: bool = False
) -> str | None:
    """Return what distinguishes two graphs, or None when they are one graph.

    Compared are operators, wiring (one value read twice is not two values), attributes with defaults
    filled in, types where `want` writes them, constants by value, and the names of inputs and outputs;
    what leads to no output counts too.

    Args:
        with_origin: Names of nodes, their sources and their rules are compared as well.
    """
    try:
        _Comparison(schemas, with_origin).graphs(want, found, {}, {}, "")
    except Differs as difference:
        return str(difference)
    return None


class _Comparison:
    def __init__(self, schemas: Schemas, with_origin: bool) -> None:
        self.schemas = schemas
        self.with_origin = with_origin

    def graphs(
        self, want: Graph, found: Graph, captured: Mapping[int, int], opsets: Mapping[str, int], path: str
    ) -> None:
        """Compare two graphs; `captured` pairs values that stand for outer ones."""
        names = [[graph.values[v].name for v in graph.inputs] for graph in (want, found)]
        if names[0] != names[1] and not path:
            raise Differs(f"{path}inputs are {names[1]}, not {names[0]}")
        outputs = [[graph.values[v].name for v in graph.outputs] for graph in (want, found)]
        if len(want.outputs) != len(found.outputs) or len(want.inputs) != len(found.inputs):
            raise Differs(f"{path}{len(found.inputs)} inputs and {len(found.outputs)} outputs")
        if outputs[0] != outputs[1] and not path:
            raise Differs(f"outputs are {outputs[1]}, not {outputs[0]}")
        if want.opsets and dict(want.opsets) != dict(found.opsets):
            raise Differs(f"{path}opsets are {dict(found.opsets)}, not {dict(want.opsets)}")
        one = _Pairing(self, want, found, dict(opsets) | dict(want.opsets or found.opsets), path)
        for left, right in captured.items():
            one.values(left, right)
        for left, right in zip((*want.inputs, *want.outputs), (*found.inputs, *found.outputs), strict=True):
            one.values(left, right)
        one.rest()


class _Pairing:
    """Pairs values and nodes of two graphs from the outputs on; a pair once made holds."""

    def __init__(
        self, rules: _Comparison, want: Graph, found: Graph, opsets: Mapping[str, int], path: str
    ) -> None:
        self.rules, self.want, self.found, self.opsets, self.path = rules, want, found, opsets, path
        self.paired: dict[int, int] = {}
        self.taken: dict[int, int] = {}

    def values(self, left: int, right: int) -> None:
        """Pair two values and everything they are made from."""
        pending = [(left, right)]
        while pending:
            left, right = pending.pop()
            name = f"{self.path}{self.want.values[left].name or left}"
            if not self.pair(left, right, name):
                continue
            wanted = self.want.type_of(left)
            if wanted != UNKNOWN and wanted != self.found.type_of(right):
                raise Differs(f"{name} is {self.found.type_of(right)}, not {wanted}")
            for table in ("consts", "defaults"):
                mine, theirs = getattr(self.want, table).get(left), getattr(self.found, table).get(right)
                self.consts(mine, theirs, name)
            makers = self.want.producer.get(left), self.found.producer.get(right)
            if (makers[0] is None) != (makers[1] is None):
                raise Differs(f"{name} is {'computed' if makers[1] is not None else 'not computed'}")
            if makers[0] is not None and makers[1] is not None:
                pending += self.nodes(self.want.nodes[makers[0]], self.found.nodes[makers[1]], name)
            elif left in self.want.inputs and self.want.inputs.index(left) != self.found.inputs.index(right):
                raise Differs(f"{name} is another input")

    def pair(self, left: int, right: int, name: str) -> bool:
        """Pair two ids; False when they are a pair already."""
        known, other = self.paired.get(left), self.taken.get(right)
        if known == right and other == left:
            return False
        is_const = left in self.want.consts and right in self.found.consts
        if (known is not None or other is not None) and not is_const:
            stands = (
                self.found.values[right].name if right in self.found.values else self.found.nodes[right].op
            )
            raise Differs(f"{name} is shared differently: {stands or right} stands in its place")
        self.paired[left], self.taken[right] = right, left
        return True

    def nodes(self, left: Node, right: Node, name: str) -> list[tuple[int, int]]:
        """Compare two nodes; returns the values that must be pairs too."""
        if left.op != right.op:
            raise Differs(f"{name} comes from {right.op}, not from {left.op}")
        if not self.pair(left.id, right.id, name):
            return []
        mine, theirs = self.attrs(left), self.attrs(right)
        for key in sorted(mine.keys() | theirs.keys()):
            if not _same_attr(mine.get(key), theirs.get(key)):
                raise Differs(f"{name}: {left.op} has {key}={theirs.get(key)}, not {mine.get(key)}")
        if self.rules.with_origin:
            for what in ("name", "origin"):
                if getattr(left, what) != getattr(right, what):
                    raise Differs(f"{name}: {what} is {getattr(right, what)}, not {getattr(left, what)}")
        if len(left.inputs) != len(right.inputs) or len(left.outputs) != len(right.outputs):
            raise Differs(f"{name}: {left.op} has {len(right.inputs)} inputs, {len(right.outputs)} outputs")
        more: list[tuple[int, int]] = []
        ports = [*zip(left.inputs, right.inputs, strict=True), *zip(left.outputs, right.outputs, strict=True)]
        for one, two in ports:
            if (one is None) != (two is None):
                raise Differs(f"{name}: {left.op} has {'a' if two is not None else 'no'} value at a place")
            if one is not None and two is not None:
                more.append((one, two))
        if left.bodies.keys() != right.bodies.keys():
            raise Differs(f"{name}: bodies are {sorted(right.bodies)}, not {sorted(left.bodies)}")
        for key, body in left.bodies.items():
            self.body(body.captures, right.bodies[key].captures, name)
            inner = {a: b for (_, a), (_, b) in zip(body.captures, right.bodies[key].captures, strict=True)}
            path = f"{name}.{key}: "
            self.rules.graphs(body.graph, right.bodies[key].graph, inner, self.opsets, path)
            more += [(a, b) for (a, _), (b, _) in zip(body.captures, right.bodies[key].captures, strict=True)]
        return more

    def body(self, left: tuple[tuple[int, int], ...], right: tuple[tuple[int, int], ...], name: str) -> None:
        if len(left) != len(right):
            raise Differs(f"{name}: {len(right)} captures, not {len(left)}")

    def attrs(self, node: Node) -> dict[str, Attr]:
        schema = self.rules.schemas.get(node.op, self.opsets.get(node.op.rpartition("::")[0]) or None)
        filled = {} if schema is None else {k: s.default for k, s in schema.attrs.items()}
        return {k: v for k, v in (filled | dict(node.attrs)).items() if v is not None}

    def consts(self, left: Const | None, right: Const | None, name: str) -> None:
        if left is None and right is None:
            return
        if left is None or right is None:
            raise Differs(f"{name} is {'no' if right is None else 'a'} constant")
        if not _same_const(left, right):
            shown = np.array2string(right.array.reshape(-1)[:16], separator=", ")
            raise Differs(f"{name} holds {right.type} {shown}")

    def rest(self) -> None:
        """Pair what leads to no output: greedily, from the last node on."""
        mine = [node for node in self.want.nodes.values() if node.id not in self.paired]
        theirs = [node for node in self.found.nodes.values() if node.id not in self.taken]
        if len(mine) != len(theirs):
            ops = sorted(node.op for node in theirs)
            raise Differs(f"{self.path}beside what leads to outputs there is {ops or 'nothing'}")
        for left in reversed(mine):
            if left.id in self.paired:
                continue
            tried = [node for node in reversed(theirs) if node.id not in self.taken and node.op == left.op]
            if not any(self.attempt(left, right) for right in tried):
                raise Differs(f"{self.path}there is no second {left.op} that leads to no output")

    def attempt(self, left: Node, right: Node) -> bool:
        paired, taken = dict(self.paired), dict(self.taken)
        try:
            for one, two in self.nodes(left, right, f"{self.path}{left.op}"):
                self.values(one, two)
        except Differs:
            self.paired, self.taken = paired, taken
            return False
        return True


def _same_attr(left: Attr | None, right: Attr | None) -> bool:
    if isinstance(left, Const) and isinstance(right, Const):
        return _same_const(left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_same_attr(one, two) for one, two in pairs)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return bool(np.isclose(left, right, rtol=_RTOL, atol=0, equal_nan=True))
    return left == right


def _same_const(left: Const, right: Const) -> bool:
    if left.type != right.type:
        return False
    if not left.dtype.is_float:
        return left.equals(right)
    one, two = (np.asarray(const.array).astype(np.float64) for const in (left, right))
    return bool(np.allclose(one, two, rtol=max(_RTOL, _eps(left)), atol=1e-12, equal_nan=True))


def _eps(const: Const) -> float:
    return {16: 1e-3, 8: 0.1}.get(const.dtype.bits, 0.0)
