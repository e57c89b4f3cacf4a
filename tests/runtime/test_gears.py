"""Gears: one file, one arena, one copy of the weights, and in each gear what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gerules.errors import GerulesError
from gerules.passes.gears import GearKind
from gerules.runtime.executor import FALLBACK, Executor
from gerules.runtime.kernels import RunError
from tests.runtime.gear_models import CONVNET, TOKENS, compiled, ort, reload

BATCH = {"input_shapes": "x:-1,3,8,8", "dynamic_batch_size": "1,2,5"}
IMAGE = {"input_shapes": "x:2,3,-1,-1", "dynamic_image_size": "8,8;6,10"}
DIMS = {"input_shapes": "ids:-1,-1;mask:-1,-1", "dynamic_dims": "1,4,1,4;2,8,2,8;3,3,3,3"}
RNG = np.random.default_rng(0)


def image(*shape: int) -> dict[str, Any]:
    return {"x": RNG.standard_normal(shape).astype(np.float32)}


def tokens(b: int, s: int) -> dict[str, Any]:
    mask = (RNG.random((b, s)) < 0.7).astype(np.float32)
    return {"ids": RNG.integers(0, 50, (b, s)), "mask": mask}


def assert_equal(text: str, executor: Executor, feeds: dict[str, Any], rtol: float, **how: Any) -> None:
    got, want = executor.run(feeds, poison=True, **how), ort(text, feeds)
    assert got.keys() == want.keys()
    for name, array in want.items():
        assert got[name].shape == array.shape
        assert np.abs(got[name] - array).max() <= rtol * max(np.abs(array).max(), 1e-6), name


@pytest.mark.parametrize(
    ("device", "precision", "rtol"), [("host", "fp32", 1e-5), ("ascend910b", "fp16", 2e-2)]
)
@pytest.mark.parametrize(
    ("text", "options", "feeds"),
    [
        (CONVNET, BATCH, [image(1, 3, 8, 8), image(2, 3, 8, 8), image(5, 3, 8, 8)]),
        (CONVNET, IMAGE, [image(2, 3, 8, 8), image(2, 3, 6, 10)]),
        (TOKENS, DIMS, [tokens(1, 4), tokens(2, 8), tokens(3, 3)]),
    ],
    ids=["batch", "image", "dims"],
)
def test_each_gear_equals_onnxruntime(
    text: str, options: dict[str, Any], feeds: list[Any], device: str, precision: str, rtol: float
) -> None:
    executor = Executor(reload(compiled(text, device, precision, **options)))
    assert executor.gears is not None and len(executor.gears.gears) == len(feeds)
    # Back and forth: what one gear leaves in the arena must not matter to the next.
    for at in (*range(len(feeds)), *reversed(range(len(feeds)))):
        assert executor.gear_of(feeds[at]) == at
        assert_equal(text, executor, feeds[at], rtol)
        assert_equal(text, executor, feeds[at], rtol, gear=at)
        assert_equal(text, executor, feeds[at], rtol, threads=True)


@pytest.mark.parametrize("target", [("host", "fp32"), ("ascend910b", "fp16")])
def test_gears_share_weights_and_arena(target: tuple[str, str]) -> None:
    model = compiled(CONVNET, *target, **BATCH)
    alone = [compiled(CONVNET, *target, input_shapes=f"x:{size},3,8,8") for size in (1, 2, 5)]
    peaks = [one.om.memory_size_bytes for one in alone]
    assert model.om.memory_size_bytes == max(peaks)
    assert [one.peak_bytes for one in model.summary().gears] == peaks
    # Besides the weights of one gear there is the table of gears.
    assert (
        alone[0].om.weights.size_bytes <= model.om.weights.size_bytes <= alone[0].om.weights.size_bytes + 512
    )


def test_a_gear_is_what_a_compile_for_its_shape_is() -> None:
    executor = Executor(reload(compiled(CONVNET, **BATCH)))
    one = Executor(reload(compiled(CONVNET, input_shapes="x:5,3,8,8")))
    feeds = image(5, 3, 8, 8)
    for name, array in one.run(feeds).items():
        np.testing.assert_array_equal(executor.run(feeds)[name], array)


def test_what_a_caller_is_told() -> None:
    executor = Executor(reload(compiled(TOKENS, **DIMS)))
    gears = executor.gears
    assert gears is not None
    assert gears.kind is GearKind.DIMS and not gears.is_hybrid
    assert [gear.values for gear in gears.gears] == [(1, 4, 1, 4), (2, 8, 2, 8), (3, 3, 3, 3)]
    assert gears.names == ("ids", "mask") == gears.order
    assert gears.open_shapes == ((-1, -1), (-1, -1)) and gears.max_shapes == ((2, 8), (2, 8))
    assert [port.name for port in executor.io.inputs] == ["ids", "mask"]
    assert str(executor.io.inputs[0].type) == "i64[B, S]"
    assert str(executor.io_of(1).inputs[0].type) == "i64[2, 8]"
    assert str(executor.io_of(2).outputs[0].type) == "f32[3, 16]"


def test_a_shape_that_is_no_gear() -> None:
    executor = Executor(reload(compiled(CONVNET, **BATCH)))
    with pytest.raises(RunError) as caught:
        executor.run(image(3, 3, 8, 8))
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E20008"
    assert "x[3, 3, 8, 8]" in fault.message and "batch 1, 2, 5" in fault.message
    assert "gear 5: x[5, 3, 8, 8]" in fault.notes
    assert "--dynamic-batch-size" in fault.hint
    with pytest.raises(RunError) as caught:
        executor.run(image(2, 3, 8, 8), gear=0)
    assert caught.value.code == "E20008" and "batch 1" in caught.value.diagnostics[0].message
    for number in (-1, 7):
        with pytest.raises(RunError):
            executor.run(image(2, 3, 8, 8), gear=number)


def test_a_fixed_size_is_no_matter_of_gears() -> None:
    executor = Executor(reload(compiled(CONVNET, **BATCH)))
    with pytest.raises(RunError) as caught:
        executor.run(image(2, 4, 8, 8))
    assert caught.value.code == "E20004"


def test_a_model_of_one_shape_says_how_to_compile_gears() -> None:
    executor = Executor(reload(compiled(CONVNET, input_shapes="x:5,3,8,8")))
    assert executor.gears is None and executor.gear_of(image(5, 3, 8, 8)) is None
    with pytest.raises(RunError) as caught:
        executor.run(image(2, 3, 8, 8))
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E20008" and "one shape, x[5, 3, 8, 8]" in fault.message
    assert '--input-shape "x:-1,3,8,8" --dynamic-batch-size 2,5' in fault.hint
    with pytest.raises(RunError) as caught:  # all faults at once
        executor.run({**image(2, 3, 8, 8), "z": 1})
    assert sorted(item.code.code for item in caught.value.diagnostics) == ["E20002", "E20008"]


def test_a_hybrid_model_runs_any_shape() -> None:
    executor = Executor(reload(compiled(CONVNET, compile_hybrid_mode=True, **BATCH)))
    assert executor.gears is not None and executor.gears.is_hybrid
    for batch, gear in ((2, 1), (3, FALLBACK), (1, 0), (7, FALLBACK)):
        feeds = image(batch, 3, 8, 8)
        assert executor.gear_of(feeds) == gear
        assert_equal(CONVNET, executor, feeds, 1e-5)
    # What --input-shape fixes stays fixed.
    with pytest.raises(RunError) as caught:
        executor.run(image(3, 3, 9, 8))
    assert caught.value.code == "E20004"


def test_faults_of_gears_are_told_once_with_the_gears() -> None:
    with pytest.raises(GerulesError) as caught:
        compiled(CONVNET, memory_limit_bytes=4096, **BATCH)
    faults = [(item.code.code, item.notes[-1]) for item in caught.value.diagnostics]
    assert faults == [("E60003", "in the gear 2"), ("E60003", "in the gear 5")]


WIDE = """
graph wide:
    opset 17
    input x: f32[N, 8, 8, 8]
    W: const f32[8, 8, 3, 3] = random(1)
    V: const f32[8, 8, 3, 3] = random(2)
    U: const f32[8, 8, 3, 3] = random(3)
    a = Conv(x, W, pads=[1, 1, 1, 1])
    b = Conv(x, V, pads=[1, 1, 1, 1])
    c = Conv(x, U, pads=[1, 1, 1, 1])
    d = Mul(a, b)
    e = Concat(d, c, axis=1)
    y = Sigmoid(e)
    return y
