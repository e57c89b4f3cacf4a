"""The pages under docs/ as tests see them: fenced blocks with their words, and the tables between markers."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from gerules.dsl import RuleBook, load_rules, rules_folder
from gerules.errors import Source
from gerules.ops import Schemas

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
SCHEMAS = Schemas()

WITH_TORCH = {"torch.md"}
"""Pages whose examples need the extra for torch: tests/models runs them."""

_FENCE = re.compile(r"^```(.*)$")


@dataclass(frozen=True)
class Block:
    """One fenced block: its page, the words after the fence, the line of its first line, its text."""

    page: str
    words: tuple[str, ...]
    line: int
    text: str
    heading: str

    @property
    def kind(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def code(self) -> str:
        """The error code that the block provokes; empty for a block that is right."""
        return next((word for word in self.words[1:] if re.fullmatch(r"E\d{5}", word)), "")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path, kind: str = "") -> list[Block]:
    """The fenced blocks of a page, all of them or those of one kind."""
    return [block for block in _blocks(path) if not kind or block.kind == kind]


def _blocks(path: Path) -> Iterator[Block]:
    opened: tuple[tuple[str, ...], int] | None = None
    lines: list[str] = []
    heading = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if found is None:
            lines.append(line)
            if opened is None and line.startswith("#"):
                heading = line.lstrip("# ")
        elif opened is None:
            opened, lines = (tuple(found[1].split()), number + 1), []
        else:
            yield Block(path.name, opened[0], opened[1], "\n".join(lines) + "\n", heading)
            opened = None
    assert opened is None, f"{path.name}:{opened and opened[1]}: a fence is not closed"


@functools.cache
def shipped_book() -> RuleBook:
    """The shipped rules: what examples of the pages may refer to."""
    return load_rules([rules_folder() / "pipeline.ger"], schemas=None)


def load_block(block: Block) -> RuleBook:
    """Load the rules of a block on top of the shipped ones; raises what is wrong in it."""
    return load_rules([Source(str(block), block.text)], schemas=SCHEMAS, base=shipped_book())


@functools.cache
def generator() -> ModuleType:
    """The script that writes the generated parts of the pages, as a module."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_generate"] = module
    spec.loader.exec_module(module)
    return module
