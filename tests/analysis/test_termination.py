"""Rules that cannot end: the smallest set is named with its counts; rules that end are left alone."""

from __future__ import annotations

import pytest

from gerules.analysis.analyse import analyse_rules
from gerules.errors import render
from gerules.pipeline import shipped_rules
from tests.analysis.rule_texts import analyse, codes, rule

PULL = rule("pull", "t = Transpose(x, perm=p)\ny = Relu(t)", "y = Transpose(Relu(x), perm=p)")
PUSH = rule("push", "r = Relu(x)\ny = Transpose(r, perm=p)", "y = Relu(Transpose(x, perm=p))")
SWAP = rule("swap", "y = Sub(Neg(x), w)", "y = Sub(w, Neg(x))")
DROP = rule("drop", "y = Neg(Neg(x))", "y = x")


def conflicts(text: str) -> list[str]:
    found = analyse(text, "termination")
    assert {item.code.code for item in found.diagnostics} <= {"E40130"}
    return [str(item.facts["rules"]) for item in found.diagnostics]


def test_every_shipped_phase_is_proved_to_end() -> None:
    found = analyse_rules(shipped_rules(), only=("termination",))
    assert render(found.diagnostics) == ""
    assert set(found.stops) == set(shipped_rules().phases) and all(found.stops.values())


def test_a_rule_that_keeps_its_counts_is_a_cycle_of_one() -> None:
    assert conflicts(SWAP + DROP) == ["swap"]


def test_rules_that_move_operators_past_each_other_go_round_only_together() -> None:
    assert conflicts(PULL + DROP) == conflicts(PUSH + DROP) == []
    found = analyse(DROP + PULL + PUSH, "termination").diagnostics
    assert [item.facts["rules"] for item in found] == ["pull, push"]
    assert found[0].notes == (
        "one x pull (f.ger:7:6): - 1 Relu - 1 Transpose + 1 Relu + 1 Transpose",
        "one x push (f.ger:13:6): - 1 Relu - 1 Transpose + 1 Relu + 1 Transpose",
        "together: no operator fewer",
    )
    assert conflicts(PULL.replace("    match", "    once\n    match", 1) + PUSH) == []


def test_a_circle_of_three_that_move_operators() -> None:
    circle = [
        rule(one, f"y = {above}({below}(x))", f"y = {below}({above}(x))")
        for one, above, below in (("a", "Abs", "Exp"), ("b", "Exp", "Log"), ("c", "Log", "Abs"))
    ]
    assert conflicts("".join(circle)) == ["a, b, c"]
    assert conflicts(circle[0] + circle[1]) == conflicts(circle[1] + circle[2]) == []


@pytest.mark.parametrize(
    ("match", "rewrite", "is_conflict"),
    [
        # A number is less than any operator, and a folded constant is one.
        ("y = Add(Mul(x, 2), w)", "y = Mul(Add(x, w), 2)", False),
        ("y = Relu(Mul(x, k: const))", "y = Mul(Relu(x), k)", False),
        # The order of inputs does not count, so a change of it makes nothing less.
        ("y = Add(Mul(x, w), v)", "y = Add(v, Mul(w, x))", True),
        ("y = Sub(Neg(x), w)", "y = Sub(Neg(w), x)", True),
        ("y = Relu(x)", "y = Relu(x)", True),
        # What no term stands for is not compared: other outputs, sets of operators, lists.
        ("a, b = Split(Relu(x), num_outputs=2)", "r = Relu(x)\na, b = Split(r, num_outputs=2)", True),
        ("y = f@{Neg, Abs}(Relu(x))", "y = Relu(@f(x))", True),
        ("y = Relu(Sum(*xs))", "r = Sum(*xs)\ny = Relu(r)", True),
    ],
)
def test_what_an_order_of_terms_can_tell(match: str, rewrite: str, is_conflict: bool) -> None:
    assert conflicts(rule("r", match, rewrite)) == (["r"] if is_conflict else [])


