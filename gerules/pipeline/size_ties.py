"""Which sizes of a region belong together: those that no operator takes when they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Final

from gerules.engine.candidate import Infer
from gerules.errors import GerulesError
from gerules.ir import Dim, Graph, Node, TensorType

Axis = tuple[int, int]
"""A value that the region reads, and one of its axes."""

_GROWTH: Final = 8
"""How many times larger the stand-ins of a size are than those of the next smaller one, so that a window
stays smaller than what it moves over."""


_DEAREST: Final = 4
"""What it costs to leave a size as it is in the model, where making two alike costs two or three."""

_MOST_CHOICES: Final = 4000
"""Ways that are tried to make one node take its sizes."""

_MOST_ROUNDS: Final = 4
"""Rounds for each group, after which all sizes are left as they are."""

_LEAST: Final = 11
"""Stand-ins are larger than this: numbers that operators have are seldom."""


@dataclass(frozen=True, slots=True)
class Ties:
    """A number for each axis; axes of one number have to be of one size.

    `pinned` are those that have to be as they are in the model, for something that is fixed says so.
    """

    group_of: Mapping[Axis, int]
    pinned: frozenset[int]


def tie_sizes(graph: Graph, nodes: Sequence[Node], axes: Mapping[Axis, Dim], infer: Infer) -> Ties:
    """Find the ties between sizes of what a region reads.

    Every axis gets a prime of its own as its size. Where an operator does not take that, the fewest of its
    sizes are made equal, or put back to what they are, so that it does.

    Args:
        nodes: The region, in the order of the graph.
        axes: The sizes that may differ, by value and axis; axes of one symbol count as one.

    Cost: for each tie an inference of the region, and at most 4000 of one node.
    """
    return _Finder(graph, nodes, axes, infer).find()


@dataclass(frozen=True, slots=True)
class SizeRefusal:
    """A node that does not take what it reads at some sizes, and what it says."""

    node: Node
    read: Sequence[TensorType | None]
    error: GerulesError


def first_refusal(
    graph: Graph, nodes: Sequence[Node], sizes: Mapping[Axis, int], infer: Infer
) -> SizeRefusal | None:
    """Return the first node of a region that does not take these sizes of what the region reads.

    All other sizes are as in the model. Nothing is known of the elements of a constant of another size.

    Cost: an inference of the region.
    """
    types: dict[int, TensorType] = {}
    for (value, axis), size in sizes.items():
        known = types.get(value) or _type(graph, value)
        assert known is not None and known.shape is not None
        dims = (*known.shape[:axis], size, *known.shape[axis + 1 :])
        types[value] = replace(known, shape=dims)
    free = frozenset(types)
    for node in nodes:
        read = [None if value is None else types.get(value) or _type(graph, value) for value in node.inputs]
        try:
            made = _made(graph, node, read, free, infer)
        except GerulesError as error:
            return SizeRefusal(node, read, error)
        types |= {value: type for value, type in zip(node.outputs, made, strict=False) if value is not None}
    return None


def _made(
    graph: Graph, node: Node, read: Sequence[TensorType | None], free: Set[int], infer: Infer
) -> list[TensorType]:
    """Return what a node makes of these types, whatever the elements of the `free` values are."""
    consts = [None if value is None or value in free else graph.consts.get(value) for value in node.inputs]
    return [type for type in infer(node, read, consts) if isinstance(type, TensorType)]


def _type(graph: Graph, value: int) -> TensorType | None:
    type = graph.type_of(value)
    return type if isinstance(type, TensorType) else None


class _Finder:
    def __init__(self, graph: Graph, nodes: Sequence[Node], axes: Mapping[Axis, Dim], infer: Infer) -> None:
        self._graph, self._nodes, self._infer = graph, nodes, infer
        symbols: dict[Dim, int] = {}
        self._group_of: dict[Axis, int] = {
            axis: symbols.setdefault(dim, number) if isinstance(dim, str) else number
            for number, (axis, dim) in enumerate(axes.items())
        }
        self._real: dict[int, Dim] = {self._group_of[axis]: dim for axis, dim in axes.items()}
        self._size: dict[int, int] = _stand_ins(self._real)
        self._pinned: set[int] = set()

    def find(self) -> Ties:
        # Each round makes one group of two, or settles the size of one.
        for _ in range(_MOST_ROUNDS * (len(self._real) + 1)):
            sizes = {axis: self._size[group] for axis, group in self._group_of.items()}
            refusal = first_refusal(self._graph, self._nodes, sizes, self._infer)
            if refusal is None:
                break
            if not self._settle(refusal):
                self._pin_all()
                break
        else:
            self._pin_all()
        return Ties(self._group_of, frozenset(self._pinned))

    def _pin_all(self) -> None:
        for group, real in self._real.items():
            if isinstance(real, int):
                self._size[group] = real
                self._pinned.add(group)

    def _shape(self, value: int) -> tuple[Dim, ...]:
        """The shape that a value has in the model."""
        type = _type(self._graph, value)
        return () if type is None or type.shape is None else type.shape

    def _settle(self, refusal: SizeRefusal) -> bool:
        """Change sizes as little as a node needs to take them; False where nothing helps."""
        node, read = refusal.node, refusal.read
        free = {value for value, _ in self._group_of}
        options = self._options(node, read)
        groups = list(options)
        choices = (
            choice
            for cost in range(1, _DEAREST * len(groups) + 1)
            for choice in _choices([options[group] for group in groups], cost)
        )
        for choice in islice(choices, _MOST_CHOICES):
            found = dict(zip(groups, choice, strict=True))
            sizes = self._sizes_after(found)
            # Two that are both as they are for good need not be alike.
            if any(
                option.other is not None and sizes[group] == self._real[group]
                for group, option in found.items()
            ):
                continue
            moved = {self._size[group]: sizes[group] for group in groups}
            types = [None if type is None else _with_sizes(type, moved) for type in read]
            try:
                _made(self._graph, node, types, free, self._infer)
            except GerulesError:
                continue
            self._take(found, sizes)
            return True
        return False

    def _options(self, node: Node, read: Sequence[TensorType | None]) -> dict[int, list[_Option]]:
        """Return what may be done about each size that a node reads and that is not settled."""
        group_of = {size: group for group, size in self._size.items() if group not in self._pinned}
        places: dict[int, set[int]] = {}
        derived: dict[int, tuple[Dim, set[int]]] = {}
        for value, type in zip(node.inputs, read, strict=True):
            if value is None or type is None or type.shape is None:
                continue
            pairs = zip(reversed(type.shape), reversed(self._shape(value)), strict=False)
            for from_end, (size, real) in enumerate(pairs):
                if size in group_of:
                    places.setdefault(group_of[size], set()).add(from_end)
                elif isinstance(size, int):
                    derived.setdefault(size, (real, set()))[1].add(from_end)
        found: dict[int, list[_Option]] = {}
        for group, own in places.items():
            real = self._real[group]
            found[group] = [_Option(0)]
            for other in found:
                if other != group and self._real[other] == real:
                    found[group].append(_Option(_joined(own, places[other]), other=other))
            for size, (known, where) in derived.items():
                if known == real and size != real:
                    found[group].append(_Option(_joined(own, where), size=size))
            if isinstance(real, int):
                found[group].append(_Option(_DEAREST, size=real))
        return found

    def _sizes_after(self, choice: Mapping[int, _Option]) -> dict[int, int]:
        sizes = dict(self._size)
        for group, option in choice.items():
            if option.other is not None:  # an earlier one, so that it is known by now
                sizes[group] = sizes[option.other]
            elif option.size is not None:
                sizes[group] = option.size
        return sizes

    def _take(self, choice: Mapping[int, _Option], sizes: Mapping[int, int]) -> None:
        root = {group: group for group in self._size}
        for group, option in choice.items():
            if option.other is not None:
                root[group] = root[option.other]
        self._group_of = {axis: root[group] for axis, group in self._group_of.items()}
        self._size = {group: sizes[group] for group in set(root.values())}
        self._real = {group: self._real[group] for group in self._size}
        self._pinned = {group for group, size in self._size.items() if size == self._real[group]}


@dataclass(frozen=True, slots=True)
class _Option:
    """What may become of a size: nothing, that of another group, or a number; and how dear that is."""

    cost: int
    other: int | None = None
    size: int | None = None


def _choices(options: Sequence[Sequence[_Option]], cost: int) -> Iterator[tuple[_Option, ...]]:
    """Yield the ways to choose one of each that cost so much together."""
    if not options:
        if not cost:
            yield ()
        return
    for option in options[0]:
        if option.cost <= cost:
            for rest in _choices(options[1:], cost - option.cost):
                yield option, *rest


def _joined(one: Set[int], two: Set[int]) -> int:
    """What it costs to make two sizes alike: less at the same place, counted from the end."""
    return 2 if one & two else 3


def _with_sizes(type: TensorType, moved: Mapping[int, int]) -> TensorType:
    if type.shape is None:
        return type
    return replace(
        type, shape=tuple(moved.get(dim, dim) if isinstance(dim, int) else dim for dim in type.shape)
    )


def _stand_ins(real: Mapping[int, Dim]) -> dict[int, int]:
    """Return a prime for each group, larger ones for larger sizes, the largest for open ones."""
    found: dict[int, int] = {}
    ranks = {group: (1, 0) if isinstance(dim, str) else (0, dim) for group, dim in real.items()}
    least, last = _LEAST, (0, 0)
    for group in sorted(real, key=lambda group: ranks[group]):
        if found and ranks[group] != last:
            least *= _GROWTH
        last = ranks[group]
        found[group] = least = next(number for number in count(least + 1) if _is_prime(number))
    return found


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))
