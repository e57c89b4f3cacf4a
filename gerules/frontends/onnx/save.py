"""Writing ONNX: a graph as ModelProto, and as a file that is there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

import onnx
from onnx import ModelProto, TensorProto, helper

from gerules.errors import table
from gerules.frontends.fault import ModelError
from gerules.frontends.onnx.function_writer import DefineBody, FunctionWriter
from gerules.frontends.onnx.protos import Array, fill_header, fill_tensor, payload_of
from gerules.frontends.onnx.reader import MODEL_FIELDS
from gerules.frontends.onnx.wire import varint_bytes
from gerules.frontends.onnx.writer import GraphWriter, InlineStore, Store
from gerules.ir import DType, Graph, dtype_of
from gerules.ir.collector import paused_collector
from gerules.ops.registry import Schemas
from gerules.text.files import write_files

_LARGEST_INLINE_BYTES: Final = 1_500_000_000
"""Beyond it weights go to a file of their own: protobuf stops at 2 GiB. Source: protobuf."""

_SMALLEST_APART_BYTES: Final = 1024
"""Smaller tensors, and texts, stay in the message."""

_ALIGN_BYTES: Final = 4096
"""Pages, so that others can map external data. Source: onnx, ExternalData.md."""

_OLDEST_IR: Final = 4
"""From here on initializers need not be inputs as well. Source: onnx, IR.md."""

_IR_WITH_FUNCTIONS: Final = 8

_IR_OF_DTYPE: Final = {
    DType.F8E4M3FN: 9, DType.F8E4M3FNUZ: 9, DType.F8E5M2: 9, DType.F8E5M2FNUZ: 9,
    DType.I4: 10, DType.U4: 10, DType.F4E2M1: 11, DType.F8E8M0: 12, DType.I2: 13, DType.U2: 13,
}  # fmt: skip
"""The IR version that brought an element type. Source: onnx, onnx.proto, `Version`."""

_GRAPH_TAG: Final = b"\x3a"
_INITIALIZER_TAG: Final = b"\x2a"
_RAW_DATA_TAG: Final = b"\x4a"


def to_onnx(
    graph: Graph,
    *,
    schemas: Schemas | None = None,
    define_body: DefineBody | None = None,
    with_types: bool = True,
) -> ModelProto:
    """Return a graph as a ModelProto that any ONNX runtime executes.

    A node beyond ONNX becomes the call of a function when its meaning is known: by its
    `bodies["body"]`, or by what `define_body` gives. Without a meaning it is written as it is. Names of
    inputs and outputs are kept; others are made unique. Storage formats are not written.

    Args:
        schemas: The operators that exist; they say what an empty list is a list of.
        with_types: Also write the types of inner values.

    Raises:
        ModelError: E10031 for what ONNX has no form for.

    Cost: linear in the graph; weights are copied once.
    """
    with paused_collector():
        return _build(graph, schemas or Schemas(), InlineStore(), define_body, with_types)


def save_onnx(
    graph: Graph,
    path: str | Path,
    *,
    schemas: Schemas | None = None,
    define_body: DefineBody | None = None,
    with_types: bool = True,
    external_data: bool | None = None,
) -> None:
    """Write a graph as an ONNX file. See `to_onnx`.

    The file appears whole or not at all. Weights go from where they lie to the file without a copy in
    between.

    Args:
        external_data: Put weights into `<path>.data` beside the model; without it, when they have more
            than 1.5 GB.

    Raises:
        ModelError: E10004 when it cannot be written, E10031 for what ONNX has no form for.
    """
    path = Path(path)
    if external_data is None:
        external_data = _weight_bytes(graph) > _LARGEST_INLINE_BYTES
    with paused_collector():
        try:
            path = path.resolve()
            if external_data:
                _save_apart(graph, path, schemas or Schemas(), define_body, with_types)
            else:
                _save_inline(graph, path, schemas or Schemas(), define_body, with_types)
        except OSError as fault:
            reason = fault.strerror or str(fault)
            raise ModelError(table.CANNOT_WRITE, path=path, reason=reason) from None
        except (RuntimeError, ValueError) as fault:
            # A path with a loop of links or a zero byte, or a message beyond protobuf's limit.
            raise ModelError(table.CANNOT_WRITE, path=path, reason=str(fault)) from None


class _StreamStore:
    """Leaves the large tensors of the outermost graph out of the message, to be written after it."""

    def __init__(self) -> None:
        self.apart: dict[str, Array] = {}

    def put(self, proto: TensorProto, array: Array, *, in_body: bool) -> None:
        # What lies in a body lies in the middle of the message.
        if in_body or dtype_of(array).size_bytes(array.size) < _SMALLEST_APART_BYTES:
            fill_tensor(proto, array)
        else:
            fill_header(proto, array)
            self.apart[proto.name] = array


class _ExternalStore:
    """Puts large tensors one after the other into a file of their own."""

    def __init__(self, location: str) -> None:
        self._location = location
        self.parts: list[tuple[int, Array]] = []
        self._end = 0

    def put(self, proto: TensorProto, array: Array, *, in_body: bool) -> None:
        dtype = dtype_of(array)
        size_bytes = dtype.size_bytes(array.size)
        if size_bytes < _SMALLEST_APART_BYTES:
            fill_tensor(proto, array)
            return
        fill_header(proto, array)
        offset = -(-self._end // _ALIGN_BYTES) * _ALIGN_BYTES
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self._location), ("offset", offset), ("length", size_bytes)):
            proto.external_data.add(key=key, value=str(value))
        self.parts.append((offset, array))
        self._end = offset + size_bytes


def _build(
    graph: Graph, schemas: Schemas, store: Store, define_body: DefineBody | None, with_types: bool
) -> ModelProto:
    versions = {"": schemas.latest_opset, **graph.opsets}
    functions = FunctionWriter(define_body, versions)
    writer = GraphWriter(schemas, store=store, calls=functions, with_types=with_types)
    functions.writer = writer
    model = ModelProto()
    writer.write_graph(graph, model.graph, versions)
    model.functions.extend(functions.protos)
    used = writer.domains | {entry.domain for proto in functions.protos for entry in proto.opset_import}
    opsets = {domain: versions.get(domain, 1) for domain in used | graph.opsets.keys()}
    for domain, version in sorted(opsets.items()):
        model.opset_import.add(domain=domain, version=version)
    model.ir_version = _ir_version(opsets, writer.types.dtypes, bool(functions.protos))
    _write_metadata(model, graph)
    return model


def _ir_version(opsets: dict[str, int], dtypes: Iterable[DType], has_functions: bool) -> int:
    versions = [_OLDEST_IR, *(_IR_OF_DTYPE.get(dtype, 0) for dtype in dtypes)]
    for domain, opset in opsets.items():
        versions.append(helper.OP_SET_ID_VERSION_MAP.get((domain or "ai.onnx", opset), 0))
    if has_functions:
        versions.append(_IR_WITH_FUNCTIONS)
    return min(max(versions), int(onnx.IR_VERSION))


def _write_metadata(model: ModelProto, graph: Graph) -> None:
    model.producer_name = "gerules"
    for key, text in graph.metadata.items():
        field = key.removeprefix("onnx.")
        if field == key:
            model.metadata_props.add(key=key, value=text)
        elif field in MODEL_FIELDS:
            setattr(model, field, text)
        elif field == "model_version" and text.isascii() and text.isdigit() and len(text) < 19:
            model.model_version = int(text)


def _save_inline(
    graph: Graph, path: Path, schemas: Schemas, define_body: DefineBody | None, with_types: bool
) -> None:
    store = _StreamStore()
    model = _build(graph, schemas, store, define_body, with_types)
    heads: list[tuple[bytes, memoryview]] = []
    kept: list[TensorProto] = []
    for tensor in model.graph.initializer:
        array = store.apart.get(tensor.name)
        if array is None:
            kept.append(tensor)
            continue
        dtype = dtype_of(array)
        size_bytes = dtype.size_bytes(array.size)
        head = tensor.SerializeToString() + _RAW_DATA_TAG + varint_bytes(size_bytes)
        total = varint_bytes(len(head) + size_bytes)
        heads.append((_INITIALIZER_TAG + total + head, payload_of(array, dtype)))
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    body = model.graph.SerializeToString()
    model.ClearField("graph")
    start = model.SerializeToString()
    size = len(body) + sum(len(head) + len(payload) for head, payload in heads)

    def write(file: BinaryIO) -> None:
        file.write(start + _GRAPH_TAG + varint_bytes(size))
        file.write(body)
        for head, payload in heads:
            file.write(head)
            file.write(payload)

    write_files([(path, write)])


def _save_apart(
    graph: Graph, path: Path, schemas: Schemas, define_body: DefineBody | None, with_types: bool
) -> None:
    data_path = path.with_name(f"{path.name}.data")
    store = _ExternalStore(data_path.name)
    model = _build(graph, schemas, store, define_body, with_types)

    def write_data(file: BinaryIO) -> None:
        for offset, array in store.parts:
            file.write(bytes(offset - file.tell()))
            file.write(payload_of(array, dtype_of(array)))

    def write_model(file: BinaryIO) -> None:
        file.write(model.SerializeToString())

    # The model last: it is what makes the data count.
    files = [(path, write_model)]
    write_files([(data_path, write_data), *files] if store.parts else files)


def _weight_bytes(graph: Graph) -> int:
    return sum(const.array.nbytes for const in graph.consts.values()) + sum(
        _weight_bytes(body.graph) for node in graph.nodes.values() for body in node.bodies.values()
    )
