"""Graphs, nodes, tensors and the enumerations that describe them."""

from gerules.compat.ge.graph.graph import Graph, InDataAnchor, Node, OutDataAnchor
from gerules.compat.ge.graph.tensor import Shape, Tensor, TensorDesc
from gerules.compat.ge.graph.types import DataType, DumpFormat, Format, Placement

__all__ = [
    "DataType",
    "DumpFormat",
    "Format",
    "Graph",
    "InDataAnchor",
    "Node",
    "OutDataAnchor",
    "Placement",
    "Shape",
    "Tensor",
    "TensorDesc",
]
