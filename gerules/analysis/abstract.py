"""What a condition of a rule can come to, judged from the pattern alone.

Types, ranks and dimensions that the pattern fixes, parts that are always or never there, constants, and what
earlier conditions demanded are taken into account; everything else can be anything. An answer that is left
out is impossible.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Final

from gerules.analysis.variants import Variant
from gerules.dsl.arithmetic import compare, compute, contains, negate
from gerules.dsl.expr import Scope
from gerules.dsl.expressions import (
    Attribute,
    Binary,
    BoolOp,
    CallExpr,
    Compare,
    Comparison,
    Expr,
    Ident,
    Index,
    IsNone,
    ListExpr,
    Literal,
    Membership,
    Negate,
    Not,
    ParamRef,
    Ref,
    Slice,
)
from gerules.dsl.read_pattern import DTYPES
from gerules.dsl.registry import Function
from gerules.dsl.syntax import DimName, DimRest, DimSeq, DimSize, TypePattern
from gerules.dsl.values import EvalError, Reject, Value, as_truth
from gerules.errors import GerulesError
from gerules.ir import DType

Truth = frozenset[bool | None]
"""What a condition can come to; None: it has no value, so that it does not hold."""

UNKNOWN: Final[Truth] = frozenset({True, False, None})
_MOST_VALUES: Final = 256


@dataclass(frozen=True, slots=True)
class Known:
    """One of these values."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A number between bounds; `is_certain`: it has a value in every match."""

    low: float
    high: float
    is_certain: bool = False


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension that the pattern mentions more than once, so that it equals itself."""

    name: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list whose items are known one by one."""

    items: tuple[Abstract, ...]


@dataclass(frozen=True, slots=True)
class Anything:
    """Nothing is known."""


Abstract = Known | Number | Dimension | Items | Anything
ANYTHING: Final = Anything()
NOTHING: Final = Known(())
"""What has no value in any match: a division by zero, an index outside."""
NONE: Final = Known((None,))
"""What is `none` in every match: an absent input."""
SIZE: Final = Number(0, math.inf)


