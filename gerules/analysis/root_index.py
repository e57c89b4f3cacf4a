"""Which patterns could have one root: an index of readings by the operands that they fix.

An operand is fixed when it is a number, or a call of one operator. Where all operands of two calls are fixed,
the calls can be one only if their operands are the same, whatever their order; so most pairs of many rules
are never compared. Whether those that remain unify is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gerules.analysis.merged import Reading
from gerules.analysis.variants import Call, Variant

Head = tuple[str, int | float]
"""A number, under the name of no operator, or the operator of a call."""


class RootIndex:
    """Finds the places of readings whose roots could be one node with the root of a given one."""

    def __init__(self) -> None:
        self._by_op: dict[str, _Group] = {}

    def add(self, reading: Reading, place: int) -> None:
        """Let a reading be found under a place, which several may share."""
        keys = _keys(reading)
        for op in reading.variant.calls[reading.root].ops:
            self._by_op.setdefault(op, _Group()).add(keys, place)

    def near(self, readings: Sequence[Reading]) -> set[int]:
        """Return the places of all readings that could have a root in common with one of these."""
        return {
            place
            for reading in readings
            for op in reading.variant.calls[reading.root].ops
            if op in self._by_op
            for place in self._by_op[op].near(_keys(reading))
        }


class _Group:
    """Places by the first of their keys, and then by the next; `places` are all, `loose` those without."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.loose: list[int] = []
        self.by_key: dict[object, _Group] = {}

    def add(self, keys: Sequence[object], place: int) -> None:
        self.places.append(place)
        if not keys:
            self.loose.append(place)
        else:
            self.by_key.setdefault(keys[0], _Group()).add(keys[1:], place)

    def near(self, keys: Sequence[object]) -> Iterator[int]:
        if not keys:
            yield from self.places
            return
        yield from self.loose
        if keys[0] in self.by_key:
            yield from self.by_key[keys[0]].near(keys[1:])


def _keys(reading: Reading) -> list[object]:
    """Return what the root's operands are, and then with theirs; fewer where something is not fixed."""
    variant = reading.variant
    operands = _operands(variant, variant.calls[reading.root])
    if operands is None:
        return []
    heads = sorted(head for head, _ in operands)
    below: list[tuple[Head, list[Head]]] = []
    for head, call in operands:
        inner = [] if call is None else _operands(variant, call)
        if inner is None:
            return [tuple(heads)]
        below.append((head, sorted(item for item, _ in inner)))
    return [tuple(heads), tuple((head, tuple(inner)) for head, inner in sorted(below))]


def _operands(variant: Variant, call: Call) -> list[tuple[Head, Call | None]] | None:
    """Return the operands of a call, each with the call that makes it; None when one is not fixed."""
    found: list[tuple[Head, Call | None]] = []
    for value in call.inputs:
        made = None if value is None else variant.producer.get(value)
        leaf = None if value is None else variant.leaves.get(value)
        if made is not None and len(variant.calls[made[0]].ops) == 1:
            (op,) = variant.calls[made[0]].ops
            found.append(((op, 0), variant.calls[made[0]]))
        elif made is None and leaf is not None and leaf.number is not None and not leaf.is_optional:
            found.append((("", leaf.number), None))
        else:
            return None
    return None if call.is_open else found


__all__ = ["RootIndex"]
