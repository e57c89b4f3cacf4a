"""Names that only one alternative binds, and uses of them that keep a rule from applying to the others."""

from __future__ import annotations

import pytest

from gerules.analysis.analyse import analyse_rules
from gerules.errors import Diagnostic, render
from gerules.pipeline import shipped_rules
from tests.analysis.rule_texts import analyse, rule

SCALED = "s = (Mul(x, k: const) | Relu(x))\ny = Neg(s)"


def found_in(match: str, rewrite: str = "y = Abs(x)", extra: str = "") -> list[Diagnostic]:
    return analyse("ops U = {Abs, Exp}\n" + rule("r", match, rewrite, extra), "guards").diagnostics


def said(match: str, rewrite: str = "y = Abs(x)", extra: str = "") -> list[tuple[str, str, str]]:
    """What is pointed at, what is said of it, and the first note."""
    found = found_in(match, rewrite, extra)
    assert all(item.code.code == "E40137" and item.severity == "warning" for item in found)
    return [(item.span.text if item.span else "", item.message, item.notes[0]) for item in found]


def where(*lines: str) -> str:
    return "\n".join(("where:", *(f"    {line}" for line in lines)))


def test_no_shipped_rule_needs_what_an_alternative_does_not_bind() -> None:
    assert render(analyse_rules(shipped_rules(), only=("guards",)).diagnostics) == ""


@pytest.mark.parametrize(
    ("match", "rewrite", "extra", "at", "text", "lacking"),
    [
        (SCALED, "y = Abs(x)", "where: k.rank == 0", "k.rank == 0", "k.rank == 0", "alternative `Relu(x)`"),
        (SCALED, "y = Abs(x)", "where: scalar(k) > 0", "scalar(k) > 0", "scalar(k) > 0", "`Relu(x)`"),
        (SCALED, "y = Mul(x, f)", "fold: f = scalar(k) + 1", "scalar(k) + 1", "scalar(k) + 1", "`Relu(x)`"),
        (SCALED, "y = Div(Abs(x), k)", "", "k", "Div(Abs(x), k)", "`Relu(x)`"),
        (SCALED, "y = Neg(Div(x, k))", "", "k", "Div(x, k)", "`Relu(x)`"),
        ("s = (k: const | Relu(x))\ny = Mul(s, x)", "y = k", "", "k", "y = k", "`Relu(x)`"),
        (
            "s = (Softmax(x, axis=k) | Relu(x))\ny = Neg(s)",
            "y = Softmax(x, axis=k + 1)",
            "",
            "k + 1",
            "k + 1",
            "`Relu(x)`",
        ),
        ("s = (f@U(x) | Relu(x))\ny = Neg(s)", "y = @f(x)", "", "@f", "@f(x)", "`Relu(x)`"),
        (
            "s = (Mul(x, k: const) with f = scalar(k) | Relu(x))\ny = Neg(s)",
            "y = Abs(x)",
            "where: f > 0",
            "f > 0",
            "f > 0",
            "`Relu(x)`",
        ),
        (
            "s = Mul?(x, k: const)\ny = Neg(s)",
            "y = Abs(x)",
            "where: k.rank == 0",
            "k.rank == 0",
            "k.rank == 0",
            "without `Mul?`",
        ),
    ],
)
def test_what_needs_the_name_is_found(
    match: str, rewrite: str, extra: str, at: str, text: str, lacking: str
) -> None:
    ((span, message, note),) = said(match, rewrite, extra)
    assert span == at
    assert message.startswith(f"`{text}` needs `") and message.endswith("which is none in some matches")
    assert lacking in note and note.endswith("so the rule never applies there")


@pytest.mark.parametrize(
    ("match", "rewrite", "extra"),
    [
        # a condition asks
        (SCALED, "y = Abs(x)", "where: k is none or k.rank == 0"),
        (SCALED, "y = Mul(x, k)", where("k is not none", "k.rank == 0")),
        (SCALED, "y = Mul(x, f)", "fold: f = default(k, 1)"),
        (SCALED, "y = Abs(x)", "where: k.rank == 0 or x.rank == 2"),
        # nothing is missing
        (SCALED, "y = Mul?(x, k)", ""),
        (SCALED, "y = Conv(x, x, k)", ""),
        ("s = (Mul(x, k: const) | Div(x, k: const))\ny = Neg(s)", "y = Mul(x, k)", "where: k.rank == 0"),
        ("s = (Mul(x, k: const) | Relu(x))\ny = Div(s, k)", "y = Mul(x, k)", "where: k.rank == 0"),
        # the alternative ends before the name is needed
        (SCALED, "y = Mul(x, k)", where("s.rank == 3", "k is not none")),
    ],
)
def test_what_goes_without_the_name_is_not(match: str, rewrite: str, extra: str) -> None:
    assert found_in(match, rewrite, extra) == []


def test_a_name_that_the_alternative_spells_otherwise_is_shown() -> None:
    match = "s = (Mul(x, scale: const) | Div(x, scales: const))\ny = Neg(s)"
    (warning,) = found_in(match, extra="where: scale.rank == 0")
    assert warning.notes[1:] == ("did you mean scales?",)
