"""Rule phases of a pipeline by name, for whole compiles and for a single phase on a single graph."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Final

from gerules.dsl import RuleBook
from gerules.dsl.book import suggest
from gerules.dsl.declarations import Phase
from gerules.dsl.expressions import Ident
from gerules.engine.trace import Allow, Trace
from gerules.engine.witness import Witness
from gerules.errors import Source, Span, table
from gerules.ir import Graph
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.stages import StageReport, fusions_of
from gerules.pipeline.toolchain import Toolchain

CUSTOM: Final = "custom"
"""The phase of rule sets that no declared phase runs: those of a user's own files.

Source: the Graph Engine runs custom passes before its own when no priority is configured.
"""

_BEFORE: Final = "fuse_ops"


def phase_names(book: RuleBook, name: str) -> tuple[str, ...]:
    """Return the phases that a name stands for: a phase, or a named pipeline.

    A pipeline that fuses operators begins to do so with the rule sets that no phase names.

    Raises:
        PipelineError: E40050 when it is neither.
    """
    if name in book.phases:
        return (name,)
    if name == CUSTOM:
        return (CUSTOM,)
    if name in book.pipelines:
        found = [phase.name for phase in book.pipelines[name].phases]
        if _BEFORE in found and _custom_sets(book):
            found.insert(found.index(_BEFORE), CUSTOM)
        return tuple(found)
    known = [*book.phases, *book.pipelines]
    raise PipelineError(table.UNKNOWN_PHASE, name=name, known=", ".join(known), notes=suggest(name, known))


def run_rule_phase(
    tools: Toolchain,
    graph: Graph,
    name: str,
    witness: Witness | None = None,
    allow: Allow | None = None,
) -> StageReport:
    """Run one phase of the book; the report holds the new graph and the trace."""
    started = perf_counter()
    phase = phase_of(tools.book, name)
    after, trace = tools.phases.run(
        graph, phase, infer=tools.infer, cost=tools.costs.node, witness=witness, allow=allow
    )
    took_us = (perf_counter() - started) * 1e6
    detail = {"fusions": fusions_of(trace)}
    return StageReport(name, took_us, len(graph.nodes), len(after.nodes), detail, after, trace=trace)


def phase_of(book: RuleBook, name: str) -> Phase:
    """Return a phase by one of the names that `phase_names` gives."""
    return _custom_phase(book) if name == CUSTOM else book.phases[name]


def run_phases(tools: Toolchain, graph: Graph, names: Sequence[str]) -> tuple[Graph, Trace]:
    """Run phases one after the other.

    Raises:
        RuleError: E40030 when rules do not stop, E40036 or E40037 when the conditions of a phase do not hold.
    """
    trace = Trace()
    for name in names:
        report = run_rule_phase(tools, graph, name)
        graph = report.graph
        if report.trace is not None:
            trace.extend(report.trace)
    return graph, trace


def _custom_sets(book: RuleBook) -> list[str]:
    named = [ident.name for phase in book.phases.values() for ident in (*phase.run, *phase.then)]
    return [
        name
        for name in book.set_names
        if book.rules_of(name) and not any(name == one or name.startswith(f"{one}.") for one in named)
    ]


def _custom_phase(book: RuleBook) -> Phase:
    span = Span(Source("<custom>", ""), 0, 0)
    sets = tuple(Ident(span, name) for name in _custom_sets(book))
    return Phase(
        span,
        name=Ident(span, CUSTOM),
        doc="rules of sets that no phase names",
        run=sets,
        then=(),
        order="outputs_first",
        is_fixpoint=True,
        max_rounds=None,
        is_once=False,
        requires=(),
        ensures=(),
    )
