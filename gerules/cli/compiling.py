"""Compiling for commands: with progress while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import gerules
from gerules.cli.errors import CliError
from gerules.cli.progress import Steps
from gerules.errors import table
from gerules.passes.gear_options import GearOptions
from gerules.pipeline import CompiledModel, StageReport, shipped_rules, stage_names
from gerules.pipeline.asking import Target
from gerules.report.compile_report import CompileReport


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compile and what it was made from."""

    model: CompiledModel

    def report(self, om_path: str = "", om_bytes: int | None = None) -> CompileReport:
        """Return what to tell of it."""
        model = self.model
        key = model.cache.key or "" if model.cache is not None and model.cache.is_hit else ""
        return CompileReport(model.summary(), model.stage_counts, om_path, om_bytes, key)


def compile_model(
    path: Path,
    *,
    gears: GearOptions | None = None,
    fusion_switch_file: Path | None = None,
    n_streams: int | None = None,
    memory_limit_bytes: int | None = None,
    stop_after: str | None = None,
    cache: bool = False,
    is_quiet: bool = False,
    **target: Unpack[Target],
) -> Compiled:
    """Compile a file, with progress on a terminal unless `is_quiet`. Raises what `gerules.compile` raises."""
    asked = gears or GearOptions()
    n_stages = None if asked.given() else len(stage_names(shipped_rules()))
    with Steps(f"compiling {path.name}", n_stages, is_quiet=is_quiet) as steps:

        def observe(stage: StageReport) -> None:
            gear = stage.detail.get("gear")
            steps.end(stage.name if gear is None else f"{stage.name} of gear {gear}")

        return Compiled(
            gerules.compile(
                path,
                dynamic_batch_size=asked.batch,
                dynamic_image_size=asked.image,
                dynamic_dims=asked.dims,
                compile_hybrid_mode=asked.is_hybrid,
                fusion_switch_file=fusion_switch_file,
                n_streams=n_streams,
                memory_limit_bytes=memory_limit_bytes,
                stop_after=stop_after,
                observe=observe,
                cache=cache,
                **target,
            )
        )


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there. Raises CliError E10004."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        reason = "it is a file, and a folder is wanted"
        raise CliError(table.CANNOT_WRITE, path=folder, reason=reason) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CliError(table.CANNOT_WRITE, path=folder, reason=reason) from None
