"""Operators: schemas, and the types and shapes of what they produce."""

from gerules.ops.call import Vector
from gerules.ops.graph_inference import Vectors, infer_graph, infer_nodes
from gerules.ops.inference import Extra, ShapeError, infer
from gerules.ops.registry import Keyword, Schemas, split_op
from gerules.ops.schema import AttrSpec, OpSchema, Param, ParamKind

__all__ = [
    "AttrSpec",
    "Extra",
    "Keyword",
    "OpSchema",
    "Param",
    "ParamKind",
    "Schemas",
    "ShapeError",
    "Vector",
    "Vectors",
    "infer",
    "infer_graph",
    "infer_nodes",
    "split_op",
]
