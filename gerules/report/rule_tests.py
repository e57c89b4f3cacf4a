"""Running the tests that stand in rules: does a rule fire, does it refuse, and does it keep the meaning."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

import numpy as np

from gerules.dsl.book import RuleBook
from gerules.dsl.selection import Environment, Selection, TextDevice, select_rules
from gerules.dsl.syntax import Rule, RuleTest
from gerules.engine.candidate import CostOf
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.engine.rewrite import rewrite
from gerules.engine.trace import Trace
from gerules.errors import GerulesError, Span
from gerules.ir import Graph, Node, ValueType
from gerules.ops import Schemas
from gerules.passes.devices import find_device
from gerules.report.rule_graphs import Instance, instances
from gerules.report.rule_inputs import Array, Setting, Unbuildable
from gerules.runtime.interpreter import Interpreter
from gerules.runtime.reference import evaluate
from gerules.target import CostModel, Device
from gerules.target.cost import BodyOf

USUAL_OPSETS: Final = (20, 22, 19, 17, 16, 13, 12, 9)
"""Versions of ONNX that a test is run at: the first one that the rule allows."""

USUAL_DEVICE: Final = "host"
"""The device of a test that names none."""

DEFAULT_LIMIT: Final = 48
"""Graphs of one test, at most."""

FUEL: Final = 200
"""Rewrites of one test graph; more than that is a rule that does not stop."""

_RTOL: Final[Mapping[str, float]] = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-12}


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A test that does not hold: where it stands, what was found, and on which variant of the pattern."""

    rule: str
    test: str
    span: Span
    reason: str
    choices: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = f" {self.test!r}" if self.test else ""
        variant = f" (variant {'.'.join(str(answer) for answer in self.choices)})" if self.choices else ""
        return f"{self.span}: {self.rule}{name}{variant}: {self.reason}"


@dataclass(slots=True)
class RuleTestReport:
    """What running tests found. An instance is one graph; `n_compared` of them were computed both ways."""

    n_rules: int = 0
    n_tests: int = 0
    n_instances: int = 0
    n_compared: int = 0
    took_us: float = 0.0
    failures: list[RuleFailure] = field(default_factory=list[RuleFailure])
    untested: list[str] = field(default_factory=list[str])
    """Rules without any test."""

    @property
    def is_good(self) -> bool:
        """Whether every test held."""
        return not self.failures

    def as_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "rules": self.n_rules,
            "tests": self.n_tests,
            "instances": self.n_instances,
            "compared": self.n_compared,
            "took_us": round(self.took_us, 1),
            "untested": list(self.untested),
            "failures": [
                {"rule": item.rule, "test": item.test, "at": str(item.span), "reason": item.reason}
                for item in self.failures
            ],
        }


def test_rules(
    book: RuleBook,
    rules: Sequence[Rule] | None = None,
    *,
    schemas: Schemas | None = None,
    limit: int = DEFAULT_LIMIT,
    on_test: Callable[[str], None] = lambda _name: None,
) -> RuleTestReport:
    """Run the `test` blocks of rules.

    For each block, graphs are built from the pattern: with and without optional parts, every
    alternative, operands both ways round, every association, up to `limit`. The rule alone is applied.
    Where it must fire, the graphs before and after are computed on random arrays and compared. Gates ask
    what work costs on the device of the test; they hold where the book does not describe it.

    Args:
        rules: Those to test; all of the book unless given.
        schemas: Operators, those defined by the book among them.
        limit: Graphs of one test.
        on_test: Told the name of each rule before its tests.

    Returns:
        Counts and every failure; nothing is raised for a test that does not hold.
    """
    started = perf_counter()
    if schemas is None:
        schemas = Schemas()
        register_defines(book.defines.values(), schemas)
    runner = _Runner(book, schemas, limit)
    for rule in book.rules if rules is None else rules:
        on_test(rule.name.name)
        runner.rule(rule)
    runner.report.took_us = (perf_counter() - started) * 1e6
    return runner.report


# pytest collects functions by this prefix; this one is no test.
test_rules.__test__ = False  # type: ignore[attr-defined]


