"""Sharing buffers: aliases are obeyed, in-place outputs are granted only when that is legal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.backend.memory import (
    InPlace,
    Lifetime,
    MemoryPlanError,
    check_plan,
    coalesce,
    plan_memory,
    spread_offsets,
)


def test_a_no_copy_view_has_the_offset_of_its_source() -> None:
    lives = [Lifetime(0, 512, 0, 2), Lifetime(1, 512, 2, 5), Lifetime(2, 512, 3, 4)]
    shared = coalesce(lives, aliases=[(1, 0)])
    assert shared.leader == {0: 0, 1: 0, 2: 2}
    assert (shared.lifetimes[0].first, shared.lifetimes[0].last) == (0, 5)
    offsets = spread_offsets(plan_memory(shared.lifetimes), shared)
    assert offsets[0] == offsets[1] != offsets[2]
    assert check_plan(lives, offsets, aliases=[(0, 1)]) == []


def test_a_chain_in_place_needs_one_buffer() -> None:
    lives = [Lifetime(i, 512, i, i + 1) for i in range(6)]
    wishes = [InPlace(i + 1, i) for i in range(5)]
    shared = coalesce(lives, in_place=wishes)
    assert list(shared.taken) == wishes
    assert plan_memory(shared.lifetimes).peak_bytes == 512


@pytest.mark.parametrize(
    ("lives", "reason"),
    [
        ([Lifetime(0, 512, 0, 1), Lifetime(1, 256, 1, 2)], "sizes differ"),
        ([Lifetime(0, 512, 0, 2), Lifetime(1, 512, 1, 2)], "the input is read later"),
        ([Lifetime(0, 512, 1, 1), Lifetime(1, 512, 1, 2)], "the input is not older than the output"),
        ([Lifetime(0, 512, 0, 1, is_kept=True), Lifetime(1, 512, 1, 2)], "the buffer is kept"),
        ([Lifetime(0, 512, 0, 1), Lifetime(1, 512, 1, 2, is_kept=True)], "the buffer is kept"),
    ],
)
def test_what_is_not_legal_is_refused_with_a_reason(lives: list[Lifetime], reason: str) -> None:
    shared = coalesce(lives, in_place=[InPlace(1, 0)])
    assert shared.refused == ((InPlace(1, 0), reason),)
    assert len(shared.lifetimes) == 2


def test_one_input_is_handed_on_once() -> None:
    lives = [Lifetime(0, 512, 0, 1), Lifetime(1, 512, 1, 1), Lifetime(2, 512, 1, 3)]
    shared = coalesce(lives, in_place=[InPlace(1, 0), InPlace(2, 0)])
    assert shared.taken == (InPlace(1, 0),)
    assert shared.refused == ((InPlace(2, 0), "the buffer was handed on already"),)


def test_one_output_takes_over_one_input() -> None:
    lives = [Lifetime(0, 512, 0, 2), Lifetime(1, 512, 1, 2), Lifetime(2, 512, 2, 3)]
    shared = coalesce(lives, in_place=[InPlace(2, 0), InPlace(2, 1)])
    assert len(shared.taken) == 1


def test_a_view_that_is_read_later_keeps_its_source_from_being_taken_over() -> None:
    lives = [Lifetime(0, 512, 0, 1), Lifetime(1, 512, 0, 4), Lifetime(2, 512, 1, 2)]
    shared = coalesce(lives, aliases=[(0, 1)], in_place=[InPlace(2, 0)])
    assert shared.taken == ()


def test_with_several_streams_the_last_reader_counts_when_its_order_is_known() -> None:
    lives = [Lifetime(0, 512, 0, 7, last_read=3), Lifetime(1, 512, 3, 9)]
    assert coalesce(lives, in_place=[InPlace(1, 0)]).taken == ()
    shared = coalesce(lives, in_place=[InPlace(1, 0, is_ordered=True)])
    assert len(shared.taken) == 1
    offsets = spread_offsets(plan_memory(shared.lifetimes), shared)
    assert check_plan(lives, offsets, in_place=shared.taken) == []


def test_unknown_ids_are_all_reported() -> None:
    with pytest.raises(MemoryPlanError) as caught:
        coalesce([Lifetime(0, 1, 0, 0)], aliases=[(0, 5)], in_place=[InPlace(6, 7)])
    assert [item.facts["id"] for item in caught.value.diagnostics] == [5, 6, 7]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_whatever_is_granted_passes_the_checker(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 10))
    rows = data.draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=n, max_size=n))
    size = st.sampled_from([64, 64, 64, 128])
    lives = [Lifetime(i, data.draw(size), first, first + length) for i, (first, length) in enumerate(rows)]
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    aliases = data.draw(st.lists(pair, max_size=2))
    meets = [InPlace(b.id, a.id) for a in lives for b in lives if a is not b and a.last == b.first]
    wishes = [
        *data.draw(st.permutations(meets)),
        *(InPlace(a, b) for a, b in data.draw(st.lists(pair, max_size=3))),
    ]
    shared = coalesce(lives, aliases=aliases, in_place=wishes)
    plan = plan_memory(shared.lifetimes, align_bytes=64)
    offsets = spread_offsets(plan, shared)
    flaws = check_plan(lives, offsets, align_bytes=64, aliases=aliases, in_place=shared.taken)
    assert flaws == []
    assert (
        plan.peak_bytes <= plan_memory(coalesce(lives, aliases=aliases).lifetimes, align_bytes=64).peak_bytes
    )
