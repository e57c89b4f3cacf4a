"""Finding patterns in models: what is found, what is told of it, what is said of a pattern that is wrong."""

from __future__ import annotations

import pytest

import gerules
from gerules.dsl import RuleBook
from gerules.errors import GerulesError
from gerules.ir import Graph
from gerules.pipeline.finding import Findings, find
from gerules.report.find_report import finding_lines

MODEL = """\
graph net:
    opset 17
    input x: f32[N, 3, 8, 8]
    input flag: bool[]
    W: const f32[4, 3, 3, 3] = random(1)
    V: const f32[4, 4, 1, 1] = random(2)
    k: const f32[] = 0.5
    c = Conv(x, W, pads=[1, 1, 1, 1])
    r = Relu(c)  {name="act"}
    d = Conv(r, V)
    s = Relu(d)
    t = Add(s, r)
    m = Mul(t, k)
    u = Add(m, d)
    y = If(flag):
        then_branch:
            capture a: f32[N, 4, 8, 8] = u
            capture h: f32[] = k
            p = Mul(h, a)
            q = Relu(p)
            return q
        else_branch:
            capture b: f32[N, 4, 8, 8] = u
            n = Neg(b)
            return n
    return y, m
"""


@pytest.fixture(scope="module")
def book() -> RuleBook:
    return gerules.load_rules()


@pytest.fixture(scope="module")
def graph() -> Graph:
    return gerules.parse_graph(MODEL)


def places(found: Findings) -> list[tuple[str, ...]]:
    return [tuple(node.name for node in item.nodes) for item in found.occurrences]


def test_every_place_is_found_with_open_attributes(graph: Graph, book: RuleBook) -> None:
    found = find(graph, "Relu(Conv(...))", rules=book)
    assert places(found) == [("c", "act"), ("d", "s")]
    first, second = found.occurrences
    assert first.is_closed and first.nodes[0].op == "Conv" and first.nodes[0].type == "f32[N, 4, 8, 8]"
    assert second.escapes == {"d": ("Add u",)} and found.n_closed == 1


def test_strict_is_as_a_rule_matches(graph: Graph, book: RuleBook) -> None:
    assert places(find(graph, "Relu(Conv(...))", rules=book, strict=True)) == []
    assert places(find(graph, "Conv(...)", rules=book, strict=True)) == [("d",)]
    assert places(find(graph, "Conv(..., **)", rules=book, strict=True)) == [("c",), ("d",)]


def test_lines_bind_names_and_conditions_ask_about_them(graph: Graph, book: RuleBook) -> None:
    pattern = "c = Conv(x, W: const [M, C, ...], **a)\ny = Relu(c)"
    found = find(graph, pattern, where=["C == 3", "is_static(W)"], rules=book)
    (item,) = found.occurrences
    assert item.bound["W"] == "W: const f32[4, 3, 3, 3]" and item.bound["M"] == "4"
    assert item.bound["a"] == "{pads: [1, 1, 1, 1]}" and item.bound["y"] == "r: f32[N, 4, 8, 8]"
    assert find(graph, pattern, where="C == 5", rules=book).occurrences == ()


def test_operands_commute_and_each_way_on_other_nodes_counts(graph: Graph, book: RuleBook) -> None:
    assert places(find(graph, "Add(Relu(a), b)", rules=book)) == [("act", "t"), ("s", "t")]
    assert places(find(graph, "Add(a, b)", rules=book)) == [("t",), ("u",)]


def test_a_part_of_a_match_is_not_told_again(graph: Graph, book: RuleBook) -> None:
    assert places(find(graph, "Relu?(Conv(...))", rules=book)) == [("c", "act"), ("d", "s")]
    assert places(find(graph, "ch@{Conv, Relu, Add, Mul}{2..}(v, ...)", rules=book))[0][:1] == ("c",)


def test_bodies_are_searched_and_know_constants_outside(graph: Graph, book: RuleBook) -> None:
    found = find(graph, "Mul(v, k: const)", where="scalar(k) == 0.5", rules=book)
    assert [(item.graph, item.nodes[0].name) for item in found.occurrences] == [
        ("", "m"),
        ("y.then_branch.", "p"),
    ]
    assert found.occurrences[0].is_closed  # its result may be read by anybody


def test_an_output_of_the_graph_is_a_reader(graph: Graph, book: RuleBook) -> None:
    (item,) = find(graph, "Add(Mul(a, b), c)", rules=book).occurrences
    assert item.escapes == {"m": ("the output of the graph",)}


def test_near_misses_say_how_far_it_came(graph: Graph, book: RuleBook) -> None:
    found = find(graph, "Relu(Conv(x, W: const [3, ...]))", rules=book, near=True)
    assert found.occurrences == ()
    best = found.near[0]
    assert best.count == 2 and best.best.n_matched == 2 and best.best.node in ("act", "s")
    assert best.best.seen == "W is a constant f32[4, 3, 3, 3]"
    assert find(graph, "Relu(Conv(...))", rules=book).near == ()


