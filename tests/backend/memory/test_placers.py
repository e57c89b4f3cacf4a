"""The placers by themselves, against slow and plain counterparts."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.backend.memory.branch import branch_and_bound
from gerules.backend.memory.cliques import Packing, build_parts
from gerules.backend.memory.firstfit import colour_equal_sizes, place_first_fit
from gerules.backend.memory.lifetimes import Lifetime
from gerules.backend.memory.orders import BASE_ORDERS, rank_by
from gerules.backend.memory.skyline import Skyline


def build(seed: int, n: int, *, n_steps: int = 30, most: int = 50) -> list[tuple[list[Lifetime], Packing]]:
    random = Random(seed)
    lives = []
    for i in range(n):
        a, b = random.randrange(n_steps), random.randrange(n_steps)
        lives.append(Lifetime(i, random.randrange(1, most), min(a, b), max(a, b)))
    return [([lives[i] for i in part.members], part.packing) for part in build_parts(lives, 1)]


def overlap(packing: Packing, i: int, j: int) -> bool:
    return packing.low[i] < packing.high[j] and packing.low[j] < packing.high[i]


def assert_placed(packing: Packing, offsets: list[int], target: int) -> None:
    n = len(offsets)
    assert all(offsets[i] >= 0 and offsets[i] + packing.size[i] <= target for i in range(n))
    for i in range(n):
        for j in range(i):
            apart = offsets[i] >= offsets[j] + packing.size[j] or offsets[j] >= offsets[i] + packing.size[i]
            assert apart or not overlap(packing, i, j)


@pytest.mark.parametrize("seed", range(20))
def test_cliques_keep_overlaps_and_the_bound(seed: int) -> None:
    for lives, packing in build(seed, 40):
        for i, one in enumerate(lives):
            for j, two in enumerate(lives):
                assert overlap(packing, i, j) == (one.first <= two.last and two.first <= one.last)
        steps = range(min(life.first for life in lives), max(life.last for life in lives) + 1)
        alive = [sum(life.size_bytes for life in lives if life.first <= t <= life.last) for t in steps]
        assert packing.lower_bound == max(alive)
        assert packing.n_cliques <= len(lives)


@pytest.mark.parametrize("seed", range(15))
def test_first_fit_is_exactly_first_fit(seed: int) -> None:
    for _, packing in build(seed, 80):
        order = list(range(len(packing.size)))
        Random(seed).shuffle(order)
        want = [-1] * len(order)
        for i in order:
            at = 0
            rivals = sorted((want[j], j) for j in order if want[j] >= 0 and overlap(packing, i, j))
            for low, j in rivals:
                if at + packing.size[i] <= low:
                    break
                at = max(at, low + packing.size[j])
            want[i] = at
        assert place_first_fit(packing, order) == want
        assert place_first_fit(packing, order, max_looks=10**9) == want


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("slack", [0, 3, 200])
def test_a_dive_places_all_or_says_where_it_is_stuck(seed: int, slack: int) -> None:
    for _, packing in build(seed, 50):
        skyline = Skyline(packing)
        target = packing.lower_bound + slack
        for key in BASE_ORDERS:
            dive = skyline.dive(rank_by(packing, key), target)
            if dive.offsets:
                assert_placed(packing, dive.offsets, target)
                continue
            begin, end = dive.stuck
            assert any(packing.low[i] < end and packing.high[i] > begin for i in dive.unplaced)
            assert 0 < len(dive.unplaced) <= len(packing.size)


def test_a_dive_with_room_for_all_in_a_pile_ends() -> None:
    for _, packing in build(1, 60):
        dive = Skyline(packing).dive(rank_by(packing, "TWA"), 2 * sum(packing.size))
        assert_placed(packing, dive.offsets, 2 * sum(packing.size))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=30))
def test_equal_sizes_reach_the_bound(rows: list[tuple[int, int]]) -> None:
    lives = [Lifetime(i, 64, min(row), max(row)) for i, row in enumerate(rows)]
    for part in build_parts(lives, 1):
        assert_placed(part.packing, colour_equal_sizes(part.packing), part.packing.lower_bound)


def can_place(packing: Packing, target: int) -> bool:
    """Every offset for every buffer, one by one."""
    n = len(packing.size)
    offsets: list[int] = []

    def place(i: int) -> bool:
        if i == n:
            return True
        for at in range(target - packing.size[i] + 1):
            if all(
                at >= offsets[j] + packing.size[j]
                or offsets[j] >= at + packing.size[i]
                or not overlap(packing, i, j)
                for j in range(i)
            ):
                offsets.append(at)
                if place(i + 1):
                    return True
                offsets.pop()
        return False

    return place(0)


@pytest.mark.parametrize("seed", range(120))
def test_exact_search_decides_as_trying_everything_does(seed: int) -> None:
    for _, packing in build(seed, 6, n_steps=6, most=5):
        for target in (packing.lower_bound, packing.lower_bound + 1):
            found = branch_and_bound(packing, rank_by(packing, "TWA"), target, node_limit=100_000)
            assert found.verdict == ("placed" if can_place(packing, target) else "impossible")
            if found.offsets:
                assert_placed(packing, found.offsets, target)


def test_exact_search_stops_at_its_limit_without_an_answer() -> None:
    _, packing = max(build(3, 300), key=lambda item: len(item[1].size))
    found = branch_and_bound(packing, rank_by(packing, "Z"), packing.lower_bound, node_limit=5)
    assert found.verdict == "undecided"
    assert found.n_nodes <= 6


def test_exact_search_goes_deeper_than_the_interpreter_may_recurse() -> None:
    lives = [Lifetime(i, 1 + i % 3, 0, 1 + i % 5) for i in range(1_500)]
    (part,) = build_parts(lives, 1)
    found = branch_and_bound(
        part.packing, rank_by(part.packing, "WZ"), part.packing.lower_bound, node_limit=3_000
    )
    assert found.verdict == "placed"
