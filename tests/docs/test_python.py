"""The Python on the pages runs: all blocks of a page, one after the other, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, WITH_TORCH, blocks_of

WITH_PYTHON = [
    path
    for path in PAGES
    if path.name not in WITH_TORCH and any(not block.code for block in blocks_of(path, "python"))
]


def program_of(page: Path) -> str:
    """All right blocks of a page, each line at its own number, so that tracebacks point into the page."""
    lines: list[str] = []
    for block in blocks_of(page, "python"):
        if not block.code:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def run_page(page: Path, tmp_path: Path) -> None:
    """Run the Python of a page in an empty folder; fails with what it says on stderr."""
    # Not under its own name: `import torch` on torch.md would find the page.
    program = tmp_path / f"page_{page.stem}.py"
    program.write_text(program_of(page), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(DOCS.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_there_are_pages_with_python() -> None:
    assert {"python.md", "language.md", "om.md"} <= {path.name for path in WITH_PYTHON}
