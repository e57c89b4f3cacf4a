"""ONNX's small networks through all phases: where rules moved conversions, each kernel has what it takes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from gerules.frontends.load import load
from gerules.ir import Format, TensorType
from gerules.passes.format_check import check_formats
from gerules.pipeline import CompileOptions, compile_graph, shipped_rules

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("device", ["ascend910b", "ascend310p"])
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50", "inception_v1"])
def test_every_kernel_is_given_the_formats_it_takes(name: str, device: str) -> None:
    graph = load(LIGHT / f"light_{name}.onnx")
    done = compile_graph(graph, shipped_rules(), CompileOptions(device=device, stop_after="blocks"))
    assert check_formats(done.graph, done.tools.device) == []
    types = [value.type for value in done.graph.values.values()]
    assert any(isinstance(type, TensorType) and type.format is Format.NC1HWC0 for type in types)
