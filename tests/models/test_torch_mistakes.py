"""Mistakes around models of torch: each is told with its cause, and none ends in another run by torch."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import gerules
from gerules import dynamo
from gerules.compat import torchair
from gerules.errors import GerulesError
from tests.models.torch_nets import torch

dynamo.register()
X = torch.randn(4, 8)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def refused(call: Callable[[], object], code: str, *words: str) -> None:
    with pytest.raises(Exception) as caught:
        call()
    text = str(caught.value)
    assert f"[{code}]" in text and all(word in text for word in words), text


def run(**options: object) -> object:
    return torch.compile(torch.nn.Linear(8, 8), backend="gerules", options=options)(X)


@pytest.mark.parametrize(
    "options",
    [
        {"rules": 5},
        {"rules": [5]},
        {"n_streams": 0},
        {"memory_limit_bytes": -1},
        {"verify_rtol": -1.0},
        {"verify_rtol": float("nan")},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    refused(lambda: dynamo.read_options(options), "E10003")


def test_options_that_a_graph_cannot_obey_are_errors() -> None:
    refused(lambda: run(device="ascend910b", keep_dtype="nowhere"), "E50015", "nowhere")
    torch._dynamo.reset()
    refused(lambda: run(device="ascend910b", memory_limit_bytes=1, freeze=False), "E60003")


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"inpt": {0: "b"}}, "did you mean input"),
        ({"input": {5: "b"}}, "which has 2"),
        (({0: "b"}, None), "2 parts"),
        (3, "dynamic_shapes is 3"),
    ],
)
def test_open_sizes_of_nothing_are_told(shapes: object, words: str) -> None:
    net = torch.nn.Linear(8, 8)
    refused(lambda: gerules.load(net, example_inputs=X, dynamic_shapes=shapes), "E10082", words)


def test_gears_name_the_argument() -> None:
    fast = torch.compile(lambda left, right: left @ right, backend=torchair.get_npu_backend(), dynamic=True)
    right = torch.randn(8, 3)
    torchair.inference.set_dim_gears(right, {1: [3, 5]})
    fast(X, right)
    refused(lambda: fast(X, torch.randn(8, 4)), "E10094", "argument right")


def test_tensors_of_torch_are_inputs_of_a_run() -> None:
    given = torch.randn(4).to(torch.bfloat16)
    model = gerules.compile(torch.nn.ReLU(), example_inputs=given)
    (got,) = model.run({"input": given}).values()
    np.testing.assert_array_equal(np.float32(got), torch.relu(given).float().numpy())
    with pytest.raises(GerulesError, match="E20006"):
        model.run({"input": torch.eye(4).to_sparse()})


def test_a_damaged_program_says_nothing_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    torch.export.save(torch.export.export(torch.nn.Linear(8, 8), (X,)), tmp_path / "a.pt2")
    with zipfile.ZipFile(tmp_path / "a.pt2") as old, zipfile.ZipFile(tmp_path / "b.pt2", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, b"{}" if name.endswith("models/model.json") else data)
    capfd.readouterr()
    refused(lambda: gerules.load(tmp_path / "b.pt2"), "E10084")
    assert capfd.readouterr().err == ""


def test_shapes_are_enough_to_load_a_script(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), tmp_path / "n.pt")
    graph = gerules.load(tmp_path / "n.pt", input_shapes={"input": [2, 3]})
    assert str(graph.type_of(graph.inputs[0])) == "f32[2, 3]"


def test_inputs_of_an_export_are_given_both_ways(tmp_path: Path) -> None:
    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    torchair.dynamo_export(X, y=X, model=Add(), export_path=str(tmp_path / "out"))
    graph = gerules.load(tmp_path / "out" / "export.onnx")
    assert [graph.values[item].name for item in graph.inputs] == ["x", "y"]
    refused(lambda: torchair.dynamo_export(X, z=X, model=Add(), export_path=str(tmp_path)), "E10082", "'y'")
