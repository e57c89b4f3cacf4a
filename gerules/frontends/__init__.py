"""Front ends: models of other systems read as graphs, and graphs written as their models."""

from gerules.frontends.fault import ModelError
from gerules.frontends.graph_text import load_graph_text, save_graph_text
from gerules.frontends.load import READERS, load
from gerules.frontends.onnx import FUSED_DOMAIN, load_onnx, recognize, save_onnx, to_onnx
from gerules.frontends.protocol import Frontend

__all__ = [
    "FUSED_DOMAIN",
    "READERS",
    "Frontend",
    "ModelError",
    "load",
    "load_graph_text",
    "load_onnx",
    "recognize",
    "save_graph_text",
    "save_onnx",
    "to_onnx",
]
