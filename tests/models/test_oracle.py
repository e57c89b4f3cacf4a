"""The oracle's measure of closeness: what it lets pass and what it does not."""

# onnx leaves the types of its checker open.
# pyright: reportUnknownMemberType=false

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto, helper

from tests.models.oracle import Array, assert_close, ort_outputs, relative_error

NAN, INF = np.nan, np.inf

FLOATS = arrays(np.float32, (2, 3), elements=st.floats(-1e6, 1e6, width=32))


@given(FLOATS)
def test_an_array_is_at_no_distance_from_itself(array: np.ndarray) -> None:
    assert relative_error(array, array.copy()) == 0


@given(FLOATS, st.floats(1e-3, 0.5), st.integers(0, 5))
def test_the_largest_element_sets_the_scale(array: np.ndarray, share: float, at: int) -> None:
    array[0, 0] = 2e6
    moved = array.astype(np.float64)
    moved.flat[at] += share * 2e6
    assert relative_error(moved, array.astype(np.float64)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ([1.0, NAN], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, NAN]),
        ([1.0, INF], [1.0, 2.0]),
        ([1.0, INF], [1.0, -INF]),
        ([[1.0, 2.0]], [1.0, 2.0]),
        ([1.0], [1.0, 2.0]),
        ([1e-3, 0.0], [0.0, 0.0]),
    ],
    ids=["nan", "nan wanted", "infinite", "sign of infinity", "rank", "length", "zeros wanted"],
)
def test_what_no_tolerance_excuses(got: list[float], want: list[float]) -> None:
    with pytest.raises(AssertionError, match="y: relative error"):
        assert_close({"y": np.array(got)}, {"y": np.array(want)}, rtol=1.0)


def test_types_must_agree() -> None:
    ones = np.ones(3, np.float32)
    assert relative_error(ones.astype(np.float16), ones) == INF


def test_equal_infinities_and_nans_are_close_and_do_not_hide_the_rest() -> None:
    want = np.array([NAN, INF, 1.0])
    assert relative_error(want.copy(), want) == 0
    assert relative_error(np.array([NAN, INF, 1.5]), want) == 0.5


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.complex64])
def test_every_numeric_type_can_be_compared(dtype: type[np.generic]) -> None:
    want: Array = np.array([0, 1], dtype)
    assert relative_error(want.copy(), want) == 0
    assert relative_error(want[::-1].copy(), want) == 1


def test_empty_and_scalar_outputs_are_compared() -> None:
    empty = np.zeros((0, 4), np.float32)
    scalar = np.array(2, np.float32)
    assert_close({"e": empty, "s": scalar}, {"e": empty, "s": scalar.copy()}, rtol=0)
    with pytest.raises(AssertionError):
        assert_close({"e": empty.reshape(4, 0)}, {"e": empty}, rtol=0)


def test_all_faults_are_told_at_once() -> None:
    one, two = np.ones(1), np.full(1, 2.0)
    with pytest.raises(AssertionError) as failure:
        assert_close({"a": one, "extra": one}, {"a": two, "gone": one}, rtol=0.1)
    told = str(failure.value)
    assert "a: relative error 0.5 exceeds 0.1" in told
    assert "gone: missing" in told
    assert "extra: not an output" in told


def test_onnxruntime_gives_outputs_by_name_in_graph_order() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("z", "a")]
    nodes = [helper.make_node("Neg", ["x"], ["z"]), helper.make_node("Abs", ["z"], ["a"])]
    graph = helper.make_graph(nodes, "two", [x], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    for optimise in (False, True):
        got = ort_outputs(model.SerializeToString(), {"x": np.array([1, -2], np.float32)}, optimise=optimise)
        assert list(got) == ["z", "a"]
        np.testing.assert_array_equal(got["z"], np.array([-1, 2], np.float32))
        np.testing.assert_array_equal(got["a"], np.array([1, 2], np.float32))
