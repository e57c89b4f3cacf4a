"""Dim arithmetic: what it spells is right for every size the names can have."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.ir import Dim
from gerules.ops.dims import (
    add_dims,
    broadcast_dims,
    ceildiv_dim,
    floordiv_dim,
    mul_dims,
    product,
    quotient,
    sub_dims,
)

NAMES = ("N", "M", "seq", "长")
ATOMS = st.one_of(st.integers(0, 9), st.sampled_from(NAMES))
SIZES = st.fixed_dictionaries({name: st.integers(0, 7) for name in NAMES})


def value(dim: Dim, sizes: dict[str, int]) -> int | None:
    """The size a dim has when the names have these sizes; None when it is unknown."""
    if dim == "?":
        return None
    if isinstance(dim, int):
        return dim
    total = 0
    for sign, term in re.findall(r"([+-]?)([^+-]+)", dim):
        factor = 1
        for part in term.split("*"):
            factor *= sizes[part] if part in sizes else int(part)
        total += -factor if sign == "-" else factor
    return total


@st.composite
def sums(draw: st.DrawFn) -> Dim:
    dim = draw(ATOMS)
    for _ in range(draw(st.integers(0, 3))):
        dim = draw(st.sampled_from((add_dims, mul_dims)))(dim, draw(ATOMS))
    return dim


@given(sums(), sums(), SIZES)
def test_sums_products_and_differences(left: Dim, right: Dim, sizes: dict[str, int]) -> None:
    one, two = value(left, sizes), value(right, sizes)
    if one is None or two is None:
        return
    for found, want in [
        (add_dims(left, right), one + two),
        (mul_dims(left, right), one * two),
        (sub_dims(left, right), one - two),
        (product([left, right, 2]), one * two * 2),
    ]:
        assert value(found, sizes) in (None, want)


@given(sums(), st.integers(1, 6), SIZES)
def test_divisions_round_as_integers_do(dim: Dim, divisor: int, sizes: dict[str, int]) -> None:
    size = value(dim, sizes)
    if size is None:
        return
    assert value(floordiv_dim(dim, divisor), sizes) in (None, size // divisor)
    assert value(ceildiv_dim(dim, divisor), sizes) in (None, -(-size // divisor))


@given(st.lists(sums(), max_size=3), st.lists(ATOMS, max_size=3), SIZES)
def test_quotients_are_exact(above: list[Dim], below: list[Dim], sizes: dict[str, int]) -> None:
    total, part = value(product(above), sizes), value(product(below), sizes)
    found = quotient(above, below)
    if not total or not part or found is None:
        return
    size = value(found, sizes)
    # Where a whole number is promised, it must be the right one.
    assert size is None or total % part or size == total // part


@given(sums(), sums(), SIZES)
def test_broadcasting(left: Dim, right: Dim, sizes: dict[str, int]) -> None:
    one, two = value(left, sizes), value(right, sizes)
    if one is None or two is None or (one != two and 1 not in (one, two)):
        return
    found = broadcast_dims(left, right)
    assert found is not None
    assert value(found, sizes) in (None, two if one == 1 else one)


@given(sums())
def test_spelling_is_canonical(dim: Dim) -> None:
    assert add_dims(add_dims(dim, 1), -1) in (dim, "?")


def test_equal_sums_are_spelled_alike() -> None:
    assert add_dims(add_dims("M", "N"), "M") == add_dims("N", mul_dims(2, "M")) == "2*M+N"
    assert quotient(["N", "S", 768], ["S", "N", 12]) == 64
    assert quotient(["N", 7], [2, "N"]) is None


@pytest.mark.parametrize(
    "name", ["seq-len", "floor(H/2)", "a b", "N//2", "", "+", "2**N", "1N", "N+", "x" * 500]
)
def test_a_name_that_is_no_sum_stays_whole(name: str) -> None:
    assert add_dims(name, 0) == name
    assert add_dims(name, 1) == "?"
    assert mul_dims(name, 2) == "?"
    assert sub_dims(name, name) == 0
