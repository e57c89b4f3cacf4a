"""MindIR read as graphs: what MindSpore computes, our runtime and onnxruntime compute too."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

import gerules
from gerules.frontends import load_mindir
from gerules.ir import Graph
from tests.frontends.mindir.messages import (
    arrays_of,
    data,
    export_of,
    exported,
    graph,
    model,
    number,
    old_constant,
    old_node,
    port,
    tensor,
    with_weights_beside,
)

Arrays = list[npt.NDArray[np.generic]]

REFUSED = {
    "loop_that_breaks": ("E10062", "a loop is left from inside"),
    "state": ("E10062", "changes a parameter of the model while it runs"),
}
"""What MindSpore writes and gerules does not read: the code, and words of the reason."""

READ = [name for name in exported() if name not in REFUSED]

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("GERULES_SHARED", ROOT.parent / "shared")) / "data" / "mindir"


def feeds_of(found: Graph, inputs: Arrays) -> dict[str, npt.NDArray[np.generic]]:
    return {found.values[value].name: array for value, array in zip(found.inputs, inputs, strict=True)}


def assert_alike(outputs: Arrays, wanted: Arrays) -> None:
    assert [(item.shape, item.dtype) for item in outputs] == [(item.shape, item.dtype) for item in wanted]
    for output, want in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(output, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", READ)
def test_a_model_computes_what_mindspore_computes(name: str) -> None:
    found, (inputs, wanted) = load_mindir(export_of(name)), arrays_of(name)
    shapes = {key: array.shape for key, array in feeds_of(found, inputs).items()}
    compiled = gerules.compile(found, input_shapes=shapes)
    assert_alike(list(compiled.run(feeds_of(found, inputs)).values()), wanted)


@pytest.mark.parametrize("name", READ)
def test_onnxruntime_agrees_on_the_graph(name: str, tmp_path: Path) -> None:
    found, (inputs, wanted) = load_mindir(export_of(name)), arrays_of(name)
    gerules.save(found, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    feeds = {given.name: array for given, array in zip(session.get_inputs(), inputs, strict=True)}
    assert_alike(list(session.run(None, feeds)), wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_said_with_its_reason(name: str) -> None:
    code, words = REFUSED[name]
    with pytest.raises(gerules.GerulesError) as caught:
        load_mindir(export_of(name))
    assert any(item.code.code == code and words in item.message for item in caught.value.diagnostics)
    assert all(item.place for item in caught.value.diagnostics)


@pytest.mark.parametrize("name", ["conv_bn_relu", "lenet5", "tiny_transformer"])
def test_files_of_others_compute_what_is_stored_with_them(name: str) -> None:
    path = SHARED / f"{name}.mindir"
    if not path.is_file() and not os.environ.get("GERULES_SHARED"):
        pytest.skip("third-party files are not part of the project; CI has them")
    found, stored = gerules.load(path), np.load(SHARED / f"{name}_io.npz")
    outputs = gerules.compile(found).run(feeds_of(found, [stored["x"]]))
    assert_alike(list(outputs.values()), [stored["y"]])


# ---------------------------------------------------------------- what the graph looks like
def test_names_types_and_origins_are_those_of_the_model() -> None:
    found = load_mindir(export_of("perceptron"))
    assert found.name == "Perceptron"
    assert [(found.values[item].name, str(found.values[item].type)) for item in found.inputs] == [
        ("x", "f32[2, 3, 6]")
    ]
    assert {found.values[item].name for item in found.consts} >= {
        "first.weight",
        "first.bias",
        "second.weight",
    }
    sources = [source for node in found.nodes.values() for source in node.origin.sources]
    assert "Default/first-Dense/MatMul-op0" in sources
    assert found.metadata["mindir.producer_name"] == "MindSpore"


def test_outputs_have_names_that_no_input_has() -> None:
    nodes = [old_node("ReLU", ["x"], "Net:x", (2,)), old_node("ReLU", ["Net:x"], "y", (2,))]
    main = graph("Net", nodes, [port("x", (2,))], [port("Net:x", (2,))])
    found = load_mindir(model(main))
    assert [found.values[item].name for item in (*found.inputs, *found.outputs)] == ["x", "x_1"]
    assert list(gerules.compile(found).run({"x": np.ones(2, np.float32)})) == ["x_1"]


@pytest.mark.parametrize("name", READ)
def test_names_of_inputs_and_outputs_differ(name: str) -> None:
    found = load_mindir(export_of(name))
    names = [found.values[item].name for item in (*found.inputs, *found.outputs)]
    named = [name for name in names if name]
    assert len(set(named)) == len(named)


def test_open_sizes_are_open() -> None:
    found = load_mindir(export_of("open_sizes"))
    assert [str(found.values[item].type) for item in found.inputs] == ["f32[?, 4, 3]"]
    x = np.random.default_rng(2).standard_normal((5, 4, 3)).astype(np.float32)
    outputs = list(gerules.compile(found, input_shapes={"x": (5, 4, 3)}).run({"x": x}).values())
    np.testing.assert_array_equal(outputs[0], x.reshape(5, 12))
    np.testing.assert_array_equal(outputs[1], np.broadcast_to(x[:1], (5, 4, 3)))


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("branch", {"If": 1}),
        ("branches_in_branches", {"If": 1}),
        ("loop", {"Loop": 1}),
        ("loop_with_branch", {"Loop": 1}),
        ("loops_in_loops", {"Loop": 1}),
        ("recurrence", {"LSTM": 1}),
    ],
)
def test_control_flow_becomes_nodes_with_bodies(name: str, ops: dict[str, int]) -> None:
    nodes = list(load_mindir(export_of(name)).nodes.values())
    assert {op: sum(node.op == op for node in nodes) for op in ops} == ops


def test_what_no_round_of_a_loop_changes_is_not_carried() -> None:
    (loop,) = (
        node for node in load_mindir(export_of("loop_with_branch")).nodes.values() if node.op == "Loop"
    )
    # The counter, x and t; neither the weights nor the limit.
    assert len(loop.outputs) == 3 and len(loop.bodies["body"].captures) == 3


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_loop_runs_as_often_as_its_condition_says(n: int) -> None:
    found = load_mindir(export_of("loop"))
    x = np.ones((2, 3), np.float32)
    (output,) = gerules.compile(found).run({"x": x, "n": np.array(n, np.int32)}).values()
    want = x
    for _ in range(n):
        want = want * 1.5 + 1
    np.testing.assert_allclose(output, want, rtol=1e-6)


def test_both_branches_are_taken() -> None:
    found = load_mindir(export_of("branch"))
    weight = next(
        const.array for value, const in found.consts.items() if found.values[value].name.endswith("weight")
    )
    bias = next(
        const.array for value, const in found.consts.items() if found.values[value].name.endswith("bias")
    )
    compiled, taken = gerules.compile(found), set[bool]()
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((2, 4)).astype(np.float32)
        y = x @ weight.T + bias
        taken.add(is_positive := bool(y.sum() > 0))
        want = y * 2 + x if is_positive else np.maximum(y, 0) - x
        np.testing.assert_allclose(next(iter(compiled.run({"x": x}).values())), want, rtol=1e-5, atol=1e-6)
    assert taken == {True, False}


# ---------------------------------------------------------------- weights beside the file
def test_weights_may_stand_beside_the_file(tmp_path: Path) -> None:
    inputs, wanted = arrays_of("perceptron")
    raw, beside = with_weights_beside(export_of("perceptron"), "weights/data_0")
    (tmp_path / "net.mindir").write_bytes(raw)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "data_0").write_bytes(beside)
    found = gerules.load(tmp_path / "net.mindir")
    assert_alike(list(gerules.compile(found).run(feeds_of(found, inputs)).values()), wanted)
    assert_alike(
        list(gerules.compile(load_mindir(raw, folder=tmp_path)).run(feeds_of(found, inputs)).values()), wanted
    )


@pytest.mark.parametrize(
    ("location", "content", "words"),
    [
        ("../secret", b"", "leaves the model's folder"),
        ("/etc/passwd", b"", "not relative"),
        ("missing", None, "cannot be read"),
        ("short", b"skip1234", "are wanted from byte"),
    ],
)
def test_weights_that_are_not_there_are_told(
    tmp_path: Path, location: str, content: bytes | None, words: str
) -> None:
    raw, _ = with_weights_beside(export_of("perceptron"), location)
    (tmp_path / "net.mindir").write_bytes(raw)
    if content is not None and "/" not in location:
        (tmp_path / location).write_bytes(content)
    with pytest.raises(gerules.GerulesError) as caught:
        gerules.load(tmp_path / "net.mindir")
    found = caught.value.diagnostics
    assert {item.code.code for item in found} == {"E10024"} and len(found) == 4 - 1
    assert all(words in item.message for item in found)


# ---------------------------------------------------------------- the older generation
def old_model() -> tuple[bytes, npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Conv, BatchNorm, ReLU, pool, Dense and Softmax as files before 2.x have them, and what they compute."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 2, 6, 6)), rng.standard_normal((3, 2, 3, 3))
    gamma, beta, mean = (rng.standard_normal(3) for _ in range(3))
    variance, dense = rng.uniform(0.5, 2, 3), rng.standard_normal((4, 12))
    x, w, gamma, beta, mean, variance, dense = (
        item.astype(np.float32) for item in (x, w, gamma, beta, mean, variance, dense)
    )
    window = {"pad_mode": "valid", "kernel_size": (3, 3), "stride": (1, 1, 1, 1), "dilation": (1, 1, 1, 1)}
    nodes = [
        old_node("Conv2D", ["x", "w"], "c", (1, 3, 4, 4), {**window, "group": 1, "format": "NCHW"}),
        old_node(
            "BatchNorm",
            ["c", "gamma", "beta", "mean", "variance"],
            "b",
            (1, 3, 4, 4),
            {"is_training": False, "epsilon": 1e-3, "format": "NCHW"},
        ),
        old_constant("zero", 0),
        old_node("TupleGetItem", ["b", "zero"], "b0", (1, 3, 4, 4)),
        old_node("ReLU", ["b0"], "r", (1, 3, 4, 4)),
        old_node(
            "MaxPool",
            ["r"],
            "p",
            (1, 3, 2, 2),
            {"kernel_size": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "pad_mode": "VALID"},
        ),
        old_constant("sizes", (1, 12)),
        old_node("Reshape", ["p", "sizes"], "f", (1, 12)),
        old_node("MatMul", ["f", "dense"], "d", (1, 4), {"transpose_a": False, "transpose_b": True}),
        old_node("Softmax", ["d"], "s", (1, 4), {"axis": (1,)}),
        old_node("Return", ["s"], "y", (1, 4)),
    ]
    weights = {"w": w, "gamma": gamma, "beta": beta, "mean": mean, "variance": variance, "dense": dense}
    raw = model(
        graph(
            "net", nodes, [port("x", x.shape)], [port("y", (1, 4))],
            [tensor(array, name) for name, array in weights.items()],
        )
    )  # fmt: skip
    conv = np.zeros((1, 3, 4, 4), np.float64)
    for i in range(3):
        for j in range(3):
            conv += np.einsum("nchw,oc->nohw", x[:, :, i : i + 4, j : j + 4], w[:, :, i, j])
    scale = (gamma / np.sqrt(variance + 1e-3)).reshape(1, 3, 1, 1)
    relu = np.maximum((conv - mean.reshape(1, 3, 1, 1)) * scale + beta.reshape(1, 3, 1, 1), 0)
    logits = relu.reshape(1, 3, 2, 2, 2, 2).max((3, 5)).reshape(1, 12) @ dense.T
    power = np.exp(logits - logits.max())
    return raw, x, (power / power.sum()).astype(np.float32)


def test_the_older_generation_is_read() -> None:
    raw, x, want = old_model()
    found = load_mindir(raw)
    (output,) = gerules.compile(found).run({"x": x}).values()
    np.testing.assert_allclose(output, want, rtol=1e-5, atol=1e-6)
    assert found.metadata["mindir.producer_version"] == "1.10.0"


# ---------------------------------------------------------------- all faults at once
def test_every_operator_that_is_not_read_is_listed() -> None:
    nodes = [
        old_node("ReLU", ["x"], "a", (2,)),
        old_node("Mystery", ["a"], "b", (2,)),
        old_node("Riddle", ["b"], "c", (2,)),
        old_node("Unread", ["x"], "never", (2,)),
    ]
    raw = model(graph("net", nodes, [port("x", (2,))], [port("c", (2,))]))
    with pytest.raises(gerules.GerulesError) as caught:
        load_mindir(raw)
    assert [(item.code.code, item.facts["op"], item.place) for item in caught.value.diagnostics] == [
        ("E10061", "Mystery", "node Default/Mystery-op0"),
        ("E10061", "Riddle", "node Default/Riddle-op0"),
    ]


CIRCLE = model(
    graph("g", [old_node("ReLU", ["y"], "x", ()), old_node("ReLU", ["x"], "y", ())], [], [port("x", ())])
)


@pytest.mark.parametrize(
    ("raw", "code", "words"),
    [
        (b"", "E10060", "holds no graph"),
        (data(1, "0.1.0"), "E10060", "holds no graph"),
        (model(graph("g", [], [], [])), "E10060", "no outputs"),
        (model(graph("g", [], [], [port("y", (1,))])), "E10014", "tensor y"),
        (model(graph("g", [], [port("x", (1,), 99)], [port("x", (1,))])), "E10028", "element type 99"),
        (model(graph("g", [], [port("x", (1 << 50,))], [port("x", (1,))])), "E10028", "has no meaning"),
        (
            CIRCLE,
            "E10016", "x <- y",
        ),
        (
            model(graph("g", [old_node("ReLU", ["x"], "y", (1,))] * 2, [port("x", (1,))], [port("y", (1,))])),
            "E10015", "tensor y",
        ),
        (
            model(graph("g", [], [], [port("w", (1 << 39,))],
                        [number(1, 1 << 39) + number(2, 1) + data(7, "w") + data(9, b"1234")])),
            "E10023", "bytes are wanted",
        ),
        (
            model(graph("g", [old_node("MatMul", ["x"], "y", (1,))], [port("x", (1,))], [port("y", (1,))])),
            "E10062", "argument 2 is needed",
        ),
    ],
)  # fmt: skip
def test_a_fault_has_a_code_and_says_what(raw: bytes, code: str, words: str) -> None:
    with pytest.raises(gerules.GerulesError) as caught:
        load_mindir(raw)
    assert any(item.code.code == code and words in item.message for item in caught.value.diagnostics), [
        item.message for item in caught.value.diagnostics
    ]
