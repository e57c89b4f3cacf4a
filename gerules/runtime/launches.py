"""Launches of an offline model: what runs in which order, on which stream, after which events; checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gerules.backend.lower import PLAIN, VIEW_OPS, base_op
from gerules.backend.om import OmError, OmTask, TaskType
from gerules.errors import Faults, table
from gerules.ir import Node, TensorType
from gerules.runtime.rebuild import PlacedGraph


@dataclass(frozen=True, slots=True)
class Launch:
    """One step: a node on a stream, the events it waits for before and records after."""

    node: Node
    stream: int
    waits: tuple[int, ...] = ()
    records: tuple[int, ...] = ()


def find_launches(tasks: Sequence[OmTask] | None, placed: PlacedGraph) -> list[Launch]:
    """Return the launches of a graph in their order: that of its tasks, or of its operators without tasks.

    Nodes that only rename bytes have no launch. Every other node has one, its inputs are made by launches
    that happen before it on any timing, and no event is waited for that was not recorded before.

    Raises:
        OmError: E80032, every fault of the order.

    Cost: O((launches + events + reads) x streams).
    """
    faults = Faults()
    by_op = {op.id: placed.graph.nodes[node] for node, op in placed.ops.items()}
    if tasks is not None:
        found = _from_tasks(tasks, by_op, faults)
    else:
        found = [Launch(node, 0) for node in placed.graph.nodes.values() if not _is_view(placed, node)]
    faults.raise_if_any(OmError)
    _check(placed, found, faults)
    faults.raise_if_any(OmError)
    return found


def _from_tasks(tasks: Sequence[OmTask], by_op: Mapping[int, Node], faults: Faults) -> list[Launch]:
    found: list[Launch] = []
    waits: dict[int, list[int]] = {}
    last_of: dict[int, int] = {}
    recorded: set[int] = set()
    for task in tasks:
        stream = task.stream_id
        if task.type == TaskType.EVENT_WAIT:
            if task.event_id not in recorded:
                _bad(
                    faults,
                    f"on stream {stream}",
                    f"waits for event {task.event_id}, which is not recorded yet",
                )
            waits.setdefault(stream, []).append(task.event_id)
        elif task.type == TaskType.EVENT_RECORD:
            at = last_of.get(stream)
            if at is None or task.event_id in recorded:
                _bad(faults, f"on stream {stream}", f"records event {task.event_id} twice or after nothing")
                continue
            recorded.add(task.event_id)
            launch = found[at]
            found[at] = Launch(launch.node, stream, launch.waits, (*launch.records, task.event_id))
        elif task.type == TaskType.KERNEL:
            node = by_op.get(-1 if task.op_id is None else task.op_id)
            if node is None:
                _bad(faults, str(task.op_id), "is launched but is no operator of the model")
                continue
            last_of[stream] = len(found)
            found.append(Launch(node, stream, tuple(waits.pop(stream, ()))))
        else:
            _bad(faults, str(task.op_id), f"has a task of a kind that is not run here: {task.name}")
    return found


def _check(placed: PlacedGraph, launches: list[Launch], faults: Faults) -> None:
    graph = placed.graph
    launched: dict[int, int] = {}
    for step, launch in enumerate(launches):
        if launch.node.id in launched:
            _bad(faults, _name(launch.node), "is launched twice")
        launched[launch.node.id] = step
    source: dict[int, int] = {}
    for node in graph.nodes.values():
        if node.id in launched:
            continue
        if not _is_view(placed, node):
            _bad(faults, _name(node), "is never launched")
        elif node.inputs[0] is not None and node.outputs[0] is not None:
            source[node.outputs[0]] = source.get(node.inputs[0], node.inputs[0])
    made = {value: step for step, launch in enumerate(launches) for value in launch.node.writes()}
    _check_streams(graph.consts.keys() | set(graph.inputs), launches, source, made, faults)


def _check_streams(
    given: set[int],
    launches: list[Launch],
    source: Mapping[int, int],
    made: Mapping[int, int],
    faults: Faults,
) -> None:
    """Replay the launches, each stream remembering which steps are surely done before its next one."""
    done: dict[int, dict[int, int]] = {}
    at_event: dict[int, dict[int, int]] = {}
    for step, launch in enumerate(launches):
        seen = done.setdefault(launch.stream, {})
        for event in launch.waits:
            for stream, last in at_event.get(event, {}).items():
                seen[stream] = max(last, seen.get(stream, -1))
        for value in launch.node.reads():
            value = source.get(value, value)
            maker = made.get(value)
            if maker is None:
                if value not in given:
                    _bad(faults, _name(launch.node), "reads a value that nothing makes")
            elif maker >= step or seen.get(launches[maker].stream, -1) < maker:
                _bad(faults, _name(launch.node), f"does not wait for {_name(launches[maker].node)}")
        seen[launch.stream] = step
        for event in launch.records:
            at_event[event] = dict(seen)


def _is_view(placed: PlacedGraph, node: Node) -> bool:
    """Whether a node only renames bytes: its output lies exactly where its input lies."""
    if base_op(node.op) not in VIEW_OPS or not node.inputs or len(node.outputs) != 1:
        return False
    source, made = node.inputs[0], node.outputs[0]
    if source is None or made is None:
        return False
    here, there = placed.offsets.get(source), placed.offsets.get(made)
    one, two = placed.graph.type_of(source), placed.graph.type_of(made)
    # What has a place is a static tensor.
    if here is None or here != there or not isinstance(one, TensorType) or not isinstance(two, TensorType):
        return False
    return one == two or (one.dtype is two.dtype and one.format in PLAIN and two.format in PLAIN)


def _name(node: Node) -> str:
    return node.name or node.op


def _bad(faults: Faults, op: str, reason: str) -> None:
    if len(faults) < 100:
        faults.add(table.OM_BAD_ORDER, op=op, reason=reason)
