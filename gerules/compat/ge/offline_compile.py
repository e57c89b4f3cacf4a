"""Offline models from graphs: one, or several in a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from gerules.backend.om import OmModel, bundle_chunks, write_bundle, write_om
from gerules.backend.om.write import om_chunks
from gerules.compat.ge.compiling import TensorMemory, compile_graph, memory_of
from gerules.compat.ge.error import GeError, told
from gerules.compat.ge.ge_global import ge_finalize, ge_initialize
from gerules.compat.ge.graph.conversion import shown
from gerules.compat.ge.graph.graph import Graph
from gerules.compat.ge.options import InitializeOptions, Options
from gerules.errors import table
from gerules.pipeline import CompiledModel

SUFFIX = ".om"


@dataclass(frozen=True, slots=True)
class GraphWithOptions:
    """A graph of a bundle, and the options that it is compiled with."""

    graph: Graph
    build_options: Options | None = None


@dataclass(frozen=True)
class ModelBuffer:
    """Compiled models, not written yet; several are a bundle."""

    models: tuple[CompiledModel, ...]
    is_bundle: bool = False

    @property
    def oms(self) -> tuple[OmModel, ...]:
        """The offline models."""
        return tuple(model.om for model in self.models)

    @cached_property
    def data(self) -> bytes:
        """The bytes of the file. Raises GeError as `save_model`."""
        chunks = bundle_chunks(self.oms) if self.is_bundle else om_chunks(self.oms[0])
        return told(lambda: b"".join(bytes(chunk) for chunk in chunks))

    @property
    def length(self) -> int:
        """Their number."""
        return len(self.data)

    def get_memory_info(self) -> list[TensorMemory]:
        """Return where the tensors of the first model lie."""
        return memory_of(self.models[0])

    GetMemoryInfo = get_memory_info


def build_initialize(global_options: Options | InitializeOptions | None = None) -> None:
    """Set the options of all builds of this process. Raises GeError E10003."""
    ge_initialize(global_options)


def build_finalize() -> None:
    """Forget the options."""
    ge_finalize()


def build_model(graph: Graph, build_options: Options | None = None) -> ModelBuffer:
    """Compile a graph. Raises GeError: every fault of the graph, of the options, and of the compile."""
    return ModelBuffer((compile_graph(graph, build_options),))


def bundle_build_model(graphs: Sequence[GraphWithOptions]) -> ModelBuffer:
    """Compile several graphs into one bundle. Raises GeError as `build_model`, E41006 for none."""
    if not graphs:
        raise GeError(table.GE_SEQUENCE, reason="a bundle of no graphs", remedy="give at least one graph")
    for item in graphs:
        if not isinstance(cast(object, item), GraphWithOptions):
            raise GeError(
                table.GE_BAD_GRAPH, name=shown(item), reason=f"it is a {type(item).__name__}",
                remedy="wrap it: GraphWithOptions(graph, build_options)",
            )  # fmt: skip
    return ModelBuffer(
        tuple(compile_graph(item.graph, item.build_options) for item in graphs), is_bundle=True
    )


def save_model(output_file: str | Path, model: ModelBuffer) -> str:
    """Write a model, whole or not at all; `.om` is added to the name unless it is there. Returns the name.

    Raises:
        GeError: E10004 when the disk refuses, E80010 to E80022 for what the format cannot hold, E41006 for a
            bundle.
    """
    if _built(model).is_bundle:
        raise GeError(table.GE_SEQUENCE, reason="it is a bundle", remedy="call bundle_save_model")
    path = _named(output_file)
    told(lambda: write_om(model.oms[0], path))
    return str(path)


def bundle_save_model(output_file: str | Path, model: ModelBuffer) -> str:
    """Write a bundle. Raises GeError as `save_model`, E41006 for a single model."""
    if not _built(model).is_bundle:
        raise GeError(table.GE_SEQUENCE, reason="it is a single model", remedy="call save_model")
    path = _named(output_file)
    told(lambda: write_bundle(model.oms, path))
    return str(path)


def offline_compile(graph: Graph, output_file: str | Path, options: Options | None = None) -> ModelBuffer:
    """Compile a graph and write its `.om`. Raises GeError as `build_model` and `save_model`."""
    path = _named(output_file)
    model = build_model(graph, options)
    save_model(path, model)
    return model


def _built(model: object) -> ModelBuffer:
    if isinstance(model, ModelBuffer):
        return model
    raise GeError(
        table.GE_SEQUENCE, reason=f"{shown(model)} is no compiled model",
        remedy="pass what build_model or bundle_build_model returned",
    )  # fmt: skip


def _named(output_file: str | Path) -> Path:
    if not isinstance(cast(object, output_file), str | Path):
        raise GeError(
            table.CANNOT_WRITE, path=shown(output_file), reason="it is no path",
        )  # fmt: skip
    path = Path(output_file)
    return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)
