"""Emission: a graph and its plans become an offline model that says all it takes to run it."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gerules.backend.emit_graph import GraphWriter, Placement, Written, om_type
from gerules.backend.exact import write_texts
from gerules.backend.lower import Lowering
from gerules.backend.om import (
    OmAttr,
    OmError,
    OmInterface,
    OmKernel,
    OmModel,
    OmTask,
    OmTasks,
    TaskType,
    Workspace,
    derive_interface,
    texts,
)
from gerules.backend.plans import Plans
from gerules.backend.ports import output_names
from gerules.errors import Faults
from gerules.ir import Graph, Node, TensorType
from gerules.ops import Schemas
from gerules.passes.bind import Ranges

FORM: Final = 1
"""Version of the private attributes; a reader refuses others."""

BASE_ADDRESS: Final = 0x140000000
"""Where arguments of tasks pretend that the arena starts. Source: `task_gen_base_addr` of ATC's files."""

_KERNEL_TYPES: Final[Mapping[str, int]] = {"AIcoreEngine": 2, "VectorEngine": 2, "DNN_VM_AICPU": 6}
"""Source: metadef `ccKernelType`: TE is 2, AI_CPU is 6."""


def emit(
    graph: Graph,
    plans: Plans,
    *,
    engines: Mapping[int, str],
    device: str = "",
    definitions: Sequence[str] = (),
    schemas: Schemas | None = None,
    attrs: Mapping[str, OmAttr] | None = None,
    ranges: Mapping[str, Ranges] | None = None,
) -> OmModel:
    """Return the offline model of a graph.

    Operators stand in the order of the schedule. Values in the arena have the offsets of the plans, all
    others -1; constants are laid out in their storage format, equal ones once. What the format cannot
    say goes into attributes that begin with `_gerules_`, so that the file alone tells the whole graph.

    Args:
        definitions: Rule texts with the definitions of the graph's operators (`definition_texts`).
        schemas: Names the inputs and outputs of operators.
        attrs: More attributes of the model.
        ranges: By input, between which sizes a caller may choose.

    Raises:
        OmError: E80020 and E80021 for what an `.om` file cannot hold, all at once.

    Cost: linear in nodes, plus one pass over the constants.
    """
    faults = Faults()
    writer = GraphWriter(faults, schemas)
    root = writer.write_root(graph, placement_of(graph, plans, engines))
    faults.raise_if_any(OmError)
    weights_address = BASE_ADDRESS + plans.memory.peak_bytes
    found: dict[str, OmAttr] = {
        **model_attrs(graph, definitions, device, plans.memory.peak_bytes),
        "_gerules_memory": write_texts(_figures(plans)),
    }
    return OmModel(
        graph.name or "model",
        tuple(writer.graphs),
        {**found, **(attrs or {})},
        writer.tensors.weights.build(),
        _with_ranges(derive_interface(root.graph, output_names(graph)), ranges or {}),
        OmTasks(tuple(tasks_of(graph, plans, root, weights_address)), BASE_ADDRESS, weights_address),
        memory_size_bytes=plans.memory.peak_bytes,
        n_streams=max(1, plans.schedule.n_streams),
        n_events=len(plans.schedule.events),
        is_dynamic=is_dynamic(graph),
    )


def _with_ranges(plain: OmInterface, ranges: Mapping[str, Ranges]) -> OmInterface:
    """The interface with the sizes that inputs may have: those of the model where it fixes them."""
    inputs = [
        port
        if (given := ranges.get(port.name)) is None or len(given) != len(port.shape)
        else replace(
            port,
            ranges=tuple(
                (size, size) if size >= 0 else ends or (0, -1)
                for size, ends in zip(port.shape, given, strict=True)
            ),
        )
        for port in plain.inputs
    ]
    return replace(plain, inputs=tuple(inputs))


def model_attrs(graph: Graph, definitions: Sequence[str], device: str, peak_bytes: int) -> dict[str, OmAttr]:
    """Return what every model of gerules says of itself."""
    found: dict[str, OmAttr] = {
        "_gerules_form": FORM,
        "_gerules_defines": texts(definitions),
        "_gerules_outputs": texts(output_names(graph)),
        "task_gen_base_addr": BASE_ADDRESS,
        "task_gen_weight_addr": BASE_ADDRESS + peak_bytes,
    }
    if device:
        found["soc_version"] = device
    return found


