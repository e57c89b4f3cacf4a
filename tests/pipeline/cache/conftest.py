"""The cache switched on, the shipped rules, and a small graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl import RuleBook
from gerules.ir import Graph, parse_graph
from gerules.pipeline import shipped_rules
from tests.pipeline.cache.cached import STEM


@pytest.fixture(autouse=True)
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache switched on, in a folder of the test."""
    monkeypatch.delenv("GERULES_CACHE")
    monkeypatch.setenv("GERULES_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def book() -> RuleBook:
    return shipped_rules()


@pytest.fixture(scope="module")
def stem() -> Graph:
    return parse_graph(STEM)
