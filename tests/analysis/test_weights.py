"""Weights: every verdict carries its own proof, and agrees with trying all small weights."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from gerules.analysis.weights import Combination, Row, Weights, find_weights

NAMES = "abcdef"

rows_of = st.lists(
    st.builds(
        Row,
        st.dictionaries(st.sampled_from(NAMES), st.integers(-3, 3), max_size=4),
        st.booleans(),
    ),
    max_size=7,
)


def check(rows: list[Row]) -> Weights | Combination:
    """Find weights and hold the answer against what it claims."""
    found = find_weights(rows)
    if isinstance(found, Weights):
        assert all(weight > 0 for weight in found.by_name.values())
        for row in rows:
            change = sum(found.by_name[name] * count for name, count in row.counts.items())
            assert change < 0 or (change == 0 and not row.is_strict)
        return found
    assert found.times and all(times > 0 for times in found.times.values())
    total = dict.fromkeys(NAMES, 0)
    for place, times in found.times.items():
        for name, count in rows[place].counts.items():
            total[name] += times * count
    assert all(count >= 0 for count in total.values())
    # A combination of rows that may all stay is no proof unless some count rises.
    assert any(rows[place].is_strict for place in found.times) or any(total.values())
    return found


@given(rows_of)
def test_every_verdict_carries_its_proof(rows: list[Row]) -> None:
    check(rows)


@given(
    st.lists(
        st.builds(Row, st.dictionaries(st.sampled_from("ab"), st.integers(-2, 2), max_size=2)), max_size=5
    )
)
def test_the_verdict_is_that_of_trying_all(rows: list[Row]) -> None:
    # With two names and counts up to 2, what any weights do some between 1 and 8 do: ratios lie between
    # 1/2 and 2, or do not matter.
    trials = (dict(zip("ab", weights, strict=True)) for weights in product(range(1, 9), repeat=2))
    exists = any(all(sum(w[n] * c for n, c in row.counts.items()) < 0 for row in rows) for w in trials)
    assert isinstance(check(rows), Weights) == exists


def test_nothing_to_decide() -> None:
    assert check([]) == Weights({})
    assert check([Row({}, is_strict=False)]) == Weights({})
    assert check([Row({})]) == Combination({0: 1})


def test_a_cycle_through_three_is_found_with_its_counts() -> None:
    rows = [Row({"a": -2, "b": 1}), Row({"b": -1, "c": 3}), Row({"c": -3, "a": 2}), Row({"d": -1, "a": 5})]
    assert check(rows) == Combination({0: 1, 1: 1, 2: 1})


def test_rows_that_may_stay_do_not_stop_the_others() -> None:
    assert isinstance(check([Row({"a": -1, "b": 1}, False), Row({"b": -1, "a": 1}, False)]), Weights)
    assert isinstance(check([Row({"a": -1, "b": 1}, is_strict=False), Row({"b": -1, "a": 1})]), Combination)