def test_two_that_undo_each_other_are_named_together_and_nothing_else() -> None:
    split = rule("split", "y = Mul(x, x)", "y = Pow(x, 2)")
    join = rule("join", "y = Pow(x, 2)", "y = Mul(x, x)")
    found = analyse(DROP + split + join, "termination")
    assert codes(found.diagnostics) == [("E40130", "split")]
    text = render(found.diagnostics)
    assert "the phase custom may never end: split, join together leave no operator fewer" in text
    assert "one x split (f.ger:7:6): - 1 Mul + 1 Pow" in text
    assert "one x join (f.ger:12:6): - 1 Pow + 1 Mul" in text
    assert found.stops == {"custom": False}


def test_a_seeded_cycle_through_three_with_unequal_counts() -> None:
    one = rule("one", "y = Sqrt(x)", "y = Abs(Abs(x))")
    two = rule("two", "y = Abs(x)", "y = Exp(Exp(x))")
    three = rule("three", "y = Exp(Exp(Exp(Exp(x))))", "y = Sqrt(x)")
    far = rule("far", "y = Log(x)", "y = Sqrt(Sqrt(Exp(x)))")
    found = analyse(far + one + two + three, "termination")
    assert [item.facts["rules"] for item in found.diagnostics] == ["one, two, three"]
    assert any(note.startswith("2 x two") for note in found.diagnostics[0].notes)
    # One of four Exp fewer and nothing goes round any more.
    assert (
        conflicts(far + one + two + three.replace("Exp(Exp(Exp(Exp(x))))", "Exp(Exp(Exp(Exp(Exp(x)))))"))
        == []
    )


def test_two_cycles_are_two_findings() -> None:
    other = rule("split", "y = Mul(x, x)", "y = Pow(x, 2)") + rule("join", "y = Pow(x, 2)", "y = Mul(x, x)")
    assert conflicts(PULL + PUSH + other) == ["pull, push", "split, join"]


def test_once_and_decreases_are_taken_at_their_word() -> None:
    assert conflicts(PULL.replace("    match", "    once\n    match", 1)) == []
    falls = "    decreases distance_to_output(Transpose)\n    match"
    assert conflicts(PULL.replace("    match", falls, 1)) == []
    # Two measures that do not speak of each other prove nothing together.
    other = "    decreases distance_to_output(Relu)\n    match"
    both = PULL.replace("    match", falls, 1) + PUSH.replace("    match", other, 1)
    assert conflicts(both) == ["pull, push"]
    # `decreases` breaks ties; it does not let counts grow.
    grows = PULL.replace("Transpose(Relu(x)", "Transpose(Relu(Neg(x))")
    assert conflicts(grows.replace("    match", falls, 1)) == ["pull"]


def test_a_count_that_does_not_fall_is_said_so() -> None:
    text = rule(
        "r", "t1 = Neg(a)\nt2 = Neg(b)\ny = Add(t1, t2)", "y = Neg(Add(a, b))", head="decreases count(Neg)"
    )
    found = analyse(text, "termination").diagnostics
    # Both operands may be one node.
    assert ("E40131", "count(Neg)") in codes(found)
    alone = rule("r", "y = Softplus(x)", "y = Log(Add(Exp(x), 1))", head="decreases count(Softplus)")
    assert codes(analyse(alone, "termination").diagnostics) == []


