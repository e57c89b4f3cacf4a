"""Reading: what the records of a rule file say, and the faults that only the reader can see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gerules.dsl.declarations import FormatDecl, FormatsTable, Item, RuleSet
from gerules.dsl.expressions import Ident, Literal
from gerules.dsl.syntax import (
    Alternatives,
    AnyInputs,
    BuildCall,
    BuildFunction,
    BuildLine,
    BuildRest,
    CallPattern,
    CaptureAttr,
    ChainOp,
    Condition,
    DimName,
    DimRest,
    DimSize,
    FoldLine,
    LiteralAttr,
    ManyLines,
    MatchLine,
    PlainOp,
    Rule,
    Target,
    ValuePattern,
    VariableOp,
)
from gerules.dsl.transform import read_file
from gerules.errors import GerulesError, Source
from gerules.ir import DType
from gerules.text import read_source

RULES = sorted((Path(__file__).parent / "rules").glob("*.ger"))


def read(text: str) -> tuple[Item, ...]:
    return read_file(Source("f.ger", text)).items


def rule(name: str) -> Rule:
    for path in RULES:
        for item in read_file(read_source(path)).items:
            if isinstance(item, Rule) and item.name.name == name:
                return item
    raise AssertionError(name)


def test_every_example_is_read() -> None:
    found = [item for path in RULES for item in read_file(read_source(path)).items if isinstance(item, Rule)]
    assert len(found) == 62
    n_tests = sum(len(re.findall(r"^ +test\b", path.read_text(), re.M)) for path in RULES)
    assert sum(len(item.tests) for item in found) == n_tests > 60


def test_a_block_rule() -> None:
    item = rule("conv_bn")
    assert (item.ruleset, item.is_inexact, item.is_once) == ("fold.conv", True, False)
    first, second = item.match
    assert isinstance(first, MatchLine) and isinstance(second, MatchLine)
    call = first.pattern
    assert isinstance(call, CallPattern) and call.op == PlainOp(call.op.span, "Conv")
    weight = call.args[1]
    assert isinstance(weight, ValuePattern) and weight.type is not None and weight.type.is_const
    assert [type(dim) for dim in weight.type.dims or ()] == [DimName, DimRest]
    assert call.rest is not None and call.rest.name == "a"
    assert [type(step) for step in item.steps] == [FoldLine, FoldLine, FoldLine, Condition]
    assert item.span.text.startswith("rule conv_bn") and first.span.text.endswith("**a)")
    test = item.tests[0]
    assert (test.rtol, test.atol, test.expects_match) == (0.0001, 0.00001, True)
    assert [one.name.name for one in test.inputs][:3] == ["x", "W", "B"]
    assert item.tests[1].escapes[0].name == "c" and not item.tests[1].expects_match


def test_a_one_line_rule() -> None:
    (item,) = read("rule r in s: Cast(x, to=f16, **) => x where x.dtype == f16\n")
    assert isinstance(item, Rule)
    (line,) = item.match
    assert isinstance(line, MatchLine) and line.targets == (Target(item.span, "%y"),)
    call = line.pattern
    assert isinstance(call, CallPattern) and call.rest is not None and call.rest.name is None
    assert call.attrs[0].pattern == LiteralAttr(item.span, DType.F16)
    assert item.rewrite[0].targets == (Target(item.span, "%y"),)
    (named,) = read("rule r in s: Reshape(x, shape=s) as y => x where same_shape(x, y)\n")
    assert isinstance(named, Rule) and named.rewrite[0].targets[0].name == "y"


def test_operators_of_every_kind() -> None:
    text = """\
rule r in s:
    match:
        a = Add!(x, y)
        b = Mul~(a, x, 0.5 ~ 0.1)
        c = Cast?(b, to=_)
        d = f@UNARY(c)
        e = g@{Relu, ge::Act}?(d)
        h = ch@UNARY{2..}(e, ...)
        k = (Div(h, s: const) with q = 1 / s | none)
    rewrite:
        k = fn ge::F(x, *ch.side_inputs)
"""
    (item,) = read(text)
    assert isinstance(item, Rule)
    ops: list[object] = []
    for line in item.match:
        assert isinstance(line, MatchLine)
        if isinstance(line.pattern, CallPattern):
            ops.append(line.pattern.op)
    assert isinstance(ops[0], PlainOp) and ops[0].order == "ordered"
    assert isinstance(ops[1], PlainOp) and ops[1].order == "any"
    assert isinstance(ops[2], PlainOp) and ops[2].is_optional
    assert isinstance(ops[3], VariableOp) and not ops[3].is_optional
    assert isinstance(ops[4], VariableOp) and ops[4].is_optional
    assert [op.name for op in ops[4].ops.terms[0].ops] == ["Relu", "ge::Act"]
    assert isinstance(ops[5], ChainOp) and (ops[5].least, ops[5].most) == (2, None)
    last = item.match[-1]
    assert isinstance(last, MatchLine) and isinstance(last.pattern, Alternatives)
    assert last.pattern.choices[0].bindings[0].name == Ident(item.span, "q")
    line = item.match[5]
    assert isinstance(line, MatchLine) and isinstance(line.pattern, CallPattern)
    assert isinstance(line.pattern.args[-1], AnyInputs)
    build = item.rewrite[0].build
    assert isinstance(build, BuildFunction) and build.call.args[1] == BuildRest(
        item.span, ("ch", "side_inputs")
    )


def test_groups_metas_and_declarations() -> None:
    group = rule("merge_matmuls").match[0]
    assert isinstance(group, ManyLines)
    assert (group.least, group.most, [name.name for name in group.same]) == (2, 8, ["x", "T", "D"])
    text = """\
