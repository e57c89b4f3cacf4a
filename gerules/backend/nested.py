"""Memory inside fused operators: the values of a body get places in the workspace of the node around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gerules.backend.memory import plan_memory
from gerules.backend.schedule import (
    StreamOptions,
    Task,
    build_schedule,
    build_task_graph,
    find_lifetimes,
    workspace_id,
)
from gerules.ir import Body, Graph, Node, TensorType, ValueType

FUSED_BODY: Final = "body"
"""The body of a fused operator: it runs as one task, with the values inside planned in its workspace."""

_LOOPS: Final = frozenset({"Loop", "Scan", "SequenceMap"})
"""Operators that run a body of that name many times; the host does, with memory from its heap."""


@dataclass(frozen=True, slots=True)
class NestedPlan:
    """Places inside one workspace, counted from its start.

    Attributes:
        offsets: By value of the body.
        direct: Values of the body that are made where the node's output lies, by that output's position.
        nested: The workspaces of fused operators inside, each with its start.
        size_bytes: The workspace.
    """

    offsets: Mapping[int, int]
    direct: Mapping[int, int]
    nested: Mapping[int, tuple[int, NestedPlan]]
    size_bytes: int


def plan_nested(graph: Graph, node: Node, body: Body, align_bytes: int) -> NestedPlan:
    """Plan the body of a fused node, its nodes one after the other.

    Cost: as `plan_memory`, for the values of the body.
    """
    inner = body.graph
    direct = _direct(graph, node, inner)
    tasks: list[Task] = []
    sizes: dict[int, int] = {}
    plans: dict[int, NestedPlan] = {}
    given = {inside for _, inside in body.captures} | set(inner.inputs) | set(inner.consts)
    for item in inner.nodes.values():
        if is_fused(item):
            plans[item.id] = plan_nested(inner, item, item.bodies[FUSED_BODY], align_bytes)
        for value in item.writes():
            if value not in direct and (size := arena_bytes(inner.type_of(value))) is not None:
                sizes[value] = size
        reads = tuple(dict.fromkeys(value for value in item.reads() if value not in given))
        workspace = plans[item.id].size_bytes if item.id in plans else 0
        tasks.append(Task(item.id, reads, tuple(item.writes()), "", workspace_bytes=workspace))
    task_graph = build_task_graph(tasks, sizes, outputs=[v for v in inner.outputs if v not in given])
    schedule = build_schedule(task_graph, StreamOptions(is_single=True), keep_order=True)
    plan = plan_memory(find_lifetimes(task_graph, schedule), align_bytes=align_bytes, effort="fast")
    offsets = {value: offset for value, offset in plan.offsets.items() if value >= 0}
    nested = {
        item: (plan.offsets.get(workspace_id(item), 0), deeper_plan) for item, deeper_plan in plans.items()
    }
    return NestedPlan(offsets, direct, nested, plan.peak_bytes)


def _direct(graph: Graph, node: Node, inner: Graph) -> dict[int, int]:
    """Results that can be made in place of the node's output: of the same type, each once."""
    found: dict[int, int] = {}
    for at, value in enumerate(inner.outputs[: len(node.outputs)]):
        outer = node.outputs[at]
        if outer is None or value in found or value not in inner.producer:
            continue
        if graph.type_of(outer) == inner.type_of(value) and arena_bytes(inner.type_of(value)) is not None:
            found[value] = at
    return found


def arena_bytes(type: ValueType) -> int | None:
    """Bytes a value takes in the arena, or None when it cannot lie there."""
    if not isinstance(type, TensorType) or not type.is_static or type.dtype.bits == 0:
        return None
    return type.size_bytes


def is_fused(node: Node) -> bool:
    """Whether a node is a fused operator, which its body explains."""
    return FUSED_BODY in node.bodies and node.op not in _LOOPS
