"""The runner of rule tests: it must fail where a rule is wrong, and say where."""

from __future__ import annotations

import pytest

from gerules.dsl.load import load_rules
from gerules.errors import GerulesError, Source
from gerules.ops import Schemas
from gerules.report.rule_tests import RuleTestReport
from gerules.report.rule_tests import test_rules as run_rule_tests

SIMPLE = """
rule r in s:
    match:
        y = Add(Relu(x), k: const)
    where:
        numel(k) == 1 else "not one number"
    rewrite:
        y = {build}
    test:
        x: f32[2, 3]
        k: const f32[]
{more}
"""


def run(text: str) -> RuleTestReport:
    book = load_rules([Source("test.ger", "gerules 1\n" + text)], schemas=Schemas())
    return run_rule_tests(book)


def test_a_right_rule_passes_on_both_operand_orders():
    report = run(SIMPLE.format(build="Sub(Relu(x), Neg(k))", more=""))
    assert report.is_good
    assert (report.n_rules, report.n_tests, report.n_instances, report.n_compared) == (1, 1, 2, 2)


def test_a_wrong_rewrite_is_found_with_values_and_place():
    report = run(SIMPLE.format(build="Sub(x, Neg(k))", more=""))
    assert not report.is_good
    failure = report.failures[0]
    assert "differs most at" in failure.reason
    assert str(failure).startswith("test.ger:")


@pytest.mark.parametrize("reason", ["", ' "not one number"'])
def test_a_rule_that_fires_where_it_must_not_is_told_once(reason: str):
    more = f"""    test:
        x: f32[2, 3]
        k: const f32[1]
        expect no match{reason}
"""
    report = run(SIMPLE.format(build="Sub(Relu(x), Neg(k))", more=more))
    assert [failure.reason for failure in report.failures] == ["it fires"]


def test_a_reason_is_told_once_with_what_was_seen():
    text = """
rule r in s:
    match: y = Relu(x)
    where: x.rank > 3 else "never"
    rewrite: y = Abs(x)
    test:
        x: f32[2, 3]
"""
    (failure,) = run(text).failures
    assert failure.reason == "it does not fire: never (x: f32[2, 3])"


@pytest.mark.parametrize(("reason", "n_failures"), [("not one number", 0), ("some other reason", 1)])
def test_the_reason_of_a_refusal_is_checked(reason: str, n_failures: int):
    more = f"""    test:
        x: f32[2, 3]
        k: const f32[3]
        expect no match "{reason}"
"""
    report = run(SIMPLE.format(build="Sub(Relu(x), Neg(k))", more=more))
    assert len(report.failures) == n_failures


def test_a_missing_value_is_a_failure_and_no_crash():
    text = "rule r in s: Add(x, y) => Add(y, x)\n    test:\n        x: f32[2]\n"
    report = run(text)
    assert "does not give y" in report.failures[0].reason


def test_a_rule_that_is_off_says_why():
    text = """
ruleset s:
    default off
rule r in s: Neg(Neg(x)) => x
    test:
        x: f32[2]
"""
    assert "off by default" in run(text).failures[0].reason


def test_rules_without_tests_are_listed():
    assert run("rule r in s: Neg(Neg(x)) => x\n").untested == ["r"]


def test_alternatives_options_and_associations_are_all_built():
    text = """
rule r in s:
    inexact
    match:
        z = (Div(x, 2) | Mul(x, 0.5))
        y = Mul~(x, 3, Tanh?(z))
    rewrite:
        y = Mul(Mul(x, 3), Tanh?(z))
    test:
        x: f32[2, 3]
        close 0.001, 0.0001
"""
    book = load_rules([Source("test.ger", "gerules 1\n" + text)], schemas=None)
    few = run_rule_tests(book, limit=5)
    many = run_rule_tests(book, limit=200)
    assert few.n_instances == 5
    # Three spellings of the half (Mul both ways round), with or without Tanh, six orders, two associations.
    assert many.n_instances == 3 * 2 * 6 * 2


@pytest.mark.parametrize(("bounds", "sizes"), [("2..8", 2), ("3..", 2), ("2..2", 1)])
def test_a_group_is_built_in_two_sizes_where_it_may_be(bounds: str, sizes: int):
    text = f"""
rule r in s:
    match:
        many {bounds}:
            y = MatMul(x, W: const T[D, N])
            same x, T, D
    fold:
        Wall = concat(W, axis=1)
    rewrite:
        h = MatMul(x, Wall)
        *y = Split(h, split=N, axis=-1)
    test:
        x: f32[2, 3]
        W: const f32[3, 4]
        close 0.0001, 0.00001
"""
    report = run(text)
    assert report.is_good and report.n_instances == report.n_compared == sizes


def test_definitions_are_computed_by_what_they_say():
    text = """
define ge::Twice(x) -> y:
    y = {body}
rule r in s: Add(x, x) => ge::Twice(x)
    test:
        x: f32[2, 3]
"""
    assert run(text.format(body="Mul(x, 2)")).is_good
    assert not run(text.format(body="Mul(x, 3)")).is_good


RESHAPES = """
rule r in s:
    inexact
    match:
        a = Reshape(x, s1: const)
        y = Reshape(a, s2: const)
    where:
        0 not in s2 else "an axis is copied"
    rewrite:
        y = Reshape(x, s2)
    test:
        x: f32[2, 3, 2]{x}
        s1: const i64[2] = [3, 4]
        s2: const i64{s2}
"""


@pytest.mark.parametrize(
    "x", ["", " = random(7)", " = fill(2)", f" = [{', '.join(['nan', '-inf', '1'] * 4)}]"]
)
@pytest.mark.parametrize("s2", ["[1] = -1", "[1] = [12]", "[1] = fill(-1)"])
def test_elements_are_given_as_in_graph_text(x: str, s2: str):
    assert run(RESHAPES.format(x=x, s2=s2)).failures == []


def test_elements_decide_what_fires():
    failures = run(RESHAPES.format(x="", s2="[2] = [0, 4]")).failures
    assert "an axis is copied" in failures[0].reason


def test_elements_that_do_not_fill_the_shape_are_found_when_loading():
    with pytest.raises(GerulesError) as raised:
        run(RESHAPES.format(x="", s2="[1] = [1, 2]"))
    (fault,) = raised.value.diagnostics
    assert fault.code.code == "E40014"
    assert fault.span is not None
    assert fault.span.text == "[1, 2]"


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e99", "fill(1e99)", "[-9223372036854775809]"])
def test_elements_that_the_type_cannot_hold_are_found_when_loading(number: str):
    with pytest.raises(GerulesError) as raised:
        run(RESHAPES.format(x="", s2=f"[1] = {number}"))
    (fault,) = raised.value.diagnostics
    assert fault.code.code == "E40014"
    assert "the range of i64" in fault.message
