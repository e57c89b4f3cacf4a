"""Summary: what a compile did, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class GearSummary:
    """One gear in numbers: shapes of its inputs, operators, arena. `any` is the plan that runs any shape."""

    gear: str
    shapes: Mapping[str, list[int]]
    n_nodes: int
    peak_bytes: int
    took_us: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A compile in numbers. Sizes are bytes, times microseconds; `fusions` counts applications by rule.

    `lower_bound_bytes` is the most that is alive at one step of the schedule: no plan for that order can
    be smaller than it. Of a model with gears the numbers are those of the largest one, but for the arena,
    the weights and the time, which are those of all.
    """

    model: str
    device: str
    precision: str
    n_nodes_read: int
    n_nodes: int
    fusions: Mapping[str, int]
    n_casts: int
    n_transdata: int
    n_clusters: int
    n_streams: int
    n_events: int
    peak_bytes: int
    lower_bound_bytes: int
    weight_bytes: int
    took_us: float
    gears: tuple[GearSummary, ...] = ()

    @property
    def n_fusions(self) -> int:
        """Rewrites in all."""
        return sum(self.fusions.values())

    def as_json(self) -> dict[str, object]:
        """Return the summary as plain values."""
        return {**asdict(self), "gears": [asdict(gear) for gear in self.gears]}

    def __str__(self) -> str:
        ratio = self.peak_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0
        return "\n".join([
            f"{self.model} for {self.device}, {self.precision}: "
            f"{self.n_nodes_read} operators -> {self.n_nodes}",
            f"  {self.n_fusions} rewrites by {len(self.fusions)} rules, {self.n_casts} Casts, "
            f"{self.n_transdata} TransData",
            f"  {self.n_clusters} clusters, {self.n_streams} streams, {self.n_events} events",
            f"  arena {self.peak_bytes} bytes ({ratio:.3f} of the lower bound), "
            f"weights {self.weight_bytes} bytes",
            *(
                f"  gear {one.gear}: {one.n_nodes} operators, arena {one.peak_bytes} bytes, "
                f"{one.took_us / 1e6:.2f} s"
                for one in self.gears
            ),
            f"  {self.took_us / 1e6:.2f} s",
        ])  # fmt: skip


def read_summary(values: Mapping[str, Any]) -> Summary:
    """Turn `Summary.as_json` back. Raises KeyError or TypeError for values that it did not give."""
    found = Summary(**{item.name: values[item.name] for item in fields(Summary)})
    return replace(found, gears=tuple(GearSummary(**gear) for gear in values["gears"]))
