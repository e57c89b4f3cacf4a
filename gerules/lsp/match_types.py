"""Types of the names of a rule, as the first graph of its first test has them."""

from __future__ import annotations

from collections.abc import Mapping

from gerules.dsl.syntax import Rule, RuleTest
from gerules.errors import GerulesError
from gerules.ir import ValueType
from gerules.lsp.workspace import Context
from gerules.report.rule_bench import Bench
from gerules.report.rule_graphs import instances
from gerules.report.rule_inputs import Unbuildable
from gerules.report.rule_tests import seed_of


def types_in_test(rule: Rule, context: Context) -> Mapping[str, ValueType]:
    """Return the type of each value that the match names, in the first test that a graph can be built for.

    Empty when there is no such test. Cost: one small graph, inferred; some milliseconds.
    """
    bench = Bench(context.book, context.schemas)
    for test in rule.tests:
        try:
            return _types(rule, test, bench)
        except (GerulesError, Unbuildable, ArithmeticError, ValueError, LookupError, TypeError):
            # A rule that is being typed may be wrong in any way; its own diagnostics say how.
            continue
    return {}


def _types(rule: Rule, test: RuleTest, bench: Bench) -> Mapping[str, ValueType]:
    setting = bench.place(rule, test).setting
    first = next(instances(rule, test, setting, limit=1, seed=seed_of(rule)))
    return {name: first.graph.values[value].type for name, value in first.names.items()}
