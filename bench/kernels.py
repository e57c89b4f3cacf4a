"""Time of single kernels as a ratio to onnxruntime, one thread each, measured in turn in one run.

Run `python bench/kernels.py`; prints a table, or with `--json` one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping

# Read by OpenBLAS when numpy loads it.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import onnx
import onnx.helper
import onnxruntime as ort

from gerules.ir import Attr
from gerules.runtime.kernels import Array, run_kernel

_OPSET = 20
_N_ROUNDS = 30

_RNG = np.random.default_rng(0)


def _random(*shape: int) -> Array:
    return _RNG.standard_normal(shape, np.float32)


def _cases() -> dict[str, tuple[str, dict[str, Attr], list[Array]]]:
    image = _random(1, 64, 56, 56)
    same = {"pads": (1, 1, 1, 1)}
    channel = [abs(_random(64)) for _ in range(4)]
    return {
        "Conv 3x3, 64 to 64, 56x56": ("Conv", same, [image, _random(64, 64, 3, 3)]),
        "Conv 3x3, 256 to 256, 14x14": ("Conv", same, [_random(1, 256, 14, 14), _random(256, 256, 3, 3)]),
        "Conv 7x7 stride 2, 3 to 64, 224x224": (
            "Conv",
            {"pads": (3, 3, 3, 3), "strides": (2, 2)},
            [_random(1, 3, 224, 224), _random(64, 3, 7, 7)],
        ),
        "Conv 1x1, 256 to 64, 56x56": ("Conv", {}, [_random(1, 256, 56, 56), _random(64, 256, 1, 1)]),
        "Conv 3x3 depthwise, 64, 56x56": ("Conv", {**same, "group": 64}, [image, _random(64, 1, 3, 3)]),
        "Conv 3x3 depthwise stride 2, 64, 56x56": (
            "Conv",
            {**same, "group": 64, "strides": (2, 2)},
            [image, _random(64, 1, 3, 3)],
        ),
        "MatMul 512x512x512": ("MatMul", {}, [_random(512, 512), _random(512, 512)]),
        "MatMul 128x768x3072": ("MatMul", {}, [_random(1, 128, 768), _random(768, 3072)]),
        "MaxPool 3x3 stride 2, 64, 56x56": (
            "MaxPool",
            {**same, "kernel_shape": (3, 3), "strides": (2, 2)},
            [image],
        ),
        "BatchNormalization 64, 56x56": ("BatchNormalization", {}, [image, *channel]),
        "LayerNormalization 128x768": (
            "LayerNormalization",
            {},
            [_random(1, 128, 768), _random(768), _random(768)],
        ),
        "Softmax 12x128x128": ("Softmax", {}, [_random(1, 12, 128, 128)]),
        "Erf 128x3072": ("Erf", {}, [_random(1, 128, 3072)]),
        "Gelu 128x3072": ("Gelu", {}, [_random(1, 128, 3072)]),
        "Relu 64, 56x56": ("Relu", {}, [image]),
        "Add 64, 56x56": ("Add", {}, [image, _random(1, 64, 56, 56)]),
        "Resize linear x2, 64, 56x56": (
            "Resize",
            {"mode": "linear"},
            [image, np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
        ),
    }


def _session(op: str, attrs: Mapping[str, Attr], inputs: list[Array]) -> ort.InferenceSession:
    names = [f"i{index}" for index in range(len(inputs))]
    node = onnx.helper.make_node(op, names, ["o"], **attrs)
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(item.dtype), item.shape)
        for name, item in zip(names, inputs, strict=True)
    ]
    graph = onnx.helper.make_graph(
        [node], op, infos, [onnx.helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, None)]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", _OPSET)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _best_us(calls: list[Callable[[], object]]) -> list[float]:
    """Return the shortest time of each call; they take turns, so that both meet the same noise."""
    best = [float("inf")] * len(calls)
    for _ in range(_N_ROUNDS):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[index] = min(best[index], (time.perf_counter() - start) * 1e6)
    return best


def measure() -> dict[str, dict[str, float]]:
    """Return for each case our time and onnxruntime's, in microseconds, and their ratio."""
    found: dict[str, dict[str, float]] = {}
    for name, (op, attrs, inputs) in _cases().items():
        session = _session(op, attrs, inputs)
        feed = {f"i{index}": item for index, item in enumerate(inputs)}

        def ours(op: str = op, attrs: Mapping[str, Attr] = attrs, inputs: list[Array] = inputs) -> object:
            return run_kernel(op, inputs, attrs, opset=_OPSET)

        def theirs(session: ort.InferenceSession = session, feed: Mapping[str, Array] = feed) -> object:
            return session.run(None, feed)

        np.testing.assert_allclose(ours()[0], theirs()[0], rtol=1e-3, atol=1e-3)
        our_us, their_us = _best_us([ours, theirs])
        found[name] = {"gerules_us": our_us, "onnxruntime_us": their_us, "ratio": our_us / their_us}
    return found


def main() -> None:
    """Measure and print."""
    found = measure()
    if "--json" in sys.argv:
        print(json.dumps(found, indent=1))
        return
    for name, row in found.items():
        print(f"{name:42} {row['gerules_us']:9.0f} us {row['onnxruntime_us']:9.0f} us {row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
