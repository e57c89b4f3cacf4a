"""What a compile knows, filled stage by stage, and its sum in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from gerules.backend.om import OmModel
from gerules.backend.plans import Plans
from gerules.engine.trace import Trace
from gerules.ir import Graph
from gerules.passes.gears import Gears
from gerules.passes.partition import Partition
from gerules.pipeline.stages import StageReport, count_casts, fusions_of
from gerules.pipeline.summary import GearSummary, Summary
from gerules.pipeline.toolchain import Toolchain
from gerules.runtime.kernels.contract import Array


@dataclass(slots=True, eq=False)
class Compilation:
    """Everything a compile knows so far. A stage reads what the ones before it left, and adds its own.

    Of a model with gears this is what is known of the largest one, with the stages of all; `branches` has the
    compile of each gear, and behind them for a hybrid model that of any shape. `branch` names the gear in
    the compile of one.
    """

    tools: Toolchain
    source: Graph
    graph: Graph
    stages: list[StageReport] = field(default_factory=list[StageReport])
    trace: Trace = field(default_factory=Trace)
    partition: Partition | None = None
    plans: Plans | None = None
    om: OmModel | None = None
    branch: str = ""
    gears: Gears | None = None
    branches: list[Compilation] = field(default_factory=list["Compilation"])

    def summary(self) -> Summary:
        """Return the compile in numbers."""
        ops = [node.op.removeprefix("ge::") for node in self.graph.nodes.values()]
        memory = self.plans.memory if self.plans is not None else None
        schedule = self.plans.schedule if self.plans is not None else None
        return Summary(
            model=self.graph.name,
            device=self.tools.device.name,
            precision=self.tools.precision,
            n_nodes_read=len(self.source.nodes),
            n_nodes=len(ops),
            fusions=fusions_of(self.trace),
            n_casts=count_casts(self.graph),
            n_transdata=ops.count("TransData"),
            n_clusters=len(self.partition.clusters) if self.partition is not None else 0,
            n_streams=schedule.n_streams if schedule is not None else 0,
            n_events=len(schedule.events) if schedule is not None else 0,
            peak_bytes=max((branch.peak_bytes for branch in self.branches), default=self.peak_bytes),
            lower_bound_bytes=memory.lower_bound_bytes if memory is not None else 0,
            weight_bytes=self.om.weights.size_bytes if self.om is not None else 0,
            took_us=sum(stage.took_us for stage in self.stages),
            gears=tuple(self._gear_summaries()),
        )

    def branch_for(self, feeds: Mapping[str, object]) -> Compilation:
        """Return the compile that these inputs run by: with gears that of theirs, else this one."""
        gears = self.gears
        if gears is None:
            return self
        given = [feeds.get(name) for name in gears.names]
        found = gears.find(
            [cast(Array, item).shape if isinstance(item, np.ndarray) else None for item in given]
        )
        if found is None:
            return self.branches[-1] if gears.is_hybrid else self
        return self.branches[found]

    @property
    def peak_bytes(self) -> int:
        """The arena of this plan; 0 when there is none."""
        return 0 if self.plans is None else self.plans.memory.peak_bytes

    def _gear_summaries(self) -> Iterator[GearSummary]:
        gears = self.gears
        for at, branch in enumerate(self.branches):
            shapes: dict[str, list[int]] = {}
            if gears is not None and at < len(gears.gears):
                shapes = dict(zip(gears.names, map(list, gears.gears[at].shapes), strict=True))
            took_us = sum(stage.took_us for stage in branch.stages)
            yield GearSummary(branch.branch, shapes, len(branch.graph.nodes), branch.peak_bytes, took_us)
