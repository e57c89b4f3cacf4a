"""The page of errors: one section for each code, in order, and examples that really raise it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from gerules.dsl.selection import resolve_params
from gerules.errors import TABLE, Diagnostic, GerulesError, Source
from gerules.ir import parse_graph
from tests.docs.engine_run import apply_rules
from tests.docs.pages import DOCS, Block, blocks_of, generator, load_block

PAGE = DOCS / "errors.md"
TEXT = PAGE.read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.+)$", TEXT, re.M)
BLOCKS = blocks_of(PAGE)
EXAMPLES = [block for block in BLOCKS if block.code]


def test_there_is_a_section_for_each_code_in_order() -> None:
    wanted = [f"{item.code} {item.slug}" for item in sorted(TABLE.values(), key=lambda item: item.code)]
    assert wanted == HEADINGS, "run python docs/generate.py"


def test_messages_causes_and_remedies_are_those_of_the_table() -> None:
    assert generator().fill_errors(TEXT) == TEXT, "run python docs/generate.py"


def test_generating_adds_what_is_missing_and_keeps_what_was_written() -> None:
    section = re.search(r"^## E40003 .*?(?=^## )", TEXT, re.M | re.S)
    assert section is not None and "w.rank == 2" in section[0]
    without_other = re.sub(r"^## E40005 .*?(?=^## )", "", TEXT, flags=re.M | re.S)
    assert without_other != TEXT
    assert generator().fill_errors(without_other) == TEXT


def test_an_example_stands_under_its_code() -> None:
    assert [block.code for block in EXAMPLES] == [block.heading.split()[0] for block in EXAMPLES]
    assert len(EXAMPLES) >= 40


def found_by(block: Block) -> list[Diagnostic]:
    """The faults and warnings that a text of rules or a graph gives."""
    try:
        if block.kind == "graph":
            parse_graph(Source(str(block), block.text))
            return []
        book = load_block(block)
        resolve_params(book)
        own = {rule.name.name for rule in book.rules if rule.name.span.source.name == str(block)}
        follows = BLOCKS[BLOCKS.index(block) + 1] if BLOCKS.index(block) + 1 < len(BLOCKS) else None
        if follows is not None and follows.words == ("graph", "input"):
            apply_rules(book, parse_graph(follows.text), own)
        return [item for item in book.warnings if item.span and item.span.source.name == str(block)]
    except GerulesError as error:
        return list(error.diagnostics)


@pytest.mark.parametrize("block", [b for b in EXAMPLES if b.kind in ("ger", "graph")], ids=str)
def test_a_text_raises_its_code(block: Block) -> None:
    assert {item.code.code for item in found_by(block)} == {block.code}


@pytest.mark.parametrize("block", [b for b in EXAMPLES if b.kind == "python"], ids=str)
def test_a_program_raises_its_code(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "example.py"
    program.write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GerulesError) as caught:
        runpy.run_path(str(program))
    assert {item.code.code for item in caught.value.diagnostics} == {block.code}
