"""ONNX models: read and checked without copying weights, and written so that any runtime executes them."""

from gerules.frontends.onnx.reader import load_onnx

__all__ = ["load_onnx"]
