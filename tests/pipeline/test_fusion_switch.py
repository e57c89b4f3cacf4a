"""Fusion switch files: both forms, their faults with places, what outranks what, and the order of rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.dsl import RuleBook
from gerules.errors import Diagnostic, GerulesError, Source
from gerules.ir import parse_graph
from gerules.pipeline import (
    FusionSwitch,
    Toolchain,
    compile,
    load_rules,
    make_toolchain,
    read_fusion_switch,
    shipped_rules,
)
from gerules.pipeline.fusion_switch import parse_fusion_switch
from gerules.pipeline.switching import apply_switch, ge_passes, section_of

BOOK = shipped_rules()

STEM = """\
graph stem:
    opset 17
    input x: f32[1, 3, 8, 8]
    W: const f32[4, 3, 3, 3] = random(1)
    k: const f32[1, 4, 1, 1] = [1.0, 2.0, 3.0, 4.0]
    c = Conv(x, W, pads=[1, 1, 1, 1])
    s = Add(c, k)
    y = Relu(s)
    return y
"""


def parse(text: str | dict[str, Any]) -> FusionSwitch:
    return parse_fusion_switch(Source("sw.cfg", text if isinstance(text, str) else json.dumps(text)))


def faults_of(text: str) -> list[tuple[str, int]]:
    with pytest.raises(GerulesError) as caught:
        parse(text)
    return [(item.code.code, line_of(item)) for item in caught.value.diagnostics]


def line_of(item: Diagnostic) -> int:
    return item.span.source.line_column(item.span.start)[0] if item.span is not None else 0


def tools_for(text: str | dict[str, Any], book: RuleBook = BOOK, **options: Any) -> Toolchain:
    return make_toolchain(book, {"": 17}, fusion_switch=parse(text), **options)


def on(tools: Toolchain) -> set[str]:
    return {rule.name.name for rule in tools.selection.rules}


# ---------------------------------------------------------------- reading
def test_the_form_of_json() -> None:
    found = parse({
        "Switch": {"GraphFusion": {"ALL": "off", "A": "on"}, "UBFusion": {"B": "off"}},
        "Priority": {"GraphFusion": {"Top": {"A": "5"}, "Down": {"C": "5999"}}, "UBFusion": {"Main": {}}},
        "ExceptionalPassOfO1Level": ["A"],
    })  # fmt: skip
    assert [(item.name, item.section, item.is_on) for item in found.switches] == [
        ("ALL", "GraphFusion", False), ("A", "GraphFusion", True), ("B", "UBFusion", False),
    ]  # fmt: skip
    assert [(item.name, item.level, item.number) for item in found.priorities] == [
        ("A", "Top", 5), ("C", "Down", 5999),
    ]  # fmt: skip
    assert found.kept_at_o1 == ("A",)


def test_the_form_of_lines() -> None:
    found = parse("\ufeffA:on\r\n\r\n  B : off  \nC:on")
    assert [(item.name, item.section, item.is_on, item.span.text) for item in found.switches] == [
        ("A", None, True, "A:on"), ("B", None, False, "B : off"), ("C", None, True, "C:on"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", [("E21001", 0)]),
        (" \n\n# only a comment\n", [("E21001", 0)]),
        ("A:off\nB:on\nA:off\n", [("E21005", 3)]),
        ("A:maybe\nB:On\nC\nD:\n:on\n", [("E21004", n) for n in range(1, 6)]),
        ('{"Switch": {}\n', [("E21002", 2)]),
        ('{"Switch": {"GraphFusion": {"A": off}}}', [("E21002", 1)]),
        ('{"Switch": {"GraphFusion": {"A": "o\\qff"}}}', [("E21002", 1)]),
        ('{"Switch": {}} {}', [("E21002", 1)]),
        ("[" * 5000, [("E21002", 1)]),
        ("[]", [("E21003", 1)]),
        (
            '{"switch": {},\n"Switch": {"Graph": {},\n"UBFusion": []},\n"Switch": {}}',
            [("E21003", 1), ("E21003", 2), ("E21003", 3), ("E21005", 4)],
        ),
        (
            '{"Switch": {"UBFusion": {"A": "yes",\n"B": true,\n"C": {},\n"D": "on",\n"D": "on"}}}',
            [("E21004", 1), ("E21004", 2), ("E21004", 3), ("E21005", 5)],
        ),
        (
            '{"Priority": {"GraphFusion": {\n"Top": {"A": "1000",\n"B": "-1"},\n"Main": {"C": 1200},\n'
            '"Down": {"D": "2999",\n"E": "3000", "F": "x"}, "Last": {}}}}',
            [("E21006", 2), ("E21006", 3), ("E21006", 4), ("E21006", 6), ("E21006", 6), ("E21003", 6)],
        ),
        ('{"Priority": {"UBFusion": {"Top": {"A": "1"}, "Down": {"A": "2000"}}}}', [("E21005", 1)]),
        ('{"ExceptionalPassOfO1Level": ["A", 3]}', [("E21003", 1)]),
        ('{"ExceptionalPassOfO1Level": "A"}', [("E21003", 1)]),
    ],
)  # fmt: skip
def test_all_faults_of_a_file_are_found_with_their_lines(text: str, want: list[tuple[str, int]]) -> None:
    assert faults_of(text) == want


def test_a_missing_file_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(GerulesError, match="E21001"):
        read_fusion_switch(tmp_path / "none.cfg")
    (tmp_path / "raw.cfg").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GerulesError, match="E40005"):
        read_fusion_switch(tmp_path / "raw.cfg")


@given(st.one_of(st.text(), st.text(alphabet='{}[]:," \nonfTopPriority"Switch\\u12')))
def test_whatever_the_text_only_coded_faults_come(text: str) -> None:
    for tried in (text, "{" + text):
        try:
            parse(tried)
        except GerulesError as error:
            assert error.diagnostics


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(JSON.filter(lambda value: isinstance(value, dict | list)), st.booleans())
def test_json_is_read_as_the_standard_library_does(value: Any, is_ascii: bool) -> None:
    text = json.dumps({"Switch": {"GraphFusion": {"A": "on"}}, "Other": value}, ensure_ascii=is_ascii)
    # The only fault is the key that is unknown, wherever its value ends.
    assert faults_of(text) == [("E21003", 1)]


# ---------------------------------------------------------------- what follows
def test_off_leaves_the_rule_out_and_says_why() -> None:
    tools = tools_for("ConvBatchnormFusionPass:off")
    off = {rule.name.name for rule in BOOK.rules_by_alias["ConvBatchnormFusionPass"]}
    assert off and not off & on(tools)
    assert on(make_toolchain(BOOK, {"": 17})) - on(tools) == off
    assert tools.selection.off[min(off)] == "the switch file has ConvBatchnormFusionPass:off"


def test_all_reaches_the_rules_of_its_section_alone() -> None:
    tools = tools_for({"Switch": {"GraphFusion": {"ALL": "off"}}}, device="ascend910b")
    kinds = {section_of(BOOK, rule) for rule in tools.selection.rules}
    assert kinds == {None, "UBFusion"}
    tools = tools_for({"Switch": {"UBFusion": {"ALL": "off"}}}, device="ascend910b")
    assert {section_of(BOOK, rule) for rule in tools.selection.rules} == {None, "GraphFusion"}


def test_all_off_and_one_pass_on() -> None:
    model = compile(parse_graph(STEM))
    assert model.summary().fusions.get("conv_bias") == 1
    switch = parse("ALL:off\nAABiasaddConvFusion:on")
    tools = make_toolchain(BOOK, {"": 17}, fusion_switch=switch)
    aliased = {rule.name.name for rule in BOOK.rules_by_alias["AABiasaddConvFusion"]}
    kept = {rule.name.name for rule in tools.selection.rules if section_of(BOOK, rule) is not None}
    assert kept == aliased


def test_a_compile_with_everything_off_keeps_the_operators(tmp_path: Path) -> None:
    path = tmp_path / "fusion_switch.cfg"
    path.write_text("ALL:off\n", encoding="utf-8")
    for device in ("host", "ascend910b"):
        fused = compile(parse_graph(STEM), device=device)
        plain = compile(parse_graph(STEM), device=device, fusion_switch_file=path)
        assert len(plain.graph.nodes) > len(fused.graph.nodes)
        assert "conv_bias" not in plain.summary().fusions
        assert any(item.code.code == "E21011" for item in plain.warnings)


def test_the_caller_outranks_the_file_and_the_file_the_profile() -> None:
    off, kept = "ConvBatchnormFusionPass:off", "conv_bn"
    assert kept in on(tools_for(off, enable=[kept]))
    assert kept in on(tools_for(off, enable=["all"]))
    assert kept not in on(tools_for(f"{kept}:on", disable=["fold"]))
    assert "bottleneck" in on(make_toolchain(BOOK, {"": 17}, profile="blocks"))
    assert "bottleneck" not in on(tools_for("extract.blocks:off", profile="blocks"))
    assert "bottleneck" in on(tools_for("extract:on", profile="fp32"))


def test_all_on_is_no_invitation_to_what_is_off_by_default() -> None:
    plain = on(make_toolchain(BOOK, {"": 17}))
    assert on(tools_for("ALL:on")) == plain
    assert on(tools_for("ALL:on\nextract.blocks:on")) > plain


def test_nearer_names_win_over_sets_and_sets_over_all() -> None:
    found = on(tools_for("ALL:off\nfold.conv:on\nconv_bias:off"))
    assert "conv_bias" not in found and "conv_bn" in found
    # The section that governs a rule comes before the other one.
    both = {"Switch": {"GraphFusion": {"conv_bn": "on"}, "UBFusion": {"conv_bn": "off"}}}
    assert "conv_bn" in on(tools_for(both))
    assert "conv_bn" not in on(tools_for({"Switch": {"UBFusion": {"conv_bn": "off"}}}))


def test_names_without_a_rule_are_listed() -> None:
    known = sorted(name for name in ge_passes() if name not in BOOK.rules_by_alias)[:3]
    text = "\n".join(f"{name}:off" for name in (*known, "ConvBatchnormFusionPas", "conv_bn"))
    tools = tools_for(text)
    warnings = tools.book.warnings[len(BOOK.warnings) :]
    assert [item.code.code for item in warnings] == ["E21010", "E21010"]
    assert ", ".join(known) in warnings[0].message
    assert "3 passes of GE that gerules has no rule for" in warnings[0].message
    assert warnings[1].notes == ("did you mean ConvBatchnormFusionPass?",)
    assert line_of(warnings[1]) == 4


def test_of_many_unknown_names_the_first_are_told_and_the_rest_counted() -> None:
    text = "\n".join(f"NoSuchPass{n}x:off" for n in range(20_000))
    book, verdicts = apply_switch(BOOK, parse(text))
    assert verdicts == {}
    *one_by_one, rest = book.warnings[len(BOOK.warnings) :]
    assert [item.facts["name"] for item in one_by_one] == [f"NoSuchPass{n}x" for n in range(20)]
    assert rest.facts["name"] == "19980 more names"
    assert line_of(rest) == 21


def test_every_alias_of_the_shipped_rules_is_a_pass_that_is_known() -> None:
    assert sorted(set(BOOK.rules_by_alias) - set(ge_passes())) == []


# ---------------------------------------------------------------- priorities
OWN = """\
gerules 1
ruleset own "rules of our own":
    kind GraphFusion
    priority 7
