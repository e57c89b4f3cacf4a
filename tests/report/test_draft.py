"""Drafted rules: what they say, that they hold, and which regions are refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import gerules
from gerules.dsl import RuleBook, load_rules
from gerules.dsl.formatting import format_rules
from gerules.dsl.syntax import Rule
from gerules.errors import GerulesError, Source
from gerules.ir import Graph
from gerules.ops import Schemas
from gerules.report.draft import DraftedRule, draft
from gerules.report.rule_tests import RuleTestReport
from gerules.report.rule_tests import test_rules as run_tests

MODEL = """\
graph net:
    opset 17
    input x: f32[1, 3, 8, 8]
    input ids: i64[1, 5]
    input flag: bool[]
    W: const f32[6, 3, 3, 3] = random(1)
    V: const f32[6, 6, 1, 1] = random(2)
    g: const f32[6, 1, 1] = fill(1.5)
    half: const f32[1] = 0.5
    E: const f32[9, 8] = random(3)
    to4: const i64[4] = [1, 2, 24, 8]
    axes: const i64[1] = [-1]
    c = Conv(x, W, pads=[1, 1, 1, 1])
    r = Relu(c)  {name="act"}
    d = Conv(r, V)
    s = Mul(g, d)
    t = Add(s, r)
    m = Mul(half, t)
    f = Reshape(m, to4)
    u = Unsqueeze(f, axes)
    e = Gather(E, ids)
    l = LeakyRelu(e, alpha=0.2)
    y = If(flag):
        then_branch:
            capture a: f32[1, 2, 24, 8, 1] = u
            q = Relu(a)
            return q
        else_branch:
            capture b: f32[1, 2, 24, 8, 1] = u
            n = Neg(b)
            return n
    w = Softmax(y)
    z1 = Abs(w)
    z2 = Exp(w)
    return z1, z2, l, s
"""


@pytest.fixture(scope="module")
def book() -> RuleBook:
    return gerules.load_rules()


@pytest.fixture(scope="module")
def graph() -> Graph:
    return gerules.parse_graph(MODEL)


def holds(found: DraftedRule, book: RuleBook) -> None:
    """What `rules check`, `rules test` and `fmt --check` would say of the text, and that it fires."""
    source = Source("drafted.ger", found.text)
    assert format_rules(source) == found.text
    larger = load_rules([source], schemas=Schemas(), base=book)
    report = run_tests(larger, [larger.rule_by_name[found.rule]])
    assert report.is_good and report.n_tests == found.n_tests and report.n_compared
    assert found.n_places >= 1
    assert all(len(line) <= 110 for line in found.text.splitlines())


def test_a_region_becomes_a_rule_that_holds(graph: Graph, book: RuleBook) -> None:
    found = draft(graph, "c..act", rules=book)
    holds(found, book)
    assert found.op == "my::FusedConvRelu" and found.rule == "fused_conv_relu" and found.n_tests == 2
    assert (
        found.text
        == """\
# Drafted from net, nodes c..act.

define my::FusedConvRelu(x, W) -> y:
    conv = Conv(x, W, pads=[1, 1, 1, 1])
    y = Relu(conv)

rule fused_conv_relu in drafted "Conv, Relu as one operator":
    match:
        conv = Conv(x: T[N, C, H, M], W: const T[K, C, L, P], pads=[1, 1, 1, 1])
        y = Relu(conv)
    rewrite:
        y = my::FusedConvRelu(x, W)
    test:
        x: f32[2, 3, 5, 6]
        W: const f32[4, 3, 3, 3]
    test "conv has another reader":
        x: f32[2, 3, 5, 6]
        W: const f32[4, 3, 3, 3]
        escapes conv
        expect no match
