"""Help: groups, examples, version, and how little it loads."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from tests.cli.conftest import Run

GROUPS = {
    "Models": ["compile", "run", "demo", "cache"],
    "Look inside": ["show", "phase", "explain", "why", "find", "bisect", "ledger"],
    "Rules and devices": ["draft", "export-pass", "fmt", "devices", "lsp", "plugins", "rules"],
}

COMMANDS = [
    "compile", "run", "demo", "show", "phase", "fmt", "devices", "rules list", "rules check", "rules test",
    "bisect", "ledger", "find", "draft", "plugins", "export-pass", "cache list", "cache clear",
    "cache verify",
]  # fmt: skip


def groups_of(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    group = ""
    for line in text.splitlines():
        if head := re.match(r"╭─ (.+?) ─", line):
            group = head[1]
        elif row := re.match(r"│ ([a-z][a-z-]*)  ", line):
            found.setdefault(group, []).append(row[1])
    return found


def test_commands_stand_in_groups(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert groups_of(result.stdout) == GROUPS
    assert "Exit codes: 0 done, 1 a fault of the input, 2 wrong usage, 3" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples_that_name_it(run: Run, command: str) -> None:
    result = run(*command.split(), "-h")
    assert result.exit_code == 0
    examples = re.findall(r"^ +(gerules .*)$", result.stdout.split("Examples:")[1], re.MULTILINE)
    assert examples
    assert all(line.startswith(f"gerules {command}") for line in examples)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_use_options_that_exist(run: Run, command: str) -> None:
    text = run(*command.split(), "-h").stdout
    about, options = text.split("Examples:")[1].split("╭", 1)
    used = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", about))
    assert all(re.search(rf"{re.escape(option)}\b", options) for option in used)


def test_no_paragraph_of_help_is_folded_badly(run: Run) -> None:
    for command in COMMANDS:
        about = run(*command.split(), "-h").stdout.split("╭")[0]
        lines = [line.strip() for line in about.splitlines()]
        examples = [line for line in lines[lines.index("Examples:") + 1 :] if line]
        assert all(line.startswith("gerules ") for line in examples), command
        # A line that was too long for the screen leaves a stump of a word or two behind.
        prose = lines[4 : lines.index("Examples:")]
        stumps = [line for line, after in pairwise(prose) if line and after and len(line) < 30]
        assert not stumps, command


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"gerules {importlib.metadata.version('gerules')}\n"


def test_bare_program_shows_help_and_counts_as_usage(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "compile" in result.output


def test_a_wrong_command_is_usage_with_the_nearest_name(run: Run) -> None:
    result = run("comple")
    assert result.exit_code == 2
    assert "Did you mean 'compile'?" in result.output


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom gerules.cli.app import main\nmain(['--help'])\n"
        "heavy = {'numpy', 'onnx', 'lark', 'networkx', 'pydantic', 'google.protobuf', 'gerules.pipeline'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
