"""Reading an `.om` file into records. Nothing in the file is executed, no size in it is believed."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gerules.backend.om.check import check_graphs, ops_of
from gerules.backend.om.compression import NO_TABLES, NameTables
from gerules.backend.om.constants import constant_bytes
from gerules.backend.om.container import Block, OmFile, read_container
from gerules.backend.om.decode import Decoder
from gerules.backend.om.error import OmError, is_full
from gerules.backend.om.header import Header, PartitionType
from gerules.backend.om.interface import derive_interface, read_interface
from gerules.backend.om.model import NO_ATTRS, OmAttr, OmGraph, OmInterface, OmList, OmModel, TensorValue
from gerules.backend.om.proto import AttrDef, ModelDef, Wire, parse
from gerules.backend.om.tasks import OmTasks, read_tasks
from gerules.backend.om.weights import StoredWeights, Weights
from gerules.backend.om.write import ESCAPED_TEXTS
from gerules.errors import Faults, table
from gerules.text.files import open_regular

_DERIVED = frozenset(
    {
        "memory_size", "zero_copy_memory_size", "weight_size", "stream_num", "event_num", "label_num",
        "om_info_list", "attr_model_out_nodes_name", "tasks", "om_compress_version", "attr_name_enum",
        "attr_value_enum", "attrs_use_string_value", ESCAPED_TEXTS,
    }
)  # fmt: skip
"""Model attributes that fields of `OmModel` repeat."""


def read_om(source: str | Path | bytes | memoryview, *, bundle_index: int | None = None) -> OmModel:
    """Read an offline model.

    A file is mapped, not loaded: weights stay views into it, and bytes arrive when they are used.

    Args:
        source: A path, or the whole file as bytes.
        bundle_index: Which model of a bundle; other files have only themselves.

    Raises:
        OmError: E10001 when the file cannot be opened; E80001-E80007 from the container, E80008
            without a model, E80009 for messages, E80010 for graphs, E80011 for constants,
            E80012 for the interface, E80014 for compressed names. All of one stage together.
    """
    place = "" if isinstance(source, bytes | memoryview) else str(source)
    file = read_container(open_view(source), place=place)
    if file.bundled or bundle_index is not None:
        n_models = len(file.bundled)
        if bundle_index is None or not 0 <= bundle_index < n_models:
            raise OmError(
                table.OM_NO_MODEL, place=place, found=f"it is a bundle of {n_models}",
                remedy="choose one of the bundled models by its index, from 0",
            )  # fmt: skip
        file = file.bundled[bundle_index]
    return read_model(file, place=place)


def open_view(source: str | Path | bytes | memoryview) -> memoryview:
    """Return a file's bytes as a view; a path is mapped.

    Raises:
        OmError: E10001 when it cannot be opened.
    """
    if isinstance(source, bytes | memoryview):
        return memoryview(source)
    try:
        with open_regular(Path(source)) as file:
            if file.seek(0, 2) == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        raise OmError(table.FILE_NOT_FOUND, path=source, reason=reason) from None


def read_model(file: OmFile, *, place: str = "") -> OmModel:
    """Decode the model of a file that `read_container` took apart. Raises OmError as `read_om`."""
    root: OmModel | None = None
    outer = NO_TABLES
    submodels: list[OmModel] = []
    for number, block in enumerate(file.blocks):
        where = place if number == 0 else f"{place} [model {number}]"
        model, tables = _read_block(block, file.header, outer, where)
        if root is None:
            root, outer = model, tables
        else:
            submodels.append(model)
    assert root is not None  # A container has at least one block.
    return replace(root, submodels=tuple(submodels))


def _read_block(block: Block, header: Header, outer: NameTables, place: str) -> tuple[OmModel, NameTables]:
    data = block.find(PartitionType.MODEL_DEF)
    if data is None:
        raise OmError(
            table.OM_NO_MODEL, place=place, found=", ".join(part.name for part in block.partitions),
            remedy="give an offline model with a MODEL_DEF partition",
        )  # fmt: skip
    wire = parse(ModelDef, data, part="MODEL_DEF", place=place)
    faults = Faults()
    # The model's own attributes are never compressed; they hold the tables for all others.
    attrs = Decoder(faults, place, is_escaped=ESCAPED_TEXTS in wire.attr).attrs(wire.attr)
    tables = _tables_of(wire, outer)
    decoder = Decoder(faults, place, tables, is_escaped=ESCAPED_TEXTS in attrs)
    graphs = tuple(decoder.graph(graph) for graph in wire.graph)
    if not graphs:
        faults.add(table.OM_NO_MODEL, place=place, found="no graph in MODEL_DEF", remedy="build it again")
    check_graphs(graphs, faults, place)
    weights = StoredWeights(block.find(PartitionType.WEIGHTS_DATA) or memoryview(b""))
    _check_constants(graphs, weights, faults, place)
    interface = _interface_of(block, graphs, attrs, faults, place)
    tasks = _tasks_of(block, header, faults, place)
    faults.raise_if_any(OmError)
    numbers = {name: value for name, value in attrs.items() if type(value) is int}
    model = OmModel(
        wire.name or header.name,
        graphs,
        {name: value for name, value in attrs.items() if name not in _DERIVED} or NO_ATTRS,
        weights,
        interface,
        tasks,
        numbers.get("memory_size", 0),
        numbers.get("zero_copy_memory_size", 0),
        numbers.get("stream_num", 1),
        numbers.get("event_num", 0),
        numbers.get("label_num", 0),
        wire.custom_version or header.platform_version,
        header.platform_type,
        header.is_dynamic,
    )
    return model, tables


def _tables_of(wire: Wire, outer: NameTables) -> NameTables:
    if "om_compress_version" not in wire.attr or wire.attr["om_compress_version"].i != 1:
        return NO_TABLES
    names = [raw.decode("utf-8", "replace") for raw in _list_of(wire, "attr_name_enum").s]
    return NameTables(
        names,
        list(_list_of(wire, "attr_value_enum").s),
        list(_list_of(wire, "attrs_use_string_value").b),
        outer if outer is not NO_TABLES else None,
    )


def _list_of(wire: Wire, name: str) -> Wire:
    return wire.attr[name].list if name in wire.attr else AttrDef().list


def _check_constants(graphs: tuple[OmGraph, ...], weights: Weights, faults: Faults, place: str) -> None:
    for op in ops_of(graphs):
        if op.type == "Const" and isinstance(op.attrs.get("value"), TensorValue) and not is_full(faults):
            try:
                constant_bytes(op, weights)
            except OmError as error:
                faults.extend(replace(item, place=place) for item in error.diagnostics)


def _interface_of(
    block: Block, graphs: tuple[OmGraph, ...], attrs: Mapping[str, OmAttr], faults: Faults, place: str
) -> OmInterface:
    data = block.find(PartitionType.MODEL_INOUT_INFO)
    if data is not None:
        try:
            return read_interface(data, place=place)
        except OmError as error:
            faults.extend(error.diagnostics)
            return OmInterface()
    listed = attrs.get("attr_model_out_nodes_name")
    names = [item for item in listed.items if isinstance(item, str)] if isinstance(listed, OmList) else []
    return derive_interface(graphs[0], names) if graphs else OmInterface()


def _tasks_of(block: Block, header: Header, faults: Faults, place: str) -> OmTasks:
    data = block.find(PartitionType.TASK_INFO)
    if data is None or header.is_hiai:
        return OmTasks(is_stored=False)
    try:
        return read_tasks(data, place=place)
    except OmError as error:
        faults.extend(error.diagnostics)
        return OmTasks(is_stored=False)
