"""The messages of a MindIR file as records, both generations of the format.

Since 2.x operators stand in a list of primitives that nodes refer to; before, each node names its operator
and carries its attributes. Source: the field numbers of MindSpore's mind_ir.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gerules.frontends.mindir.wire import (
    LENGTH,
    Payload,
    WireFault,
    fields,
    number,
    numbers,
    real,
    reals,
    text,
    view,
)

_DEEPEST: Final = 40
"""Messages within messages; a shape in a tuple of tuples of an attribute is eight deep."""

KINDS: Final[Mapping[int, str]] = {
    1: "float", 2: "int", 3: "int", 4: "int", 5: "int", 6: "int", 7: "int", 8: "string", 9: "bool",
    10: "float", 11: "float", 12: "int", 13: "int", 16: "float", 17: "tensor", 18: "graph", 19: "tensors",
    20: "tuple", 21: "list", 22: "dict", 23: "monad", 24: "monad", 25: "none", 26: "primitive",
    27: "function", 28: "partial",
}  # fmt: skip
"""What an AttributeType says of the attribute; others are `other`."""


@dataclass(slots=True)
class TensorRecord:
    """A TensorProto: a weight, a constant, or the type of a value."""

    name: str = ""
    dims: list[int] = field(default_factory=list[int])
    data_type: int = 0
    raw: memoryview | None = None
    floats: list[memoryview] = field(default_factory=list[memoryview])
    doubles: list[memoryview] = field(default_factory=list[memoryview])
    ints: list[int] = field(default_factory=list[int])
    location: str = ""
    """The file beside the model that holds the elements; empty when they are here."""
    offset: int = 0
    length: int = 0
    ref_key: str = ""
    compression: int = 0


@dataclass(slots=True)
class AttributeRecord:
    """An AttributeProto. `kind` is a word of `KINDS`."""

    name: str = ""
    kind: str = ""
    code: int = 0
    ref_name: str = ""
    """Old files: what the attribute is, such as `scalar:value0` or `shape:shape`."""
    f: float = 0.0
    i: int = 0
    d: float = 0.0
    s: memoryview = field(default_factory=lambda: memoryview(b""))
    floats: list[float] = field(default_factory=list[float])
    ints: list[int] = field(default_factory=list[int])
    strings: list[str] = field(default_factory=list[str])
    tensors: list[TensorRecord] = field(default_factory=list[TensorRecord])
    values: list[AttributeRecord] = field(default_factory=list["AttributeRecord"])


@dataclass(slots=True)
class NodeRecord:
    """A NodeProto."""

    name: str = ""
    op: str = ""
    scope: str = ""
    inputs: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])
    attrs: list[AttributeRecord] = field(default_factory=list[AttributeRecord])


@dataclass(slots=True)
class PortRecord:
    """A ValueInfoProto: an input or an output of a graph."""

    name: str = ""
    tensors: list[TensorRecord] = field(default_factory=list[TensorRecord])
    attr: AttributeRecord | None = None


@dataclass(slots=True)
class GraphRecord:
    """A GraphProto."""

    name: str = ""
    nodes: list[NodeRecord] = field(default_factory=list[NodeRecord])
    parameters: list[TensorRecord] = field(default_factory=list[TensorRecord])
    inputs: list[PortRecord] = field(default_factory=list[PortRecord])
    outputs: list[PortRecord] = field(default_factory=list[PortRecord])


@dataclass(slots=True)
class PrimitiveRecord:
    """A PrimitiveProto."""

    name: str = ""
    op: str = ""
    attrs: list[AttributeRecord] = field(default_factory=list[AttributeRecord])


@dataclass(slots=True)
class ModelRecord:
    """A ModelProto."""

    ir_version: str = ""
    producer: str = ""
    producer_version: str = ""
    model_version: str = ""
    graph: GraphRecord | None = None
    functions: list[GraphRecord] = field(default_factory=list[GraphRecord])
    primitives: list[PrimitiveRecord] = field(default_factory=list[PrimitiveRecord])
    little_endian: bool = True


def read_model(data: memoryview) -> ModelRecord:
    """Read the messages of a file.

    Raises:
        WireFault: for bytes that are no such messages.
    """
    found = ModelRecord()
    for at, _, payload in fields(data):
        if at == 1:
            found.ir_version = _loose_text(payload)
        elif at == 2:
            found.producer = _loose_text(payload)
        elif at == 3:
            found.producer_version = _loose_text(payload)
        elif at == 5:
            found.model_version = _loose_text(payload)
        elif at == 7:
            found.graph = _graph(view(payload), 1)
        elif at == 8:
            found.functions.append(_graph(view(payload), 1))
        elif at == 10:
            found.little_endian = number(payload) != 0
        elif at == 12:
            found.primitives.append(_primitive(view(payload), 1))
    return found


def _graph(data: memoryview, depth: int) -> GraphRecord:
    found = GraphRecord()
    for at, _, payload in fields(data):
        if at == 1:
            found.nodes.append(_node(view(payload), depth + 1))
        elif at == 2:
            found.name = text(payload)
        elif at == 3:
            found.parameters.append(_tensor(view(payload)))
        elif at == 5:
            found.inputs.append(_port(view(payload), depth + 1))
        elif at == 6:
            found.outputs.append(_port(view(payload), depth + 1))
    return found


def _node(data: memoryview, depth: int) -> NodeRecord:
    found = NodeRecord()
    for at, _, payload in fields(data):
        if at == 1:
            found.inputs.append(text(payload))
        elif at == 2:
            found.outputs.append(text(payload))
        elif at == 3:
            found.name = text(payload)
        elif at == 4:
            found.op = text(payload)
        elif at == 5:
            found.attrs.append(_attribute(view(payload), depth + 1))
        elif at == 7:
            found.scope = text(payload)
    return found


def _port(data: memoryview, depth: int) -> PortRecord:
    found = PortRecord()
    for at, _, payload in fields(data):
        if at == 1:
            found.name = text(payload)
        elif at == 2:
            found.tensors.append(_tensor(view(payload)))
        elif at == 5:
            found.attr = _attribute(view(payload), depth + 1)
    return found


def _primitive(data: memoryview, depth: int) -> PrimitiveRecord:
    found = PrimitiveRecord()
    for at, _, payload in fields(data):
        if at == 1:
            found.name = text(payload)
        elif at == 2:
            found.op = text(payload)
        elif at == 3:
            found.attrs.append(_attribute(view(payload), depth + 1))
    return found


def _attribute(data: memoryview, depth: int) -> AttributeRecord:
    if depth > _DEEPEST:
        raise WireFault(f"attributes nest more than {_DEEPEST} deep")
    found = AttributeRecord()
    for at, wire, payload in fields(data):
        read = _ATTRIBUTE.get(at)
        if read is not None:
            read(found, wire, payload)
        elif at == 17:
            found.values.append(_attribute(view(payload), depth + 1))
    found.kind = KINDS.get(found.code, "other") if found.code else ""
    return found


def _read_name(found: AttributeRecord, _: int, payload: Payload) -> None:
    found.name = text(payload)


def _read_f(found: AttributeRecord, wire: int, payload: Payload) -> None:
    found.f = real(wire, payload)


def _read_i(found: AttributeRecord, _: int, payload: Payload) -> None:
    found.i = number(payload)


def _read_d(found: AttributeRecord, wire: int, payload: Payload) -> None:
    found.d = real(wire, payload)


def _read_s(found: AttributeRecord, _: int, payload: Payload) -> None:
    found.s = view(payload)


def _read_tensor(found: AttributeRecord, _: int, payload: Payload) -> None:
    found.tensors.append(_tensor(view(payload)))


def _read_floats(found: AttributeRecord, wire: int, payload: Payload) -> None:
    found.floats += reals(wire, payload, 4).cast("B").cast("f")


def _read_doubles(found: AttributeRecord, wire: int, payload: Payload) -> None:
    found.floats += reals(wire, payload, 8).cast("B").cast("d")


def _read_ints(found: AttributeRecord, wire: int, payload: Payload) -> None:
    found.ints += numbers(wire, payload)


def _read_strings(found: AttributeRecord, _: int, payload: Payload) -> None:
    found.strings.append(text(payload))


def _read_ref(found: AttributeRecord, _: int, payload: Payload) -> None:
    found.ref_name = text(payload)


def _read_type(found: AttributeRecord, _: int, payload: Payload) -> None:
    found.code = number(payload)


def _read_old_type(found: AttributeRecord, wire: int, payload: Payload) -> None:
    # Before 2.x field 18 was the kind of the attribute; now it is a message about sequences.
    if wire != LENGTH and not found.code:
        found.code = number(payload)


_ATTRIBUTE: Final[Mapping[int, Callable[[AttributeRecord, int, Payload], None]]] = {
    1: _read_name, 2: _read_f, 3: _read_i, 4: _read_d, 5: _read_s, 6: _read_tensor, 8: _read_floats,
    9: _read_doubles, 10: _read_ints, 11: _read_strings, 12: _read_tensor, 15: _read_ref, 16: _read_type,
    18: _read_old_type,
}  # fmt: skip


def _tensor(data: memoryview) -> TensorRecord:
    found = TensorRecord()
    for at, wire, payload in fields(data):
        if at == 1:
            found.dims += numbers(wire, payload)
        elif at == 2:
            found.data_type = number(payload)
        elif at == 3:
            found.floats.append(reals(wire, payload, 4))
        elif at in (4, 6, 11):
            found.ints += numbers(wire, payload)
        elif at == 7:
            found.name = text(payload)
        elif at == 9:
            found.raw = view(payload)
        elif at == 10:
            found.doubles.append(reals(wire, payload, 8))
        elif at == 12:
            _read_external(found, view(payload))
        elif at == 13:
            found.ref_key = text(payload)
        elif at == 16:
            found.compression = number(payload)
    return found


def _read_external(found: TensorRecord, data: memoryview) -> None:
    for at, _, payload in fields(data):
        if at == 1:
            found.location = text(payload)
        elif at == 2:
            found.offset = number(payload)
        elif at == 3:
            found.length = number(payload)


def _loose_text(payload: Payload) -> str:
    """A text about the file, which some versions write as a number."""
    return str(number(payload)) if isinstance(payload, int) else text(payload)


def is_mindir(head: bytes) -> bool:
    """Whether a file begins as MindIR does: its first field is the IR version as a text like `0.1.0`."""
    if len(head) < 4 or head[0] != 0x0A or not 0 < head[1] <= 32:
        return False
    version = head[2 : 2 + head[1]]
    return all(byte in b"0123456789." for byte in version) and b"." in version
