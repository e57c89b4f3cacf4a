"""What is printed of hostile names: nothing that a terminal obeys."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.errors import Diagnostic, Source, Span, render, table
from gerules.errors.printable import printable, printable_columns, printable_line

STEERS = "\x00\x07\x08\r\x1b\x7f\x85\x9b\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    for shown in (printable(text), printable_line(text), printable_columns(text)):
        assert not set(shown) & set(STEERS)
        assert all(unicodedata.category(char) != "Cc" or char in "\t\n" for char in shown)
    assert len(printable_columns(text)) == len(text)
    assert "\n" not in printable_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_what_people_write_stays(text: str) -> None:
    assert printable(text) == printable_line(text) == printable_columns(text) == text


@pytest.mark.parametrize("char", STEERS)
def test_faults_show_names_and_places_and_excerpts_without_it(char: str) -> None:
    source = Source(f"a{char}b.ger", f"rule {char}r{char} in")
    item = Diagnostic(
        table.UNDEFINED_NAME, {"name": f"x{char}[31m"}, Span(source, 6, 7), notes=(f"did you mean {char}?",)
    )
    placed = Diagnostic(table.UNDEFINED_NAME, {"name": "x"}, None, f"node {char}")
    text = render([item, placed])
    assert char not in text
    line, carets = re.findall(r"\| (.*)", text)[:2]
    assert line[carets.index("^")] == "r"
