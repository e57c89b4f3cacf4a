"""Excerpts of long lines: cut between words, with marks for what is left out, the caret under its text."""

from __future__ import annotations

import pytest

from gerules.errors import Diagnostic, Source, Span, render, table

WORDS = [f'"Name{number}Pass": "off",' for number in range(20)]
LINE = " ".join(WORDS)
MOST_COLUMNS = 110 + 2 * len("... ")


def excerpt(line: str, start: int, end: int) -> tuple[str, str]:
    source = Source("a.cfg", f"first\n{line}\nlast")
    span = Span(source, start + len("first\n"), end + len("first\n"))
    lines = render([Diagnostic(table.SYNTAX, {"found": "it"}, span)]).splitlines()
    return lines[3].removeprefix("2 | "), lines[4].removeprefix("  | ")


@pytest.mark.parametrize("number", range(20))
def test_a_long_line_is_cut_between_words(number: int) -> None:
    name = f'"Name{number}Pass"'
    start = LINE.index(name)
    shown, carets = excerpt(LINE, start, start + len(name))
    at = carets.index("^")
    assert shown[at : at + carets.count("^")] == name
    assert len(shown) <= MOST_COLUMNS
    inside = shown.removeprefix("... ").removesuffix(" ...")
    assert f" {inside} " in f" {LINE} "
    assert shown.startswith("... ") == (not LINE.startswith(inside))
    assert shown.endswith(" ...") == (not LINE.endswith(inside))
    # As much is shown as there is room for, at the ends of the line too.
    assert len(inside) > 110 - 2 * max(map(len, WORDS))


@pytest.mark.parametrize("start", [0, 54, 55, 56, 250, 389, 390, 399])
def test_a_line_without_blanks_is_cut_anywhere(start: int) -> None:
    line = "".join(chr(0x4E00 + place) for place in range(400))
    shown, carets = excerpt(line, start, start + 1)
    assert shown[carets.index("^")] == line[start]
    assert shown.removeprefix("... ").removesuffix(" ...") in line and len(shown) <= MOST_COLUMNS


def test_a_caret_ends_where_the_line_is_cut() -> None:
    shown, carets = excerpt("x" * 400, 100, 400)
    assert shown == f"... {'x' * 110} ..."
    assert carets == f"{' ' * 59}{'^' * 55}"


def test_what_is_pointed_at_is_not_cut() -> None:
    line = f"{'a ' * 100}one two three four five six seven {'b ' * 100}"
    start = line.index("one")
    shown, carets = excerpt(line, start, start + 33)
    assert shown[carets.index("^") : len(carets)] == "one two three four five six seven"


def test_a_line_with_room_is_shown_whole() -> None:
    assert excerpt(LINE[:110], 100, 110) == (LINE[:110], f"{' ' * 100}{'^' * 10}")
