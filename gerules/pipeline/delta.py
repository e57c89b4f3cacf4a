"""Delta debugging: a smallest set that still fails, found with few trials."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Smallest(Generic[T]):
    """A set that fails. `is_minimal`: without any one of its items it passes."""

    items: tuple[T, ...]
    is_minimal: bool


def find_smallest(
    items: Sequence[T],
    fails: Callable[[Sequence[T]], bool],
    *,
    is_gradual: Callable[[Sequence[T], Sequence[T]], bool] | None = None,
) -> Smallest[T]:
    """Find a smallest set of `items` that fails, where all of them together fail and none of them passes.

    The shortest beginning of `items` that fails is looked for, first by doubling, then by halving. Its last
    item is needed; with that one kept, the same is done to what stands before it, until the kept ones
    fail alone. So items that are suspected should come first: a single suspect that stands at place `p` takes
    about `2 log2 p` trials. In the end items are left out one by one, which makes it minimal in the sense of
    `ddmin`; where more items never make a failing set pass, no subset of the result fails.

    Args:
        fails: Judges a set; a trial that cannot be judged counts as passed. Sets may come twice.
        is_gradual: Asked of a beginning that passes and the one longer by an item that fails. When it says
            yes, the latter is the result: no few of its items are at fault.

    Cost: `k` items of `n` take at most `k * (2 * log2(n) + 3)` trials.
    Source: Zeller and Hildebrandt, 2002, "Simplifying and Isolating Failure-Inducing Input"; the order of
    preference as in Junker, 2004, "QuickXplain".
    """
    kept: list[T] = []
    rest = list(items)
    while rest and not (kept and fails(kept)):
        n_needed = shortest(len(rest), lambda n: fails([*kept, *rest[:n]]))
        one, two = (*kept, *rest[: n_needed - 1]), (*kept, *rest[:n_needed])
        if is_gradual is not None and is_gradual(one, two):
            return Smallest(two, is_minimal=False)
        kept.append(rest[n_needed - 1])
        del rest[n_needed - 1 :]
    return leave_out(list(reversed(kept)), fails)


def leave_out(
    items: Sequence[T],
    holds: Callable[[Sequence[T]], bool],
    *,
    may_go: Callable[[Sequence[T]], Sequence[T]] | None = None,
    most_trials: int | None = None,
) -> Smallest[T]:
    """Leave items out one by one, the last first, as long as it holds for the others.

    Each of those left was tried last with exactly the others that are left, whatever an item does to the
    effect of another one.

    Args:
        items: Those that matter most first. It holds for all of them.
        may_go: Which of some items may be left out by themselves; without it each of them.
        most_trials: After as many the result is not minimal.

    Cost: `n` items of which `k` are left take at least `n` and at most `n * (n + 1) / 2` trials; where items
    do not change what others do, at most `n + k`.
    """
    free = may_go or _all
    kept: list[T] = [*items]
    pending: deque[T] = deque(reversed(free(kept)))
    n_trials = 0
    while pending and len(kept) > 1:
        if n_trials == most_trials:
            return Smallest(tuple(kept), is_minimal=False)
        item = pending.popleft()
        others: list[T] = [one for one in kept if one != item]
        n_trials += 1
        if holds(others):
            kept = others
            pending.extend(one for one in reversed(free(kept)) if one not in pending)
    return Smallest(tuple(kept), is_minimal=True)


def _all(items: Sequence[T]) -> Sequence[T]:
    return items


def shortest(n_all: int, fails: Callable[[int], bool]) -> int:
    """Return an `n` such that `n` fails and `n - 1` passes, where `n_all` fails and 0 passes."""
    passed, failed = 0, 1
    while failed < n_all and not fails(failed):
        passed, failed = failed, failed * 2
    failed = min(failed, n_all)
    while failed - passed > 1:
        middle = (passed + failed) // 2
        if fails(middle):
            failed = middle
        else:
            passed = middle
    return failed
