"""Rules that no graph can bring to life: the engine cannot make a program of their pattern."""

from __future__ import annotations

from collections.abc import Sequence

from gerules.dsl.syntax import Rule
from gerules.dsl.tree import RuleError
from gerules.engine.evaluation import MatchEvaluator, RuleContext
from gerules.engine.program import Program, plan_rule
from gerules.engine.site import Site
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Diagnostic
from gerules.ops import Schemas


def uncompiled(
    rules: Sequence[Rule], context: RuleContext, vocabulary: Vocabulary, schemas: Schemas
) -> dict[str, tuple[Diagnostic, ...]]:
    """Return the faults E40032 to E40035 of rules that cannot be compiled, by the name of the rule.

    Cost: each rule is compiled once.
    """
    site = Site(schemas)
    evaluator = MatchEvaluator(site, context)
    found: dict[str, tuple[Diagnostic, ...]] = {}
    for rule in rules:
        try:
            Program(plan_rule(rule, vocabulary), site, vocabulary, evaluator)
        except RuleError as error:
            found[rule.name.name] = error.diagnostics
    return found
