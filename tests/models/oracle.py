"""What onnxruntime computes, and how close another result has to come to it.

onnxruntime is the independent judge of whole models: it shares no code with gerules, and with its own graph
optimisations off it runs the graph as the file has it.
"""

# onnxruntime's compiled half has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

Array = NDArray[np.generic]

TINY = 1e-30
"""The least scale an error is measured against: an output of zeros must not divide by 0."""

_ERRORS_ONLY = 3
"""Source: onnxruntime, `SessionOptions.log_severity_level`, 3 is ERROR."""


def ort_outputs(
    model: Path | str | bytes, feeds: Mapping[str, Array], *, optimise: bool = False
) -> dict[str, Array]:
    """Run `model` once in onnxruntime on the CPU.

    Args:
        model: Path of an `.onnx` file, or its bytes.
        feeds: One array for every graph input.
        optimise: Let onnxruntime rewrite the graph first. Off, it is the reference; on, a rival.

    Returns:
        The graph outputs by name, in the order of the graph.
    """
    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = 1
    source = model if isinstance(model, bytes) else str(model)
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, cast("list[Array]", session.run(names, dict(feeds))), strict=True))


def relative_error(got: Array, want: Array) -> float:
    """The largest difference, as a share of the largest wanted magnitude: max|got - want| / max|want|.

    One scale for the whole output and not one per element: in a sum of products the rounding error of an
    element follows the size of the terms, not of a result in which they happen to cancel, so a share per
    element would judge the elements near zero by their luck. The price: a fault confined to elements far
    smaller than the largest goes unseen, so a test that fears one must compare that slice by itself.

    Returns:
        0 for equal arrays; infinity when shape or type differ, or one is NaN or infinite where the other is
        not.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.size == 0:
        return 0.0
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    wide_got, wide_want = got.astype(wide), want.astype(wide)
    finite = np.isfinite(wide_want)
    if not np.array_equal(wide_got[~finite], wide_want[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(wide_got[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    worst = np.abs(wide_got[finite] - wide_want[finite]).max()
    return float(worst / max(np.abs(wide_want[finite]).max(), TINY))


def assert_close(got: Mapping[str, Array], want: Mapping[str, Array], rtol: float) -> None:
    """Fail unless every output of `got` is within `rtol` of `want` by `relative_error`.

    Outputs are matched by name; a missing or an extra one is a failure. All faults are told at once.
    """
    faults = [f"{name}: missing" for name in want if name not in got]
    faults += [f"{name}: not an output of the reference" for name in got if name not in want]
    for name in want.keys() & got.keys():
        error = relative_error(got[name], want[name])
        if not error <= rtol:
            sides = f"got {_describe(got[name])}, want {_describe(want[name])}"
            faults.append(f"{name}: relative error {error:.3g} exceeds {rtol:.3g}; {sides}")
    if faults:
        raise AssertionError("\n".join(sorted(faults)))


def _describe(array: Array) -> str:
    text = f"{array.dtype}{list(array.shape)}"
    if array.size == 0 or not np.issubdtype(array.dtype, np.number):
        return text
    return f"{text} in [{array.min()}, {array.max()}]"
