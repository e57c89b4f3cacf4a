"""Analyses of what rules come to together: slower than checks, so they run when a file is opened or saved."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gerules.analysis.analyse import analyse_rules
from gerules.errors import Diagnostic, Source, Span
from gerules.lsp.rule_runs import rules_to_run
from gerules.lsp.workspace import Context


@dataclass(frozen=True, slots=True)
class Remark:
    """What an analysis says of a place in an item; it holds while the item says `text`."""

    text: str
    start: int
    end: int
    diagnostic: Diagnostic


class Stopped(Exception):  # noqa: N818 - an outcome, not a fault
    """The analysis was told to end."""


def analyse(context: Context, stop: threading.Event) -> list[Remark]:
    """Return what the analyses of `gerules rules check` say of the rules of a file.

    Raises:
        Stopped: between two steps, when `stop` is set.

    Cost: half a second for a file of ten rules, more for those that overlap with many.
    """
    rules = rules_to_run(context, None)

    def step(_name: str) -> None:
        if stop.is_set():
            raise Stopped

    reading, inside = context.reading, context.reading.file.source
    remarks: list[Remark] = []
    for item in analyse_rules(context.book, rules, on_step=step).diagnostics if rules else ():
        if item.span is None or item.span.source is not inside:
            continue
        around = reading.item_at(item.span.start)
        if around is not None:
            begin = around.span.start
            remarks.append(Remark(around.span.text, item.span.start - begin, item.span.end - begin, item))
    return remarks


def still_true(remarks: Iterable[Remark], source: Source) -> Iterator[Diagnostic]:
    """Yield the remarks on items that a text still has, where they stand now."""
    for remark in remarks:
        at = source.text.find(remark.text)
        if at >= 0:
            yield replace(remark.diagnostic, span=Span(source, at + remark.start, at + remark.end))
