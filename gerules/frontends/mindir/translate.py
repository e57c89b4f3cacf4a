"""The shape of what brings one operator of MindSpore to ONNX."""

from __future__ import annotations

from collections.abc import Callable

from gerules.frontends.mindir.items import Item
from gerules.frontends.mindir.operands import Call

Translate = Callable[[Call], "int | Item"]
"""Writes the node as nodes of ONNX; returns the value of its one output, or what it gives otherwise.

Raises NodeFault for a node that has no such meaning.
"""