@dataclass(slots=True)
class Facts:
    """What holds in every match of one variant of a pattern.

    `settled` are values of expressions, `held` conditions that were true already.
    """

    variant: Variant
    scope: Scope
    functions: Mapping[str, Function]
    rigid: frozenset[str]
    bound: frozenset[str]
    settled: dict[Expr, Abstract] = field(default_factory=dict[Expr, Abstract])
    held: set[Expr] = field(default_factory=set[Expr])

    def learn(self, test: Expr) -> None:
        """Take a condition as true from now on."""
        for part in conjuncts(test):
            self.held.add(part)
            match part:
                case Compare(first=first, rest=((op, other),)):
                    self._compared(first, op, other)
                    self._compared(other, _FLIPPED[op], first)
                case _:
                    pass

    def _compared(self, expr: Expr, op: Comparison, other: Expr) -> None:
        bound = self.value(other)
        if not isinstance(bound, Known) or len(bound.values) != 1:
            return
        value = bound.values[0]
        if isinstance(value, bool) or not isinstance(value, int | float):
            if op == "==" and isinstance(value, str | DType):
                self.settled[expr] = Known((value,))
            return
        old = self.value(expr)
        low, high = (old.low, old.high) if isinstance(old, Number) else (-math.inf, math.inf)
        if isinstance(old, Known | Items | Dimension) or op == "!=":
            return
        # Strict bounds are kept as their ends: less is known, and nothing wrong.
        if op in ("==", ">", ">="):
            low = max(low, value)
        if op in ("==", "<", "<="):
            high = min(high, value)
        self.settled[expr] = Number(low, high, is_certain=True)

    # ------------------------------------------------------------ truth
    def truth(self, expr: Expr) -> Truth:
        """Return everything that a condition can come to."""
        if expr in self.held:
            return frozenset({True})
        match expr:
            case Not(operand=operand):
                return frozenset(None if item is None else not item for item in self.truth(operand))
            case BoolOp(op=op, left=left, right=right):
                pairs = product(self.truth(left), self.truth(right))
                return frozenset(_both(op, one, two) for one, two in pairs)
            case Compare(first=first, rest=rest):
                found: Truth = frozenset({True})
                left = first
                for op, right in rest:
                    pair = self._compare(op, left, right)
                    found = frozenset(_both("and", one, two) for one, two in product(found, pair))
                    left = right
                return found
            case IsNone(operand=operand, is_negated=is_negated):
                return frozenset(item != is_negated for item in self._is_none(operand))
            case _:
                return _truths(as_truth, self.value(expr))

    def _compare(self, op: Comparison, left: Expr, right: Expr) -> Truth:
        if Compare(left.span, right, ((_FLIPPED[op], left),)) in self.held:
            return frozenset({True})
        one, two = self.value(left), self.value(right)
        if NOTHING in (one, two):
            return frozenset({None})
        if isinstance(one, Known) and isinstance(two, Known):
            return _truths(partial(compare, op), one, two)
        if isinstance(one, Dimension) and one == two:
            return frozenset({op in ("==", "<=", ">=")})
        if isinstance(one, Items) and isinstance(two, Items) and op in ("==", "!="):
            return self._same_items(op, one, two)
        low, high = _range(one), _range(two)
        if low is None or high is None:
            return UNKNOWN
        found: set[bool | None] = {None} if not (low.is_certain and high.is_certain) else set()
        return frozenset(found | _order(op, low, high))

    def _same_items(self, op: Comparison, one: Items, two: Items) -> Truth:
        if len(one.items) != len(two.items):
            return frozenset({op == "!="})
        pairs = zip(one.items, two.items, strict=True)
        is_same = all(a == b and (isinstance(a, Dimension) or _is_one(a)) for a, b in pairs)
        return frozenset({op == "=="}) if is_same else UNKNOWN

    def _is_none(self, operand: Expr) -> frozenset[bool]:
        value = self.value(operand)
        if isinstance(value, Known) and value != NOTHING:
            return frozenset(item is None for item in value.values)
        if isinstance(value, Number | Dimension | Items):
            return frozenset({False})
        if isinstance(operand, Ref) and operand.name in self.variant.names:
            found = self.variant.names[operand.name]
            if found is None:
                return frozenset({True})
            leaf = self.variant.leaves.get(found)
            if leaf is None or not leaf.is_optional:
                return frozenset({False})
        return frozenset({True, False})

    # ------------------------------------------------------------ values
    def value(self, expr: Expr) -> Abstract:
        """Return what an expression can be."""
        known = self.settled.get(expr)
        if known is not None:
            return known
        match expr:
            case Literal(value=value):
                return Known((value,))
            case ParamRef() | Ref():
                return self._name(expr)
            case ListExpr(items=items):
                return self._list([self.value(item) for item in items])
            case Negate(operand=operand):
                return _apply(negate, self.value(operand))
            case Binary(op="/" | "//" | "%", right=right) if self.value(right) == Known((0,)):
                return NOTHING
            case Binary(op=op, left=left, right=right):
                return _apply(partial(compute, op), self.value(left), self.value(right))
            case Attribute(operand=operand) if self.value(operand) == NONE:
                return NOTHING
            case Attribute(operand=Ref(name=name), name=attribute) if name in self.bound:
                return self._attribute(name, attribute.name)
            case Attribute(operand=operand, name=attribute):
                return self._of_dtype(self.value(operand), attribute.name)
            case Index(operand=operand, index=index):
                return self._index(self.value(operand), index)
            case CallExpr(callee=Ref(name=name), args=args, kwargs=()):
                return self._call(name, args)
            case Not() | BoolOp() | Compare() | IsNone():
                truth = self.truth(expr)
                return _as_known(truth)
            case Membership(item=item, container=container, is_negated=is_negated):
                found = _apply(contains, self.value(item), self.value(container))
                return _apply(operator.not_, found) if is_negated else found
            case _:
                return ANYTHING

    def _name(self, expr: Ref | ParamRef) -> Abstract:
        if isinstance(expr, ParamRef):
            value = self.scope.params.get(expr.name)
            return Known((value,)) if isinstance(value, int | float | str) else ANYTHING
        if expr.name in self.bound:
            if expr.name in self.rigid:
                return Dimension(expr.name)
            absent = expr.name in self.variant.names and self.variant.names[expr.name] is None
            return NONE if absent else ANYTHING
        if expr.name in DTYPES:
            return Known((DTYPES[expr.name],))
        ops = self.scope.opsets.get(expr.name)
        return Known((ops,)) if ops is not None else ANYTHING

    def _list(self, items: Sequence[Abstract]) -> Abstract:
        if all(isinstance(item, Known) and len(item.values) == 1 for item in items):
            return Known((tuple(item.values[0] for item in items if isinstance(item, Known)),))
        return Items(tuple(items))

    def types(self, name: str) -> list[TypePattern] | None:
        """Return the types that a value must have; None when the name is no value that is always there."""
        value = self.variant.names.get(name)
        if value is None:
            return None
        leaf = self.variant.leaves.get(value)
        if leaf is not None and leaf.is_optional:
            return None
        return leaf.types if leaf is not None else self.variant.types.get(value, [])

    def _attribute(self, name: str, attribute: str) -> Abstract:
        types = self.types(name)
        if types is None:
            return ANYTHING
        match attribute:
            case "rank":
                shape = self._shape(types)
                if shape is not None:
                    return Known((len(shape),))
                least = max((_least_rank(type) for type in types), default=0)
                return Number(least, math.inf, is_certain=least > 0)
            case "shape":
                shape = self._shape(types)
                return ANYTHING if shape is None else Items(tuple(shape))
            case "dtype":
                wanted = [type.dtypes for type in types if type.dtypes is not None]
                dtypes = [item for item in DType if all(item in some for some in wanted)]
                return Known(tuple(dtypes)) if wanted else ANYTHING
            case "is_const":
                return Known((True,)) if any(type.is_const for type in types) else ANYTHING
            case _:
                return ANYTHING

    def _shape(self, types: Sequence[TypePattern]) -> list[Abstract] | None:
        """Return the dimensions where the rank is fixed; a number of one type beats a name of another."""
        shapes = [
            type.dims
            for type in types
            if type.dims is not None and not any(isinstance(dim, DimRest | DimSeq) for dim in type.dims)
        ]
        if not shapes:
            return None
        is_const = any(type.is_const for type in types)
        found: list[Abstract] = []
        for place in range(len(shapes[0])):
            here = [shape[place] for shape in shapes if place < len(shape)]
            size = next((dim.size for dim in here if isinstance(dim, DimSize)), None)
            name = next(
                (dim.name for dim in here if isinstance(dim, DimName) and dim.name in self.rigid), None
            )
            if size is not None:
                found.append(Known((size,)))
            elif name is not None:
                found.append(Dimension(name))
            else:
                found.append(Number(0, math.inf, is_certain=is_const))
        return found

    def _of_dtype(self, owner: Abstract, attribute: str) -> Abstract:
        if not isinstance(owner, Known) or not all(isinstance(item, DType) for item in owner.values):
            return ANYTHING
        kinds = {"is_float", "is_integer", "bits"}
        return (
            Known(tuple(dict.fromkeys(getattr(item, attribute) for item in owner.values)))
            if attribute in kinds
            else ANYTHING
        )

    def _index(self, owner: Abstract, index: Expr | Slice) -> Abstract:
        at = ANYTHING if isinstance(index, Slice) else self.value(index)
        if isinstance(owner, Known) and isinstance(at, Known):
            return _apply(operator.getitem, owner, at)
        if not isinstance(owner, Items) or not isinstance(at, Known) or len(at.values) != 1:
            return ANYTHING
        place = at.values[0]
        if not isinstance(place, int):
            return ANYTHING
        if not -len(owner.items) <= place < len(owner.items):
            return NOTHING
        return owner.items[place]

    def _call(self, name: str, args: Sequence[Expr]) -> Abstract:
        first = args[0].name if args and isinstance(args[0], Ref) and args[0].name in self.bound else None
        types = self.types(first) if first is not None else None
        match name:
            case "is_const" if types is not None and any(type.is_const for type in types):
                return Known((True,))
            case "is_static" | "numel" | "is_scalar" if types is not None:
                return self._of_shape(name, self._shape(types))
            case "same_shape" if first is not None and len(args) == 2 and isinstance(args[1], Ref):
                one, two = (Attribute(arg.span, arg, Ident(arg.span, "shape")) for arg in args)
                return _as_known(self._compare("==", one, two))
            case "len" if len(args) == 1:
                value = self.value(args[0])
                if isinstance(value, Items):
                    return Known((len(value.items),))
                return SIZE
            case "n_readers" | "nbytes" | "max_abs" if len(args) == 1 and self.value(args[0]) == NONE:
                return NOTHING
            case "n_readers" | "nbytes" | "max_abs" | "count":
                return SIZE
            case "default" if len(args) == 2 and True not in self._is_none(args[0]):
                return self.value(args[0])
            case _:
                function = self.functions.get(name)
                if function is None or function.needs_graph or function.external is not None:
                    return ANYTHING
                return _apply(function.run, *(self.value(arg) for arg in args))

    def _of_shape(self, name: str, shape: Sequence[Abstract] | None) -> Abstract:
        if shape is None:
            return SIZE if name == "numel" else ANYTHING
        sizes = [dim.values[0] for dim in shape if isinstance(dim, Known)]
        numbers = [size for size in sizes if isinstance(size, int)]
        is_whole = len(numbers) == len(shape)
        if name == "is_scalar" and any(size != 1 for size in numbers):
            return Known((False,))
        if not is_whole:
            return SIZE if name == "numel" else ANYTHING
        n_elements = math.prod(numbers)
        return Known(({"is_static": True, "is_scalar": n_elements == 1, "numel": n_elements}[name],))