"""
    )
    rewritten, _ = gerules.rewrite(graph, [Source("drafted.ger", found.text)])
    assert "my::FusedConvRelu" in {node.op for node in rewritten.nodes.values()}


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ("d..m", "Mul(0.5, "),
        ("f", "shape: const i64[4]"),
        ("f..u", "axes=[-1]"),
        ("e..l", "alpha=0.2"),
        (["act,d", "s,t"], "-> "),
        ("m..u", "shape = [1, 2, 24, 8]"),
        ("l", "LeakyRelu"),
    ],
)
def test_numbers_settings_and_inputs_are_told_apart(
    graph: Graph, book: RuleBook, nodes: str | list[str], says: str
) -> None:
    found = draft(graph, nodes, rules=book)
    holds(found, book)
    assert says in found.text


def test_several_results_are_several_results(graph: Graph, book: RuleBook) -> None:
    found = draft(graph, "z1,z2", rules=book, op="Both", name="both_of_them")
    holds(found, book)
    assert "define my::Both(x) -> abs, exp:" in found.text
    assert found.rule == "both_of_them"
    escaping = draft(graph, "d..t", rules=book)  # s is an output of the graph
    holds(escaping, book)
    assert "-> mul, add:" in escaping.text


@pytest.mark.parametrize(
    ("nodes", "code", "reason"),
    [
        ("nix..act", "E10006", "the model has no node nix"),
        ("actt", "E10006", "the model has no node actt"),
        ("act..c", "E10008", "no path leads from act to c"),
        ("e..act", "E10008", "no path leads from e to act"),
        ("act,t", "E10008", "a path leaves them and enters them again: act -> d -> s -> t"),
        ("y", "E10008", "If y has a body"),
        ("u..w", "E10008", "If y has a body"),
        ("q", "E10008", "q is inside of a body of If y"),
        ("c,e", "E10008", "share no value"),
    ],
)
def test_a_region_that_no_rule_replaces_is_refused(
    graph: Graph, book: RuleBook, nodes: str, code: str, reason: str
) -> None:
    with pytest.raises(GerulesError) as caught:
        draft(graph, nodes, rules=book)
    (fault,) = caught.value.diagnostics
    assert fault.code.code == code and reason in fault.message
    assert fault.hint


def test_sizes_that_no_operator_takes_are_not_tried(
    book: RuleBook, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    def counted(book: RuleBook, rules: Sequence[Rule], *, schemas: Schemas) -> RuleTestReport:
        report = run_tests(book, rules, schemas=schemas)
        runs.append(report.n_compared)
        return report

    monkeypatch.setattr("gerules.report.draft.test_rules", counted)
    # The Reshape pins the size of the picture, so that small ones do not fit together.
    assert draft(graph, "c..f", rules=book).n_nodes == 7
    assert len(runs) == 1 and runs[0] > 0


def test_operators_that_mean_something_else_today_are_refused(book: RuleBook) -> None:
    old = gerules.parse_graph(
        "graph old:\n    opset 11\n    input x: f32[2, 3, 4]\n    y = Softmax(x)\n    return y\n"
    )
    with pytest.raises(GerulesError, match="means something else from opset 13 on"):
        draft(old, "y", rules=book)


def test_names_may_hold_dots_and_commas_and_be_shared(book: RuleBook) -> None:
    graph = gerules.parse_graph(
        "graph g:\n    opset 17\n    input x: f32[2, 3]\n"
        '    a = Cos(x)  {name="a..b,c"}\n    b = Sin(a)  {name="twin"}\n'
        '    c = Neg(b)  {name="twin"}\n    return c\n'
    )
    assert draft(graph, "a..b,c", rules=book).n_nodes == 1
    assert draft(graph, "a..b,c..c", rules=book).n_nodes == 3
    with pytest.raises(GerulesError, match="2 nodes are called twin"):
        draft(graph, "twin", rules=book)


@pytest.mark.parametrize(
    ("op", "reason"), [("Relu", ""), ("a b", "no name"), ("ge::Relu", "there is an operator")]
)
def test_the_operator_has_a_name_of_its_own(graph: Graph, book: RuleBook, op: str, reason: str) -> None:
    if not reason:
        assert draft(graph, "c..act", rules=book, op=op).op == f"my::{op}"
        return
    with pytest.raises(GerulesError, match=reason):
        draft(graph, "c..act", rules=book, op=op)