def placement_of(graph: Graph, plans: Plans, engines: Mapping[int, str]) -> Placement:
    """Return where the values of a graph lie and when its nodes run, as plans say."""
    lowering, schedule = plans.lowering, plans.schedule
    ids = [lowering.tasks[at].id for at in schedule.steps]
    streams = dict(zip(ids, schedule.streams, strict=True))
    offsets = {
        value: offset
        for value in graph.values
        if (offset := plans.offset_of(value)) is not None and value >= 0
    }
    workspaces = {
        node: Workspace(start, plan.size_bytes)
        for node, plan in lowering.nested.items()
        if (start := plans.workspace_of(node)) is not None
    }
    return Placement(
        order=tuple(_listing(graph, lowering, ids, streams)),
        offsets=offsets,
        streams=streams,
        workspaces=workspaces,
        nested=lowering.nested,
        life_ends=_life_ends(plans),
        reused=_reused(graph, plans),
        engines=engines,
    )


def _listing(graph: Graph, lowering: Lowering, ids: Sequence[int], streams: dict[int, int]) -> list[int]:
    """The order of the schedule, each view right after what makes its bytes, on the same stream."""
    waiting: defaultdict[int, list[Node]] = defaultdict(list)
    listed: list[int] = []

    def follow(value: int) -> None:
        pending = [value]
        while pending:
            for view in waiting.pop(pending.pop(), ()):
                listed.append(view.id)
                pending.extend(view.writes())

    for node in graph.nodes.values():
        if node.id in lowering.views and node.inputs[0] is not None:
            waiting[node.inputs[0]].append(node)
    for value in graph.inputs:
        follow(value)
    for node in ids:
        listed.append(node)
        before = len(listed)
        for value in graph.nodes[node].writes():
            follow(value)
        streams.update((view, streams[node]) for view in listed[before:])
    return listed


def _life_ends(plans: Plans) -> dict[int, int]:
    """The last step of each value whose bytes nobody takes over."""
    n_steps = len(plans.schedule.steps)
    handed_on = {wish.input for wish in plans.in_place}
    return {
        life.id: life.last
        for life in plans.lifetimes
        if life.id >= 0 and life.id not in handed_on and life.last < n_steps and not life.is_kept
    }


def _reused(graph: Graph, plans: Plans) -> dict[int, int]:
    """Which input's bytes the first output of a node has, for views and for what was granted in place."""
    found = dict.fromkeys(plans.lowering.views, 0)
    for wish in plans.in_place:
        node = graph.nodes[graph.producer[wish.output]]
        roots = [None if value is None else plans.lowering.root(value) for value in node.inputs]
        found[node.id] = roots.index(wish.input)
    return found


def tasks_of(graph: Graph, plans: Plans, written: Written, weights_address: int) -> list[OmTask]:
    """Return the tasks of a graph in the order of its schedule, events included."""
    schedule = plans.schedule
    before: defaultdict[int, list[int]] = defaultdict(list)
    after: defaultdict[int, list[int]] = defaultdict(list)
    for event in schedule.events:
        before[event.wait].append(event.id)
        after[event.record].append(event.id)
    addresses = {op.id: op for op in written.graph.ops}
    tasks: list[OmTask] = []
    for step, at in enumerate(schedule.steps):
        task = plans.lowering.tasks[at]
        node, stream = graph.nodes[task.id], schedule.streams[step]
        op_id = written.op_ids[task.id]
        op = addresses[op_id]
        tasks += [OmTask(TaskType.EVENT_WAIT, stream, op_id, event) for event in before[step]]
        places = [
            (weights_address if is_const else BASE_ADDRESS) + offset if offset >= 0 else 0
            for offset, is_const in zip(op.input_offsets, op.is_input_const, strict=True)
        ]
        places += [BASE_ADDRESS + offset if offset >= 0 else 0 for offset in op.output_offsets]
        places += [BASE_ADDRESS + item.offset_bytes for item in op.workspace]
        kernel = OmKernel(
            name=om_type(node.op),
            stub=f"{op.name}__kernel0",
            args=struct.pack(f"<{len(places)}Q", *places),
            kernel_type=_KERNEL_TYPES.get(task.engine, 0),
        )
        tasks.append(OmTask(TaskType.KERNEL, stream, op_id, kernel=kernel))
        tasks += [OmTask(TaskType.EVENT_RECORD, stream, op_id, event) for event in after[step]]
    return tasks


def _figures(plans: Plans) -> dict[str, object]:
    memory = plans.memory
    return {
        "peak_bytes": memory.peak_bytes,
        "lower_bound_bytes": memory.lower_bound_bytes,
        "is_optimal": memory.is_optimal,
        "method": memory.method,
        "n_in_place": len(plans.in_place),
        "n_views": len(plans.lowering.views),
    }


def is_dynamic(graph: Graph) -> bool:
    """Whether a value's size is known only when the model runs."""
    return any(
        isinstance(value.type, TensorType) and not value.type.is_static for value in graph.values.values()
    )
