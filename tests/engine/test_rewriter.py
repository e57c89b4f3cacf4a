"""A rewriter that goes from graph to graph does to each what a new one does."""

from __future__ import annotations

import pytest

from gerules.dsl.tree import RuleError
from gerules.engine.define import make_infer
from gerules.engine.programs import Programs
from gerules.engine.ranking import plan_rules
from gerules.engine.rewrite import Rewriter, rewrite
from gerules.engine.trace import Trace
from gerules.ir import Graph, print_graph
from tests.engine.graphs import SCHEMAS, Maker, book_of, context_of

FACTORS = """
rule factors in s:
    match:
        y = Mul(Mul(x, a: const), b: const)
    where:
        a.shape[0] == 2 or a.rank == 0 else "the factor has other entries"
    fold:
        c = a * b
    rewrite:
        y = Mul(x, c)
"""
GROW = "rule grow in s: Relu(x) => Relu(Neg(x))\n"


def product(*factors: object, opset: int = 20) -> Graph:
    m = Maker(opset)
    value = m.input("x", 2)
    for factor in factors:
        value = m.op("Mul", value, m.const(factor))
    return m.graph(value)


def rewriter_of(text: str, fuel: int) -> Rewriter:
    book = book_of(text)
    plans = plan_rules(book.rules, context_of(book))
    return Rewriter(Programs(plans, SCHEMAS, make_infer(SCHEMAS, {"": 20}, None)), fuel=fuel)


def told(after: Graph, trace: Trace) -> tuple[str, list[str], list[str]]:
    return (
        print_graph(after),
        [str(item) for item in trace.warnings],
        [item.rule for item in trace.applications],
    )


def alone(text: str, graph: Graph) -> tuple[str, list[str], list[str]]:
    book = book_of(text)
    infer = make_infer(SCHEMAS, {"": 20}, None)
    return told(*rewrite(graph, book.rules, schemas=SCHEMAS, infer=infer, context=context_of(book)))


def test_each_graph_is_rewritten_as_if_it_were_the_first() -> None:
    # The second graph has other constants at the same places, the third a factor that the guard cannot judge.
    graphs = [product([1, 2], 3), product([5, 7], 11), product(2, [3, 4]), product([1, 2], 3, opset=13)]
    rewriter = rewriter_of(FACTORS, 100)
    n_warned = n_applied = 0
    for graph in [*graphs, *reversed(graphs)]:
        found = told(*rewriter.rewrite(graph))
        assert found == alone(FACTORS, graph)
        n_warned, n_applied = n_warned + len(found[1]), n_applied + len(found[2])
    assert (n_warned, n_applied) == (2, 6)


def test_a_run_that_was_broken_off_leaves_nothing_behind() -> None:
    rewriter = rewriter_of(FACTORS + GROW, 20)
    m = Maker()
    endless, good = m.graph(m.op("Relu", m.input("x", 2))), product([1, 2], 3)
    for _ in range(2):
        with pytest.raises(RuleError, match="grow"):
            rewriter.rewrite(endless)
        assert told(*rewriter.rewrite(good)) == alone(FACTORS, good)
