"""Every shipped rule compiles to a program, and every shipped `define` gives a schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from graphs import context_of

from gerules.dsl.load import load_rules
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import MatchEvaluator
from gerules.engine.program import Program
from gerules.engine.ranking import plan_rules
from gerules.engine.site import Site
from gerules.ops import Schemas

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
        assert len(schema.outputs) == len(define.results)
