"""The form of a file with gears: the Graph Engine's operators, names and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gerules.backend.om import OmList, OmModel, OmOp, constant_array, read_om
from gerules.backend.om.write import om_chunks
from tests.runtime.gear_models import CONVNET, TOKENS, compiled, reload

BATCH = {"input_shapes": "x:-1,3,8,8", "dynamic_batch_size": "1,2,5"}
IMAGE = {"input_shapes": "x:2,3,-1,-1", "dynamic_image_size": "8,8;6,10"}
DIMS = {"input_shapes": "mask:-1,-1;ids:-1,-1", "dynamic_dims": "1,4,1,4;2,8,2,8"}


def by_name(model: OmModel, graph: int = 0) -> dict[str, OmOp]:
    return {op.name: op for op in model.graphs[graph].ops}


def items(op: OmOp, name: str) -> tuple[Any, ...]:
    value = op.attrs[name]
    assert isinstance(value, OmList)
    return value.items


def test_the_root_chooses_a_branch() -> None:
    model = reload(compiled(CONVNET, **BATCH))
    ops = by_name(model)
    assert [op.type for op in model.root.ops] == ["Data", "Data", "Const", "MapIndex", "Case", "NetOutput"]
    data, shape = ops["x"], ops["ascend_mbatch_shape_data"]
    assert data.output_descs[0].shape == (5, 3, 8, 8)  # the largest gear
    assert items(data, "_mbatch_origin_input_dims") == (-1, 3, 8, 8)
    assert shape.attrs["index"] == 1 and shape.output_descs[0].shape == (1,)
    chooser = ops["ascend_mbatch_shape_mapindex"]
    edges = [str(edge) for edge in chooser.inputs]
    assert edges == ["ascend_mbatch_shape_data:0", "ascend_mbatch_mapindex_const:0"]
    table = constant_array(ops["ascend_mbatch_mapindex_const"], model.weights)
    assert table.dtype == np.int32 and table.tolist() == [1, 2, 5]
    case = ops["ascend_mbatch_shape_case"]
    assert [str(edge) for edge in case.inputs] == ["ascend_mbatch_shape_mapindex:0", "x:0"]
    assert case.input_names == ("branch_index", "input0") and case.output_names == ("output0", "output1")
    assert case.subgraphs == ("Batch_0", "Batch_1", "Batch_2")
    assert (case.attrs["_batch_num"], case.attrs["mbatch_dynamic_type"]) == (3, 1)
    assert [items(case, f"_pred_value_{at}") for at in range(3)] == [(1,), (2,), (5,)]
    assert items(case, "user_designate_shape_order") == ("x",)


def test_branches_are_the_gears() -> None:
    model = reload(compiled(CONVNET, **BATCH))
    names = [graph.name for graph in model.graphs]
    for at, batch in enumerate((1, 2, 5)):
        place = names.index(f"Batch_{at}")
        ops = by_name(model, place)
        suffix = f"_ascend_mbatch_batch_{at}"
        assert all(name.endswith(suffix) for name in ops)
        data, out = ops["x" + suffix], ops["NetOutput" + suffix]
        assert data.attrs["_parent_node_index"] == 1  # 0 is the index of the branch
        assert data.output_descs[0].shape == (batch, 3, 8, 8)
        assert [desc.attrs["_parent_node_index"] for desc in out.input_descs] == [0, 1]
        kernels = [op for op in ops.values() if op.type not in ("Data", "Const", "NetOutput")]
        assert {op.attrs["_batch_label"] for op in kernels} == {f"Batch_{at}"}
        launched = {task.op_id for task in model.tasks.tasks}
        assert {op.id for op in kernels if op.type != "Flatten"} <= launched
        end = max(offset for op in kernels for offset in op.output_offsets)
        assert end < model.memory_size_bytes
    ids = [op.id for graph in model.graphs for op in graph.ops]
    assert len(set(ids)) == len(ids)


def test_the_interface_lists_the_gears() -> None:
    batch, image, dims = (
        reload(compiled(text, **options))
        for text, options in ((CONVNET, BATCH), (CONVNET, IMAGE), (TOKENS, DIMS))
    )
    assert batch.interface.dynamic_batch == (1, 2, 5)
    assert [port.name for port in batch.inputs] == ["x", "ascend_mbatch_shape_data"]
    assert batch.inputs[0].origin_shape == (-1, 3, 8, 8) and batch.inputs[0].ranges[0] == (1, 5)
    assert batch.inputs[0].size_bytes == 5 * 3 * 8 * 8 * 4
    assert "2,0,5,8" in batch.interface.dynamic_output_shapes
    assert image.interface.dynamic_hw == ((8, 8), (6, 10)) and image.interface.dynamic_batch == ()
    assert dims.interface.dynamic_dims == ((1, 4, 1, 4), (2, 8, 2, 8))
    assert dims.interface.input_order == ("mask", "ids")
    assert not batch.is_dynamic


def test_a_hybrid_model_has_one_branch_more() -> None:
    model = reload(compiled(CONVNET, compile_hybrid_mode=True, **BATCH))
    case = by_name(model)["ascend_mbatch_shape_case"]
    assert case.subgraphs == ("Batch_0", "Batch_1", "Batch_2", "Dynamic")
    assert case.attrs["_batch_num"] == 3 and model.is_dynamic


def test_names_that_are_taken() -> None:
    """A model may call its inputs and itself as it likes."""
    text = """
graph Batch_0:
    opset 17
    input ascend_mbatch_shape_data: f32[N, 2]
    input NetOutput: f32[N, 2]
    y = Add(ascend_mbatch_shape_data, NetOutput)
    return y
"""
    model = reload(compiled(text, dynamic_batch_size="1,2"))
    assert len({graph.name for graph in model.graphs}) == len(model.graphs)
    assert len(by_name(model)) == len(model.root.ops)
    assert b"".join(om_chunks(read_om(b"".join(om_chunks(model))))) == b"".join(om_chunks(model))
