"""The Graph Engine's Python interface on gerules: build graphs, compile them, write passes.

>>> from gerules.compat import ge
>>> builder = ge.GraphBuilder("net")
>>> x = builder.create_input(0, name="x", shape=[2, 3])
>>> builder.set_graph_output(ge.es.all.Relu(x) * 2.0, 0)
>>> session = ge.Session()
>>> session.add_graph(1, builder.build_and_reset())
>>> session.run_graph(1, [ge.Tensor([[-1, 0, 1], [2, -3, 4]])])[0].data
[[0.0, 0.0, 2.0], [4.0, 0.0, 8.0]]
"""

from gerules.compat.ge import es, passes
from gerules.compat.ge.compiling import GetMemoryInfo, TensorMemory, get_memory_info
from gerules.compat.ge.error import GeError
from gerules.compat.ge.es import GraphBuilder, TensorHolder, attr_scope, control_dependency_scope
from gerules.compat.ge.ge_global import Finalize, GeApi, Initialize, ge_finalize, ge_initialize
from gerules.compat.ge.graph.graph import Graph, InDataAnchor, Node, OutDataAnchor
from gerules.compat.ge.graph.tensor import Shape, Tensor, TensorDesc
from gerules.compat.ge.graph.types import DataType, DumpFormat, Format, Placement
from gerules.compat.ge.offline_compile import (
    GraphWithOptions,
    ModelBuffer,
    build_finalize,
    build_initialize,
    build_model,
    bundle_build_model,
    bundle_save_model,
    offline_compile,
    save_model,
)
from gerules.compat.ge.options import InitializeOptions
from gerules.compat.ge.passes import (
    MatchResult,
    PassStage,
    PatternFusionPass,
    PatternMatcherConfigBuilder,
    pattern,
    register_fusion_pass,
)
from gerules.compat.ge.session import Session

__all__ = [
    "DataType",
    "DumpFormat",
    "Finalize",
    "Format",
    "GeApi",
    "GeError",
    "GetMemoryInfo",
    "Graph",
    "GraphBuilder",
    "GraphWithOptions",
    "InDataAnchor",
    "Initialize",
    "InitializeOptions",
    "MatchResult",
    "ModelBuffer",
    "Node",
    "OutDataAnchor",
    "PassStage",
    "PatternFusionPass",
    "PatternMatcherConfigBuilder",
    "Placement",
    "Session",
    "Shape",
    "Tensor",
    "TensorDesc",
    "TensorHolder",
    "TensorMemory",
    "attr_scope",
    "build_finalize",
    "build_initialize",
    "build_model",
    "bundle_build_model",
    "bundle_save_model",
    "control_dependency_scope",
    "es",
    "ge_finalize",
    "ge_initialize",
    "get_memory_info",
    "offline_compile",
    "passes",
    "pattern",
    "register_fusion_pass",
    "save_model",
]
