"""A small graph, and its compile by a cache."""

from __future__ import annotations

from pathlib import Path

from gerules.dsl import RuleBook
from gerules.ir import Graph
from gerules.pipeline import CompileOptions
from gerules.pipeline.cache import CacheSettings, compile_cached
from gerules.pipeline.model import CompiledModel

STEM = """\
graph stem:
    opset 17
    input x: f32[N, 3, 8, 8]
    W: const f32[4, 3, 3, 3] = random(1)
    k: const f32[1, 4, 1, 1] = [1.0, 2.0, 3.0, 4.0]
    c = Conv(x, W, pads=[1, 1, 1, 1])
    s = Add(c, k)
    y = Relu(s)
    return y
"""
OPTIONS = CompileOptions(dims={"N": 1})


def make(graph: Graph, book: RuleBook, folder: Path, limit_bytes: int = 1 << 30) -> CompiledModel:
    return compile_cached(graph, book, OPTIONS, CacheSettings(folder, limit_bytes))


def codes(model: CompiledModel) -> list[str]:
    assert model.cache is not None
    return [note.code.code for note in model.cache.notes]
