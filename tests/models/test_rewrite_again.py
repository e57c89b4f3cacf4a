"""What `rewrite` leaves has nothing left to do: run on its own output, from the file, it changes no byte."""

# onnx's functions have partial types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import gerules
from bench import generate, light
from tests.models.catalogue import find

KINDS = pytest.mark.parametrize("onnx_only", [False, True], ids=["fused", "standard"])


def assert_nothing_is_left(path: Path, folder: Path, *, onnx_only: bool) -> None:
    first, _ = gerules.rewrite(path, onnx_only=onnx_only)
    gerules.save(first, folder / "first.onnx")
    read = gerules.load(folder / "first.onnx")
    second, trace = gerules.rewrite(read, onnx_only=onnx_only)
    assert [item.rule for item in trace.applications] == []
    assert len(second.nodes) == len(first.nodes)
    for name, graph in (("read", read), ("second", second)):
        (folder / name).mkdir()
        gerules.save(graph, folder / name / "model.graph")
    files = sorted(path.name for path in (folder / "read").iterdir())
    assert "model.graph" in files
    for name in files:
        assert (folder / "second" / name).read_bytes() == (folder / "read" / name).read_bytes(), name


@KINDS
@pytest.mark.parametrize("kind", generate.MAKERS)
def test_a_chain_is_done_after_one_run(kind: str, onnx_only: bool, tmp_path: Path) -> None:
    onnx.save(generate.MAKERS[kind](1000), tmp_path / "chain.onnx")
    assert_nothing_is_left(tmp_path / "chain.onnx", tmp_path, onnx_only=onnx_only)


@KINDS
@pytest.mark.parametrize("name", light.PATHS)
def test_a_light_model_is_done_after_one_run(name: str, onnx_only: bool, tmp_path: Path) -> None:
    assert_nothing_is_left(find(name), tmp_path, onnx_only=onnx_only)