def test_an_input_more_than_the_pattern_takes_is_told(book: RuleBook) -> None:
    graph = gerules.parse_graph(
        "graph g:\n    opset 17\n    input x: f32[1, 3, 8, 8]\n    W: const f32[4, 3, 3, 3] = random(1)\n"
        "    q: const i64[8] = [0, 0, 1, 1, 0, 0, 1, 1]\n    p = Pad(x, q)\n"
        "    y = Conv(p, W)\n    return y\n"
    )
    found = find(graph, "Conv(Pad(x), W)", rules=book, near=True)
    (group,) = found.near
    assert group.best.reason == "Pad has 2 inputs, the pattern takes 1"
    assert (group.best.seen, group.best.wanted) == ("p reads x, q", "write `Pad(x, ...)`")
    assert find(graph, "Conv(Pad(x, ...), W)", rules=book, near=True).occurrences
    assert find(graph, "Conv(Pad(x, pads=p), W)", rules=book, near=True).occurrences
    (group,) = find(graph, 'Conv(Pad(x, mode="edge"), W)', rules=book, near=True).near
    assert group.best.wanted == 'write `Pad(x, ..., mode="edge")`'
    assert list(finding_lines(found, limit=1))[-1] == "0 places in g"
    asked = list(finding_lines(find(graph, "Relu(x)", rules=book), limit=1))
    assert asked == ["0 places in g; --near tells where it almost matches"]


def test_named_patterns_and_sets_of_the_rules_may_be_used(graph: Graph, book: RuleBook) -> None:
    assert ("n",) in places(find(graph, "f@UNARY(v)", rules=book))


def test_the_graph_is_not_changed_and_the_result_is_plain(graph: Graph, book: RuleBook) -> None:
    before = gerules.print_graph(graph)
    found = gerules.find(graph, "Relu(Conv(...))", rules=book)
    assert gerules.print_graph(graph) == before
    assert found.as_json()["n_found"] == 2 and found.as_json()["n_closed"] == 1
    lines = list(finding_lines(found, limit=1))
    assert lines[:2] == ["1. Conv c: f32[N, 4, 8, 8]", "   Relu act: f32[N, 4, 8, 8]"]
    assert lines[-1] == "2 places in net, 1 of them shown, 1 of them with values that others read too"


@pytest.mark.parametrize(
    ("pattern", "where", "code", "place"),
    [
        ("Relu(Conv(x, W)", (), "E40001", "the pattern:1:"),
        ("Rellu(x)", (), "E40111", "the pattern:1:"),
        ("y = Relu(x)\nz = Abs(yy)\nq = Neg(z) + 1", (), "E40001", "the pattern:3:"),
        ("Relu(x)", ("zz > 1",), "E40003", "the pattern:1:"),
        ("Relu(x)", ("nix(x)",), "E40114", "the pattern:1:"),
        ("_ = Relu(x)", (), "E10003", "None"),
        ("", (), "E40001", "the pattern:1:"),
        ("x", (), "E40034", "the pattern:1:"),
        ("Relu(x)\nrewrite:", (), "E40001", "the pattern:2:"),
    ],
)
def test_a_wrong_pattern_is_told_at_its_place(
    graph: Graph, book: RuleBook, pattern: str, where: tuple[str, ...], code: str, place: str
) -> None:
    with pytest.raises(GerulesError) as caught:
        find(graph, pattern, where=where, rules=book)
    fault = caught.value.diagnostics[0]
    assert fault.code.code == code and str(fault.span).startswith(place)


def test_long_patterns_cost_no_time_to_read(graph: Graph, book: RuleBook) -> None:
    with pytest.raises(GerulesError):
        find(graph, "a, " * 20_000, rules=book)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("1/0", "`1/0` has no value: division by zero"),
        ("3", "`3` has no value: 3 is neither true nor false"),
        ("x.shape[7] == 1", "`x.shape[7]` has no value: index 7 is outside a list of 4"),
        (["x.rank == 4", "1 / (x.rank - 4) > 0", "x.rank == 9"], "division by zero"),
    ],
)
def test_a_condition_without_value_at_every_place_is_a_fault(
    graph: Graph, book: RuleBook, where: str | list[str], told: str
) -> None:
    with pytest.raises(GerulesError, match="E40110") as caught:
        find(graph, "Relu(x)", where=where, rules=book)
    assert [told in item.message for item in caught.value.diagnostics] == [True]


@pytest.mark.parametrize(("where", "n_found"), [("1 / (x.rank - 4) > 0", 0), ("1 / (4 - x.rank) >= 0", 2)])
def test_a_condition_with_a_value_at_some_place_is_none(book: RuleBook, where: str, n_found: int) -> None:
    """At one place there is none, which is a warning; at the others it holds or it does not."""
    text = (
        "graph g:\n    opset 17\n    input a: f32[1, 2, 3, 4]\n    input b: f32[2, 3]\n    input c: f32[3]\n"
    )
    lines = "".join(f"    {name.upper()} = Relu({name})\n" for name in "abc")
    found = find(
        gerules.parse_graph(f"{text}{lines}    return A, B, C\n"), "Relu(x)", where=where, rules=book
    )
    assert len(found.occurrences) == n_found
    assert [item.code.code for item in found.warnings] == ["E40110"]


def test_a_condition_that_is_never_asked_is_no_fault(graph: Graph, book: RuleBook) -> None:
    found = find(graph, "Sigmoid(x)", where="1/0", rules=book)
    assert (found.occurrences, found.warnings) == ((), ())


@pytest.mark.parametrize(
    ("pattern", "place", "line"),
    [
        ("Relu(Conv(x", "the pattern:1:12", "Relu(Conv(x"),
        ("  Rellu(x)", "the pattern:1:1", "Rellu(x)"),
        ("a = Relu(x)\ny = Rellu(a)", "the pattern:2:5", "y = Rellu(a)"),
    ],
)
def test_faults_show_the_text_as_it_was_written(
    graph: Graph, book: RuleBook, pattern: str, place: str, line: str
) -> None:
    with pytest.raises(GerulesError) as caught:
        find(graph, pattern, rules=book)
    (fault,) = caught.value.diagnostics
    assert fault.span is not None and str(fault.span) == place
    number, _ = fault.span.source.line_column(fault.span.start)
    assert fault.span.source.line(number) == line
