"""The bench that rules are tried on: one rule, one graph, what it did, and what both sides compute."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gerules.dsl.book import RuleBook
from gerules.dsl.expressions import CallExpr, Compare, Literal, ParamRef, Ref
from gerules.dsl.external import called_twice
from gerules.dsl.selection import Environment, Selection, TextDevice, holds, select_rules
from gerules.dsl.syntax import Condition, Rule, RuleTest
from gerules.dsl.tree import RuleError
from gerules.engine.candidate import CostOf, Infer
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.engine.programs import Programs
from gerules.engine.ranking import plan_rules
from gerules.engine.rewrite import Rewriter
from gerules.errors import GerulesError, table
from gerules.ir import Const, Graph, Node, TensorType, ValueType
from gerules.ops import Schemas
from gerules.passes.devices import find_device
from gerules.passes.errors import PassError
from gerules.passes.format_check import check_formats
from gerules.passes.format_types import infer_formats
from gerules.report.rule_graphs import Instance
from gerules.report.rule_inputs import Array, Setting
from gerules.runtime.interpreter import Interpreter
from gerules.runtime.reference import evaluate
from gerules.target import CostModel, Device
from gerules.target.cost import BodyOf

USUAL_OPSETS: Final = (20, 22, 19, 17, 16, 13, 12, 9)
"""Versions of ONNX that a test is run at: the first one that the rule allows."""

USUAL_DEVICE: Final = "host"
"""The device of a test that names none."""

_UNCOMPILED: Final = (
    table.PATTERN_TOO_LARGE, table.TOO_MANY_LEAVES, table.NO_ROOT_OPERATOR, table.ROOTS_NOT_CONNECTED,
)  # fmt: skip
"""Faults of a rule that no graph matters for."""

FUEL: Final = 200
"""Rewrites of one test graph; more than that is a rule that does not stop."""

RTOL: Final[Mapping[str, float]] = {
    "float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-12,
}  # fmt: skip
"""How far results may part, relative to their size, where a test does not say."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What a test runs under: a device and a profile of the book, and an opset."""

    setting: Setting
    selection: Selection
    context: RuleContext
    body_of: BodyOf
    cost: CostOf | None
    target: Device | None
    """The device; None for one that the book does not describe."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule did to one graph.

    `after` is None when it did not fire; `reasons` say why not. `held` and `refused` are guards, by their
    place among the rule's, that were seen to hold and not to hold.
    """

    after: Graph | None
    reasons: frozenset[str]
    held: frozenset[int]
    refused: frozenset[int]


class Bench:
    """Tries rules of a book on graphs; what depends on device, profile and opset is made once for each."""

    def __init__(self, book: RuleBook, schemas: Schemas | None = None) -> None:
        self.book = replace(book, functions=called_twice(book.functions))  # rules call pure functions only
        if schemas is None:
            schemas = Schemas()
            register_defines(book.defines.values(), schemas)
        self.schemas = schemas
        self._places: dict[tuple[str, str, int], Place] = {}
        self._devices: dict[str, Device] = {}

    def place(self, rule: Rule, test: RuleTest | None) -> Place:
        """Return what a test of a rule runs under. Raises DeviceError for a device without description."""
        device = test.device.name if test is not None and test.device is not None else USUAL_DEVICE
        profile = test.profile.name if test is not None and test.profile is not None else ""
        key = (device, profile, self._opset_for(rule))
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._make_place(*key)
        return found

    def _make_place(self, device: str, profile: str, opset: int) -> Place:
        known = self.book.devices.get(device)
        environment = Environment(
            profile=profile or None,
            device=TextDevice(self.book, known) if known is not None else None,
            opset=opset,
        )
        selection = select_rules(self.book, environment)
        context = RuleContext(selection.scope, self.book.patterns)
        extra = define_extra(self.book.defines, schemas=self.schemas, context=context)
        infer = make_infer(self.schemas, {"": opset}, extra)
        body_of = self._body_of(context)
        cost: CostOf | None = None
        target = self._device(device) if device in self.book.devices else None
        if target is not None:
            infer, cost = _with_formats(infer, target), CostModel(target, body_of).node
        setting = Setting(self.book, self.schemas, infer, selection.scope, opset)
        return Place(setting, selection, context, body_of, cost, target)

    def _opset_for(self, rule: Rule) -> int:
        for opset in USUAL_OPSETS:
            if all(holds(opset, op, version) for op, version in rule.opsets):
                return opset
        return self.schemas.latest_opset

    def _device(self, name: str) -> Device:
        if name not in self._devices:
            self._devices[name] = find_device(self.book, name, schemas=self.schemas)
        return self._devices[name]

    def _body_of(self, context: RuleContext) -> BodyOf:
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


def _with_formats(infer: Infer, device: Device) -> Infer:
    """Return inference with storage formats; a test may show operands as no kernel takes them."""
    strict = infer_formats(infer, device)

    def typed(
        node: Node, inputs: Sequence[ValueType | None], consts: Sequence[Const | None]
    ) -> Sequence[ValueType]:
        try:
            return strict(node, inputs, consts)
        except PassError:
            return infer(node, inputs, consts)

    return typed


