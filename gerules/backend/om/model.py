"""The records of an offline model: what lies between the file's messages and the rest of gerules.

Nothing here knows protobuf, and nothing knows the compiler's graph. Tables that a file repeats
(name tables, edge mirrors, format numbers) are one field here; the writer derives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from gerules.backend.om.numbers import dtype_name, dtype_of_proto, format_of
from gerules.backend.om.tasks import NO_TASKS, OmTasks
from gerules.backend.om.weights import NO_WEIGHTS, Weights
from gerules.ir.dtype import DType
from gerules.ir.layout import Format

NO_ATTRS: Final[Mapping[str, OmAttr]] = MappingProxyType({})


class ListKind(Enum):
    """What a list attribute holds. The value is its `val_type` in files."""

    NONE = 0
    TEXT = 1
    INT = 2
    FLOAT = 3
    BOOL = 4
    BYTES = 5
    DESC = 6
    TENSOR = 7
    GRAPH = 8
    NAMED = 9
    DTYPE = 10


@dataclass(frozen=True, slots=True)
class RawText:
    """A text attribute that is no UTF-8."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Expression:
    """A symbolic expression, as the engine serialized it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ExternalDType:
    """An element type as an attribute; `number` counts in the external order, not the descriptors'."""

    number: int


@dataclass(frozen=True, slots=True)
class IntLists:
    """A list of lists of integers."""

    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class FloatLists:
    """A list of lists of floats."""

    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class NamedAttrs:
    """A named group of attributes."""

    name: str
    attrs: Mapping[str, OmAttr]


@dataclass(frozen=True, slots=True)
class OmTensor:
    """A tensor's description at one input or output of an operator.

    `shape` is the shape in memory, padding included (-1 unknown; one -2: unknown rank); `layout` is
    a format's text such as `NC1HWC0`. `dtype` is a descriptor number (`numbers.DTYPES`), because
    files name types gerules does not compute with. `origin_...` say what the tensor was before
    formats were chosen; `origin_shape` None, `origin_layout` `""`: not said. `size_bytes` is the
    memory it takes, `data_offset` and `weight_size_bytes` the place of a constant in the weights.
    `is_shape_known` is False when the file has no shape at all, not even that of a scalar.
    """

    dtype: int = 0
    shape: tuple[int, ...] = ()
    layout: str = "ND"
    name: str = ""
    size_bytes: int = 0
    weight_size_bytes: int = 0
    data_offset: int = 0
    origin_shape: tuple[int, ...] | None = None
    origin_layout: str = ""
    origin_dtype: int = 0
    sub_format: int = 0
    """Convolution groups of a weight, 0 when there are none."""
    c0_code: int = 0
    attrs: Mapping[str, OmAttr] = field(default_factory=lambda: NO_ATTRS)
    device: str = "NPU"
    reuse_input: int | None = None
    """The input whose memory this output shares."""
    is_graph_input: bool = False
    is_graph_output: bool = False
    is_shape_known: bool = True

    @property
    def ir_dtype(self) -> DType | None:
        """The element type; None when gerules does not compute with it."""
        return dtype_of_proto(self.dtype)

    @property
    def ir_format(self) -> Format | None:
        """The storage format; None when gerules cannot compute with it."""
        return format_of(self.layout)

    @property
    def n_elements(self) -> int | None:
        """Elements in memory, padding included; None when the shape is not static."""
        return math.prod(self.shape) if min(self.shape, default=0) >= 0 else None

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}{list(self.shape)} @{self.layout}"


ABSENT: Final = OmTensor(layout="RESERVED")
"""The description of an optional input that is not there."""


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A constant inside the graph: its description, and its bytes unless they lie in the weights."""

    desc: OmTensor
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Edge:
    """One output of an operator. Names are identities in `.om` files."""

    producer: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.producer}:{self.index}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch memory of an operator, by its place in the arena."""

    offset_bytes: int
    size_bytes: int


class InputKind(Enum):
    """How a prototype's input may be given. The value is its number in `_ir_inputs_value`."""

    REQUIRED = 0
    OPTIONAL = 1
    DYNAMIC = 2


