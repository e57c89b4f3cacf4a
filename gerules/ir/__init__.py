"""Graphs: types, frozen records, and the editor that is their only writer."""

from gerules.ir.dtype import DType, dtype_of
from gerules.ir.editor import CycleError, GraphEditor
from gerules.ir.graph import (
    NO_ATTRS,
    NO_BODIES,
    NO_ORIGIN,
    Attr,
    Body,
    Const,
    Graph,
    Node,
    Origin,
    Value,
    empty_graph,
)
from gerules.ir.layout import Format, c0_of, from_storage, storage_shape, to_storage
from gerules.ir.printing import Marks, print_attr, print_graph, print_type, quote_name
from gerules.ir.reading import GraphError, GraphText, parse_graph, read_graph_text
from gerules.ir.types import (
    UNKNOWN,
    UNKNOWN_DIM,
    Dim,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    TensorType,
    ValueType,
    unify,
    unify_dim,
)
from gerules.ir.verify import broken_invariants

__all__ = [
    "NO_ATTRS",
    "NO_BODIES",
    "NO_ORIGIN",
    "UNKNOWN",
    "UNKNOWN_DIM",
    "Attr",
    "Body",
    "Const",
    "CycleError",
    "DType",
    "Dim",
    "Format",
    "Graph",
    "GraphEditor",
    "GraphError",
    "GraphText",
    "MapType",
    "Marks",
    "Node",
    "OptionalType",
    "Origin",
    "SequenceType",
    "Shape",
    "TensorType",
    "Value",
    "ValueType",
    "broken_invariants",
    "c0_of",
    "dtype_of",
    "empty_graph",
    "from_storage",
    "parse_graph",
    "print_attr",
    "print_graph",
    "print_type",
    "quote_name",
    "read_graph_text",
    "storage_shape",
    "to_storage",
    "unify",
    "unify_dim",
]
