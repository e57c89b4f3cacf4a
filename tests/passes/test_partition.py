"""Partition: engines, units without cycles, static and dynamic parts, faults."""

from __future__ import annotations

import json
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.ir import DType, Graph, GraphEditor, TensorType, empty_graph, parse_graph
from gerules.ops import infer_graph
from gerules.passes.clusters import find_clusters
from gerules.passes.devices import find_device
from gerules.passes.errors import PassError
from gerules.passes.partition import check_partition, partition_graph
from gerules.target import Device, Engine
from tests.passes.running import BOOK, SCHEMAS

DEVICE = Device(
    "d",
    engines=(
        Engine("core", 1, frozenset({"Relu", "Abs", "Add", "MatMul"})),
        Engine("aicpu", 4, frozenset({"Exp", "Log", "Relu", "Add", "NonZero"}), is_attached=True),
        Engine("rts", 2, frozenset({"If"}), is_attached=True),
    ),
)


def graph_of(text: str) -> Graph:
    return infer_graph(parse_graph(text), SCHEMAS)


def chain(*ops: str, shape: str = "4") -> Graph:
    lines = ["graph g:", "    opset 18", f"    input x: f32[{shape}]"]
    for place, op in enumerate(ops):
        lines.append(f"    v{place} = {op}({'x' if place == 0 else f'v{place - 1}'})")
    return graph_of("\n".join([*lines, f"    return v{len(ops) - 1}"]))


def clusters(graph: Graph, **options: object) -> list[tuple[str, bool, list[str]]]:
    partition = partition_graph(graph, DEVICE, **options)  # type: ignore[arg-type]
    assert check_partition(graph, DEVICE, partition) == []
    json.dumps(partition.as_json())
    return [
        (cluster.engine, cluster.is_static, [graph.nodes[node].op for node in cluster.nodes])
        for cluster in partition.clusters
    ]


def test_engines_by_priority_and_clusters_by_engine() -> None:
    assert clusters(chain("Relu", "Abs", "Exp", "Log", "Relu")) == [
        ("core", True, ["Relu", "Abs"]),
        ("aicpu", True, ["Exp", "Log"]),
        ("core", True, ["Relu"]),
    ]


def test_the_engine_that_a_rule_names_wins_where_it_has_the_operator() -> None:
    graph = chain("Relu", "Abs")
    one, two = graph.nodes
    partition = partition_graph(
        graph, DEVICE, annotations={one: {"engine": "aicpu"}, two: {"engine": "aicpu"}}
    )
    assert partition.engine_of == {one: "aicpu", two: "core"}
    assert "rule places it there" in partition.reasons[one]
    assert "does not have the operator" in partition.reasons[two]


def test_everything_that_nothing_takes_is_reported_at_once() -> None:
    graph = chain("Relu", "Sin", "Cos", "Sin", "Abs")
    with pytest.raises(PassError) as caught:
        partition_graph(graph, DEVICE, annotations={next(iter(graph.nodes)): {"engine": "cor"}})
    found = [(item.code.code, item.facts.get("op")) for item in caught.value.diagnostics]
    assert found == [("E50013", None), ("E50001", "Cos"), ("E50001", "Sin")]
    assert caught.value.diagnostics[2].place == "v1, v3"
    assert "did you mean core?" in caught.value.diagnostics[0].notes


def test_an_excluded_engine_is_named() -> None:
    with pytest.raises(PassError, match="excluded") as caught:
        partition_graph(chain("Abs"), DEVICE, excluded=["core"])
    assert caught.value.code == "E50001"
    assert partition_graph(chain("Relu"), DEVICE, excluded=["core"]).clusters[0].engine == "aicpu"


def test_a_condition_sends_a_node_to_the_next_engine() -> None:
    device = replace(
        DEVICE,
        engines=(
            replace(DEVICE.engines[0], where=lambda op, inputs, outputs, attrs: op != "Relu"),
            DEVICE.engines[1],
        ),
    )
    graph = chain("Relu", "Abs")
    partition = partition_graph(graph, device)
    assert list(partition.engine_of.values()) == ["aicpu", "core"]
    assert list(partition.reasons.values()) == ["core does not take it"]


def test_types_that_no_engine_takes_are_said() -> None:
    def takes_f16(op: str, inputs: object, outputs: object, attrs: object) -> bool:
        return inputs[0].dtype is DType.F16  # type: ignore[index]

    device = Device("d", engines=(Engine("core", 1, frozenset({"Abs"}), takes_f16),))
    with pytest.raises(PassError, match="core takes other types") as caught:
        partition_graph(chain("Abs"), device)
    assert caught.value.code == "E50001"


DYNAMIC = """
graph g:
    opset 18
    input x: f32[4]
    input n: f32[N]
    a = Relu(x)
    b = Abs(a)
    c = Relu(b)
    d = Add(c, n)
    e = Abs(d)
    return e
"""


def test_static_parts_stand_apart_from_a_size_on() -> None:
    graph = graph_of(DYNAMIC.replace("n: f32[N]", "n: f32[M, 1]"))
    assert clusters(graph, static_limit=2) == [
        ("core", True, ["Relu", "Abs", "Relu"]),
        ("core", False, ["Add", "Abs"]),
    ]
    assert clusters(graph, static_limit=4) == [("core", False, ["Relu", "Abs", "Relu", "Add", "Abs"])]
    assert clusters(graph, static_limit=-1) == [("core", False, ["Relu", "Abs", "Relu", "Add", "Abs"])]
    with pytest.raises(PassError) as caught:
        partition_graph(graph, DEVICE, static_limit=-2)
    assert caught.value.code == "E10003"


