"""Whether a rule that does not say `inexact` gives the same bits: both sides computed and compared.

The graphs are those of the rule's tests, with ordinary numbers, with zeros and ones of both signs and larger
numbers, and with NaN, infinities and numbers at the ends of the range among the inputs. Constants stay as
they are: guards may ask about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from gerules.analysis.applying import apply_once
from gerules.dsl.functions_shape import dtype_limits
from gerules.dsl.syntax import Rule
from gerules.errors import Diagnostic, GerulesError, table
from gerules.ir import Graph, dtype_of
from gerules.report.rule_bench import Bench, Trial, seed_of
from gerules.report.rule_graphs import Instance, instances
from gerules.report.rule_inputs import Array, Unbuildable

N_VARIANTS: Final = 4
"""Graphs of one test that are computed."""

N_DRAWS: Final = 3
"""Times that inputs are drawn with ordinary numbers; as often with special ones."""

MAX_SIGNED: Final = 16
"""Runs at most in which zeros and ones of both signs meet, whatever the shapes are."""

MAX_ELEMENTS: Final = 1 << 16
"""Larger inputs are left out: what shows in them shows in small ones."""

MAX_ROUNDING: Final = 1e-2
"""How far two results part by rounding at most, relative to the largest number, in float32 and wider."""

_ADMIT: Final = (
    'add `inexact "what changes"`, so that a profile can leave the rule out, or make both sides alike'
)
_WRONG: Final = "the sides differ by far more than rounding: the rule is wrong, or it needs a guard"
_WRONG_OUTSIDE: Final = (
    "the sides differ by far more than rounding, on numbers that its tests leave out: "
    "the rule is wrong there, or it needs a guard"
)

_SIGNED: Final = (-0.0, 0.0, 1.0, -1.0)
_SPECIAL: Final = (np.nan, np.inf, -np.inf, *_SIGNED)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two results part most: both numbers, and how many numbers of their type lie between them.

    `ulps` is infinite where one is NaN, infinite or a zero of the other sign.
    """

    before: float
    after: float
    ulps: float

    def __str__(self) -> str:
        if self.ulps == np.inf:
            return f"{self.before!r} becomes {self.after!r}"
        unit = "unit" if self.ulps == 1 else "units"
        return f"{self.before:.9g} becomes {self.after:.9g}, {self.ulps:.0f} {unit} in the last place away"


class _Numbers(Enum):
    """Where the numbers that both sides are computed on come from."""

    OWN = "the test"
    OTHER = "zeros, ones and larger numbers of both signs"
    SPECIAL = "NaN, infinities and the ends of the range"


def missing_inexact(rule: Rule, bench: Bench) -> Diagnostic | None:
    """Return a warning when a rule changes a bit of some result and does not say so.

    Cost: a few dozen runs of the graphs of its tests.
    """
    if rule.is_inexact or not rule.rewrite:
        return None
    found: list[Difference] = []
    wrong_on: set[_Numbers] = set()
    for trial, instance, after in _applied(rule, bench):
        for feeds, numbers in _feeds(instance, seed_of(rule)):
            try:
                before = trial.compute(instance.graph, feeds)
                got = trial.compute(after, feeds)
            except GerulesError:
                continue
            pairs = list(zip(before, got, strict=False))
            found += (item for pair in pairs for item in differences(*pair))
            if numbers is not _Numbers.SPECIAL and any(parts_beyond_rounding(*pair) for pair in pairs):
                wrong_on.add(numbers)
    if not found:
        return None
    rounding = max((item for item in found if item.ulps < np.inf), key=lambda item: item.ulps, default=None)
    special = next((item for item in found if item.ulps == np.inf), None)
    notes = tuple(str(item) for item in (rounding, special) if item is not None)
    remedy = _WRONG if _Numbers.OWN in wrong_on else _WRONG_OUTSIDE if wrong_on else _ADMIT
    facts = {"rule": rule.name.name, "remedy": remedy}
    return Diagnostic(table.NOT_EXACT, facts, rule.name.span, notes=notes, severity="warning")


def _applied(rule: Rule, bench: Bench) -> Iterator[tuple[Trial, Instance, Graph]]:
    for test in rule.tests:
        if not test.expects_match:
            continue
        try:
            place = bench.place(rule, test)
            trial = Trial(bench, rule, place)
            found = instances(rule, test, place.setting, limit=N_VARIANTS, seed=seed_of(rule))
            for instance in islice(found, N_VARIANTS):
                if sum(array.size for array in instance.feeds.values()) > MAX_ELEMENTS:
                    continue
                after = apply_once(instance.graph, [rule], place, bench.schemas)
                if after is not None:
                    yield trial, instance, after
        except (GerulesError, Unbuildable):
            continue  # `rules test` says what is wrong with it


