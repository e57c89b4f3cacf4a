"""Files that commands must not touch, must not wait for, and must not believe."""

from __future__ import annotations

import os
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import STEM, Run
from tests.cli.test_process import PROGRAM, environment


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "net.graph"
    path.write_text(STEM.replace("[N,", "[1,"), encoding="utf-8")
    return path


@pytest.fixture
def net(run: Run, graph: Path) -> Path:
    path = graph.with_suffix(".om")
    assert run("compile", graph, "-o", path).exit_code == 0
    return path


def test_a_result_never_replaces_what_is_read(run: Run, graph: Path, net: Path) -> None:
    link, hard, rules = graph.with_name("link"), graph.with_name("hard.om"), graph.with_name("r.ger")
    link.symlink_to(graph)
    os.link(graph, hard)
    rules.write_text("rule r in a: Relu(Relu(x)) => Relu(x)\n", encoding="utf-8")
    arrays = graph.with_name("x.npz")
    np.savez(arrays, x=np.ones((1, 3, 8, 8), np.float32))
    for command in (
        ("compile", graph, "-o", graph),
        ("compile", graph, "-o", link),
        ("compile", graph, "-o", hard),
        ("compile", graph, "--rules", rules, "-o", rules),
        ("show", graph, "-o", graph),
        ("show", net, "-o", net),
        ("phase", "fusion", graph, "-o", graph),
        ("run", net, "-o", net),
        ("run", net, "--input", arrays, "-o", arrays),
        ("run", net, "--input", f"x={arrays}", "-o", arrays),
        ("run", net, "--check", graph, "-o", graph),
    ):
        before = {path: path.read_bytes() for path in graph.parent.iterdir()}
        result = run(*command)
        assert result.exit_code == 1, command
        assert "E1000" in result.stderr, command
        assert {path: path.read_bytes() for path in graph.parent.iterdir()} == before


def test_constants_never_replace_data_of_something_else(run: Run, graph: Path) -> None:
    data = graph.with_name("other.bin")
    data.write_bytes(b"weights of another model")
    result = run("show", graph, "-o", graph.with_name("other.graph"))
    assert result.exit_code == 1
    assert "E10004" in result.stderr
    assert data.read_bytes() == b"weights of another model"
    data.unlink()
    for _ in range(2):  # what it wrote itself it replaces
        assert run("show", graph, "-o", graph.with_name("other.graph")).exit_code == 0


def test_pipes_neither_block_nor_vanish(run: Run, graph: Path, net: Path) -> None:
    pipes = [
        graph.with_name(f"pipe{ending}") for ending in (".om", ".onnx", ".graph", ".ger", ".npy", ".npz")
    ]
    for pipe in pipes:
        os.mkfifo(pipe)
    om, onnx, text, rules, array, archive = pipes
    for command in (
        ("compile", graph, "-o", om),
        ("compile", onnx),
        ("compile", text),
        ("compile", graph, "--rules", rules),
        ("show", om),
        ("run", om),
        ("run", net, "--input", array),
        ("run", net, "--input", archive),
        ("run", net, "-o", archive),
    ):
        result = run(*command)
        assert result.exit_code == 1, command
        assert "E1000" in result.stderr, command
    assert all(pipe.is_fifo() for pipe in pipes)


@pytest.mark.parametrize("name", ["", "."])
def test_a_model_without_a_name(run: Run, name: str) -> None:
    result = run("compile", name)
    assert result.exit_code == 1
    assert "E10001" in result.stderr


def test_arrays_that_numpy_reads_in_unusual_ways_to_fail(run: Run, net: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, "
    array = net.with_name("x.npy")
    for text in (header, header.replace(b"(1", b"((((1"), b"(" * 118, b"\xff" * 64):
        array.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
        result = run("run", net, "--input", array)
        assert result.exit_code == 1
        assert "E10001" in result.stderr, result.stderr


def test_an_archive_of_any_damage_is_refused_with_a_code(run: Run, net: Path) -> None:
    archive = net.with_name("x.npz")
    np.savez_compressed(archive, x=np.ones((1, 3, 8, 8), np.float32))
    whole = archive.read_bytes()
    directory = whole.rindex(b"PK\x01\x02")
    # The version that is needed, the flags, and the method are what zipfile has faults of its own for.
    for at in (4, 6, 8, 10, directory + 4, directory + 6, directory + 8, directory + 10):
        for value in (0x20, 0x40, 0xFF):
            archive.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            result = run("run", net, "--input", archive)
            assert result.exit_code in (0, 1)
            assert "E90001" not in result.stderr, result.stderr


def test_an_archive_that_promises_more_than_it_holds_is_refused_unread(run: Run, net: Path) -> None:
    archive = net.with_name("x.npz")
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(
            "x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(1 << 20)
        )
    result = run("run", net, "--input", archive)
    assert result.exit_code == 1
    assert "too short" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="the system has no full device")
@pytest.mark.parametrize("more", [("show", "{}"), ("show", "{}", "--json"), ("devices",), ("--help",)])
def test_a_full_stdout_is_told_on_stderr(graph: Path, more: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *(item.format(graph) for item in more)],
            stdout=full, stderr=subprocess.PIPE, env=environment(), text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error[E10004]: stdout cannot be written"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_fault(graph: Path, closing: str) -> None:
    words = " ".join([*PROGRAM, "compile", str(graph), "-o", str(graph.with_suffix(".om"))])
    done = subprocess.run(
        ["sh", "-c", f"{words} {closing}"], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert graph.with_suffix(".om").is_file()
