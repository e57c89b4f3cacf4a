"""dynamo_export: a module written as an offline model, and as text."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from gerules.compat.torchair.config import CompilerConfig
from gerules.compat.torchair.dumps import as_pbtxt
from gerules.compat.torchair.error import ConfigError
from gerules.errors import table
from gerules.frontends import ModelError
from gerules.ir import Graph
from gerules.pipeline import CompiledModel, compile_graph, load, save
from gerules.pipeline.api import book_of
from gerules.text.files import write_files


def dynamo_export(
    *args: Any,
    model: Any,
    export_path: str = "export_file",
    export_name: str = "export",
    dynamic: bool = False,
    config: CompilerConfig | None = None,
    **kwargs: Any,
) -> None:
    """Write a module for inputs like these: `<export_name>.om`, `<export_name>.onnx` and `dynamo.pbtxt`.

    TorchAir writes an `.air` file, which ATC reads with `--framework=1`. It is not written here: ATC reads
    the `.onnx` file with `--framework=5`, and gerules compiles it too.

    Args:
        args: Inputs by position, `kwargs` by name.
        model: A `torch.nn.Module`.
        dynamic: Whether all sizes of the inputs stay open.

    Raises:
        ConfigError: E10112 for a path with a symbolic link in it.
        GerulesError: what reading or compiling the module raises.
    """
    given = _by_name(model, args, kwargs) if kwargs else {}
    torch_auto = _auto_dims(() if given else args, given) if dynamic else None
    graph = load(model, example_inputs=given or args, dynamic_shapes=torch_auto)
    _write(graph, Path(export_path), export_name, config)


def export(
    model: Any,
    inputs: Any,
    *,
    output_path: str = "export_file/export.om",
    dynamic_batch: bool = False,
    config: CompilerConfig | None = None,
) -> None:
    """Write a module as `dynamo_export` does, under the name of an offline model.

    Args:
        inputs: A tensor, or several by position.
        output_path: The offline model; the other files lie beside it.
        dynamic_batch: Whether the first size of all inputs stays open.
    """
    given = cast("Sequence[Any]", inputs) if isinstance(inputs, tuple | list) else (inputs,)
    dims = tuple({0: "batch"} for _ in given) if dynamic_batch else None
    graph = load(model, example_inputs=tuple(given), dynamic_shapes=dims)
    path = Path(output_path)
    _write(graph, path.parent, path.stem, config)


def _by_name(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Inputs of both kinds by the names that `forward` has for them."""
    try:
        bound = inspect.signature(model.forward).bind(*args, **kwargs)
    except (TypeError, AttributeError) as fault:
        raise ModelError(
            table.BAD_EXAMPLE, model=type(model).__name__, reason=fault, remedy="give what its forward takes"
        ) from None
    return dict(bound.arguments)


def _auto_dims(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    export_module: Any = import_module("torch.export")

    def open_all(item: Any) -> dict[int, Any]:
        return dict.fromkeys(range(item.dim()), export_module.Dim.AUTO)

    return {name: open_all(item) for name, item in kwargs.items()} or tuple(open_all(item) for item in args)


def _write(graph: Graph, folder: Path, name: str, config: CompilerConfig | None) -> None:
    for part in (folder, *folder.parents):
        if part.is_symlink():
            raise ConfigError(
                table.CONFIG_NOT_OFFERED, path="export_path", value=repr(str(folder)), default="a plain path",
                reason=f"{part} is a symbolic link",
            )  # fmt: skip
    options = (config or CompilerConfig()).as_backend_options()
    compiled = CompiledModel(compile_graph(graph, book_of(options.rules), options.compile))
    folder.mkdir(parents=True, exist_ok=True)
    compiled.save(folder / f"{name}.om")
    save(graph, folder / f"{name}.onnx")
    text = as_pbtxt(graph).encode("utf-8", "backslashreplace")
    write_files([(folder / "dynamo.pbtxt", lambda file: file.write(text))])
