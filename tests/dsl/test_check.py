"""Load-time checks: each mistake is found at its place, with the nearest right name; right rules pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.dsl import RuleBook, check_rules, load_rules
from gerules.errors import GerulesError, Source
from gerules.ops import Schemas
from tests.dsl.examples import FUNCTIONS

RULES = sorted((Path(__file__).parent / "rules").glob("*.ger"))
SCHEMAS = Schemas()

PRELUDE = """\
ops UNARY = {Relu, Neg, Abs}
const K = 2
define ge::Act(x, w?, kind = "a") -> y:
    y = Relu(x)
pattern square(d) -> s:
    s = Mul(d, d)
"""


def load(text: str) -> RuleBook:
    return load_rules([Source("prelude.ger", PRELUDE), Source("f.ger", text)], schemas=SCHEMAS)


def faults(text: str) -> list[tuple[str, str, str]]:
    """Code, text pointed at, and first note of each fault."""
    with pytest.raises(GerulesError) as caught:
        load(text)
    return [
        (item.code.code, item.span.text if item.span else "", item.notes[0] if item.notes else "")
        for item in caught.value.diagnostics
    ]


def block(match: str, rewrite: str = "y = x", extra: str = "") -> str:
    return f"rule r in s:\n    match:\n        {match}\n{extra}    rewrite:\n        {rewrite}\n"


def test_the_examples_are_without_fault() -> None:
    book = load_rules(RULES, schemas=SCHEMAS, functions=FUNCTIONS)
    found = check_rules(book, SCHEMAS, book.functions)
    assert not len(found)
    assert {item.code.code for item in found.warnings} == {"E40117"}


@pytest.mark.parametrize(
    "text",
    [
        block("y = Relu(square(x))"),
        block("y = ge::Act(x, kind=k)", "y = ge::Act(x, kind=k)"),
        block("y = Unsqueeze(Squeeze(x, axes=a), axes=b)", extra="    where: len(a) == len(b)\n"),
        block("y = Conv(x, W, B?, **a)", "y = Conv(x, W, B, **a)"),
        block("a, b = Split(x, axis=k)\n        y = Concat(b, a, axis=k)"),
        block("y = Concat(*xs, axis=k)", "y = Concat(*xs, axis=k)"),
        block("y = Max(x, ...)"),
        block("y = f@UNARY(x, **a)", "y = @f(x, **a)"),
        block("y = Relu(x)", "h = Neg(x)\n        y = Abs(h)"),
        block("y = Relu(x)", "y = fn my::Fused(x)"),
        block("y = Upsample(x, s, mode=_)"),
        block("y = Relu(x)", "y = fn my::Fused(x)") + "ops MINE = {my::Fused}\n",
        block("y = Relu(x)") + "    test:\n        x: f32[1]\n        device from_elsewhere\n",
        block("y = Relu(x: T[N, *D])", "y = Expand(x, n)", "    fold: n = [N, 1]\n"),
        "rule r in s: Relu(x) => x where reaches(x, Conv, via=UNARY) and n_readers(x) == 1\n",
    ],
)
def test_right_rules_pass(text: str) -> None:
    load(text)


@pytest.mark.parametrize(
    ("text", "code", "shown", "note"),
    [
        # operators
        (block("y = Rellu(x)"), "E40111", "Rellu", "did you mean Relu?"),
        (block("y = ge::Actt(x)"), "E40111", "ge::Actt", "did you mean ge::Act?"),
        (block("y = Relu(x)", "y = Nge(x)"), "E40111", "Nge", "did you mean Neg?"),
        (block("y = sqare(x)"), "E40111", "sqare", "did you mean square?"),
        (block("y = f@{Relu, Foo}(x)"), "E40111", "Foo", ""),
        (block("y = f@UNRY(x)"), "E40112", "UNRY", "did you mean UNARY?"),
        ("ops A = {Conv, Cnv}\n", "E40111", "Cnv", "did you mean Conv?"),
        ("ops A = UNARRY\n", "E40112", "UNARRY", "did you mean UNARY?"),
        # attributes and arity
        (block("y = Softmax(x, axs=1)"), "E40113", "axs", "did you mean axis?"),
        (block("y = Relu(x)", "y = Softmax(x, axs=1)"), "E40113", "axs", "did you mean axis?"),
        (block("y = ge::Act(x, kid=1)"), "E40113", "kid", "did you mean kind?"),
        (block("y = Relu(x, z)"), "E40116", "Relu(x, z)", ""),
        (block("y = Add(x)"), "E40116", "Add(x)", ""),
        (block("y = Mul~(x)"), "E40116", "Mul~(x)", ""),
        (block("y = square(x, z)"), "E40116", "square(x, z)", ""),
        (block("y, z = Relu(x)"), "E40116", "Relu(x)", ""),
        (block("y = Relu(x)", "y = Add(x)"), "E40116", "Add(x)", ""),
        (block("y = Relu(x)", "y = Concat(x, x)"), "E40116", "Concat(x, x)", ""),
        (block("y = Relu(x)", "y = Cast(x)"), "E40116", "Cast(x)", ""),
        (block("y = Reshape(x, s, shape=t)"), "E40116", "shape", ""),
        # names
        (block("y = Relu(x)", "y = z"), "E40003", "z", ""),
        (block("y = Relu(value)", "y = valu"), "E40003", "valu", "did you mean value?"),
        (block("y = Relu(x)", "y = Softmax(x, axis=k)"), "E40003", "k", ""),
        (block("y = Relu(x)", "y = Softmax(x, **a)"), "E40003", "a", ""),
        (block("y = Relu(x)", "y = @f(x)"), "E40003", "@f", ""),
        (block("y = Relu(x)", extra="    where: z.rank == 1\n"), "E40003", "z", ""),
        (block("y = Relu(x)", extra="    gate: befor.time > 1\n"), "E40003", "befor", "did you mean before?"),
        (block("y = Relu(x)", extra="    where: before.time > 1\n"), "E40003", "before", ""),
        (block("y = Relu(x)", extra="    where: a > 1\n    fold: a = 2\n"), "E40003", "a", ""),
        (block("y = Mul(x, $Q)"), "E40003", "$Q", ""),
        (block("y = Relu(x: @NCWH)"), "E40003", "NCWH", "did you mean NCHW?"),
        ("rule r in s:\n    overrides q\n    match: y = Relu(x)\n    rewrite: y = x\n", "E40139", "q", ""),
        (block("y = Relu(c)\n        c = Neg(x)"), "E40118", "c", ""),
        (block("y = Relu(x)\n        y = Neg(x)"), "E40118", "y", ""),
        (block("y = Relu(x)", "x = Neg(y)"), "E40118", "x", ""),
        (block("y = Relu(x)", "z = Neg(x)"), "E40118", "z = Neg(x)", ""),
        (block("y = Relu(x)", "h = Neg(x)\n        y = x"), "E40118", "h", ""),
        (block("y = Relu(x)", "y = Neg(y)"), "E40118", "y", ""),
        (block("y = Relu(x)", "y = x\n        y = x"), "E40118", "y", ""),
        (block("y = f@UNARY(x)", "y = Add(x, f)"), "E40118", "f", ""),
        (block("y = Relu(x)", extra="    fold: x = 1\n"), "E40118", "x", ""),
        # functions
        (
            block("y = Relu(x)", extra="    where: nummel(x) == 1\n"),
            "E40114",
            "nummel",
            "did you mean numel?",
        ),
        (block("y = Relu(x)", extra="    where: x.shap == 1\n"), "E40113", "shap", "did you mean shape?"),
        (block("y = Relu(x)", extra="    where: numel() == 1\n"), "E40115", "numel()", "it is numel(x)"),
        (block("y = Relu(x)", extra='    where: device.hass("x")\n'), "E40114", "hass", "did you mean has?"),
        (
            block("y = Relu(x)", extra="    where: count(Rellu) > 1\n"),
            "E40111",
            "Rellu",
            "did you mean Relu?",
        ),
        ("extern predicate p(a, b?)\nconst A = p()\n", "E40124", "p", ""),
        # groups
        (block("many 2..4:\n            y = Relu(x)"), "E40118", "y", ""),
        (
            block("many 2..4:\n            y = Relu(x)\n            same z", "*y = Split(x)"),
            "E40003",
            "z",
            "",
        ),
        (block("many 2..4:\n            y = Relu(x)", "*y = Split(x)"), "E40118", "x", ""),
        (block("y = Relu(x)", "*y = Split(x)"), "E40118", "*y", ""),
        (block("y = Relu(x)", "y = Concat(*x, axis=0)"), "E40118", "*x", ""),
        # tests
        (block("y = Relu(x)") + "    test:\n        z: f32[1]\n", "E40003", "z", ""),
        (block("y = Relu(x)") + "    test:\n        y: f32[1]\n", "E40118", "y", ""),
        (block("y = Relu(x)") + "    test:\n        x: f32[1]\n        escapes x\n", "E40003", "x", ""),
        (
            block("y = Relu(x)") + "    test:\n        x: f32[1]\n        device npu\ndevice d:\n    has a\n",
            "E40003",
            "npu",
            "",
        ),
        (block("y = f@UNARY(x)") + "    test:\n        choose g = [Relu]\n", "E40003", "g", ""),
        (
            block("y = f@UNARY(x)") + "    test:\n        choose f = [Rel]\n",
            "E40111",
            "Rel",
            "did you mean Relu?",
        ),
        # the rest of a file
        ("define ge::A(x) -> y:\n    z = Relu(x)\n", "E40003", "y", ""),
        ("define ge::A(x) -> y:\n    y = Rel(x)\n", "E40111", "Rel", "did you mean Relu?"),
        ("define ge::A(x) -> y:\n    y = ge::A(x)\n", "E40106", "ge::A", ""),
        ("pattern p(x) -> y:\n    z = Relu(x)\n", "E40003", "y", ""),
        ("pattern p(x) -> y:\n    y = Relu(p(x))\n", "E40106", "p", ""),
        ("pattern Relu(x) -> y:\n    y = Neg(x)\n", "E40118", "Relu", ""),
        (
            "phase p:\n    run clenup\nrule r in cleanup: Neg(x) => x\n",
            "E40003",
            "clenup",
            "did you mean cleanup?",
        ),
        ("phase p:\n    once\n", "E40118", "p", ""),
        ("pipeline p = [a]\n", "E40003", "a", ""),
        ("profile p extends q:\n    set a = 1\n", "E40003", "q", ""),
        ("profile p extends p:\n    set a = 1\n", "E40106", "p", ""),
        ("profile p:\n    disable nothing\n", "E40003", "nothing", ""),
        (
            "rule first in s: Neg(x) => x\nrule r in s:\n    overrides frist\n    match: y = Relu(x)\n"
            "    rewrite: y = x\n",
            "E40139",
            "frist",
            "did you mean first?",
        ),
        (block("y = Relu(x: [N])", extra="    where:\n        n > 1\n"), "E40003", "n", "did you mean N?"),
        ("rule r in s:\n    overrides r\n    match: y = Relu(x)\n    rewrite: y = x\n", "E40138", "r", ""),
        ("profile p:\n    set K = 1\n", "E40118", "K", ""),
        ("device d:\n    engine e: {Rel}\n", "E40111", "Rel", "did you mean Relu?"),
        ("device d:\n    lacks NOTHING\n", "E40112", "NOTHING", ""),
        (
            "device d:\n    engine e: {Relu}\nformats on d.f:\n    Relu(x: ND) -> ND\n",
            "E40003",
            "d.f",
            "did you mean d.e?",
        ),
        ("formats on d.e:\n    Relu(x: NZ) -> ND\n", "E40003", "NZ", ""),
        (
            "formats on d.e:\n    Concat(*: ND) -> ND where axes == 1 and y.rank == 4 and len(inputs) == 2\n",
            "E40003",
            "axes",
            "did you mean axis?",
        ),
        ("define ge::F(x) -> *ys:\n    ys = Split(x, axis=0)\n", "E40118", "ys", ""),
        ("define ge::F(x) -> y:\n    *ys = Split(x, axis=0)\n    y = Relu(x)\n", "E40118", "*ys", ""),
        ("define ge::F(x) -> *ys, y:\n    *ys = Split(x, axis=0)\n    y = Relu(x)\n", "E40101", "y", ""),
        ("formats on d.e:\n    Relu(x: ND) -> ND where y1.rank == 4\n", "E40003", "y1", ""),
        (
            "device d:\n    engine e: {Concat} where axis == 1 and x.rank == y.rank and alpha == 1\n",
            "E40003",
            "alpha",
            "",
        ),
        ("const A = $B\n", "E40003", "$B", ""),
        ("ruleset r:\n    when pecision == 1\n", "E40003", "pecision", "did you mean precision?"),
    ],
)
def test_a_mistake_is_found(text: str, code: str, shown: str, note: str) -> None:
    found = faults(text)
    assert (code, shown) in [item[:2] for item in found]
    assert not note or (code, shown, note) in found


TWICE = "rule r in s: Relu(Relu(x)) => Relu(x)\n    test:\n        x: f32[2]\n        x: f32[3]\n"


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        (TWICE, "E40118", "x"),
        (TWICE.replace("x: f32[3]", "close -1"), "E40101", "close -1"),
        (TWICE.replace("x: f32[3]", "close 0.1, -0.5"), "E40101", "close 0.1, -0.5"),
    ],
)
def test_a_test_says_each_thing_once_and_within_bounds(text: str, code: str, shown: str) -> None:
    ((found, place, _),) = faults(text)
    assert (found, place) == (code, shown)


def test_all_mistakes_come_together() -> None:
    text = (
        block("y = Rellu(x, axs=1)", "y = Nge(z)", "    where: nummel(q) == 1\n")
        + "phase p:\n    run nowhere\n"
    )
    codes = [code for code, _, _ in faults(text)]
    assert sorted(codes) == ["E40003", "E40003", "E40003", "E40111", "E40111", "E40114"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (block("y = Softmax(x, axis=k)"), "k"),
        (block("y = Softmax(x, **a)"), "**a"),
        (block("y = f@UNARY(x)"), "f@UNARY"),
        (block("y = Relu(x)", extra="    fold: k = 1\n"), "k"),
        ("ruleset empty:\n    default on\n", "empty"),
    ],
)
def test_unused_names_are_warnings(text: str, shown: str) -> None:
    (warning,) = load(text).warnings
    assert warning.code.code == "E40117" and warning.severity == "warning"
    assert warning.span is not None and warning.span.text == shown


@pytest.mark.parametrize(
    "text",
    [
        block("y = Softmax(x, axis=_)"),
        block("y = Softmax(x, **)"),
        block("y = Softmax(Softmax(x, axis=k), axis=k)"),
        block("y = Softmax(x, axis=k)", extra="    where: k == 1\n"),
        block("y = Softmax(x, axis=k)") + "    test:\n        x: f32[2]\n        k = 0\n",
    ],
)
def test_used_names_are_no_warnings(text: str) -> None:
    assert load(text).warnings == ()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_mutation_makes_the_checks_fall_over(data: st.DataObject) -> None:
    texts = {path.name: path.read_text() for path in RULES}
    name = data.draw(st.sampled_from(sorted(texts)))
    text = texts[name]
    words = sorted({word for word in text.replace("(", " ").replace(",", " ").split() if word.isidentifier()})
    for _ in range(data.draw(st.integers(1, 3))):
        old, new = data.draw(st.sampled_from(words)), data.draw(st.sampled_from(words))
        at = text.find(old, data.draw(st.integers(0, len(text))))
        if at >= 0:
            text = text[:at] + new + text[at + len(old) :]
    needed = {key: value for key, value in texts.items() if key[:2] in {"00", "04"}} | {name: text}
    try:
        load_rules([Source(key, value) for key, value in sorted(needed.items())], schemas=SCHEMAS)
    except GerulesError as error:
        assert all(item.span is not None for item in error.diagnostics)


def test_operators_that_only_rules_make_stand_in_sets_engines_and_formats():
    text = """
