"""ONNX in, ONNX out: a rewritten model passes the checker, and onnxruntime computes the same with it."""

# onnx's functions have partial types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

import gerules
from bench import zoo
from tests.models.catalogue import find
from tests.models.oracle import assert_close, ort_outputs

RESNETS = [name for name in zoo.NAMES if "resnet" in name]


def rewrite_and_save(path: Path, out: Path, profile: str | None = None) -> tuple[gerules.Graph, int]:
    """Write the rewritten model, compare it with the model, and return it with the nodes there were."""
    before = gerules.load(path)
    after, _ = gerules.rewrite(before, profile=profile)
    gerules.save(after, out)
    onnx.checker.check_model(str(out), full_check=True)
    feeds = zoo.inputs(path, 1)
    assert_close(ort_outputs(out, feeds), ort_outputs(path, feeds), 1e-4)
    # What was fused is known as such when it is read back.
    again = gerules.load(out)
    assert ops(again) == ops(after)
    assert not any("body" in node.bodies for node in again.nodes.values() if node.op.startswith("ge::"))
    return after, len(before.nodes)


def ops(graph: gerules.Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes.values())


@pytest.mark.parametrize("name", zoo.NAMES)
def test_a_rewritten_model_runs_in_onnxruntime(name: str, tmp_path: Path) -> None:
    after, n_before = rewrite_and_save(find(name), tmp_path / "better.onnx")
    # The weights of the light models are computed by the model, so that nothing can be folded into them.
    assert len(after.nodes) <= n_before if name.startswith("light_") else len(after.nodes) < n_before


@pytest.mark.parametrize("name", RESNETS)
def test_blocks_of_a_rewritten_model_run_in_onnxruntime(name: str, tmp_path: Path) -> None:
    after, n_before = rewrite_and_save(find(name), tmp_path / "better.onnx", "blocks")
    if not name.startswith("light_"):
        assert any(node.op.startswith("ge::Conv") for node in after.nodes.values())
        assert len(after.nodes) < n_before
