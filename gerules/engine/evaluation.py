"""What expressions see of a match: names as values, and questions about the graph around."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np

from gerules.dsl import expr as dsl
from gerules.dsl.expressions import Expr, Ref, walk
from gerules.dsl.syntax import Condition, PatternDef
from gerules.dsl.values import ChainView, DeviceRef, OpView, SymbolicDim, Value, ValueView
from gerules.engine.binding import UNBOUND, Kind, Match, Path, Scope
from gerules.engine.folding import FoldMemory
from gerules.engine.keywords import value_of_attr
from gerules.engine.site import Site
from gerules.ir import Attr, Dim, DType, Node

_MOST_PASSED: Final = 256
"""Nodes that `reaches` looks past; farther away nothing is found, so that its cost stays bounded."""


@dataclass(frozen=True, slots=True, eq=False)
class RuleContext:
    """What rules refer to besides the graph.

    `scope` has the static names, the values of `$NAME` and the operator sets (`Selection.scope`);
    `patterns` the named sub-patterns; `tags` how the user marked nodes of the model, by source name
    (`keep_f32`); `effects` the operators that a rewrite may neither drop nor make.
    """

    scope: dsl.Scope = field(default_factory=dsl.Scope)
    patterns: Mapping[str, tuple[PatternDef, ...]] = field(default_factory=dict[str, tuple[PatternDef, ...]])
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    effects: frozenset[str] = frozenset()

    def lacks(self, op: str) -> bool:
        """Whether the device has no kernel for an operator."""
        device = self.scope.names.get("device")
        return isinstance(device, DeviceRef) and device.device.lacks(op)


class Questions:
    """Answers what expressions ask about the graph (`gerules.dsl.registry.MatchContext`)."""

    def __init__(self, site: Site, tags: Mapping[str, frozenset[str]]) -> None:
        self._site = site
        self._tags = tags

    def reaches(self, value: ValueView, ops: frozenset[str], via: frozenset[str], /) -> bool:
        """Whether a path of readers leads from `value` through operators of `via` to one of `ops`.

        No more than `_MOST_PASSED` nodes are passed: rules that move step by step ask again at each.
        """
        editor = self._site.editor
        seen: set[int] = set()
        pending = [value.id]
        while pending and len(seen) < _MOST_PASSED:
            for reader in editor.readers(pending.pop()):
                node = editor.nodes[reader]
                if node.op in ops:
                    return True
                if node.op in via and reader not in seen:
                    seen.add(reader)
                    pending += node.writes()
        return False

    def n_readers(self, value: ValueView, /) -> int:
        """Uses of a value: input slots of nodes, captures and graph outputs."""
        return self._site.editor.n_uses(value.id)

    def is_graph_output(self, value: ValueView, /) -> bool:
        """Whether the value is an output of its graph."""
        return self._site.editor.is_output(value.id)

    def ordered(self, values: Sequence[ValueView], /) -> bool:
        """Whether the producers of the values stand in this order in the graph."""
        editor = self._site.editor
        nodes = [editor.producer(value.id) for value in values]
        keys = [-1.0 if node is None else editor.order_key(node.id) for node in nodes]
        return all(one < two for one, two in pairwise(keys))

    def all_same_format(self, ops: Sequence[OpView], /) -> bool:
        """Whether all inputs and outputs of the operators have one storage format."""
        site = self._site
        found: set[object] = set()
        for op in ops:
            node = site.editor.nodes.get(op.node)
            if node is not None:
                values = [*node.inputs, *node.outputs]
                # A constant has no format of its own yet; it follows the others.
                found |= {_format(site, v) for v in values if v is not None and v not in site.consts}
        return len(found - {None}) <= 1

    def distance_to_output(self, ops: frozenset[str], /) -> int:
        """Sum over all nodes with these operators of the longest path to a graph output."""
        editor = self._site.editor
        distance: dict[int, int] = {}
        total = 0
        for node_id in sorted(editor.nodes, key=editor.order_key, reverse=True):
            node = editor.nodes[node_id]
            ahead = [distance[reader] + 1 for value in node.writes() for reader in editor.readers(value)]
            distance[node_id] = max(ahead, default=0)
            total += distance[node_id] if node.op in ops else 0
        return total

    def count(self, ops: frozenset[str], /) -> int:
        """Number of nodes with these operators."""
        return sum(node.op in ops for node in self._site.editor.nodes.values())

    def tagged(self, value: ValueView, tag: str, /) -> bool:
        """Whether the user gave the value, or the node that makes it, a tag."""
        if not self._tags:
            return False
        node = self._site.editor.producer(value.id)
        names = (value.name, *((node.name, *node.origin.sources) if node is not None else ()))
        return any(tag in self._tags.get(name, ()) for name in names)


def _format(site: Site, value: int) -> object:
    return getattr(site.type_of(value), "format", None)


class MatchEvaluator:
    """Compiles expressions over the names of a scope (`gerules.engine.patterns.Evaluator`)."""

    def __init__(self, site: Site, context: RuleContext) -> None:
        self.site = site
        given = context.scope
        questions = Questions(site, context.tags)
        self.folds = FoldMemory()
        self.base = dsl.Scope(given.names, given.params, given.opsets, questions, given.functions)
        self._sights: dict[tuple[int, int], _Sight] = {}
        """By the identities of an expression and a scope."""

    def value(self, expr: Expr, scope: Scope) -> Callable[[Match], Value]:
        """Return what computes an expression for a match."""
        return lambda m: dsl.evaluate(expr, self.seen(m, scope, expr))

    def condition(self, condition: Condition, scope: Scope) -> Callable[[Match], bool]:
        """Return what says whether a condition holds for a match."""
        return lambda m: dsl.judge(condition, self.seen(m, scope, condition.test)).holds

    def seen(self, m: Match, scope: Scope, expr: Expr, more: Mapping[str, Value] | None = None) -> dsl.Scope:
        """Return the scope of an expression: the bound names it mentions, and `more`."""
        sight = self._sights.get((id(expr), id(scope)))
        if sight is None:
            names = names_of(expr)
            places = [
                (name, slot, _VIEWERS[scope.kinds[name]])
                for name, slot in scope.slots.items()
                if name in names
            ]
            sight = self._sights[id(expr), id(scope)] = _Sight(expr, scope, places)
        base, site, slots = self.base, self.site, m.slots
        found = dict(base.names)
        for name, slot, viewer in sight.places:
            found[name] = _viewed(site, slots[slot], viewer)
        if more is not None:
            found.update(more)
        return dsl.Scope(found, base.params, base.opsets, base.graph, base.functions)

    def view(self, bound: object, kind: Kind) -> Value:
        """Return what is in a slot as expressions see it."""
        return _viewed(self.site, bound, _VIEWERS[kind])


def names_of(expr: Expr) -> frozenset[str]:
    """Return the names that an expression mentions."""
    return frozenset([part.name for part in walk(expr) if isinstance(part, Ref)])


_Viewer = Callable[[Site, Any], Value]
"""Makes what expressions see of what a slot holds, which is what its kind says."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """What an expression sees of a match: names, slots, and how each is shown. Keeps alive what it is of."""

    expr: Expr
    scope: Scope
    places: Sequence[tuple[str, int, _Viewer]]


def _viewed(site: Site, bound: object, viewer: _Viewer) -> Value:
    if bound is None or bound is UNBOUND:
        return None
    if isinstance(bound, list):  # collected over a group
        return tuple([_viewed(site, item, viewer) for item in cast("list[object]", bound)])
    return viewer(site, bound)


def _value_view(site: Site, value: int) -> ValueView:
    record = site.values[value]
    return ValueView(value, record.name or f"%{value}", record.type, site.consts.get(value))


def _values_view(site: Site, values: tuple[int, ...]) -> Value:
    return tuple([_value_view(site, value) for value in values])


def _attrs_view(_: Site, attrs: Mapping[str, Attr]) -> Value:
    return {name: value_of_attr(attr) for name, attr in attrs.items()}


def _op_view(_: Site, node: Node) -> OpView:
    return OpView(node.op, node.id)


def _chain_view(site: Site, path: Path) -> Value:
    sides = tuple([_value_view(site, value) for value in path.side_inputs])
    return ChainView(tuple([_op_view(site, node) for node in path.nodes]), sides)


def _as_bound(_: Site, value: Value) -> Value:
    return value


def _dim_view(_: Site, dim: Dim) -> Value:
    return _dim(dim)


def _dims_view(_: Site, dims: tuple[Dim, ...]) -> Value:
    return tuple([_dim(dim) for dim in dims])


_VIEWERS: Final[Mapping[Kind, _Viewer]] = {
    Kind.VALUE: _value_view,
    Kind.VALUES: _values_view,
    Kind.ATTRS: _attrs_view,
    Kind.DIM: _dim_view,
    Kind.DIMS: _dims_view,
    Kind.OP: _op_view,
    Kind.CHAIN: _chain_view,
    Kind.ATTR: _as_bound,
    Kind.DTYPE: _as_bound,
    Kind.RESULT: _as_bound,
}


def _dim(dim: Dim) -> Value:
    return dim if isinstance(dim, int) else SymbolicDim(dim)


def spoken(values: Mapping[str, Value]) -> Iterator[str]:
    """Yield `name = value` for each name of a guard, as a user reads it when the guard does not hold."""
    for name, value in sorted(values.items()):
        match value:
            case ValueView():
                yield f"{name}: {value.type}" + (" const" if value.const is not None else "")
            case np.ndarray():
                yield f"{name}: array {list(value.shape)}"
            case OpView():
                yield f"{name} = {value.op}"
            case tuple() if any(isinstance(item, ValueView | np.ndarray) for item in value):
                items = ", ".join(map(_called, value))
                yield f"{name} = {_cut(f'({items})')}"
            case DType() | int() | float() | str() | tuple() | None | SymbolicDim():
                yield f"{name} = {_cut(str(value))}"
            case _:
                pass


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _called(item: Value) -> str:
    """What an item of a list is called where its parts would say too much."""
    if isinstance(item, ValueView):
        return item.name
    return f"array {list(item.shape)}" if isinstance(item, np.ndarray) else str(item)
