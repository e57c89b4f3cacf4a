"""Running by name: places for results, narrow types, faults, and models of old opsets."""

from __future__ import annotations

import contextlib
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test
import onnx.numpy_helper
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.ir import Const, DType
from gerules.runtime.kernels import KERNELS, RunError, has_kernel, run_into, run_kernel
from tests.models.oracle import ort_outputs
from tests.runtime.kernels.node_cases import NodeCase, as_call, node_cases

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"


def own_cases() -> list[NodeCase]:
    """Return the cases of one node with a kernel of our own, one data set and a tensor as result."""
    cases, _ = node_cases()
    return [case for case in cases if len(case.calls) == 1 and case.calls[0].op in KERNELS]


def test_a_result_written_into_its_place_is_the_same() -> None:
    n_direct = 0
    for case in own_cases():
        call, (values, _) = case.calls[0], case.data[0]
        inputs = [values[name] if name else None for name in call.inputs]
        wanted = run_kernel(call.op, inputs, call.attrs, opset=case.opset, n_outputs=len(call.outputs))
        if not isinstance(wanted[0], np.ndarray) or call.op in ("Bernoulli", "Dropout"):
            continue
        out = np.empty_like(wanted[0])
        found = run_into(call.op, inputs, call.attrs, out, opset=case.opset, n_outputs=len(call.outputs))
        assert found[0] is out
        assert out.dtype == object or out.tobytes() == wanted[0].tobytes(), case.name
        n_direct += 1
    assert n_direct > 1000


def test_a_result_may_take_the_place_of_an_input() -> None:
    """The memory plan may put a result where an input was that nobody reads any more."""
    for case in own_cases():
        call, (values, _) = case.calls[0], case.data[0]
        inputs = [values[name] if name else None for name in call.inputs]
        n_outputs = len(call.outputs)
        wanted = run_kernel(call.op, inputs, call.attrs, opset=case.opset, n_outputs=n_outputs)[0]
        if call.op == "Dropout" or not isinstance(wanted, np.ndarray) or wanted.dtype == object:
            continue
        for index, item in enumerate(inputs):
            if not isinstance(item, np.ndarray) or (item.shape, item.dtype) != (wanted.shape, wanted.dtype):
                continue
            place = item.copy()
            again = [place if at == index else other for at, other in enumerate(inputs)]
            run_into(call.op, again, call.attrs, place, opset=case.opset, n_outputs=n_outputs)
            assert place.tobytes() == wanted.tobytes(), case.name


def test_a_place_that_does_not_fit_is_refused() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(RunError) as fault:
        run_into("Relu", [x], {}, np.empty((3, 2), np.float32), opset=17)
    assert fault.value.code == "E70003"


@pytest.mark.parametrize("op", ["Unheard", "nowhere::Conv", "If", "Loop", "Scan", "SequenceMap"])
def test_an_unknown_operator_is_named(op: str) -> None:
    assert not has_kernel(op)
    with pytest.raises(RunError) as fault:
        run_kernel(op, [np.ones(3, np.float32)], {}, opset=21)
    assert fault.value.code == "E70001"
    assert op in str(fault.value)


def test_operators_of_other_domains_are_known() -> None:
    assert has_kernel("ai.onnx.ml::Binarizer")
    assert has_kernel("Conv")
    assert has_kernel("NonMaxSuppression")