"""


def test_gears_on_several_streams_share_streams_and_events() -> None:
    options = {"input_shapes": "x:-1,8,8,8", "dynamic_batch_size": "1,3", "compile_hybrid_mode": True}
    model = compiled(WIDE, "ascend910b", "fp32", n_streams=3, **options)
    events = [len(branch.plans.schedule.events) for branch in model.compilation.branches if branch.plans]
    assert model.om.n_streams == 3 and model.om.n_events == max(events) > 0
    executor = Executor(reload(model))
    for batch in (1, 3, 2):
        feeds = {"x": RNG.standard_normal((batch, 8, 8, 8)).astype(np.float32)}
        assert_equal(WIDE, executor, feeds, 1e-5)
        got, want = executor.run(feeds, threads=True), ort(WIDE, feeds)
        np.testing.assert_allclose(got["y"], want["y"], rtol=1e-5)


def test_the_ledger_is_that_of_the_gear() -> None:
    model = compiled(CONVNET, "ascend910b", "fp16", **BATCH)
    for batch in (1, 2, 5):
        ledger = model.ledger(image(batch, 3, 8, 8))
        alone = compiled(CONVNET, "ascend910b", "fp16", input_shapes=f"x:{batch},3,8,8")
        assert [item.op for item in ledger.entries] == [node.op for node in alone.graph.nodes.values()]
        assert 0 < max(item.error_out or 0.0 for item in ledger.entries) < 2e-2
