"""Plans as JSON: they come back as they were, and nothing else is believed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.backend.memory import Lifetime, MemoryPlanError, as_json, from_json, plan_memory

LIVES = [
    Lifetime(0, 600, 0, 2),
    Lifetime(-3, 512, 1, 1),
    Lifetime(7, 100, 2, 9, 5, True),
    Lifetime(8, 0, 0, 0),
]


def test_a_plan_comes_back() -> None:
    plan = plan_memory(LIVES)
    assert from_json(as_json(plan)) == plan


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 1}', "[" * 100_000, b"\xff\xfe", '{"values": [{"id": "x"}]}']
)
def test_broken_texts_are_refused(text: str | bytes) -> None:
    with pytest.raises(MemoryPlanError) as caught:
        from_json(text)
    assert {item.code.code for item in caught.value.diagnostics} == {"E60006"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("peak_bytes", 512),
        ("lower_bound_bytes", 1),
        ("align_bytes", 0),
        ("method", "magic"),
        ("version", 2),
        ("n_tries", -1),
        ("peak_bytes", 1e400),
        ("extra", 1),
    ],
)
def test_wrong_figures_are_refused(field: str, value: object) -> None:
    document = json.loads(as_json(plan_memory(LIVES)))
    document[field] = value
    with pytest.raises(MemoryPlanError, match="E60006"):
        from_json(json.dumps(document))


def test_an_overlap_in_a_file_is_refused() -> None:
    document = json.loads(as_json(plan_memory(LIVES)))
    document["values"][1]["offset"] = document["values"][0]["offset"]
    with pytest.raises(MemoryPlanError, match="overlap"):
        from_json(json.dumps(document))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_texts_raise_nothing_else(data: st.DataObject) -> None:
    text = as_json(plan_memory(LIVES))
    at = data.draw(st.integers(0, len(text) - 1))
    text = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    try:
        plan = from_json(text)
    except MemoryPlanError:
        return
    assert from_json(as_json(plan)) == plan
