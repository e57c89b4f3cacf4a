"""Explanations and stories as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gerules.errors.counts import count_text
from gerules.pipeline.attempts import Attempt, AttemptGroup
from gerules.pipeline.explain import Explanation
from gerules.pipeline.story import Story
from gerules.report.tables import Column, Grid

MOST_ROWS: Final = 20
MOST_SIGHTS: Final = 4
"""Different things seen at the places of one reason that are shown."""


def explanation_lines(found: Explanation) -> Iterator[str]:
    """Yield what to tell about the rules that were asked for, the nearest misses first."""
    target = f"{found.model} for {found.device}, {found.precision}"
    for rule in found.rules:
        n_applied = len(found.applied.get(rule, ()))
        reason = found.off.get(rule)
        if reason is not None:
            yield f"{rule} on {target}: off: {reason}"
            continue
        groups = [group for group in found.groups() if group.best.rule == rule]
        n_missed = sum(group.count for group in groups)
        phases = ", ".join(found.phases)
        yield (
            f"{rule} on {target}, phase {phases}: applied {count_text(n_applied, 'time')}, "
            f"not at {count_text(n_missed, 'place')} tried"
        )
        for place in found.applied.get(rule, ())[:3]:
            yield f"  applied at {place}"
        if n_applied > 3:
            yield f"  and at {n_applied - 3} more"
        for item in found.missing.get(rule, ()):
            yield f"  {item}"
        for number, group in enumerate(groups[:MOST_ROWS]):
            yield ""
            yield from group_lines(number + 1, group)
        if len(groups) > MOST_ROWS:
            yield f"  and {count_text(len(groups) - MOST_ROWS, 'more reason')}"


def group_lines(number: int, group: AttemptGroup) -> Iterator[str]:
    """Yield a group of attempts: where, how far it came, why not, and what would have to change."""
    best = group.best
    yield f"  {number}. {_where(group)}: {_depth(best)}"
    yield f"     {told(best)}"
    if best.text:
        yield f"     rule    {best.text[:120]}  ({best.at})"
    for place, line in enumerate(_sight_lines(group)):
        yield f"     {'' if place else 'seen':8}{line}"
    if best.wanted:
        yield f"     needed  {best.wanted}"


def _sight_lines(group: AttemptGroup) -> Iterator[str]:
    """Yield what was seen; where that was not the same everywhere, also at which node."""
    if len(group.sights) == 1:
        yield group.sights[0].seen
        return
    for item in group.sights[:MOST_SIGHTS]:
        more = f" and {item.count - 1} more" if item.count > 1 else ""
        yield f"{item.seen}  at {item.node}{more}"
    if len(group.sights) > MOST_SIGHTS:
        yield f"and {count_text(len(group.sights) - MOST_SIGHTS, 'other sight')}"


def _where(group: AttemptGroup) -> str:
    names = [f"{item.node} in {item.graph}" if item.graph else item.node for item in group.examples]
    more = group.count - len(names)
    return f"{group.count} x at {', '.join(names)}" + (f" and {more} more" if more else "")


def _depth(item: Attempt) -> str:
    parts = f"{item.n_matched} of {count_text(item.n_ops, 'operator')}"
    match item.outcome:
        case "pattern":
            return f"{parts} matched"
        case "lost" | "fits":
            return "everything matched"
        case _:
            return f"{parts} matched, then a {item.outcome}"


def told(item: Attempt) -> str:
    """Return the reason of an attempt; a gate begins with how its costs compare."""
    if item.outcome == "gate":
        return f"gate: {item.seen.partition(':')[0]} ({item.reason})"
    return item.reason


def near_misses_grid(found: Explanation) -> Grid:
    """Return the rules that almost fired, the nearest first."""
    groups = found.groups()
    columns = (
        Column("near", "right"),
        Column("rule", style="bold"),
        Column("phase"),
        Column("places", "right"),
        Column("at"),
        Column("why not"),
    )
    rows = [
        (
            "lost" if group.best.outcome == "lost" else f"{100 * group.best.nearness:.0f}%",
            group.best.rule,
            group.best.phase,
            str(group.count),
            group.best.node,
            told(group.best) + (f"; {group.best.seen}" if _adds(group.best) else ""),
        )
        for group in groups[:MOST_ROWS]
    ]
    n_applied = sum(len(items) for items in found.applied.values())
    notes = [
        f"{count_text(n_applied, 'application')} of {count_text(len(found.applied), 'rule')}; "
        f"{count_text(len(groups), 'near miss')}, the nearest {len(rows)} shown; "
        "ask about one with --rule"
    ]
    title = f"Rules that almost fired on {found.model} for {found.device}, {found.precision}"
    return Grid(columns, rows, title, notes)


def _adds(item: Attempt) -> bool:
    return bool(item.seen) and item.outcome in ("pattern", "guard")


def story_lines(story: Story) -> Iterator[str]:
    """Yield a story: where it began, each rewrite, what is left."""
    yield f"{story.node} in {story.model} for {story.device}, {story.precision}"
    if story.value:
        yield f"  {story.node} is {story.value}"
        yield f"  now    {'read by ' + ', '.join(story.finals) if story.finals else 'read by no node'}"
        return
    yield f"  from   {', '.join(story.origins) or 'nothing in the model as it was read'}"
    for number, step in enumerate(story.steps):
        inside = f" in {step.graph}" if step.graph else ""
        yield f"  {number + 1}. {step.phase}: {step.rule}{inside}  {step.doc}"
        if step.removed:
            yield f"     - {', '.join(step.removed)}"
        if step.added:
            yield f"     + {', '.join(step.added)}"
        elif step.removed:
            yield f"     removed by {step.rule}"
        else:
            yield "     marked, not changed"
        if step.inexact:
            yield f"     inexact: {step.inexact}"
    for name, fate in story.fates.items():
        yield f"  {name}: {fate}"
    if not story.steps and not story.fates:
        yield "  no rule touched it"
    yield f"  now    {', '.join(story.finals) or 'nothing of it is left'}"
