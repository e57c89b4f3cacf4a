"""The language page: every rule on it loads, every graph parses, every before becomes its after."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gerules.dsl import RuleBook, load_rules
from gerules.dsl.functions import ATTRIBUTES, METHODS, documented
from gerules.dsl.read_pattern import DTYPE_CLASSES, DTYPES
from gerules.dsl.read_rule import DEFAULT_SET
from gerules.dsl.values import GROWTH, MAX_INT_BITS, MAX_ITEMS, MIN_ELEMENTS
from gerules.engine.build import MAX_LIST
from gerules.engine.groups import LARGEST_GROUP
from gerules.engine.requirements import LONGEST_CHAIN, MOST_LEAVES
from gerules.engine.run import STEP_BUDGET
from gerules.errors import Source, table
from gerules.ir import parse_graph, print_graph
from gerules.pipeline.phases import CUSTOM
from gerules.report.rule_tests import test_rules
from gerules.text.parse import RULES
from tests.docs.engine_run import apply_rules, meaning_of
from tests.docs.pages import DOCS, PAGES, Block, blocks_of, load_block

PAGE = DOCS / "language.md"
TEXT = PAGE.read_text(encoding="utf-8")
# A block that is marked with a code is wrong on purpose; tests/docs/test_errors_page.py runs those.
RIGHT = [
    block
    for path in PAGES
    for block in blocks_of(path)
    if not re.search(r" E\d{5}", " " + " ".join(block.words))
]
# What the shipped rules hold already would be declared twice.
RULES_BLOCKS = [block for block in RIGHT if block.words == ("ger",)]
GRAPHS = [block for block in RIGHT if block.kind == "graph"]


@pytest.mark.parametrize("block", RULES_BLOCKS, ids=str)
def test_rules_load_without_faults_and_warnings(block: Block) -> None:
    book = load_block(block)
    own = [item for item in book.warnings if item.span is not None and item.span.source.name == str(block)]
    assert [item.message for item in own] == []


@pytest.mark.parametrize("block", GRAPHS, ids=str)
def test_graphs_parse_and_print_back(block: Block) -> None:
    graph = parse_graph(Source(str(block), block.text))
    seeds = dict(re.findall(r"(\w+): const [^=\n]*= (random\(\d+\))", block.text))
    again = parse_graph(print_graph(graph, store=lambda name, _: seeds[name]))
    assert meaning_of(again) == meaning_of(graph)


def examples() -> list[tuple[Block, Block, Block]]:
    """The rule above each pair of graphs, and the pair."""
    found: list[tuple[Block, Block, Block]] = []
    rule = before = None
    for block in blocks_of(PAGE):
        if block.kind == "ger":
            rule = block
        elif block.words == ("graph", "before"):
            before = block
        elif block.words == ("graph", "after"):
            assert rule is not None and before is not None, f"{block} follows no rule and graph"
            found.append((rule, before, block))
            before = None
    return found


@pytest.mark.parametrize(("rule", "before", "after"), examples(), ids=str)
def test_before_becomes_after(rule: Block, before: Block, after: Block) -> None:
    book = load_block(rule)
    names = {item.name.name for item in book.rules if item.name.span.source.name == str(rule)}
    result = apply_rules(book, parse_graph(before.text), names)
    assert meaning_of(result) == meaning_of(parse_graph(after.text))
    assert meaning_of(parse_graph(before.text)) != meaning_of(parse_graph(after.text))


def test_there_are_examples() -> None:
    assert len(RULES_BLOCKS) > 25 and len(GRAPHS) > 7 and len(examples()) >= 3


# ---------------------------------------------------------------- tables
def rows_under(heading: str, first: str) -> list[list[str]]:
    """The rows of the table with a first column called so, below a heading."""
    lines = TEXT.split(f"\n{heading}\n", 1)[1].splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def code_of(cell: str) -> list[str]:
    """The pieces of code in a cell."""
    return [piece.replace("\\|", "|") for piece in re.findall(r"`([^`]+)`", cell)]


def codes_under(heading: str, first: str) -> list[str]:
    """The code in the first column of a table."""
    return [code for row in rows_under(heading, first) for code in code_of(row[0])]


def parses(text: str) -> RuleBook:
    return load_rules([Source("table.ger", text)], schemas=None)


@pytest.mark.parametrize("code", codes_under("## Patterns", "pattern"))
def test_each_pattern_of_the_table_is_one(code: str) -> None:
    parses(f"rule r in s:\n    match:\n        y = Sum({code})\n    rewrite:\n        y = Relu(y)\n")


@pytest.mark.parametrize("code", codes_under("### Attributes and strictness", "in a call"))
def test_each_attribute_pattern_of_the_table_is_one(code: str) -> None:
    parses(f"rule r in s:\n    match:\n        y = Op(x, {code})\n    rewrite:\n        y = x\n")


@pytest.mark.parametrize("code", codes_under("### Types", "part"))
def test_each_type_of_the_table_is_one(code: str) -> None:
    code = code.split(" ")[0] if code == "_" else code
    if code != "_":
        parses(f"rule r in s:\n    match:\n        y = Op(x: {code})\n    rewrite:\n        y = x\n")


@pytest.mark.parametrize("code", codes_under("### rewrite", "on the right"))
def test_each_build_of_the_table_is_one(code: str) -> None:
    is_build = re.match(r"(fn )?[@\w:]+\??\(|\w+$", code) and code != "none"
    line = f"y = {code}" if is_build and not code[0].isdigit() else f"y = Op({code})"
    parses(f"rule r in s:\n    match:\n        y = Op(x)\n    rewrite:\n        {line}\n")


@pytest.mark.parametrize("code", codes_under("### test", "line"))
def test_each_line_of_a_test_of_the_table_is_one(code: str) -> None:
    rule = "rule r in s:\n    match:\n        y = Op(x)\n    rewrite:\n        y = x\n"
    parses(f"{rule}    test:\n        {code}\n")


@pytest.mark.parametrize("code", codes_under("### Other lines of a rule", "line"))
def test_each_other_line_of_the_table_is_one(code: str) -> None:
    parses(f"rule r in s:\n    {code}\n    match:\n        y = Op(x)\n    rewrite:\n        y = x\n")


@pytest.mark.parametrize("code", codes_under("### match", "left side"))
def test_each_left_side_of_the_table_is_one(code: str) -> None:
    parses(f"rule r in s:\n    match:\n        {code} Op(x)\n    rewrite:\n        y = x\n")


def test_attributes_after_a_dot_are_those_that_exist() -> None:
    listed = [sorted(code_of(row[1])) for row in rows_under("## Expressions", "of")]
    assert sorted(listed) == sorted(sorted(names) for names in ATTRIBUTES.values())
    assert all(f"`device.{name}(" in TEXT for name in METHODS)


def test_every_function_stands_in_the_table() -> None:
    shown = re.findall(
        r"^\| `(\w+)\(", TEXT.split("<!-- functions:")[1].split("<!-- end of functions")[0], re.M
    )
    assert shown == [item.name for item in documented()]


def test_every_element_type_and_class_is_named() -> None:
    types = TEXT.split("Element types: `")[1].split("`")[0].split()
    assert types == list(DTYPES)
    classes = next(row for row in rows_under("### Types", "part") if "float" in row[0])
    assert code_of(classes[0]) == list(DTYPE_CLASSES)


def test_every_word_of_the_grammar_is_explained() -> None:
    words = {word for word in RULES.keywords if word.isidentifier()}
    missing = sorted(word for word in words if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", TEXT))
    assert missing == []


def test_limits_are_those_of_the_code() -> None:
    words = " ".join(TEXT.split())
    assert f"a match may take {STEP_BUDGET:,} steps" in words
    assert f"no upper end ({LONGEST_CHAIN} at most)" in words
    assert MOST_LEAVES == 6 and "at most six leaves" in words
    assert f"at most {LARGEST_GROUP} members" in words
    assert f"At most {MAX_LIST:,} values are in it" in words
    assert f"lists at most {MAX_ITEMS:,} items" in words
    assert f"at most {MIN_ELEMENTS:,} elements" in words and GROWTH == 4
    assert f"whole numbers have at most {MAX_INT_BITS} bits" in words
    assert DEFAULT_SET == "main" and "the set `main`" in words
    assert f"a phase called `{CUSTOM}`" in words


def test_the_commands_of_the_tutorial_run(tmp_path: Path) -> None:
    blocks = blocks_of(PAGE)
    tested = next(block for block in blocks if "rule two_factors_tested" in block.text)
    graph = next(block for block in blocks if "y: f32[2, 3] = Mul(b, s)" in block.text)
    shell = next(block for block in blocks if block.kind == "sh")
    (tmp_path / "my.ger").write_text(tested.text, encoding="utf-8")
    (tmp_path / "my.graph").write_text(graph.text, encoding="utf-8")
    shown = ""
    for line in shell.text.splitlines():
        program, *arguments = line.split()
        assert program == "gerules"
        command = [sys.executable, "-m", "gerules.cli", *arguments]
        env = os.environ | {"PYTHONPATH": str(DOCS.parent)}
        run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stdout + run.stderr
        shown = run.stdout + run.stderr
    assert "two_factors_tested" in shown


def test_every_code_of_the_load_checks_is_listed() -> None:
    section = TEXT.split("## What is checked when rules are loaded")[1].split("\n## ")[0]
    listed = set(re.findall(r"E\d{5}", section))
    known = set(table.TABLE)
    assert listed <= known
    assert {
        code for code in known if "E40101" <= code < "E40119" and code not in {"E40107", "E40110"}
    } <= listed


# ---------------------------------------------------------------- tests inside rules
TESTED = [block for block in RULES_BLOCKS if "    test" in block.text]


@pytest.mark.parametrize("block", TESTED, ids=str)
def test_the_tests_inside_the_rules_hold(block: Block) -> None:
    book = load_block(block)
    own = [rule for rule in book.rules if rule.name.span.source.name == str(block) and rule.tests]
    report = test_rules(book, own)
    assert [str(failure) for failure in report.failures] == []
    assert report.n_tests == sum(len(rule.tests) for rule in own) > 0
