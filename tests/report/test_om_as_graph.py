"""Offline models of other tools as graph text: what a person needs, whatever the file says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.backend.om import Edge, OmError, OmGraph, OmModel, OmOp, OmTensor, read_om, write_om
from gerules.errors import GerulesError
from gerules.ir import broken_invariants, print_graph, read_graph_text, to_storage
from gerules.ir.dtype import DType
from gerules.ir.layout import Format
from gerules.report.om_graph import om_as_graph
from tests.backend.om.samples import REAL_NAMES, WEIGHT, conv_model, real_folder

SHOWN = """\
graph main:
    input image: f16[1, 3, 8, 8] @NC1HWC0
    weight: const f16[16, 3, 3, 3] @FRACTAL_Z = elided("{digest}")
    `größe/conv`: f16[1, 3, 8, 8] @NC1HWC0 = ge::Conv2D(image, weight, data_format="NCHW", \
strides=[1, 1, 2, 2])  {{stream=0, at=0, workspace=[2048]}}
    relu: f16[1, 3, 8, 8] @NC1HWC0 = ge::Relu(`größe/conv`)  {{stream=1, at=6144, after=["image"]}}
    return relu
"""


def plain(shape: tuple[int, ...] = (2,)) -> OmTensor:
    return OmTensor(1, shape, "ND", size_bytes=64)


def chain(name: str, *ops: OmOp) -> OmGraph:
    return OmGraph(name, ops)


def test_types_constants_and_plan_are_shown() -> None:
    found = om_as_graph(conv_model())
    (const,) = found.graph.consts.values()
    text = print_graph(found.graph, marks=found.marks)
    assert text == SHOWN.format(digest=const.digest.hex())
    # The constant is the logical weight of 3 channels: laid out again it is what the file holds of them.
    stored = to_storage(const.array, Format.FRACTAL_Z, DType.F16)
    np.testing.assert_array_equal(stored[..., :3], WEIGHT[..., :3])
    assert found.facts[:5] == (
        "model stem: 5 operators in 1 graphs",
        "platform 1.11.z.0",
        "arena 8192 bytes, 4096 of them for inputs and outputs",
        f"weights {conv_model().weights.size_bytes} bytes",
        "2 streams, 1 events, 4 tasks",
    )
    assert not broken_invariants(found.graph)


@pytest.mark.parametrize("name", REAL_NAMES)
def test_real_files_are_shown(name: str) -> None:
    path = real_folder() / name
    if not path.is_file():
        pytest.skip("the files of other tools are not beside this checkout")
    model = read_om(path)
    found = om_as_graph(model)
    assert not broken_invariants(found.graph)
    text = print_graph(found.graph, marks=found.marks)
    hidden = ("Data", "Const", "NetOutput")
    assert text.count("ge::") == sum(op.type not in hidden for graph in model.graphs for op in graph.ops)
    again = read_graph_text(re.sub(r'elided\("(\w+)"\)', r'file("\1", 0)', text), load=zeros)
    assert len(again.graph.nodes) == len(found.graph.nodes)


def zeros(_: str, __: int, size_bytes: int) -> bytes:
    return bytes(size_bytes)


def test_layouts_of_other_tools_become_logical_shapes() -> None:
    desc = OmTensor(2, (9, 2, 16, 16), "FRACTAL_Z", origin_shape=(3, 3, 1, 32), origin_layout="HWCN")
    data = OmTensor(2, (1, 1, 42, 42, 16), "NC1HWC0", origin_shape=(1, 42, 42, 1), origin_layout="NHWC")
    ops = (
        OmOp("x", "Data", output_descs=(data,)),
        OmOp("w", "Data", output_descs=(desc,), attrs={"index": 1}),
        OmOp("out", "NetOutput", (Edge("x"), Edge("w")), input_descs=(data, desc)),
    )
    graph = om_as_graph(OmModel("m", (chain("g", *ops),))).graph
    assert [str(graph.type_of(value)) for value in graph.inputs] == [
        "f16[1, 1, 42, 42] @NC1HWC0",
        "f16[32, 1, 3, 3] @FRACTAL_Z",
    ]


def test_a_format_that_graphs_lack_is_a_mark() -> None:
    odd = OmTensor(2, (1, 2, 3), "FRACTAL_ZN_LSTM")
    ops = (
        OmOp("x", "Data", output_descs=(plain(),)),
        OmOp("y", "Strange op!", (Edge("x"),), output_descs=(odd,)),
    )
    found = om_as_graph(OmModel("m", (chain("g", *ops),), n_streams=0))
    text = print_graph(found.graph, marks=found.marks)
    assert 'ge::_Strange_op_(x)  {layout="FRACTAL_ZN_LSTM", op_type="Strange op!"}' in text
    assert "y: f16[1, 2, 3] = " in text


def test_bodies_are_shown_once_whatever_calls_them() -> None:
    body = chain(
        "body",
        OmOp("i", "Data", output_descs=(plain(),)),
        OmOp("o", "NetOutput", (Edge("i"),), input_descs=(plain(),)),
    )
    calls = [
        OmOp(f"c{at}", "PartitionedCall", (Edge("x"),), output_descs=(plain(),), subgraphs=("body",))
        for at in range(2)
    ]
    root = chain("root", OmOp("x", "Data", output_descs=(plain(),)), *calls)
    found = om_as_graph(OmModel("m", (root, body)))
    text = print_graph(found.graph, marks=found.marks)
    assert text.count("input i") == 1 and 'calls=["body"]' in text


def test_graphs_that_call_each_other_come_to_an_end() -> None:
    n = 200
    graphs = [
        chain(
            f"g{at}",
            OmOp("x", "Data", output_descs=(plain(),)),
            OmOp(
                "c", "Call", (Edge("x"),), output_descs=(plain(),), subgraphs=(f"g{(at + 1) % n}", f"g{at}")
            ),
        )
        for at in range(n)
    ]
    found = om_as_graph(OmModel("m", tuple(graphs)))
    assert print_graph(found.graph, marks=found.marks).count("Call(") < n


def test_operators_in_any_order_are_sorted_and_a_circle_is_a_fault() -> None:
    x = OmOp("x", "Data", output_descs=(plain(),))
    y = OmOp("y", "Relu", (Edge("x"),), output_descs=(plain(),))
    z = OmOp("z", "Relu", (Edge("y"),), output_descs=(plain(),))
    found = om_as_graph(OmModel("m", (chain("g", z, y, x),))).graph
    assert not broken_invariants(found)
    assert [found.values[node.outputs[0] or 0].name for node in found.nodes.values()] == ["y", "z"]
    circle = replace(y, inputs=(Edge("z"),))
    with pytest.raises(OmError, match="E80010"):
        om_as_graph(OmModel("m", (chain("g", x, circle, z),)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_file_is_shown_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(_sample(tmp_path_factory))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    try:
        found = om_as_graph(read_om(bytes(raw)))
    except GerulesError:
        return
    assert not broken_invariants(found.graph)
    print_graph(found.graph, marks=found.marks)


_SAMPLES: dict[str, bytes] = {}


def _sample(factory: pytest.TempPathFactory) -> bytes:
    if "conv" not in _SAMPLES:
        path: Path = factory.mktemp("om") / "conv.om"
        write_om(conv_model(), path)
        _SAMPLES["conv"] = path.read_bytes()
    return _SAMPLES["conv"]
