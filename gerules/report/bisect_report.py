"""What bisect found as people read it: causes, where each begins, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gerules.errors.counts import count_text
from gerules.pipeline.bisect_result import BisectResult, Cause, Growth
from gerules.pipeline.suspects import Suspect
from gerules.report.quantities import error_text
from gerules.report.tables import Column, Grid

SWITCH_FILE = "fusion_switch.cfg"
PROFILE_FILE = "bisected.ger"

_MOST_SHOWN = 8
"""Parts of a sum that are named; nodes to keep that are named on one line."""

_VERDICTS = {
    "within tolerance": "within tolerance, and so is the offline model run by its plan",
    "not the rules": "it is not the rules: look at the reader, at constant folding, and at the kernels",
    "the plan": "it is not the rules: the graph is right, the offline model made from it is not;"
    " see `gerules run --check --poison`",
    "interrupted": "interrupted: this is the smallest set that was known to fail",
    "cut short": "no more compiles were allowed: this is the smallest set that was known to fail",
}


def bisect_lines(found: BisectResult) -> Iterator[str | Grid]:
    """Yield the result: lines, and a table for each cause."""
    wanted = found.against if found.against == "the model" else f"its compile in {found.against}"
    yield (
        f"{found.model} for {found.device}, {found.precision}, against {wanted}: "
        f"error {error_text(found.error)}, {found.rtol:g} allowed ({found.rtol_reason})"
    )
    suspects = f"{count_text(found.n_rewrites, 'rewrite')}, {count_text(found.n_lowered, 'lowering')}"
    bare = "" if found.error_bare is None else f"; the error without any: {error_text(found.error_bare)}"
    yield f"suspects: {suspects}{bare}"
    if found.verdict in _VERDICTS:
        yield _VERDICTS[found.verdict]
    for number, cause in enumerate(found.causes):
        yield ""
        yield from _cause_lines(number + 1, cause)
    if found.verdict == "found":
        yield ""
        yield from _remedy_lines(found)
    yield f"{count_text(found.n_compiles, 'compile')}, {found.took_s:.1f} s"


def _cause_lines(number: int, cause: Cause) -> Iterator[str | Grid]:
    parts = cause.parts
    needed = "without any one of them outputs are within tolerance"
    if not cause.is_minimal:
        needed = "whether each of them is needed was not tried"
    if len(parts) > 1:
        how = "none alone is at fault: these {} add up" if cause.is_sum else "{} together"
        yield f"{number}. {how.format(len(parts))}; {needed}"
    for part, error in zip(parts[:_MOST_SHOWN], cause.errors_without_one, strict=False):
        mark = f"{number}. " if len(parts) == 1 else "   "
        without = "" if len(parts) == 1 or error is None else f": error {error_text(error)} without it"
        yield mark + described(part) + without
    if len(parts) > _MOST_SHOWN:
        yield f"   and {len(parts) - _MOST_SHOWN} more"
    if cause.needs and not cause.is_sum:
        rules = ", ".join(dict.fromkeys(item.rule or "a lowering" for item in cause.needs))
        yield f"   on what {rules} made, which without it is within tolerance"
    with_parts, without = error_text(cause.error_with), error_text(cause.error_without)
    yield f"   error {with_parts} with {'it' if len(parts) == 1 else 'them'}, {without} without"
    if cause.start is not None:
        start = cause.start
        made = f", made by {start.rule}" if start.rule else ""
        yield f"   begins at {start.node}: {start.op}, {start.dtype}{made}"
    if cause.growth:
        yield _growth_grid(cause.growth, cause.start)


def described(part: Suspect) -> str:
    """Return a suspect in one line."""
    if part.kind == "lowered":
        return f"lowering of {part.keeps[-1]}" + _others(part.sources, part.keeps[-1])
    where = f" in {part.graph}" if part.graph else ""
    sites = part.values or part.sources[-1:]
    return f"rule {part.rule}{where} at {', '.join(sites)} (phase {part.phase})" + _others(part.sources, "")


def _others(sources: Sequence[str], shown: str) -> str:
    rest = [name for name in sources if name != shown]
    if not rest:
        return ""
    more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
    return f", from {', '.join(rest[:3])}{more}"


def _growth_grid(growth: Sequence[Growth], start: Growth | None) -> Grid:
    columns = (
        Column(""),
        Column("node", style="bold"),
        Column("operator"),
        Column("type"),
        Column("made by"),
        Column("without", "right"),
        Column("with", "right"),
    )
    rows = [
        (
            ">" if item is start else "",
            item.node,
            item.op,
            item.dtype,
            item.rule or "-",
            error_text(item.before),
            error_text(item.after),
        )
        for item in growth
    ]
    return Grid(columns, rows)


def _remedy_lines(found: BisectResult) -> Iterator[str]:
    if not found.rules_off and not found.keep_dtype:
        return
    yield "remedy"
    for rule in found.rules_off:
        n_applied = found.n_applied.get(rule, 0)
        more = f"; a switch knows no sites, so all {n_applied} go" if n_applied > 1 else ""
        yield f"   --disable {rule}{more}"
    keeps = [f"--keep-dtype {name}" for name in found.keep_dtype]
    if keeps:
        more = f" and {len(keeps) - _MOST_SHOWN} more, all in --json" if len(keeps) > _MOST_SHOWN else ""
        yield f"   {' '.join(keeps[:_MOST_SHOWN])}{more}"
    tried = f"with {SWITCH_FILE} and with profile {found.profile_name}" if found.profile else "with that"
    if found.is_remedied:
        n_parts = len(found.rules_off) + len(found.keep_dtype)
        needed = "; without any one of them it is not" if found.is_remedy_minimal and n_parts > 1 else ""
        yield f"   compiled {tried}: error {error_text(found.error_remedied)}, within tolerance{needed}"
    elif found.error_remedied is not None:
        yield f"   compiled {tried}: error {error_text(found.error_remedied)}, NOT within tolerance"
    else:
        yield "   it does not suffice: something else is out of tolerance too"
