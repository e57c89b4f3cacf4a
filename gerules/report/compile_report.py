"""What a compile did, stage by stage and in sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, cast

from gerules.errors.counts import count_text
from gerules.pipeline.stages import StageCounts
from gerules.pipeline.summary import Summary
from gerules.report.quantities import bytes_text, time_text
from gerules.report.tables import Column, Grid

_RULES_SHOWN: Final = 4
"""Rules named in the line of one stage; the table of rules has them all."""

_CAUSES_SHOWN: Final = 5
"""Causes of dynamic parts in the report of a compile; JSON has them all."""


@dataclass(frozen=True, slots=True)
class CompileReport:
    """A finished compile: its stages, its sum, and the file written (`om_bytes` None: none was).

    `cached` is the key under which the cache had it; empty for a compile that ran.
    """

    summary: Summary
    stages: Sequence[StageCounts]
    om_path: str = ""
    om_bytes: int | None = None
    cached: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the report as plain values: `summary`, `stages` in order, `output`."""
        output = {"path": self.om_path, "size_bytes": self.om_bytes} if self.om_bytes is not None else None
        return {
            "summary": self.summary.as_json(),
            "stages": [stage.as_json() for stage in self.stages],
            "output": output,
        }

    def stage_grid(self) -> Grid:
        """Return the stages as a table."""
        columns = (
            Column("stage", style="bold"),
            Column("operators", "right"),
            Column("what happened"),
            Column("took", "right"),
        )
        shown = self._gear_shown()
        rows = [
            (stage.name, _counts(stage), self._what(stage), time_text(stage.took_us))
            for stage in self.stages
            if stage.detail.get("gear", shown) == shown
        ]
        summary = self.summary
        title = f"{summary.model} for {summary.device}, {summary.precision}"
        return Grid(columns, rows, title + (f", gear {shown}" if shown else ""))

    def _gear_shown(self) -> str:
        """The gear whose stages stand for those of all: the largest; empty without gears."""
        gears = self.summary.gears
        sizes = {one.gear: sum(map(prod, one.shapes.values())) for one in gears}
        return max(sizes, key=lambda gear: sizes[gear]) if sizes else ""

    def gear_parts(self) -> list[Grid | str]:
        """Return the gears as a table, with an empty line behind; nothing without gears."""
        gears = self.summary.gears
        if not gears:
            return []
        columns = (
            Column("gear", style="bold"),
            Column("inputs"),
            Column("operators", "right"),
            Column("arena", "right"),
            Column("took", "right"),
        )
        rows = [
            (
                one.gear,
                ", ".join(f"{name}{shape}" for name, shape in one.shapes.items()) or "any shape",
                str(one.n_nodes),
                bytes_text(one.peak_bytes),
                time_text(one.took_us),
            )
            for one in gears
        ]
        return [Grid(columns, rows, "Gears"), ""]

    def facts(self) -> list[tuple[str, str]]:
        """Return the sum as names and values."""
        one = self.summary
        found = [
            ("operators", f"{one.n_nodes_read} read, {one.n_nodes} left"),
            ("rewrites", f"{one.n_fusions} by {count_text(len(one.fusions), 'rule')}"),
            ("conversions", f"{count_text(one.n_casts, 'Cast')}, {one.n_transdata} TransData"),
        ]
        if note := self._casts_since():
            found.append(("", note))
        if one.n_clusters:
            found.append(("clusters", str(one.n_clusters)))
            found += self._dynamic_facts()
        if one.n_streams:
            found.append(
                ("schedule", f"{count_text(one.n_streams, 'stream')}, {count_text(one.n_events, 'event')}")
            )
            text = arena_text(one.peak_bytes, one.lower_bound_bytes)
            found.append(("arena", f"{bytes_text(one.peak_bytes)}, the largest gear" if one.gears else text))
        if self.om_bytes is not None:
            found.append(("weights", bytes_text(one.weight_bytes)))
            found.append(("written", f"{self.om_path}, {bytes_text(self.om_bytes)}"))
        if self.cached:
            found.append(("cache", f"hit {self.cached[:12]}; the times are those of the compile it kept"))
        found.append(("took", time_text(one.took_us)))
        return found

    def _casts_since(self) -> str:
        """What became of the Casts that precision left; empty where they are those of the end."""
        gear = self._gear_shown()
        for stage in self.stages:
            if stage.name == "precision" and stage.detail.get("gear", "") in ("", gear):
                n_then, n_now = _number(stage.detail, "n_casts_after"), self.summary.n_casts
                if "n_casts_after" not in stage.detail or n_then == n_now:
                    return ""
                fewer, more = f"{n_then - n_now} merged or fused", f"{n_now - n_then} added"
                since = fewer if n_now < n_then else more
                return f"{count_text(n_then, 'Cast')} after precision; since then {since}"
        return ""

    def _dynamic_facts(self) -> Iterator[tuple[str, str]]:
        """What runs with sizes that are known only then, and why; nothing when all shapes are fixed."""
        found = [stage.detail for stage in self.stages if stage.name == "partition"]
        detail: Mapping[str, object] = found[-1] if found else {}
        n_dynamic = _number(detail, "n_dynamic_nodes")
        if not n_dynamic:
            return
        yield "dynamic", f"{count_text(n_dynamic, 'operator')}, run by the host with memory of their own"
        because = detail.get("dynamic_because")
        causes = cast("Sequence[object]", because) if isinstance(because, list | tuple) else ()
        for cause in causes[:_CAUSES_SHOWN]:
            yield "", str(cause)
        if len(causes) > _CAUSES_SHOWN:
            yield "", f"and {len(causes) - _CAUSES_SHOWN} more"

    def rule_grid(self) -> Grid:
        """Return how often each rule was applied."""
        columns = (Column("rule", style="bold"), Column("applied", "right"), Column("phases"))
        phases: dict[str, list[str]] = {}
        for stage in self.stages:
            for name in _fusions(stage):
                phases.setdefault(name, []).append(stage.name)
        rows = [
            (name, str(count), ", ".join(phases.get(name, ())))
            for name, count in self.summary.fusions.items()
        ]
        return Grid(columns, rows, "Rules that were applied")

    def _what(self, stage: StageCounts) -> str:
        tell = _TELL.get(stage.name)
        if tell is not None:
            text = tell(stage.detail)
            if stage.name == "emit" and self.om_bytes is not None:
                text += f", .om {bytes_text(self.om_bytes)}"
            return text
        if fusions := _fusions(stage):
            named = [f"{name} x{count}" for name, count in list(fusions.items())[:_RULES_SHOWN]]
            rest = len(fusions) - len(named)
            return ", ".join(named) + (f", {rest} more" if rest else "")
        plain = [
            f"{name} {value}"
            for name, value in stage.detail.items()
            if isinstance(value, int | str) and name != "gear"
        ]
        return ", ".join(plain) or "-"


