"""Memory plans: nothing alive overlaps, the peak is at the bound or proven, out of memory is explained."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.backend.memory import Lifetime, MemoryPlanError, check_plan, keep, lower_bound, plan_memory

SIZES = st.integers(0, 5_000)


@st.composite
def lifetimes(draw: st.DrawFn, max_size: int = 40, sizes: st.SearchStrategy[int] = SIZES) -> list[Lifetime]:
    n_steps = draw(st.integers(1, 30))
    rows = draw(
        st.lists(st.tuples(sizes, st.integers(0, n_steps), st.integers(0, n_steps)), max_size=max_size)
    )
    return [Lifetime(i, size, min(a, b), max(a, b)) for i, (size, a, b) in enumerate(rows)]


def overlap(one: Lifetime, two: Lifetime) -> bool:
    return one.first <= two.last and two.first <= one.last


def has_collision(lives: list[Lifetime], offsets: dict[int, int]) -> bool:
    """Pairwise, by the definition."""
    return any(
        overlap(one, two)
        and offsets[one.id] < offsets[two.id] + two.size_bytes
        and offsets[two.id] < offsets[one.id] + one.size_bytes
        for k, one in enumerate(lives)
        for two in lives[:k]
        if one.size_bytes and two.size_bytes
    )


def best_height(lives: list[Lifetime]) -> int:
    """The optimum: first fit in some order always reaches it."""
    best = sum(life.size_bytes for life in lives)
    for order in permutations(lives):
        placed: list[tuple[int, Lifetime]] = []
        height = 0
        for life in order:
            at = 0
            for low, other in sorted(((low, o) for low, o in placed if overlap(o, life)), key=lambda x: x[0]):
                if at + life.size_bytes <= low:
                    break
                at = max(at, low + other.size_bytes)
            placed.append((at, life))
            height = max(height, at + life.size_bytes)
            if height >= best:
                break
        best = min(best, height)
    return best


ABOVE_THE_BOUND = [
    Lifetime(i, size, first, last)
    for i, (size, first, last) in enumerate(
        [
            (18, 0, 0),
            (13, 3, 4),
            (7, 1, 1),
            (5, 1, 2),
            (5, 2, 2),
            (3, 1, 3),
            (3, 0, 2),
            (3, 2, 4),
            (2, 1, 3),
            (1, 1, 4),
            (1, 0, 1),
        ]
    )
]
"""Found by search: 22 bytes are alive at one step, yet no placement is lower than 23."""


def can_place(lives: list[Lifetime], height: int) -> bool:
    """Try every offset of every value."""

    def place(i: int, placed: list[tuple[int, Lifetime]]) -> bool:
        if i == len(lives):
            return True
        life = lives[i]
        rivals = [(low, low + other.size_bytes) for low, other in placed if overlap(life, other)]
        for at in range(height - life.size_bytes + 1):
            end = at + life.size_bytes
            if all(end <= low or at >= high for low, high in rivals) and place(i + 1, [*placed, (at, life)]):
                return True
        return False

    return place(0, [])


@settings(max_examples=300, deadline=None)
@given(lifetimes(), st.sampled_from([1, 7, 32, 512]), st.sampled_from(["fast", "normal"]))
def test_a_plan_holds(lives: list[Lifetime], align: int, effort: str) -> None:
    plan = plan_memory(lives, align_bytes=align, effort=effort)  # type: ignore[arg-type]
    assert not has_collision(lives, dict(plan.offsets))
    assert not check_plan(lives, plan.offsets, align_bytes=align, limit_bytes=plan.peak_bytes)
    assert plan.lower_bound_bytes == lower_bound(lives, align) <= plan.peak_bytes
    assert plan.peak_bytes % align == 0
    assert set(plan.offsets) == {life.id for life in lives}
    if plan.peak_bytes == plan.lower_bound_bytes:
        assert plan.is_optimal


@settings(max_examples=150, deadline=None)
@given(lifetimes(max_size=6, sizes=st.integers(1, 9)))
def test_a_small_plan_is_the_best_there_is(lives: list[Lifetime]) -> None:
    plan = plan_memory(lives, align_bytes=1)
    assert plan.peak_bytes == best_height(lives)
    assert plan.is_optimal


def test_the_best_plan_can_lie_above_the_bound_and_is_proven() -> None:
    plan = plan_memory(ABOVE_THE_BOUND, align_bytes=1)
    assert plan.lower_bound_bytes == 22
    assert (plan.peak_bytes, plan.is_optimal) == (23, True)
    assert not can_place(ABOVE_THE_BOUND, 22)


@pytest.mark.parametrize("effort", ["fast", "normal"])
def test_the_same_call_gives_the_same_plan(effort: str) -> None:
    random = Random(5)
    lives = []
    for i in range(300):
        first = random.randrange(60)
        lives.append(Lifetime(i, random.randrange(1, 1 << 20), first, first + random.randrange(20)))
    one = plan_memory(lives, effort=effort)  # type: ignore[arg-type]
    two = plan_memory(lives, effort=effort)  # type: ignore[arg-type]
    assert one == two


def test_a_chain_of_equal_tensors_alternates_between_two_blocks() -> None:
    plan = plan_memory([Lifetime(i, 1024, i, i + 1) for i in range(4)])
    assert plan.peak_bytes == 2 * 1024
    assert [plan.offsets[i] for i in (0, 2)] == [plan.offsets[0]] * 2
    assert [plan.offsets[i] for i in (1, 3)] == [plan.offsets[1]] * 2
    assert plan.method == "equal sizes"


def test_big_small_big_takes_the_smaller_total() -> None:
    lives = [Lifetime(0, 4096, 0, 1), Lifetime(1, 512, 1, 2), Lifetime(2, 4096, 2, 3)]
    plan = plan_memory(lives)
    assert plan.peak_bytes == 4096 + 512


def test_single_bytes_lie_at_multiples_of_the_alignment() -> None:
    plan = plan_memory([Lifetime(i, 1, 0, 1) for i in range(5)])
    assert sorted(plan.offsets.values()) == [0, 512, 1024, 1536, 2048]
    assert plan.peak_bytes == 2560


def test_a_value_of_size_zero_takes_no_room() -> None:
    plan = plan_memory([Lifetime(0, 0, 0, 9), Lifetime(1, 512, 0, 9)])
    assert plan.peak_bytes == 512
    assert plan.offsets[0] == 0


def test_an_empty_plan_is_empty() -> None:
    plan = plan_memory([])
    assert (plan.peak_bytes, plan.lower_bound_bytes, plan.method, plan.ratio) == (0, 0, "empty", 1.0)


def test_input_and_output_of_one_task_overlap() -> None:
    plan = plan_memory([Lifetime(0, 512, 0, 3), Lifetime(1, 512, 3, 4), Lifetime(2, 512, 4, 4)])
    assert plan.offsets[0] != plan.offsets[1] != plan.offsets[2]
    assert plan.peak_bytes == 1024


def test_memory_types_are_planned_apart() -> None:
    pools = {"HBM": [Lifetime(0, 512, 0, 1)], "P2P": [Lifetime(1, 512, 0, 1)]}
    assert {name: plan_memory(lives).offsets for name, lives in pools.items()} == {
        "HBM": {0: 0},
        "P2P": {1: 0},
    }


def test_out_of_memory_names_the_peak_the_limit_and_who_is_alive() -> None:
    lives = [Lifetime(0, 1000, 0, 4), Lifetime(1, 3000, 2, 6), Lifetime(2, 500, 5, 8)]
    with pytest.raises(MemoryPlanError) as caught:
        plan_memory(lives, limit_bytes=4000)
    assert caught.value.code == "E60003"
    facts = caught.value.diagnostics[0].facts
    assert facts == {"peak": 4096, "limit": 4000, "step": 2, "alive": (1, 0)}
    assert "value 1: 3072 bytes, steps 2 to 6" in caught.value.diagnostics[0].notes
    assert plan_memory(lives, limit_bytes=4096).peak_bytes == 4096


def test_a_limit_between_bound_and_optimum_is_refused_without_a_plan() -> None:
    with pytest.raises(MemoryPlanError, match="E60003") as caught:
        plan_memory(ABOVE_THE_BOUND, align_bytes=1, limit_bytes=22)
    assert caught.value.diagnostics[0].facts["peak"] == 23
    assert plan_memory(ABOVE_THE_BOUND, align_bytes=1, limit_bytes=23).peak_bytes == 23


def test_all_faults_of_the_lifetimes_are_reported_at_once() -> None:
    with pytest.raises(MemoryPlanError) as caught:
        plan_memory([Lifetime(0, -1, 0, 1), Lifetime(1, 1, 3, 2), Lifetime(1, 1, 0, 0)])
    assert [item.code.code for item in caught.value.diagnostics] == ["E60004"] * 3


@pytest.mark.parametrize("align", [0, -512])
def test_an_alignment_must_be_positive(align: int) -> None:
    with pytest.raises(MemoryPlanError, match="E60005"):
        plan_memory([], align_bytes=align)


def test_kept_values_are_held_for_the_whole_run() -> None:
    lives = keep([Lifetime(0, 512, 3, 4), Lifetime(1, 512, 0, 1), Lifetime(2, 512, 6, 7)], {0}, 8)
    assert (lives[0].first, lives[0].last, lives[0].last_read, lives[0].is_kept) == (0, 7, 4, True)
    plan = plan_memory(lives)
    assert plan.offsets[1] == plan.offsets[2] != plan.offsets[0]


def test_rows_list_offsets_and_lives() -> None:
    plan = plan_memory([Lifetime(4, 600, 0, 1), Lifetime(9, 512, 1, 2)])
    rows = {row.id: row for row in plan.rows()}
    assert (rows[4].size_bytes, rows[4].life_start, rows[4].life_end) == (600, 0, 1)
    assert {row.offset for row in plan.rows()} == set(plan.offsets.values())


def test_time_reversed_lives_cost_the_same_bound() -> None:
    random = Random(3)
    lives = []
    for i in range(200):
        first = random.randrange(100)
        lives.append(Lifetime(i, random.randrange(1, 4096), first, first + random.randrange(9)))
    back = [replace(life, first=-life.last, last=-life.first) for life in lives]
    assert plan_memory(back).lower_bound_bytes == plan_memory(lives).lower_bound_bytes


def test_disjoint_stretches_share_the_arena() -> None:
    lives = [Lifetime(i, 1000 + i, 10 * i, 10 * i + 5) for i in range(50)]
    plan = plan_memory(lives, align_bytes=1)
    assert plan.peak_bytes == 1049
    assert set(plan.offsets.values()) == {0}
