"""Guards that no match can make false, or none true; and guards that only look so."""

from __future__ import annotations

import pytest

from gerules.analysis.analyse import analyse_rules
from gerules.errors import render
from gerules.pipeline import shipped_rules
from tests.analysis.rule_texts import analyse, rule


def test_no_shipped_guard_is_dead() -> None:
    assert render(analyse_rules(shipped_rules(), only=("guards",)).diagnostics) == ""


def said(match: str, where: str, fold: str = "") -> list[tuple[str, str]]:
    lines = "where:\n" + "\n".join(f"    {line}" for line in where.split("\n"))
    extra = (f"fold: {fold}\n" if fold else "") + lines
    head = 'const TWO = 2\nparam LIMIT = 4 "a limit"\n'
    found = analyse(head + rule("r", match, "y = Relu(x)", extra), "guards").diagnostics
    assert all(item.code.code == "E40133" and item.severity == "warning" for item in found)
    return [(str(item.facts["text"]), str(item.facts["said"]).split()[0]) for item in found]


CONV = "y = Conv(x: f32[N, C, _, _], W: const {f16, f32}[M, C, 3, 3], B?: const)"


@pytest.mark.parametrize(
    ("match", "where", "found"),
    [
        # constants
        (CONV, "1 < 2", [("1 < 2", "always")]),
        (CONV, "$TWO == 3", [("$TWO == 3", "never")]),
        (CONV, "true", [("true", "always")]),
        (CONV, "2 in [1, 3]", [("2 in [1, 3]", "never")]),
        (CONV, "not (2 in [1, 3])", [("not (2 in [1, 3])", "always")]),
        # ranks, dimensions, element types that the pattern fixes
        (CONV, "x.rank == 4", [("x.rank == 4", "always")]),
        (CONV, "x.rank == W.rank", [("x.rank == W.rank", "always")]),
        (CONV, "x.rank > 4", [("x.rank > 4", "never")]),
        (CONV, "len(x.shape) == 4", [("len(x.shape) == 4", "always")]),
        (CONV, "W.shape[2] == 3", [("W.shape[2] == 3", "always")]),
        (CONV, "W.shape[-1] == 1", [("W.shape[-1] == 1", "never")]),
        (CONV, "x.shape[1] == W.shape[1]", [("x.shape[1] == W.shape[1]", "always")]),
        (CONV, "C < 0", [("C < 0", "never")]),
        (CONV, "is_const(W) and x.dtype == f32", [("is_const(W)", "always"), ("x.dtype == f32", "always")]),
        (CONV, "W.dtype == i8", [("W.dtype == i8", "never")]),
        (CONV, "W.dtype in [f16, f32]", [("W.dtype in [f16, f32]", "always")]),
        (CONV, "is_float(W.dtype)", [("is_float(W.dtype)", "always")]),
        (CONV, "is_scalar(W)", [("is_scalar(W)", "never")]),
        (CONV, "W is not none", [("W is not none", "always")]),
        (
            "s = Add(a: f32[N, C], b: f32[N, C])\ny = Mul(s, x)",
            "same_shape(a, b)",
            [("same_shape(a, b)", "always")],
        ),
        ("y = Add(x: f32[4, 5], b)", "numel(x) == 20", [("numel(x) == 20", "always")]),
        ("y = Add(x: f32[4, 5], b)", "is_static(x)", [("is_static(x)", "always")]),
        # what an earlier line says
        (CONV, "M > 4\nM > 4", [("M > 4", "always")]),
        (CONV, "M > 4 and M >= 3", [("M >= 3", "always")]),
        (CONV, "M > 4\nM < 4", [("M < 4", "never")]),
        (CONV, "4 < M\nM > 4", [("M > 4", "always")]),
        ("y = Add(x, b)", "same_shape(x, b)\nnot same_shape(x, b)", [("not same_shape(x, b)", "never")]),
        ("y = Add(x, b)", "b.dtype == f16\nb.dtype != f16", [("b.dtype != f16", "never")]),
        # what has no value
        (CONV, "1 / 0 > 0", [("1 / 0 > 0", "never")]),
        (CONV, "x.rank % 0 == 1", [("x.rank % 0 == 1", "never")]),
        (CONV, "M // 0 > 1", [("M // 0 > 1", "never")]),
        (CONV, "[1, 2][5] == 1", [("[1, 2][5] == 1", "never")]),
        (CONV, "1 / 0 > 0 or M > 2", []),
        (CONV, "not (M % 0 == 1)", [("not (M % 0 == 1)", "never")]),
        (CONV, "M / 2 > 0 and 1 / M > 0", []),
        # alternatives and optional parts
        ("y = (Relu(x) | Neg(x))", "x is none", [("x is none", "never")]),
        # what only looks so
        (CONV, "$LIMIT == 4", []),
        (CONV, "W.dtype == f16", []),
        (CONV, "B is none", []),
        (CONV, "x.shape[2] == x.shape[3]", []),
        (CONV, "N == N", []),
        (CONV, "C > 0", []),
        (CONV, "is_static(x)", []),
        (CONV, "n_readers(x) >= 0 or M > 2", []),
        (CONV, "M > 4\nM > 5", []),
        (CONV, "M >= 4\nM == 4", []),
        ("y = Add(x, b)", "x.rank == x.rank", []),
        ("y = Add(x: [_, ...], b)", "x.rank >= 1", [("x.rank >= 1", "always")]),
        ("y = Add(x: [_, ...], b)", "x.rank >= 2", []),
        ("y = Add(x, b: const)", "is_scalar(b)", []),
        ("y = (Add(x, b: const) | Relu(x))", "b is none", []),
        ("y = Add(x, b: const)", "scalar(b) == scalar(b)", []),
        ("y = Softmax(x, axis=k)", "k == -1 or k == x.rank - 1", []),
        ("y = Add(x: T, b: T)", "x.dtype == b.dtype", []),
    ],
)
def test_what_can_be_said(match: str, where: str, found: list[tuple[str, str]]) -> None:
    assert said(match, where) == found


def test_the_note_says_where_it_stands_already() -> None:
    text = rule("r", CONV, "y = Relu(x)", "where:\n    M > 4\n    M > 4")
    notes = analyse(text, "guards").diagnostics[0].notes
    assert notes == ("it stands at f.ger:6:9 already",)


def test_names_of_other_patterns_are_not_mixed_up() -> None:
    clause = "pattern p(a) -> b:\n    b = Neg(a: [N, N])\n"
    text = clause + rule(
        "r", "y = Add(p(x), c: [N, M])", "y = x", "where: x.rank == 2\nwhere: c.shape[0] == x.shape[0]"
    )
    assert [item.facts["text"] for item in analyse(text, "guards").diagnostics] == ["x.rank == 2"]
