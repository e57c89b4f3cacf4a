"""Delta debugging on sets: what comes back fails, is minimal, and took few trials."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from gerules.pipeline.delta import find_smallest, leave_out


@st.composite
def families(draw: st.DrawFn) -> tuple[int, list[frozenset[int]]]:
    """A number of items, and sets of them each of which makes whatever holds it fail."""
    n = draw(st.integers(1, 60))
    items = st.frozensets(st.integers(0, n - 1), min_size=1, max_size=4)
    return n, draw(st.lists(items, min_size=1, max_size=4))


@given(families())
def test_a_minimal_set_is_found_with_few_trials(family: tuple[int, list[frozenset[int]]]) -> None:
    n, culprits = family
    trials: set[frozenset[int]] = set()

    def fails(items: Sequence[int]) -> bool:
        trials.add(frozenset(items))
        return any(one <= set(items) for one in culprits)

    found = find_smallest(range(n), fails)
    assert found.is_minimal and fails(found.items)
    for item in found.items:
        assert not fails([one for one in found.items if one != item])
    k = len(found.items)
    assert len(trials) <= k * (2 * ceil(log2(n + 1)) + 3) + 1


@given(st.integers(1, 12), st.data())
def test_whatever_comes_back_fails_even_where_more_items_make_it_pass(n: int, data: st.DataObject) -> None:
    verdicts: dict[frozenset[int], bool] = {frozenset(): False, frozenset(range(n)): True}

    def fails(items: Sequence[int]) -> bool:
        return verdicts.setdefault(frozenset(items), data.draw(st.booleans()))

    assert verdicts[frozenset(find_smallest(range(n), fails).items)]


def test_a_suspect_that_stands_first_is_found_at_once() -> None:
    trials: list[int] = []

    def fails(items: Sequence[int]) -> bool:
        trials.append(len(items))
        return 0 in items

    assert find_smallest(range(1000), fails).items == (0,)
    assert len(trials) <= 3


def test_a_gradual_failure_is_not_taken_apart() -> None:
    found = find_smallest(
        range(100), lambda items: len(items) >= 10, is_gradual=lambda passing, failing: len(failing) > 4
    )
    assert found.items == tuple(range(10)) and not found.is_minimal


@given(st.integers(2, 9), st.data())
def test_what_is_left_was_tried_without_each_of_its_items(n: int, data: st.DataObject) -> None:
    verdicts: dict[frozenset[int], bool] = {}

    def holds(items: Sequence[int]) -> bool:
        return verdicts.setdefault(frozenset(items), data.draw(st.booleans()))

    found = leave_out(range(n), holds)
    assert found.is_minimal
    whole = frozenset(found.items)
    assert len(whole) == n or verdicts[whole]
    for item in whole if len(whole) > 1 else ():
        assert verdicts[whole - {item}] is False
    assert len(verdicts) <= n * (n + 1) / 2


def test_of_many_items_the_last_go_first_and_trials_are_limited() -> None:
    trials: list[Sequence[int]] = []

    def holds(items: Sequence[int]) -> bool:
        trials.append(items)
        return len(items) >= 3

    assert leave_out(range(10), holds).items == (0, 1, 2)
    assert len(trials) == 10
    cut = leave_out(range(10), holds, most_trials=2)
    assert (cut.items, cut.is_minimal) == (tuple(range(8)), False)
