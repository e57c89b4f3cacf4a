"""Attributes, types and strings in exact form: what is written is read back, and nothing else is accepted."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.backend.exact import read_attrs, read_strings, read_type, write_attrs, write_strings, write_type
from gerules.ir import Const, DType, Format, MapType, OptionalType, SequenceType, TensorType

DIMS = st.one_of(
    st.none(), st.lists(st.one_of(st.integers(0, 2**40), st.sampled_from(["N", "2*N", "?", "ü"])), max_size=5)
)
TENSORS = st.builds(
    lambda dtype, dims, *rest: TensorType(dtype, None if dims is None else tuple(dims), *rest),
    st.sampled_from(DType), DIMS, st.sampled_from(Format), st.integers(1, 70),
)  # fmt: skip
TYPES = st.recursive(
    TENSORS,
    lambda inner: st.one_of(
        inner.map(SequenceType), inner.map(OptionalType), st.builds(MapType, st.sampled_from(DType), inner)
    ),
    max_leaves=3,
)
SCALARS = [
    st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
]  # fmt: skip
ATTRS = st.one_of(
    *SCALARS, *(st.lists(one, max_size=4).map(tuple) for one in SCALARS), st.sampled_from(DType), TYPES
)


@given(TYPES)
def test_types_come_back(type) -> None:
    assert read_type(write_type(type)) == type


@given(st.dictionaries(st.text(max_size=8), ATTRS, max_size=4))
def test_attributes_come_back(attrs) -> None:
    text, consts = write_attrs(attrs)
    assert text.isascii()
    assert repr(read_attrs(text, consts)) == repr(attrs)


def test_constants_and_odd_floats_come_back() -> None:
    const = Const(np.arange(3))
    attrs = {"c": const, "l": (const, const), "n": math.nan, "i": -math.inf, "z": -0.0, "one": 0.1}
    text, consts = write_attrs(attrs)
    found = read_attrs(text, consts)
    assert found["c"] is const and found["l"] == (const, const)
    assert math.isnan(found["n"]) and found["i"] == -math.inf and math.copysign(1, found["z"]) == -1
    assert found["one"] == 0.1


@given(st.lists(st.one_of(st.text(), st.binary()), max_size=5))
def test_strings_come_back(items) -> None:
    assert read_strings(write_strings(items)) == items


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from(list("ifsbdclt")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(JSON)
def test_anything_else_is_a_value_error(value) -> None:
    for text in (json.dumps(value), json.dumps({"a": value}), "[" * 100_000, json.dumps(value) + "]"):
        for read in (lambda t: read_attrs(t, ()), read_type, lambda t: read_strings(t.encode())):
            try:
                read(text)
            except ValueError:
                continue


def test_a_list_of_several_kinds_is_refused() -> None:
    with pytest.raises(ValueError, match="kinds"):
        read_attrs('{"a":["l",[["i",1],["s","x"]]]}', ())