X = np.ones((1, 2, 4, 4), np.float32)
BAD = {
    "no input": ("Relu", [], {}),
    "absent input": ("Conv", [X, None], {}),
    "channels": ("Conv", [X, np.ones((2, 3, 1, 1), np.float32)], {}),
    "kernel too large": ("Conv", [X, np.ones((2, 2, 9, 9), np.float32)], {}),
    "stride 0": ("Conv", [X, np.ones((2, 2, 1, 1), np.float32)], {"strides": (0, 1)}),
    "negative pads": ("MaxPool", [X], {"kernel_shape": (2, 2), "pads": (-1, 0, 0, 0)}),
    "kind of attribute": ("Softmax", [X], {"axis": "one"}),
    "axis": ("Softmax", [X], {"axis": 7}),
    "axis twice": ("ReduceSum", [X, np.array([1, -3])], {}),
    "shapes": ("Add", [X, np.ones(3, np.float32)], {}),
    "index": ("Gather", [X, np.array([9])], {"axis": 1}),
    "no equation": ("Einsum", [X], {}),
    "huge expand": ("Expand", [np.ones(1, np.float32), np.array([1 << 40])], {}),
    "huge constant": ("ConstantOfShape", [np.array([1 << 40, 1 << 40])], {}),
    "huge range": ("Range", [np.array(0), np.array(1 << 60), np.array(1)], {}),
    "endless range": ("Range", [np.array(0.0), np.array(np.inf), np.array(1.0)], {}),
    "range of step 0": ("Range", [np.array(0), np.array(5), np.array(0)], {}),
    "huge pad": ("Pad", [X, np.array([0, 0, 0, 0, 0, 0, 0, 1 << 50])], {}),
    "huge tile": ("Tile", [X, np.array([1 << 20, 1 << 20, 1, 1])], {}),
    "huge resize": ("Resize", [X, None, np.array([1, 1, 1e8, 1e8], np.float32)], {}),
    "huge one-hot": ("OneHot", [np.array([1]), np.array(1 << 50), np.array([0.0, 1.0])], {}),
    "huge padding": ("MaxPool", [X], {"kernel_shape": (2, 2), "pads": (1 << 40, 0, 0, 0)}),
    "huge padding of a convolution": (
        "Conv",
        [X, np.ones((1, 2, 1, 1), np.float32)],
        {"pads": (0, 0, 1 << 40, 0)},
    ),
    "huge resize of nothing": ("Resize", [X[:0], None, None, np.array([0, 2, 4, 1 << 50])], {}),
    "huge split": ("Split", [X], {"num_outputs": 1 << 60}),
    "refused by onnx.reference": ("NonMaxSuppression", [X, X], {}),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_inputs_are_refused(name: str) -> None:
    op, inputs, attrs = BAD[name]
    with pytest.raises(RunError) as fault:
        run_kernel(op, inputs, attrs, opset=17)
    assert fault.value.code == "E70002"


VALUES = st.sampled_from(
    [None, X, X[0], np.ones(0, np.float32), np.array(3), np.array([1, -1]), np.array(True)]
)
ATTRS = st.dictionaries(
    st.sampled_from(
        ["axis", "axes", "pads", "kernel_shape", "to", "mode", "perm", "group", "value", "blocksize"]
    ),
    st.sampled_from([0, -9, 1 << 62, 0.5, "edge", (1, 1), (-1,), (), DType.BF16, Const(X)]),
    max_size=3,
)


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(sorted(KERNELS)), st.lists(VALUES, max_size=5), ATTRS, st.sampled_from([1, 7, 11, 18, 23])
)
def test_no_input_escapes_as_another_exception(
    op: str, inputs: list[np.ndarray | None], attrs: dict[str, object], opset: int
) -> None:
    with contextlib.suppress(RunError):
        run_kernel(op, inputs, attrs, opset=opset, limit_bytes=1 << 20)


@pytest.mark.parametrize(
    "op", ["Conv", "MatMul", "Softmax", "LayerNormalization", "Gelu", "ReduceMean", "Erf"]
)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(op: str, dtype: type) -> None:
    generator = np.random.default_rng(1)
    shapes = {
        "Conv": [(2, 8, 9, 9), (4, 8, 3, 3), (4,)],
        "MatMul": [(7, 64), (64, 5)],
        "LayerNormalization": [(4, 32), (32,), (32,)],
    }.get(op, [(6, 40)])
    inputs = [generator.standard_normal(shape).astype(np.float32).astype(dtype) for shape in shapes]
    found = run_kernel(op, inputs, {}, opset=20)[0]
    exact = run_kernel(op, [item.astype(np.float64) for item in inputs], {}, opset=20)[0]
    assert found.dtype == dtype
    # Half a unit in the last place, and what f32 loses before.
    half_step = float(ml_dtypes.finfo(dtype).eps) / 2
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=half_step * 1.01, atol=1e-6)


@pytest.mark.parametrize("stash_type", [1, DType.F32])
def test_the_statistics_of_a_narrow_layer_norm_are_f32(stash_type: int | DType) -> None:
    x = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float16)
    ones = np.ones(32, np.float16)
    found = run_kernel("LayerNormalization", [x, ones], {"stash_type": stash_type}, opset=17, n_outputs=3)
    assert [item.dtype for item in found] == [np.float16, np.float32, np.float32]
    np.testing.assert_allclose(found[1], x.astype(np.float64).mean(axis=1, keepdims=True), atol=1e-6)


def test_doubles_stay_doubles() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5, 5))
    weight = np.random.default_rng(1).standard_normal((2, 4, 3, 3))
    found = run_kernel("Conv", [x, weight], {"pads": (1, 1, 1, 1)}, opset=17)[0]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(found, np.einsum("nchwij,mcij->nmhw", windows, weight), rtol=1e-12)


@pytest.mark.parametrize("name", ["densenet121", "inception_v2", "shufflenet", "zfnet512"])
def test_a_model_of_an_old_opset_runs(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    model = onnx.load(path)
    values = {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}
    generator = np.random.default_rng(0)
    feed = {
        item.name: generator.random([dim.dim_value for dim in item.type.tensor_type.shape.dim], np.float32)
        for item in model.graph.input
        if item.name not in values
    }
    case = NodeCase(name, model.opset_import[0].version, tuple(map(as_call, model.graph.node)), (), 0, 0)
    found = case.run(values | feed)
    for output, want in ort_outputs(path, feed, optimise=True).items():
        np.testing.assert_allclose(found[output], want, rtol=1e-4, atol=1e-5)
