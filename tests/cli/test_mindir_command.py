"""MindIR files on the command line: compiled, run, shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.frontends.mindir.messages import arrays_of, export_of


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A loop with a branch inside, as MindSpore wrote it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.mindir"
    path.write_bytes(export_of("loop_with_branch"))
    return path


def test_it_is_compiled_and_agrees_with_itself(run: Run, net: Path) -> None:
    result = run("compile", net, "--validate")
    assert result.exit_code == 0, result.output
    assert Path("net.om").is_file() and "LoopWithBranch for host" in result.stdout


def test_it_is_run_by_meaning(run_json: Callable[..., Any], net: Path) -> None:
    (t, n), wanted = arrays_of("loop_with_branch")
    np.savez("in.npz", t=t, n=n)
    found = run_json("run", net, "--input", "in.npz", "-o", "out.npz")
    assert found
    outputs = np.load("out.npz")
    for name, want in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(outputs[name], want, rtol=1e-5)


def test_it_is_shown(run: Run, net: Path) -> None:
    text = run("show", net).stdout
    assert text.startswith("graph LoopWithBranch:") and "Loop(none, " in text and "then_branch:" in text


def test_what_is_not_read_ends_with_its_code(run: Run, net: Path) -> None:
    net.write_bytes(export_of("state"))
    result = run("compile", net)
    assert result.exit_code == 1 and "error[E10062]" in result.stderr