@pytest.mark.parametrize(
    ("text", "is_conflict"),
    [
        # A shared value keeps its node, so nothing is certain to go but the root.
        (rule("r", "shared n = Neg(x)\ny = Relu(n)", "y = Abs(Neg(x))"), False),
        (rule("r", "shared n = Neg(x)\ny = Neg(n)", "y = Neg(Abs(x))"), True),
        # What the rewrite reads stays.
        (rule("r", "n = Neg(x)\ny = Relu(n)", "y = Relu(Abs(n))"), True),
        (rule("r", "n = Neg(x)\ny = Relu(n)", "y = Abs(n)"), False),
        # An optional part may be absent, and is left out of the build then.
        (rule("r", "y = Relu(Neg?(x))", "y = Neg(x)"), False),
        (rule("r", "y = Neg?(Neg(x))", "y = Neg(x)"), True),
        (rule("r", "s = Add?(Exp(x), b)\ny = Log(s)", "y = Add?(x, b)"), False),
        # The worst alternative counts.
        (rule("r", "y = (Neg(Neg(x)) | Neg(x))", "y = Neg(Abs(x))"), True),
        (rule("r", "y = (Neg(Neg(x)) | Abs(Neg(x)))", "y = Neg(x)"), False),
        # Any operator of a set: the lightest one may be what goes.
        (rule("r", "y = f@{Neg, Abs}(Relu(x))", "y = Neg(x)"), False),
        (rule("r", "y = f@{Neg, Abs}(x)", "y = Neg(Exp(x))"), True),
        (rule("r", "y = f@{Neg, Abs}(Relu(x))", "y = @f(x)"), False),
        # A chain goes in its shortest form, a group with its fewest members.
        (rule("r", "y = ch@{Neg, Abs}{2..4}(x, ...)", "y = fn ge::Path(x, *ch.side_inputs)"), False),
        (
            rule("r", "many 2..4:\n    y = Neg(x)\n    same x", "h = Neg(x)\n*y = h"),
            False,
        ),
        (
            rule("r", "many 1..4:\n    y = Neg(x)\n    same x", "h = Neg(x)\n*y = h"),
            True,
        ),
        # A product of three is two nodes.
        (rule("r", "y = Mul~(x, x, x)", "y = Mul(x, Abs(x))"), False),
        (rule("r", "y = Mul~(x, x, x)", "y = Mul(Mul(x, x), Abs(x))"), True),
        # Two products of one value may be one node.
        (rule("r", "y = Add(Mul(a, b), Mul(a, c))", "y = Mul(a, Add(b, Abs(c)))"), True),
        (rule("r", "y = Add(Mul(a, 2), Mul(a, 3))", "y = Mul(a, Add(a, a))"), False),
        (rule("r", "y = Sub(Mul(Neg(a), b), Mul(a, Abs(c)))", "y = Mul(a, Sub(b, c))"), False),
    ],
)
def test_what_is_certainly_removed(text: str, is_conflict: bool) -> None:
    assert conflicts(text) == (["r"] if is_conflict else [])


def test_only_rules_that_repeat_and_are_on_together_count() -> None:
    split = rule("split", "y = Mul(x, x)", "y = Pow(x, 2)", head="opset < 15")
    join = rule("join", "y = Pow(x, 2)", "y = Mul(x, x)", head="opset >= 15")
    assert conflicts(split + join) == []
    assert conflicts(split + join.replace("opset >= 15", "opset >= 14")) == ["split, join"]
    phase = "phase p:\n    run s\n    once\n"
    assert conflicts(SWAP + phase) == []
    assert conflicts(SWAP + phase.replace("    once", "    until fixpoint")) == ["swap"]


def test_named_patterns_count_by_their_clauses() -> None:
    clauses = "pattern twice(x) -> y:\n    y = Neg(Neg(x))\npattern twice(x) -> y:\n    y = Abs(x)\n"
    assert conflicts(clauses + rule("r", "y = Relu(twice(x))", "y = Neg(Abs(x))")) == []
    assert conflicts(clauses + rule("r", "y = twice(x)", "y = Neg(Abs(x))")) == ["r"]


def test_a_list_counts_as_long_as_it_may_be() -> None:
    inside = rule("inside", "y = Relu(Concat(*xs, axis=k))", "y = Concat(each Relu(xs), axis=k)")
    assert conflicts(inside) == ["inside"]
    once = inside.replace("    match:", "    once\n    match:", 1)
    assert once != inside
    assert conflicts(once) == []
