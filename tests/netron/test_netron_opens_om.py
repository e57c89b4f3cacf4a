"""Netron opens what gerules writes, and shows operators, attributes, formats and weights."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gerules.backend.om import (
    Edge,
    OmGraph,
    OmModel,
    OmOp,
    OmTensor,
    TensorValue,
    WeightsBuilder,
    bools,
    floats,
    ints,
    read_om,
    texts,
    write_om,
)
from gerules.backend.om.model import ExternalDType, IntLists, ListKind, OmList
from gerules.backend.om.numbers import FORMAT_NAMES, proto_of
from gerules.ir.dtype import DType
from tests.backend.om.samples import REAL_NAMES, WEIGHT, conv_model, real_folder
from tests.netron.viewer import Shown, open_in_netron
from tests.runtime.gear_models import CONVNET, compiled

OPERATORS = [("Data", "image"), ("Conv2D", "größe/conv"), ("Relu", "relu"), ("NetOutput", "Node_Output")]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    path = tmp_path_factory.mktemp("om") / "stem.om"
    write_om(conv_model(), path)
    return open_in_netron(path)


def test_operators_and_no_complaint(shown: Shown) -> None:
    assert shown.report["format"] == "DaVinci OM"
    assert shown.errors == []
    assert [graph["name"] for graph in shown.graphs] == ["main"]
    assert shown.operators() == OPERATORS
    assert shown.graphs[0]["dangling"] == []


def test_attributes(shown: Shown) -> None:
    assert shown.attribute("größe/conv", "strides") == "1, 1, 2, 2"
    assert shown.attribute("größe/conv", "data_format") == "NCHW"
    # Netron shows a text beyond ASCII as a list of bytes; the escape keeps it readable.
    assert shown.attribute("größe/conv", "note") == r"\u00dcbergr\u00f6\u00dfe \\ tab\u0009"
    assert shown.attribute("größe/conv", "_datadump_original_op_names") == r"gr\u00f6\u00dfe/conv, plain"


def test_formats_and_types(shown: Shown) -> None:
    conv = shown.node("größe/conv")
    assert [item["name"] for item in conv["inputs"]] == ["input", "weights"]
    kind = {"dtype": "float16", "shape": [1, 1, 8, 8, 16], "denotation": "NC1HWC0"}
    assert conv["inputs"][0]["values"] == [{"name": "image:0", "type": kind}]
    assert conv["outputs"][0]["values"][0]["type"] == kind


def test_weights(shown: Shown) -> None:
    (tensor,) = shown.report["tensors"]
    assert (tensor["name"], tensor["dtype"], tensor["shape"]) == ("weight:0", "float16", [9, 1, 16, 16])
    assert tensor["sha256"] == hashlib.sha256(WEIGHT.tobytes()).hexdigest()
    assert tensor["denotation"] == "FRACTAL_Z"


def test_every_attribute_kind_and_format(tmp_path: Path) -> None:
    attrs = {
        "an_int": -(1 << 40),
        "a_float": 0.5,
        "a_bool": True,
        "some_bytes": b"\0" * 8,
        "a_dtype": ExternalDType(0),
        "rows": IntLists(((1, 2), (), (3,))),
        "flags": bools([True, False]),
        "floats": floats([0.5, 2.0]),
        "empty": ints([]),
        "names": texts(["", "b"]),
        "dtypes": OmList(ListKind.DTYPE, (ExternalDType(3),)),
        "tensor": TensorValue(OmTensor(1, (2,)), b"\0" * 8),
    }
    ops = [OmOp("x", "Data", (None,), (), (OmTensor(1, (2,)),), (OmTensor(1, (2,)),), attrs)]
    for number, layout in FORMAT_NAMES.items():
        above, desc = ops[-1], OmTensor(1, (2,), layout)
        ops.append(OmOp(f"op{number}", "Identity", (Edge(above.name),), (), above.output_descs, (desc,)))
    path = tmp_path / "all.om"
    write_om(OmModel("all", (OmGraph("all", tuple(ops)),)), path)
    shown = open_in_netron(path)
    assert shown.errors == []
    assert len(shown.operators()) == len(ops)
    assert shown.attribute("x", "an_int") == str(-(1 << 40))
    assert shown.attribute("x", "flags") == "true, false"
    shown_layouts = [
        node["outputs"][0]["values"][0]["type"]["denotation"] for node in shown.graphs[0]["nodes"][1:]
    ]
    expected = ["FORMAT_RESERVED" if name == "RESERVED" else name for name in FORMAT_NAMES.values()]
    assert shown_layouts == expected


def test_weights_of_every_type_netron_knows(tmp_path: Path) -> None:
    builder, ops = WeightsBuilder(), []
    arrays = {
        dtype: np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.numpy)
        for dtype in (DType.F32, DType.F16, DType.F64, DType.I8, DType.U8, DType.I16, DType.U16, DType.I32,
                      DType.I64, DType.U32, DType.U64, DType.BOOL, DType.BF16)
    }  # fmt: skip
    for dtype, array in arrays.items():
        place = builder.add(array, dtype)
        desc = OmTensor(proto_of(dtype), array.shape)
        value = TensorValue(replace(desc, weight_size_bytes=place.size_bytes, data_offset=place.offset_bytes))
        ops.append(OmOp(f"const_{dtype}", "Const", output_descs=(desc,), attrs={"value": value}))
        ops.append(OmOp(f"read_{dtype}", "Identity", (Edge(f"const_{dtype}"),), (), (desc,), (desc,)))
    path = tmp_path / "types.om"
    write_om(OmModel("types", (OmGraph("types", tuple(ops)),), weights=builder.build()), path)
    shown = open_in_netron(path)
    assert shown.errors == []
    found = {tensor["name"]: tensor for tensor in shown.report["tensors"]}
    for dtype, array in arrays.items():
        tensor = found[f"const_{dtype}:0"]
        assert [float(value) for value in tensor["values"]] == array.reshape(-1).astype(float).tolist()


def test_subgraphs_stand_side_by_side(tmp_path: Path) -> None:
    x = OmTensor(1, (2,))
    body = OmGraph("body", (OmOp("inner", "Data", (None,), (), (x,), (x,), {"_parent_node_index": 0}),))
    root = OmGraph(
        "root",
        (
            OmOp("x", "Data", (None,), (), (x,), (x,)),
            OmOp("call", "PartitionedCall", (Edge("x"),), (), (x,), (x,), subgraphs=("body",)),
        ),
    )
    path = tmp_path / "two.om"
    write_om(OmModel("two", (root, body)), path)
    shown = open_in_netron(path)
    assert shown.errors == []
    assert [graph["name"] for graph in shown.graphs] == ["root", "body"]


def test_only_the_root_of_a_dynamic_model_shows(tmp_path: Path) -> None:
    path = tmp_path / "dynamic.om"
    write_om(replace(conv_model(), submodels=(conv_model("one"), conv_model("two"))), path)
    shown = open_in_netron(path)
    assert shown.errors == []
    assert shown.operators() == OPERATORS


@pytest.mark.parametrize("name", REAL_NAMES)
def test_a_real_file_written_again(name: str, tmp_path: Path) -> None:
    original = real_folder() / name
    if not original.is_file():
        pytest.skip("the files of other tools are not here")
    again = tmp_path / name
    write_om(read_om(original), again)
    before, after = open_in_netron(original), open_in_netron(again)
    assert after.errors == []
    if "dynamic" in name:
        # Its attribute names are compressed, which Netron cannot undo: only the copy shows them.
        assert {("Const", "const_1")} == set(before.operators(1)) - set(after.operators(1))
        assert after.attribute("data_i", "_parent_node_index", graph=1) == "0"
        return
    assert before.operators() == after.operators()
    digests = [[tensor.get("sha256") for tensor in one.report["tensors"]] for one in (before, after)]
    assert digests[0] == digests[1]
    for node in before.graphs[0]["nodes"]:
        twin = after.node(node["name"])
        assert twin["inputs"] == node["inputs"] and twin["outputs"] == node["outputs"]
        shown = {item["name"]: item.get("text") for item in twin["attributes"]}
        for item in node["attributes"]:
            if item["name"] not in ("_input_name_key", "_input_name_value"):
                assert shown.get(item["name"]) == item.get("text"), item["name"]


def test_a_model_with_gears(tmp_path: Path) -> None:
    path = tmp_path / "gears.om"
    write_om(compiled(CONVNET, input_shapes="x:-1,3,8,8", dynamic_batch_size="1,2,5").om, path)
    shown = open_in_netron(path)
    assert shown.errors == []
    assert [graph["name"] for graph in shown.graphs] == ["convnet", "Batch_0", "Batch_1", "Batch_2"]
    assert all(graph["dangling"] == [] for graph in shown.graphs)
    assert [type for type, _ in shown.operators()][-3:] == ["MapIndex", "Case", "NetOutput"]
    assert shown.attribute("ascend_mbatch_shape_case", "_pred_value_1") == "2"
