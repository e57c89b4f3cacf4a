"""Mutation: small wrong edits of a rule, which of them its tests notice, and tests that would."""

from __future__ import annotations

import functools

import pytest

from gerules.dsl.book import RuleBook
from gerules.dsl.load import load_rules
from gerules.dsl.shipped import rules_folder
from gerules.errors import Source
from gerules.ops import Schemas
from gerules.report.rule_mutation import MutationReport, mutate_rules
from gerules.report.rule_report import mutation_line

RULE = """
rule r in s:
    inexact
    match:
        t = Sub(x, k: const)
        y = ReduceMean(t, axes=n, keepdims=kd, noop_with_empty_axes=_)
    where:
        numel(k) == 1 else "not one number"
    fold:
        c = cast(-k, k.dtype)
    rewrite:
        m = ReduceMean(x, axes=n, keepdims=kd)
        y = Add(m, c)
    test:
        x: f32[2, 3]
        k: const f32[]
        n = [0]
        close 0.0001, 0.00001
"""
GUARDED = """    test "three numbers":
        x: f32[2, 3]
        k: const f32[3]
        n = [0]
        expect no match "not one number"
"""


def run(text: str, generated: int = 0) -> MutationReport:
    book = load_rules([Source("test.ger", "gerules 1\n" + text)], schemas=Schemas())
    return mutate_rules(book, generated=generated)


def edits(report: MutationReport, kind: str) -> list[str]:
    return [item.mutant.edit for item in report.survivors if item.mutant.kind == kind]


def test_a_guard_that_no_test_needs_survives():
    assert edits(run(RULE), "guard dropped") == ["drop `numel(k) == 1`"]


@pytest.mark.parametrize("tests", ["", "    test:\n        x: f32[2, 3]\n        k: const f32[] = 3.0\n"])
def test_rules_without_tests_that_hold_have_no_score(tests: str):
    rule = "rule square in own:\n    match: y = Pow(x, k: const)\n    rewrite: y = Mul(x, x)\n"
    report = run(rule + tests)
    assert report.unfit == ["square"]
    assert report.total.score is None and not report.reaches(0.0)
    assert "score -, 1 rule without tests that hold (square)" in mutation_line(report)


def test_a_guard_that_a_test_needs_is_caught():
    report = run(RULE + GUARDED)
    assert report.kinds["guard dropped"].tested == 1
    assert edits(report, "guard dropped") == []
    worse = run(RULE).total.score
    assert report.total.score is not None and worse is not None and report.total.score > worse


def test_what_says_the_same_is_counted_apart():
    # A fold reads the elements of k, with or without `const`.
    assert run(RULE + GUARDED).kinds["const dropped"].equivalent == 1
    told = RULE.replace("axes=n, keepdims=kd)", "axes=n, keepdims=kd, noop_with_empty_axes=0)")
    assert run(told).kinds["attribute"].equivalent == 1


def test_what_cannot_be_loaded_is_refused():
    text = """
rule r in s:
    match:
        y = Relu(Add(x: [N, M], b))
    where:
        N > 1 else "there is one row"
    rewrite:
        y = Max(Add(x, b), 0)
    test:
        x: f32[2, 3]
        b: f32[3]
"""
    # Without its shape, or with N unnamed, nothing gives N a value.
    assert run(text).kinds["type widened"].checked == 2


def test_a_rule_without_tests_that_hold_says_nothing():
    report = run(RULE.split("    test:")[0])
    assert report.unfit == ["r"]
    assert report.total.tested == 0


def test_a_test_is_found_that_tells_the_mutant_from_the_rule():
    report = run(RULE, generated=240)
    (found,) = [item for item in report.survivors if item.mutant.kind == "guard dropped"]
    assert 'expect no match "not one number"' in found.block
    again = run(f"{RULE}\n{found.block}")
    assert edits(again, "guard dropped") == []


@pytest.mark.parametrize("flipped", ["keepdims=1", "keepdims=0"])
def test_a_state_of_two_becomes_the_other(flipped: str):
    text = RULE.replace("keepdims=kd", flipped).replace("noop_with_empty_axes=_", "noop_with_empty_axes=0")
    assert not any("keepdims" in edit and "change" in edit for edit in edits(run(text), "attribute"))


@functools.cache
def shipped() -> RuleBook:
    return load_rules([rules_folder()], schemas=Schemas())


LEAST_SCORE = 0.9
"""Of all edits of the rules looked at here. May only rise."""


def test_the_tests_of_shipped_rules_notice_edits():
    # Every second rule; `gerules rules test --mutate` looks at all of them.
    rules = shipped().rules[::2]
    report = mutate_rules(shipped(), rules)
    survivors = "\n".join(str(item.mutant) for item in report.survivors)
    assert report.unfit == []
    assert report.reaches(LEAST_SCORE), survivors
    of_guards = report.kinds["guard dropped"].score
    assert of_guards is not None and of_guards >= 0.95, survivors
