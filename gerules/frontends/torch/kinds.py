"""Which kinds of torch models there are, told apart without importing torch."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Literal, Protocol

from gerules.errors import table
from gerules.frontends.fault import ModelError

Kind = Literal["module", "script", "program"]


class TorchModel(Protocol):
    """A `torch.nn.Module`, a TorchScript module or a `torch.export.ExportedProgram`."""

    @property
    def state_dict(self) -> Any:
        """Parameters and buffers; a method of modules, an attribute of programs."""
        ...


def kind_of(model: object) -> Kind | None:
    """Return what kind of torch model an object is; None for anything else.

    An object of torch exists only once somebody has imported it, so torch is never imported here.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "jit"):
        return None
    if isinstance(model, torch.jit.ScriptModule):
        return "script"
    if isinstance(model, torch.nn.Module):
        return "module"
    export: Any = sys.modules.get("torch.export")
    return "program" if export is not None and isinstance(model, export.ExportedProgram) else None


def import_torch(what: str) -> Any:
    """Return the module `torch`.

    Raises:
        ModelError: E10009 when torch, or what its ONNX exporter needs, is not installed.
    """
    for package in ("torch", "onnxscript"):
        try:
            import_module(package)
        except ImportError:
            raise ModelError(table.PACKAGE_MISSING, what=what, package=package, extra="torch") from None
    return import_module("torch")
