"""Fusion patterns from Python: what is printed, under which lines it is told, what is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gerules.dsl import FUNCTIONS, RuleBook, RuleError, load_rules, predicate
from gerules.dsl.formatting import format_rules
from gerules.dsl.fusion_patterns import (
    PATTERNS,
    FusionPattern,
    register_fusion_pattern,
    unregister_fusion_pattern,
)
from gerules.dsl.pattern_builder import Pattern
from gerules.errors import Source
from gerules.ir import DType
from gerules.ops import Schemas

SCHEMAS = Schemas()
HERE = "tests/dsl/test_fusion_patterns.py"


def load(pattern: FusionPattern) -> RuleBook:
    return load_rules([pattern.source], schemas=SCHEMAS)


def line_of(text: str) -> int:
    """The line of this file where a text stands first."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def everything(p: Pattern) -> None:
    """Two factors on a sum are one."""
    x, s = p.input("x", "T[N, C]"), p.const("s", "T[C]")
    bias = p.input("B", optional=True)
    c = p.op("Conv", x, s, bias, attrs=p.attrs("a"), name="c")
    m = p.op("Mul", c, 0.5)
    r = p.op("ReduceMean", m, axes=[1], keepdims=p.attr("keep"), noop_with_empty_axes=...)
    p.say("once")
    k = p.fold("k", "cast(s * 0.5, s.dtype)")
    p.where("keep == 1", otherwise='it is "flat"')
    new = p.op("Conv", x, k, bias, auto_pad="SAME_UPPER")
    cast = p.op("Cast", new, to=DType.F16)
    p.replace(r, p.op("Gather", cast, 1, axis=p.expr("keep - 1")))


TEXT = """\
rule everything in some.set "Two factors on a sum are one.":
    priority 3
    once
    match:
        c = Conv(x: T[N, C], s: const T[C], B?, **a)
        t1 = Mul(c, 0.5)
        t2 = ReduceMean(t1, axes=[1], keepdims=keep, noop_with_empty_axes=_)
    fold:
        k = cast(s * 0.5, s.dtype)
    where:
        keep == 1 else "it is \\"flat\\""
    rewrite:
        t3 = Conv(x, k, B, auto_pad="SAME_UPPER")
        t4 = Cast(t3, to=f16)
        t2 = Gather(t4, 1, axis=keep - 1)
"""


def test_a_pattern_prints_as_a_rule() -> None:
    pattern = FusionPattern("everything", everything, "some.set", 3)
    assert pattern.text == TEXT
    assert format_rules(Source("f.ger", pattern.text)) == pattern.text
    assert "everything" in load(pattern).rule_by_name


def test_each_line_is_told_under_the_line_of_python_that_says_it() -> None:
    pattern = FusionPattern("everything", everything)
    source = pattern.source
    assert source.name == HERE
    told = dict(zip(source.text.splitlines(), source.lines, strict=True))
    for text, python in [
        ("        t1 = Mul(c, 0.5)", '    m = p.op("Mul", c, 0.5)'),
        ("        k = cast(s * 0.5, s.dtype)", '    k = p.fold("k"'),
        ('        keep == 1 else "it is \\"flat\\""', '    p.where("keep == 1"'),
        ("        t4 = Cast(t3, to=f16)", '    cast = p.op("Cast"'),
    ]:
        assert told[text] == line_of(python)
    assert source.lines[0] == inspect.getsourcelines(everything)[1]


def test_a_fault_points_into_the_python_file() -> None:
    def wrong(p: Pattern) -> None:
        x = p.input("x")
        p.replace(p.op("Relu", x), p.op("Rellu", x))

    with pytest.raises(RuleError) as caught:
        load(FusionPattern("wrong", wrong))
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E40111"
    assert str(fault.span).startswith(f"{HERE}:{line_of('Rel' + 'lu')}:")
    assert fault.as_json()["line"] == line_of("Rel" + "lu")


def test_several_results_and_values_that_stay() -> None:
    def halves(p: Pattern) -> None:
        x = p.input("x")
        a, b = p.outputs(p.op("Split", x, axis=1, outputs=2))
        y = p.op("Relu", a, name="y")
        first, second = p.outputs(p.op("my::Halves", x, outputs=2))
        p.replace((y, b), (first, second))

    def same(p: Pattern) -> None:
        x = p.input("x")
        p.replace(p.op("Relu", p.op("Relu", x), name="y"), x)

    text = FusionPattern("halves", halves).text
    assert "        t1, t2 = Split(x, axis=1)\n        y = Relu(t1)\n" in text
    assert text.endswith("    rewrite:\n        y, t2 = my::Halves(x)\n")
    assert FusionPattern("same", same).text.endswith("    rewrite:\n        y = x\n")


