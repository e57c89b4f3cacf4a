"""Every fault of a model is reported, with its code and its place, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from gerules.errors import Diagnostic, Faults
from gerules.frontends import ModelError, load, load_onnx
from tests.frontends.models import F32, model_of

SOUND = "g (float[3] x) => (float[3] y) { y = Relu(x) }"


def faults_of(model: onnx.ModelProto | bytes) -> list[Diagnostic]:
    with pytest.raises(ModelError) as caught:
        load_onnx(model)
    return list(caught.value.diagnostics)


def only_fault(model: onnx.ModelProto | bytes) -> Diagnostic:
    (fault,) = faults_of(model)
    return fault


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        ("{ y = Relu(z) }", "E10014", "tensor z is read but", "node y (Relu)"),
        ("{ z = Relu(x) }", "E10014", "tensor y", "the outputs of graph g"),
        ("{ y = Relu(x) y = Neg(x) }", "E10015", "tensor y", "node y (Neg)"),
        ("{ x = Relu(x) y = Neg(x) }", "E10015", "tensor x", "node x (Relu)"),
        ("{ a = Add(x, b) b = Neg(a) y = Neg(b) }", "E10016", "circle: a <- b <- a", "graph g"),
        ("{ y = Conv(x) }", "E10019", "Conv takes 2 to 3 inputs, not 1", "node y (Conv)"),
        ("{ y = Relu(x, x) }", "E10019", "Relu takes 1 input, not 2", "node y (Relu)"),
        ("{ y = Concat <axis = 0> () }", "E10019", "takes at least 1 input, not 0", "node y (Concat)"),
        ("{ y, z = Relu(x) }", "E10019", "Relu takes 1 output, not 2", "node y (Relu)"),
        ("{ y = Softmax <axes = 1> (x) }", "E10020", "Softmax has no attribute axes", "node y (Softmax)"),
        ("{ y = Softmax <axis = 1.0> (x) }", "E10021", "axis is float where int", "node y (Softmax)"),
        ("{ y = Cast <to = 99> (x) }", "E10021", "to is the number 99", "node y (Cast)"),
        ("{ y = Concat (x) }", "E10022", "Concat needs attribute axis", "node y (Concat)"),
        ("{ y = Relo(x) }", "E50001", "OpType Relo not supported (1 node)", ""),
        ("{ y = Gelu(x) }", "E50001", "does not exist at opset 17; its present form is of opset 20", ""),
        ("{ y = Upsample(x, x) }", "E50001", "was withdrawn at opset 10", ""),
        ("{ y = com.acme.Thing(x) }", "E10013", 'domain "com.acme"', ""),
    ],
)  # fmt: skip
def test_faults_of_nodes(text: str, code: str, message: str, place: str) -> None:
    fault = only_fault(model_of(f"g (float[3] x) => (float[3] y) {text}"))
    assert fault.code.code == code
    assert message in fault.message
    if place:
        assert fault.place == place


def test_a_misspelt_operator_comes_with_a_proposal() -> None:
    fault = only_fault(model_of("g (float[3] x) => (float[3] y) { a = Relo(x) y = Relo(a) }"))
    assert fault.hint == "did you mean Relu?"
    assert fault.notes == ("nodes: a, y",)


def test_all_faults_come_at_once() -> None:
    model = model_of(
        "g (float[3] x) => (float[3] y) { a = Relo(x) b = Softmax <ax = 1> (q) y = Concat(a, b) }"
    )
    assert sorted(item.code.code for item in faults_of(model)) == ["E10014", "E10020", "E10022", "E50001"]


def test_many_faults_of_a_kind_are_counted() -> None:
    body = " ".join(f"v{i} = Relu(u{i})" for i in range(80))
    faults = faults_of(model_of(f"g (float[3] x) => (float[3] y) {{ {body} y = Relu(x) }}"))
    assert len(faults) == 51
    assert faults[-1].message == "30 more of E10014"


def with_tensor(**fields: object) -> onnx.ModelProto:
    model = model_of("g (float[3] x) => (float[3] y) { y = Add(x, w) }")
    model.graph.initializer.add(name="w", **fields)  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (with_tensor(dims=[3], data_type=F32, raw_data=bytes(11)), "ask for 12 bytes, but it has 11"),
        (with_tensor(dims=[3], data_type=F32, float_data=[1, 2]), "asks for 3 elements, but it has 2"),
        (with_tensor(dims=[-3], data_type=F32), "negative dimension"),
        (with_tensor(dims=[1 << 40, 1 << 40], data_type=F32), "beyond any memory"),
        (with_tensor(dims=[0, 1 << 40, 1 << 40], data_type=F32), "beyond any memory"),
        (with_tensor(dims=[1] * 65, data_type=F32, float_data=[1]), "65 dimensions"),
        (with_tensor(dims=[3], data_type=77), "element type 77 is unknown"),
        (with_tensor(dims=[3], data_type=F32, segment=TensorProto.Segment(begin=0, end=1)), "segment"),
        (with_tensor(dims=[2], data_type=TensorProto.STRING, string_data=[b"a"]), "asks for 2 elements"),
        (with_tensor(dims=[3], data_type=TensorProto.INT4, int32_data=[1]), "ask for 2 bytes, but it has 1"),
    ],
)
def test_faults_of_tensors(model: onnx.ModelProto, reason: str) -> None:
    fault = only_fault(model.SerializeToString())
    assert fault.code.code == "E10023"
    assert reason in fault.message


def edit_version(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 9999


def edit_ir(model: onnx.ModelProto) -> None:
    model.ir_version = 9999


def edit_domain(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


def edit_graph(model: onnx.ModelProto) -> None:
    model.ClearField("graph")


def edit_dim(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -7


def edit_element(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 500


def edit_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(model.graph.output[0])


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (edit_version, "E10012"), (edit_ir, "E10012"), (edit_domain, "E10013"), (edit_graph, "E10011"),
        (edit_dim, "E10028"), (edit_element, "E10028"), (edit_output, "E10015"),
    ],
)  # fmt: skip
def test_faults_of_the_file(edit: Callable[[onnx.ModelProto], None], code: str) -> None:
    model = model_of(SOUND)
    edit(model)
    assert only_fault(model).code.code == code


def test_warnings_do_not_stop_the_load() -> None:
    model = model_of("g (float[3] x) => (float[3] y) { y = Relu(x) z = Neg(x) }")
    for node in model.graph.node:
        node.name = "n"
    faults = Faults()
    assert len(load_onnx(model, faults=faults).nodes) == 2
    assert [(item.code.code, item.place) for item in faults.warnings] == [
        ("E10017", "the model"),
        ("E10018", "node n (Neg)"),
    ]


FUNCTION_OPSETS = '["" : 17, "f" : 1]'


@pytest.mark.parametrize(
    ("functions", "code", "reason"),
    [
        ('<domain: "f", opset_import: ["f" : 1]> F (x) => (y) { y = f.F(x) }', "E10026", "calls itself"),
        ('<domain: "f", opset_import: ["" : 17]> F (x) => (y) { y = Relu(q) }', "E10014", "tensor q"),
        ('<domain: "f", opset_import: ["" : 17]> F (x) => (y) { z = Relu(x) }', "E10014", "tensor y"),
        ('<domain: "f", opset_import: ["" : 17]> F () => (y) { y = Constant <value_int = 1> () }', "E10019",
         "F takes at most 0 inputs"),
        ('<domain: "f", opset_import: ["" : 9]> F (x) => (y) { y = Softmax(x) }', "E10026",
         "another operator than at the model's opset 17"),
    ],
)  # fmt: skip
def test_faults_of_functions(functions: str, code: str, reason: str) -> None:
    model = model_of(
        "g (float[3] x) => (float[3] y) { y = f.F (x) }", opsets=FUNCTION_OPSETS, functions=functions
    )
    fault = faults_of(model)[0]
    assert fault.code.code == code
    assert reason in fault.message


def test_unknown_domains_are_let_through() -> None:
    model = model_of(
        "g (float[3] x) => (float[3] y) { y = acme.Thing <n = 3> (x) }", opsets='["" : 17, "acme" : 1]'
    )
    (node,) = load_onnx(model).nodes.values()
    assert (node.op, dict(node.attrs)) == ("acme::Thing", {"n": 3})


def external(tmp_path: Path, size_bytes: int = 12, **entries: str) -> Path:
    model = with_tensor(dims=[3], data_type=F32, data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": "w.bin"} | entries).items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    (tmp_path / "in").mkdir()
    (tmp_path / "out.bin").write_bytes(bytes(12))
    (tmp_path / "in" / "w.bin").write_bytes(np.arange(size_bytes // 4, dtype=np.float32).tobytes())
    (tmp_path / "in" / "link.bin").symlink_to(tmp_path / "out.bin")
    path = tmp_path / "in" / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_a_view(tmp_path: Path) -> None:
    graph = load_onnx(external(tmp_path, 20, offset="8", length="12"))
    (const,) = graph.consts.values()
    assert const.array.tolist() == [2, 3, 4]
    assert not const.array.flags.owndata
    assert not const.array.flags.writeable


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"location": "../out.bin"}, "leaves the model's folder"),
        ({"location": "link.bin"}, "is a link that leaves"),
        ({"location": "/etc/hostname"}, "is not relative"),
        ({"location": "C:\\w.bin"}, "is not relative"),
        ({"location": "..\\w.bin"}, "leaves the model's folder"),
        ({"location": "gone.bin"}, "cannot be read"),
        ({"location": "."}, "cannot be read"),
        ({"location": ""}, "names no file"),
        ({"offset": "4"}, "has 12 bytes, but 12 are wanted from byte 4"),
        ({"offset": "-4"}, "offset is no number"),
        ({"length": "8"}, "its length is 8"),
        ({"length": "1e9"}, "length is no number"),
    ],
)
def test_faults_of_external_data(tmp_path: Path, entries: dict[str, str], reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_onnx(external(tmp_path, **entries))
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E10024"
    assert reason in fault.message


def test_a_store_of_links_is_followed(tmp_path: Path) -> None:
    """Download caches keep a folder of links into a store."""
    path = external(tmp_path)
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "m.onnx").symlink_to(path)
    (cache / "w.bin").symlink_to(tmp_path / "in" / "w.bin")
    (const,) = load_onnx(cache / "m.onnx").consts.values()
    assert const.array.tolist() == [0, 1, 2]


def test_load_picks_the_reader(tmp_path: Path) -> None:
    data = model_of(SOUND).SerializeToString()
    for name in ("m.onnx", "M.ONNX", "model.bin"):
        (tmp_path / name).write_bytes(data)
        assert len(load(tmp_path / name).nodes) == 1
    (tmp_path / "notes.txt").write_text("hello")
    for name, code in (("notes.txt", "E10002"), ("gone.onnx", "E10001"), (".", "E10001"), ("\0", "E10001")):
        with pytest.raises(ModelError) as caught:
            load(tmp_path / name)
        assert caught.value.code == code


def test_sparse_initializers_become_dense() -> None:
    values = numpy_helper.from_array(np.array([5.0, 7.0], np.float32), "w")
    model = model_of("g (float[2,3] x) => (float[2,3] y) { y = Add(x, w) }")
    for indices in (np.array([1, 5], np.int64), np.array([[0, 1], [1, 2]], np.int64)):
        del model.graph.sparse_initializer[:]
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices, "i"), [2, 3])
        model.graph.sparse_initializer.append(sparse)
        (const,) = load_onnx(model).consts.values()
        assert const.array.tolist() == [[0, 5, 0], [0, 0, 7]]
    for dims in ([2, 2], [1 << 20, 1 << 20]):
        model.graph.sparse_initializer[0].dims[:] = dims
        assert only_fault(model).code.code == "E10023"


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("float[3]", "f32[2, 3] where the input is f32[3]"),
        ("float[2, 4]", "f32[2, 3] where the input is f32[2, 4]"),
        ("double[2, 3]", "f32[2, 3] where the input is f64[2, 3]"),
        ("seq(float[2, 3])", "f32[2, 3] where the input is seq(f32[2, 3])"),
        ("float[2, 3]", ""),
        ("float[N, 3]", ""),
        ("float[]", ""),  # of unknown rank
    ],
)
def test_a_default_fits_its_input(declared: str, reason: str) -> None:
    model = model_of(
        f"g (float[2, 3] x, {declared} w) => (float[2, 3] y) <float[2, 3] w = {{1, 2, 3, 4, 5, 6}}> "
        "{ y = Relu(x) }"
    )
    if not reason:
        assert load_onnx(model).defaults
        return
    fault = only_fault(model)
    assert fault.code.code == "E10023"
    assert reason in fault.message
