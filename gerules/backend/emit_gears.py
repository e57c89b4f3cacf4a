"""Emission of gears: one graph and one plan for each, chosen by the shapes of the inputs.

```
Data x, ... (the largest gear)      ascend_mbatch_shape_data
       |                                   |
       |                        ascend_mbatch_shape_mapindex   against a table of all gears
       |                                   |
       +------------------- ascend_mbatch_shape_case           one subgraph for each gear
                                           |
                                       NetOutput
```
All gears share the weights, where equal constants lie once, and the arena, which is as large as the
largest gear needs. Source: form and names of the Graph Engine's files with several gears.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gerules.backend.emit import BASE_ADDRESS, model_attrs, placement_of, tasks_of
from gerules.backend.emit_graph import NOWHERE, GraphWriter
from gerules.backend.emit_tensors import TensorWriter
from gerules.backend.exact import write_texts, write_type
from gerules.backend.om import (
    Edge,
    OmAttr,
    OmError,
    OmInterface,
    OmModel,
    OmOp,
    OmTask,
    OmTasks,
    OmTensor,
    derive_interface,
    ints,
    texts,
)
from gerules.backend.plans import Plans
from gerules.backend.ports import Namer, input_names, output_names
from gerules.errors import Faults
from gerules.ir import Const, DType, Graph, TensorType
from gerules.ops import Schemas
from gerules.passes.gears import GearKind, Gears

SHAPE_DATA: Final = "ascend_mbatch_shape_data"
MAP_INDEX: Final = "ascend_mbatch_shape_mapindex"
CASE: Final = "ascend_mbatch_shape_case"
"""Names that runtimes look for. Source: the Graph Engine's multi-gear graphs."""

TABLE: Final = "ascend_mbatch_mapindex_const"
DYNAMIC: Final = "Dynamic"
"""The branch of a hybrid model that runs any shape."""

GEAR_BYTES: Final = "_gerules_gear_bytes"
"""On the model: the arena that each branch needs."""

OPEN_TYPE: Final = "_gerules_open_type"
"""On an input: its type with the dimensions that gears fix left open."""


@dataclass(frozen=True, slots=True)
class Branch:
    """What one gear compiled to."""

    graph: Graph
    plans: Plans
    engines: Mapping[int, str]


def emit_gears(
    gears: Gears,
    branches: Sequence[Branch],
    *,
    device: str = "",
    definitions: Sequence[str] = (),
    schemas: Schemas | None = None,
    attrs: Mapping[str, OmAttr] | None = None,
) -> OmModel:
    """Return one offline model that holds all gears.

    Args:
        branches: One for each gear, in their order; for a hybrid model one more, of any shape.
        definitions, schemas, attrs: See `emit`.

    Raises:
        OmError: E80020 and E80021 for what an `.om` file cannot hold, all at once.

    Cost: linear in the nodes of all gears, plus one pass over the constants of each.
    """
    faults = Faults()
    writer = GraphWriter(faults, schemas)
    first = branches[0].graph
    labels = [*(f"Batch_{at}" for at in range(len(gears.gears))), *([DYNAMIC] if gears.is_hybrid else ())]
    root_name = writer.reserve(first.name or "graph")
    names = [writer.reserve(label) for label in labels]
    root = writer.add_graph(root_name, _root(writer.tensors, gears, branches, names, labels))
    peak_bytes = max(branch.plans.memory.peak_bytes for branch in branches)
    weights_address = BASE_ADDRESS + peak_bytes
    tasks: list[OmTask] = []
    for at, (name, label, branch) in enumerate(zip(names, labels, branches, strict=True)):
        written = writer.write_branch(
            branch.graph, placement_of(branch.graph, branch.plans, branch.engines), name,
            suffix=f"_ascend_mbatch_batch_{at}", first_input=1, attrs={"_batch_label": label},
        )  # fmt: skip
        tasks += tasks_of(branch.graph, branch.plans, written, weights_address)
    faults.raise_if_any(OmError)
    found = {
        **model_attrs(first, definitions, device, peak_bytes),
        "_gerules_memory": write_texts({"peak_bytes": peak_bytes}),
        GEAR_BYTES: ints(branch.plans.memory.peak_bytes for branch in branches),
    }
    return OmModel(
        first.name or "model",
        tuple(writer.graphs),
        {**found, **(attrs or {})},
        writer.tensors.weights.build(),
        _interface(derive_interface(root, output_names(first)), gears, branches),
        OmTasks(tuple(tasks), BASE_ADDRESS, weights_address),
        memory_size_bytes=peak_bytes,
        n_streams=max(1, *(branch.plans.schedule.n_streams for branch in branches)),
        n_events=max(len(branch.plans.schedule.events) for branch in branches),
        is_dynamic=gears.is_hybrid,
    )


