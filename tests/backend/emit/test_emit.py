"""What is in an emitted model: operators as the engine's readers know them, places, weights, tasks, names."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from gerules.backend.emit import BASE_ADDRESS, emit
from gerules.backend.om import OmError, OmModel, TaskType, read_om, read_texts, write_om
from gerules.backend.om.write import om_chunks
from gerules.backend.plans import make_plans
from gerules.backend.ports import unique_names
from gerules.ir import Body, DType, GraphEditor, Origin, TensorType, empty_graph, parse_graph
from gerules.ops import Schemas
from tests.netron.viewer import open_in_netron

TEXT = """
graph größe:
    opset "" 18
    input `in:put`: f32[1, 20, 4, 4]
    W: const f32[24, 20, 1, 1] @FRACTAL_Z = fill(0.5)
    V: const f32[24, 20, 1, 1] @FRACTAL_Z = fill(0.5)
    same: f32[1, 20, 4, 4] @NC1HWC0 = ge::TransData(`in:put`, src_format="NCHW", dst_format="NC1HWC0")
    a: f32[1, 24, 4, 4] @NC1HWC0 = ge::Conv2D(same, W, strides=[1, 1])
    b: f32[1, 24, 4, 4] @NC1HWC0 = ge::Conv2D(same, V, strides=[1, 1])
    c: f32[1, 24, 4, 4] @NC1HWC0 = ge::Add(a, b)
    d: f32[1, 24, 4, 4] @NC1HWC0 = ge::Relu(c)
    return d
