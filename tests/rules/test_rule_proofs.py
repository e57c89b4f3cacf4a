"""Edits of rules that are proven to say the same: the proofs hold, and claim nothing more."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gerules.dsl.book import RuleBook
from gerules.dsl.load import load_rules
from gerules.dsl.shipped import rules_folder
from gerules.dsl.syntax import GivenValue, Rule, RuleTest
from gerules.errors import Source
from gerules.ir import DType
from gerules.ops import Schemas
from gerules.report.rule_bench import Bench, Trial
from gerules.report.rule_edits import with_floats, with_item
from gerules.report.rule_mutants import Mutant, mutants
from gerules.report.rule_mutation import Case


def proven(kind: str, text: str) -> list[str]:
    """The edits of a kind that are proven equal, in a rule written as its sections."""
    book = load_rules([Source("test.ger", f"gerules 1\nrule r in s:\n{text}")], schemas=Schemas())
    (rule,) = book.rules
    setting = Bench(book).place(rule, rule.tests[0]).setting
    return [item.edit for item in mutants(rule, setting) if item.kind == kind and item.is_equivalent]


def scaled(where: str = "", fold: str = "c = k * 2", pattern: str = "Mul(x, k: const)") -> str:
    guard = f"    where:\n        {where}\n" if where else ""
    return f"""
    match:
        y = {pattern}
{guard}    fold:
        {fold}
    rewrite:
        y = Add(Mul(x, c), c)
    test:
        x: f32[2, 3]
        k: const f32[3]
"""


@pytest.mark.parametrize(
    ("where", "fold", "is_proven"),
    [
        ("", "c = 2 * k", True),
        ("", "c = concat([k, k], axis=0)", True),
        ("", "c = numel(k)", False),
        ("scalar(k) > 0", "c = numel(k)", True),
        ("all_zero(k)", "c = numel(k)", True),
        ("k > 0", "c = numel(k)", True),
        ("k == k", "c = numel(k)", False),
        # A side that is not known does not matter when the other decides.
        ("scalar(k) > 0 or numel(k) == 1", "c = numel(k)", False),
        ("scalar(k) > 0 or scalar(k) < -1", "c = numel(k)", True),
        ("not (scalar(k) > 0 and numel(k) == 1)", "c = numel(k)", False),
        ("numel(k) == 1 and scalar(k) > 0", "c = numel(k)", True),
    ],
)
def test_a_constant_that_is_read_anyway_need_not_be_told_to_be_one(where: str, fold: str, is_proven: bool):
    found = proven("const dropped", scaled(f'{where} else "no"' if where else "", fold))
    assert bool(found) is is_proven


@pytest.mark.parametrize(
    ("guard", "is_proven"),
    [
        ("hi is none or hi >= 0", True),
        ("default(hi, 0) + 1 > 0", True),
        ("hi is none or hi.rank == 0", False),
    ],
)
def test_an_optional_constant_is_read_where_there_is_one(guard: str, is_proven: bool):
    text = f"""
    match:
        y = Clip(Relu(x), none, hi?: const)
    where:
        {guard} else "the bound is below zero"
    rewrite:
        y = Clip(x, 0, hi)
    test:
        x: f32[3]
        hi?: const f32[]
"""
    assert bool(proven("const dropped", text)) is is_proven


@pytest.mark.parametrize(("alpha", "is_proven"), [("scalar(k)", True), ("numel(k)", False)])
def test_an_attribute_of_what_is_built_reads_a_constant_too(alpha: str, is_proven: bool):
    text = f"""
    match:
        y = Mul(x, k: const)
    rewrite:
        y = LeakyRelu(x, alpha={alpha})
    test:
        x: f32[3]
        k: const f32[]
"""
    assert bool(proven("const dropped", text)) is is_proven


@pytest.mark.parametrize(
    ("fold", "use", "is_proven"),
    [
        ("c = cast(k * 2, x.dtype)", "Mul(x, c)", True),
        ("c = cast(k * 2, k.dtype)", "Mul(x, c)", True),  # the schema of Mul says that k has the type of x
        ("c = cast(k * 2, x.dtype)", "Mul(Neg(x), c)", True),
        ("c = cast(k * 2, x.dtype)", "Mul(Cast(x, to=f16), c)", False),
        ("c = cast(k * 2, f16)", "Mul(x, c)", False),
        ("c = cast(k * 2, x.dtype)", "Mul(c, c)", False),  # no operand whose type is known
        ("c = cast(k * 2, x.dtype)", "Mul(x, Neg(c))", False),
        ("c = cast(k * 2, n.dtype)", "Mul(x, c)", False),
    ],
)
def test_a_value_that_is_rounded_anyway_needs_no_cast(fold: str, use: str, is_proven: bool):
    text = f"""
    match:
        y = Mul(x, k: const)
    fold:
        {fold}
    rewrite:
        y = {use}
    test:
        x: f32[2, 3]
        k: const f32[3]
