"""Rewrites that whoever runs the rules does not allow: the graph stays, and the trace says so."""

from __future__ import annotations

from gerules.engine.trace import VETOED, Proposal
from gerules.errors import Source
from gerules.ir import parse_graph, print_graph
from gerules.pipeline import make_toolchain, shipped_rules
from gerules.pipeline.phases import run_rule_phase

GRAPH = """
graph pairs:
    opset 17
    input a: f32[2]
    input b: f32[2]
    n = Neg(a)
    y = Neg(n)
    m = Neg(b)
    z = Neg(m)
    r = Relu(y)
    s = Relu(z)
    return r, s
"""

RULES = Source(
    "pairs.ger",
    """
rule two_negations in pairs "Two negations cancel":
    match:
        n = Neg(x)
        y = Neg(n)
    rewrite:
        y = x
""",
)


def test_each_rewrite_is_asked_for_and_a_veto_holds() -> None:
    graph = parse_graph(GRAPH)
    tools = make_toolchain(shipped_rules([RULES]), graph.opsets)
    asked: list[Proposal] = []

    def allow(proposal: Proposal) -> bool:
        asked.append(proposal)
        return proposal.replaced == ("z",)

    report = run_rule_phase(tools, graph, "custom", allow=allow)
    assert report.trace is not None
    assert [item.replaced for item in report.trace.applications] == [("z",)]
    assert {item.replaced for item in asked} == {("y",), ("z",)}
    assert all((item.rule, item.phase, item.graph) == ("two_negations", "custom", "") for item in asked)
    done = report.trace.applications[0]
    assert Proposal(done.rule, done.phase, done.graph, done.sources, done.replaced) in asked
    assert report.trace.rules["two_negations"].refusals == {VETOED: 1}
    assert VETOED in report.trace.render()


def test_nothing_changes_where_nothing_is_allowed() -> None:
    graph = parse_graph(GRAPH)
    tools = make_toolchain(shipped_rules([RULES]), graph.opsets)
    report = run_rule_phase(tools, graph, "custom", allow=lambda _: False)
    assert print_graph(report.graph) == print_graph(graph)
