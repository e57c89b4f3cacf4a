"""`_` on parameters that matter wants a comment; names that nothing uses are named."""

from __future__ import annotations

import pytest

from gerules.analysis.analyse import analyse_rules
from gerules.errors import render
from gerules.pipeline import shipped_rules
from tests.analysis.rule_texts import analyse, codes, load, rule


def test_shipped_rules_hide_nothing() -> None:
    assert render(analyse_rules(shipped_rules(), only=("values", "unused")).diagnostics) == ""


@pytest.mark.parametrize(
    ("match", "hidden"),
    [
        ("y = Softmax(x, axis=_)", "axis=_"),
        ("y = Slice(x, starts=_, ends=e, axes=k)", "starts=_"),
        ("y = Slice(x, _, e)", "_"),
        ("y = Add(Neg(Transpose(x, perm=_)), b)", "perm=_"),
        ("y = f@{Softmax, LogSoftmax}(x, axis=_)", "axis=_"),
        ("y = Softmax(x, axis=_)  # every axis is alike here", ""),
        ("y = Add(Softmax(x,  # of any axis\n                axis=_), b)", "axis=_"),
        ('y = Pad(x, pads=p, mode="#", axes=_)', "axes=_"),
        ("y = Softmax(x, axis=_)  #", "axis=_"),
        ("y = Add(_, b)", ""),
        ("y = Where(_, a, b)", ""),
        ("y = Reshape(x, s, allowzero=_)", ""),
        ("y = Softmax(x, axis=k)", ""),
    ],
)
def test_hidden_parameters(match: str, hidden: str) -> None:
    found = analyse(rule("r", match, "y = Relu(b)" if "b)" in match else "y = Relu(x)"), "values")
    assert codes(found.diagnostics) == ([("E40132", hidden)] if hidden else [])


def test_the_finding_names_operator_and_parameter() -> None:
    found = analyse(
        "pattern p(x) -> y:\n    y = Softmax(x, axis=_)\n" + rule("r", "y = Neg(p(x))", "y = x"), "values"
    )
    assert [item.message for item in found.diagnostics] == [
        "`_` hides axis of Softmax, which changes the result"
    ]


def test_declarations_that_nothing_uses() -> None:
    text = (
        'const K = 2\nparam LEFT = 3 "of no use"\nops SET = {Neg, Abs}\nops LONELY = {Relu}  # LONELY LEFT\n'
        "pattern one(x) -> y:\n    y = Neg(x)\npattern two(x) -> y:\n    y = Neg(x)\n"
        "pattern two(x) -> y:\n    y = Abs(x)\n"
    )
    body = rule("r", "y = f@SET(one(x))", "y = @f(x)", "where: x.rank > $K")
    found = analyse(text + body, "unused").diagnostics
    assert [(item.facts["name"], item.facts["kind"]) for item in found] == [
        ("LEFT", "a parameter"),
        ("LONELY", "an operator set"),
        ("two", "a pattern"),
    ]
    # A file of declarations alone is there for others.
    assert analyse_rules(load(text), only=("unused",)).diagnostics == []


def test_a_name_with_an_underscore_needs_no_use() -> None:
    warned = load(rule("r", "y = Softmax(x, axis=k)", "y = x")).warnings
    assert [item.code.code for item in warned] == ["E40117"]
    assert load(rule("r", "y = Softmax(x, axis=_k)", "y = x")).warnings == ()
