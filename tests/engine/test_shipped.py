"""Every shipped rule compiles to a program, and every shipped `define` gives a schema."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gerules.dsl.load import load_rules
from gerules.dsl.tree import RuleError
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import MatchEvaluator
from gerules.engine.program import Program
from gerules.engine.ranking import plan_rules
from gerules.engine.site import Site
from gerules.ops import Schemas
from tests.engine.graphs import context_of, evaluate, run, schemas_of
from tests.engine.instances import instances, opset_of

RULES = Path(__file__).resolve().parents[2] / "rules"


@pytest.fixture(scope="module")
def book():
    return load_rules([RULES], schemas=None)


def test_every_rule_compiles(book):
    schemas = Schemas()
    context = context_of(book)
    plans = plan_rules(book.rules, context)
    assert {plan.rule.name.name for plan in plans.plans} == {rule.name.name for rule in book.rules}
    site = Site(schemas)
    evaluator = MatchEvaluator(site, context)
    for plan in plans.plans:
        program = Program(plan, site, plans.vocabulary, evaluator)
        program.start(lambda _: False)
        assert plan.requirements and plan.root_ops


def test_every_define_has_a_schema(book):
    schemas = Schemas()
    register_defines(book.defines.values(), schemas, context_of(book).scope)
    for name, define in book.defines.items():
        schema = schemas.get(name)
        assert schema is not None
        assert len(schema.outputs) == len(define.results) + (define.rest_results is not None)


def test_rules_keep_the_meaning_of_their_own_patterns(book):
    """Every reading of a pattern that a test block gives is rewritten, and computes the same."""
    schemas = schemas_of(book)
    n_applied, idle = 0, []
    for rule in book.rules:
        was_applied = False
        positive = [test for test in rule.tests if test.expects_match]
        for test in positive:
            context = context_of(book, test.device and test.device.name, test.profile and test.profile.name)
            for graph, feeds in instances(book, rule, test, context.scope, schemas, opset_of(rule, schemas)):
                try:
                    before = evaluate(graph, feeds, book)
                except (RuleError, RuntimeError, NotImplementedError):
                    continue  # the test gives values for another reading of the pattern
                after, trace = run(book, graph, rules=[rule], context=context)
                if not trace.applications:
                    continue
                was_applied, n_applied = True, n_applied + 1
                try:
                    found = evaluate(after, feeds, book)
                except RuntimeError:
                    continue  # onnx.reference lacks an operator
                rtol, atol = test.rtol or 1e-5, test.atol or 1e-6
                for one, two in zip(before, found, strict=True):
                    np.testing.assert_allclose(
                        two.astype(np.float64), one.astype(np.float64), rtol, atol, err_msg=rule.name.name
                    )
        if positive and rule.rewrite and not was_applied:
            idle.append(rule.name.name)
    assert n_applied > 100
    assert len(idle) <= len(book.rules) // 20, idle
