"""Phases of a rule book, as `phase:` declares them."""

from __future__ import annotations

import pytest

from gerules.dsl.selection import Environment, select_rules
from gerules.dsl.tree import RuleError
from gerules.engine.define import make_infer
from gerules.engine.phases import run_phase
from tests.engine.graphs import SCHEMAS, Maker, book_of, context_of, ops

TEXT = """
ruleset low:
    priority 10
ruleset off.set "not on":
    default off
rule wide in low: Tanh(Relu(x)) => Sigmoid(x)
rule narrow in s.a: Tanh(x) => Neg(Identity(x))
rule clean in t: Identity(x) => x
rule never in off.set: Relu(x) => Abs(x)
phase both:
    run s, low
    then t
    until fixpoint
phase once_only:
    run s.a
    once
phase with_off:
    run off
    until fixpoint
phase promises:
    run s
    requires count(Tanh) > 0  else "there is nothing to do"
    ensures no_op(["Tanh"])   else "a Tanh is left"
    ensures no_op(["Exp"])    else "an Exp is left"
"""
BOOK = book_of(TEXT)


def phase(name, graph):
    selection = select_rules(BOOK, Environment())
    infer = make_infer(SCHEMAS, graph.opsets)
    return run_phase(
        graph, BOOK.phases[name], BOOK, selection, schemas=SCHEMAS, infer=infer, context=context_of(BOOK)
    )


def graph_of(*names):
    m = Maker()
    x = m.input("x", 2)
    for name in names:
        x = m.op(name, x)
    return m.graph(x)


def test_sets_by_prefix_priority_and_then():
    assert ops(phase("both", graph_of("Relu", "Tanh"))[0]) == ["Sigmoid"]
    assert ops(phase("both", graph_of("Abs", "Tanh"))[0]) == ["Abs", "Neg"]


def test_each_place_once():
    after, trace = phase("once_only", graph_of("Abs", "Tanh"))
    assert ops(after) == ["Abs", "Identity", "Neg"] and trace.applications[0].phase == "once_only"


def test_rules_that_are_off_say_why():
    after, trace = phase("with_off", graph_of("Relu"))
    assert ops(after) == ["Relu"] and "off by default" in trace.off["never"]


def test_conditions_before_and_after():
    assert ops(phase("promises", graph_of("Abs", "Tanh"))[0])[0] == "Abs"
    with pytest.raises(RuleError) as caught:
        phase("promises", graph_of("Abs"))
    assert caught.value.code == "E40036" and "there is nothing to do" in str(caught.value)
    with pytest.raises(RuleError) as caught:
        phase("promises", graph_of("Exp", "Tanh"))
    assert caught.value.code == "E40037" and "an Exp is left" in str(caught.value)
