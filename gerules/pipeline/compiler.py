"""The compiler: a graph becomes an offline model, stage by stage.

```
graph
  | prepare      sizes bound, types inferred, constants folded
  | phases       the rules of the pipeline, in the order that rules/pipeline.ger declares
  |   precision    before `precision_ops`: element types by mode, Casts inserted
  |   formats      before `layout_ops`: storage formats by the device's tables, TransData inserted
  | partition    engines and clusters
  | plan         order, streams, events; offsets in one arena
  | emit         the offline model
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final

from gerules.backend.definitions import definition_texts
from gerules.backend.emit import emit
from gerules.backend.om import OmAttr
from gerules.backend.plans import make_plans
from gerules.backend.schedule import EngineRule, StreamOptions
from gerules.dsl import RuleBook
from gerules.dsl.book import suggest
from gerules.engine.trace import Allow
from gerules.engine.witness import Witness
from gerules.errors import table
from gerules.ir import Attr, Graph, Node
from gerules.ir.collector import paused_collector
from gerules.passes.bind import ranges_of
from gerules.passes.dynamic_parts import find_causes
from gerules.passes.formats import choose_formats
from gerules.passes.partition import partition_graph
from gerules.passes.precision import read_lists, set_precision
from gerules.passes.prepare import prepare
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.gears import compile_gears, emit_branches, gears_of
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.phases import phase_names, run_rule_phase
from gerules.pipeline.stages import Observe, StageReport, count_casts
from gerules.pipeline.toolchain import evaluate_node, make_toolchain
from gerules.target import Device

BEFORE_PHASE: Final[Mapping[str, str]] = {"precision_ops": "precision", "layout_ops": "formats"}
"""The compiler's own steps among the phases: each comes right before the phase that cleans up after it."""

LAST_STAGES: Final = ("partition", "plan", "emit")


def stage_names(book: RuleBook, pipeline: str = "default") -> tuple[str, ...]:
    """Return the names of all stages of a compile, in order."""
    found = ["prepare"]
    for phase in phase_names(book, pipeline):
        if phase in BEFORE_PHASE:
            found.append(BEFORE_PHASE[phase])
        found.append(phase)
    return (*found, *LAST_STAGES)


def compile_graph(
    graph: Graph,
    book: RuleBook,
    options: CompileOptions,
    observe: Observe | None = None,
    witness: Witness | None = None,
    allow: Allow | None = None,
) -> Compilation:
    """Compile a graph as the options say.

    Args:
        observe: Told of each stage as it ends.
        witness: Told of what the rules try and do.
        allow: Asked before each rewrite; without it all that the rules want happens.

    Returns:
        All that the compile knows; without a partition, plans and model when `stop_after` is earlier.

    Raises:
        GerulesError: with every fault of the first stage that fails.
    """
    names = stage_names(book, options.pipeline)
    if options.stop_after is not None:
        if options.stop_after not in names:
            known = ", ".join(names)
            notes = suggest(options.stop_after, names)
            raise PipelineError(table.UNKNOWN_STAGE, name=options.stop_after, known=known, notes=notes)
        names = names[: names.index(options.stop_after) + 1]
    tools = make_toolchain(
        book,
        graph.opsets,
        device=options.device,
        precision=options.precision,
        profile=options.profile,
        enable=options.enable,
        disable=options.disable,
        params=options.params,
        keep_dtype=options.keep_dtype,
        fusion_switch=options.fusion_switch,
    )

    def run(state: Compilation, stages: Sequence[str], asked: CompileOptions) -> None:
        for name in stages:
            with paused_collector():
                report = _run_stage(state, name, asked, witness, allow)
            if state.branch:
                report = replace(report, detail={"gear": state.branch, **report.detail})
            state.graph = report.graph
            state.stages.append(report)
            if report.trace is not None:
                state.trace.extend(report.trace)
            if observe is not None:
                observe(report)

    gears = gears_of(graph, options)
    if gears is not None:
        return compile_gears(tools, graph, gears, options, names, run)
    state = Compilation(tools, graph, graph)
    run(state, names, options)
    return state


def _run_stage(
    state: Compilation,
    name: str,
    options: CompileOptions,
    witness: Witness | None,
    allow: Allow | None,
) -> StageReport:
    step = _STEPS.get(name)
    if step is None:
        return run_rule_phase(state.tools, state.graph, name, witness, allow)
    started = perf_counter()
    before = len(state.graph.nodes)
    graph, detail = step(state, options)
    took_us = (perf_counter() - started) * 1e6
    return StageReport(name, took_us, before, len(graph.nodes), detail, graph, _marks(state))


Step = Callable[[Compilation, CompileOptions], tuple[Graph, dict[str, object]]]


def _prepare(state: Compilation, options: CompileOptions) -> tuple[Graph, dict[str, object]]:
    graph, report = prepare(
        state.graph,
        evaluate_node,
        schemas=state.tools.schemas,
        shapes=options.input_shapes,
        dims=options.dims,
        extra=state.tools.extra,
        folds=options.folds,
    )
    detail: dict[str, object] = {
        "n_folded": sum(item.n_folded for item in report.rounds),
        "n_merged": sum(item.n_merged_consts + item.n_merged_nodes for item in report.rounds),
        "n_dynamic": report.n_dynamic,
    }
    return graph, detail