"""


@pytest.fixture(scope="module")
def model() -> OmModel:
    graph = parse_graph(TEXT)
    engines = {node.id: "AIcoreEngine" for node in graph.nodes.values()}
    plans = make_plans(graph, engines)
    return emit(graph, plans, engines=engines, device="Ascend910B", schemas=Schemas())


def test_operators_are_those_of_the_engine(model: OmModel) -> None:
    kinds = [op.type for op in model.root.ops]
    assert kinds == ["Data", "Const", "Const", "TransData", "Conv2D", "Conv2D", "Add", "Relu", "NetOutput"]
    assert [op.id for op in model.root.ops] == list(range(9))
    assert [port.name for port in model.inputs] == ["in:put"]
    assert [port.name for port in model.outputs] == ["d"]
    assert model.attrs["soc_version"] == "Ascend910B"


def test_formats_and_origins(model: OmModel) -> None:
    conv = model.root.ops[4]
    assert (conv.output_descs[0].shape, conv.output_descs[0].layout) == ((1, 2, 4, 4, 16), "NC1HWC0")
    assert (conv.output_descs[0].origin_shape, conv.output_descs[0].origin_layout) == ((1, 24, 4, 4), "NCHW")
    assert conv.input_descs[1].shape == (2, 2, 16, 16)
    assert conv.is_input_const == (False, True)


def test_equal_constants_lie_once(model: OmModel) -> None:
    one, two = model.root.ops[1:3]
    assert one.attrs["value"].desc.data_offset == two.attrs["value"].desc.data_offset == 512
    assert model.root.ops[4].input_offsets[1] == 512
    assert model.weights.size_bytes == 512 + 2 * 2 * 16 * 16 * 4 + 512


def test_tasks_carry_addresses(model: OmModel) -> None:
    launches = [task for task in model.tasks.tasks if task.type == TaskType.KERNEL]
    assert [task.op_id for task in launches] == [3, 4, 5, 6, 7]
    args = struct.unpack("<3Q", launches[1].kernel.args)
    conv = model.root.ops[4]
    assert args[0] == BASE_ADDRESS + conv.input_offsets[0]
    assert args[1] == BASE_ADDRESS + model.memory_size_bytes + 512
    assert args[2] == BASE_ADDRESS + conv.output_offsets[0]


def test_activations_lie_in_place(model: OmModel) -> None:
    relu = model.root.ops[7]
    assert relu.output_descs[0].reuse_input == 0
    assert relu.output_offsets == relu.input_offsets


def test_netron_opens_it(tmp_path: Path, model: OmModel) -> None:
    write_om(model, tmp_path / "m.om")
    shown = open_in_netron(tmp_path / "m.om")
    assert shown.errors == []
    kinds = [kind for kind, _ in shown.operators()]
    assert kinds == ["Data", "TransData", "Conv2D", "Conv2D", "Add", "Relu", "NetOutput"]
    assert shown.graphs[0]["dangling"] == []
    assert shown.attribute("a", "strides") == "1, 1"


def test_names_are_unique_and_origins_travel() -> None:
    editor = GraphEditor(empty_graph("g", {"": 18}))
    x = editor.add_input(TensorType(DType.F32, (2,)), "n")
    y = x
    for _ in range(3):
        node = editor.add_node("Neg", [y], name="n", origin=Origin(("層/1", "b"), ("r1",), "fusion"))
        y = node.outputs[0]
        editor.set_type(y, TensorType(DType.F32, (2,)))
    editor.set_outputs([y])
    graph = editor.commit()
    again = read_om(b"".join(om_chunks(emit(graph, make_plans(graph, {}), engines={}))))
    assert [op.name for op in again.root.ops] == ["n", "n_1", "n_2", "n_3", "NetOutput"]
    assert read_texts(again.root.ops[1].attrs, "_datadump_original_op_names") == ("層/1", "b")


def test_bodies_are_subgraphs_with_places_in_the_workspace() -> None:
    inner = parse_graph(
        "graph b:\n    input p: f32[64]\n    q: f32[64] = Neg(p)\n    r: f32[64] = Tanh(q)\n"
        "    s: f32[64] = Add(r, q)\n    return s\n"
    )
    editor = GraphEditor(empty_graph("g", {"": 18}))
    x = editor.add_input(TensorType(DType.F32, (64,)), "x")
    node = editor.add_node("ge::Fused", [x], bodies={"body": Body(inner)}, name="fused")
    editor.set_type(node.outputs[0], TensorType(DType.F32, (64,)))
    editor.set_outputs([node.outputs[0]])
    graph = editor.commit()
    model = emit(graph, make_plans(graph, {}), engines={})
    fused = next(op for op in model.root.ops if op.name == "fused")
    (workspace,) = fused.workspace
    assert fused.subgraphs == ("fused_body",) and workspace.size_bytes == 1024
    body = model.graphs[1]
    offsets = [op.output_offsets[0] for op in body.ops[1:4]]
    assert {offset - workspace.offset_bytes for offset in offsets[:2]} == {0, 512}
    # The result is made where the node's own output lies.
    assert offsets[2] == fused.output_offsets[0]
    assert body.ops[0].attrs["_parent_node_index"] == 0


def test_types_without_a_number_are_all_told() -> None:
    graph = parse_graph("graph g:\n    input x: u4[2]\n    y: f8e5m2fnuz[2] = Cast(x)\n    return y\n")
    with pytest.raises(OmError) as caught:
        emit(graph, make_plans(graph, {}), engines={})
    assert [item.code.code for item in caught.value.diagnostics] == ["E80020", "E80020"]


def test_a_graph_that_returns_inputs_and_constants() -> None:
    from gerules.runtime.executor import Executor

    graph = parse_graph("graph g:\n    input x: f32[2]\n    k: const f32[2] = [1, 2]\n    return x, k\n")
    executor = Executor(read_om(b"".join(om_chunks(emit(graph, make_plans(graph, {}), engines={})))))
    got = executor.run({"x": np.asarray([5, 6], np.float32)}, poison=True)
    assert [list(item) for item in got.values()] == [[5, 6], [1, 2]]


def test_unique_names_is_linear() -> None:
    names = unique_names(["x"] * 50_000)
    assert len(set(names)) == 50_000 and names[:3] == ["x", "x_1", "x_2"]