class Trial:
    """One rule under one place: applied to graphs, and both sides computed."""

    def __init__(self, bench: Bench, rule: Rule, place: Place) -> None:
        self.rule = rule
        self.place = place
        self._schemas = bench.schemas
        self._rewriter: Rewriter | None = None
        self._fault: RuleError | None = None
        """Why the rule cannot be compiled, whatever the graph."""
        self._guards = [guard.reason or f"`{guard.test.span.text}` does not hold" for guard in rule.guards]
        self.interpreter = Interpreter(place.body_of)

    def apply(self, graph: Graph) -> Outcome:
        """Apply the rule alone. Raises RuleError when it does not stop, or cannot be compiled."""
        if self._fault is not None:
            raise self._fault
        if self._rewriter is None:
            plans = plan_rules([_numbered(self.rule, self._guards)], self.place.context)
            infer, cost = self.place.setting.infer, self.place.cost
            self._rewriter = Rewriter(Programs(plans, self._schemas, infer, cost, "test"), fuel=FUEL)
        try:
            after, trace = self._rewriter.rewrite(graph)
        except RuleError as error:
            if error.diagnostics[0].code in _UNCOMPILED:
                self._fault = error
            raise
        count = trace.count(self.rule.name.name)
        refused: set[int] = set()
        reasons: set[str] = set()
        n_held = len(self._guards) if count.applications else 0
        found = dict.fromkeys(count.refusals)
        if count.best is not None and not count.applications:
            found[count.best.reason] = None
        for text in found:
            guard, reason = _number_of(text)
            reasons.add(reason)
            if guard is not None:
                refused.add(guard)
            elif text in count.refusals:
                n_held = len(self._guards)
        n_held = max(n_held, max(refused, default=0))
        is_fired = count.applications > 0
        held = frozenset(range(n_held))
        return Outcome(after if is_fired else None, frozenset(reasons), held, frozenset(refused))

    def compute(self, graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the outputs of a graph. Raises RunError."""
        return list(evaluate(graph, feeds, interpreter=self.interpreter).values())

    def differ(self, instance: Instance, after: Graph, test: RuleTest) -> str:
        """Say where the sides of a rule part on the arrays of an instance; empty when they agree."""
        if wrong := self.misplace(instance.graph, after):
            return wrong
        before = self.compute(instance.graph, instance.feeds)
        got = self.compute(after, instance.feeds)
        return compare(before, got, test.rtol, test.atol, widened=instance.widened)

    def misplace(self, before: Graph, after: Graph) -> str:
        """Say where storage formats fit no longer; empty when they do, or did not before."""
        for old, new in zip(before.outputs, after.outputs, strict=False):
            one, two = before.type_of(old), after.type_of(new)
            if (
                isinstance(one, TensorType)
                and isinstance(two, TensorType)
                and ((one.format, one.groups) != (two.format, two.groups))
            ):
                return f"{before.values[old].name} was {one} and is {two}"
        device = self.place.target
        if device is None or check_formats(before, device):
            return ""
        return "; ".join(check_formats(after, device)[:1])


def compare(
    before: Sequence[Array],
    after: Sequence[Array],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    widened: Collection[int] = (),
) -> str:
    """Say where two results part; empty when they agree within a tolerance, by default the usual one.

    `widened` are the places of results with an axis before their own, which is not spoken of.
    """
    if len(before) != len(after):
        return f"{len(before)} results before, {len(after)} after"
    for place, (want, got) in enumerate(zip(before, after, strict=True)):
        n_added = int(place in widened)
        if want.shape != got.shape or want.dtype != got.dtype:
            one, two = list(want.shape)[n_added:], list(got.shape)[n_added:]
            return f"result {place} was {want.dtype}{one} and is {got.dtype}{two}"
        relative = rtol if rtol is not None else RTOL.get(want.dtype.name, 0.0)
        absolute = atol if atol is not None else relative * 0.1
        one, two = want.astype(np.float64), got.astype(np.float64)
        with np.errstate(invalid="ignore"):
            if np.allclose(two, one, rtol=relative, atol=absolute, equal_nan=True):
                continue
            off = np.abs(one - two)
        off = np.where(np.isnan(off) & ~(np.isnan(one) & np.isnan(two)) & (one != two), np.inf, off)
        at = np.unravel_index(int(np.nanargmax(off)), off.shape)
        spot = [int(axis) for axis in at[n_added:]]
        return f"result {place} differs most at {spot}: {one[at]:.8g} before, {two[at]:.8g} after"
    return ""


# ---------------------------------------------------------------- which guard refused
_MARK: Final = "\x1f"
"""Stands between the number of a guard and its reason; no reason of a rule holds it."""


def _numbered(rule: Rule, reasons: Sequence[str]) -> Rule:
    """Return the rule with the number of each guard in its reason: two guards may give the same one."""
    steps: list[object] = []
    place = 0
    for step in rule.steps:
        if isinstance(step, Condition):
            steps.append(replace(step, reason=f"{place}{_MARK}{reasons[place]}"))
            place += 1
        else:
            steps.append(step)
    return replace(rule, steps=tuple(steps))


def _number_of(text: str) -> tuple[int | None, str]:
    number, mark, reason = text.partition(_MARK)
    return (int(number), reason) if mark else (None, text)


def steers_search(guard: Condition) -> bool:
    """Whether the engine looks for matches by a guard, so that none is ever refused by it.

    `len(chain) <= n` bounds the paths that are tried, `ordered(a, b)` the pairs.
    """
    match guard.test:
        case Compare(first=CallExpr(callee=Ref(name="len")), rest=(("<" | "<=", Literal() | ParamRef()),)):
            return True
        case CallExpr(callee=Ref(name="ordered")):
            return True
        case _:
            return False


def seed_of(rule: Rule) -> int:
    """Return the seed of the arrays that the tests of a rule run on."""
    return zlib.crc32(rule.name.name.encode())


def fault_text(error: GerulesError) -> str:
    """Return the first fault of an error in one line."""
    return f"{error.diagnostics[0].code.code}: {error.diagnostics[0].message}"
