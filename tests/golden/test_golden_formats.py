"""Every graph of the golden tests, compiled as far as formats: each kernel is given what it takes."""

from __future__ import annotations

import pytest

from gerules.errors import GerulesError, Source
from gerules.ir import parse_graph
from gerules.passes.format_check import check_formats
from gerules.pipeline import CompileOptions, compile_graph, shipped_rules
from tests.golden.casefile import Case
from tests.golden.test_golden import CASES

GRAPHS = [case for case in CASES if case.one("graph", "before") is not None and not case.all("ger")]
AT_LEAST = 60
"""Graphs that compile; the others have faults or storage formats of their own."""


def compiled(case: Case, device: str) -> list[str] | None:
    """Return what the check of formats finds; None when the graph does not compile."""
    block = case.one("graph", "before")
    assert block is not None
    if "@" in block.text or "TransData" in block.text:
        return None
    try:
        graph = parse_graph(Source("before", block.text))
        done = compile_graph(graph, shipped_rules(), CompileOptions(device=device, stop_after="blocks"))
    except GerulesError:
        return None
    return check_formats(done.graph, done.tools.device)


@pytest.mark.parametrize(("device", "step"), [("ascend910b", 1), ("ascend310p", 4)])
def test_every_kernel_is_given_the_formats_it_takes(device: str, step: int) -> None:
    found = {case.name: compiled(case, device) for case in GRAPHS[::step]}
    assert sum(faults is not None for faults in found.values()) >= AT_LEAST // step
    assert {name: faults for name, faults in found.items() if faults} == {}
