"""Where torch enters: the function behind the backend's name. It imports nothing of torch until called."""

from __future__ import annotations

from typing import Any

from gerules.dynamo.options import read_options
from gerules.frontends.torch.kinds import import_torch

NAME = "gerules"


def start(gm: Any, example_inputs: Any, *, options: object = None, mode: object = None) -> Any:
    """Compile a graph of torch: what `torch.compile(backend="gerules")` calls for each.

    Args:
        gm: A `torch.fx.GraphModule` as TorchDynamo captured it.
        example_inputs: Its inputs.
        options: A dictionary with names of `OPTION_NAMES`, `BackendOptions`, or the configuration of a face.
        mode: Nothing but `default`: presets are those of another backend.

    Raises:
        PipelineError: E10090 and E10003 for options.
        ModelError: E10009 when torch's ONNX exporter is not complete.
    """
    chosen = read_options(options, mode)
    import_torch("the backend of torch.compile")
    from gerules.dynamo.backend import compile_graph_module

    return compile_graph_module(gm, example_inputs, chosen)


def register() -> None:
    """Make the name `gerules` known to torch in a checkout that is not installed; otherwise it is already."""
    torch = import_torch("the backend of torch.compile")
    registry: Any = torch._dynamo.backends.registry
    if NAME not in registry._COMPILER_FNS:
        registry.register_backend(start, name=NAME)
