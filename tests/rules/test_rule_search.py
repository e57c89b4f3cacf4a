"""The search for counterexamples: what is wrong in a rule is found, made small, and fails when pasted."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gerules.cli.app import app
from gerules.dsl.book import RuleBook
from gerules.dsl.load import load_rules
from gerules.dsl.shipped import rules_folder
from gerules.dsl.syntax import GivenValue, RuleTest
from gerules.dsl.transform import read_file
from gerules.engine.rewrite import Rewriter
from gerules.engine.trace import Trace
from gerules.errors import Source
from gerules.ir import Graph
from gerules.ops import Schemas
from gerules.report.rule_bench import Bench
from gerules.report.rule_edits import count_of, dims_of
from gerules.report.rule_search import Counterexample, Search, SearchCount
from gerules.report.rule_test_text import test_text as text_of_test
from gerules.report.rule_tests import RuleTestReport
from gerules.report.rule_tests import test_rules as run_rule_tests

N = 60
"""Graphs made up for one wrong rule."""

ONE_ALTERNATIVE = """
rule r in s:
    inexact
    match:
        y = (Div(Relu(x: {f16, f32, f64}), 4) with k = 0.25 | Mul(Relu(x), 4) with k = 4.01)
    rewrite:
        y = Mul(Relu(x), k)
    test:
        x: f32[2, 3]
        close 0.1
"""
ONE_ATTRIBUTE = """
rule r in s:
    inexact
    once
    match:
        y = ReduceSum(x, axes=k, keepdims=kd, noop_with_empty_axes=_)
    fold:
        c = cast(2 - kd, x.dtype)
    rewrite:
        y = ReduceSum(Mul(x, c), axes=k, keepdims=kd)
    test:
        x: f32[2, 3, 4]
        k = [1]
"""
OVERFLOW = """
rule r in s:
    inexact
    once
    match:
        y = Mul(Mul(x: {f16, f32, f64}, a: const), b: const)
    where:
        numel(a) == 1 and numel(b) == 1 else "a factor is not one number"
    rewrite:
        y = Mul(Mul(x, Mul(a, 10000)), Mul(b, 0.0001))
    test:
        x: f32[2, 3]
        a, b: const f32[] in 20.0 .. 30.0
        close 0.001, 0.0001
"""
DIMENSION_ONE = """
rule r in s:
    inexact
    match:
        y = ReduceSum(Add(x: T, z: T), axes=[0], keepdims=1, noop_with_empty_axes=_)
    where:
        {guard} else "an operand is repeated along the axis"
    rewrite:
        y = Add(ReduceSum(x, axes=[0], keepdims=1), ReduceSum(z, axes=[0], keepdims=1))
    test:
        x, z: f32[4, 3]
        close 0.0001, 0.00001
"""
OPERAND_ORDER = """
rule r in s:
    match:
        y = Sub(x, z)
    rewrite:
        y = Add(z, Neg(x))
    test:
        x, z: f32[2, 3] = fill(0)
"""
WITHOUT_TEST = """
rule r in s:
    match:
        y = Relu(Add(x, z))
    rewrite:
        y = Add(Relu(x), Relu(z))
"""
NOT_A_NUMBER = """
rule r in s:
    match:
        y = Mul(Max(x, 0), 1)
    where:
        x.rank > 0 else "it is a scalar"
    rewrite:
        y = {build}
    test:
        x: f32[2, 3]
"""
LOST_ATTRIBUTES = """
rule r in s:
    match:
        y = ArgMax(Neg(x), **a)
    rewrite:
        y = ArgMin(x)
    test:
        x: f32[3, 4]
"""
IGNORED_ATTRIBUTE = """
rule r in s:
    once
    match:
        y = Softmax(x, {ignored})
    rewrite:
        y = Softmax(x, axis=-1)
    test:
        x: f32[3, 4]
"""
INFINITY = """
rule r in s:
    match:
        y = Greater(x, 1000000.0)
    rewrite:
        y = Less(x, x)
    test:
        x: f32[3]
