"""Comparing two runs: how far outputs are apart, and the first node where the runs part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from gerules.ir import Graph, Node
from gerules.runtime.feeds import Item
from gerules.runtime.interpreter import place_of
from gerules.runtime.kernels import Array

TINY: Final = 1e-30
"""The least magnitude that errors are measured against."""

Difference = Literal["none", "values", "shape", "dtype", "kind", "not a number"]


@dataclass(frozen=True, slots=True)
class Gap:
    """How far one value is from another.

    `max_rel` is the largest difference as a share of the largest finite magnitude of the second; both
    are infinite where the two cannot be compared, or one has NaN or infinity where the other has not.
    """

    name: str
    kind: Difference
    max_abs: float
    max_rel: float
    n_elements: int = 0

    def exceeds(self, tolerance: float) -> bool:
        """Whether the gap is wider than a relative tolerance."""
        return not self.max_rel <= tolerance


@dataclass(frozen=True, slots=True)
class Parting:
    """The first node whose results differ while its inputs still agree."""

    origin: str
    op: str
    gap: Gap


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outputs of two runs, by name; `missing` are those that only one run has."""

    gaps: tuple[Gap, ...]
    missing: tuple[str, ...] = ()

    @property
    def max_abs(self) -> float:
        """The largest absolute difference of all outputs."""
        return max((gap.max_abs for gap in self.gaps), default=0.0)

    @property
    def max_rel(self) -> float:
        """The largest relative difference of all outputs; infinite when one is missing."""
        return float("inf") if self.missing else max((gap.max_rel for gap in self.gaps), default=0.0)

    def is_close(self, tolerance: float) -> bool:
        """Whether every output is within a relative tolerance."""
        return not self.missing and not any(gap.exceeds(tolerance) for gap in self.gaps)


def compare(one: Mapping[str, Item], two: Mapping[str, Item]) -> Comparison:
    """Compare the outputs of two runs; `two` is the one to be close to.

    Cost: linear in elements.
    """
    gaps = tuple(measure(name, one[name], two[name]) for name in two if name in one)
    missing = tuple(name for name in (*two, *one) if name not in one or name not in two)
    return Comparison(gaps, missing)


def measure(name: str, one: Item, two: Item) -> Gap:
    """Return how far `one` is from `two`; sequences are as far apart as their farthest elements."""
    infinite = float("inf")
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return _measure_arrays(name, one, two)
    if isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            return Gap(name, "shape", infinite, infinite)
        inner = [measure(name, left, right) for left, right in zip(one, two, strict=True)]
        return max(inner, key=lambda gap: gap.max_rel, default=Gap(name, "none", 0.0, 0.0))
    if one is None and two is None:
        return Gap(name, "none", 0.0, 0.0)
    return Gap(name, "kind", infinite, infinite)


def find_parting(
    graph: Graph,
    one: Mapping[int, Item],
    two: Mapping[int, Item],
    tolerance: float,
    *,
    match: Mapping[int, int] | None = None,
) -> Parting | None:
    """Return the first node, in the graph's order, where two runs part by more than a tolerance.

    Args:
        one: Values of `graph` in the first run, by id (`keep` of a run).
        two: Values of the second run.
        match: The id in the second run of a value of `graph`; without it ids are the same in both. With
            different graphs, `match_by_origin` finds those that nodes of one origin make.

    Returns:
        The node by its origin, as users know it; None when all values both runs have agree.
    """
    for node in graph.nodes.values():
        for value in node.writes():
            other = value if match is None else match.get(value)
            if other is None or value not in one or other not in two:
                continue
            gap = measure(graph.values[value].name, one[value], two[other])
            if gap.exceeds(tolerance):
                return Parting(_origin(node), node.op, gap)
    return None


def match_by_origin(one: Graph, two: Graph) -> dict[int, int]:
    """Pair values of two graphs that stand for one value of the model they came from.

    The last source of a node is the one whose result it has; a result is known by that and its position.
    Values are paired when both graphs know them by the same.
    """
    theirs = dict(_results(two))
    return {value: theirs[key] for key, value in dict(_results(one)).items() if key in theirs}


def _results(graph: Graph) -> Iterator[tuple[tuple[str, int], int]]:
    for node in graph.nodes.values():
        sources: Sequence[str] = node.origin.sources or (node.name,)
        for at, value in enumerate(node.outputs):
            if value is not None and sources[-1]:
                yield (sources[-1], at), value


def _origin(node: Node) -> str:
    return ", ".join(node.origin.sources) or place_of(node) or node.op


def _measure_arrays(name: str, one: Array, two: Array) -> Gap:
    infinite = float("inf")
    if one.dtype != two.dtype:
        return Gap(name, "dtype", infinite, infinite, two.size)
    if one.shape != two.shape:
        return Gap(name, "shape", infinite, infinite, two.size)
    if two.size == 0:
        return Gap(name, "none", 0.0, 0.0)
    if two.dtype.kind in "OUST":
        is_equal = bool(np.array_equal(one, two))
        far = 0.0 if is_equal else infinite
        return Gap(name, "none" if is_equal else "values", far, far, two.size)
    wide = np.complex128 if two.dtype.kind == "c" else np.float64
    left, right = one.astype(wide), two.astype(wide)
    finite = np.isfinite(right)
    if (
        not np.array_equal(left[~finite], right[~finite], equal_nan=True)
        or not np.isfinite(left[finite]).all()
    ):
        return Gap(name, "not a number", infinite, infinite, two.size)
    if not finite.any():
        return Gap(name, "none", 0.0, 0.0, two.size)
    far = float(np.abs(left[finite] - right[finite]).max())
    scale = max(float(np.abs(right[finite]).max()), TINY)
    return Gap(name, "values" if far else "none", far, far / scale, two.size)


def relative_error(one: Item, two: Item) -> float:
    """Return how far `one` is from `two` as numbers, whatever their element types.

    That is the largest difference as a share of the largest finite magnitude of `two`; infinite where
    shapes differ, one has NaN or an infinity where the other has not, or texts are not equal.
    """
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        if one.dtype.kind in "OUST" or two.dtype.kind in "OUST":
            return 0.0 if np.array_equal(one, two) else float("inf")
        wide = np.complex128 if "c" in (one.dtype.kind, two.dtype.kind) else np.float64
        return measure("", one.astype(wide), two.astype(wide)).max_rel
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return max((relative_error(left, right) for left, right in zip(one, two, strict=True)), default=0.0)
    return 0.0 if one is None and two is None else float("inf")


def has_something_finite(item: Item) -> bool:
    """Whether a value is more than NaN and infinities, of which a comparison tells little."""
    if isinstance(item, list):
        return any(has_something_finite(inner) for inner in item)
    if item is None or item.dtype.kind in "OUSTbiu":
        return True
    wide = item.astype(np.complex128 if item.dtype.kind == "c" else np.float64)
    return item.size == 0 or bool(np.isfinite(wide).any())
