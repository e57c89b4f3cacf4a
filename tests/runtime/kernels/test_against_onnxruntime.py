"""Random single nodes: our kernels against onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gerules.ir import Attr
from gerules.runtime.kernels import Array, run_kernel
from tests.runtime.kernels.onnxruntime_node import run_onnxruntime

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(
    op: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Attr],
    *,
    opset: int = 18,
    n_outputs: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Compare all outputs; integers must be equal."""
    wanted = run_onnxruntime(op, inputs, attrs, opset=opset, n_outputs=n_outputs)
    found = run_kernel(op, inputs, attrs, opset=opset, n_outputs=n_outputs)
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(got, want)


def random_array(seed: int, shape: Sequence[int], dtype: type = np.float32) -> Array:
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(max(limits.min, -1000), min(limits.max, 1000), shape, endpoint=True).astype(
        dtype
    )


def small_weights(seed: int, shape: Sequence[int], dtype: type) -> Array:
    """Eight-bit weights of seven bits.

    Where a processor has no VNNI, onnxruntime adds two products of u8 and s8 in sixteen bits that saturate
    (its documentation of quantisation asks for `reduce_range` there); with seven bits nothing can.
    """
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min // 2, limits.max // 2, shape, dtype, endpoint=True)


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


@st.composite
def windows(draw: st.DrawFn, rank: int, *, max_pad: int = 2) -> tuple[list[int], list[int], dict[str, Attr]]:
    """Draw spatial sizes, a kernel and the attributes of windows that fit."""
    kernel = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    dilations = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    spatial = [draw(st.integers(size, size + 7)) for size in reach]
    strides = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    attrs: dict[str, Attr] = {"strides": tuple(strides), "dilations": tuple(dilations)}
    padding = draw(st.sampled_from(["none", "explicit", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if padding == "explicit":
        limits = [min(size - 1, max_pad) for size in kernel]
        attrs["pads"] = tuple(draw(st.integers(0, limit)) for limit in [*limits, *limits])
    elif padding != "none":
        attrs["auto_pad"] = padding
        # Where SAME needs no padding, onnxruntime's pools begin inside the input; ONNX clamps to none.
        # With dilations onnxruntime gives other sizes than ONNX's shape inference.
        if padding != "VALID":
            attrs["dilations"] = (1,) * rank
            kernel = [max(size, int(stride)) for size, stride in zip(kernel, strides, strict=True)]
            spatial = [max(size, need) for size, need in zip(spatial, kernel, strict=True)]
    return spatial, kernel, attrs


@QUICK
@given(st.data(), st.integers(1, 3), st.integers(1, 3), sizes, sizes, st.booleans(), seeds)
def test_conv(data: st.DataObject, rank: int, groups: int, c: int, m: int, has_bias: bool, seed: int) -> None:
    spatial, kernel, attrs = data.draw(windows(rank))
    x = random_array(seed, (2, c * groups, *spatial))
    weight = random_array(seed + 1, (m * groups, c, *kernel))
    bias = random_array(seed + 2, (m * groups,)) if has_bias else None
    check("Conv", [x, weight] if bias is None else [x, weight, bias], {**attrs, "group": groups})


@QUICK
@given(st.data(), st.integers(1, 3), st.integers(2, 7), seeds)
def test_depthwise_conv(data: st.DataObject, rank: int, channels: int, seed: int) -> None:
    spatial, kernel, attrs = data.draw(windows(rank))
    x, weight = random_array(seed, (2, channels, *spatial)), random_array(seed + 1, (channels, 1, *kernel))
    check("Conv", [x, weight], {**attrs, "group": channels})


@pytest.mark.parametrize("scratch_bytes", [1, 3000, 20_000])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_in_small_tiles(monkeypatch: pytest.MonkeyPatch, scratch_bytes: int, groups: int) -> None:
    monkeypatch.setattr("gerules.runtime.kernels.convolution._SCRATCH_BYTES", scratch_bytes)
    x, weight = random_array(0, (3, 4, 9, 11)), random_array(1, (6, 4 // groups, 3, 2))
    check("Conv", [x, weight], {"pads": (1, 0, 1, 1), "group": groups})
    x, weight = random_array(0, (2, 2, 5, 4, 6)), random_array(1, (4, 2 // groups, 2, 3, 2))
    check("Conv", [x, weight], {"strides": (1, 1, 2), "group": groups})


@QUICK
@given(st.data(), st.integers(1, 3), st.integers(1, 3), sizes, sizes, seeds)
def test_conv_transpose(data: st.DataObject, rank: int, groups: int, c: int, m: int, seed: int) -> None:
    spatial, kernel, attrs = data.draw(windows(rank, max_pad=1))
    assume(rank < 3)
    attrs.pop("auto_pad", None)
    strides = attrs["strides"]
    assert isinstance(strides, tuple)
    extra = tuple(data.draw(st.integers(0, int(stride) - 1)) for stride in strides)
    x = random_array(seed, (2, c * groups, *spatial))
    weight = random_array(seed + 1, (c * groups, m, *kernel))
    check("ConvTranspose", [x, weight], {**attrs, "group": groups, "output_padding": extra})


@QUICK
@given(st.data(), st.integers(1, 3), st.booleans(), st.sampled_from([1, 2]), seeds)
def test_max_pool(data: st.DataObject, rank: int, ceil_mode: bool, n_outputs: int, seed: int) -> None:
    spatial, kernel, attrs = data.draw(windows(rank))
    attrs |= {"kernel_shape": tuple(kernel), "ceil_mode": int(ceil_mode and "auto_pad" not in attrs)}
    check("MaxPool", [random_array(seed, (2, 3, *spatial))], attrs, opset=12, n_outputs=n_outputs)


@QUICK
@given(st.data(), st.integers(1, 3), st.booleans(), st.booleans(), seeds)
def test_average_pool(data: st.DataObject, rank: int, ceil_mode: bool, count_pad: bool, seed: int) -> None:
    spatial, kernel, attrs = data.draw(windows(rank))
    attrs |= {"kernel_shape": tuple(kernel), "ceil_mode": int(ceil_mode and "auto_pad" not in attrs)}
    attrs["count_include_pad"] = int(count_pad)
    check("AveragePool", [random_array(seed, (2, 3, *spatial))], attrs, opset=19)


@QUICK
@given(
    sizes, sizes, sizes, st.booleans(), st.booleans(), st.sampled_from(["none", "1", "N", "1N", "MN"]), seeds
)
def test_gemm(m: int, k: int, n: int, a_turned: bool, b_turned: bool, c_shape: str, seed: int) -> None:
    a = random_array(seed, (k, m) if a_turned else (m, k))
    b = random_array(seed + 1, (n, k) if b_turned else (k, n))
    shapes = {"1": (1,), "N": (n,), "1N": (1, n), "MN": (m, n)}
    inputs = [a, b] if c_shape == "none" else [a, b, random_array(seed + 2, shapes[c_shape])]
    attrs: dict[str, Attr] = {"transA": int(a_turned), "transB": int(b_turned), "alpha": 0.5, "beta": 1.25}
    check("Gemm", inputs, attrs)


@QUICK
@given(st.lists(st.integers(1, 3), max_size=2), sizes, sizes, sizes, st.booleans(), st.booleans(), seeds)
def test_matmul(lead: list[int], m: int, k: int, n: int, a_flat: bool, b_flat: bool, seed: int) -> None:
    a = random_array(seed, (m, k) if a_flat else (*lead, m, k))
    b = random_array(seed + 1, (k, n) if b_flat else (*lead, k, n))
    check("MatMul", [a, b], {})


@QUICK
@given(sizes, sizes, sizes, st.booleans(), st.sampled_from(["none", "scalar"]), seeds)
def test_matmul_integer(m: int, k: int, n: int, is_signed: bool, zeros: str, seed: int) -> None:
    kind = np.int8 if is_signed else np.uint8
    a, b = random_array(seed, (m, 60 * k), np.uint8), small_weights(seed + 1, (60 * k, n), kind)
    extra = [] if zeros == "none" else [np.uint8(129).reshape(()), kind(7).reshape(())]
    check("MatMulInteger", [a, b, *map(np.asarray, extra)], {})


@QUICK
@given(sizes, sizes, sizes, st.booleans(), seeds)
def test_matmul_integer_saturates_nowhere(m: int, k: int, n: int, is_signed: bool, seed: int) -> None:
    a = random_array(seed, (m, 60 * k), np.uint8)
    b = random_array(seed + 1, (60 * k, n), np.int8 if is_signed else np.uint8)
    found = run_kernel("MatMulInteger", [a, b], {}, opset=18)[0]
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


@st.composite
def shapes(draw: st.DrawFn, max_rank: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=max_rank)))


@QUICK
@given(st.data(), shapes(), st.sampled_from([np.float32, np.int64]), seeds)
def test_slice(data: st.DataObject, shape: tuple[int, ...], dtype: type, seed: int) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    far = st.integers(-8, 8) | st.sampled_from([-(2**63), 2**63 - 1, -(2**31), 2**31 - 1])
    starts = [data.draw(far) for _ in axes]
    ends = [data.draw(far) for _ in axes]
    steps = [data.draw(st.integers(-3, 3).filter(bool)) for _ in axes]
    # onnxruntime reads a huge end as "to the very end" backwards too, where ONNX has INT_MIN for it.
    ends = [min(end, 8) if step < 0 else end for end, step in zip(ends, steps, strict=True)]
    signed = [axis - data.draw(st.sampled_from([0, len(shape)])) for axis in axes]
    inputs = [
        random_array(seed, shape, dtype),
        *(np.array(item, np.int64) for item in (starts, ends, signed, steps)),
    ]
    check("Slice", inputs, {}, opset=13)


@QUICK
@given(st.data(), shapes(), st.sampled_from(["constant", "reflect", "edge", "wrap"]), seeds)
def test_pad(data: st.DataObject, shape: tuple[int, ...], mode: str, seed: int) -> None:
    limits = [size - 1 if mode == "reflect" else size for size in shape]
    low = 0 if mode != "constant" else -1
    amounts = [data.draw(st.integers(low, limit)) for limit in [*limits, *limits]]
    assume(all(size + a + b > 0 for size, a, b in zip(shape, amounts, amounts[len(shape) :], strict=False)))
    inputs = [random_array(seed, shape), np.array(amounts, np.int64), np.array(1.5, np.float32)]
    check("Pad", inputs, {"mode": mode}, opset=19)


REDUCTIONS = ["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp"]


@QUICK
@given(st.data(), shapes(), st.sampled_from(REDUCTIONS), st.booleans(), seeds)
def test_reduce(data: st.DataObject, shape: tuple[int, ...], name: str, keep: bool, seed: int) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    inputs = [random_array(seed, shape), np.array(axes, np.int64)]
    check(f"Reduce{name}", inputs, {"keepdims": int(keep)}, opset=18)


@QUICK
@given(st.data(), shapes(), st.sampled_from(["ArgMax", "ArgMin"]), st.booleans(), st.booleans(), seeds)
def test_position(
    data: st.DataObject, shape: tuple[int, ...], op: str, keep: bool, last: bool, seed: int
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = random_array(seed, shape, np.int32) // 400
    check(op, [x], {"axis": axis, "keepdims": int(keep), "select_last_index": int(last)}, opset=13)


LINEAR_COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]


@QUICK
@given(st.data(), st.sampled_from(["nearest", "linear", "cubic"]), st.sampled_from(LINEAR_COORDINATES), seeds)
def test_resize(data: st.DataObject, mode: str, coordinates: str, seed: int) -> None:
    shape = (1, 2, data.draw(st.integers(2, 7)), data.draw(st.integers(2, 7)))
    # Powers of two and sizes for align_corners: places that no rounding of f32 moves to another side.
    if mode == "nearest":
        factors = [data.draw(st.sampled_from([0.5, 1.0, 2.0, 4.0])) for _ in range(2)]
        outs = [max(1, int(size * factor)) for size, factor in zip(shape[2:], factors, strict=True)]
        assume(coordinates != "align_corners")
        assume(all(size * factor == out for size, factor, out in zip(shape[2:], factors, outs, strict=True)))
    else:
        outs = [data.draw(st.integers(2, 12)) for _ in range(2)]
    attrs: dict[str, Attr] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attrs["nearest_mode"] = data.draw(
            st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        )
    inputs = [random_array(seed, shape), None, None, np.array([*shape[:2], *outs], np.int64)]
    check("Resize", inputs, attrs, opset=13, rtol=1e-3, atol=1e-4)


@QUICK
@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from(["nearest", "linear"]), seeds)
def test_upsample(height: int, width: int, mode: str, seed: int) -> None:
    inputs = [random_array(seed, (1, 2, 3, 4)), np.array([1, 1, height, width], np.float32)]
    check("Upsample", inputs, {"mode": mode}, opset=9)


@QUICK
@given(st.data(), shapes(), st.booleans(), seeds)
def test_top_k(data: st.DataObject, shape: tuple[int, ...], largest: bool, seed: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = data.draw(st.integers(1, shape[axis]))
    x = (random_array(seed, shape, np.int64) // 300).astype(np.float32)
    attrs: dict[str, Attr] = {"axis": axis, "largest": int(largest), "sorted": 1}
    check("TopK", [x, np.array([k], np.int64)], attrs, opset=11, n_outputs=2)


@QUICK
@given(st.data(), shapes(3), st.sampled_from(["none", "add", "mul", "max", "min"]), seeds)
def test_scatter_elements(data: st.DataObject, shape: tuple[int, ...], mode: str, seed: int) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    inner = [data.draw(st.integers(1, size)) for size in shape]
    generator = np.random.default_rng(seed)
    order = np.argsort(generator.random((*inner[:axis], shape[axis], *inner[axis + 1 :])), axis=axis)
    indices = order[(slice(None),) * axis + (slice(inner[axis]),)].astype(np.int64)
    inputs = [random_array(seed, shape), indices, random_array(seed + 1, indices.shape)]
    check("ScatterElements", inputs, {"axis": axis, "reduction": mode}, opset=18)


@QUICK
@given(st.data(), shapes(3), shapes(2), seeds)
def test_gather(data: st.DataObject, shape: tuple[int, ...], places: tuple[int, ...], seed: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    indices = np.random.default_rng(seed).integers(-size, size, places)
    check("Gather", [random_array(seed, shape), indices], {"axis": axis}, opset=13)


UNARY: dict[str, dict[str, Attr]] = {
    "Relu": {}, "Sigmoid": {}, "Tanh": {}, "Erf": {}, "Softplus": {}, "Softsign": {}, "Selu": {}, "Mish": {},
    "Elu": {"alpha": 0.7}, "Celu": {"alpha": 0.7}, "LeakyRelu": {"alpha": 0.1}, "HardSigmoid": {"alpha": 0.3},
    "HardSwish": {}, "ThresholdedRelu": {"alpha": 0.5}, "Shrink": {"bias": 0.1, "lambd": 0.3},
    "Exp": {}, "Sqrt": {}, "Abs": {}, "Neg": {}, "Floor": {}, "Ceil": {}, "Round": {}, "Sign": {},
    "Reciprocal": {}, "Sin": {}, "Cos": {}, "Atan": {},
}  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    x = np.concatenate(
        (random_array(0, (2000,)) * 5, np.array([0, 30, -30, 88, -88, np.inf, -np.inf], np.float32))
    )
    if op in ("Sin", "Cos"):
        x = x[np.isfinite(x)]
    if op == "Mish":
        x = x[np.isfinite(x)]
    if op in ("Sqrt",):
        x = np.abs(x)
    check(op, [x], UNARY[op], opset=18, rtol=2e-5, atol=1e-6)


def test_gelu() -> None:
    for approximate in ("none", "tanh"):
        check("Gelu", [random_array(0, (5000,)) * 3], {"approximate": approximate}, opset=20, atol=1e-5)


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(op: str, opset: int, axis: int) -> None:
    x = random_array(3, (3, 4, 5)) * 20
    check(op, [x], {"axis": axis}, opset=opset)
    check(op, [x], {}, opset=opset)


@pytest.mark.parametrize("op", ["Div", "Mod", "Pow"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_arithmetic(op: str, dtype: type) -> None:
    a, b = random_array(0, (500,), dtype), random_array(1, (500,), dtype)
    b[b == 0] = 3
    if op == "Pow":
        a, b = a % 7, np.abs(b) % 5
    check(op, [a, b], {}, opset=15)


@QUICK
@given(st.data(), sizes, sizes, st.booleans(), seeds)
def test_qlinear_conv(data: st.DataObject, c: int, m: int, has_bias: bool, seed: int) -> None:
    spatial, kernel, attrs = data.draw(windows(2))
    # onnxruntime pads with the zero point in SAME modes of its own; explicit pads are what is tested.
    attrs.pop("auto_pad", None)
    x, weight = (
        random_array(seed, (1, c, *spatial), np.uint8),
        small_weights(seed + 1, (m, c, *kernel), np.int8),
    )
    scales = [np.array(value, np.float32) for value in (0.02, 0.01, 0.7)]
    zeros = [np.array(3, np.uint8), np.array(0, np.int8), np.array(128, np.uint8)]
    inputs = [x, scales[0], zeros[0], weight, scales[1], zeros[1], scales[2], zeros[2]]
    if has_bias:
        inputs.append(random_array(seed + 2, (m,), np.int32))
    wanted = run_onnxruntime("QLinearConv", inputs, attrs, opset=13)[0]
    found = run_kernel("QLinearConv", inputs, attrs, opset=13)[0]
    assert found.dtype == wanted.dtype
    # A tie may fall to either side: the factor is rounded to f32 at different moments.
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


@QUICK
@given(
    st.sampled_from(["RNN", "GRU", "LSTM"]),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.tuples(*[st.integers(1, 4)] * 4),
    st.tuples(*[st.booleans()] * 5),
    st.data(),
    seeds,
)
def test_recurrence(
    op: str, direction: str, shape: tuple[int, ...], flags: tuple[bool, ...], data: st.DataObject, seed: int
) -> None:
    n_steps, batch, n_in, hidden = shape
    has_bias, has_lengths, has_state, is_variant, has_peepholes = flags
    n_gates, n_states = {"RNN": (1, 1), "GRU": (3, 1), "LSTM": (4, 2)}[op]
    n = 2 if direction == "bidirectional" else 1
    lengths = data.draw(st.lists(st.integers(1, n_steps), min_size=batch, max_size=batch))
    inputs: list[Array | None] = [
        random_array(seed, (n_steps, batch, n_in)),
        random_array(seed + 1, (n, n_gates * hidden, n_in)),
        random_array(seed + 2, (n, n_gates * hidden, hidden)),
        random_array(seed + 3, (n, 2 * n_gates * hidden)) if has_bias else None,
        np.array(lengths, np.int32) if has_lengths else None,
    ]
    inputs += [
        random_array(seed + 4 + at, (n, batch, hidden)) if has_state else None for at in range(n_states)
    ]
    if op == "LSTM":
        inputs.append(random_array(seed + 6, (n, 3 * hidden)) if has_peepholes else None)
    attrs: dict[str, Attr] = {"direction": direction, "hidden_size": hidden}
    if is_variant:
        attrs |= {"GRU": {"linear_before_reset": 1}, "LSTM": {"input_forget": 1}, "RNN": {"clip": 0.5}}[op]
    check(op, inputs, attrs, opset=14, n_outputs=1 + n_states)


def test_erf_is_accurate_in_both_types() -> None:
    x = np.concatenate((np.linspace(-6.5, 6.5, 20001), [0.0, 1e-300, -1e-20, np.inf, -np.inf]))
    wanted = np.array([math.erf(item) for item in x])
    np.testing.assert_allclose(run_kernel("Erf", [x], opset=13)[0], wanted, rtol=4e-16, atol=0)
    narrow = x.astype(np.float32)
    wanted = np.array([math.erf(float(item)) for item in narrow])
    np.testing.assert_allclose(run_kernel("Erf", [narrow], opset=13)[0], wanted, rtol=5e-7, atol=0)
    assert np.isnan(run_kernel("Erf", [np.array([np.nan])], opset=13)[0][0])