def test_a_small_graph_that_is_static_is_not_demoted() -> None:
    assert clusters(chain("Relu", "Abs")) == [("core", True, ["Relu", "Abs"])]


def test_bodies_of_control_flow_are_divided_too() -> None:
    graph = graph_of("""
graph g:
    opset 18
    input c: bool[]
    input x: f32[2]
    y = If(c):
        then_branch:
            capture a: f32[2] = x
            b = Exp(a)
            d = Abs(b)
            return d
        else_branch:
            capture a: f32[2] = x
            b = Relu(a)
            return b
    return y
""")
    partition = partition_graph(graph, DEVICE)
    (node,) = graph.nodes
    inner = partition.bodies[node, "then_branch"]
    assert [cluster.engine for cluster in inner.clusters] == ["aicpu", "core"]


def test_a_fused_body_runs_where_most_of_it_runs() -> None:
    graph = parse_graph("""
graph g:
    opset 18
    input x: f32[2, 2]
    y: f32[2, 2] = ge::Block(x):
        body:
            input a: f32[2, 2]
            m: f32[2, 2] = Exp(a)
            n: f32[2, 2] = Relu(m)
            return n
    return y
""")
    partition = partition_graph(graph, DEVICE)
    assert partition.clusters[0].engine == "core"


def test_independent_paths_do_not_keep_a_unit_apart() -> None:
    graph = graph_of("""
graph g:
    opset 18
    input x: f32[2]
    input z: f32[2]
    p = Relu(x)
    b = Exp(z)
    n = Add(p, b)
    return n
""")
    assert clusters(graph) == [("aicpu", True, ["Exp"]), ("core", True, ["Relu", "Add"])]


def test_a_path_outside_keeps_units_apart() -> None:
    graph = graph_of("""
graph g:
    opset 18
    input x: f32[2]
    p = Relu(x)
    b = Exp(p)
    n = Add(p, b)
    return n
""")
    assert [ops for _, _, ops in clusters(graph)] == [["Relu"], ["Exp"], ["Add"]]


@st.composite
def coloured(draw: st.DrawFn) -> tuple[Graph, dict[int, int]]:
    editor = GraphEditor(empty_graph("g", {"": 18}))
    kind = TensorType(DType.F32, (2,))
    values = [editor.add_input(kind, "x")]
    colours: dict[int, int] = {}
    for _ in range(draw(st.integers(1, 24))):
        recent = values[-5:] if draw(st.booleans()) else values
        reads = draw(st.lists(st.sampled_from(recent), min_size=1, max_size=3))
        node = editor.add_node("Sum", reads)
        colours[node.id] = draw(st.integers(0, 2))
        values += node.writes()
    editor.set_outputs(values[-1:])
    return editor.commit(), colours


@given(coloured())
@settings(max_examples=400, deadline=None)
def test_units_never_depend_on_each_other_in_a_circle(given_graph: tuple[Graph, dict[int, int]]) -> None:
    graph, colours = given_graph
    units = find_clusters(graph, colours)
    assert sorted(node for unit in units for node in unit) == sorted(graph.nodes)
    unit_of = {node: place for place, unit in enumerate(units) for node in unit}
    quotient = nx.DiGraph()
    quotient.add_nodes_from(range(len(units)))
    inner = nx.Graph()
    inner.add_nodes_from(graph.nodes)
    for node in graph.nodes.values():
        for value in node.reads():
            if (source := graph.producer.get(value)) is None:
                continue
            if unit_of[source] == unit_of[node.id]:
                inner.add_edge(source, node.id)
            else:
                quotient.add_edge(unit_of[source], unit_of[node.id])
    assert nx.is_directed_acyclic_graph(quotient)
    assert all(one < two for one, two in quotient.edges), "units stand in an order in which they can run"
    for unit in units:
        assert len({colours[node] for node in unit}) == 1
    assert nx.number_connected_components(inner) == len(units)


@given(coloured())
@settings(max_examples=100, deadline=None)
def test_the_checker_finds_what_is_broken(given_graph: tuple[Graph, dict[int, int]]) -> None:
    graph, colours = given_graph
    names = {0: "a", 1: "b", 2: "c"}
    device = Device("d", engines=tuple(Engine(name, 1, frozenset({"Sum"})) for name in names.values()))
    notes = {node: {"engine": names[colour]} for node, colour in colours.items()}
    partition = partition_graph(graph, device, annotations=notes)
    assert check_partition(graph, device, partition) == []
    first = partition.clusters[0]
    assert check_partition(graph, device, replace(partition, clusters=partition.clusters[1:]))
    assert check_partition(graph, device, replace(partition, clusters=(first, *partition.clusters)))
    wrong = replace(first, engine="nowhere")
    assert check_partition(graph, device, replace(partition, clusters=(wrong, *partition.clusters[1:])))
    of = partition.cluster_of
    sources = (
        (node.id, graph.producer.get(value)) for node in graph.nodes.values() for value in node.reads()
    )
    if any(source is not None and of[source] != of[reader] for reader, source in sources):
        turned = tuple(reversed(partition.clusters))
        assert check_partition(graph, device, replace(partition, clusters=turned))


@pytest.mark.parametrize(
    ("op", "want"),
    [("ge::Conv2D", "AIcoreEngine"), ("StringConcat", "DNN_VM_AICPU"), ("ge::Reshape", "DNN_VM_GE_LOCAL")],
)
def test_shipped_devices_place_operators_as_the_graph_engine_does(op: str, want: str) -> None:
    device = find_device(BOOK, "ascend910b", schemas=SCHEMAS)
    assert device.engines_of(op)[0].name == want
