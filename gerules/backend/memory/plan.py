"""The memory plan: an offset for each value, and how good the plan is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from operator import add
from types import MappingProxyType
from typing import Final, Literal

from gerules.backend.memory.branch import Verdict, branch_and_bound
from gerules.backend.memory.cliques import Packing, Part, build_parts
from gerules.backend.memory.errors import MemoryPlanError
from gerules.backend.memory.firstfit import colour_equal_sizes, place_first_fit
from gerules.backend.memory.lifetimes import Lifetime, check_lifetimes
from gerules.backend.memory.orders import BRANCH_ORDERS, rank_by
from gerules.backend.memory.restarts import Budget, Search
from gerules.errors import table

Effort = Literal["fast", "normal", "thorough"]
Method = Literal["empty", "equal sizes", "first fit", "skyline", "restarts", "branch and bound"]

ALIGN_BYTES: Final = 512
"""Where blocks of the feature map start. Source: MEM_ALIGN of the graph engine's block assigner."""

_ALIVE_SHOWN: Final = 8
"""Values named in the notes of an out-of-memory error."""

_EXACT_LIMIT: Final = 600
"""Buffers up to which the exact search is tried; a node costs time linear in them."""

_FEWEST_LOOKS: Final = 1_000_000
"""Looks first fit may take, if its effort has fewer; networks need about a hundred a buffer."""

_LADDER: Final = (1.0005, 1.001, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.4)
"""Targets above the lower bound, tried in turn when the bound itself is not reached."""


@dataclass(frozen=True, slots=True)
class _Levels:
    n_steps: int
    n_steps_per_buffer: int
    n_orders: int
    n_restarts: int
    n_nodes: int
    n_looks_per_buffer: int


