"""The search for counterexamples: tests that nobody wrote, on which a rule changes what is computed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from gerules.dsl.syntax import Elements, GivenValue, Rule, RuleTest
from gerules.errors import GerulesError
from gerules.ir import TensorType
from gerules.report.rule_bench import Bench, Trial, fault_text, seed_of
from gerules.report.rule_edits import with_item
from gerules.report.rule_graphs import Instance, instances, random_instance
from gerules.report.rule_inputs import SIZE_OF_NAMED_DIM, Unbuildable
from gerules.report.rule_judge import Undefined, compute_left, judge
from gerules.report.rule_shrink import MOST_LISTED, shrink
from gerules.report.rule_test_text import test_text
from gerules.report.rule_variations import Variations

_TRIES: Final = 12
"""Variations tried for each graph that is wanted; most cannot be built."""

MOST_ELEMENTS: Final = 1 << 16
"""Largest value of a graph that is made up."""

_MOST_SHRINKING: Final = 1000
"""Graphs tried while shrinking one test; a test of many alternatives stands for many of them."""

_MOST_VARIANTS: Final = 48
"""Graphs of one test that are looked at while shrinking: those that a pasted test runs."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A test on which the sides of a rule part, shrunk, and what was found on it.

    `is_shown`: a run of the pasted test shows it; otherwise it lies in a variant beyond those that are run.
    """

    rule: str
    test: RuleTest
    reason: str
    is_shown: bool

    @property
    def block(self) -> str:
        """The test as text, ready to paste below the rule."""
        return test_text(self.test)


@dataclass(slots=True)
class SearchCount:
    """How many graphs were made up, and on how many of them the rule fired."""

    n_generated: int = 0
    n_fired: int = 0


class Search:
    """Looks for counterexamples of one rule."""

    def __init__(self, bench: Bench, rule: Rule, *, seed: int = 0) -> None:
        self.bench = bench
        self.rule = rule
        self.seed = seed
        self._trials: dict[int, Trial] = {}
        self._n_tried = 0
        """Graphs."""

    def run(self, n_graphs: int, count: SearchCount) -> Counterexample | None:
        """Return the first counterexample among `n_graphs` graphs that could be built, shrunk."""
        for test, instance in islice(self._graphs(n_graphs * _TRIES), n_graphs):
            count.n_generated += 1
            reason, is_fired = self._try(self._trial(test), instance)
            count.n_fired += is_fired
            if reason:
                return self._shrunk(test, reason)
        return None

    def _try(self, trial: Trial, instance: Instance) -> tuple[str, bool]:
        """Say what is wrong with the rule on one graph, and whether it fired where that can be judged."""
        self._n_tried += 1
        after, fault = None, ""
        try:
            after = trial.apply(instance.graph).after
        except GerulesError as error:
            fault = fault_text(error)
        if not fault and (after is None or not self.rule.rewrite):
            return "", after is not None
        try:
            before = compute_left(trial, instance)
        except Undefined:
            return "", False
        except GerulesError:
            return fault, bool(fault)
        if after is None:
            return fault, True
        return judge(trial, instance, before, after), True

    def _graphs(self, n_tries: int) -> Iterator[tuple[RuleTest, Instance]]:
        if not self.rule.tests:
            bases: list[RuleTest] = []
        else:
            bases = [test for test in self.rule.tests if self._is_on(test)]
            if not bases:
                return
        first = bases[0] if bases else None
        setting = self.bench.place(self.rule, first).setting
        random = np.random.default_rng([self.seed, seed_of(self.rule)])
        variations = Variations(self.rule, setting, int(random.integers(1 << 62)))
        for test in islice(variations.around(bases), n_tries):
            try:
                place = self.bench.place(self.rule, test)
                instance = random_instance(self.rule, test, place.setting, random, seed=seed_of(self.rule))
            except (Unbuildable, GerulesError):
                continue
            if is_small(instance):
                variations.built()
                yield test, instance

    def _is_on(self, test: RuleTest) -> bool:
        return self.rule.name.name not in self.bench.place(self.rule, test).selection.off

    def _trial(self, test: RuleTest) -> Trial:
        place = self.bench.place(self.rule, test)
        found = self._trials.get(id(place))
        if found is None:
            found = self._trials[id(place)] = Trial(self.bench, self.rule, place)
        return found

    def _shrunk(self, test: RuleTest, reason: str) -> Counterexample:
        name = self.rule.name.name
        named = replace(test, doc="the sides part")
        found = self._first_wrong(named)
        if found is None:
            return Counterexample(name, named, reason, is_shown=False)
        listed = _with_integers_listed(named, found[0])
        named = listed if self.shows(listed) else named
        last = self._n_tried + _MOST_SHRINKING
        small = shrink(named, lambda item: self._n_tried < last and bool(self.shows(item)))
        return Counterexample(name, small, self.shows(small) or reason, is_shown=True)

    def shows(self, test: RuleTest) -> str:
        """Say what a run of the pasted test finds wrong, and judging confirms; empty when nothing."""
        found = self._first_wrong(test)
        return found[1] if found is not None else ""

    def _first_wrong(self, test: RuleTest) -> tuple[Instance, str] | None:
        """Return the first graph of the pasted test on which something is wrong, and what."""
        try:
            trial = self._trial(test)
            if self.rule.name.name in trial.place.selection.off:
                return None
            graphs = instances(
                self.rule, test, trial.place.setting, limit=_MOST_VARIANTS, seed=seed_of(self.rule)
            )
            for instance in graphs:
                if not is_small(instance):
                    continue
                wrong, _ = self._try(trial, instance)
                if wrong:
                    return instance, wrong
        except (Unbuildable, GerulesError):
            return None
        return None


def _with_integers_listed(test: RuleTest, instance: Instance) -> RuleTest:
    """Return the test with the elements of small integer constants in place of how they were drawn."""
    for place, item in enumerate(test.inputs):
        const = instance.graph.consts.get(instance.names.get(item.name.name, -1))
        if not isinstance(item, GivenValue) or const is None or not const.array.size:
            continue
        is_listed = item.elements is not None and item.elements.kind == "list"
        if const.array.dtype.kind in "iu" and const.array.size <= MOST_LISTED and not is_listed:
            values = tuple(int(value) for value in const.array.ravel())
            elements = Elements(item.span, "list", values)
            test = with_item(test, place, replace(item, low=None, high=None, elements=elements))
    return test


def is_small(instance: Instance) -> bool:
    """Whether every value is small, as far as is known; a changed attribute may ask for terabytes."""
    return all(
        math.prod(dim if isinstance(dim, int) else SIZE_OF_NAMED_DIM for dim in value.type.shape)
        <= MOST_ELEMENTS
        for value in instance.graph.values.values()
        if isinstance(value.type, TensorType) and value.type.shape is not None
    )