def _feeds(instance: Instance, seed: int) -> Iterator[tuple[Mapping[str, Array], _Numbers]]:
    """Yield inputs, each with the kind of its numbers."""
    random = np.random.default_rng(seed)
    yield instance.feeds, _Numbers.OWN
    floats = {name: array for name, array in instance.feeds.items() if array.dtype.kind == "f" and array.size}
    if not floats:
        return
    for _ in range(N_DRAWS):
        drawn = {name: _redrawn(array, random) for name, array in floats.items()}
        yield {**instance.feeds, **drawn}, _Numbers.OWN
        yield (
            {**instance.feeds, **{name: _special(array, random) for name, array in drawn.items()}},
            _Numbers.SPECIAL,
        )
    yield (
        {**instance.feeds, **{name: _widened(array, random) for name, array in floats.items()}},
        _Numbers.OTHER,
    )
    for signed in _signed(floats):
        yield {**instance.feeds, **signed}, _Numbers.OTHER


def _signed(floats: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
    """Yield inputs of zeros and ones of both signs: each alone, then each with each of every other input.

    What an input has no room for comes in the next one; the mixed ones are `MAX_SIGNED` at most.
    """
    for value in _SIGNED:
        yield {name: np.full_like(array, value) for name, array in floats.items()}
    values = np.array(_SIGNED)
    n_elements = min(array.size for array in floats.values())
    n_runs = min(MAX_SIGNED, -(-(len(values) ** len(floats)) // n_elements))
    for run in range(n_runs):
        mixed: dict[str, Array] = {}
        for place, (name, array) in enumerate(floats.items()):
            turns = (np.arange(array.size) + run * n_elements) // len(values) ** place
            mixed[name] = values[turns % len(values)].reshape(array.shape).astype(array.dtype)
        yield mixed


def _widened(array: Array, random: np.random.Generator) -> Array:
    """Return numbers of both signs, up to a thousand times as large as those of an array."""
    factors = random.choice([-1.0, 1.0], array.shape) * 10.0 ** random.uniform(0, 3, array.shape)
    return (_redrawn(array, random).astype(np.float64) * factors).astype(array.dtype)


def _redrawn(array: Array, random: np.random.Generator) -> Array:
    """Return an array of its kind: its own numbers in another order, a little off."""
    mixed = random.permutation(array.reshape(-1)).reshape(array.shape).astype(np.float64)
    return (mixed * random.uniform(0.9, 1.1, array.shape)).astype(array.dtype)


def _special(array: Array, random: np.random.Generator) -> Array:
    _, largest = map(float, dtype_limits(dtype_of(array)))
    values = np.array([*_SPECIAL, largest, -largest, 1 / largest])
    chosen = random.choice(values, array.shape)
    return np.where(random.random(array.shape) < 0.3, chosen, array.astype(np.float64)).astype(array.dtype)


def differences(before: Array, after: Array) -> Iterator[Difference]:
    """Yield the largest difference of rounding between two float results, and the first of another kind."""
    if (
        before.dtype.kind != "f"
        or before.shape != after.shape
        or before.dtype != after.dtype
        or not before.size
    ):
        return
    one, two = before.reshape(-1), after.reshape(-1)
    both_nan = np.isnan(one) & np.isnan(two)
    is_zero = (one == 0) & (two == 0)
    is_other = (~np.isfinite(one) | ~np.isfinite(two)) & ~both_nan & (one != two)
    is_other |= is_zero & (np.signbit(one) != np.signbit(two))
    for at in np.flatnonzero(is_other)[:1]:
        yield Difference(float(one[at]), float(two[at]), np.inf)
    finite = np.isfinite(one) & np.isfinite(two) & ~is_zero
    if np.any(one[finite] != two[finite]):
        ulps = np.abs(_steps(one[finite]) - _steps(two[finite]))
        at = int(np.argmax(ulps))
        yield Difference(float(one[finite][at]), float(two[finite][at]), float(ulps[at]))


def parts_beyond_rounding(before: Array, after: Array) -> bool:
    """Whether two finite results of ordinary numbers part farther than rounding explains.

    Held against the largest number of the result, so that what cancels out does not count; float16 rounds so
    coarsely that nothing is said of it.
    """
    if before.dtype.kind != "f" or before.dtype.itemsize < 4 or before.shape != after.shape:
        return False
    finite = np.isfinite(before) & np.isfinite(after)
    if not finite.any():
        return False
    one, two = before[finite].astype(np.float64), after[finite].astype(np.float64)
    return bool(np.abs(one - two).max() > MAX_ROUNDING * np.abs(one).max())


def _steps(array: Array) -> npt.NDArray[np.float64]:
    """Return how many numbers of the type lie between zero and each; differences of these count ulps."""
    size_bytes = array.dtype.itemsize
    bits = array.view(f"i{size_bytes}").astype(np.float64)
    lowest = -(2.0 ** (8 * size_bytes - 1))
    return np.where(bits < 0, lowest - bits, bits)
