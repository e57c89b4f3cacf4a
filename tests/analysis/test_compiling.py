"""Rules whose pattern no program can be made of are errors with a place; the others are analysed."""

from __future__ import annotations

import pytest

from gerules.analysis.analyse import analyse_rules
from tests.analysis.rule_texts import analyse, codes, load, rule

APART = rule("apart", "y = Abs(x)\nz = Neg(w)", "y = Abs(w)\nz = Neg(x)")
ROOTLESS = rule("rootless", "y = x", "y = Abs(x)")
WIDE = rule("wide", "y = Add~(a, b, c, d, e, f, g)", "y = Sum(a, b, c, d, e, f, g)")


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        (APART, "E40035", "z = Neg(w)"),
        (ROOTLESS, "E40034", "rootless"),
        (WIDE, "E40033", "Add~(a, b, c, d, e, f, g)"),
    ],
)
def test_a_rule_that_cannot_be_compiled_is_an_error(text: str, code: str, place: str) -> None:
    found = analyse(text, "termination", "overlap").diagnostics
    assert [(item.severity, *pair) for item, pair in zip(found, codes(found), strict=True)] == [
        ("error", code, place)
    ]


def test_the_others_are_analysed_all_the_same() -> None:
    loops = rule("grows", "y = Abs(x)", "y = Abs(Abs(x))")
    found = analyse(ROOTLESS + loops + WIDE, "termination").diagnostics
    assert codes(found) == [
        ("E40034", "rootless"),
        ("E40033", "Add~(a, b, c, d, e, f, g)"),
        ("E40130", "grows"),
    ]


def test_only_rules_that_were_asked_about_are_told() -> None:
    book = load(ROOTLESS + rule("fine", "y = Abs(Abs(x))", "y = Abs(x)"))
    fine = [item for item in book.rules if item.name.name == "fine"]
    assert analyse_rules(book, fine, only=["termination"]).diagnostics == []
