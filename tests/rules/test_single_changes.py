"""What the first made-up tests of a rule change: each kind of thing alone, so that few of them find much."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from gerules.cli.rules import DEFAULT_GENERATED
from gerules.dsl.book import RuleBook
from gerules.dsl.load import load_rules
from gerules.dsl.syntax import GivenValue, RuleTest
from gerules.errors import Source
from gerules.ir import DType
from gerules.ops import Schemas
from gerules.report.attr_values import FLOATS, value_near, values_for
from gerules.report.rule_bench import Bench, seed_of
from gerules.report.rule_graphs import instances
from gerules.report.rule_inputs import Unbuildable
from gerules.report.rule_operands import lists
from gerules.report.rule_tests import RuleTestReport
from gerules.report.rule_tests import test_rules as run_rule_tests
from gerules.report.rule_variations import Variations

CONV = """
rule r in s:
    inexact "order"
    match:
        y = Mul(Conv(x, W: const [M, ...], B?: const, **a), k: const)
    where:
        is_scalar(k) else "it is no scalar"
    fold:
        W2 = cast(W * scalar(k), W.dtype)
    rewrite:
        y = Conv(x, W2, B, **a)
    test:
        x: f32[1, 4, 6, 6]
        W: const f32[8, 4, 3, 3]
        k: const f32[]
        {bias}
        close 0.0001, 0.00001
"""
CHANNEL = """
rule r in s:
    inexact "order"
    match:
        y = Mul(Conv(x, W: const [M, ...], **a), k: const)
    where:
        numel(k) == M else "it is not one for each channel"
    fold:
        W2 = cast(W * reshape(k, [-1, 1, 1, 1]), W.dtype)
    rewrite:
        y = Conv(x, W2, **a)
    test:
        x: f32[1, 4, {width}, {width}]
        W: const f32[8, 4, 3, 3]
        k: const f32[1, 8, 1, 1]
        a = {{"pads": [1, 1, 1, 1]}}
        close 0.0001, 0.00001
