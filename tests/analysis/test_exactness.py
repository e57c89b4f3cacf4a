"""Rules that change a bit and do not say so are found by computing both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.analysis.analyse import analyse_rules
from gerules.analysis.exactness import differences
from gerules.errors import render
from gerules.pipeline import shipped_rules
from tests.analysis.rule_texts import analyse, rule

floats = st.floats(width=32)


def test_every_shipped_rule_admits_what_it_changes() -> None:
    assert render(analyse_rules(shipped_rules(), only=("exactness",)).diagnostics) == ""


def notes(text: str, test: str = "x: f32[4, 8]") -> list[str]:
    body = text + "    test:\n" + "".join(f"        {line}\n" for line in test.split("\n"))
    found = analyse(body, "exactness").diagnostics
    assert all(item.code.code == "E40134" for item in found)
    return [note for item in found for note in item.notes]


@pytest.mark.parametrize(
    ("text", "test"),
    [
        (rule("r", "y = Mul(Mul(x, a), b)", "y = Mul(x, Mul(a, b))"), "x, a, b: f32[8]"),
        (rule("r", "y = Add(Add(x, a), b)", "y = Add(x, Add(a, b))"), "x, a, b: f32[8]"),
        (rule("r", "y = Div(x, 3)", "y = Mul(x, 0.33333334)"), "x: f32[64]"),
        (rule("r", "y = Div(1, Sqrt(x))", "y = Sqrt(Reciprocal(x))"), "x: f32[64] in 0.5 .. 2.0"),
        (rule("r", "y = Log(Exp(x))", "y = x"), "x: f32[64]"),
        (
            rule(
                "r",
                "s = Mul(x, a: const)\ny = Mul(s, b: const)",
                "y = Mul(x, k)",
                "fold: k = cast(a * b, a.dtype)",
            ),
            "x: f32[64]\na, b: const f32[64]",
        ),
    ],
)
def test_roundings_are_counted(text: str, test: str) -> None:
    found = notes(text, test)
    assert "in the last place away" in found[0]
    assert notes(text.replace("    match", '    inexact "a rounding"\n    match', 1), test) == []


@pytest.mark.parametrize(
    ("build", "remedy"),
    [
        ("y = Mul(GlobalAveragePool(x), 1.0000004)", 'add `inexact "what changes"`'),
        ("y = Mul(GlobalAveragePool(x), 1.5)", "the rule is wrong, or it needs a guard"),
    ],
)
def test_a_wrong_rule_is_not_told_to_admit_a_rounding(build: str, remedy: str) -> None:
    text = rule("r", "y = GlobalAveragePool(x)", build, "once")
    found = analyse(f"{text}    test:\n        x: f32[1, 4, 6, 6] in 0.5 .. 2.0\n", "exactness").diagnostics
    (fault,) = [item for item in found if item.code.code == "E40134"]
    assert remedy in render([fault])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (rule("r", "y = Add(x, 0)", "y = x"), "0.0 becomes -0.0"),
        (rule("r", "y = Div(x, x)", "y = Max(Abs(Sign(x)), 1)"), "nan becomes 1.0"),
        (rule("r", "y = Mul(x, 0)", "y = Sub(x, x)"), "0.0 becomes"),
    ],
)
def test_numbers_that_are_special_count_too(text: str, note: str) -> None:
    assert any(note in found for found in notes(text))


@pytest.mark.parametrize("shape", ["", "1", "2", "3", "2, 3", "3, 3", "2, 1, 2"])
@pytest.mark.parametrize(
    ("match", "build", "changes"),
    [
        ("y = Sub(0, x)", "y = Neg(x)", {"0.0 becomes -0.0"}),
        ("y = Add(x, 0)", "y = x", {"-0.0 becomes 0.0", "0.0 becomes -0.0"}),
        ("y = Sub(x, z)", "y = Neg(Sub(z, x))", {"0.0 becomes -0.0"}),
        ("y = Add(x, z)", "y = Neg(Sub(Neg(x), z))", {"0.0 becomes -0.0", "-0.0 becomes 0.0"}),
        (
            "y = Add(ReduceMax(x, keepdims=0), 0)",
            "y = ReduceMax(x, keepdims=0)",
            {"0.0 becomes -0.0", "-0.0 becomes 0.0"},
        ),
    ],
)
def test_zeros_of_both_signs_are_tried_at_any_shape(
    shape: str, match: str, build: str, changes: set[str]
) -> None:
    names = "x, z" if "z" in match else "x"
    assert set(notes(rule("r", match, build), f"{names}: f32[{shape}]")) & changes


@pytest.mark.parametrize(
    ("match", "build", "test"),
    [
        ("y = Max(x, x)", "y = Relu(x)", "x: f32[2, 3] in 1.0 .. 2.0"),
        ("y = Add(x, 0)", "y = Abs(Abs(x))", "x: f32[2, 3] in 0.5 .. 2.0"),
        ("y = Clip(x, -5, 5)", "y = x", "x: f32[2, 3]"),
        (
            "y = AveragePool(Relu(x), kernel_shape=[2, 2])",
            "y = Relu(AveragePool(x, kernel_shape=[2, 2]))",
            "x: f32[1, 2, 6, 6] in 0.0 .. 1.0",
        ),
    ],
)
def test_a_rule_wrong_outside_of_its_tests_is_not_told_to_admit_it(match: str, build: str, test: str) -> None:
    text = f"{rule('r', match, build)}    test:\n        {test}\n"
    (fault,) = [item for item in analyse(text, "exactness").diagnostics if item.code.code == "E40134"]
    assert "on numbers that its tests leave out: the rule is wrong there, or it needs a guard" in render(
        [fault]
    )
    assert 'inexact "' not in render([fault])


@pytest.mark.parametrize(
    ("match", "build", "test"),
    [
        ("y = Mul(Mul(x, a), b)", "y = Mul(x, Mul(a, b))", "x, a, b: f32[8]"),
        ("y = Add(Add(x, a), b)", "y = Add(x, Add(a, b))", "x, a, b: f32[8]"),
        ("y = Log(Exp(x))", "y = x", "x: f32[64]"),
        ("y = Sub(0, x)", "y = Neg(x)", "x: f32[2, 3]"),
    ],
)
def test_a_rounding_on_any_numbers_is_one_to_admit(match: str, build: str, test: str) -> None:
    text = f"{rule('r', match, build)}    test:\n        {test}\n"
    (fault,) = [item for item in analyse(text, "exactness").diagnostics if item.code.code == "E40134"]
    assert 'add `inexact "what changes"`' in render([fault])


@pytest.mark.parametrize(
    "text",
    [
        rule("r", "y = Neg(Neg(x))", "y = x"),
        rule("r", "y = Mul(x, 2)", "y = Add(x, x)"),
        rule("r", "y = Div(x, 4)", "y = Mul(x, 0.25)"),
        rule("r", "y = Transpose(Relu(x))", "y = Relu(Transpose(x))"),
        rule("r", "y = Sub(x, 0)", "y = x"),
    ],
)
def test_exact_rules_are_left_alone(text: str) -> None:
    assert notes(text) == []


def test_whole_numbers_do_not_round() -> None:
    text = rule("r", "y = Add(Add(x, a), b)", "y = Add(x, Add(a, b))")
    assert notes(text, "x, a, b: i64[8]") == []


@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=6))
def test_differences_are_those_that_numpy_counts(pairs: list[tuple[float, float]]) -> None:
    one, two = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    found = list(differences(one, two))
    same = (one.view(np.int32) == two.view(np.int32)) | (np.isnan(one) & np.isnan(two))
    assert bool(found) == (not np.all(same))
    for item in found:
        if item.ulps < np.inf:
            assert item.ulps == max(
                _ulps(a, b)
                for a, b in zip(one, two, strict=True)
                if np.isfinite(a) and np.isfinite(b) and (a or b)
            )


def _ulps(one: np.float32, two: np.float32) -> int:
    """Steps from one number to the other, counted on the line of all numbers."""
    places = [int(x.view(np.uint32)) & 0x7FFFFFFF for x in (one, two)]
    signed = [-place if np.signbit(x) else place for place, x in zip(places, (one, two), strict=True)]
    return abs(signed[0] - signed[1])
