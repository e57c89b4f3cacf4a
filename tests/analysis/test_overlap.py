"""Overlaps are shown by a graph on which both rules apply; rules that never get their turn are errors."""

from __future__ import annotations

import pytest

from gerules.analysis.analyse import analyse_rules
from gerules.engine.define import make_infer
from gerules.engine.evaluation import RuleContext
from gerules.engine.rewrite import rewrite
from gerules.errors import Diagnostic, render
from gerules.ir import parse_graph, print_graph
from gerules.pipeline import shipped_rules
from tests.analysis.rule_texts import SCHEMAS, analyse, load, rule

TEST = "    test:\n        x: f32[2, 3]\n"


def found_in(text: str) -> list[Diagnostic]:
    return analyse(text, "overlap").diagnostics


def test_shipped_rules_leave_nothing_to_the_order_of_lines() -> None:
    assert render(analyse_rules(shipped_rules(), only=("overlap",)).diagnostics) == ""


def graph_of(item: Diagnostic) -> str:
    return next(note for note in item.notes if "\n" in note).partition("\n")[2]


def check_both_apply(text: str, item: Diagnostic) -> None:
    """Read the graph that a finding shows, and apply either rule to it alone."""
    graph = parse_graph(graph_of(item))
    assert print_graph(graph).rstrip() == graph_of(item)
    book = load(text)
    context = RuleContext(patterns=book.patterns)
    for name in (str(item.facts["first"]), str(item.facts["second"])):
        infer = make_infer(SCHEMAS, graph.opsets, {})
        rules = [book.rule_by_name[name]]
        _, trace = rewrite(graph, rules, schemas=SCHEMAS, infer=infer, context=context, once=True)
        assert trace.count(name).applications, name


@pytest.mark.parametrize(
    ("one", "two"),
    [
        # one operand is fixed by the first, the other by the second
        (
            rule("a", "y = Mul(Relu(x), b)", "y = Relu(Mul(x, b))") + TEST + "        b: f32[2, 3]\n",
            rule("b", "y = Mul(c, Abs(x))", "y = Abs(Mul(c, x))") + TEST + "        c: f32[2, 3]\n",
        ),
        # only with swapped operands
        (
            rule("a", "y = Mul(Relu(x), b)", "y = Relu(Mul(x, b))") + TEST + "        b: f32[2, 3]\n",
            rule("b", "y = Mul!(Abs(x), c)", "y = Abs(Mul(c, x))") + TEST + "        c: f32[2, 3]\n",
        ),
        # operators of a set, attributes of either side
        (
            rule("a", "y = f@{Softmax, LogSoftmax}(Relu(x), axis=k)", "y = @f(x, axis=k)")
            + TEST
            + "        k = 0\n"
            "        choose f = [LogSoftmax]\n",
            rule("b", "y = Softmax(g@{Relu, Abs}(x), axis=1)", "y = Softmax(Neg(x), axis=1)")
            + TEST
            + "        choose g = [Abs]\n",
        ),
        # one clause of a named pattern
        (
            "pattern p(x) -> y:\n    y = Tanh(Neg(x))\npattern p(x) -> y:\n    y = Tanh(Relu(x))\n"
            + rule("a", "y = Abs(p(x))", "y = Tanh(x)")
            + TEST,
            rule("b", "y = Abs(Tanh(x))", "y = Tanh(Abs(x))") + TEST,
        ),
        # a number against a constant
        (
            rule("a", "y = Pow(x, 2)", "y = Mul(x, x)") + TEST,
            rule("b", "y = Pow(x, k: const)", "y = Exp(Mul(k, Log(x)))", "where: is_scalar(k)")
            + TEST
            + "        k: const f32[]\n",
        ),
    ],
)
def test_an_overlap_is_shown_on_a_graph(one: str, two: str) -> None:
    found = found_in(one + two)
    assert [(item.code.code, item.severity) for item in found] == [("E40135", "warning")]
    assert found[0].facts["first"] == "a" and found[0].facts["second"] == "b"
    assert "Unsqueeze" not in graph_of(found[0])
    check_both_apply(one + two, found[0])


FIRST = rule("a", "y = Mul(Relu(x), b)", "y = Relu(Mul(x, b))") + TEST + "        b: f32[2, 3]\n"
SECOND = rule("b", "y = Mul(Abs(x), c)", "y = Abs(Mul(c, x))") + TEST + "        c: f32[2, 3]\n"


