"""ONNX's own node tests as whole models: graph inputs, and the outputs that ONNX wants."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.case.node import collect_testcases

CONTROL_FLOW = {"If", "Loop", "Scan", "SequenceMap"}


@dataclass(frozen=True)
class ModelCase:
    """One model with its data sets: inputs and wanted outputs by name."""

    name: str
    model: onnx.ModelProto
    data: tuple[tuple[dict[str, object], dict[str, object]], ...]
    rtol: float
    atol: float

    @property
    def has_bodies(self) -> bool:
        return any(node.op_type in CONTROL_FLOW for node in self.model.graph.node)


@lru_cache(maxsize=1)
def model_cases() -> list[ModelCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    cases = []
    for case in collected:
        graph = case.model.graph
        data = tuple(
            (
                {item.name: _value(value) for item, value in zip(graph.input, given, strict=False)},
                {item.name: _value(value) for item, value in zip(graph.output, wanted, strict=False)},
            )
            for given, wanted in case.data_sets
        )
        cases.append(ModelCase(case.name, case.model, data, case.rtol, case.atol))
    return cases


def assert_wanted(got: Mapping[str, object], want: Mapping[str, object], rtol: float, atol: float) -> None:
    assert list(got) == list(want)
    for name in want:
        _assert_item(got[name], want[name], rtol, atol)


def _assert_item(got: object, want: object, rtol: float, atol: float) -> None:
    if want is None:
        assert got is None
    elif isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for one, two in zip(got, want, strict=True):
            _assert_item(one, two, rtol, atol)
    else:
        assert isinstance(got, np.ndarray) and isinstance(want, np.ndarray)
        if want.dtype.kind in "OUST":
            assert got.tolist() == want.tolist()
            return
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.kind in "fciub" and want.dtype.itemsize <= 16 and want.dtype.isbuiltin == 1:
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
        else:
            one, two = got.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(one, two, rtol=max(rtol, 1e-2), atol=max(atol, 1e-2))


def _value(value: object) -> object:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    return np.asarray(value) if isinstance(value, int | float | np.generic) else value
