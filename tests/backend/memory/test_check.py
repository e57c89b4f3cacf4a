"""The checker: it finds what is planted, and agrees with a pairwise count."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gerules.backend.memory import InPlace, Lifetime, check_plan, find_long_lives, lower_bound, plan_memory


@st.composite
def placed(draw: st.DrawFn) -> tuple[list[Lifetime], dict[int, int]]:
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(0, 8), st.integers(0, 14)),
            max_size=14,
        )
    )
    lives = [Lifetime(i, size, min(a, b), max(a, b)) for i, (size, a, b, _) in enumerate(rows)]
    return lives, {i: row[3] for i, row in enumerate(rows)}


@settings(max_examples=500, deadline=None)
@given(placed())
def test_every_overlap_is_found_and_no_other(case: tuple[list[Lifetime], dict[int, int]]) -> None:
    lives, offsets = case
    want = {
        (frozenset((one.id, two.id)), max(one.first, two.first), min(one.last, two.last))
        for k, one in enumerate(lives)
        for two in lives[:k]
        if one.size_bytes
        and two.size_bytes
        and max(one.first, two.first) <= min(one.last, two.last)
        and max(offsets[one.id], offsets[two.id])
        < min(offsets[one.id] + one.size_bytes, offsets[two.id] + two.size_bytes)
    }
    flaws = check_plan(lives, offsets)
    assert len(flaws) == len(want)
    assert {(frozenset((f.id, f.other)), f.first_step, f.last_step) for f in flaws} == want


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_moving_a_buffer_into_a_live_neighbour_is_caught(seed: int, data: st.DataObject) -> None:
    random = Random(seed)
    lives = []
    for i in range(25):
        first = random.randrange(12)
        lives.append(Lifetime(i, random.randrange(1, 3000), first, first + random.randrange(6)))
    plan = plan_memory(lives, effort="fast")
    victim = data.draw(st.sampled_from(lives))
    rivals = [o for o in lives if o is not victim and o.first <= victim.last and victim.first <= o.last]
    assume(rivals)
    rival = data.draw(st.sampled_from(rivals))
    moved = {**plan.offsets, victim.id: plan.offsets[rival.id]}
    assert not check_plan(lives, plan.offsets)
    pairs = {frozenset((flaw.id, flaw.other)) for flaw in check_plan(lives, moved)}
    assert frozenset((victim.id, rival.id)) in pairs


def test_each_kind_of_flaw_has_its_name() -> None:
    lives = [Lifetime(i, 100, i, i) for i in range(6)]
    offsets = {0: 0, 1: -512, 2: 7, 3: 2048, 5: 1024}
    flaws = check_plan(lives, offsets, align_bytes=512, limit_bytes=2048, aliases=[(0, 5)])
    assert {(flaw.kind, flaw.id) for flaw in flaws} == {
        ("negative offset", 1),
        ("misaligned", 2),
        ("above the limit", 3),
        ("no offset", 4),
        ("alias apart", 5),
    }


def test_the_number_of_flaws_is_bounded() -> None:
    lives = [Lifetime(i, 8, 0, 0) for i in range(2_000)]
    assert len(check_plan(lives, dict.fromkeys(range(2000), 0), max_flaws=10)) == 10


IN_PLACE = [Lifetime(0, 64, 0, 3), Lifetime(1, 64, 3, 5), Lifetime(2, 64, 3, 5)]


def test_a_granted_in_place_output_is_no_overlap() -> None:
    offsets = {0: 0, 1: 0, 2: 64}
    assert check_plan(IN_PLACE, offsets, in_place=[InPlace(1, 0)]) == []
    assert [flaw.kind for flaw in check_plan(IN_PLACE, offsets)] == ["overlap"]


def test_two_outputs_cannot_take_over_one_input() -> None:
    flaws = check_plan(IN_PLACE, {0: 0, 1: 0, 2: 0}, in_place=[InPlace(1, 0), InPlace(2, 0)])
    assert {frozenset((flaw.id, flaw.other)) for flaw in flaws} >= {frozenset((1, 2))}


def test_an_input_that_is_read_later_cannot_be_taken_over() -> None:
    lives = [Lifetime(0, 64, 0, 4), Lifetime(1, 64, 3, 5)]
    (flaw,) = check_plan(lives, {0: 0, 1: 0}, in_place=[InPlace(1, 0)])
    assert (flaw.kind, flaw.first_step, flaw.last_step) == ("overlap", 3, 4)


def test_an_in_place_output_elsewhere_is_a_flaw() -> None:
    flaws = check_plan(IN_PLACE, {0: 0, 1: 128, 2: 64}, in_place=[InPlace(1, 0)])
    assert [flaw.kind for flaw in flaws] == ["in place apart"]


@pytest.mark.parametrize(("align", "want"), [(1, 300), (512, 1024)])
def test_the_bound_counts_padded_sizes(align: int, want: int) -> None:
    assert (
        lower_bound([Lifetime(0, 100, 0, 2), Lifetime(1, 200, 2, 3), Lifetime(2, 250, 4, 9)], align) == want
    )


def test_bytes_held_after_their_last_reader_are_found() -> None:
    lives = [Lifetime(0, 10, 0, 9, last_read=8), Lifetime(1, 10, 0, 9, last_read=2), Lifetime(2, 10, 0, 9)]
    found = find_long_lives(lives)
    assert [(item.id, item.n_steps) for item in found] == [(1, 7), (0, 1)]
