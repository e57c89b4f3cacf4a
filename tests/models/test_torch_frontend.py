"""Models of torch as input: modules, exported programs, TorchScript and their files."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import pytest

import gerules
from gerules.ir import Graph
from tests.models.torch_nets import NETS, torch

ROUTES: dict[str, Callable[[torch.nn.Module, torch.Tensor], object]] = {
    "module": lambda net, x: net,
    "program": lambda net, x: torch.export.export(net, (x,)),
    "trace": lambda net, x: torch.jit.trace(net, x),
    "script": lambda net, x: torch.jit.script(net),
    "onnx": lambda net, x: _onnx(net, x, dynamo=True),
    "old onnx": lambda net, x: _onnx(net, x, dynamo=False),
}


def _onnx(net: torch.nn.Module, x: torch.Tensor, *, dynamo: bool) -> onnx.ModelProto:
    if dynamo:
        return torch.onnx.export(net, (x,), dynamo=True, verbose=False).model_proto
    file = io.BytesIO()
    torch.onnx.export(net, (x,), file, dynamo=False)
    return onnx.load_from_string(file.getvalue())


def structure(graph: Graph) -> Counter[str]:
    """Every operator with all that it is computed from, up to names: two graphs of one meaning are equal."""
    keys: dict[int, str] = {value: f"input {at}" for at, value in enumerate(graph.inputs)}
    for value, const in graph.consts.items():
        keys[value] = f"const {const.type}"
    found: Counter[str] = Counter()
    for node in graph.nodes.values():
        inputs = ", ".join("none" if value is None else keys[value] for value in node.inputs)
        key = f"{node.op}({inputs})"
        found[node.op] += 1
        for at, value in enumerate(node.outputs):
            if value is not None:
                keys[value] = f"{hash((key, at)):x} {graph.type_of(value)}"
    for at, value in enumerate(graph.outputs):
        found[f"output {at} {keys[value]}"] += 1
    return found


@pytest.mark.parametrize("net", NETS)
def test_all_routes_lead_to_one_fused_graph(net: str) -> None:
    module, x = NETS[net]()
    found: dict[str, Counter[str]] = {}
    for route, make in ROUTES.items():
        model = make(module, x)
        given = x if route in ("module", "trace", "script") else None
        graph, _ = gerules.rewrite(model, example_inputs=given)
        found[route] = structure(graph)
    assert len(found["module"]) > 1
    assert {route: found[route] - found["module"] for route in found} == {route: Counter() for route in found}
    assert {route: found["module"] - found[route] for route in found} == {route: Counter() for route in found}


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("route", [route for route in ROUTES if "onnx" not in route])
def test_what_is_compiled_equals_eager(net: str, route: str) -> None:
    module, x = NETS[net]()
    model = ROUTES[route](module, x)
    compiled = gerules.compile(model, example_inputs=None if route == "program" else x)
    (got,) = compiled.run({"x": x.numpy()}).values()
    np.testing.assert_allclose(got, module(x).numpy(), rtol=1e-4, atol=1e-5)
