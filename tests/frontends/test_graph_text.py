"""Graph text files: long constants lie beside the text, and never come from elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gerules.errors import GerulesError
from gerules.frontends import load, save_graph_text
from gerules.ir import GraphEditor, empty_graph


def test_a_graph_with_weights_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    editor = GraphEditor(empty_graph("g", {"": 17}))
    arrays = [rng.standard_normal((20, 30)).astype(np.float32), rng.integers(0, 9, (99,)), np.float32(1.5)]
    consts = [editor.add_const(np.asarray(array), f"k{i}") for i, array in enumerate(arrays)]
    node = editor.add_node("Op", consts)
    editor.set_outputs(list(node.writes()))
    path = tmp_path / "größe.graph"
    save_graph_text(editor.commit(), path)
    again = load(path)
    for const, want in zip(again.consts.values(), arrays, strict=True):
        np.testing.assert_array_equal(const.array, want)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["größe.bin", "größe.graph"]


@pytest.mark.parametrize("where", ["../k.bin", "/etc/passwd", "gone.bin", "k.bin"])
def test_constants_come_only_from_the_same_folder(tmp_path: Path, where: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "k.bin").write_bytes(bytes(4000))
    (tmp_path / "in" / "k.bin").symlink_to(tmp_path / "k.bin")
    path = tmp_path / "in" / "a.graph"
    path.write_text(f'graph a:\n    k: const f32[100] = file("{where}", 0)\n    return k\n')
    with pytest.raises(GerulesError, match="E40014"):
        load(path)


def test_a_short_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "k.bin").write_bytes(bytes(399))
    path = tmp_path / "a.graph"
    path.write_text('graph a:\n    k: const f32[100] = file("k.bin", 0)\n    return k\n')
    with pytest.raises(GerulesError, match="no 400 bytes at 0"):
        load(path)