"""
WRONG = {
    "attributes captured": LOST_ATTRIBUTES,
    "an attribute ignored": IGNORED_ATTRIBUTE.format(ignored="axis=_"),
    "all attributes ignored": IGNORED_ATTRIBUTE.format(ignored="**"),
    "infinity": INFINITY,
    "one alternative": ONE_ALTERNATIVE,
    "keepdims=0": ONE_ATTRIBUTE,
    "overflow in f16": OVERFLOW,
    "broadcasting": DIMENSION_ONE.format(guard="x.rank == z.rank"),
    "operand order": OPERAND_ORDER,
    "no test at all": WITHOUT_TEST,
}


def run(text: str, generated: int = N, seed: int = 0) -> RuleTestReport:
    book = load_rules([Source("test.ger", "gerules 1\n" + text)], schemas=Schemas())
    return run_rule_tests(book, generated=generated, seed=seed)


@functools.cache
def counterexample(name: str) -> Counterexample:
    (found,) = run(WRONG[name]).counterexamples
    return found


def values(test: RuleTest) -> list[GivenValue]:
    return [item for item in test.inputs if isinstance(item, GivenValue) and item.type is not None]


@pytest.mark.parametrize("name", WRONG)
def test_the_tests_of_a_wrong_rule_hold(name: str):
    tests = WRONG[name].split("    test:")
    # The factor of the second alternative is within what the test allows.
    assert len(tests) == 1 or run(WRONG[name], generated=0).failures == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_and_the_pasted_test_fails(name: str):
    found = counterexample(name)
    assert found.is_shown
    pasted = run(f"{WRONG[name]}\n{found.block}", generated=0)
    assert [failure.test for failure in pasted.failures][:1] == ["the sides part"]


@pytest.mark.parametrize("name", WRONG)
def test_what_the_command_prints_fails_when_pasted(name: str, tmp_path: Path):
    file = tmp_path / "r.ger"
    file.write_text("gerules 1\n" + WRONG[name], encoding="utf-8")
    shown = CliRunner().invoke(app, ["rules", "test", str(file), "--generated", str(N)]).stdout
    block = shown[shown.index("    test ") :].split("\n\n")[0]
    pasted = run(f"{WRONG[name]}\n{block}\n", generated=0)
    assert [failure.test for failure in pasted.failures][:1] == ["the sides part"]


@pytest.mark.parametrize("dtype", ["f4e2m1", "f8e8m0", "f8e4m3fn", "i4", "u2", "bool"])
def test_every_element_type_has_numbers_to_make_up(dtype: str):
    text = f"""
rule r in s:
    match:
        y = Identity(Neg(x: {dtype}))
    rewrite:
        y = Neg(x)
    test:
        x: {dtype}[2]
"""
    assert run(text, generated=20).counterexamples == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_found_is_small(name: str):
    test = counterexample(name).test
    assert all(count_of(item) <= 4 for item in values(test)), text_of_test(test)
    assert len(test.inputs) <= 3


@pytest.mark.parametrize(
    ("build", "test", "reason"),
    [
        ("y = x", "x: f32[2, 3] = [0, 0, 0, 0, 0, -1]", "differs most at [1, 2]: 0 before, -1 after"),
        ("y = x", "x: f32[] = fill(-1)", "differs most at []: 0 before, -1 after"),
        ("y = Neg(x)", "x: f32[2, 3] = [0, 0, 0, 0, 0, 1]", "differs most at [1, 2]: 1 before, -1 after"),
    ],
)
def test_a_difference_is_at_its_place_in_the_result(build: str, test: str, reason: str):
    text = f"rule r in s:\n    match:\n        y = Relu(x)\n    rewrite:\n        {build}\n"
    report = run(f"{text}    test:\n        {test}\n", generated=0)
    assert [failure.reason for failure in report.failures] == [f"result 0 {reason}"]
    (found,) = run(f"{text}    test:\n        {test}\n", generated=1).counterexamples
    place = found.reason[found.reason.index("[") + 1 : found.reason.index("]")]
    (item,) = values(found.test)
    assert len([axis for axis in place.split(", ") if axis]) == len(dims_of(item))


def test_a_rule_that_does_not_stop_is_found():
    text = OPERAND_ORDER.replace("Add(z, Neg(x))", "Sub(x, Identity(z))")
    (found,) = run(text.split("    test:")[0]).counterexamples
    assert found.reason.startswith("E40030")
    assert found.is_shown


def alternatives(name: str, depth: int) -> str:
    """A pattern of 18 alternatives, each of which has 18 inside, `depth` deep."""
    ops = (
        "Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Identity", "Neg", "Relu", "Round", "Sigmoid",
        "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh",
    )  # fmt: skip
    inside = name if depth == 0 else alternatives(name, depth - 1)
    return name if depth == 0 else f"({' | '.join(f'{op}({inside})' for op in ops)})"


def rewrites_to_shrink(depth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many graphs were rewritten to find and shrink what is wrong in a rule of nested alternatives."""
    text = f"""
rule r in s:
    inexact
    match:
        y = Add({alternatives("x", depth)}, Mul({alternatives("z", depth)}, w))
    rewrite:
        y = Sub(x, w)
    test:
        x, z: f32[6, 5, 8, 7] in 0.1 .. 1.0
        w: f32[6, 5, 8, 7]
        close 100000.0
"""
    n_rewrites = 0
    rewrite_it = Rewriter.rewrite

    def counted(self: Rewriter, graph: Graph) -> tuple[Graph, Trace]:
        nonlocal n_rewrites
        n_rewrites += 1
        return rewrite_it(self, graph)

    book = load_rules([Source("test.ger", "gerules 1\n" + text)], schemas=Schemas())
    (rule,) = book.rules
    with monkeypatch.context() as patch:
        patch.setattr(Rewriter, "rewrite", counted)
        found = Search(Bench(book), rule).run(5, SearchCount())
    assert found is not None and found.is_shown
    return n_rewrites


