"""Golden tests: what a few lines of graph become, in Markdown files that read as documentation."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from gerules.errors import GerulesError, Source
from gerules.ir import parse_graph
from tests.golden.casefile import Case, read_cases, write_blocks
from tests.golden.meaning import find_wrong_numbers
from tests.golden.running import Outcome, run_case
from tests.golden.sameness import explain_difference
from tests.golden.texts import graph_text, plan_text, trace_text, why_text

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*/*.md"))
IS_UPDATE = bool(os.environ.get("GERULES_GOLDEN_UPDATE"))
CASES = [case for path in FILES for case in read_cases(path)]


def params() -> list[object]:
    return [pytest.param(case, id=case.name, marks=marks_of(case)) for case in CASES]


def marks_of(case: Case) -> list[pytest.MarkDecorator]:
    """A case that is known not to hold must fail, and not because it is written wrongly."""
    raises = (AssertionError, GerulesError)
    return [pytest.mark.xfail(reason=case.fails, strict=True, raises=raises)] if case.fails else []


@pytest.mark.parametrize("case", params())
def test_case(case: Case) -> None:
    if IS_UPDATE and case.fails:
        pytest.skip(case.fails)
    outcome = run_case(case)
    faults = check_case(case, outcome)
    if faults and IS_UPDATE:
        UPDATES.setdefault(case.path, {}).update(new_blocks(case, outcome))
        # Texts can be written anew, what a graph computes cannot.
        faults = [fault for fault in faults if fault.startswith(("numbers", "again"))]
    assert not faults, "\n\n".join([f"{case.path}:{case.line + 1}: {case.title}", *faults])


UPDATES: dict[Path, dict[int, list[str]]] = {}


@pytest.fixture(scope="module", autouse=True)
def written_back():
    """Rewrite the files at the end: while tests run, the places of blocks must not move."""
    yield
    for path, changes in UPDATES.items():
        write_blocks(path, changes)


def check_case(case: Case, outcome: Outcome) -> list[str]:
    """Return everything that does not hold, each with the text to paste where that would be right."""
    faults: list[str] = []
    error = case.one("error")
    if error is not None:
        faults += _compare_text("error", error.text, outcome.error)
        if outcome.error or outcome.after is None:
            return faults
    if outcome.after is None:
        return [*faults, "the case ran no step"]
    faults += _check_graph(case, outcome)
    if (block := case.one("trace")) is not None:
        faults += _compare_text("trace", block.text, trace_text(outcome.trace))
    for block in case.all("why"):
        faults += _compare_text(f"why {block.argument}", block.text, why_text(outcome.trace, block.argument))
    if (block := case.one("plan")) is not None:
        faults += _compare_text("plan", block.text, plan_text(case, outcome))
    if outcome.again:
        faults.append(f"again: a second run applies {', '.join(outcome.again)}")
    wrong = find_wrong_numbers(outcome, case.name)
    return [*faults, f"numbers: {wrong}"] if wrong else faults


def _check_graph(case: Case, outcome: Outcome) -> list[str]:
    after = case.one("graph", "after")
    assert outcome.before is not None and outcome.after is not None
    if after is None and not case.is_unchanged:
        return []
    with_origin = "origin" in outcome.options.compare
    if after is None:
        want, text = outcome.before, graph_text(outcome.before, with_origin=with_origin)
    elif not after.text.strip():
        return [
            "after: nothing is written; paste this\n" + graph_text(outcome.after, with_origin=with_origin)
        ]
    else:
        want, text = parse_graph(Source("after", after.text)), after.text
    reason = explain_difference(want, outcome.after, outcome.toolchain.schemas, with_origin=with_origin)
    if reason is None:
        return []
    found = graph_text(outcome.after, with_origin=with_origin)
    return [f"graph: {reason}\n{_diff(text, found)}\nto paste:\n{found}"]


def _compare_text(what: str, want: str, found: str) -> list[str]:
    if want.strip() == found.strip():
        return []
    return [f"{what}:\n{_diff(want, found)}\nto paste:\n{found}"]


def _diff(want: str, found: str) -> str:
    lines = difflib.unified_diff(want.splitlines(), found.splitlines(), "expected", "found", lineterm="", n=2)
    return "\n".join(lines)


def new_blocks(case: Case, outcome: Outcome) -> dict[int, list[str]]:
    """Return what blocks of a case should hold, by the line where they begin."""
    found: dict[int, list[str]] = {}

    def put(opened: int, head: str, text: str) -> None:
        found[opened] = [f"```{head}", *text.splitlines(), "```"]

    for block in case.blocks:
        match block.kind:
            case "error":
                put(block.opened, "error", outcome.error)
            case "trace":
                put(block.opened, "trace", trace_text(outcome.trace))
            case "why":
                put(block.opened, f"why {block.argument}", why_text(outcome.trace, block.argument))
            case "plan" if not outcome.error:
                put(block.opened, "plan", plan_text(case, outcome))
            case _:
                pass
    if outcome.after is not None and outcome.before is not None and not outcome.error:
        after = case.one("graph", "after")
        text = graph_text(outcome.after, with_origin="origin" in outcome.options.compare)
        if after is not None and any(
            fault.startswith(("graph", "after")) for fault in _check_graph(case, outcome)
        ):
            put(after.opened, "graph after", text)
        elif case.is_unchanged and _check_graph(case, outcome):
            put(case.unchanged_line, "graph after", text)
    return found
