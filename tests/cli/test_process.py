"""The program as a process: pipes, signals, terminals, encodings."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import STEM, Run

PROGRAM = [sys.executable, "-m", "gerules.cli"]
ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    kept = {
        key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")
    }
    return kept | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | more


def on_terminal(
    *arguments: object, env: dict[str, str], columns: int = 100, program: Sequence[str] = PROGRAM
) -> tuple[str, int]:
    """Run with stdout and stderr on a terminal; returns what it showed."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*program, *map(str, arguments)], stdin=child, stdout=child, stderr=child,
        env=env | {"COLUMNS": str(columns)},
    )  # fmt: skip
    os.close(child)
    shown = b""
    while True:
        ready, _, _ = select.select([parent], [], [], 60)
        try:
            part = os.read(parent, 65536) if ready else b""
        except OSError:
            part = b""
        if not part:
            break
        shown += part
    os.close(parent)
    return shown.decode().replace("\r\n", "\n"), process.wait()


@pytest.mark.parametrize("arguments", [("show", "{}"), ("show", "{}", "--json"), ("run", "{}"), ("--help",)])
def test_a_reader_who_leaves_is_no_fault(stem: Path, arguments: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [*PROGRAM, *(item.format(stem) for item in arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert errors == b""
    assert process.wait() == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_is_one_line_and_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    lines = "".join(f"    v{i} = Tanh({'x' if i == 0 else f'v{i - 1}'})\n" for i in range(30_000))
    path = tmp_path / "long.graph"
    path.write_text(f"graph long:\n    input x: f32[2]\n{lines}    return v29999\n", encoding="utf-8")
    process = subprocess.Popen(
        [*PROGRAM, "compile", str(path), "-o", str(tmp_path / "out.om")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    time.sleep(1.5)
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert out == b""
    assert errors == b"interrupted; nothing was left half-written\n"
    assert [item.name for item in tmp_path.iterdir()] == ["long.graph"]


def test_colour_is_for_terminals_and_can_be_refused(stem: Path) -> None:
    shown, code = on_terminal("run", stem, env=environment())
    assert code == 0 and "\x1b[" in shown
    plain, _ = on_terminal("run", stem, env=environment(NO_COLOR="1"))
    assert not re.search(r"\x1b\[[0-9;]*3\dm", plain)
    piped = subprocess.run([*PROGRAM, "run", str(stem)], capture_output=True, env=environment(), check=True)
    assert b"\x1b" not in piped.stdout


def test_a_narrow_terminal_folds_names_and_never_cuts_them(tmp_path: Path) -> None:
    name = "ein_sehr_langer_name_" * 6
    path = tmp_path / "n.graph"
    path.write_text(
        f"graph g:\n    input {name}: f32[2]\n    y = Relu({name})\n    return y\n", encoding="utf-8"
    )
    shown, code = on_terminal("run", path, env=environment(NO_COLOR="1"), columns=60)
    assert code == 0
    # A slow machine shows progress in between: lines that are drawn and erased again.
    written = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert max(map(len, re.split(r"[\r\n]+", written))) <= 60
    assert "…" not in shown
    piped = subprocess.run(
        [*PROGRAM, "run", path], capture_output=True, text=True, env=environment(), check=True
    )
    assert name in piped.stdout


PROGRESS = """
import sys, time
from gerules.cli import progress
progress._PATIENCE_S = float(sys.argv[1])
with progress.Steps("rechnen", 2, is_quiet=sys.argv[2] == "quiet") as steps:
    steps.begin("eins")
    time.sleep(0.6)
print("fertig")
"""


@pytest.mark.parametrize(
    ("patience_s", "how", "is_shown"), [("0.0", "loud", True), ("60", "loud", False), ("0.0", "quiet", False)]
)
def test_progress_is_for_terminals_and_for_what_takes_long(patience_s: str, how: str, is_shown: bool) -> None:
    program = [sys.executable, "-c", PROGRESS]
    shown, code = on_terminal(patience_s, how, env=environment(), program=program)
    assert code == 0 and "fertig" in shown
    assert ("rechnen: eins" in shown) == is_shown
    piped = subprocess.run([*program, patience_s, how], capture_output=True, env=environment(), check=True)
    assert piped.stderr == b"" and piped.stdout == b"fertig\n"


def test_an_encoding_without_our_letters_is_no_crash(model: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "show", str(model)], capture_output=True, check=False,
        env=environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rb"\u0432\u0445\u043e\u0434" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="names of other systems are text")
def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.graph"
    Path(os.fsdecode(path)).write_text(STEM, encoding="utf-8")
    done = subprocess.run(
        [*PROGRAM, "run", path, "--json"], capture_output=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"]
    gone = subprocess.run([*PROGRAM, "run", path + b"x"], capture_output=True, env=environment(), check=False)
    assert gone.returncode == 1 and b"error[E10001]" in gone.stderr


def test_the_installed_script_is_this_program() -> None:
    script = Path(sys.executable).with_name("gerules")
    if not script.exists():
        pytest.skip("gerules is not installed as a script")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gerules ")


def test_colours_of_the_runner_do_not_leak(run: Run) -> None:
    assert "\x1b" not in run("devices").stdout


@pytest.mark.parametrize(("name", "exit_code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_while_modules_are_read(name: str, exit_code: int) -> None:
    code = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "gerules.cli.app":
            os.kill(os.getpid(), signal.NUMBER)

sys.meta_path.insert(0, Interrupt())
from gerules.cli.start import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code.replace("NUMBER", name)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (exit_code, "interrupted; nothing was left half-written\n")
