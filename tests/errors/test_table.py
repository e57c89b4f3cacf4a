"""The error table: codes, slugs and names are unique, and every entry is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gerules.errors import TABLE, Diagnostic, ErrorCode, Faults, GerulesError, Source, Span, render
from gerules.errors import table as table_module

ENTRIES = re.findall(r"^([A-Z0-9_]+): Final = ErrorCode\(", Path(table_module.__file__).read_text(), re.M)


def test_names_and_slugs_are_unique() -> None:
    assert len(ENTRIES) == len(set(ENTRIES)) == len(TABLE)
    assert len({item.slug for item in TABLE.values()}) == len(TABLE)


@pytest.mark.parametrize("item", TABLE.values(), ids=lambda item: item.code)
def test_an_entry_is_complete(item: ErrorCode) -> None:
    assert re.fullmatch(r"[EW][0-9A-Z]{5}", item.code)
    assert item.message and item.cause.endswith(".") and item.hint
    assert not item.message.endswith(".")


def test_a_long_line_is_cut_around_the_caret() -> None:
    text = "x" * 500 + "!" + "y" * 500
    span = Span(Source("f", text), 500, 501)
    shown = render([Diagnostic(table_module.UNDEFINED_NAME, {"name": "!"}, span)])
    line, caret = shown.splitlines()[3:5]
    assert len(line) < 130
    assert line[caret.index("^")] == "!"


def test_all_faults_travel_in_one_exception() -> None:
    faults = Faults()
    faults.add(table_module.UNDEFINED_NAME, name="a")
    faults.add(table_module.UNDEFINED_NAME, name="b", severity="warning")
    faults.add(table_module.UNDEFINED_NAME, name="c")
    with pytest.raises(GerulesError) as caught:
        faults.raise_if_any()
    assert [item.facts["name"] for item in caught.value.diagnostics] == ["a", "c"]
    assert caught.value.code == "E40003"
