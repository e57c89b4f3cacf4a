"""get_npu_backend and get_compiler: the backend for torch.compile, from a CompilerConfig."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from gerules.compat.torchair.config import CompilerConfig
from gerules.compat.torchair.error import ConfigError
from gerules.dynamo import start
from gerules.errors import table

Compiler = Callable[..., Any]


def get_npu_backend(
    *, compiler_config: CompilerConfig | None = None, custom_decompositions: Mapping[Any, Any] | None = None
) -> Compiler:
    """Return what `torch.compile(backend=...)` takes. Fields that contradict each other are told at once.

    Raises:
        ConfigError: E10113 for fields that contradict each other, E10112 for `custom_decompositions`.
    """
    if custom_decompositions:
        raise ConfigError(
            table.CONFIG_NOT_OFFERED, path="custom_decompositions", value="...", default="None",
            reason="operators are taken apart by torch's ONNX exporter; register_replacement replaces them",
        )  # fmt: skip
    return get_compiler(compiler_config)


def get_compiler(compiler_config: CompilerConfig | None = None) -> Compiler:
    """Return a function that compiles a `torch.fx.GraphModule` for its example inputs."""
    given = cast(object, compiler_config)
    if not isinstance(given, CompilerConfig | None):
        raise ConfigError(
            table.BAD_CONFIG_VALUE, path="compiler_config", value=repr(given),
            allowed="a torchair.CompilerConfig",
        )  # fmt: skip
    options = (compiler_config or CompilerConfig()).as_backend_options()

    def compile_graph_module(gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        """What torch calls for each graph; `options` are those of another mode of TorchAir."""
        if kwargs.get("options"):
            known = ", ".join(kwargs["options"])
            raise ConfigError(
                table.CONFIG_NOT_OFFERED, path="options", value=known, default="None",
                reason="they belong to the mode npugraph_ex; set fields of CompilerConfig instead",
            )  # fmt: skip
        return start(gm, example_inputs, options=options)

    return compile_graph_module
