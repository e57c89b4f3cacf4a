"""A server under test, and a workspace for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.editor.client import Client, Message

PRELUDE = """\
# What the two files share.
ops SOFT = {Tanh, Sigmoid}
const SLOPE = 0.5

# A sum of two values, times a number.
define my::ScaledSum(a, b, k=1.0) -> y:
    s = Add(a, b)
    y = Mul(s, s)
ruleset mine.soft "what is soft":
    default on
"""

RULES = """\
# Rules of the workspace.
include "shared.ger"

rule two_negations in mine.soft "Two negations 𝄞 cancel": # 𝄞
    match:
        n = Neg(x)
        y = Neg(n)
    where:
        numel(x) > 2                               else "𝄞 small"
    rewrite:
        y = x
    test:
        x: f32[2, 3]
    test "it is small":
        x: f32[2]
        expect no match "small"

rule soft_sum in mine.soft "A soft function of a sum":
    once
    match:
        s = my::ScaledSum(a, b: T[N, C], k=factor)
        y = f@SOFT(s)
    where:
        factor == $SLOPE                           else "another slope"
    fold:
        twice = factor * 2
    rewrite:
        y = @f(my::ScaledSum(b, a, k=twice))
"""


@dataclass
class Files:
    """A folder with two rule files, and new ones on demand."""

    folder: Path
    _numbers: Iterator[int]

    @property
    def rules(self) -> str:
        """The address of the main file."""
        return (self.folder / "rules.ger").as_uri()

    @property
    def shared(self) -> str:
        """The address of the file that it includes."""
        return (self.folder / "shared.ger").as_uri()

    def new(self, suffix: str = ".ger") -> str:
        """The address of a file that no test has used."""
        return (self.folder / f"new{next(self._numbers)}{suffix}").as_uri()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "shared.ger").write_text(PRELUDE, encoding="utf-8")
    (folder / "rules.ger").write_text(RULES, encoding="utf-8")
    return Files(folder, count())


@pytest.fixture(scope="module")
def server(files: Files) -> Iterator[Client]:
    """One server for the tests of a module; it must live until the end, and say goodbye."""
    client = Client()
    try:
        client.start(files.folder, window={"workDoneProgress": True})
        yield client
        assert client.stop() == 0
    finally:
        client.kill()


@pytest.fixture
def rules(server: Client, files: Files) -> Iterator[str]:
    """The address of the main file, open."""
    server.open(files.rules, RULES)
    yield files.rules
    server.close(files.rules)


def messages(found: list[Message]) -> list[tuple[str, str]]:
    """Code and first line of each diagnostic."""
    return [(item.get("code", ""), item["message"].split("\n")[0]) for item in found]