device d:
    engine e: S + {ge::Made}
formats on d.e:
    ge::Made(*: ND) -> *: ND
    _@S(*: ND) -> ND
ops S = {ge::Made, Relu}
rule r in s:
    match:
        y = Relu(Neg(x))
    rewrite:
        y = fn ge::Made(x)
"""
    load(text)
    assert [item[:2] for item in faults(text.replace("fn ge::Made", "fn ge::Mode"))] == [
        ("E40111", "ge::Made")
    ] * 3


def test_a_circle_of_overrides_is_told_with_its_rules() -> None:
    rules = [
        f"rule {one} in s:\n    overrides {two}\n    match: y = Relu(x)\n    rewrite: y = {one.title()}(x)\n"
        for one, two in (("abs", "neg"), ("neg", "sin"), ("sin", "abs"))
    ]
    with pytest.raises(GerulesError) as caught:
        load("".join(rules))
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E40138" and fault.span is not None and str(fault.span) == "f.ger:10:15"
    assert fault.message == "rules override each other in a circle: abs -> neg -> sin -> abs"
    load("".join(rules[:2]) + rules[2].replace("    overrides abs\n", ""))


def warnings(text: str) -> list[tuple[str, str, str]]:
    """Code, text pointed at, and hint of each warning."""
    return [(item.code.code, item.span.text if item.span else "", item.hint) for item in load(text).warnings]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float32", "f32"), ("fp16", "f16"), ("INT64", "i64"), ("bfloat16", "bf16"), ("double", "f64")],
)
def test_an_attribute_that_is_named_like_a_type_elsewhere(name: str, dtype: str) -> None:
    hint = f"did you mean {dtype}? Otherwise take another name"
    for build in (f"Cast(Relu(x), to={name})", "Relu(x)"):
        assert warnings(block(f"y = Cast(x, to={name})", f"y = {build}")) == [("E40142", name, hint)]
    assert warnings(block("y = Cast(x, to=f32)")) == []


def test_a_mark_that_is_nearly_one_that_passes_read() -> None:
    rule = "rule r in s:\n    match: y = Relu(x)\n    annotate: y.{} = 1\n"
    ((code, name, _),) = warnings(rule.format("engin"))
    assert (code, name) == ("E40117", "engin")
    assert warnings(rule.format("engine")) == warnings(rule.format("colour")) == []


def test_a_name_inside_a_list_of_literals() -> None:
    with pytest.raises(GerulesError) as caught:
        load(block("y = ReduceMax(x, axes=[0, ax])"))
    (fault,) = caught.value.diagnostics
    assert fault.span is not None and fault.span.text == "ax"
    assert fault.hint == ("a list of literals binds no names: write `axes=name`, and compare it in `where`")
