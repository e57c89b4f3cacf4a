"""gerules: compile neural networks as Ascend's Graph Engine does, with every decision written as text.

>>> import gerules
>>> model = gerules.compile("resnet50.onnx", device="ascend910b", precision="fp16")  # doctest: +SKIP
>>> model.save("resnet50.om")  # doctest: +SKIP
>>> outputs = model.run({"data": x})  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gerules.dsl import FunctionTable, function, predicate
    from gerules.dsl.fusion_patterns import register_fusion_pattern, unregister_fusion_pattern
    from gerules.errors import GerulesError
    from gerules.ir import Graph, parse_graph, print_graph
    from gerules.pipeline import CompiledModel, compile, load, load_rules, rewrite, save
    from gerules.pipeline.bisect import bisect
    from gerules.pipeline.finding import find
    from gerules.report.draft import draft

__all__ = [
    "CompiledModel",
    "FunctionTable",
    "GerulesError",
    "Graph",
    "bisect",
    "compile",
    "draft",
    "find",
    "function",
    "load",
    "load_rules",
    "parse_graph",
    "predicate",
    "print_graph",
    "register_fusion_pattern",
    "rewrite",
    "save",
    "unregister_fusion_pattern",
]

_HOMES = {
    "draft": "gerules.report.draft",
    "find": "gerules.pipeline.finding",
    "FunctionTable": "gerules.dsl",
    "function": "gerules.dsl",
    "predicate": "gerules.dsl",
    "register_fusion_pattern": "gerules.dsl.fusion_patterns",
    "unregister_fusion_pattern": "gerules.dsl.fusion_patterns",
    "GerulesError": "gerules.errors",
    "Graph": "gerules.ir",
    "bisect": "gerules.pipeline.bisect",
    "parse_graph": "gerules.ir",
    "print_graph": "gerules.ir",
}


def __getattr__(name: str) -> object:
    # Loaded at first use: `gerules --help` and tools that read one module should not pay for the compiler.
    if name in __all__:
        # Files of rules may import names of a floor above the one that reads them.
        import_module("gerules.compat.aliases").lend_names()
        return getattr(import_module(_HOMES.get(name, "gerules.pipeline")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