@pytest.mark.parametrize(
    "text",
    [
        # said by the author
        FIRST.replace("    match", "    overrides b\n    match", 1) + SECOND,
        FIRST + SECOND.replace("    match", "    overrides a\n    match", 1),
        FIRST + SECOND.replace("    match", "    priority 2\n    match", 1),
        'ruleset t "later":\n    priority -1\n' + FIRST + SECOND.replace("in s", "in t"),
        # the larger one goes first
        FIRST + SECOND.replace("Mul(Abs(x), c)", "Mul(Abs(Neg(x)), c)"),
        # what follows goes after
        FIRST + SECOND.replace("in s", "in t") + "phase p:\n    run s\n    then t\n    until fixpoint\n",
        # never on together
        FIRST.replace("    match", "    opset < 15\n    match", 1)
        + SECOND.replace("    match", "    opset >= 15\n    match", 1),
        # kept apart by a guard
        FIRST.replace("    rewrite", "    where: x.rank == 2\n    rewrite")
        + SECOND.replace("    rewrite", "    where: x.rank == 3\n    rewrite").replace("[2, 3]", "[2, 3, 4]"),
        # kept apart by an attribute, a number, an operator
        rule("a", "y = Softmax(x, axis=0)", "y = x")
        + TEST
        + rule("b", "y = Softmax(x, axis=1)", "y = x")
        + TEST,
        rule("a", "y = Add(x, 1)", "y = x") + TEST + rule("b", "y = Add(x, 2)", "y = Neg(x)") + TEST,
        rule("a", "y = Relu(Abs(x))", "y = x") + TEST + rule("b", "y = Relu(Neg(x))", "y = x") + TEST,
        # both come to the same
        rule("a", "y = Add(x, Neg(b))", "y = Sub(x, b)")
        + TEST
        + "        b: f32[2, 3]\n"
        + rule("b", "y = Sub(Neg(a), x)", "y = Neg(Add(a, x))")
        + TEST
        + "        a: f32[2, 3]\n",
        rule("a", "y = Mul(x, 1)", "y = x")
        + TEST
        + rule("b", "y = Mul(1, x)", "y = Identity(x)")
        + TEST
        + rule("c", "y = Identity(x)", "y = x")
        + TEST,
    ],
)
def test_what_is_decided_is_no_finding(text: str) -> None:
    assert [(item.code.code, item.message) for item in found_in(text) if item.code.code == "E40135"] == []


def test_a_more_general_rule_before_it_takes_all() -> None:
    general = rule("general", "y = Add(x, b)", "y = Sub(x, Neg(b))") + TEST + "        b: f32[2, 3]\n"
    special = rule("special", "y = Add(x, b: const)", "y = Mul(x, b)") + TEST + "        b: const f32[2, 3]\n"
    found = found_in(general + special)
    assert [(item.code.code, item.severity) for item in found] == [("E40136", "error")]
    assert found[0].message == "special never gets its turn: general is more general and goes first"
    assert "overrides general" in found[0].hint
    assert found_in(special + general) == [] or [item.code.code for item in found_in(special + general)] == [
        "E40135"
    ]
    # Where it has a condition, another graph might get by.
    guarded = general.replace("    rewrite", "    where: x.rank == 2\n    rewrite")
    assert [(item.code.code, item.severity) for item in found_in(guarded + special)] == [
        ("E40136", "warning")
    ]
    # A priority does not help the special one if it is the general one's.
    eager = general.replace("    match", "    priority 3\n    match", 1)
    larger = rule("larger", "y = Add(x, Neg(b))", "y = Sub(x, b)") + TEST + "        b: f32[2, 3]\n"
    assert [item.facts["rule"] for item in found_in(larger + eager)] == ["larger"]
    assert found_in(larger + general) == []


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("y = Add(x, b: const)", "y = Add(x, b)"),
        ("y = Add(x, x)", "y = Add(x, b)"),
        ("y = Add(x: f16, b)", "y = Add(x, b)"),
        ("y = Add(x, 1)", "y = Add(x, b)"),
        ("y = Softmax(x, axis=1)", "y = Softmax(x, axis=k)"),
        ("y = Softmax(x, axis=k)", "y = Softmax(x, **)"),
        ("y = Relu(x)", "y = f@{Relu, Abs}(x)"),
        ("y = Relu(Neg(x))", "y = Relu(x)"),
    ],
)
def test_a_rule_that_asks_for_more_shadows_nothing(general: str, special: str) -> None:
    inputs = (
        TEST
        + ("        b: f32[2, 3]\n" if "b)" in special else "")
        + ("        k = 1\n" if "=k" in special else "")
    )
    second = rule("special", special, "y = Sigmoid(x)", head="priority -1") + inputs
    first = rule("general", general, "y = Tanh(x)") + TEST
    assert [item.code.code for item in found_in(first + second)] == []
