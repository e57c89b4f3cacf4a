"""The budget of bytes: what would make a model larger stays computed, what is small or replaces is folded."""

from __future__ import annotations

from pathlib import Path

import pytest

import gerules

TABLE = """\
graph g:
    opset 20
    input ids: i64[4]
    input x: f32[4, 32]
    W: const f32[64, 32] = random(1)
    e: f32[4, 32] = Gather(W, ids)
    h: f32[4, 32] = Add(e, x)
    Wt: f32[32, 64] = Transpose(W, perm=[1, 0])
    y: f32[4, 64] = MatMul(h, Wt)
    return y
"""
ALONE = TABLE.replace("e: f32[4, 32] = Gather(W, ids)", "e: f32[4, 32] = Relu(x)").replace(
    "    input ids: i64[4]\n", ""
)
FILLS = """\
graph g:
    opset 20
    input x: f32[64, 64]
    size: const i64[2] = [64, 64]
    one: const f32[1] = [1.5]
    a: f32[64, 64] = ConstantOfShape(size, value=tensor(f32[1], [0.5]))
    b: f32[64, 64] = ConstantOfShape(size, value=tensor(f32[1], [0.5]))
    k: f32[1] = Mul(one, one)
    y: f32[64, 64] = Add(x, a)
    z: f32[64, 64] = Mul(y, b)
    w: f32[64, 64] = Mul(z, k)
    return w
"""


def ops(text: str, **options: float | None) -> list[str]:
    after, _ = gerules.rewrite(gerules.parse_graph(text), **options)  # type: ignore[arg-type]  # any option
    return [node.op for node in after.nodes.values()]


def test_a_weight_that_others_read_is_not_stored_twice() -> None:
    assert ops(TABLE) == ["Gather", "Add", "Transpose", "MatMul"]
    assert ops(TABLE, max_growth=None) == ["Gather", "Add", "MatMul"]
    assert ops(TABLE, max_growth=2.0) == ["Gather", "Add", "MatMul"]
    assert ops(TABLE, max_growth=1.9) == ["Gather", "Add", "Transpose", "MatMul"]


def test_a_weight_of_its_own_is_transposed_in_place() -> None:
    assert ops(ALONE) == ["Relu", "Add", "MatMul"]


def test_what_repeats_one_element_counts_as_a_file_has_it() -> None:
    assert ops(FILLS) == ["ConstantOfShape", "Add", "Mul", "Mul"]  # one of two alike, and 1.5 * 1.5 is folded
    assert ops(FILLS, max_growth=None) == ["Add", "Mul"]  # two constants in a row are one


@pytest.mark.parametrize("text", [TABLE, ALONE, FILLS])
def test_the_file_grows_only_where_it_may(text: str, tmp_path: Path) -> None:
    graph = gerules.parse_graph(text)
    gerules.save(graph, tmp_path / "before.onnx")
    gerules.save(gerules.rewrite(graph)[0], tmp_path / "after.onnx")
    before, after = ((tmp_path / f"{name}.onnx").stat().st_size for name in ("before", "after"))
    assert after <= 1.05 * before + 1024


def test_without_folding_everything_stays_computed() -> None:
    after, _ = gerules.rewrite(gerules.parse_graph(FILLS), fold=False, pipeline="fuse_ops")
    assert [node.op for node in after.nodes.values()].count("ConstantOfShape") == 2
