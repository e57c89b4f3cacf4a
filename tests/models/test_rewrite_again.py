"""What `rewrite` leaves has nothing left to do: run on its own output, from the file, it changes no byte."""

# onnx's functions have partial types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import gerules
from bench import generate, light, zoo
from tests.models.catalogue import find
from tests.models.oracle import assert_close, ort_outputs

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


@pytest.mark.parametrize("name", ["bert_mini_dynamo", "gpt2_mini_ts", "llama_tiny_ts", "mobilenetv2_ts"])
def test_standard_operators_compute_the_same(name: str, tmp_path: Path) -> None:
    source, out = find(name), tmp_path / "standard.onnx"
    after, _ = gerules.rewrite(source, onnx_only=True)
    gerules.save(after, out)
    onnx.checker.check_model(str(out), full_check=True)
    model = onnx.load(out)
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions
    feeds = zoo.inputs(source, 1)
    assert_close(ort_outputs(out, feeds), ort_outputs(source, feeds), 1e-4)


@pytest.mark.parametrize("kind", generate.MAKERS)
def test_a_chain_computes_the_same(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "chain.onnx"
    onnx.save(generate.MAKERS[kind](300), source)
    feeds = zoo.inputs(source, 1)
    wanted = ort_outputs(source, feeds)
    counts: list[int] = []
    for onnx_only in (False, True):
        after, _ = gerules.rewrite(source, onnx_only=onnx_only)
        gerules.save(after, tmp_path / "after.onnx")
        assert_close(ort_outputs(tmp_path / "after.onnx", feeds), wanted, 1e-4)
        counts.append(len(after.nodes))
    assert all(count <= most for count, most in zip(counts, LEFT[kind], strict=True)), counts


LEFT = {
    "transformer": [38, 189],
    "resnet": [90, 210],
    "noop_chain": [1, 1],
    "wide": [300, 300],
    "branches": [120, 179],
}
"""Most nodes that are left of 300: with fused operators, and without."""
