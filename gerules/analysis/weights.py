"""Weights that fall with every rewrite, or the combination of rewrites for which there are none.

A rewrite changes how many operators of each name there are. If positive weights exist for which every rewrite
lowers the weighted sum, no run can go on for ever. By Farkas' lemma exactly one of two things exists: such
weights, or a non-negative combination of the rewrites that leaves no count lower. All arithmetic is exact.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Literal

Name = Hashable


@dataclass(frozen=True, slots=True)
class Row:
    """How a rewrite changes the counts. `is_strict`: the weighted sum must fall; otherwise it may stay."""

    counts: Mapping[Name, int]
    is_strict: bool = True


@dataclass(frozen=True, slots=True)
class Weights:
    """A positive whole number for each name; every strict row lowers the sum, no other one raises it."""

    by_name: Mapping[Name, int]


@dataclass(frozen=True, slots=True)
class Combination:
    """How often to take which rows, by their place, so that no count falls; proof that no weights exist."""

    times: Mapping[int, int]


def find_weights(rows: Sequence[Row]) -> Weights | Combination:
    """Return weights for rows, or the combination that rules them out.

    Cost: names that only fall, or only rise, are settled one after the other in linear time; what remains
    is a linear program of that many rows and names, solved by the simplex method in fractions.
    """
    left = {place: {n: c for n, c in row.counts.items() if c} for place, row in enumerate(rows)}
    strict = {place for place, row in enumerate(rows) if row.is_strict}
    settled: list[_Settled] = []
    while True:
        for place in [place for place, counts in left.items() if not counts]:
            if place in strict:
                return Combination({place: 1})
            del left[place]
        step = _settle(left, strict)
        if step is None:
            break
        settled.append(step)
    later = {step.name for step in settled}
    weights = {name: Fraction(1) for row in rows for name in row.counts if name not in later}
    if left:
        found = _simplex(left, strict)
        if isinstance(found, Combination):
            return found
        weights.update(found)
    for step in reversed(settled):
        weights[step.name] = step.weight(weights)
    scale = lcm(*(weight.denominator for weight in weights.values())) if weights else 1
    return Weights({name: int(weight * scale) for name, weight in weights.items()})


# ---------------------------------------------------------------- names that only fall or only rise
@dataclass(frozen=True, slots=True)
class _Settled:
    """A name whose weight follows from the others': large enough for `rows` if it falls, or small enough."""

    name: Name
    kind: Literal["falls", "rises"]
    rows: tuple[Mapping[Name, int], ...]

    def weight(self, known: Mapping[Name, Fraction]) -> Fraction:
        # A name that is not known yet only rises here, and will be given what slack is left.
        sums = [
            (counts[self.name], sum(known[name] * count for name, count in counts.items() if name in known))
            for counts in self.rows
        ]
        if self.kind == "falls":
            return max(Fraction(1), *(Fraction(others) / -own + 1 for own, others in sums))
        return min(Fraction(1), *(Fraction(-others) / (2 * own) for own, others in sums))


def _settle(left: dict[int, dict[Name, int]], strict: set[int]) -> _Settled | None:
    signs: dict[Name, int] = {}
    for counts in left.values():
        for name, count in counts.items():
            signs[name] = signs.get(name, 0) | (1 if count > 0 else 2)
    for name, sign in signs.items():
        if sign == 3:
            continue
        having = [place for place, counts in left.items() if name in counts]
        step = _Settled(name, "falls" if sign == 2 else "rises", tuple(dict(left[p]) for p in having))
        for place in having:
            if sign == 2:
                del left[place]
            else:
                del left[place][name]
                strict.add(place)
        return step
    return None


# ---------------------------------------------------------------- the rest
def _simplex(left: Mapping[int, Mapping[Name, int]], strict: set[int]) -> dict[Name, Fraction] | Combination:
    """Find weights of at least one by phase one of the simplex method, with Bland's rule.

    With w = 1 + u a row says: sum of counts * u <= bound. Rows with a negative bound get an artificial
    variable, whose sum is driven to zero; where it stays above, the slacks' reduced costs are the proof.
    """
    places = list(left)
    names = list(dict.fromkeys(name for counts in left.values() for name in counts))
    n_names, n_rows = len(names), len(places)
    width = n_names + 2 * n_rows
    table: list[list[Fraction]] = []
    basis: list[int] = []
    goal = [Fraction(0)] * (width + 1)
    for at, place in enumerate(places):
        counts = left[place]
        bound = -(1 if place in strict else 0) - sum(counts.values())
        sign = 1 if bound >= 0 else -1
        row = [Fraction(sign * counts.get(name, 0)) for name in names] + [Fraction(0)] * (2 * n_rows)
        row[n_names + at] = Fraction(sign)
        if sign < 0:
            row[n_names + n_rows + at] = Fraction(1)
        row.append(Fraction(sign * bound))
        table.append(row)
        basis.append(n_names + at if sign > 0 else n_names + n_rows + at)
        if sign < 0:
            goal = [cost - value for cost, value in zip(goal, row, strict=True)]
            goal[n_names + n_rows + at] = Fraction(0)
    while True:
        enter = next((column for column in range(n_names + n_rows) if goal[column] < 0), None)
        if enter is None:
            break
        ratios = [(row[-1] / row[enter], basis[at], at) for at, row in enumerate(table) if row[enter] > 0]
        if not ratios:
            raise AssertionError("a sum of artificial variables cannot fall without end")
        leave = min(ratios)[2]
        _pivot(table, goal, leave, enter)
        basis[leave] = enter
    if goal[-1] < 0:
        costs = goal[n_names : n_names + n_rows]
        scale = lcm(*(cost.denominator for cost in costs))
        whole = [int(cost * scale) for cost in costs]
        common = gcd(*whole)
        return Combination({places[at]: cost // common for at, cost in enumerate(whole) if cost})
    found = dict.fromkeys(names, Fraction(1))
    for at, column in enumerate(basis):
        if column < n_names:
            found[names[column]] += table[at][-1]
    return found


def _pivot(table: list[list[Fraction]], goal: list[Fraction], leave: int, enter: int) -> None:
    factor = table[leave][enter]
    pivot = table[leave] = [value / factor if value else value for value in table[leave]]
    columns = [column for column, value in enumerate(pivot) if value]
    for row in (*(row for at, row in enumerate(table) if at != leave), goal):
        factor = row[enter]
        if factor:
            for column in columns:
                row[column] -= factor * pivot[column]
