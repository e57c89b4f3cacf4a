"""Operators that keep values in blocks of channels: no conversion around them, and numbers hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import gerules
from gerules.runtime.executor import load_om
from tests.models.oracle import ort_outputs, relative_error

RNG = np.random.default_rng(3)


def between_convolutions(
    path: Path, widths: tuple[int, ...], middle: list[onnx.NodeProto], made: int
) -> Path:
    """Write a model: one convolution for each width, `middle` from c0, c1, ... to m, and one after it.

    `made` counts the channels of m; the ends are convolutions, which a device computes in blocks.
    """
    weights = [
        numpy_helper.from_array(RNG.uniform(-0.3, 0.3, (width, 16, 1, 1)).astype(np.float32), f"w{at}")
        for at, width in enumerate(widths)
    ]
    weights.append(
        numpy_helper.from_array(RNG.uniform(-0.3, 0.3, (16, made, 1, 1)).astype(np.float32), "w_last")
    )
    weights += [
        numpy_helper.from_array(np.asarray(value, np.int64), name)
        for name, value in (
            ("pads", [0, 0, 1, 1, 0, 0, 2, 0]), ("pads_c", [0, 3, 0, 0, 0, 13, 0, 0]), ("sizes", [16, 32]),
            ("sizes_odd", [20, 28]), ("one", [1]), ("five", [5]), ("two", [2]), ("hw", [2, 3]), ("c", [1]),
        )
    ]  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", f"w{at}"], [f"c{at}"]) for at in range(len(widths))]
    nodes += [*middle, helper.make_node("Conv", ["m", "w_last"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 16, 6, 6))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    model = helper.make_model(
        helper.make_graph(nodes, "blocks", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def node(op: str, inputs: list[str], outputs: list[str], **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attrs)


CASES = {
    "concat of whole blocks": ((16, 32, 5), [node("Concat", ["c0", "c1", "c2"], ["m"], axis=1)], 53, 0),
    "concat counted from behind": ((16, 32), [node("Concat", ["c0", "c1"], ["m"], axis=-3)], 48, 0),
    "concat of a broken block": ((5, 32), [node("Concat", ["c0", "c1"], ["m"], axis=1)], 37, 3),
    "concat of rows": ((5, 5), [node("Concat", ["c0", "c1"], ["m"], axis=2)], 5, 0),
    "split of whole blocks": (
        (48,),
        [node("Split", ["c0", "sizes"], ["a", "b"], axis=1), node("Concat", ["b", "a"], ["m"], axis=1)],
        48,
        0,
    ),
    "split of a broken block": (
        (48,),
        [node("Split", ["c0", "sizes_odd"], ["a", "b"], axis=1), node("Concat", ["b", "a"], ["m"], axis=1)],
        48,
        2,
    ),
    "padded picture": ((5,), [node("Pad", ["c0", "pads"], ["m"])], 5, 0),
    "padded channels": ((16,), [node("Pad", ["c0", "pads_c"], ["m"])], 32, 2),
    "part of the rows": ((5,), [node("Slice", ["c0", "one", "five", "two"], ["m"])], 5, 0),
    "part of the channels": ((16,), [node("Slice", ["c0", "one", "five", "c"], ["m"])], 4, 2),
    "mean over the picture": ((16,), [node("ReduceMean", ["c0", "hw"], ["m"], keepdims=1)], 16, 0),
    "mean over the channels": ((16,), [node("ReduceMean", ["c0", "c"], ["m"], keepdims=1)], 1, 2),
}
"""Widths, the operators between, the channels they give, and conversions beyond those of input and output."""


@pytest.mark.parametrize("case", CASES)
def test_blocks_stay_whole_where_the_operator_lets_them(case: str, tmp_path: Path) -> None:
    widths, middle, made, n_conversions = CASES[case]
    path = between_convolutions(tmp_path / "m.onnx", widths, middle, made)
    compiled = gerules.compile(path, device="ascend910b")
    assert compiled.summary().n_transdata == 2 + n_conversions
    compiled.save(tmp_path / "m.om")
    x = RNG.uniform(-1, 1, (2, 16, 6, 6)).astype(np.float32)
    (want,) = ort_outputs(path, {"x": x}).values()
    (got,) = load_om(tmp_path / "m.om").run({"x": x}).values()
    assert relative_error(np.asarray(got), want) < 5e-3
