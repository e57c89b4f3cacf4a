"""Front ends: models of other systems read as graphs, and graphs written as their models."""

from gerules.frontends.examples import NO_EXAMPLES, Examples
from gerules.frontends.fault import ModelError
from gerules.frontends.graph_text import load_graph_text, save_graph_text
from gerules.frontends.load import READERS, load, refuse_examples
from gerules.frontends.mindir import load_mindir
from gerules.frontends.onnx import FUSED_DOMAIN, load_onnx, recognize, save_onnx, to_onnx
from gerules.frontends.protocol import Frontend
from gerules.frontends.torch import TorchModel, kind_of, read_torch

__all__ = [
    "FUSED_DOMAIN",
    "NO_EXAMPLES",
    "READERS",
    "Examples",
    "Frontend",
    "ModelError",
    "TorchModel",
    "kind_of",
    "load",
    "load_graph_text",
    "load_mindir",
    "load_onnx",
    "read_torch",
    "recognize",
    "refuse_examples",
    "save_graph_text",
    "save_onnx",
    "to_onnx",
]