@dataclass(frozen=True, slots=True)
class Prototype:
    """An operator's declaration: inputs by name and kind, outputs (dynamic or not), attribute names."""

    inputs: tuple[tuple[str, InputKind], ...] = ()
    outputs: tuple[tuple[str, bool], ...] = ()
    attr_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OmOp:
    """One operator.

    `inputs` has an entry for every slot, None when an optional one is absent; `input_descs` runs
    parallel. Offsets count bytes in the feature-map arena, or inside the weights where
    `is_input_const` says so. `subgraphs` are names of graphs of the same model. `prototype` None:
    none is stored.
    """

    name: str
    type: str
    inputs: tuple[Edge | None, ...] = ()
    control_inputs: tuple[str, ...] = ()
    input_descs: tuple[OmTensor, ...] = ()
    output_descs: tuple[OmTensor, ...] = ()
    attrs: Mapping[str, OmAttr] = field(default_factory=lambda: NO_ATTRS)
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    optional_inputs: tuple[str, ...] = ()
    prototype: Prototype | None = None
    input_offsets: tuple[int, ...] = ()
    output_offsets: tuple[int, ...] = ()
    workspace: tuple[Workspace, ...] = ()
    is_input_const: tuple[bool, ...] = ()
    subgraphs: tuple[str, ...] = ()
    stream_id: int = 0
    id: int = 0
    """Topological number over all graphs of a model; tasks refer to it."""


@dataclass(frozen=True, slots=True)
class OmGraph:
    """Operators in topological order. The first graph of a model is its root."""

    name: str
    ops: tuple[OmOp, ...] = ()
    inputs: tuple[Edge, ...] = ()
    outputs: tuple[Edge, ...] = ()
    attrs: Mapping[str, OmAttr] = field(default_factory=lambda: NO_ATTRS)


@dataclass(frozen=True, slots=True)
class OmList:
    """A list attribute; all items are of one kind, and an empty list has a kind too."""

    kind: ListKind
    items: tuple[OmItem, ...] = ()


OmItem = (
    str | RawText | int | float | bool | bytes | OmTensor | TensorValue | OmGraph | NamedAttrs | ExternalDType
)
"""One element of a list attribute."""

OmAttr = (
    int
    | float
    | bool
    | str
    | bytes
    | RawText
    | Expression
    | ExternalDType
    | OmTensor
    | TensorValue
    | OmGraph
    | NamedAttrs
    | IntLists
    | FloatLists
    | OmList
    | None
)
"""An attribute's value: plain Python where one type says it all. None: the file names it without a value."""


@dataclass(frozen=True, slots=True)
class OmPort:
    """An input or output of the whole model, as `MODEL_INOUT_INFO` describes it.

    `dtype` is a descriptor number; `ranges` give the least and the largest size of each dimension
    that is not fixed; `origin_shape` is the shape before gears were chosen.
    """

    name: str
    size_bytes: int
    dtype: int
    layout: str = "ND"
    shape: tuple[int, ...] = ()
    origin_shape: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class OmInterface:
    """What a caller sees of a model. Everything after `outputs` describes gears; empty when static."""

    inputs: tuple[OmPort, ...] = ()
    outputs: tuple[OmPort, ...] = ()
    dynamic_batch: tuple[int, ...] = ()
    dynamic_hw: tuple[tuple[int, ...], ...] = ()
    dynamic_dims: tuple[tuple[int, ...], ...] = ()
    dynamic_output_shapes: tuple[str, ...] = ()
    input_order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OmModel:
    """A whole model.

    `graphs[0]` is the root, the others are the bodies its operators name. `memory_size_bytes` is the
    arena, whose last `zero_copy_size_bytes` hold inputs and outputs. `submodels` are the
    known-shape parts of a dynamic model, each with weights and tasks of its own. `attrs` are the
    model attributes that no field repeats.
    """

    name: str
    graphs: tuple[OmGraph, ...]
    attrs: Mapping[str, OmAttr] = field(default_factory=lambda: NO_ATTRS)
    weights: Weights = NO_WEIGHTS
    interface: OmInterface = field(default_factory=OmInterface)
    tasks: OmTasks = NO_TASKS
    memory_size_bytes: int = 0
    zero_copy_size_bytes: int = 0
    n_streams: int = 1
    n_events: int = 0
    n_labels: int = 0
    platform_version: str = ""
    platform_type: int = 1
    is_dynamic: bool = False
    submodels: tuple[OmModel, ...] = ()

    @property
    def root(self) -> OmGraph:
        """The graph that is run."""
        return self.graphs[0]

    @property
    def inputs(self) -> tuple[OmPort, ...]:
        """What the caller gives."""
        return self.interface.inputs

    @property
    def outputs(self) -> tuple[OmPort, ...]:
        """What the caller gets."""
        return self.interface.outputs