rule r in s "doc":
    alias "One", "Two"
    alias "Three"
    opset >= 13
    opset < 20
    priority -3
    overrides a, b
    inexact "why"
    once
    decreases count(Relu)
    when precision == "f16" else "no f16"
    match: y = Relu(x: {f16, int} T[2, ...] @NC1HWC0, axis=k?)
    rewrite: y = x
ruleset s:
    kind UBFusion
    default off
format F(N, C / C0, H, C % 16, ...)
formats on d.e:
    _@{Relu}(*: f) -> f where true cost 2
    Conv(x: ND, B?: ND) -> ND
"""
    item, ruleset, form, formats = read(text)
    assert isinstance(item, Rule)
    assert item.aliases == ("One", "Two", "Three")
    assert item.opsets == ((">=", 13), ("<", 20))
    assert (item.priority, item.inexact_reason, item.is_once) == (-3, "why", True)
    assert [name.name for name in item.overrides] == ["a", "b"]
    assert item.when[0].reason == "no f16"
    line = item.match[0]
    assert isinstance(line, MatchLine) and isinstance(line.pattern, CallPattern)
    leaf = line.pattern.args[0]
    assert isinstance(leaf, ValuePattern) and leaf.type is not None
    kind = leaf.type
    assert kind.dtypes is not None and {DType.F16, DType.I8, DType.U64} < kind.dtypes
    assert kind.dtype_name == "T" and kind.format == Ident(item.span, "NC1HWC0")
    assert kind.dims == (DimSize(item.span, 2), DimRest(item.span))
    assert line.pattern.attrs[0].pattern == CaptureAttr(item.span, "k", is_optional=True)
    assert isinstance(ruleset, RuleSet) and (ruleset.kind, ruleset.is_on) == ("UBFusion", False)
    assert isinstance(form, FormatDecl)
    assert [(dim.kind, dim.axis, dim.block) for dim in form.dims] == [
        ("axis", "N", None),
        ("outer", "C", "C0"),
        ("axis", "H", None),
        ("inner", "C", 16),
        ("rest", "", None),
    ]
    assert isinstance(formats, FormatsTable)
    assert formats.lines[0].cost == Literal(item.span, 2) and formats.lines[0].inputs[0].is_rest
    assert formats.lines[1].inputs[1].is_optional


def test_records_are_equal_when_they_say_the_same() -> None:
    one, two = (
        read("rule r in s: Add(x, 0) => x\n"),
        read("\n\n# shifted\nrule   r in s:   Add( x, 0 )   => x\n"),
    )
    assert one == two and hash(one) == hash(two)
    assert one != read("rule r in s: Add(x, 1) => x\n")


def test_texts_know_their_escapes() -> None:
    (item,) = read('rule r in s "a \\"b\\" \\\\ \\n":\n    match: y = Relu(x)\n    rewrite: y = Neg(x)\n')
    assert isinstance(item, Rule) and item.doc == 'a "b" \\ \n'
    assert isinstance(item.rewrite[0], BuildLine) and isinstance(item.rewrite[0].build, BuildCall)


HEAD = "rule r in s:\n    match: y = "


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("const a = 1e999\n", "E40020", "1e999"),
        (f"const a = {'9' * 5000}\n", "E40020", "9" * 5000),
        ('include "a\\q"\n', "E40020", '"a\\q"'),
        ("gerules 2\n", "E40021", "gerules 2"),
        (HEAD + "Relu(axis=1, x)\n    rewrite: y = x\n", "E40101", "x"),
        (HEAD + "Relu(..., x)\n    rewrite: y = x\n", "E40101", "x"),
        (HEAD + "Relu(*a, *b)\n    rewrite: y = x\n", "E40101", "*b"),
        (HEAD + "Relu(x, **a, **b)\n    rewrite: y = x\n", "E40101", "**b"),
        (HEAD + "Relu(x: f16 f32)\n    rewrite: y = x\n", "E40101", "f32"),
        (HEAD + "Relu(x: [..., *D])\n    rewrite: y = x\n", "E40101", "*D"),
        (HEAD + "Relu(x: float32)\n    rewrite: y = x\n", "E40102", "float32"),
        (HEAD + "Relu(x: {f16, fp32})\n    rewrite: y = x\n", "E40102", "fp32"),
        (HEAD + "c@{Relu}{5..2}(x)\n    rewrite: y = x\n", "E40101", "5..2"),
        (HEAD + "Relu(x)\n", "E40101", "r"),
        ("rule r in s:\n    rewrite: y = x\n", "E40101", "r"),
        (HEAD + "Relu(x)\n    rewrite: y = x\n    rewrite: y = x\n", "E40101", "rewrite: y = x"),
        (HEAD + "Relu(x)\n    rewrite: y = Foo(a=1, x)\n", "E40101", "x"),
        ("const a = f(a=1, 2)\n", "E40101", "2"),
        ("extern predicate p(x) -> int\n", "E40101", "int"),
        ("format F(C / 0)\n", "E40101", "C / 0"),
        ("phase p:\n    run a\n    once\n    until fixpoint\n", "E40101", "p"),
    ],
)
def test_faults_of_reading(text: str, code: str, shown: str) -> None:
    with pytest.raises(GerulesError) as caught:
        read(text)
    fault = caught.value.diagnostics[0]
    assert fault.code.code == code
    assert fault.span is not None and fault.span.text == shown


def test_all_faults_of_a_file_come_together() -> None:
    with pytest.raises(GerulesError) as caught:
        read("const a = 1e999\nconst b = 1e999\ngerules 7\n")
    assert [item.code.code for item in caught.value.diagnostics] == ["E40020", "E40020", "E40021"]