def _set_precision(state: Compilation, options: CompileOptions) -> tuple[Graph, dict[str, object]]:
    tools = state.tools
    graph, report = set_precision(
        state.graph,
        tools.precision,
        device=tools.device,
        schemas=tools.schemas,
        lists=read_lists(tools.book),
        keep=options.keep_dtype,
        origin_ops=_ops_by_name(state.source),
        extra=tools.extra,
    )
    detail: dict[str, object] = {
        "mode": tools.precision,
        "n_low": report.n_low,
        "n_kept": report.n_kept,
        "n_casts": report.n_casts,
        "n_casts_before": count_casts(state.graph),
        "n_casts_after": count_casts(graph),
        "saturated": list(report.saturated),
    }
    return graph, detail


def _ops_by_name(graph: Graph) -> dict[str, str]:
    """The operator of each node as read, bodies included, by every name that users know it by."""
    found: dict[str, str] = {}
    for node in graph.nodes.values():
        found |= {name: node.op for name in (node.name, *node.origin.sources) if name}
        for body in node.bodies.values():
            found |= _ops_by_name(body.graph)
    return found


def _choose_formats(state: Compilation, _: CompileOptions) -> tuple[Graph, dict[str, object]]:
    graph, report = choose_formats(state.graph, state.tools.device, costs=state.tools.costs)
    return graph, {"n_transdata": report.n_transdata}


def _partition(state: Compilation, _: CompileOptions) -> tuple[Graph, dict[str, object]]:
    state.partition = partition_graph(
        state.graph,
        state.tools.device,
        annotations=state.trace.annotations,
        body_of=state.tools.body_of,
    )
    engines: dict[str, int] = {}
    for engine in state.partition.engine_of.values():
        engines[engine] = engines.get(engine, 0) + 1
    detail: dict[str, object] = {
        "n_clusters": len(state.partition.clusters),
        "n_static": sum(cluster.is_static for cluster in state.partition.clusters),
        "engines": engines,
    }
    if not state.partition.is_static:
        clusters = state.partition.clusters
        detail["n_dynamic_nodes"] = sum(len(one.nodes) for one in clusters if not one.is_static)
        detail["dynamic_because"] = find_causes(state.graph, state.partition)
    return state.graph, detail


def _plan(state: Compilation, options: CompileOptions) -> tuple[Graph, dict[str, object]]:
    device, graph = state.tools.device, state.graph
    partition = state.partition
    engines: Mapping[int, str] = partition.engine_of if partition is not None else {}

    def cost_us(node: Node) -> float:
        return state.tools.costs.node_in(graph, node).time

    state.plans = make_plans(
        graph,
        engines,
        cost_us=cost_us,
        streams=_streams(device, options.n_streams),
        limit_bytes=options.memory_limit_bytes or int(device.number("memory_bytes")),
        align_bytes=int(device.number("align_bytes")),
    )
    memory, schedule = state.plans.memory, state.plans.schedule
    detail: dict[str, object] = {
        "n_streams": schedule.n_streams,
        "n_events": len(schedule.events),
        "peak_bytes": memory.peak_bytes,
        "lower_bound_bytes": memory.lower_bound_bytes,
        "method": memory.method,
        "n_in_place": len(state.plans.in_place),
    }
    return graph, detail


def _streams(device: Device, n_streams: int | None) -> StreamOptions:
    """One stream, unless the device or the caller wants more; then each engine by its own rule."""
    wanted = n_streams or int(device.number("n_streams"))
    if wanted == 1:
        return StreamOptions(is_single=True)
    rules = {
        engine.name: EngineRule(
            "attach" if engine.is_attached else "independent" if engine.is_independent else "queue", wanted
        )
        for engine in device.engines
    }
    return StreamOptions(rules=rules, max_streams=int(device.number("max_streams")))


def _emit(state: Compilation, options: CompileOptions) -> tuple[Graph, dict[str, object]]:
    if state.plans is None or state.partition is None:
        raise AssertionError("emission comes after partition and plans")
    attrs: dict[str, OmAttr] = {
        "_gerules_precision": state.tools.precision,
        "_gerules_f16_overflow": str(state.tools.device.numbers.get("f16_overflow", "infinity")),
    }
    if state.gears is not None:
        state.om = emit_branches(state, attrs)
    else:
        state.om = emit(
            state.graph,
            state.plans,
            engines=state.partition.engine_of,
            device=state.tools.device.name,
            definitions=definition_texts(state.tools.book, state.graph),
            schemas=state.tools.schemas,
            attrs=attrs,
            ranges=ranges_of(options.input_shapes),
        )
    return state.graph, {"weight_bytes": state.om.weights.size_bytes}


_STEPS: Final[Mapping[str, Step]] = {
    "prepare": _prepare,
    "precision": _set_precision,
    "formats": _choose_formats,
    "partition": _partition,
    "plan": _plan,
    "emit": _emit,
}


def _marks(state: Compilation) -> dict[int, dict[str, Attr]]:
    """What partition and plans say of each node."""
    found: dict[int, dict[str, Attr]] = {}
    if state.partition is not None:
        for node, engine in state.partition.engine_of.items():
            found[node] = {"engine": engine, "cluster": state.partition.cluster_of[node]}
    if state.plans is not None:
        schedule = state.plans.schedule
        for step, stream in zip(schedule.steps, schedule.streams, strict=True):
            found.setdefault(state.plans.lowering.tasks[step].id, {})["stream"] = stream
        for node in state.graph.nodes.values():
            offsets = [state.plans.offset_of(value) for value in node.writes()]
            if offsets and offsets[0] is not None:
                found.setdefault(node.id, {})["at"] = offsets[0]
    return found