def conjuncts(test: Expr) -> Iterator[Expr]:
    """Yield the parts of a condition that must all hold."""
    match test:
        case BoolOp(op="and", left=left, right=right):
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield test


class _Failed:
    """In place of a value where there is none."""


_FAILED: Final = _Failed()
_FLIPPED: Final[Mapping[Comparison, Comparison]] = {
    "==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip


def _results(run: Callable[..., Value], args: Sequence[Abstract]) -> Iterator[Value | _Failed]:
    """Yield what a function gives for every combination; nothing where an argument is not known."""
    lists = [arg.values for arg in args if isinstance(arg, Known)]
    if len(lists) < len(args) or math.prod(map(len, lists)) > _MOST_VALUES:
        return
    for chosen in product(*lists):
        try:
            yield run(*chosen)
        except (GerulesError, EvalError, Reject, TypeError, ValueError, IndexError):
            yield _FAILED


def _apply(run: Callable[..., Value], *args: Abstract) -> Abstract:
    found = list(_results(run, args))
    values = tuple(item for item in found if not isinstance(item, _Failed))
    if NOTHING in args or (found and not values):
        return NOTHING
    return Known(values) if values and len(values) == len(found) else ANYTHING


def _truths(run: Callable[..., Value], *args: Abstract) -> Truth:
    """Return what a test gives for every combination; anything where an argument is not known."""
    found: set[bool | None] = {None} if NOTHING in args else set()
    for item in _results(run, args):
        try:
            found.add(None if isinstance(item, _Failed) else as_truth(item))
        except EvalError:
            found.add(None)
    return frozenset(found) if found else UNKNOWN


def _is_one(value: Abstract) -> bool:
    return isinstance(value, Known) and len(value.values) == 1


def _as_known(truth: Truth) -> Abstract:
    found = tuple(item for item in (False, True) if item in truth)
    return Known(found) if None not in truth else ANYTHING if found else NOTHING


def _both(op: str, one: bool | None, two: bool | None) -> bool | None:
    decisive = op == "or"
    if one is decisive or two is decisive:
        return decisive
    return None if one is None or two is None else not decisive


def _least_rank(type: TypePattern) -> int:
    return sum(1 for dim in type.dims or () if not isinstance(dim, DimRest | DimSeq))


def _range(value: Abstract) -> Number | None:
    match value:
        case Number():
            return value
        case Dimension():
            return SIZE
        case Known(values=values):
            numbers = [item for item in values if isinstance(item, int | float)]
            if len(numbers) == len(values) and numbers:
                return Number(min(numbers), max(numbers), is_certain=True)
            return None
        case _:
            return None


def _order(op: Comparison, one: Number, two: Number) -> set[bool]:
    """Return what a comparison of two numbers between bounds can give."""
    if one.low > two.high or one.high < two.low:
        is_less = one.high < two.low
        return {{"==": False, "!=": True, "<": is_less, "<=": is_less}.get(op, not is_less)}
    if op in ("<=", ">=") and (one.high <= two.low if op == "<=" else one.low >= two.high):
        return {True}
    if op in ("<", ">") and (one.low >= two.high if op == "<" else one.high <= two.low):
        return {False}
    return {True, False}