rule first in own "a":
    alias "FirstPass"
    match: y = Abs(x)
    rewrite: y = Neg(x)
rule second in own "b":
    alias "SecondPass"
    priority 50
    match: y = Abs(x)
    rewrite: y = Relu(x)
rule third in own "c":
    match: y = Abs(x)
    rewrite: y = Identity(x)
rule fourth in own "d":
    alias "FourthPass"
    match: y = Abs(x)
    rewrite: y = Sqrt(x)
"""


def order_with(priority: dict[str, Any]) -> list[str]:
    book = load_rules(Source("own.ger", OWN))
    tools = tools_for({"Priority": {"GraphFusion": priority}}, book)
    from gerules.dsl.declarations import Phase
    from gerules.dsl.expressions import Ident

    some = next(iter(book.phases.values()))
    phase = Phase(
        some.span, Ident(some.span, "p"), "", (Ident(some.span, "own"),), (), "outputs_first", True,
        None, False, (), (),
    )  # fmt: skip
    return [plan.rule.name.name for plan in tools.phases.plans(phase).plans]


def test_priorities_order_the_rules_of_a_phase() -> None:
    assert order_with({}) == ["second", "first", "third", "fourth"]
    # Custom Top, custom Main, built-in Main, what is not configured, Down last.
    assert order_with({"Top": {"FourthPass": "1"}}) == ["fourth", "second", "first", "third"]
    assert order_with({
        "Top": {"FourthPass": "999"}, "Main": {"FirstPass": "1000"}, "Down": {"SecondPass": "5000"}
    }) == ["fourth", "first", "third", "second"]  # fmt: skip
    assert order_with({
        "Main": {"FirstPass": "4000", "FourthPass": "1999"}, "Down": {"third": "2001", "SecondPass": "2000"}
    }) == ["fourth", "first", "second", "third"]  # fmt: skip


def test_a_line_with_an_equals_sign_is_told_to_take_a_colon() -> None:
    with pytest.raises(GerulesError) as caught:
        parse_fusion_switch(Source("s.cfg", "A:on\nconv_relu=off\n"))
    (fault,) = caught.value.diagnostics
    assert fault.message == "conv_relu cannot be switched to =off"
    assert fault.hint == "write conv_relu:off, with a colon"
