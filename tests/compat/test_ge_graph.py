"""Graphs of the Graph Engine's interface: built, faulted, compiled, run, asked about memory, written."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import gerules
from gerules.compat import acl, ge
from gerules.compat.ge.es.all import Conv2D, MatMul, Relu, Split
from gerules.compat.ge.lowering import OPERATORS
from gerules.runtime.executor import load_om
from tests.compat.acl_session import dataset_of, empty_outputs, good, got, read_output, session

__all__ = ["session"]

Array = npt.NDArray[np.generic]


@pytest.fixture(autouse=True)
def options() -> Iterator[None]:
    """Options of the process end with the test."""
    yield
    ge.ge_finalize()


def conv_net() -> tuple[ge.Graph, Array, Array]:
    """Conv2D, Add and Relu by nodes and edges, with its weights."""
    rng = np.random.default_rng(3)
    w, k = rng.normal(size=(4, 3, 3, 3)).astype(np.float32), rng.normal(size=(4, 1, 1)).astype(np.float32)
    graph = ge.Graph("net")
    x = graph.AddNode("Data", "x", {"index": 0})
    x.UpdateOutputDesc(0, ge.TensorDesc([1, 3, 8, 8], ge.Format.FORMAT_NCHW, ge.DataType.DT_FLOAT))
    weights = graph.AddNode("Const", "w", value=ge.Tensor(w))
    conv = graph.AddNode("Conv2D", "conv", strides=[1, 1, 1, 1], pads=[1, 1, 1, 1])
    bias = graph.AddNode("Const", "k", value=ge.Tensor(k))
    add, relu = graph.AddNode("Add", "add"), graph.AddNode("Relu", "relu")
    out = graph.AddNode("NetOutput", "out")
    edges = [(x, conv, 0), (weights, conv, 1), (conv, add, 0), (bias, add, 1), (add, relu, 0), (relu, out, 0)]
    for source, target, port in edges:
        graph.AddEdge(source.GetOutDataAnchor(0), target.GetInDataAnchor(port))
    return graph, w, k


def test_nodes_and_anchors_tell_of_each_other() -> None:
    graph, _, _ = conv_net()
    conv, add = graph.FindNode("conv"), graph.find_node_by_name("add")
    assert conv is not None
    assert add is not None
    assert [node.name for node in graph.GetAllNodes()] == ["x", "w", "conv", "k", "add", "relu", "out"]
    assert (conv.GetName(), conv.GetType(), conv.get_inputs_size()) == ("conv", "Conv2D", 2)
    anchor = add.GetInDataAnchor(0).GetPeerOutAnchor()
    assert anchor is not None
    assert (anchor.GetOwnerNode(), anchor.GetIdx()) == (conv, 0)
    assert add.GetInDataAnchor(7).GetPeerOutAnchor() is None
    assert add.get_in_data_nodes_and_port_indexes(0) == (conv, 0)
    assert conv.get_out_data_nodes_and_port_indexes(0) == [(add, 0)]
    assert conv.get_attr("strides") == [1, 1, 1, 1]
    assert not conv.HasAttr("dilations")
    assert conv.get_input_desc(0).shape == [1, 3, 8, 8]
    assert "%conv : [#users=1] = Node[type=Conv2D](inputs = (%x:0, %w:0)" in graph.dump_to_stream()
    graph.remove_edge(conv, 0, add, 0)
    graph.add_data_edge(conv, 0, add, 0)
    graph.RemoveNode(add)
    assert conv.get_out_data_nodes_and_port_indexes(0) == []


def test_rules_fuse_what_was_built_and_names_are_kept() -> None:
    graph, w, k = conv_net()
    model = ge.build_model(graph).models[0]
    assert [step.rule for step in model.trace.applications] == ["conv_bias", "conv_relu"]
    assert {source for step in model.trace.applications for source in step.sources} == {"conv", "add", "relu"}
    x = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    # The same graph in ONNX's words, by another way through gerules.
    text = """graph g:
    opset 17
    input x: f32[1, 3, 8, 8]
    input w: f32[4, 3, 3, 3]
    input k: f32[4, 1, 1]
    c = Conv(x, w, pads=[1, 1, 1, 1])
    b = Add(c, k)
    y: f32[1, 4, 8, 8] = Relu(b)
    return y
