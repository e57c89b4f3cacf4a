"""Building graphs by calling operators."""

from gerules.compat.ge.es import all
from gerules.compat.ge.es.graph_builder import (
    GraphBuilder,
    TensorHolder,
    attr_scope,
    control_dependency_scope,
)

__all__ = ["GraphBuilder", "TensorHolder", "all", "attr_scope", "control_dependency_scope"]