"""
    if "n.dtype" in fold:
        text = text.replace("y = Mul(x, k: const)", "y = Cast(Mul(x, k: const), to=_) as n")
    assert bool(proven("cast dropped", text)) is is_proven


def test_a_rounding_that_another_step_sees_is_not_proven():
    text = scaled("", "c = cast(k * 2, x.dtype)\n        d = c * 3").replace("Add(Mul(x, c), c)", "Mul(x, d)")
    assert proven("cast dropped", text) == []


TYPED = """
    match:
        y = Neg(x: {pattern})
    rewrite:
        y = {use}
    test:
        x: f32[2, 3]
"""


def test_a_dimension_whose_name_says_nothing_fits_any():
    text = TYPED.format(pattern="[N, M]", use="Reshape(Sub(0, x), shape=[-1, M])")
    assert proven("type widened", text) == ["any dimension for N in `[N, M]`"]


def test_types_that_the_right_side_asks_for_again():
    floats = TYPED.format(pattern="{f16, bf16, f32, f64}", use="Mul(Sigmoid(x), x)")
    assert proven("type widened", floats) == ["any element type in `{f16, bf16, f32, f64}`"]
    assert proven("type widened", TYPED.format(pattern="f32", use="Mul(Sigmoid(x), x)")) == []
    assert proven("type widened", TYPED.format(pattern="{f16, bf16, f32, f64}", use="Sub(0, x)")) == []


@pytest.mark.parametrize(
    ("use", "dropped"),
    [("Softmax(x, axis=-1)", ["drop `axis` in `Softmax(x, axis=-1)`"]), ("Softmax(x, axis=-2)", [])],
)
def test_an_attribute_that_is_the_default_need_not_be_given(use: str, dropped: list[str]):
    assert proven("attribute", TYPED.format(pattern="f32", use=use)) == dropped


@pytest.mark.parametrize(
    ("pattern", "is_proven"), [("Softmax(x, **a)", False), ("Softmax(x, axis=-1, **a)", True)]
)
def test_a_default_that_overrides_captured_attributes_must_be_given(pattern: str, is_proven: bool):
    text = TYPED.replace("Neg(x: {pattern})", pattern).format(use="Softmax(x, **a, axis=-1)")
    assert bool(proven("attribute", text)) is is_proven


DEFINED = """
    match:
        y = {pattern}
    rewrite:
        y = my::Joined(a, b)
    test:
        a, b: f32[3]

define my::Joined(a, {b}) -> y:
    {body}