def _root(
    tensors: TensorWriter,
    gears: Gears,
    branches: Sequence[Branch],
    names: Sequence[str],
    labels: Sequence[str],
) -> list[OmOp]:
    """The operators that choose a gear, in order."""
    largest = branches[gears.largest].graph
    namer = Namer()
    for name in (SHAPE_DATA, TABLE, MAP_INDEX, CASE, "NetOutput"):
        namer.name(name)
    ops = [
        _data(namer.name(name), at, tensors, gears, largest) for at, name in enumerate(input_names(largest))
    ]
    n_values = len(gears.gears[0].values)
    chosen = replace(tensors.describe(TensorType(DType.I32, (n_values,)), SHAPE_DATA), is_graph_input=True)
    table = Const(np.array([gear.values for gear in gears.gears], np.int32).reshape(-1))
    stored = tensors.constant(table, table.type, TABLE)
    index = tensors.describe(TensorType(DType.I32, ()), "branch_index")
    made = [
        replace(tensors.describe(largest.type_of(value), name), is_graph_output=True)
        for name, value in zip(output_names(largest), largest.outputs, strict=True)
    ]
    case = OmOp(
        CASE, "Case", (Edge(MAP_INDEX), *(Edge(op.name) for op in ops)),
        input_descs=(index, *(op.output_descs[0] for op in ops)), output_descs=tuple(made),
        attrs=_case_attrs(gears, labels),
        input_names=("branch_index", *(f"input{at}" for at in range(len(ops)))),
        output_names=tuple(f"output{at}" for at in range(len(made))),
        input_offsets=(NOWHERE,) * (len(ops) + 1), output_offsets=(NOWHERE,) * len(made),
        is_input_const=(False,) * (len(ops) + 1), subgraphs=tuple(names),
    )  # fmt: skip
    return [
        *ops,
        _data_op(SHAPE_DATA, chosen, {"index": len(ops)}),
        OmOp(
            TABLE, "Const", output_descs=(stored.desc,), attrs={"value": stored}, output_names=("y",),
            output_offsets=(0,),
        ),
        OmOp(
            MAP_INDEX, "MapIndex", (Edge(SHAPE_DATA), Edge(TABLE)), input_descs=(chosen, stored.desc),
            output_descs=(index,), attrs={"_gerules_op": "ge::MapIndex"}, input_names=("x", "data_seq"),
            output_names=("y",), input_offsets=(NOWHERE, stored.desc.data_offset), output_offsets=(NOWHERE,),
            is_input_const=(False, True),
        ),
        case,
        OmOp(
            "NetOutput", "NetOutput", tuple(Edge(CASE, at) for at in range(len(made))),
            input_descs=tuple(made), input_offsets=(NOWHERE,) * len(made),
            is_input_const=(False,) * len(made),
        ),
    ]  # fmt: skip


def _data(name: str, at: int, tensors: TensorWriter, gears: Gears, graph: Graph) -> OmOp:
    """An input, described as large as any gear wants it."""
    type, value = gears.types[at], graph.inputs[at]
    largest = TensorType(type.dtype, gears.max_shapes[at])
    desc = replace(tensors.describe(largest, graph.values[value].name), is_graph_input=True)
    attrs: dict[str, OmAttr] = {
        "index": at,
        "_mbatch_origin_input_dims": ints(gears.open_shapes[at]),
        OPEN_TYPE: write_type(type),
    }
    return _data_op(name, desc, attrs)


def _data_op(name: str, desc: OmTensor, attrs: Mapping[str, OmAttr]) -> OmOp:
    return OmOp(
        name, "Data", (None,), (), (replace(desc, size_bytes=max(0, desc.size_bytes)),), (desc,), attrs,
        ("x",), ("y",), input_offsets=(NOWHERE,), output_offsets=(NOWHERE,), is_input_const=(False,),
    )  # fmt: skip


def _case_attrs(gears: Gears, labels: Sequence[str]) -> dict[str, OmAttr]:
    found: dict[str, OmAttr] = {
        "_batch_num": len(gears.gears),
        "mbatch_dynamic_type": gears.kind.value,
        "user_designate_shape_order": texts(gears.order),
        "_gerules_op": "ge::Case",
        "_gerules_bodies": texts(labels),
        "_gerules_n_inputs": len(gears.types) + 1,
    }
    return found | {f"_pred_value_{at}": ints(gear.values) for at, gear in enumerate(gears.gears)}


def _interface(plain: OmInterface, gears: Gears, branches: Sequence[Branch]) -> OmInterface:
    """The interface with what a caller is told of gears."""
    columns = list(zip(*(gear.shapes for gear in gears.gears), strict=True))
    inputs = list(plain.inputs)
    for at, column in enumerate(columns):
        ranges = tuple((min(sizes), max(sizes)) for sizes in zip(*column, strict=True))
        inputs[at] = replace(inputs[at], origin_shape=gears.open_shapes[at], ranges=ranges)
    values = tuple(gear.values for gear in gears.gears)
    return replace(
        plain,
        inputs=tuple(inputs),
        dynamic_batch=tuple(row[0] for row in values) if gears.kind is GearKind.BATCH else (),
        dynamic_hw=values if gears.kind is GearKind.IMAGE else (),
        dynamic_dims=values if gears.kind is GearKind.DIMS else (),
        dynamic_output_shapes=tuple(_output_shapes(gears, branches)),
        input_order=gears.order,
    )


def _output_shapes(gears: Gears, branches: Sequence[Branch]) -> Iterator[str]:
    """Texts `gear,output,d0,d1,...`, where an output has a fixed shape."""
    for at, branch in enumerate(branches[: len(gears.gears)]):
        for place, value in enumerate(branch.graph.outputs):
            type = branch.graph.type_of(value)
            if isinstance(type, TensorType) and type.is_static:
                yield ",".join(map(str, (at, place, *type.static_shape)))
