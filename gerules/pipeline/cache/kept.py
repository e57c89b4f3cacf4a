"""What an entry of the cache holds, and the compiled model that is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from gerules.backend.om import OmModel, read_om
from gerules.backend.om.error import OmError
from gerules.backend.om.write import om_chunks
from gerules.errors import Diagnostic, table
from gerules.errors.arguments import checked
from gerules.pipeline.cache.store import Chunk
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.model import CacheUse, CompiledModel
from gerules.pipeline.stages import StageCounts
from gerules.pipeline.summary import Summary, read_summary
from gerules.text.files import write_files

_OM: Final = "model.om"
_REPORT: Final = "report.json"


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A compile as an entry holds it. Times are those of the compile that was kept."""

    om: memoryview
    summary: Summary
    stages: tuple[StageCounts, ...]
    fusion_result: list[dict[str, object]]
    fusion_sites: list[dict[str, object]]


def parts_of(model: CompiledModel) -> list[tuple[str, int, Iterable[Chunk]]]:
    """Return what to keep of a compile, as `EntryStore.keep` takes it.

    Raises:
        TypeError, ValueError: when the report holds what JSON does not.
    """
    report: dict[str, object] = {
        "summary": model.summary().as_json(),
        "stages": [
            {
                "name": stage.name,
                "took_us": stage.took_us,
                "n_nodes_before": stage.n_nodes_before,
                "n_nodes_after": stage.n_nodes_after,
                "detail": dict(stage.detail),
            }
            for stage in model.stage_counts
        ],
        "fusion_result": model.fusion_result(),
        "fusion_sites": model.fusion_result(with_sites=True),
    }
    text = json.dumps(report).encode()
    chunks = list(om_chunks(model.om))
    # `len` of a view counts its elements.
    om_bytes = sum(memoryview(chunk).nbytes for chunk in chunks)
    return [(_REPORT, len(text), [text]), (_OM, om_bytes, chunks)]


def read_kept(parts: Mapping[str, memoryview]) -> Kept:
    """Return what an entry holds. Raises ValueError, with the reason, when `parts_of` did not make it."""
    try:
        report = json.loads(bytes(parts[_REPORT]))
        summary = read_summary(report["summary"])
        stages = tuple(StageCounts(**stage) for stage in report["stages"])
        kept = Kept(parts[_OM], summary, stages, report["fusion_result"], report["fusion_sites"])
    except (KeyError, TypeError, ValueError, RecursionError) as fault:
        raise ValueError(f"its report is not as it was written: {fault}") from None
    return kept


class KeptModel(CompiledModel):
    """A compiled model from the cache: the offline model and the reports are at hand.

    What the cache does not hold, such as the graph, the trace or the plans, is there too: the first who asks
    makes it be compiled again.
    """

    def __init__(
        self,
        kept: Kept,
        compile_again: Callable[[], Compilation],
        warnings: Sequence[Diagnostic],
        use: CacheUse,
    ) -> None:
        self._kept = kept
        self._compile_again = compile_again
        self._warnings = tuple(warnings)
        self.cache = use

    @cached_property
    def compilation(self) -> Compilation:  # pyright: ignore[reportIncompatibleVariableOverride] (made later)
        """Everything the compile knows; compiled again when first asked for."""
        return self._compile_again()

    @property
    def om(self) -> OmModel:
        """The offline model, as records."""
        return self._om

    @cached_property
    def _om(self) -> OmModel:
        return read_om(self._kept.om)

    @property
    def stage_counts(self) -> tuple[StageCounts, ...]:
        """What each stage counted, in order; times are those of the compile that was kept."""
        return self._kept.stages

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is no fault, but worth a look."""
        return self._warnings

    def summary(self) -> Summary:
        """Return the compile in numbers; as text, a few lines for people."""
        return self._kept.summary

    @checked()
    def fusion_result(self, *, with_sites: bool = False) -> list[dict[str, object]]:
        """Return what rules did, by pass; see `gerules.pipeline.fusion_result`."""
        return self._kept.fusion_sites if with_sites else self._kept.fusion_result

    @checked()
    def save(self, path: str | Path) -> int:
        """Write the `.om` file, whole or not at all, and return its size in bytes.

        Raises:
            OmError: E10004 when the disk refuses.
        """
        try:
            write_files([(Path(path), lambda file: file.write(self._kept.om))])
        except OSError as fault:
            raise OmError(table.CANNOT_WRITE, path=path, reason=fault.strerror or str(fault)) from None
        return len(self._kept.om)
