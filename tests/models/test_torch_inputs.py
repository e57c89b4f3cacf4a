"""Torch models as input: names, open sizes, what is missing, what torch refuses, and hostile files."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gerules
from gerules.errors import GerulesError
from gerules.frontends.torch.sizes import is_plain_size
from tests.models.torch_nets import NETS, torch


class TwoInputs(torch.nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.relu(left) + 2 * right


class Unsupported(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.linalg.qr(y)[0]


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return x * 2


ONE, TWO = torch.randn(2, 4), torch.randn(2, 4)


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(GerulesError) as caught:
        call()
    return caught.value.code


def names(graph: gerules.Graph) -> list[str]:
    return [graph.values[value].name for value in graph.inputs]


@pytest.mark.parametrize("wrap", [lambda net: net, torch.jit.script], ids=["module", "script"])
def test_inputs_keep_their_names_however_they_are_given(wrap: Callable[[torch.nn.Module], object]) -> None:
    net = wrap(TwoInputs())
    for given in ((ONE, TWO), [ONE.numpy(), TWO.numpy()], {"left": ONE, "right": TWO}):
        assert names(gerules.load(net, example_inputs=given)) == ["left", "right"]


@pytest.mark.parametrize("wrap", [lambda net: net, torch.jit.script], ids=["module", "script"])
@pytest.mark.parametrize("as_mapping", [True, False])
def test_open_sizes_have_the_names_they_are_given(
    wrap: Callable[[torch.nn.Module], object], as_mapping: bool
) -> None:
    dims = {"left": {0: "rows"}, "right": {0: "rows"}} if as_mapping else ({0: "rows"}, {0: "rows"})
    graph = gerules.load(wrap(TwoInputs()), example_inputs=(ONE, TWO), dynamic_shapes=dims)
    assert [str(graph.type_of(value)) for value in graph.inputs] == ["f32[rows, 4]"] * 2
    model = gerules.compile(
        wrap(TwoInputs()), example_inputs=(ONE, TWO), dynamic_shapes=dims, dims={"rows": 5}
    )
    left, right = torch.randn(5, 4), torch.randn(5, 4)
    (got,) = model.run({"left": left.numpy(), "right": right.numpy()}).values()
    np.testing.assert_allclose(got, TwoInputs()(left, right).numpy(), rtol=1e-6)


def test_a_module_is_read_for_inference_and_left_as_it_was() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train()
    net[0].eval()
    graph, _ = gerules.rewrite(net, example_inputs=ONE)
    assert [node.op for node in graph.nodes.values()] == ["Gemm"]
    assert [part.training for part in net.modules()] == [True, False, True]


def test_what_is_missing_or_does_not_fit_is_told() -> None:
    net = TwoInputs()
    assert code_of(lambda: gerules.load(net)) == "E10081"
    assert code_of(lambda: gerules.load(net, example_inputs=(ONE,))) == "E10082"
    assert code_of(lambda: gerules.load(net, example_inputs=(ONE, np.array(["a"])))) == "E10082"
    program = torch.export.export(net, (ONE, TWO))
    assert code_of(lambda: gerules.load(program, example_inputs=ONE)) == "E10082"
    graph = gerules.load(program)
    assert code_of(lambda: gerules.compile(graph, example_inputs=ONE)) == "E10085"
    assert code_of(lambda: gerules.compile(3)) == "E10083"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrap", [lambda net: net, lambda net: torch.jit.trace(net, ONE)], ids=["module", "trace"]
)
def test_the_operator_that_torch_cannot_export_is_named_with_its_line(
    wrap: Callable[[torch.nn.Module], object],
) -> None:
    with pytest.raises(GerulesError) as caught:
        gerules.load(wrap(Unsupported()), example_inputs=ONE)
    assert caught.value.code == "E10080"
    assert "aten.linalg_qr" in str(caught.value)
    assert re.search(rf"{Path(__file__).name}:\d+", str(caught.value))


def test_control_flow_by_values_is_told_with_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(GerulesError) as caught:
        gerules.load(Branching(), example_inputs=ONE)
    assert caught.value.code == "E10080"
    assert "if x.sum() > 0" in str(caught.value)
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------- files
@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("torch")
    net, x = NETS["mlp"]()
    torch.jit.save(torch.jit.script(net), str(folder / "net.pt"))
    dims = {"x": {0: torch.export.Dim("n", max=64)}}
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=dims), str(folder / "net.pt2"))
    torch.save(net.state_dict(), folder / "weights.pt")
    return {name: folder / name for name in ("net.pt", "net.pt2", "weights.pt")}


def test_files_say_what_their_modules_say(files: dict[str, Path]) -> None:
    net, x = NETS["mlp"]()
    for name, options in (
        ("net.pt", {"example_inputs": x}),
        ("net.pt", {"input_shapes": {"x": list(x.shape)}}),
        ("net.pt2", {"input_shapes": {"x": list(x.shape)}}),
    ):
        (got,) = gerules.compile(files[name], **options).run({"x": x.numpy()}).values()
        np.testing.assert_allclose(got, net(x).numpy(), rtol=1e-4, atol=1e-5)


def test_a_file_is_known_by_its_content_too(files: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "net.model"
    other.write_bytes(files["net.pt2"].read_bytes())
    assert names(gerules.load(other)) == ["x"]


def test_checkpoints_are_never_unpickled(files: dict[str, Path]) -> None:
    assert code_of(lambda: gerules.load(files["weights.pt"])) == "E10084"


def rewritten(source: Path, target: Path, edit: Callable[[str, bytes], bytes | None]) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            data = edit(entry.filename.partition("/")[2], old.read(entry))
            if data is not None:
                new.writestr(entry, data)
    return target


def _calls(target: str) -> Callable[[str, bytes], bytes]:
    return lambda name, data: data.replace(b"torch.ops.aten.add.Tensor", target.encode())


def _size(text: str) -> Callable[[str, bytes], bytes]:
    def edit(name: str, data: bytes) -> bytes:
        return re.sub(rb'"expr_str": "[^"]*"', f'"expr_str": {json.dumps(text)}'.encode(), data)

    return edit


def _pickled(name: str, data: bytes) -> bytes:
    return data.replace(b'"use_pickle": false', b'"use_pickle": true')


def _samples(name: str, data: bytes) -> bytes:
    return b"cos\nsystem\n(S'true'\ntR." if name.startswith("data/sample_inputs") else data


HOSTILE: dict[str, tuple[str, Callable[[str, bytes], bytes | None]]] = {
    "call": ("net.pt2", _calls("torch.os.system")),
    "call by dunder": ("net.pt2", _calls("torch.ops.aten.__class__")),
    "library": ("net.pt2", _calls("torch.ops.load_library")),
    "expression": ("net.pt2", _size("__import__('os').getcwd()")),
    "power": ("net.pt2", _size("Pow(9, Pow(9, Pow(9, 9)))")),
    "pickled weights": ("net.pt2", _pickled),
    "pickled inputs": ("net.pt2", _samples),
    "no JSON": ("net.pt2", lambda name, data: b"[" * 100_000 if name.endswith("model.json") else data),
    "weights gone": ("net.pt2", lambda name, data: None if name == "data/weights/weight_0" else data),
    "cut code": ("net.pt", lambda name, data: data[: len(data) // 2] if name.endswith(".py") else data),
    "opens files": (
        "net.pt",
        lambda name, data: (
            data.replace(b"return ", b"torch.save(x, 'f')\n    return ", 1)
            if name.endswith("__torch__.py") or "torch_nets" in name
            else data
        ),
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused(kind: str, files: dict[str, Path], tmp_path: Path) -> None:
    source, edit = HOSTILE[kind]
    target = rewritten(files[source], tmp_path / source, edit)
    assert target.read_bytes() != files[source].read_bytes()
    assert code_of(lambda: gerules.load(target, example_inputs=None)) == "E10084"


def test_sizes_that_torch_writes_are_plain() -> None:
    for text in ("Symbol('s77', positive=True, integer=True)", "Mul(Integer(2), Symbol('s0', integer=True))"):
        assert is_plain_size(text)
    for text in ("Symbol(__import__)", "Pow(2, s0)", "open('f')", "(1).real", "9**9", "Symbol('a'*9)"):
        assert not is_plain_size(text)
