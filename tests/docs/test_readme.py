"""The README keeps its word, and so do pages with commands: files are written, commands are run, and what
they print is what the page shows.

A command that ends with another exit code than 0 stands in a block ` ```console exit-3 `.

`GERULES_README_UPDATE=1 pytest tests/docs/test_readme.py` writes the output of today into the pages.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
TOURS = [README, README.parent / "docs" / "dynamic.md"]
"""Pages whose commands are run."""
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
TIME = re.compile(r"\d+(?:\.\d+)? (?:us|ms|s)\b")
LONG_NUMBER = re.compile(r"\b\d+\.\d{5,}(?:e[+-]\d+)?\b")
N_SHELL_BLOCKS = 2
"""The main command and the tests: CI runs both as they stand."""


@pytest.mark.parametrize("page", TOURS, ids=lambda page: page.name)
def test_a_tour_shows_what_happens(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown: list[str] = []
    happened: list[str] = []

    def run_block(match: re.Match[str]) -> str:
        language, name, body = match.groups()
        if name and language != "console":
            (tmp_path / name).write_text(body, encoding="utf-8")
        if language == "python":
            subprocess.run([sys.executable, "-c", body], cwd=tmp_path, check=True, capture_output=True)
        if language != "console":
            return match.group(0)
        shown.append(body)
        commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
        exit_code = int(name.removeprefix("exit-")) if name else 0
        happened.append("".join(f"$ {command}\n{run(command, tmp_path, exit_code)}" for command in commands))
        return f"```{' '.join(('console', name)) if name else 'console'}\n{happened[-1]}```"

    updated = BLOCK.sub(run_block, text)
    assert shown, "the tour has commands"
    if os.environ.get("GERULES_README_UPDATE"):
        page.write_text(updated, encoding="utf-8")
        return
    for want, got in zip(shown, happened, strict=True):
        assert settle(got) == settle(want)


def test_the_first_blocks_are_one_command_each() -> None:
    blocks = [
        body for language, _, body in BLOCK.findall(README.read_text(encoding="utf-8")) if language == "sh"
    ]
    assert len(blocks) == N_SHELL_BLOCKS
    assert all(len(body.strip().splitlines()) == 1 for body in blocks)
    assert "gerules demo" in blocks[0]
    assert "pytest" in blocks[1]


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")))
def test_links_lead_somewhere(target: str) -> None:
    assert (README.parent / target).exists()


def run(command: str, folder: Path, exit_code: int = 0) -> str:
    """Run one command of the tour; what it prints, standard output first."""
    program, *arguments = shlex.split(command)
    assert program == "gerules"
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-m", "gerules.cli", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == exit_code, done.stderr
    return "".join(line.rstrip() + "\n" for line in (done.stdout + done.stderr).strip().splitlines())


def settle(text: str) -> str:
    """Forget what differs from run to run: times, the last digits of numbers, and the widths of columns."""
    text = TIME.sub("T", text)
    text = LONG_NUMBER.sub(lambda match: f"{float(match[0]):.3g}", text)
    return re.sub(r"[ ─]+", " ", text).strip()
