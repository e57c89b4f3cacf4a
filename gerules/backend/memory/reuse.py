"""Reuse by proven order: with several streams, placing by intervals holds bytes longer than needed.

A lifetime over several streams ends where everything issued later is ordered behind it. But two values may
share bytes as soon as all that touches the one happens before all that touches the other, whatever else
runs beside them. That relation is no interval order, so that it is kept as one set of bits a step.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from gerules.backend.memory.check import lower_bound
from gerules.backend.memory.cliques import align_up
from gerules.backend.memory.lifetimes import Lifetime
from gerules.backend.memory.plan import MemoryPlan
from gerules.backend.memory.races import Access

REUSE_LIMIT: Final = 2_000
"""Buffers and steps up to which this is done: buffers are compared in pairs."""


@dataclass(frozen=True, slots=True)
class _Buffer:
    """What touches a buffer: `touched` and `after` are sets of steps; `after` follows all the touches."""

    size: int
    first: int
    last: int
    touched: int
    after: int
    is_early: bool


def share_by_order(
    plan: MemoryPlan,
    accesses: Sequence[Access],
    streams: Sequence[int],
    waits: Iterable[tuple[int, int]],
    *,
    leader: Mapping[int, int] | None = None,
) -> MemoryPlan:
    """Return a lower plan for the same buffers by first fit over what streams and events prove, or `plan`.

    The lifetimes of the new plan reach from the first to the last touch in the order of issue; its bound is
    theirs, and no plan can be below it. They do not say what may share bytes over streams: check
    that with `find_races`. A buffer without an access is held for the whole run.

    Args:
        streams: The stream of each step, in issue order.
        waits: (recorded after step, waited for before step).
        leader: The buffer of each value, where values share one; see `coalesce`.

    Cost: O(buffers^2) set operations of as many bits as there are steps; nothing is tried with one stream,
    or above `REUSE_LIMIT` buffers or steps.
    """
    n_steps = len(streams)
    if len(set(streams)) <= 1 or max(n_steps, len(plan.lifetimes)) > REUSE_LIMIT:
        return plan
    touches: dict[int, set[int]] = {}
    for access in accesses:
        owner = access.id if leader is None else leader.get(access.id, access.id)
        touches.setdefault(owner, set()).update((access.writer, *access.readers))
    later = _find_later(streams, waits)
    buffers = {
        life.id: _build_buffer(life, touches.get(life.id, {-1, n_steps}), later, plan.align_bytes)
        for life in plan.lifetimes
    }
    lifetimes = tuple(
        replace(life, first=buffers[life.id].first, last=buffers[life.id].last, last_read=None)
        for life in plan.lifetimes
    )
    orders: tuple[Callable[[int], tuple[int, int]], ...] = (
        lambda i: (-buffers[i].size, i),
        lambda i: (buffers[i].first, i),
    )
    tries = [_first_fit(buffers, sorted(buffers, key=order)) for order in orders]
    peak, offsets = min(tries, key=lambda one: one[0])
    if peak >= plan.peak_bytes:
        return plan
    bound = lower_bound(lifetimes, plan.align_bytes)
    return replace(
        plan,
        lifetimes=lifetimes,
        offsets=MappingProxyType(offsets),
        peak_bytes=peak,
        lower_bound_bytes=bound,
        is_optimal=peak == bound,
        method="first fit",
        n_tries=plan.n_tries + len(orders),
    )


def _find_later(streams: Sequence[int], waits: Iterable[tuple[int, int]]) -> list[int]:
    """For each step, the set of the steps that happen after it, as bits."""
    n_steps = len(streams)
    woken: list[list[int]] = [[] for _ in range(n_steps)]
    for record, wait in waits:
        woken[record].append(wait)
    later = [0] * n_steps
    head: dict[int, int] = {}
    for step in range(n_steps - 1, -1, -1):
        follows = [*woken[step], head[streams[step]]] if streams[step] in head else woken[step]
        bits = 0
        for other in follows:
            bits |= later[other] | 1 << other
        later[step] = bits
        head[streams[step]] = step
    return later


def _build_buffer(life: Lifetime, touches: set[int], later: Sequence[int], align_bytes: int) -> _Buffer:
    n_steps = len(later)
    touched, after = 0, (1 << n_steps) - 1
    for step in touches:
        if 0 <= step < n_steps:
            touched |= 1 << step
            after &= later[step]
    return _Buffer(
        size=align_up(life.size_bytes, align_bytes),
        first=max(0, min(touches)),
        last=max(0, *touches),
        touched=touched,
        after=after if max(touches) < n_steps else 0,
        is_early=min(touches) < 0,
    )


def _is_before(one: _Buffer, two: _Buffer) -> bool:
    """Whether all that touches `one` happens before all that touches `two`."""
    if two.is_early or not one.after:
        return False
    return not two.touched & ~one.after


def _first_fit(buffers: Mapping[int, _Buffer], order: Sequence[int]) -> tuple[int, dict[int, int]]:
    """The lowest free offset for each buffer in turn; the peak and the offsets."""
    offsets: dict[int, int] = {}
    placed: list[tuple[int, int, int]] = []
    peak = 0
    for i in order:
        mine, offset = buffers[i], 0
        if not mine.size:
            offsets[i] = 0
            continue
        for begin, end, other in placed:
            if offset + mine.size <= begin:
                break
            if end > offset and not (_is_before(mine, buffers[other]) or _is_before(buffers[other], mine)):
                offset = end
        offsets[i] = offset
        insort(placed, (offset, offset + mine.size, i))
        peak = max(peak, offset + mine.size)
    return peak, offsets
