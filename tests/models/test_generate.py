"""The synthetic graphs: exact sizes, valid, deterministic, and alive at every depth."""

# onnx leaves the types of its checker open.
# pyright: reportUnknownMemberType=false

import numpy as np
import onnx
import pytest

from bench import generate
from tests.models.oracle import ort_outputs

LEAST = {"transformer": 1, "resnet": 1, "noop_chain": 1, "wide": 2, "branches": 6}
MAKERS = pytest.mark.parametrize("kind", generate.MAKERS)


def feed(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    (value,) = model.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return {value.name: np.random.default_rng(5).standard_normal(shape).astype(np.float32)}


def run(model: onnx.ModelProto) -> np.ndarray:
    (output,) = ort_outputs(model.SerializeToString(), feed(model)).values()
    return output


@MAKERS
def test_sizes_are_exact_and_graphs_valid(kind: str) -> None:
    for n_nodes in {LEAST[kind], 2, 6, 7, 12, 29, 30, 31, 62, 63, 64, 126, 300}:
        if n_nodes < LEAST[kind]:
            continue
        model = generate.MAKERS[kind](n_nodes)
        assert len(model.graph.node) == n_nodes
        onnx.checker.check_model(model, full_check=True)


@MAKERS
def test_too_few_nodes_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="needs"):
        generate.MAKERS[kind](LEAST[kind] - 1)


@MAKERS
def test_the_same_call_gives_the_same_bytes(kind: str) -> None:
    first, second = (generate.MAKERS[kind](200).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


@MAKERS
@pytest.mark.parametrize("n_nodes", [70, 3000])
def test_outputs_are_finite_and_vary(kind: str, n_nodes: int) -> None:
    output = run(generate.MAKERS[kind](n_nodes))
    assert np.isfinite(output).all()
    assert output.std() > 0.01


@pytest.mark.parametrize("n_nodes", [1, 12, 100])
def test_the_noop_chain_changes_nothing(n_nodes: int) -> None:
    model = generate.noop_chain(n_nodes)
    np.testing.assert_array_equal(run(model), feed(model)["x"])


def test_weights_do_not_grow_with_the_graph() -> None:
    for kind in ("transformer", "resnet", "noop_chain"):
        small, large = (generate.MAKERS[kind](n).graph.initializer for n in (100, 2000))
        assert len(small) == len(large)


def test_wide_reads_one_input_with_different_weights() -> None:
    graph = generate.wide(50).graph
    assert [node.op_type for node in graph.node] == ["MatMul"] * 49 + ["Sum"]
    assert {node.input[0] for node in graph.node[:-1]} == {"x"}
    assert len({weight.raw_data for weight in graph.initializer}) == 49


def test_branches_have_work_in_each() -> None:
    graph = generate.branches(101).graph
    branch = ["MatMul", "Add", "Relu", "MatMul", "Mul"]
    assert [node.op_type for node in graph.node] == branch * 20 + ["Sum"]
    assert [node.input[0] for node in graph.node].count("x") == 20


def test_shapes_of_blocks() -> None:
    transformer = [node.op_type for node in generate.transformer(63).graph.node]
    assert {op: transformer.count(op) for op in ("Erf", "Softmax", "ReduceMean", "MatMul")} == {
        "Erf": 1,
        "Softmax": 1,
        "ReduceMean": 4,
        "MatMul": 8,
    }
    resnet = [node.op_type for node in generate.resnet(30).graph.node]
    assert (resnet.count("Conv"), resnet.count("BatchNormalization"), resnet.count("Add")) == (9, 9, 4)
