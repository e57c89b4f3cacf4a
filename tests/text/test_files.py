"""Regular files: pipes and links on either side of reading and writing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gerules.errors import GerulesError
from gerules.text import read_source
from gerules.text.files import open_regular, write_files


def write(path: Path, data: bytes = b"new") -> None:
    write_files([(path, lambda file: file.write(data))])


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_is_not_replaced(pipe: Path) -> None:
    with pytest.raises(OSError, match="pipe or a device"):
        write(pipe)
    assert pipe.is_fifo()
    assert list(pipe.parent.iterdir()) == [pipe]


def test_a_pipe_does_not_block_who_reads_it(pipe: Path) -> None:
    with pytest.raises(OSError, match="regular file"):
        open_regular(pipe)
    with pytest.raises(GerulesError, match="E10001"):
        read_source(pipe)


def test_a_link_stays_a_link_and_its_file_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to("target")
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_link_that_leads_nowhere_makes_its_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("later")
    write(link)
    assert (tmp_path / "later").read_bytes() == b"new"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(second)
    second.symlink_to(first)
    with pytest.raises(OSError):
        write(first)
    assert first.is_symlink()
