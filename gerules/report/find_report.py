"""What a search for a pattern found, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gerules.errors.counts import count_text
from gerules.pipeline.finding import Findings, Occurrence
from gerules.report.explain_report import group_lines

MOST_NEAR: Final = 10
"""Reasons of near misses that are shown."""


def finding_lines(found: Findings, *, limit: int) -> Iterator[str]:
    """Yield the places, at most `limit`, then the near misses; the last line counts."""
    for number, item in enumerate(found.occurrences[:limit], 1):
        yield from _place_lines(number, item)
        yield ""
    if found.near:
        yield "Where it almost matches, the nearest first:"
        for number, group in enumerate(found.near[:MOST_NEAR], 1):
            yield from group_lines(number, group)
        if len(found.near) > MOST_NEAR:
            yield f"  and {count_text(len(found.near) - MOST_NEAR, 'more reason')}"
        yield ""
    n_found = len(found.occurrences)
    more = f", {limit} of them shown" if n_found > limit else ""
    n_open = n_found - found.n_closed
    open_text = f", {n_open} of them with values that others read too" if n_open else ""
    hint = "" if n_found or found.is_near else "; --near tells where it almost matches"
    yield f"{count_text(n_found, 'place')} in {found.model}{more}{open_text}{hint}"


def _place_lines(number: int, item: Occurrence) -> Iterator[str]:
    lead = f"{number}. "
    blank = " " * len(lead)
    where = f" in {item.graph.rstrip('.')}" if item.graph else ""
    for place, node in enumerate(item.nodes):
        yield f"{blank if place else lead}{node.op} {node.name}{'' if place else where}: {node.type}"
    for name, text in item.bound.items():
        yield f"{blank}  {name} = {text}"
    for name, readers in item.escapes.items():
        yield f"{blank}  {name} is also read by {', '.join(readers)}"