def given() -> str:
    return """
# A rule in a text.
rule given in some.set: Abs(Abs(x) as r) => r
"""


def test_a_text_is_told_under_its_own_lines() -> None:
    pattern = FusionPattern("given", given)
    assert str(load(pattern).rule_by_name["given"].span).startswith(f"{HERE}:{line_of('rule given in')}:")
    made = FusionPattern("made", lambda: "rule made in " + "some.set: Abs(Abs(x) as r) => r\n")
    assert load(made).rule_by_name["made"].span.source.lines == (line_of("made = FusionPattern"),)


def test_patterns_of_one_file_are_different_texts() -> None:
    book = load_rules(
        [FusionPattern("everything", everything).source, FusionPattern("given", given).source],
        schemas=SCHEMAS,
    )
    assert set(book.rule_by_name) == {"everything", "given"}


def test_a_registered_predicate_is_declared() -> None:
    def is_odd(n: int) -> bool:
        return n % 2 == 1

    def odd_abs(p: Pattern) -> None:
        x = p.input("x", "f32[N]")
        p.where(is_odd, "N")
        p.replace(p.op("Abs", x), p.op("Relu", x))

    with pytest.raises(RuleError, match="is_odd is not registered"):
        _ = FusionPattern("odd_abs", odd_abs).text
    predicate(is_odd)
    try:
        text = FusionPattern("odd_abs", odd_abs).text
        assert text.startswith("extern predicate is_odd(n: int)\nrule odd_abs")
        assert "        is_odd(N)\n" in text
        load(FusionPattern("odd_abs", odd_abs))
    finally:
        FUNCTIONS.discard("is_odd")


def nothing(p: Pattern) -> None:
    p.input("x")


def twice(p: Pattern) -> None:
    x = p.input("x")
    p.replace(p.op("Relu", x, name="x"), x)


def uneven(p: Pattern) -> None:
    x = p.input("x")
    p.replace(p.op("Relu", x), [x, x])


def bare(p: Pattern) -> None:
    x = p.input("x")
    p.replace(x, p.op("Relu", x))


def ignored(p: Pattern) -> None:
    x = p.input("x")
    p.replace(p.op("Relu", x), p.op("Elu", x, attrs=...))


def raises(p: Pattern) -> None:
    raise ValueError("no idea")


def no_text() -> int:
    return 3


STRANGER = Pattern("", 0).input("z")


def stranger(p: Pattern) -> None:
    p.replace(p.op("Relu", STRANGER), p.op("Abs", p.input("x")))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (nothing, "it replaces nothing"),
        (twice, "two of its values are called x"),
        (uneven, "1 value is replaced by 2"),
        (bare, "what it replaces is made by no operator"),
        (ignored, "the new Elu cannot have attributes that were ignored"),
        (raises, "ValueError: no idea"),
        (no_text, "it returned int, and no text"),
        (stranger, "belongs to another pattern"),
    ],
)
def test_what_gives_no_rule_is_refused(function: Callable[..., object], reason: str) -> None:
    with pytest.raises(RuleError) as caught:
        _ = FusionPattern("p", function).text  # type: ignore[arg-type]
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E40128" and reason in fault.message
    assert fault.place == f"{HERE}:{line_of(f'def {function.__name__}(')}"


@pytest.fixture
def registered() -> Iterator[list[str]]:
    yield (names := [])
    for name in names:
        unregister_fusion_pattern(name)


def test_the_decorator_stands_bare_or_with_settings(registered: list[str]) -> None:
    registered += ["given", "everything"]
    assert register_fusion_pattern(given).source.text == register_fusion_pattern()(given).source.text
    assert register_fusion_pattern(everything).ruleset == "main"
    assert [item.name for item in PATTERNS] == ["given", "everything"]
    with pytest.raises(RuleError, match="it is no function") as caught:
        register_fusion_pattern("my.rules")  # type: ignore[call-overload] # what a user gets wrong
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E40128" and "fusion_pattern(name=..., ruleset=...)`" in str(fault.facts)


def test_a_name_is_given_once(registered: list[str]) -> None:
    registered.append("mine")
    first = register_fusion_pattern(name="mine")(given)
    assert list(PATTERNS) == [first]
    again = register_fusion_pattern(name="mine")(given)  # as when its module is loaded again
    assert list(PATTERNS) == [again]
    with pytest.raises(RuleError, match="another pattern of this name is registered"):
        register_fusion_pattern(name="mine")(everything)
    unregister_fusion_pattern("mine")
    assert not list(PATTERNS)
