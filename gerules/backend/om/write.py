"""Writing a model as an `.om` file that loaders and viewers accept.

Source: hicann/ge, `ModelHelper::SaveToOmModel`: version 2.0, wide table, partitions in the order
MODEL_INOUT_INFO, MODEL_DEF, WEIGHTS_DATA, TASK_INFO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from gerules.backend.om.attributes import ints, texts
from gerules.backend.om.check import check_writable
from gerules.backend.om.container import PartitionSource, write_container
from gerules.backend.om.encode import encode_attrs, encode_graph
from gerules.backend.om.error import OmError
from gerules.backend.om.header import IR_VERSION, Header, PartitionType
from gerules.backend.om.interface import derive_interface, pack_interface
from gerules.backend.om.model import OmAttr, OmModel
from gerules.backend.om.proto import ModelDef, serialize
from gerules.backend.om.tasks import pack_tasks
from gerules.errors import Faults, table
from gerules.text.files import write_files

ESCAPED_TEXTS: Final = "_gerules_escaped_texts"
"""The model attribute that says texts went through `escape`."""


def write_om(model: OmModel, path: str | Path) -> int:
    """Write a model; the file appears whole or not at all.

    Weights are streamed from where they lie. Derived while writing: MODEL_INOUT_INFO (from the
    graph, when the model names no inputs and outputs), edge mirrors, name tables, and the model
    attributes that say how large things are.

    Args:
        path: Replaced if it exists.

    Returns:
        The size of the file in bytes.

    Raises:
        OmError: E80010 and E80021 for what the format cannot hold, E80022 for parts beyond their
            limit, E10004 when the disk refuses. In each case `path` is as it was.

    Cost: O(operators + edges) memory, O(file) time.
    """
    return write_chunks(om_chunks(model), Path(path))


def write_chunks(chunks: Iterable[bytes | memoryview], path: Path) -> int:
    """Write a file, whole or not at all, and return its size in bytes. Raises OmError E10004."""
    size_bytes = 0

    def write(file: BinaryIO) -> None:
        nonlocal size_bytes
        for chunk in chunks:
            size_bytes += file.write(chunk)

    try:
        write_files([(path, write)])
    except OSError as fault:
        raise OmError(table.CANNOT_WRITE, path=path, reason=fault.strerror or str(fault)) from None
    return size_bytes


def om_chunks(model: OmModel) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a model's file. Raises OmError as `write_om`, before the first byte."""
    faults = Faults()
    models = (model, *model.submodels)
    for item in models:
        check_writable(item, faults)
    # The encoder relies on edges that lead somewhere.
    faults.raise_if_any(OmError)
    sections = [_encode(item, faults) for item in models]
    faults.raise_if_any(OmError)
    header = Header(
        model.name,
        platform_version=model.platform_version,
        platform_type=model.platform_type,
        is_dynamic=model.is_dynamic or bool(model.submodels),
    )
    yield from write_container(header, [_sources(section) for section in sections])


@dataclass(frozen=True, slots=True)
class _Sections:
    """The encoded parts of one model; its weights stay where they are."""

    model: OmModel
    interface: bytes
    definition: bytes
    tasks: bytes


def _encode(model: OmModel, faults: Faults) -> _Sections:
    interface = model.interface
    if not interface.inputs and not interface.outputs:
        interface = derive_interface(model.root)
    weight_size_bytes = model.weights.size_bytes
    tasks = pack_tasks(
        model.tasks,
        memory_size_bytes=model.memory_size_bytes,
        weight_size_bytes=weight_size_bytes,
        n_streams=model.n_streams,
        n_events=model.n_events,
    )
    derived: dict[str, OmAttr] = {
        "memory_size": model.memory_size_bytes,
        "zero_copy_memory_size": model.zero_copy_size_bytes,
        "weight_size": weight_size_bytes,
        "stream_num": model.n_streams,
        "event_num": model.n_events,
        "label_num": model.n_labels,
        # Sizes of weights, kernels, AICPU kernels, tasks, operator libraries.
        "om_info_list": ints((weight_size_bytes, 0, 0, len(tasks), 0)),
        "attr_model_out_nodes_name": texts(port.name for port in interface.outputs),
        ESCAPED_TEXTS: True,
    }
    wire = ModelDef(version=IR_VERSION)
    encode_attrs({**model.attrs, **derived}, wire.attr, faults, model.name)
    for graph in model.graphs:
        encode_graph(graph, wire.graph.add(), faults)
    try:
        wire.name, wire.custom_version = model.name, model.platform_version
    except ValueError as fault:
        faults.add(table.OM_CANNOT_HOLD, what=f"name {model.name!r}", reason=fault)
    return _Sections(model, pack_interface(interface), serialize(wire, part="MODEL_DEF"), tasks)


def _sources(sections: _Sections) -> list[PartitionSource]:
    sources = [
        PartitionSource(kind, len(data), (data,))
        for kind, data in (
            (PartitionType.MODEL_INOUT_INFO, sections.interface),
            (PartitionType.MODEL_DEF, sections.definition),
            (PartitionType.TASK_INFO, sections.tasks),
        )
    ]
    weights = sections.model.weights
    if weights.size_bytes:
        part = PartitionSource(PartitionType.WEIGHTS_DATA, weights.size_bytes, weights.chunks())
        sources.insert(2, part)
    return sources
