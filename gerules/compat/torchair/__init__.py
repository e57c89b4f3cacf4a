"""TorchAir's face: scripts that compile with `torchair` run with this module in its place.

>>> import gerules.compat.torchair as torchair  # doctest: +SKIP
>>> npu_backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())  # doctest: +SKIP
>>> model = torch.compile(model, backend=npu_backend)  # doctest: +SKIP
"""

from gerules.compat.torchair import ge, inference
from gerules.compat.torchair.backend import get_compiler, get_npu_backend
from gerules.compat.torchair.config import CompilerConfig
from gerules.compat.torchair.converters import register_fx_node_ge_converter
from gerules.compat.torchair.error import ConfigError
from gerules.compat.torchair.export import dynamo_export, export
from gerules.compat.torchair.replacement import register_replacement

__all__ = [
    "CompilerConfig",
    "ConfigError",
    "dynamo_export",
    "export",
    "ge",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "register_fx_node_ge_converter",
    "register_replacement",
]