class _Runner:
    def __init__(self, book: RuleBook, schemas: Schemas, limit: int) -> None:
        self.book = book
        self.schemas = schemas
        self.limit = limit
        self.report = RuleTestReport()
        self._selections: dict[tuple[str, str, int], Selection] = {}
        self._devices: dict[str, Device] = {}

    def rule(self, rule: Rule) -> None:
        self.report.n_rules += 1
        if not rule.tests:
            self.report.untested.append(rule.name.name)
        for test in rule.tests:
            self.report.n_tests += 1
            try:
                reason = self.test(rule, test)
            except GerulesError as error:
                reason = f"{error.diagnostics[0].code.code}: {error.diagnostics[0].message}"
            except Unbuildable as error:
                reason = f"no graph can be built: {error}"
            if reason:
                self.fail(rule, test, reason)

    def fail(self, rule: Rule, test: RuleTest, reason: str, instance: Instance | None = None) -> None:
        choices = instance.choices if instance is not None else ()
        self.report.failures.append(RuleFailure(rule.name.name, test.doc, test.span, reason, choices))

    # ------------------------------------------------------------ one test
    def test(self, rule: Rule, test: RuleTest) -> str:
        """Run one test; returns what is wrong with it as a whole."""
        opset = self.opset_for(rule)
        device = test.device.name if test.device is not None else USUAL_DEVICE
        profile = test.profile.name if test.profile is not None else ""
        selection = self.selection(device, profile, opset)
        if rule.name.name in selection.off:
            return f"the rule is off: {selection.off[rule.name.name]}"
        context = RuleContext(selection.scope, self.book.patterns)
        extra = define_extra(self.book.defines, schemas=self.schemas, context=context)
        infer = make_infer(self.schemas, {"": opset}, extra)
        setting = Setting(self.book, self.schemas, infer, selection.scope, opset)
        seed = zlib.crc32(rule.name.name.encode())
        body_of = self.body_of(context)
        interpreter = Interpreter(body_of)
        cost = self.cost(device, body_of)
        reasons: set[str] = set()
        n_run = 0
        for instance in instances(rule, test, setting, limit=self.limit, seed=seed):
            if not test.expects_match and not instance.is_whole:
                continue
            self.report.n_instances += 1
            n_run += 1
            after, trace = rewrite(
                instance.graph,
                [rule],
                schemas=self.schemas,
                infer=infer,
                cost=cost,
                context=context,
                phase="test",
                fuel=FUEL,
            )
            reasons |= _reasons(trace, rule)
            fired = trace.count(rule.name.name).applications > 0
            if fired != test.expects_match:
                why = "; ".join(sorted(_reasons(trace, rule))) or "the pattern does not match"
                self.fail(rule, test, "it fires" if fired else f"it does not fire: {why}", instance)
                continue
            if fired and rule.rewrite:
                self.report.n_compared += 1
                before, got = (
                    list(evaluate(graph, instance.feeds, interpreter=interpreter).values())
                    for graph in (instance.graph, after)
                )
                wrong = _compare(before, got, test)
                if wrong:
                    self.fail(rule, test, wrong, instance)
        if not n_run:
            return "no variant of the pattern reads every value that the test gives"
        if test.reason is not None and not any(test.reason in reason for reason in reasons):
            return f"it refuses for another reason: {'; '.join(sorted(reasons)) or 'none'}"
        return ""

    def cost(self, device: str, body_of: BodyOf) -> CostOf | None:
        """Return what work costs on a device of the book; None for one that it does not describe."""
        if device not in self.book.devices:
            return None
        if device not in self._devices:
            self._devices[device] = find_device(self.book, device, schemas=self.schemas)
        return CostModel(self._devices[device], body_of).node

    def body_of(self, context: RuleContext) -> BodyOf:
        """Return what gives the meaning of a fused or defined operator."""
        extra = define_extra(self.book.defines, schemas=self.schemas, context=context)
        infer = make_infer(self.schemas, {}, extra)

        def meaning(node: Node, inputs: Sequence[ValueType | None]) -> Graph | None:
            body = node.bodies.get("body")
            if body is not None:
                return body.graph
            define = self.book.defines.get(node.op)
            if define is None:
                return None
            return expand_define(define, node, inputs, schemas=self.schemas, infer=infer, context=context)

        return meaning

    def selection(self, device: str, profile: str, opset: int) -> Selection:
        key = (device, profile, opset)
        found = self._selections.get(key)
        if found is None:
            known = self.book.devices.get(device)
            environment = Environment(
                profile=profile or None,
                device=TextDevice(self.book, known) if known is not None else None,
                opset=opset,
            )
            found = self._selections[key] = select_rules(self.book, environment)
        return found

    def opset_for(self, rule: Rule) -> int:
        for opset in USUAL_OPSETS:
            if all(_holds(opset, op, version) for op, version in rule.opsets):
                return opset
        return self.schemas.latest_opset


def _holds(opset: int, op: str, version: int) -> bool:
    match op:
        case "==":
            return opset == version
        case "!=":
            return opset != version
        case "<":
            return opset < version
        case "<=":
            return opset <= version
        case ">":
            return opset > version
        case _:
            return opset >= version


def _reasons(trace: Trace, rule: Rule) -> set[str]:
    """Why a rule did not fire, in the words of its guards."""
    count = trace.count(rule.name.name)
    found = set(count.refusals)
    if count.best is not None and not count.applications:
        found.add(count.best.reason)
    return found


def _compare(before: Sequence[Array], after: Sequence[Array], test: RuleTest) -> str:
    """Say where two results part; empty when they agree within the tolerance of the test."""
    if len(before) != len(after):
        return f"{len(before)} results before, {len(after)} after"
    for place, (want, got) in enumerate(zip(before, after, strict=True)):
        if want.shape != got.shape or want.dtype != got.dtype:
            return f"result {place} was {want.dtype}{list(want.shape)} and is {got.dtype}{list(got.shape)}"
        rtol = test.rtol if test.rtol is not None else _RTOL.get(want.dtype.name, 0.0)
        atol = test.atol if test.atol is not None else rtol * 0.1
        one, two = want.astype(np.float64), got.astype(np.float64)
        if not np.allclose(two, one, rtol=rtol, atol=atol, equal_nan=True):
            off = np.abs(one - two)
            at = np.unravel_index(int(np.nanargmax(off)) if off.size else 0, off.shape)
            spot = [int(axis) for axis in at]
            return f"result {place} differs most at {spot}: {one[at]:.8g} before, {two[at]:.8g} after"
    return ""
