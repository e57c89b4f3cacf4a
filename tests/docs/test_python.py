"""The Python on the pages runs: all blocks of a page, one after the other, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, blocks_of

WITH_PYTHON = [path for path in PAGES if any(not block.code for block in blocks_of(path, "python"))]


def program_of(page: Path) -> str:
    """All right blocks of a page, each line at its own number, so that tracebacks point into the page."""
    lines: list[str] = []
    for block in blocks_of(page, "python"):
        if not block.code:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = tmp_path / page.with_suffix(".py").name
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


def test_there_are_pages_with_python() -> None:
    assert {"python.md", "language.md", "om.md"} <= {path.name for path in WITH_PYTHON}
