"""The compiled model: save it, run it, ask what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gerules.backend.memory import MemoryPlan
from gerules.backend.om import OmModel, write_om
from gerules.backend.schedule import Schedule
from gerules.engine.trace import Trace
from gerules.errors import Diagnostic, table
from gerules.errors.arguments import checked
from gerules.ir import Graph
from gerules.passes.partition import Partition
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.fusion_result import fusion_result
from gerules.pipeline.ledger import Ledger, make_ledger
from gerules.pipeline.stages import StageCounts, StageReport
from gerules.pipeline.summary import Summary
from gerules.runtime.executor import Executor
from gerules.runtime.kernels.contract import Array


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What the compile cache did.

    `key` is None where the compile has none. `notes` are warnings: entries found damaged, a folder that
    cannot be used, a result that cannot be kept.
    """

    is_hit: bool
    key: str | None = None
    notes: tuple[Diagnostic, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {"hit": self.is_hit, "key": self.key}


class CompiledModel:
    """What `gerules.compile` returns. `cache` says what the compile cache did, where one was used."""

    cache: CacheUse | None = None

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation

    def __repr__(self) -> str:
        return f"<CompiledModel {str(self.summary()).splitlines()[0]}>"

    @property
    def om(self) -> OmModel:
        """The offline model, as records. Raises PipelineError E40053 when the compile stopped before it."""
        if self.compilation.om is None:
            raise PipelineError(table.COMPILE_STOPPED, stage=self.stages[-1].name)
        return self.compilation.om

    @property
    def graph(self) -> Graph:
        """The graph as the last stage left it."""
        return self.compilation.graph

    @property
    def source(self) -> Graph:
        """The graph as it was read."""
        return self.compilation.source

    @property
    def stages(self) -> tuple[StageReport, ...]:
        """What each stage did, in order."""
        return tuple(self.compilation.stages)

    @property
    def stage_counts(self) -> tuple[StageCounts, ...]:
        """What each stage counted, in order, without the graphs."""
        return self.stages

    @property
    def trace(self) -> Trace:
        """Every rewrite, and for each rule how often, how long and why not."""
        return self.compilation.trace

    @property
    def partition(self) -> Partition | None:
        """Engines and clusters."""
        return self.compilation.partition

    @property
    def schedule(self) -> Schedule | None:
        """Order, streams and events."""
        return None if self.compilation.plans is None else self.compilation.plans.schedule

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """Offsets in the arena."""
        return None if self.compilation.plans is None else self.compilation.plans.memory

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is no fault, but worth a look."""
        return (*self.compilation.tools.book.warnings, *self.compilation.trace.warnings)

    def summary(self) -> Summary:
        """Return the compile in numbers; as text, a few lines for people."""
        return self.compilation.summary()

    @checked()
    def fusion_result(self, *, with_sites: bool = False) -> list[dict[str, object]]:
        """Return what rules did, by pass; see `gerules.pipeline.fusion_result`."""
        return fusion_result(self.trace, self.compilation.tools.book, with_sites=with_sites)

    @checked()
    def save(self, path: str | Path) -> int:
        """Write the `.om` file, whole or not at all, and return its size in bytes.

        Raises:
            OmError: E80010 to E80022 for what the format cannot hold, E10004 when the disk refuses.
        """
        return write_om(self.om, path)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Execute the offline model by its own plan.

        Args:
            feeds: Arrays by input name, of the model's shapes and element types.

        Raises:
            RunError: E20001 and following for inputs that do not fit.
        """
        return self._executor.run(feeds)

    def ledger(self, feeds: Mapping[str, object]) -> Ledger:
        """Say where the errors of the outputs come from: what each node, rule and Cast adds on these inputs.

        Raises:
            RunError: E20001 and following for inputs that do not fit.

        Cost: two runs that keep every value, one of them in float64.
        """
        return make_ledger(self.compilation, feeds)

    @cached_property
    def _executor(self) -> Executor:
        return Executor(self.om)
