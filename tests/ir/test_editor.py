"""The editor keeps a topological order under any sequence of substitutions, and refuses cycles."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.ir import CycleError, Graph, GraphEditor, Node, TensorType, empty_graph
from gerules.ir.verify import broken_invariants


def chain(n_nodes: int) -> tuple[GraphEditor, list[Node]]:
    editor = GraphEditor(empty_graph("chain"))
    value = editor.add_input(TensorType(), "x")
    nodes: list[Node] = []
    for _ in range(n_nodes):
        nodes.append(editor.add_node("Relu", [value]))
        value = nodes[-1].outputs[0]
        assert value is not None
    editor.set_outputs([value])
    return editor, nodes


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    editor = GraphEditor(empty_graph("random"))
    values = [editor.add_input(TensorType(), f"x{i}") for i in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(2, 14))):
        picks = st.sampled_from(values[-5:])
        inputs = draw(st.lists(picks, min_size=1, max_size=3))
        node = editor.add_node("Op", inputs, n_outputs=draw(st.integers(1, 2)))
        values += list(node.writes())
    editor.set_outputs(draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)))
    return editor.commit()


def digraph(editor: GraphEditor) -> nx.DiGraph:
    net = nx.DiGraph()
    net.add_nodes_from(editor.nodes)
    for node in editor.nodes.values():
        for value in node.reads():
            producer = editor.producer(value)
            if producer is not None:
                net.add_edge(producer.id, node.id)
    return net


@settings(max_examples=300, deadline=None)
@given(graphs(), st.data())
def test_substitution_keeps_order_or_refuses(graph: Graph, data: st.DataObject) -> None:
    editor = GraphEditor(graph)
    for _ in range(data.draw(st.integers(1, 6))):
        ids = list(editor.nodes)
        if not ids:
            return
        gone = data.draw(st.sets(st.sampled_from(ids), min_size=1, max_size=3))
        lost = [v for n in gone for v in editor.nodes[n].writes() if editor.n_uses(v)]
        if not lost:
            continue
        lost_set = set(lost)
        pool = [v for v in editor.values if v not in {w for n in gone for w in editor.nodes[n].writes()}]
        pool = [v for v in pool if v in editor.inputs or editor.producer(v) is not None]
        inputs = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
        new = Node(editor.fresh_id(), "New", tuple(inputs), tuple(lost))
        net = digraph(editor)
        # The region collapses to one vertex: legal when no input descends from what is replaced.
        roots = {n for n in gone if lost_set & set(editor.nodes[n].writes())}
        below = set().union(*(nx.descendants(net, r) | {r} for r in roots))
        producers = {p.id for v in inputs if (p := editor.producer(v)) is not None}
        legal = not (producers & below)
        before = {n: editor.order_key(n) for n in editor.nodes}
        try:
            editor.substitute(gone, [new], {})
        except CycleError:
            assert not legal
            assert before == {n: editor.order_key(n) for n in editor.nodes}
            continue
        assert legal
        assert nx.is_directed_acyclic_graph(digraph(editor))
        assert broken_invariants(editor.commit()) == []


def test_a_cycle_through_an_outside_node_is_refused() -> None:
    editor, nodes = chain(3)
    first, _, last = nodes
    x = editor.inputs[0]
    new = Node(editor.fresh_id(), "Pair", (x, last.inputs[0]), (first.outputs[0], last.outputs[0]))
    with pytest.raises(CycleError):
        editor.substitute([first.id, last.id], [new], {})
    assert broken_invariants(editor.commit()) == []


def test_many_insertions_at_one_place_renumber() -> None:
    editor, nodes = chain(2)
    value = nodes[0].outputs[0]
    assert value is not None
    before = nodes[1].id
    for _ in range(200):
        node = editor.add_node("Relu", [value], before=before)
        made = node.outputs[0]
        assert made is not None
        value = made
    graph = editor.commit()
    assert broken_invariants(graph) == []
    assert len(graph.nodes) == 202


def test_an_output_keeps_its_name_when_forwarded() -> None:
    editor, nodes = chain(2)
    old, new = nodes[1].outputs[0], nodes[0].outputs[0]
    assert old is not None and new is not None
    editor.set_type(old, TensorType())
    editor.values[old] = editor.values[old].__class__(old, "y", TensorType())
    editor.substitute([nodes[1].id], [], {old: new})
    graph = editor.commit()
    assert [graph.values[v].name for v in graph.outputs] == ["y"]
    assert len(graph.nodes) == 1


def test_an_output_is_never_forwarded_to_an_input() -> None:
    editor, nodes = chain(1)
    old = nodes[0].outputs[0]
    assert old is not None
    with pytest.raises(ValueError, match="graph output"):
        editor.substitute([nodes[0].id], [], {old: editor.inputs[0]})
    assert len(editor.nodes) == 1


def test_touched_nodes_are_told() -> None:
    editor, nodes = chain(4)
    touched: set[int] = set()
    editor.on_touch = touched.add
    new = Node(editor.fresh_id(), "Gelu", nodes[1].inputs, nodes[2].outputs)
    editor.substitute([nodes[1].id, nodes[2].id], [new], {})
    assert {new.id, nodes[0].id, nodes[3].id} <= touched


def test_prune_removes_what_nobody_reads() -> None:
    editor, nodes = chain(3)
    editor.set_outputs([nodes[0].outputs[0] or 0])
    assert editor.prune() == 2
    assert list(editor.commit().nodes) == [nodes[0].id]


def test_constants_nobody_uses_are_dropped() -> None:
    editor, _ = chain(1)
    editor.add_const(np.zeros(3, np.float32), "w")
    assert not editor.commit().consts
