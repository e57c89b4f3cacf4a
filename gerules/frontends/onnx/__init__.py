"""ONNX models: read and checked without copying weights, and written so that any runtime executes them."""

from gerules.frontends.onnx.function_writer import DefineBody
from gerules.frontends.onnx.reader import load_onnx
from gerules.frontends.onnx.recognize import FUSED_DOMAIN, recognize
from gerules.frontends.onnx.save import save_onnx, to_onnx

__all__ = ["FUSED_DOMAIN", "DefineBody", "load_onnx", "recognize", "save_onnx", "to_onnx"]
