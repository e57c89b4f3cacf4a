"""Operators: schemas, and the types and shapes of what they produce."""

from gerules.ops.registry import Keyword, Schemas, split_op
from gerules.ops.schema import AttrSpec, OpSchema, Param, ParamKind

__all__ = ["AttrSpec", "Keyword", "OpSchema", "Param", "ParamKind", "Schemas", "split_op"]