"""


def defined(body: str, pattern: str = "Pow(a: T, b: T)", b: str = "b") -> str:
    return DEFINED.format(body=body, pattern=pattern, b=b)


@pytest.mark.parametrize(
    ("body", "is_proven"),
    [
        ("y = Abs(Add(a, b))", True),
        ("y = Abs(Add(b, a))", True),
        ("y = Abs(Sub(a, b))", False),
        ("y = Add(Abs(a), b)", False),
        ("y = Add(Add(a, b), a)", False),
        ("y = Flatten(Add(a, b), axis=a.rank)", False),
    ],
)
def test_operands_that_one_commuting_operator_reads_may_be_swapped(body: str, is_proven: bool):
    assert bool(proven("operand order", defined(body))) is is_proven


@pytest.mark.parametrize(
    ("body", "pattern", "b", "is_proven"),
    [
        ("y = Mul(Abs(a), b)", "Pow(a: T, b: T)", "b", True),
        ("s = Sqrt(b)\n    y = Mul(a, Abs(s))", "Pow(a: T, b: T)", "b", True),
        ("y = Mul?(Abs(a), b)", "Pow(a: T, b: T)", "b?", True),
        ("y = Mul(a, Cast(b, to=f32))", "Pow(a: T, b: T)", "b", False),
        ("y = Where(Cast(b, to=bool), a, a)", "Pow(a: T, b: T)", "b", False),
        ("y = Where(*m, a, b)", "Pow(a: T, b: T)", "b, *m", False),
        ("y = Pow(a, b)", "Pow(a: T, b: T)", "b", False),  # its schema has two type variables
        ("y = Mul(a, b)", "Pow(a: T {f16, f32}, b: T {f16, f32})", "b", False),
        ("y = Mul(a, b)", "Pow(a: T, b)", "b", False),
        ("y = Mul(a, b)", "(Pow(a: T, b: T) | Pow(b: T, a: T))", "b", False),
    ],
)
def test_a_type_that_a_definition_ties_to_another_operand(body: str, pattern: str, b: str, is_proven: bool):
    found = proven("type widened", defined(body, pattern, b))
    assert found == ["any element type in `T`"] * 2 * is_proven


@pytest.mark.parametrize(("use", "is_proven"), [("PRelu(a, b)", True), ("Pow(a, b)", False)])
def test_a_type_that_a_schema_ties_to_another_operand(use: str, is_proven: bool):
    text = defined("y = Pow(a, b)").replace("my::Joined(a, b)\n", f"{use}\n")
    assert bool(proven("type widened", text)) is is_proven


# ---------------------------------------------------------------- the shipped rules bear the proofs out
@functools.cache
def shipped() -> RuleBook:
    return load_rules([rules_folder()], schemas=Schemas())


@functools.cache
def bench() -> Bench:
    return Bench(shipped())


def shipped_proofs(kind: str) -> Iterator[tuple[Rule, Mutant]]:
    for rule in shipped().rules:
        if rule.tests and rule.ruleset != "fuse.attention":
            for mutant in mutants(rule, bench().place(rule, rule.tests[0]).setting):
                if mutant.kind == kind and mutant.is_equivalent:
                    yield rule, mutant


def without_const(test: RuleTest) -> Iterator[RuleTest]:
    for place, item in enumerate(test.inputs):
        if isinstance(item, GivenValue) and item.type is not None and item.type.is_const:
            other = replace(item, type=replace(item.type, is_const=False), elements=None)
            yield with_item(test, place, other)


def test_values_that_are_no_constants_match_no_more_than_before():
    n_tried = 0
    for rule, mutant in shipped_proofs("const dropped"):
        test = next(item for item in rule.tests if item.expects_match)
        for other in without_const(test):
            case = Case.of(bench(), rule, other, 2)
            for instance in case.graphs if case is not None else ():
                before, after = (
                    Trial(bench(), item, case.place).apply(instance.graph).after is None
                    for item in (rule, mutant.rule)
                )
                assert before is after, mutant
                n_tried += 1
    assert n_tried > 50


@pytest.mark.parametrize("dtype", [DType.F16, DType.F64])
def test_other_floats_are_rounded_alike(dtype: DType):
    n_tried = 0
    for rule, mutant in shipped_proofs("cast dropped"):
        for test in rule.tests:
            case = Case.of(bench(), rule, with_floats(test, dtype), 2)
            for instance in case.graphs if case is not None else ():
                trials = [Trial(bench(), item, case.place) for item in (rule, mutant.rule)]
                one, two = (trial.apply(instance.graph).after for trial in trials)
                assert (one is None) is (two is None), mutant
                if one is not None and two is not None:
                    results = [
                        trial.compute(graph, instance.feeds)
                        for trial, graph in zip(trials, (one, two), strict=True)
                    ]
                    for left, right in zip(*results, strict=True):
                        assert left.dtype == right.dtype and left.tobytes() == right.tobytes(), mutant
                    n_tried += 1
    assert n_tried > 5


def test_no_test_of_a_rule_notices_an_edit_that_is_proven_equal():
    n_tried = 0
    for rule in shipped().rules:
        setting = bench().place(rule, rule.tests[0]).setting if rule.tests else None
        found = [item for item in mutants(rule, setting) if item.is_equivalent] if setting is not None else []
        cases = [Case.of(bench(), rule, test, 2) for test in rule.tests] if found else []
        for case in cases:
            if case is not None and not case.notices(bench(), rule):
                assert [item for item in found if case.notices(bench(), item.rule)] == []
                n_tried += len(found)
    assert n_tried > 500