_EFFORTS: Final[Mapping[Effort, _Levels]] = MappingProxyType(
    {
        "fast": _Levels(50_000, 8, 4, 4, 100, 60),
        "normal": _Levels(300_000, 24, 8, 120, 700, 200),
        "thorough": _Levels(10_000_000, 200, 8, 1_500, 20_000, 2_000),
    }
)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Where one value lies and when; one row of the plan's table."""

    id: int
    offset: int
    size_bytes: int
    life_start: int
    life_end: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets from the start of one arena.

    Attributes:
        offsets: By value id; every lifetime that was planned has one, size zero included (offset 0).
        peak_bytes: The arena's size: the highest byte in use, rounded up to the alignment.
        lower_bound_bytes: The most (aligned) bytes alive at one step. When the peak equals it, the
            placement is proven optimal.
        is_optimal: Whether no placement of these lifetimes has a lower peak: by the bound, or by search.
        method: What found the placement of the part of the arena that is highest.
        n_tries: Dives and searches made.
    """

    lifetimes: tuple[Lifetime, ...]
    offsets: Mapping[int, int]
    align_bytes: int
    peak_bytes: int
    lower_bound_bytes: int
    is_optimal: bool
    method: Method
    n_tries: int

    @property
    def ratio(self) -> float:
        """The peak over the lower bound; 1 when nothing is alive."""
        return self.peak_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0

    def rows(self) -> list[MemoryRow]:
        """The plan as a table, by offset and then by start; `life_end` is the last step, included."""
        rows = [
            MemoryRow(life.id, self.offsets[life.id], life.size_bytes, life.first, life.last)
            for life in self.lifetimes
        ]
        return sorted(rows, key=lambda row: (row.offset, row.life_start, row.id))


@dataclass(frozen=True, slots=True)
class _Placement:
    offsets: list[int]
    height: int
    method: Method
    is_optimal: bool


def plan_memory(
    lifetimes: Sequence[Lifetime],
    *,
    limit_bytes: int | None = None,
    align_bytes: int = ALIGN_BYTES,
    effort: Effort = "normal",
    seed: int = 0,
    name_of: Callable[[int], str] | None = None,
) -> MemoryPlan:
    """Give each value an offset such that values alive at one step never overlap.

    Values of size zero take no room and lie at offset 0. The plan depends on the arguments alone:
    budgets count steps, not time.

    Args:
        lifetimes: One for each buffer; values that share one are coalesced before.
        limit_bytes: Size of the arena; absent means as large as it needs to be.
        align_bytes: Every offset and the peak are multiples of this.
        effort: How long to look for a lower peak when the lower bound is not reached at once.
        name_of: What a fault calls a buffer, by its id.

    Raises:
        MemoryPlanError: E60003 if no plan was found that fits `limit_bytes`; E60004 for lifetimes that
            make no sense; E60005 for an alignment that is not positive.

    Cost: O(n log n) when the first dive reaches the lower bound, which it does on most networks.
    Source: design of our own: skyline packing with look-ahead; restarts after squeaky-wheel optimisation.
    """
    if align_bytes <= 0:
        raise MemoryPlanError(table.BAD_ALIGNMENT, align=align_bytes)
    check_lifetimes(lifetimes)
    parts = build_parts(lifetimes, align_bytes)
    bound = max((part.packing.lower_bound for part in parts), default=0)
    if limit_bytes is not None and bound > limit_bytes:
        raise _out_of_memory(parts, lifetimes, bound, limit_bytes, name_of, is_bound=True)
    offsets = {life.id: 0 for life in lifetimes}
    highest = _Placement([], 0, "empty", True)
    n_tries = 0
    # The part with the most bytes first, and then the largest: the others only have to stay below it.
    for part in sorted(parts, key=lambda part: (-part.packing.lower_bound, -len(part.members))):
        goal = max(bound, highest.height)
        placed, spent = _place(part.packing, goal, limit_bytes, _EFFORTS[effort], seed)
        n_tries += spent
        for i, offset in zip(part.members, placed.offsets, strict=True):
            offsets[lifetimes[i].id] = offset
        if placed.height > highest.height:
            highest = placed
    if limit_bytes is not None and highest.height > limit_bytes:
        raise _out_of_memory(parts, lifetimes, highest.height, limit_bytes, name_of, is_bound=False)
    return MemoryPlan(
        lifetimes=tuple(lifetimes),
        offsets=MappingProxyType(offsets),
        align_bytes=align_bytes,
        peak_bytes=highest.height,
        lower_bound_bytes=bound,
        is_optimal=highest.is_optimal or highest.height == bound,
        method=highest.method,
        n_tries=n_tries,
    )


def _place(
    packing: Packing, goal: int, limit: int | None, levels: _Levels, seed: int
) -> tuple[_Placement, int]:
    """Place one part at or below `goal` if that can be done, else as low as the budget finds."""
    if min(packing.size) == max(packing.size):
        return _placed(packing, colour_equal_sizes(packing), "equal sizes"), 1
    n = len(packing.size)
    budget = Budget(levels.n_steps + levels.n_steps_per_buffer * n)
    search = Search(packing, seed)
    found = search.try_orders(goal, levels.n_orders, budget)
    if found:
        return _placed(packing, found, "skyline"), budget.n_tries
    best = _fit(packing, levels)
    budget.n_tries += 1
    piled = search.pile(budget)
    if piled:
        best = _lower(best, _placed(packing, piled, "skyline"))
    if best.height <= goal:
        return best, budget.n_tries
    main = Budget(budget.n_steps // 2)
    climb = Budget(budget.n_steps - main.n_steps)
    best = _aim(packing, search, best, goal, (1,), levels, main)
    if limit is not None and best.height > limit:
        # A hard limit is worth more work than a lower peak.
        main.n_steps = max(main.n_steps, 0) + 4 * levels.n_steps
        best = _aim(packing, search, best, limit, (1, 4), levels, main)
    best = _climb(packing, search, best, goal, climb)
    n_tries = budget.n_tries + main.n_tries + climb.n_tries
    if n <= _EXACT_LIMIT:
        best, spent = _descend(packing, best, goal, levels.n_nodes)
        n_tries += spent
    return best, n_tries


def _fit(packing: Packing, levels: _Levels) -> _Placement:
    """Place without a target in bounded time, whatever the lives are."""
    n = len(packing.size)
    max_looks = max(_FEWEST_LOOKS, levels.n_looks_per_buffer * n)
    by_size = sorted(range(n), key=lambda i: (-packing.size[i], i))
    best = _placed(packing, place_first_fit(packing, by_size, max_looks=max_looks), "first fit")
    # Where first fit is out of looks, long lives at the bottom may make a better pile.
    by_cliques = sorted(range(n), key=lambda i: (packing.low[i] - packing.high[i], i))
    return _lower(best, _placed(packing, place_first_fit(packing, by_cliques, max_looks=0), "first fit"))


def _aim(
    packing: Packing,
    search: Search,
    best: _Placement,
    target: int,
    scales: tuple[int, ...],
    levels: _Levels,
    budget: Budget,
) -> _Placement:
    """Aim at one target by restarts and, for few buffers, by exact search in turn."""
    for scale in scales:
        if best.height <= target:
            break
        found = search.restart(target, scale * levels.n_restarts, budget)
        if found:
            return _lower(best, _placed(packing, found, "restarts"))
        if len(packing.size) > _EXACT_LIMIT:
            continue
        verdict, offsets, spent = _branch(packing, target, scale * levels.n_nodes)
        budget.n_tries += spent
        if verdict == "placed":
            return _lower(best, _placed(packing, offsets, "branch and bound"))
        if verdict == "impossible":
            break
    return best


def _branch(packing: Packing, target: int, n_nodes: int) -> tuple[Verdict, list[int], int]:
    """Search exactly by several orders until one decides; also says how many were tried."""
    for n_tries, key in enumerate(BRANCH_ORDERS, start=1):
        result = branch_and_bound(packing, rank_by(packing, key), target, node_limit=n_nodes)
        if result.verdict != "undecided":
            return result.verdict, result.offsets, n_tries
    return "undecided", [], len(BRANCH_ORDERS)


def _climb(packing: Packing, search: Search, best: _Placement, goal: int, budget: Budget) -> _Placement:
    """Aim a little higher each time, until a dive ends or what is known is as good."""
    for factor in _LADDER:
        target = int(goal * factor)
        if target >= best.height or budget.n_steps <= 0:
            break
        found = search.try_orders(target, 3, budget) or search.restart(target, 5, budget)
        if found:
            return _lower(best, _placed(packing, found, "restarts"))
    return best


def _descend(packing: Packing, best: _Placement, goal: int, n_nodes: int) -> tuple[_Placement, int]:
    """Halve the distance between what is proven and what is known, by exact search.

    Stops at the second target in a row that stays undecided.
    """
    unit = gcd(*packing.size)
    proven, open_from, n_tries, n_undecided = goal, goal, 0, 0
    while open_from < best.height and n_undecided < 2:
        # Heights are multiples of the unit, so the next one below is one unit down.
        target = (open_from + best.height - unit) // (2 * unit) * unit
        target = max(open_from, target)
        verdict, offsets, spent = _branch(packing, target, n_nodes)
        n_tries += spent
        if verdict == "placed":
            best = _lower(best, _placed(packing, offsets, "branch and bound"))
            n_undecided = 0
            continue
        open_from = (target // unit + 1) * unit
        if verdict == "impossible":
            proven, n_undecided = open_from, 0
        else:
            n_undecided += 1
    is_optimal = best.is_optimal or proven >= best.height
    return replace(best, is_optimal=is_optimal), n_tries


def _placed(packing: Packing, offsets: list[int], method: Method) -> _Placement:
    height = max(map(add, offsets, packing.size))
    return _Placement(offsets, height, method, height == packing.lower_bound)


def _lower(one: _Placement, two: _Placement) -> _Placement:
    return two if two.height < one.height else one


def _out_of_memory(
    parts: Sequence[Part],
    lifetimes: Sequence[Lifetime],
    peak: int,
    limit: int,
    name_of: Callable[[int], str] | None,
    *,
    is_bound: bool,
) -> MemoryPlanError:
    part = max(parts, key=lambda part: part.packing.lower_bound)
    packing = part.packing
    clique = packing.total.index(packing.lower_bound)
    alive = [
        (packing.size[k], lifetimes[i])
        for k, i in enumerate(part.members)
        if packing.low[k] <= clique < packing.high[k]
    ]
    alive.sort(key=lambda item: (-item[0], item[1].id))
    step = max(life.first for _, life in alive)
    notes = [f"{packing.lower_bound} bytes are alive at step {step}, in {len(alive)} values:"]
    notes += [
        f"{name_of(life.id) if name_of else f'value {life.id}'}: {size} bytes, "
        f"steps {life.first} to {life.last}"
        for size, life in alive[:_ALIVE_SHOWN]
    ]
    if len(alive) > _ALIVE_SHOWN:
        notes.append(f"and {len(alive) - _ALIVE_SHOWN} smaller ones")
    if not is_bound:
        notes.append(
            "no placement below the limit was found, though the bytes alive would fit; try more effort"
        )
    ids = tuple(life.id for _, life in alive)
    return MemoryPlanError(table.OUT_OF_MEMORY, notes=notes, peak=peak, limit=limit, step=step, alive=ids)