def test_shrinking_nested_alternatives_ends(monkeypatch: pytest.MonkeyPatch):
    whole = rewrites_to_shrink(2, monkeypatch)
    monkeypatch.setattr("gerules.report.rule_search._MOST_SHRINKING", 20)
    assert whole > 200
    # One more test of at most 48 graphs is begun before the last, and one run says what is shown at the end.
    assert rewrites_to_shrink(2, monkeypatch) <= 5 + 48 + 20 + 48 + 48


def test_what_is_too_large_to_compile_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    assert rewrites_to_shrink(3, monkeypatch) == 1


def test_the_attribute_that_matters_stays():
    assert "kd = 0" in counterexample("keepdims=0").block


def test_an_overflow_is_shown_in_a_type_that_overflows():
    assert "f16" in counterexample("overflow in f16").block


@pytest.mark.parametrize(
    "text", [ONE_ALTERNATIVE.replace("4.01", "4"), DIMENSION_ONE.format(guard="same_shape(x, z)")]
)
def test_a_right_rule_has_no_counterexample(text: str):
    report = run(text)
    assert report.counterexamples == []
    assert report.n_fired > 10


DIVIDED = """
rule r in s:
    match:
        y = {op}(x: {{i32}}, x)
    rewrite:
        y = {one}(Mul(x, 0))
    test:
        x: i32[2, 3] in 1 .. 9
"""
DIVIDED_BETWEEN = """
rule r in s:
    inexact
    match:
        y = Div(Mul(x: {i64}, Abs(z)), Abs(z))
    rewrite:
        y = x
    test:
        x, z: i64[3] in 1 .. 9
"""
FOLDED = """
rule r in s:
    once
    match:
        y = Div(Identity(x: {i32}), k: const)
    fold:
        n = 60 // k[0]
    rewrite:
        y = Div(x, k)
    where:
        n > 0 else "it is large"
    test:
        x: i32[3]
        k: const i32[1] = [7]
"""


@pytest.mark.parametrize(
    "text",
    [
        DIVIDED.format(op="Div", one="Identity(Max").replace("Mul(x, 0))", "Min(x, 1), 1))"),
        DIVIDED.format(op="Mod", one="Neg"),
        DIVIDED_BETWEEN,
        FOLDED,
    ],
)
def test_integers_divided_by_zero_refute_nothing(text: str):
    report = run(text, generated=150)
    assert [item.block for item in report.counterexamples] == []
    assert 10 < report.n_fired < report.n_generated


def test_a_rule_that_makes_a_division_by_zero_is_found():
    text = DIVIDED_BETWEEN.replace("Div(Mul(x: {i64}, Abs(z)), Abs(z))", "Sub(x: {i64}, Abs(z))")
    (found,) = run(
        text.replace("y = x\n", "y = Div(Sub(Mul(x, z), Mul(z, Abs(z))), z)\n"), generated=300
    ).counterexamples
    assert "z: i64" in found.block


@pytest.mark.parametrize(("height", "n_fired"), [(0, 0), (5, 1)])
def test_windows_that_leave_nothing_do_not_count(height: int, n_fired: int):
    text = f"""
rule r in s:
    match:
        y = Relu(ConvTranspose(x, W: const, **a))
    rewrite:
        y = Max(ConvTranspose(x, W, **a), 0)
    test:
        x: f32[1, 2, 3, 3]
        W: const f32[2, 2, 3, 3]
        a = {{"output_shape": [{height}, 5]}}
"""
    report = run(text, generated=1)  # the first one is the test itself
    assert (report.n_generated, report.n_fired, report.counterexamples) == (1, n_fired, [])


def test_what_is_made_up_follows_from_the_seed():
    first, again = (run(OPERAND_ORDER) for _ in range(2))
    assert first.counterexamples == again.counterexamples
    assert first.n_generated == again.n_generated


def test_nothing_is_made_up_for_zero():
    report = run(OPERAND_ORDER, generated=0)
    assert (report.n_generated, report.counterexamples) == (0, [])


def test_what_is_not_a_number_is_compared_unless_a_rule_is_inexact():
    wrong = NOT_A_NUMBER.format(build="Max(Min(x, 1000000), 0)")
    (found,) = run(wrong, generated=200).counterexamples
    assert "inf" in found.block or "nan" in found.block or "in " in found.block
    allowed = wrong.replace("    match:", '    inexact "infinity is cut"\n    match:', 1)
    assert all("inf" not in item.block for item in run(allowed, generated=60).counterexamples)


@functools.cache
def shipped() -> RuleBook:
    return load_rules([rules_folder()], schemas=Schemas())


def test_the_text_of_a_test_reads_as_the_same_test():
    for rule in shipped().rules:
        text = "gerules 1\nrule r: Neg(Neg(x)) => x\n" + "".join(map(text_of_test, rule.tests))
        (item,) = read_file(Source("test.ger", text)).items
        assert getattr(item, "tests", ()) == rule.tests


@pytest.mark.parametrize("part", range(5))
def test_shipped_rules_have_no_counterexample(part: int):
    rules = shipped().rules[part::5]
    report = run_rule_tests(shipped(), rules, limit=1, generated=8, seed=1)
    assert [f"{item.rule}: {item.reason}\n{item.block}" for item in report.counterexamples] == []
    assert report.n_fired > len(rules)
