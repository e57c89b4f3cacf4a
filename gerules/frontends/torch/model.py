"""A torch model read as a graph: its inputs chosen, exported as ONNX, and read as any ONNX model."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from gerules.frontends.examples import Examples
from gerules.frontends.onnx import load_onnx
from gerules.frontends.torch.exporting import export_program, export_script
from gerules.frontends.torch.inputs import choose_arguments
from gerules.frontends.torch.kinds import import_torch, kind_of
from gerules.ir import Graph

_LARGE_BYTES: Final = 1 << 30
"""Weights from which a model goes through a file: one protobuf message holds less than 2 GiB."""


def read_torch(model: object, examples: Examples, *, name: str = "") -> Graph:
    """Return the graph of a torch model. Modules are traced as for inference, and left as they were.

    Args:
        model: A `torch.nn.Module`, a TorchScript module, or a `torch.export.ExportedProgram`.
        examples: Inputs to trace with; an exported program needs none.
        name: What to call the model in faults; without it its class.

    Raises:
        ModelError: E10009 without torch, E10080 when torch cannot export it, E10081 when inputs are missing,
            E10082 for inputs that do not fit, and what `load_onnx` raises.
    """
    torch = import_torch("reading a torch model")
    kind = kind_of(model)
    called = name or _class_name(model, kind)
    arguments = choose_arguments(torch, model, kind, examples, called)
    with tempfile.TemporaryDirectory(prefix="gerules-") as folder:
        # Weights of a file are views into it, which live on when its name is gone.
        path = Path(folder) / "model.onnx" if _size_bytes(model) > _LARGE_BYTES else None
        if kind == "script":
            found = export_script(torch, model, arguments, called, path)
        else:
            found = export_program(torch, model, arguments, called, path)
        return replace(load_onnx(found), name=called)


def _class_name(model: Any, kind: str | None) -> str:
    if kind == "program":
        return "exported program"
    return str(getattr(model, "original_name", None) or type(model).__name__)


def _size_bytes(model: Any) -> int:
    state: Any = model.state_dict
    named = cast("dict[str, Any]", state if isinstance(state, dict) else state())
    tensors = list(named.values())
    return sum(int(item.numel()) * int(item.element_size()) for item in tensors if hasattr(item, "numel"))
