"""Every case of the two lists in `coverage.md` is answered, by cases that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.golden.test_golden import CASES

FOLDER: Final = Path(__file__).parent
PAGE: Final = (FOLDER / "coverage.md").read_text(encoding="utf-8")
IDS: Final = (
    *("A1", "A2", "A3", "A4", "A6", "A7", "A8", "A10", "A12", "A14", "A15", "A17"),
    *("B1", "B2", "B4", "B5"),
    *("C1", "C2", "C4", "C6", "C7", "C9", "C11", "C12", "C13", "C15", "C16", "C17"),
    *("G1", "G2", "G3", "G4", "G5", "G6", "G9", "G11"),
)
"""What the Graph Engine's tests check of matching, texts, fusion and folding."""
N_COMPLAINTS: Final = 32
CASES_OF_GE: Final = "What the Graph Engine's own tests expect"
COMPLAINTS: Final = "What users of other rewriters ran into"
NAMES: Final = frozenset(case.name for case in CASES)


def rows(heading: str) -> Iterator[list[str]]:
    """Rows of the table under a heading, without its head."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    for line in table[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def exists(name: str) -> bool:
    """Whether a golden case, or a test by its file and function, is there."""
    path, _, function = name.partition("::")
    if not function:
        return name in NAMES
    file = FOLDER.parents[1] / path
    return file.is_file() and bool(
        re.search(rf"^ *def {re.escape(function.split('::')[-1])}\(", file.read_text(encoding="utf-8"), re.M)
    )


def test_every_case_of_the_graph_engine_has_one_here() -> None:
    found = {row[0]: re.findall(r"`([^`]+)`", row[2]) for row in rows(CASES_OF_GE)}
    assert tuple(found) == IDS
    assert all(found.values())
    assert [name for names in found.values() for name in names if not exists(name)] == []


def test_every_tagged_case_is_in_the_table() -> None:
    found = {row[0]: row[2] for row in rows(CASES_OF_GE)}
    for case in CASES:
        tags = re.search(r"\(([A-C,G0-9 ]+)(?:, intended difference)?\)$", case.title)
        for tag in re.findall(r"[A-Z]\d+", tags[1]) if tags else ():
            if tag in IDS:
                assert f"`{case.name}`" in found[tag], (tag, case.name)


def test_every_complaint_has_a_case() -> None:
    found = [re.findall(r"`([^`]+)`", row[1]) for row in rows(COMPLAINTS)]
    assert len(found) == N_COMPLAINTS
    assert all(found)
    assert [name for names in found for name in names if not exists(name)] == []


def test_a_name_that_is_not_there_is_seen() -> None:
    assert not exists("matching/patterns/no-such-case")
    assert not exists("tests/golden/test_coverage.py::test_nothing")
    assert exists("tests/golden/test_coverage.py::test_every_complaint_has_a_case")