"""
    wanted = gerules.compile(gerules.parse_graph(text)).run({"x": x, "w": w, "k": k})["y"]
    (found,) = model.run({"x": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_sessions_compile_run_and_tell_of_memory() -> None:
    graph, _, _ = conv_net()
    session = ge.Session({"ge.socVersion": "Ascend910B1", "ge.exec.precision_mode_v2": "fp16"})
    session.AddGraph(1, graph)
    with pytest.raises(ge.GeError, match="not compiled") as error:
        session.GetMemoryInfo(1)
    assert error.value.code == "E41006"
    model = session.CompileGraph(1)
    rows = session.GetMemoryInfo(1)
    assert rows == session.get_memory_info(1) == ge.GetMemoryInfo()
    plan = model.memory_plan
    assert plan is not None
    assert [(row.offset, row.size, row.life_start, row.life_end) for row in rows] == [
        (row.offset, row.size_bytes, row.life_start, row.life_end) for row in plan.rows()
    ]
    assert max(row.offset + row.size for row in rows) <= plan.peak_bytes
    assert all(row.name for row in rows)
    assert any(row.name.startswith("relu") for row in rows)
    (out,) = session.RunGraph(1, [ge.Tensor(np.ones((1, 3, 8, 8), np.float32))])
    assert (out.shape, out.data_type) == ([1, 4, 8, 8], ge.DataType.DT_FLOAT)
    with pytest.raises(ge.GeError, match="takes 1 input, not 2"):
        session.run_graph(1, [out, out])
    with pytest.raises(ge.GeError) as error:
        session.run_graph(1, [ge.Tensor(np.ones((1, 3, 8, 9), np.float32))])
    assert error.value.code == "E20008"
    session.remove_graph(1)
    with pytest.raises(ge.GeError, match="no graph 1"):
        session.compile_graph(1)


def test_open_shapes_run_with_any_size() -> None:
    builder = ge.GraphBuilder("open")
    x = builder.create_input(0, name="x", shape=[-1, 4])
    builder.set_graph_output(Relu(x) + 1, 0)
    session = ge.Session()
    session.add_graph(1, builder.build_and_reset())
    for size in (1, 5):
        (out,) = session.run_graph(1, [ge.Tensor(np.ones((size, 4), np.float32))])
        assert out.data == [[2.0] * 4] * size
    # The same, its size said when it is compiled.
    x = builder.create_input(0, name="x", shape=[-1, 4])
    builder.set_graph_output(Relu(x), 0)
    model = ge.build_model(builder.build_and_reset(), {"ge.inputShape": "x:3,4"})
    assert model.models[0].om.inputs[0].shape == (3, 4)


def test_a_switch_file_of_the_process_counts(tmp_path: Path) -> None:
    path = tmp_path / "fusion_switch.cfg"
    path.write_text('{"Switch": {"GraphFusion": {"AABiasaddConvFusion": "off"}}}')
    ge.Initialize(ge.InitializeOptions(soc_version="host", fusion_switch_file=str(path)))
    model = ge.build_model(conv_net()[0]).models[0]
    assert "conv_bias" not in {step.rule for step in model.trace.applications}
    ge.Finalize()
    model = ge.build_model(conv_net()[0]).models[0]
    assert "conv_bias" in {step.rule for step in model.trace.applications}


def test_options_are_checked_all_at_once() -> None:
    with pytest.raises(ge.GeError) as error:
        ge.build_model(
            conv_net()[0],
            {
                "ge.socVersion": "Ascend999", "ge.socVersoin": "host", "ge.exec.precision_mode": "fp7",
                "ge.inputShape": "x=one", "input_format": "ND", "ge.deterministic": "1",
            },
        )  # fmt: skip
    assert sorted(item.code.code for item in error.value.diagnostics) == ["E10003"] * 3 + ["E10040"]
    assert "did you mean ge.socVersion" in error.value.error_message


def test_all_faults_of_a_graph_are_told_at_once() -> None:
    graph = ge.Graph("faulty")
    x = graph.AddNode("Data", "x", {"index": 0})
    graph.AddNode("Data", "z", {"index": 0})
    conv = graph.AddNode("Conv2d", "conv")
    pool = graph.AddNode("MaxPool", "pool", strids=[1, 1, 1, 1], padding="SAME")
    one, two = graph.AddNode("Relu", "one"), graph.AddNode("Relu", "two")
    for source, target in ((x, conv), (x, pool), (one, two), (two, one)):
        graph.AddEdge(source.GetOutDataAnchor(0), target.GetInDataAnchor(0))
    graph.AddNode("Const", "empty")
    graph.AddNode("Add", "add")
    with pytest.raises(ge.GeError) as error:
        ge.build_model(graph)
    text = error.value.error_message
    codes = [item.code.code for item in error.value.diagnostics]
    assert sorted(codes) == ["E41001", "E41002", "E41002", "E41002", "E41004", "E41004", "E41004"]
    for part in (
        "gives nothing back", "both input 0", "near it: Conv2D", "ksize is missing",
        "one, two lie in a cycle",        "no Tensor", "x1 is missing",
    ):  # fmt: skip
        assert part in text
    assert isinstance(error.value, RuntimeError)
    assert error.value.message


@pytest.mark.parametrize(
    ("type", "attrs", "reason"),
    [
        ("Conv2D", {"strides": [1], "pads": [0, 0, 0]}, "pads has 3 numbers"),
        ("Conv2D", {"strides": "x", "pads": [0, 0, 0, 0]}, "no list of whole numbers"),
        ("Conv2D", {"strides": [1], "pads": [0] * 4, "data_format": "NHWC"}, "NHWC is not lowered"),
        ("Conv2D", {"strides": [1], "pads": [0] * 4, "grups": 2}, "did you mean groups"),
        ("Reshape", {}, None),
        ("Transpose", {}, "its input perm is no constant"),
        ("SplitD", {"split_dim": 0, "num_split": 0}, "0 parts"),
        ("Relu", {}, "it has 2 inputs"),
    ],
)
def test_nodes_that_cannot_be_built(type: str, attrs: dict[str, object], reason: str | None) -> None:
    graph = ge.Graph("one")
    node = graph.AddNode(type, "node", attrs)
    for at in range(1 if type == "SplitD" else 2):
        data = graph.AddNode("Data", "", {"index": at})
        dtype = ge.DataType.DT_INT64 if type == "Reshape" and at else ge.DataType.DT_FLOAT
        data.UpdateOutputDesc(
            0, ge.TensorDesc([2] if type == "Reshape" and at else [2, 2, 2, 2], data_type=dtype)
        )
        graph.AddEdge(data.GetOutDataAnchor(0), node.GetInDataAnchor(at))
    graph.set_outputs([(node, 0)])
    if reason is None:  # a shape that comes from outside
        ge.build_model(graph)
        return
    with pytest.raises(ge.GeError) as error:
        ge.build_model(graph)
    assert error.value.code == "E41002"
    assert reason in error.value.error_message


def test_edges_are_checked() -> None:
    graph, other = ge.Graph("a"), ge.Graph("b")
    one, two, three = (
        graph.AddNode("Data", "one"),
        graph.AddNode("Relu", "two"),
        other.AddNode("Relu", "three"),
    )
    graph.AddEdge(one.GetOutDataAnchor(0), two.GetInDataAnchor(0))
    for source, target, port in ((one, two, 0), (one, three, 0), (one, two, -1)):
        with pytest.raises(ge.GeError) as error:
            graph.add_data_edge(source, 0, target, port)
        assert error.value.code == "E41003"
    with pytest.raises(ge.GeError, match="two nodes are called one"):
        graph.AddNode("Relu", "one")
    graph.set_outputs([(two, 3)])
    with pytest.raises(ge.GeError, match="it has no output 3"):
        ge.build_model(graph)


def test_builders_do_not_mix_and_tensors_fit() -> None:
    one, two = ge.GraphBuilder("one"), ge.GraphBuilder("two")
    x, y = one.create_input(0, shape=[2]), two.create_input(0, shape=[2])
    with pytest.raises(ge.GeError, match="another builder"):
        _ = x + y
    with pytest.raises(ge.GeError, match="3 elements cannot have the shape"):
        ge.Tensor([1, 2, 3], shape=[2, 2])
    with pytest.raises(ge.GeError) as error:
        ge.Tensor([[1, 2], [3]])
    assert error.value.code == "E41007"
    with pytest.raises(ge.GeError, match="numbered"):
        one.set_graph_output(x, 1)
        one.build_and_reset()
    with pytest.raises(AttributeError):
        ge.es.all.Convolution  # noqa: B018 - what is looked up is not there
    assert "Conv2D" in dir(ge.es.all)
    assert "strides" in (Conv2D.__doc__ or "")


def test_operators_are_all_there_for_import_of_all() -> None:
    names: dict[str, object] = {}
    exec("from gerules.compat.ge.es.all import *", names)
    assert set(OPERATORS) <= set(names)
    assert names["Conv2D"] is Conv2D


def test_outputs_may_be_inputs_and_come_twice() -> None:
    builder = ge.GraphBuilder("many")
    x = builder.create_input(0, name="x", shape=[4])
    left, right = Split(0, x, num_split=2)
    graph = builder.build_and_reset([x, left, right, left])
    session = ge.Session()
    session.add_graph(1, graph)
    found = session.run_graph(1, [ge.Tensor([1, 2, 3, 4])])
    assert [tensor.data for tensor in found] == [[1, 2, 3, 4], [1, 2], [3, 4], [1, 2]]


def test_offline_models_run_by_acl(session: int, tmp_path: Path) -> None:
    builder = ge.GraphBuilder("offline")
    x = builder.create_input(0, name="x", shape=[2, 3])
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    builder.set_graph_output(MatMul(x, builder.create_const(w)) * 2.0, 0)
    ge.build_initialize({"ge.socVersion": "host"})
    buffer = ge.offline_compile(builder.build_and_reset(), tmp_path / "net", {"input_format": "ND"})
    ge.build_finalize()
    path = tmp_path / "net.om"
    assert buffer.length == path.stat().st_size == len(buffer.data)
    given = np.ones((2, 3), np.float32)
    (wanted,) = load_om(path).run({"x": given}).values()
    np.testing.assert_array_equal(wanted, given @ w * 2)
    model = got(acl.mdl.load_from_file(str(path)))
    desc = acl.mdl.create_desc()
    good(acl.mdl.get_desc(desc, model))
    outputs = empty_outputs(desc)
    good(acl.mdl.execute(model, dataset_of([given]), outputs))
    np.testing.assert_array_equal(read_output(outputs, 0, np.float32), wanted.reshape(-1))


def test_bundles_are_built_from_several_graphs(session: int, tmp_path: Path) -> None:
    graphs: list[ge.GraphWithOptions] = []
    for name, scale in (("two", 2.0), ("three", 3.0)):
        builder = ge.GraphBuilder(name)
        builder.set_graph_output(builder.create_input(0, name="x", shape=[2]) * scale, 0)
        graphs.append(ge.GraphWithOptions(builder.build_and_reset(), {"input_format": "ND"}))
    buffer = ge.bundle_build_model(graphs)
    with pytest.raises(ge.GeError, match="it is a bundle"):
        ge.save_model(tmp_path / "bundle", buffer)
    ge.bundle_save_model(tmp_path / "bundle", buffer)
    bundle = got(acl.mdl.bundle_load_from_file(str(tmp_path / "bundle.om")))
    found = []
    for at in range(got(acl.mdl.bundle_get_model_num(bundle))):
        model, desc = got(acl.mdl.bundle_get_model_id(bundle, at)), acl.mdl.create_desc()
        good(acl.mdl.get_desc(desc, model))
        outputs = empty_outputs(desc)
        good(acl.mdl.execute(model, dataset_of([np.ones(2, np.float32)]), outputs))
        found.append(read_output(outputs, 0, np.float32).tolist())
    assert found == [[2, 2], [3, 3]]


PLACES = {
    "es.graph_builder": "GraphBuilder TensorHolder",
    "es.all": "Add Conv2D ConcatV2 MatMulV2 Split",
    "graph": "Graph Node Tensor TensorDesc Shape DumpFormat DataType Format Placement",
    "graph.types": "DataType Format Placement",
    "session": "Session",
    "ge_global": "GeApi",
    "offline_compile": "build_initialize build_model save_model build_finalize GraphWithOptions "
    "bundle_build_model bundle_save_model",
    "passes": "PassStage PatternFusionPass pattern register_fusion_pass PatternMatcherConfigBuilder "
    "create_pattern create_replacement MatchResult",
    "error": "GeError",
}


@pytest.mark.parametrize("place", PLACES)
def test_names_are_imported_from_where_scripts_import_them(place: str) -> None:
    module = importlib.import_module(f"gerules.compat.ge.{place}")
    assert [name for name in PLACES[place].split() if not hasattr(module, name)] == []


def branch(name: str, scale: float) -> ge.Graph:
    """A graph that multiplies its input 0."""
    builder = ge.GraphBuilder(name)
    return builder.build_and_reset([builder.create_input(0, name=f"{name}_x") * scale])


@pytest.mark.parametrize("by_name", [True, False])
def test_branches_are_graphs(by_name: bool) -> None:
    builder = ge.GraphBuilder("choice")
    x = builder.create_input(0, name="x", shape=[2])
    condition = builder.create_input(1, name="c", data_type=ge.DataType.DT_BOOL, shape=[])
    branches = {"then_branch": branch("double", 2.0), "else_branch": branch("negate", -1.0)}
    if by_name:
        for graph in branches.values():
            builder.graph.add_subgraph(graph)
        given: dict[str, object] = {key: graph.name for key, graph in branches.items()}
        (chosen,) = builder.add_operator("If", [condition, x], given)
    else:
        (chosen,) = ge.es.all.If(condition, [x], **branches)  # type: ignore[misc]  # one output each
    session = ge.Session()
    session.add_graph(1, builder.build_and_reset([Relu(chosen + 1)]))
    for truth, wanted in ((True, [3.0, 0.0]), (False, [0.0, 4.0])):
        (out,) = session.run_graph(1, [ge.Tensor([1, -3]), ge.Tensor(np.array(truth))])
        assert out.data == wanted


@pytest.mark.parametrize(
    ("branches", "reason"),
    [
        ({"then_branch": "none", "else_branch": branch("b", 1.0)}, "then_branch is no graph"),
        ({"then_branch": branch("a", 1.0)}, "else_branch is missing"),
        ({"then_branch": branch("a", 1.0), "else_branch": ge.Graph("empty")}, "different numbers"),
    ],
)
def test_branches_that_do_not_fit(branches: dict[str, object], reason: str) -> None:
    builder = ge.GraphBuilder("choice")
    x = builder.create_input(0, name="x", shape=[2])
    condition = builder.create_input(1, name="c", data_type=ge.DataType.DT_BOOL, shape=[])
    (chosen,) = builder.add_operator("If", [condition, x], branches)
    with pytest.raises(ge.GeError) as error:
        ge.build_model(builder.build_and_reset([chosen]))
    assert error.value.code == "E41002"
    assert reason in error.value.error_message


def test_graphs_that_are_inside_themselves_end() -> None:
    graph = ge.Graph("loop")
    x = graph.AddNode("Data", "x", {"index": 0})
    c = graph.AddNode("Data", "c", {"index": 1})
    c.UpdateOutputDesc(0, ge.TensorDesc([], data_type=ge.DataType.DT_BOOL))
    choice = graph.AddNode("If", "choice", then_branch=graph, else_branch=branch("b", 1.0))
    for at, node in enumerate((c, x, c)):
        graph.add_data_edge(node, 0, choice, at)
    graph.set_outputs([(choice, 0)])
    with pytest.raises(ge.GeError, match="deep"):
        ge.build_model(graph)


def test_scopes_reach_the_nodes_that_are_added_meanwhile() -> None:
    builder = ge.GraphBuilder("scopes")
    x = builder.create_input(0, name="x", shape=[2])
    first = Relu(x)
    with ge.attr_scope({"_user_stream_label": "a"}), ge.control_dependency_scope([first]):
        inside = Relu(x)
    outside = Relu(inside)
    builder.set_node_attr_string(outside, "_label", "b")
    builder.set_tensor_attr_int64(outside, "at", 3)
    assert inside.node.get_attr("_user_stream_label") == "a"
    assert inside.node.get_in_control_nodes() == [first.node]
    assert dict(outside.node.attrs) == {"_label": "b"}
    assert outside.node.get_output_attr(0, "at") == 3
    assert outside.node.get_in_control_nodes() == []
    ge.build_model(builder.build_and_reset([outside]))
