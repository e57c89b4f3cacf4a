"""The plans of one graph: tasks in order on streams, bytes in one arena, checked before anyone sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gerules.backend.lower import CostOf, Lowering, lower_tasks
from gerules.backend.memory import (
    ALIGN_BYTES,
    Effort,
    InPlace,
    Lifetime,
    MemoryPlan,
    check_plan,
    coalesce,
    find_races,
    plan_memory,
    share_by_order,
    spread_offsets,
)
from gerules.backend.schedule import (
    Schedule,
    StreamOptions,
    TaskGraph,
    build_schedule,
    build_task_graph,
    check_schedule,
    find_accesses,
    find_lifetimes,
    find_touches,
    prove_in_place,
    workspace_id,
)
from gerules.errors import Faults, GerulesError, table
from gerules.ir import Graph

_MOST_FLAWS: Final = 20
"""Flaws that are told; more help nobody."""


class PlanError(GerulesError):
    """A plan does not hold: a fault of gerules, E90001."""


@dataclass(frozen=True, slots=True)
class Plans:
    """Where and when everything in a graph happens.

    Attributes:
        lifetimes: Of values and workspaces, one each, in steps of `schedule`. Where bytes are shared by the
            proven order of several streams, they reach from the first touch to the last.
        in_place: Outputs that took over the bytes of an input.
        memory: The plan of the buffers, with its figures.
        offsets: Of every value and workspace (`workspace_id`) in the arena.
    """

    lowering: Lowering
    tasks: TaskGraph
    schedule: Schedule
    lifetimes: tuple[Lifetime, ...]
    in_place: tuple[InPlace, ...]
    memory: MemoryPlan
    offsets: Mapping[int, int]

    def offset_of(self, value: int) -> int | None:
        """Where a value lies in the arena, views included; None for the heap and the weights."""
        return self.offsets.get(self.lowering.root(value))

    def workspace_of(self, node: int) -> int | None:
        """Where the workspace of a node starts, or None when it has none."""
        return self.offsets.get(workspace_id(node))


def make_plans(
    graph: Graph,
    engines: Mapping[int, str],
    *,
    cost_us: CostOf | None = None,
    streams: StreamOptions | None = None,
    labels: Mapping[int, str] | None = None,
    limit_bytes: int | None = None,
    align_bytes: int = ALIGN_BYTES,
    effort: Effort = "normal",
    keeps_ports: bool = False,
    keeps_order: bool = False,
) -> Plans:
    """Order the nodes of a graph, put them on streams, and give each value its bytes.

    Args:
        engines: The engine of each node, by id.
        keeps_ports: Inputs and outputs own their bytes for the whole run, so that callers may fill and
            read them at any time.
        keeps_order: Nodes are issued in the graph's order, instead of one with a low peak.

    Raises:
        MemoryPlanError: E60003 when the values do not fit into `limit_bytes`, E60005.
        ScheduleError: E60022 and E60023 for streams.
        PlanError: E90001 when the finished plans fail their checks.

    Cost: O((n + events) x streams + n log n); see the planners.
    """
    lowering = lower_tasks(graph, engines, cost_us=cost_us, labels=labels, align_bytes=align_bytes)
    tasks = build_task_graph(lowering.tasks, lowering.sizes, outputs=lowering.outputs)
    schedule = build_schedule(tasks, streams, keep_order=keeps_order)
    kept: set[int] = set()
    if keeps_ports:
        kept = {value for value in (*graph.inputs, *lowering.outputs) if value in lowering.sizes}
    lifetimes = find_lifetimes(tasks, schedule, kept=kept)
    # An input that nobody reads has no lifetime, but a caller still writes it.
    known = {life.id for life in lifetimes}
    lifetimes += [
        Lifetime(value, lowering.sizes[value], 0, 0)
        for value in graph.inputs
        if value in lowering.sizes and value not in known
    ]
    known.update(graph.inputs)
    proven = prove_in_place(tasks, schedule, lowering.wishes)
    buffers = coalesce(lifetimes, in_place=[w for w in proven if w.input in known and w.output in known])

    def plan(limit: int | None) -> MemoryPlan:
        return plan_memory(
            buffers.lifetimes,
            limit_bytes=limit,
            align_bytes=align_bytes,
            effort=effort,
            name_of=lambda id: _name_of(id, graph),
        )

    if schedule.n_streams <= 1:
        memory = plan(limit_bytes)
    else:
        by_lives = plan(None)
        accesses = find_accesses(tasks, schedule, kept=kept)
        memory = share_by_order(by_lives, accesses, schedule.streams, schedule.waits, leader=buffers.leader)
        if limit_bytes is not None and memory.peak_bytes > limit_bytes:
            memory = plan(limit_bytes)  # a hard limit is worth another search, or says what does not fit
        elif memory is not by_lives:
            lifetimes = find_touches(lifetimes, accesses)
    plans = Plans(
        lowering, tasks, schedule, tuple(lifetimes), buffers.taken, memory, spread_offsets(memory, buffers)
    )
    faults = Faults()
    for flaw in find_flaws(plans, kept=frozenset(kept)):
        faults.add(table.INTERNAL, reason=flaw)
    faults.raise_if_any(PlanError)
    return plans


def _name_of(id: int, graph: Graph) -> str:
    """What the model calls a value, or the workspace of a node."""
    if id in graph.values:
        return graph.values[id].name or f"value {id}"
    node = graph.nodes[workspace_id(id)]  # its own inverse
    made = next((graph.values[value].name for value in node.writes()), "")
    return f"workspace of {node.name or made or node.op}"


def find_flaws(plans: Plans, *, kept: frozenset[int] = frozenset()) -> list[str]:
    """Return in words what is wrong with plans, a few at most: checks that share no code with the planners.

    Cost: O((n + events) x streams + n log n).
    """
    found = [
        f"step {flaw.step} does not wait for step {flaw.other} ({flaw.kind})"
        for flaw in check_schedule(plans.tasks, plans.schedule)
    ]
    if found:
        # Without a sound order there is no telling whether bytes are reused too early.
        return found[:_MOST_FLAWS]
    flaws = check_plan(
        plans.lifetimes,
        plans.offsets,
        align_bytes=plans.memory.align_bytes,
        limit_bytes=plans.memory.peak_bytes,
        in_place=plans.in_place,
        max_flaws=_MOST_FLAWS,
    )
    found += [
        f"value {flaw.id}: {flaw.kind}" + ("" if flaw.other is None else f" with value {flaw.other}")
        for flaw in flaws
    ]
    races = find_races(
        find_accesses(plans.tasks, plans.schedule, kept=kept),
        plans.offsets,
        plans.schedule.streams,
        plans.schedule.waits,
        in_place=[(wish.output, wish.input) for wish in plans.in_place],
    )
    found += [
        f"step {race.writer} writes value {race.new} over value {race.old}, which step {race.reader} may need"
        for race in races[:_MOST_FLAWS]
    ]
    return found[:_MOST_FLAWS]