def arena_text(peak_bytes: int, lower_bound_bytes: int) -> str:
    """Return a peak beside its bound: `9.2 MiB, on the lower bound`, or how far above it.

    >>> arena_text(1024, 1024), arena_text(1100, 1000)
    ('1 KiB, on the lower bound', '1.1 KiB, 1.100 x the lower bound')
    """
    if peak_bytes <= lower_bound_bytes or not lower_bound_bytes:
        return f"{bytes_text(peak_bytes)}, on the lower bound"
    return f"{bytes_text(peak_bytes)}, {peak_bytes / lower_bound_bytes:.3f} x the lower bound"


def _counts(stage: StageCounts) -> str:
    before, after = stage.n_nodes_before, stage.n_nodes_after
    return str(after) if before == after else f"{before} -> {after}"


def _fusions(stage: StageCounts) -> Mapping[str, int]:
    found = stage.detail.get("fusions")
    return cast("Mapping[str, int]", found) if isinstance(found, Mapping) else {}


def _number(detail: Mapping[str, object], name: str) -> int:
    value = detail.get(name)
    return value if isinstance(value, int) else 0


def _tell_prepare(detail: Mapping[str, object]) -> str:
    parts = [f"{_number(detail, 'n_folded')} folded", f"{_number(detail, 'n_merged')} merged"]
    if n_dynamic := _number(detail, "n_dynamic"):
        parts.append(f"{count_text(n_dynamic, 'value')} of dynamic shape")
    return ", ".join(parts)


def _casts_text(detail: Mapping[str, object]) -> str:
    text = count_text(_number(detail, "n_casts"), "Cast")
    n_own = _number(detail, "n_casts_before")
    return f"{text} beside {n_own} of the model" if n_own else text


def _tell_precision(detail: Mapping[str, object]) -> str:
    parts = [
        str(detail.get("mode", "")),
        f"{_number(detail, 'n_low')} lowered, {_number(detail, 'n_kept')} kept",
        _casts_text(detail),
    ]
    saturated = detail.get("saturated")
    if isinstance(saturated, list | tuple) and saturated:
        n_saturated = len(cast("Sequence[object]", saturated))
        parts.append(f"{count_text(n_saturated, 'constant')} beyond the range")
    return ", ".join(part for part in parts if part)


def _tell_formats(detail: Mapping[str, object]) -> str:
    return f"{_number(detail, 'n_transdata')} TransData"


def _tell_partition(detail: Mapping[str, object]) -> str:
    n_clusters = _number(detail, "n_clusters")
    n_static = _number(detail, "n_static") if "n_static" in detail else n_clusters
    parts = [count_text(n_clusters, "cluster")]
    if n_static < n_clusters:
        parts.append(f"{n_static} static, {n_clusters - n_static} dynamic")
    engines = detail.get("engines")
    if isinstance(engines, Mapping):
        named = cast("Mapping[str, int]", engines)
        parts += [f"{name} {count}" for name, count in sorted(named.items(), key=lambda item: -item[1])]
    return ", ".join(parts)


def _tell_plan(detail: Mapping[str, object]) -> str:
    parts = [
        count_text(_number(detail, "n_streams"), "stream"),
        count_text(_number(detail, "n_events"), "event"),
        "arena " + arena_text(_number(detail, "peak_bytes"), _number(detail, "lower_bound_bytes")),
    ]
    if n_in_place := _number(detail, "n_in_place"):
        parts.append(f"{n_in_place} in place")
    return ", ".join(parts)


def _tell_emit(detail: Mapping[str, object]) -> str:
    return f"weights {bytes_text(_number(detail, 'weight_bytes'))}"


_TELL: Final[Mapping[str, Callable[[Mapping[str, object]], str]]] = {
    "prepare": _tell_prepare,
    "precision": _tell_precision,
    "formats": _tell_formats,
    "partition": _tell_partition,
    "plan": _tell_plan,
    "emit": _tell_emit,
}
"""How the detail of the compiler's own steps reads; phases of rules tell what was applied."""