"""


def simple(match: str, build: str, test: str, head: str = 'inexact "rounding"', fold: str = "") -> str:
    inputs = "".join(f"        {line}\n" for line in test.split("\n"))
    folded = "".join(f"        {line}\n" for line in fold.split("\n") if line)
    return (
        f"rule r in s:\n    {head}\n    match:\n        y = {match}\n"
        + (f"    fold:\n{folded}" if fold else "")
        + f"    rewrite:\n        y = {build}\n    test:\n{inputs}"
    )


WRONG = {
    "a bias that no test gives": CONV.format(bias="# none"),
    "a bias that the test leaves out": CONV.format(bias="B: none"),
    "a factor along the width": CHANNEL.format(width=8),
    "a factor along another width": CHANNEL.format(width=6),
    "an addend of one": simple(
        "Softmax(Add(x: T[..., N], b: const), axis=-1)",
        "Softmax(x, axis=-1)",
        "x: f32[2, 3]\nb: const f32[1]",
    ),
    "a negative factor": simple(
        "Max(Mul(x, k: const), Mul(z, k))",
        "Mul(Max(x, z), k)",
        "x, z: f32[2, 3]\nk: const f32[] in 0.5 .. 2.0",
    ),
    "a rest of integers": simple(
        "Mul(Div(x, k: const), k)", "x", "x: f32[2, 3]\nk: const f32[] in 0.5 .. 2.0"
    ),
    "bounds that cross": simple(
        "Clip(Clip(x, a: const, b: const), c: const, d: const)",
        "Clip(x, lo, hi)",
        "x: f32[2, 3]\na, c: const f32[] in -1.0 .. 0.0\nb, d: const f32[] in 0.0 .. 1.0",
        head="once",
        fold="lo = cast(maximum(a, c), a.dtype)\nhi = cast(minimum(b, d), b.dtype)",
    ),
    "another rank": simple(
        "Div(Exp(x), ReduceSum(Exp(x), axes=[-1]))",
        "Softmax(x, axis=1)",
        "x: f32[2, 3]\nclose 0.0001, 0.00001",
    ),
    "a division by zero": simple(
        "Div(Mul(x, k: const), k)", "x", "x: f32[2, 3]\nk: const f32[]\nclose 0.0001, 0.00001", head="once"
    ),
    "a narrow range": simple("Max(x, Neg(z))", "x", "x: f32[2, 3]\nz: f32[2, 3] in 3.0 .. 4.0"),
}


def load(text: str) -> RuleBook:
    return load_rules([Source("test.ger", "gerules 1\n" + text)], schemas=Schemas())


def run(text: str, generated: int = DEFAULT_GENERATED, seed: int = 0) -> RuleTestReport:
    return run_rule_tests(load(text), generated=generated, seed=seed)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", WRONG)
def test_the_usual_number_of_graphs_finds_what_is_commonly_wrong(name: str, seed: int):
    report = run(WRONG[name], seed=seed)
    assert report.failures == []
    (found,) = report.counterexamples
    assert found.is_shown
    pasted = run(f"{WRONG[name]}\n{found.block}", generated=0)
    assert [failure.test for failure in pasted.failures][:1] == ["the sides part"]


def made_up(text: str, n: int) -> list[RuleTest]:
    """The first tests of a rule that can be built."""
    book = load(text)
    (rule,) = book.rules
    setting = Bench(book).place(rule, rule.tests[0]).setting
    variations = Variations(rule, setting, 0)
    found: list[RuleTest] = []
    for test in islice(variations.around(rule.tests), 10 * n):
        try:
            next(instances(rule, test, setting, limit=1, seed=seed_of(rule)))
        except Unbuildable:
            continue
        variations.built()
        found.append(test)
    return found[:n]


@pytest.mark.parametrize("bias", ["# none", "B: none", "B: const f32[8]", "B?: const f32[8]"])
@pytest.mark.parametrize("n", [3, 60])
def test_an_optional_part_is_there_and_not_whatever_the_test_has(bias: str, n: int):
    tests = made_up(CONV.format(bias=bias), n)
    types = [
        next(
            (item.type for item in test.inputs if isinstance(item, GivenValue) and item.name.name == "B"),
            None,
        )
        for test in tests
    ]
    assert None in types
    assert any(type is not None for type in types)


def test_a_list_keeps_its_one_axis():
    text = simple(
        "Reshape(Transpose(x: [A, B, C], perm=[1, 0, 2]), s: const)",
        "Reshape(x, s)",
        "x: f32[1, 3, 4]\ns: const i64[2] = [3, 4]",
    )
    (rule,) = load(text).rules
    assert lists(rule, Schemas().get) == {"s"}
    for test in made_up(text, 300):
        (item,) = (item for item in test.inputs if item.name.name == "s")
        assert isinstance(item, GivenValue) and item.type is not None and len(item.type.dims or ()) == 1


def test_a_written_test_with_a_list_of_two_axes_is_no_graph():
    report = run(
        simple("Reshape(Neg(x), s: const)", "Neg(Reshape(x, s))", "x: f32[4]\ns: const i64[1, 2] = [2, 2]")
    )
    assert [item.reason for item in report.failures] == [
        "no graph can be built: Reshape takes `shape` with one axis, not 2"
    ]


def test_integers_that_matter_are_written_out():
    text = simple(
        "Gather(Neg(x), i: const, axis=0)",
        "Neg(Gather(x, j, axis=0))",
        "x: f32[4, 2]\ni: const i64[2] in 0 .. 0",
        fold="j = cast(i * 0, i.dtype)",
    )
    (found,) = run(text, generated=100).counterexamples
    (item,) = (item for item in found.test.inputs if item.name.name == "i")
    assert isinstance(item, GivenValue) and item.elements is not None and item.low is None
    assert item.elements.kind == "list" and f"= {list(item.elements.values)}" in found.block


def test_a_zero_in_a_shape_is_written_out():
    text = simple(
        "Reshape(Transpose(x: [A, B, C], perm=[1, 0, 2]), s: const)",
        "Reshape(x, s)",
        "x: f32[1, 3, 4]\ns: const i64[2] = [3, 4]",
    ).replace("    rewrite:", '    where:\n        A == 1 else "axes move"\n    rewrite:')
    (found,) = run(text, generated=600).counterexamples
    (item,) = (item for item in found.test.inputs if item.name.name == "s")
    assert isinstance(item, GivenValue) and item.elements is not None
    assert item.elements.kind == "list" and 0 in item.elements.values


def test_what_is_computed_in_is_a_float_type():
    spec = Schemas().get("Attention")
    assert spec is not None
    kinds = spec.attrs["softmax_precision"]
    assert set(values_for(kinds, "softmax_precision")) == set(FLOATS)
    near = [value_near(DType.F32, "softmax_precision", np.random.default_rng(seed)) for seed in range(40)]
    assert set(near) == set(FLOATS)


def test_a_reader_outside_stays_only_where_it_matters():
    text = simple("Abs(Neg(x))", "Relu(x)", "x: f32[2, 3] in 0.5 .. 2.0\nescapes y")
    (found,) = run(text).counterexamples
    assert "escapes" not in found.block


@pytest.mark.parametrize("dtype", ["i8", "u8", "f16"])
def test_a_number_beyond_the_element_type_builds_no_graph(dtype: str):
    text = simple("Add(x, 1000000)", "Add(x, 1000000)", f"x: {dtype}[2]", head="once")
    (failure,) = run(text, generated=0).failures
    assert failure.reason == f"no graph can be built: 1e+06 is beyond what {dtype} holds"
