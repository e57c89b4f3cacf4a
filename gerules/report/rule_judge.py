"""Whether both sides of a rule compute the same, noise of rounding aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from gerules.errors import GerulesError
from gerules.ir import Attr, Const, DType, Graph, TensorType
from gerules.report.rule_bench import Trial, compare
from gerules.report.rule_graphs import Instance
from gerules.report.rule_inputs import Array

TIGHT: Final = 2.0**-21
"""How far results in float64 may part, relative to the largest: attributes of ONNX are rounded to float32."""

NOISE: Final = 8.0
"""How much farther from the truth than the left side the right side may be."""

_DIVISIONS: Final = frozenset({"Div", "Mod", "RealDiv", "FloorDiv", "FloorMod"})

_EPSILON: Final[Mapping[str, float]] = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
}  # fmt: skip


class Undefined(Exception):  # noqa: N818 - an outcome, not a fault
    """What an instance computes is not defined: it cannot tell a rule right or wrong."""


def compute_left(trial: Trial, instance: Instance) -> list[Array]:
    """Return the results of an instance before the rule.

    Raises:
        Undefined: integers are divided by zero, a quantization has a scale that is not positive, or a
            window leaves nothing.
        GerulesError: the results cannot be computed.
    """
    graph, feeds = instance.graph, instance.feeds
    if has_odd_scale(instance):
        raise Undefined
    divisors, windowed = _divisors(graph), _windowed(graph)
    known = {value: const.array for value, const in graph.consts.items()}
    known |= {value: feeds[graph.values[value].name] for value in graph.inputs}
    asked = [
        value for value in dict.fromkeys((*divisors, *windowed)) if value not in {*known, *graph.outputs}
    ]
    found = trial.compute(replace(graph, outputs=(*graph.outputs, *asked)), feeds)
    results = found[: len(found) - len(asked)]
    known |= dict(zip(dict.fromkeys(graph.outputs), results, strict=True))
    known |= dict(zip(asked, found[len(results) :], strict=True))
    if not all(np.all(known[value]) for value in divisors) or not all(
        known[value].size for value in windowed
    ):
        raise Undefined
    return results


def _divisors(graph: Graph) -> list[int]:
    """Return the values that integers are divided by."""
    found: list[int] = []
    for node in graph.nodes.values():
        value = node.inputs[1] if len(node.inputs) > 1 else None
        type = graph.type_of(value) if value is not None else None
        is_division = node.op.removeprefix("ge::") in _DIVISIONS
        if value is not None and is_division and isinstance(type, TensorType) and type.dtype.is_integer:
            found.append(value)
    return found


def _windowed(graph: Graph) -> list[int]:
    """Return what operators with a window give."""
    return [
        node.outputs[0]
        for node in graph.nodes.values()
        if ("Conv" in node.op or "Pool" in node.op) and node.outputs[0] is not None
    ]


def judge(trial: Trial, instance: Instance, before: Sequence[Array], after: Graph) -> str:
    """Say where the right side of a rule is wrong; empty when it is as good as the left side.

    Results in float64 must agree to `TIGHT`. In narrower types both sides are held against the left side
    computed in float64: the right one may be `NOISE` times as far off as the left one, and some units in
    the last place. Integers agree, or differ by one where a rule says that it is `inexact`.

    Args:
        trial: The rule.
        instance: The graph before it, and its inputs.
        before: What that computes: `compute_left`.
        after: The graph after it.
    """
    try:
        got = trial.compute(after, instance.feeds)
    except GerulesError as error:
        return f"the right side cannot be computed: {error.diagnostics[0].message}"
    wrong = compare(before, got, widened=instance.widened)
    if not wrong or len(before) != len(got):
        return wrong
    truth: Sequence[Array] | None = None
    for place, (want, found) in enumerate(zip(before, got, strict=True)):
        if want.shape != found.shape or want.dtype != found.dtype:
            return wrong
        if want.dtype.name not in _EPSILON:
            if _integers_part(want, found, is_inexact=trial.rule.is_inexact):
                return wrong
            continue
        if want.dtype != np.float64 and truth is None:
            truth = _truth(trial, instance) or before
        exact = want if truth is None else truth[place]
        if _floats_part(want, found, exact, is_inexact=trial.rule.is_inexact):
            return wrong
    return ""


def has_odd_scale(instance: Instance) -> bool:
    """Whether a quantization has a scale that is not positive: what it computes is not defined.

    A zero point of another shape than the scale is no better.
    """
    graph = instance.graph
    for node in graph.nodes.values():
        if node.op in ("QuantizeLinear", "DequantizeLinear") and node.inputs[1] is not None:
            value = node.inputs[1]
            const = graph.consts.get(value)
            scale = const.array if const is not None else instance.feeds.get(graph.values[value].name)
            if scale is not None and not np.all(scale.astype(np.float64) > 0):
                return True
            if len(node.inputs) > 2 and node.inputs[2] is not None:
                one, two = graph.type_of(value), graph.type_of(node.inputs[2])
                if isinstance(one, TensorType) and isinstance(two, TensorType) and one.shape != two.shape:
                    return True
    return False


def _integers_part(want: Array, found: Array, *, is_inexact: bool) -> bool:
    if want.dtype.kind not in "iu" or not is_inexact:
        return not np.array_equal(want, found)
    return bool(np.any(np.abs(want.astype(np.float64) - found.astype(np.float64)) > 1))


def _floats_part(want: Array, found: Array, exact: Array, *, is_inexact: bool) -> bool:
    """Whether results part by more than noise; what is not finite must be alike, unless a rule is inexact."""
    one, two, true = (item.astype(np.float64) for item in (want, found, exact))
    finite = np.isfinite(one)
    if not is_inexact and not np.array_equal(one[~finite], two[~finite], equal_nan=True):
        return True
    if not np.all(np.isfinite(two[finite])):
        return True
    one, two, true = one[finite], two[finite], true[finite]
    if not one.size:
        return False
    scale = float(np.max(np.abs(true), initial=0.0, where=np.isfinite(true)))
    if want.dtype == np.float64:
        return bool(np.any(np.abs(one - two) > TIGHT * scale))
    own = float(np.max(np.abs(one - true), initial=0.0, where=np.isfinite(true)))
    allowed = NOISE * (own + _EPSILON[want.dtype.name] * scale)
    known = np.isfinite(true)
    return bool(np.any(np.abs(two - true)[known] > allowed))


# ---------------------------------------------------------------- the left side in float64
def _truth(trial: Trial, instance: Instance) -> list[Array] | None:
    """Return what the left side computes in float64, from the same numbers; None where that cannot be."""
    graph = widened(instance.graph)
    if graph is None:
        return None
    feeds = {name: _wide(array) for name, array in instance.feeds.items()}
    try:
        return trial.compute(graph, feeds)
    except GerulesError:
        return None


def widened(graph: Graph) -> Graph | None:
    """Return a graph with float64 in place of all narrower floats; None for one with bodies."""
    if any(node.bodies for node in graph.nodes.values()):
        return None
    return replace(
        graph,
        consts={value: Const(_wide(const.array)) for value, const in graph.consts.items()},
        nodes={
            key: replace(node, attrs={name: _wide_attr(attr) for name, attr in node.attrs.items()})
            for key, node in graph.nodes.items()
        },
        values={
            key: replace(value, type=replace(value.type, dtype=_wide_dtype(value.type.dtype)))
            if isinstance(value.type, TensorType)
            else value
            for key, value in graph.values.items()
        },
    )


def _wide(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return array.astype(np.float64) if array.dtype.name in _EPSILON else array


def _wide_dtype(dtype: DType) -> DType:
    return DType.F64 if dtype in (DType.F32, DType.F16, DType.BF16) else dtype


def _wide_attr(attr: Attr) -> Attr:
    return _wide_dtype(attr) if isinstance(attr, DType) else attr
