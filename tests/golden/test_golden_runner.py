"""The runner of golden files: it refuses what is not written as it should be, and sees every difference."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gerules.ir import parse_graph
from gerules.ops import Schemas
from tests.golden.casefile import Case, CaseError, read_cases, write_blocks
from tests.golden.options import read_options
from tests.golden.running import run_case
from tests.golden.sameness import explain_difference
from tests.golden.test_golden import CASES, FILES, check_case, new_blocks
from tests.golden.texts import graph_text, trace_text

PATH = Path("area/file.md")
GRAPH = """graph g:
    input x: f32[2, 3]
    k: const f32[3] = [1.0, 2.0, 3.0]
    a = Add(x, k)
    y = Softmax(a)
    return y"""
BEFORE = f"```graph before\n{GRAPH}\n```\n"
SCHEMAS = Schemas()


def one(text: str) -> Case:
    (case,) = read_cases(PATH, f"# title\n\nprose\n\n{text}")
    return case


# ---------------------------------------------------------------- files
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```garph before\n```\n", "is no block"),
        ("``` graph before\n```\n", "is no block"),
        ("```graph befor\n```\n", "called before or after"),
        ("```graph\n```\n", "called before or after"),
        ("```graph before\n", "not closed"),
        ("```why\n```\n", "names a rule"),
        ("```trace x\n```\n", "names a rule"),
        (BEFORE, "nothing would be tested"),
        (BEFORE + "unchagned\n", "nothing would be tested"),
        (BEFORE + "unchanged\n```error\n```\n", "exclude each other"),
        (BEFORE + BEFORE + "unchanged\n", "a second graph before"),
        ("unchanged\n", "no graph before"),
        (BEFORE + "unchanged\nexpect failure:\n", "say why"),
        ("# another title\n", "a second title"),
    ],
)
def test_what_is_written_wrongly_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CaseError, match=reason):
        one(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prose\n", "no title"),
        (
            f"# title\n\n{BEFORE}unchanged\n\n## first\n\nprose\n\n{BEFORE}unchanged\n",
            "above the first section",
        ),
        (f"# title\n\n## first\n\n{BEFORE}unchanged\n", "says in words"),
        (f"# t\n\n## a b\n\np\n\n{BEFORE}unchanged\n\n## A-b\n\np\n\n{BEFORE}unchanged\n", "two sections"),
    ],
)
def test_files_that_are_built_wrongly_are_refused(text: str, reason: str) -> None:
    with pytest.raises(CaseError, match=reason):
        read_cases(PATH, text)


def test_blocks_above_the_sections_hold_for_all() -> None:
    text = f"# t\n\n```options\ndevice: host\n```\n\n## a\n\np\n\n{BEFORE}unchanged\n\n## b\n\np\n\n"
    text += f"```options\ndevice: ascend310\n```\n{BEFORE}unchanged\n"
    first, second = read_cases(PATH, text)
    assert (read_options(first).device, read_options(second).device) == ("host", "ascend310")
    assert [case.name for case in (first, second)] == ["area/file/a", "area/file/b"]


@pytest.mark.parametrize(
    "line",
    ["devise: host", "device", "folds: maybe", "dims: N", "feeds: x 0..1", "compare: names", "tolerance: 1"],
)
def test_options_that_are_none_are_refused(line: str) -> None:
    with pytest.raises(CaseError):
        read_options(one(f"```options\n{line}\n```\n{BEFORE}unchanged\n"))


def test_figures_and_rules_that_are_none_are_refused() -> None:
    with pytest.raises(CaseError, match="no figure"):
        case = one(f"{BEFORE}```plan\npeak: 3\n```\n")
        check_case(case, run_case(case))
    with pytest.raises(CaseError, match="there are no rules"):
        run_case(one(f"```options\nrun: rules conv_bais\n```\n{BEFORE}unchanged\n"))


def test_golden_files_are_in_folders_and_all_are_read() -> None:
    assert len(FILES) > 10
    assert {path.parent.name for path in FILES} >= {"fusion", "matching", "format", "precision", "memory"}


# ---------------------------------------------------------------- comparison
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Softmax(a)", "LogSoftmax(a)"),
        ("Softmax(a)", "Softmax(a, axis=0)"),
        ("Softmax(a)", "Softmax(x)"),
        ("Add(x, k)", "Add(k, x)"),
        ("Add(x, k)", "Add(x, x)"),
        ("[1.0, 2.0, 3.0]", "[1.0, 2.0, 3.001]"),
        ("k: const f32[3] =", "k: const f32[1, 3] ="),
        ("k: const f32[3] =", "input k: f32[3] ="),
        ("return y", "return a"),
        ("return y", "return y, a"),
        ("y = Softmax(a)\n    return y", "z = Softmax(a)\n    return z"),
        ("input x:", "input extra: f32[1]\n    input x:"),
        ("y = Softmax(a)", "dead = Exp(a)\n    y = Softmax(a)"),
        ("f32[2, 3]", "f32[3, 3]"),
        ("graph g:", "graph g:\n    opset 13"),
    ],
)
def test_every_difference_is_seen_both_ways(old: str, new: str) -> None:
    assert old in GRAPH
    one, two = parse_graph(GRAPH), parse_graph(GRAPH.replace(old, new))
    assert explain_difference(two, one, SCHEMAS)
    if "opset" not in new:
        assert explain_difference(one, two, SCHEMAS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Softmax(a)", "Softmax(a, axis=-1)"),
        ("[1.0, 2.0, 3.0]", "[1.0, 2.0, 3.0000001]"),
        ("    a = Add(x, k)\n    y = Softmax(a)", "    b = Add(x, k)\n    y = Softmax(b)"),
        ("graph g:", "graph h:"),
    ],
)
def test_what_makes_no_difference_is_none(old: str, new: str) -> None:
    assert old in GRAPH
    assert explain_difference(parse_graph(GRAPH), parse_graph(GRAPH.replace(old, new)), SCHEMAS) is None


def test_one_value_read_twice_is_not_two_values() -> None:
    shared = "graph g:\n    input x: f32[2]\n    a = Exp(x)\n    y = Add(a, a)\n    return y"
    twice = "graph g:\n    input x: f32[2]\n    a = Exp(x)\n    b = Exp(x)\n    y = Add(a, b)\n    return y"
    assert "shared" in str(explain_difference(parse_graph(shared), parse_graph(twice), SCHEMAS))
    assert "shared" in str(explain_difference(parse_graph(twice), parse_graph(shared), SCHEMAS))


def test_types_and_origins_count_where_they_are_written() -> None:
    typed = GRAPH.replace("a = Add", "a: f32[2, 3] = Add").replace("y = Soft", "y: f32[2, 3] = Soft")
    assert explain_difference(parse_graph(GRAPH), parse_graph(typed), SCHEMAS) is None
    assert "not f32[2, 3]" in str(explain_difference(parse_graph(typed), parse_graph(GRAPH), SCHEMAS))
    named = parse_graph(GRAPH.replace("Softmax(a)", 'Softmax(a)  {name="last"}'))
    assert explain_difference(parse_graph(GRAPH), named, SCHEMAS) is None
    assert "name" in str(explain_difference(parse_graph(GRAPH), named, SCHEMAS, with_origin=True))


def test_bodies_are_compared_too() -> None:
    text = """graph g:
    input c: bool[]
    input x: f32[2]
    y: f32[2] = If(c):
        then_branch:
            capture x: f32[2] = x
            t: f32[2] = Relu(x)
            return t
        else_branch:
            capture x: f32[2] = x
            t: f32[2] = Neg(x)
            return t
    return y"""
    assert explain_difference(parse_graph(text), parse_graph(text), SCHEMAS) is None
    other = text.replace("Neg(x)", "Abs(x)")
    assert "else_branch" in str(explain_difference(parse_graph(text), parse_graph(other), SCHEMAS))


# ---------------------------------------------------------------- numbers
WRONG = """```ger
gerules 1
rule wrong in demo: Softmax(x) => {build}
```
"""


def test_a_rule_that_computes_something_else_is_found() -> None:
    good = one(WRONG.format(build="Exp(LogSoftmax(x))") + BEFORE + "```graph after\n```\n")
    assert [fault.split(":")[0] for fault in check_case(good, run_case(good))] == ["after"]
    bad = one(WRONG.format(build="Exp(LogSoftmax(x, axis=0))") + BEFORE + "```graph after\n```\n")
    assert [fault.split(":")[0] for fault in check_case(bad, run_case(bad))] == ["after", "numbers"]


def test_an_operator_that_nothing_defines_is_found() -> None:
    text = BEFORE.replace("y = Softmax(a)", "y: f32[2, 3] = ge::Unheard(a)")
    case = one(f"{text}unchanged\n")
    outcome = run_case(case)
    assert check_case(case, outcome) == ["numbers: nothing says what ge::Unheard computes"]


# ---------------------------------------------------------------- writing
def test_blocks_are_written_back_in_place(tmp_path: Path) -> None:
    path = tmp_path / "case.md"
    text = f"# t\n\nprose\n\n{BEFORE}```graph after\nnothing yet\n```\n```trace\n```\n\nmore prose\n"
    path.write_text(text.replace("Softmax(a)", "Neg(a)").replace("Add(x, k)", "Neg(x)"), encoding="utf-8")
    (case,) = read_cases(path)
    after = case.one("graph", "after")
    assert after is not None
    write_blocks(path, {after.opened: ["```graph after", GRAPH, "```"]})
    assert "nothing yet" not in path.read_text(encoding="utf-8")
    (case,) = read_cases(path)
    write_blocks(path, new_blocks(case, run_case(case)))
    (case,) = read_cases(path)
    assert check_case(case, run_case(case)) == []
    assert path.read_text(encoding="utf-8").endswith("\nmore prose\n")


# ---------------------------------------------------------------- the same every time
def all_texts() -> Iterator[str]:
    """What the cases for fusion become: names, order and origin included."""
    for case in CASES:
        if case.path.parent.name == "fusion" and not case.fails:
            done = run_case(case)
            assert done.after is not None
            yield f"{case.name}\n{trace_text(done.trace)}\n{graph_text(done.after, with_origin=True)}\n"


def test_nothing_depends_on_the_order_of_hashes() -> None:
    root = Path(__file__).resolve().parents[2]
    run = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from tests.golden.test_golden_runner import all_texts; print(*all_texts(), sep='')",
        ],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    here = "".join(all_texts())
    there = run.communicate(timeout=300)[0].rstrip("\n")
    assert run.returncode == 0
    assert len(here) > 10_000
    assert there == here.rstrip("\n")
