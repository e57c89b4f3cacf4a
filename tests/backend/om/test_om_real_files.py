"""Files that other tools wrote: ATC 1.0, GE 2.0 with several models and compressed names, HiAI phones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gerules.backend.om import OmModel, TensorValue, constant_array, read_int, read_om, read_text
from gerules.ir.layout import Format
from tests.backend.om.samples import REAL_NAMES, real_folder

ReadReal = Callable[[str], OmModel]


@pytest.fixture(scope="module")
def read_real() -> ReadReal:
    def read(name: str) -> OmModel:
        path = real_folder() / name
        if not path.is_file():
            pytest.skip("the files of other tools are not here")
        return read_om(path)

    return read


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="only CI must have the files")
@pytest.mark.parametrize("name", REAL_NAMES)
def test_shared_files_are_there_in_ci(name: str) -> None:
    assert (real_folder() / name).is_file(), "set GERULES_SHARED or put `shared` beside the checkout"


def operators(model: OmModel, graph: int = 0) -> list[tuple[str, str]]:
    """What Netron lists: every operator but the constants."""
    return [(op.type, op.name) for op in model.graphs[graph].ops if op.type != "Const"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "a3c_pong_model.om",
            [
                ("Data", "s"),
                ("Cast", "trans_Cast_0"),
                ("TransData", "trans_TransData_1"),
                ("Conv2D", "W_0/conv1/Conv2DW_0/conv1/Relu"),
                ("Conv2D", "W_0/conv2/Conv2DW_0/conv2/Relu"),
                ("Conv2D", "W_0/conv3/Conv2DW_0/conv3/Relu"),
                ("TransData", "trans_TransData_11"),
                ("TransData", "trans_TransData_13"),
                ("MatMulV2", "W_0/actor/la/MatMulW_0/actor/la/Relu6"),
                ("MatMulV2", "W_0/actor/ap/MatMul"),
                ("SoftmaxV2", "W_0/actor/ap/Softmax"),
                ("TransData", "trans_TransData_32"),
                ("ArgMaxD", "out_a"),
                ("NetOutput", "Node_Output"),
            ],
        ),
        (
            "dynamic_and_static_graph_without_unfold.om",
            [
                ("Data", "data_1"),
                ("Rank", "rank"),
                ("PartitionedCall", "known_op"),
                ("Data", "data_2"),
                ("PartitionedCall", "unknown_op"),
                ("NetOutput", "root_netoutput"),
            ],
        ),
        ("hiai_batchnorm.om", [("Data", "x"), ("BNInference", "y"), ("NetOutput", "Node_Output")]),
        ("hiai_relu.om", [("Data", "input"), ("Activation", "out"), ("NetOutput", "Node_Output")]),
        (
            "hiai_tf_conv_opversion_5.om",
            [
                ("Data", "Placeholder"),
                ("CastT", "data_cast_0"),
                ("Permute", "transpose_for_nd_data_0"),
                ("Convolution", "conv1/Conv2D"),
                ("Permute", "transpose_before_netoutput_1"),
                ("NetOutput", "Node_Output"),
            ],
        ),
        (
            "hiai_tf_softmax_infershaped.om",
            [
                ("Data", "data1"),
                ("CastT", "data_cast_0"),
                ("Softmax", "Softmax"),
                ("NetOutput", "Node_Output"),
            ],
        ),
    ],
)
def test_operators(read_real: ReadReal, name: str, expected: list[tuple[str, str]]) -> None:
    assert operators(read_real(name)) == expected


def test_an_atc_file(read_real: ReadReal) -> None:
    model = read_real("a3c_pong_model.om")
    assert (model.name, model.platform_version, model.platform_type) == ("a3c_pong_model", "1.11.z.0", 1)
    assert model.memory_size_bytes == 90624
    assert model.weights.size_bytes == 320000
    assert [(port.name, port.shape, port.layout) for port in model.inputs] == [("s", (1, 42, 42, 1), "NHWC")]
    assert [port.name for port in model.outputs] == ["out_a:0"]
    assert len(model.tasks.tasks) == 15
    ids = {op.id: op.name for op in model.root.ops}
    kernel = model.tasks.tasks[1]
    assert kernel.kernel is not None and kernel.op_id is not None
    assert ids[kernel.op_id] == "trans_Cast_0"
    assert kernel.kernel.name.startswith("te_cast_")


def test_descriptions_of_an_atc_file(read_real: ReadReal) -> None:
    model = read_real("a3c_pong_model.om")
    conv = next(op for op in model.root.ops if op.type == "Conv2D")
    x, w, b = conv.input_descs[:3]
    assert (x.shape, x.ir_format, x.origin_shape, x.origin_layout) == (
        (1, 1, 42, 42, 16), Format.NC1HWC0, (1, 42, 42, 1), "NHWC",
    )  # fmt: skip
    assert (w.ir_format, w.origin_shape, w.origin_layout) == (Format.FRACTAL_Z, (3, 3, 1, 32), "HWCN")
    assert b.shape == (32,)
    # The bytes in memory: rounded up to 32, plus 32.
    assert x.size_bytes == 1 * 1 * 42 * 42 * 16 * 2 + 32
    assert conv.is_input_const[:3] == (False, True, True)
    assert conv.input_offsets[1] == 512
    assert conv.input_names[:2] == ("__input0", "__input1")


def test_constants_of_an_atc_file(read_real: ReadReal) -> None:
    model = read_real("a3c_pong_model.om")
    constants = [op for op in model.root.ops if op.type == "Const"]
    offsets: list[int] = []
    for op in constants:
        value = op.attrs["value"]
        assert isinstance(value, TensorValue)
        assert constant_array(op, model.weights).shape == value.desc.shape
        offsets += [value.desc.data_offset] if not value.data else []
    assert min(offsets) == 512 and all(offset % 512 == 0 for offset in offsets)
    weight = constant_array(next(op for op in constants if op.name.endswith("_27")), model.weights)
    # One input channel of 16 is in use, the others are padding.
    assert weight.dtype == np.float16 and np.any(weight[..., 0]) and not np.any(weight[..., 1:])


def test_compressed_names_come_back(read_real: ReadReal) -> None:
    model = read_real("dynamic_and_static_graph_without_unfold.om")
    assert model.is_dynamic
    assert [graph.name for graph in model.graphs] == ["root", "sub_1", "sub_2"]
    assert [part.name for part in model.submodels] == ["sub_1", "sub_2"]
    for part in (model, *model.submodels):
        for graph in part.graphs:
            for op in graph.ops:
                assert not any(name.startswith("\0") for name in op.attrs)
    rank = next(op for op in model.root.ops if op.name == "rank")
    assert rank.attrs
    # The names of the parts went through two tables, and so did the texts.
    add = next(op for op in model.submodels[0].root.ops if op.type == "Add")
    assert read_text(add.attrs, "_ge_attr_op_kernel_lib_name") == "aicpu_ascend_kernel"
    data = next(op for op in model.submodels[0].root.ops if op.type == "Data")
    assert read_int(data.attrs, "_parent_node_index") == 0
    constant = next(op for op in model.submodels[0].root.ops if op.type == "Const")
    assert constant_array(constant, model.submodels[0].weights).shape == (2, 2)


def test_merged_weights_of_a_phone(read_real: ReadReal) -> None:
    model = read_real("hiai_tf_conv_opversion_5.om")
    assert not model.tasks.is_stored
    constant = next(op for op in model.root.ops if op.type == "Const")
    array = constant_array(constant, model.weights)
    assert array.dtype == np.float16 and array.shape == (64, 3, 7, 7)
    assert np.isfinite(array.astype(np.float32)).all() and 0 < np.abs(array.astype(np.float32)).max() < 10


def test_a_file_read_as_bytes_and_as_a_map_is_the_same(read_real: ReadReal) -> None:
    path = real_folder() / REAL_NAMES[0]
    mapped = read_real(REAL_NAMES[0])
    assert repr(read_om(path.read_bytes()).graphs) == repr(mapped.graphs)
    assert isinstance(path, Path)
