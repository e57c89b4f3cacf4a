"""Running a golden case: the rules and the device it wants, its steps, and what they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from gerules.backend.om import OmModel
from gerules.backend.plans import Plans, make_plans
from gerules.backend.schedule import EngineRule, StreamOptions
from gerules.dsl import RuleBook
from gerules.dsl.syntax import Rule
from gerules.engine import rewrite
from gerules.engine.trace import Trace
from gerules.errors import GerulesError, Source, render
from gerules.ir import Graph, parse_graph
from gerules.ops import infer_graph
from gerules.passes.formats import choose_formats
from gerules.passes.partition import Partition, partition_graph
from gerules.passes.precision import read_lists, set_precision
from gerules.passes.prepare import prepare
from gerules.pipeline import (
    CompileOptions,
    Toolchain,
    compile_graph,
    make_toolchain,
    phase_names,
    run_phases,
    shipped_rules,
)
from gerules.pipeline.fusion_switch import FusionSwitch, parse_fusion_switch
from gerules.pipeline.toolchain import HOST, evaluate_node
from gerules.target import Device
from tests.golden.casefile import Case, CaseError
from tests.golden.options import Options, read_options

USUAL_STEP: Final = "fusion"


@dataclass(slots=True)
class Outcome:
    """What running a case gave: up to the fault, if there was one.

    `again` are the rules that applied when the phases ran once more on what they had left.
    """

    options: Options
    tools: Toolchain | None = None
    before: Graph | None = None
    after: Graph | None = None
    trace: Trace = field(default_factory=Trace)
    partition: Partition | None = None
    plans: Plans | None = None
    om: OmModel | None = None
    error: str = ""
    steps: tuple[str, ...] = ()
    again: tuple[str, ...] = ()

    @property
    def toolchain(self) -> Toolchain:
        """The toolchain; there is one whenever there is no fault."""
        assert self.tools is not None
        return self.tools


def run_case(case: Case) -> Outcome:
    """Run the steps of a case.

    Raises:
        CaseError: when the case itself is wrong, not what it tests.
        GerulesError: a fault of the input, unless the case has an `error` block.
    """
    outcome = Outcome(read_options(case))
    try:
        _Run(case, outcome).steps()
    except GerulesError as error:
        if case.one("error") is None:
            raise
        outcome.error = render(error.diagnostics)
    return outcome


class _Run:
    def __init__(self, case: Case, outcome: Outcome) -> None:
        self.case, self.outcome, self.options = case, outcome, outcome.options

    def steps(self) -> None:
        """Run every step, in order."""
        book = self.book
        before = self.case.one("graph", "before")
        if before is None:
            return
        graph = parse_graph(Source("before", before.text))
        tools = self.outcome.tools = self.toolchain(book, graph)
        steps = self.options.run or (("rules",) if self.own_rules else (USUAL_STEP,))
        if steps[0].split()[0] not in ("compile", "prepare"):
            graph = infer_graph(graph, tools.schemas, extra=tools.extra)
        self.outcome.before = self.outcome.after = graph
        if self.case.one("plan") is not None and not steps[-1].startswith(("compile", "partition", "plan")):
            steps = (*steps, "plan")
        self.outcome.steps = steps
        for step in steps:
            self.step(step)
        self.outcome.again = tuple(self.again())

    def step(self, step: str) -> None:
        name, *words = step.split()
        found = self.known_steps.get(name)
        if found is not None:
            found(words)
            return
        if words:
            raise CaseError(f"{self.case.name}: {step!r} is no step")
        tools, graph = self.outcome.toolchain, self.graph
        self.outcome.after, trace = run_phases(tools, graph, phase_names(tools.book, name))
        self.outcome.trace.extend(trace)

    def again(self) -> list[str]:
        """Run the phases once more on what they left; returns what was applied, which should be nothing."""
        tools, steps = self.outcome.toolchain, self.outcome.steps
        if any(step.split()[0] in self.known_steps for step in steps):
            return []
        trace = Trace()
        graph = self.graph
        for step in steps:
            graph, more = run_phases(tools, graph, phase_names(tools.book, step))
            trace.extend(more)
        return [item.rule for item in trace.applications]

    @property
    def known_steps(self) -> dict[str, Callable[[list[str]], None]]:
        """The steps that are no phases."""
        return {
            "rules": self.rules,
            "prepare": self.prepare,
            "precision": self.precision,
            "formats": self.formats,
            "partition": self.partition,
            "plan": self.plan,
            "compile": self.compile,
        }

    @property
    def graph(self) -> Graph:
        assert self.outcome.after is not None
        return self.outcome.after

    # ------------------------------------------------------------ rules and device
    @cached_property
    def sources(self) -> list[Source]:
        """The rule texts of the case; the last one holds the device, if there is one of its own."""
        blocks = [*self.case.all("ger"), *self.case.all("device")]
        kinds = [block.kind for block in blocks]
        names = [f"{kind}{'' if kinds.count(kind) == 1 else at + 1}.ger" for at, kind in enumerate(kinds)]
        return [Source(name, block.text + "\n") for name, block in zip(names, blocks, strict=True)]

    @cached_property
    def book(self) -> RuleBook:
        return shipped_rules(self.sources)

    @cached_property
    def own_rules(self) -> list[Rule]:
        """The rules that stand in the case."""
        shipped = {rule.name.name for rule in shipped_rules().rules}
        return [rule for rule in self.book.rules if rule.name.name not in shipped]

    @property
    def device(self) -> str:
        if self.options.device:
            return self.options.device
        new = [name for name in self.book.devices if name not in shipped_rules().devices]
        if self.case.one("device") is not None and len(new) != 1:
            raise CaseError(f"{self.case.name}: a device block declares one device, not {new}")
        return new[0] if new else HOST

    def toolchain(self, book: RuleBook, graph: Graph) -> Toolchain:
        options = self.options
        return make_toolchain(
            book,
            graph.opsets,
            device=self.device,
            precision=options.precision or None,
            profile=options.profile or None,
            enable=options.enable,
            disable=options.disable,
            params=options.set,
            keep_dtype=options.keep_dtype,
            fusion_switch=self.switch,
        )

    @property
    def switch(self) -> FusionSwitch | None:
        """The fusion switch file of the case."""
        block = self.case.one("switch")
        return None if block is None else parse_fusion_switch(Source("fusion_switch.cfg", block.text + "\n"))

    # ------------------------------------------------------------ steps
    def rules(self, names: list[str]) -> None:
        """Run the rules of the case, or those named, and no others."""
        tools = self.outcome.toolchain
        known = {rule.name.name: rule for rule in tools.book.rules}
        if missing := [name for name in names if name not in known]:
            raise CaseError(f"{self.case.name}: there are no rules {missing}")
        wanted = [known[name] for name in names or (rule.name.name for rule in self.own_rules)]
        on = {rule.name.name for rule in tools.selection.rules}
        self.outcome.after, trace = rewrite(
            self.graph,
            [rule for rule in wanted if rule.name.name in on],
            schemas=tools.schemas,
            infer=tools.infer,
            cost=tools.costs.node,
            context=tools.context,
        )
        off = {name.name.name: tools.selection.off.get(name.name.name, "") for name in wanted}
        trace.off.update({name: reason for name, reason in off.items() if name not in on})
        self.outcome.trace.extend(trace)

    def prepare(self, _: list[str]) -> None:
        tools = self.outcome.toolchain
        self.outcome.after, _report = prepare(
            self.graph,
            evaluate_node,
            schemas=tools.schemas,
            dims=self.options.dims or None,
            extra=tools.extra,
            folds=self.options.folds,
        )

    def precision(self, _: list[str]) -> None:
        tools = self.outcome.toolchain
        assert self.outcome.before is not None
        self.outcome.after, _report = set_precision(
            self.graph,
            tools.precision,
            device=tools.device,
            schemas=tools.schemas,
            lists=read_lists(tools.book),
            keep=self.options.keep_dtype,
            origin_ops={node.name: node.op for node in self.outcome.before.nodes.values() if node.name},
            extra=tools.extra,
        )

    def formats(self, _: list[str]) -> None:
        tools = self.outcome.toolchain
        self.outcome.after, _report = choose_formats(self.graph, tools.device, costs=tools.costs)

    def partition(self, _: list[str]) -> None:
        self.outcome.partition = partition_graph(
            self.graph,
            self.outcome.toolchain.device,
            annotations=self.outcome.trace.annotations,
            excluded=self.options.exclude,
            static_limit=self.options.static_limit,
        )

    def plan(self, _: list[str]) -> None:
        """Partition and plan, without a model; the only step that knows stream labels."""
        if self.outcome.partition is None:
            self.partition([])
        assert self.outcome.partition is not None
        tools, graph = self.outcome.toolchain, self.graph
        labels = {
            node.id: self.options.labels[graph.values[value].name]
            for node in graph.nodes.values()
            for value in node.writes()
            if graph.values[value].name in self.options.labels
        }
        self.outcome.plans = make_plans(
            graph,
            self.outcome.partition.engine_of,
            cost_us=lambda node: tools.costs.node_in(graph, node).time,
            streams=_streams(tools.device, self.options.n_streams),
            labels=labels,
            limit_bytes=self.options.memory_limit or int(tools.device.number("memory_bytes")),
            align_bytes=int(tools.device.number("align_bytes")),
        )

    def compile(self, words: list[str]) -> None:
        options = self.options
        done = compile_graph(
            self.graph,
            self.book,
            CompileOptions(
                device=self.device,
                precision=options.precision or None,
                profile=options.profile or None,
                enable=options.enable,
                disable=options.disable,
                params=options.set,
                pipeline=words[0] if words else "default",
                dims=options.dims or None,
                keep_dtype=options.keep_dtype,
                folds=options.folds,
                n_streams=options.n_streams or None,
                memory_limit_bytes=options.memory_limit or None,
            ),
        )
        self.outcome.tools, self.outcome.after = done.tools, done.graph
        self.outcome.trace.extend(done.trace)
        self.outcome.partition, self.outcome.plans, self.outcome.om = done.partition, done.plans, done.om


def _streams(device: Device, n_streams: int) -> StreamOptions:
    wanted = n_streams or int(device.number("n_streams"))
    if wanted == 1:
        return StreamOptions(is_single=True)
    rules: dict[str, EngineRule] = {}
    for engine in device.engines:
        kind = "attach" if engine.is_attached else "independent" if engine.is_independent else "queue"
        rules[engine.name] = EngineRule(kind, wanted)
    return StreamOptions(rules=rules)
