"""Experiments: one model compiled again and again, each time with other things left out, run and judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gerules.dsl import RuleBook
from gerules.engine.index import Feature
from gerules.engine.trace import Proposal
from gerules.engine.witness import Applied, Sighting, When
from gerules.errors import GerulesError, table
from gerules.ir import Graph
from gerules.pipeline.asking import toolchain_of
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.compiler import LAST_STAGES, compile_graph, stage_names
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.ledger import Entry, entries_of, run_by_meaning, values_of_model
from gerules.pipeline.model import CompiledModel
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.suspects import Key, Suspects, find_suspects, names_of
from gerules.runtime.compare import has_something_finite, relative_error
from gerules.runtime.executor import Executor
from gerules.runtime.feeds import Item


class OutOfTrialsError(Exception):
    """No more compiles are allowed."""


@dataclass(slots=True)
class Listener:
    """A witness that keeps the rewrites, and asks for nothing else."""

    applied: list[Applied] = field(default_factory=list[Applied])

    def wants(self, rule: str) -> bool:
        """No attempts are of interest."""
        return False

    def see(self, sighting: Sighting) -> None:
        """Never called, as no rule is wanted."""

    def lack(self, rule: str, graph: str, feature: Feature, when: When) -> None:
        """Never called, as no rule is wanted."""

    def apply(self, applied: Applied) -> None:
        """Keep a rewrite."""
        self.applied.append(applied)


@dataclass(frozen=True, eq=False)
class Trial:
    """One compile and its run.

    `error` is the largest relative error of an output, None where the compile or the run failed for
    `fault`; `values` has what every node made.
    """

    error: float | None
    compiled: Compilation | None = None
    applied: Sequence[Applied] = ()
    values: Mapping[int, Item] = field(default_factory=dict[int, Item])
    fault: GerulesError | None = None

    @property
    def graph(self) -> Graph:
        """The graph that was run. Only of a trial without fault."""
        return self.finished.graph

    @property
    def finished(self) -> Compilation:
        """The compile. Only of a trial without fault."""
        if self.compiled is None:
            raise AssertionError("the trial came to nothing")
        return self.compiled


class Experiment:
    """Compiles a model with some of its rewrites and lowerings, and compares the outputs.

    Args:
        against: A precision mode: what the model, compiled in it, gives is wanted then, not what it gives by
            meaning. Rewrites that this compile does too are beyond suspicion.

    Raises:
        PipelineError: E20007 when no output to compare with holds a finite number.
        GerulesError: what compiling in the other mode, or running what is compared with, raises.
    """

    def __init__(
        self,
        graph: Graph,
        book: RuleBook,
        options: CompileOptions,
        feeds: Mapping[str, object],
        *,
        rtol: float,
        against: str | None,
        most_compiles: int,
    ) -> None:
        rule_stages = [name for name in stage_names(book, options.pipeline) if name not in LAST_STAGES]
        self.graph, self.book, self.feeds, self.rtol = graph, book, feeds, rtol
        self.options = replace(options, stop_after=rule_stages[-1])
        self.names = names_of(graph)
        self.n_compiles = 0
        self.most_compiles = most_compiles
        self.common: frozenset[Key] = frozenset()
        self.values: dict[int, Item] = {}
        if against is None:
            tools = toolchain_of(book, graph, options)
            self.values, self.wanted = values_of_model(graph, feeds, tools.body_of)
        else:
            listener = Listener()
            done = self._compile(replace(self.options, precision=against), listener, None)
            self.wanted = dict[str, Item](run_by_meaning(done, feeds, keep=self.values))
            self.common = frozenset(self.names.key_of(item.application) for item in listener.applied)
        if self.wanted and not any(has_something_finite(item) for item in self.wanted.values()):
            of = "the model" if against is None else f"the model in {against}"
            raise PipelineError(table.NOTHING_FINITE, of=of)

    def run(self, options: CompileOptions | None = None, *, keeps_values: bool = False) -> Trial:
        """Compile as a user would, run, and compare."""
        return self._run(options or self.options, None, keeps_values)

    def run_with(
        self,
        suspects: Suspects,
        places: Collection[int],
        options: CompileOptions,
        *,
        keeps_values: bool = False,
    ) -> Trial:
        """Compile with these suspects, all that is beyond suspicion, and nothing else."""
        some = [suspects.all[place] for place in places]
        allowed = {item.key for item in some if item.kind == "rule"} | self.common
        lowered = {name for item in some if item.kind == "lowered" for name in item.sources}
        # All names, not only those of suspects: what is fused with a kept node is on its own here.
        kept = self.names.nodes - lowered | {*options.keep_dtype}
        return self._run(replace(options, keep_dtype=sorted(kept)), allowed, keeps_values)

    def fails(self, trial: Trial) -> bool:
        """Whether outputs are out of tolerance. A trial that came to nothing says neither."""
        return trial.error is not None and not trial.error <= self.rtol

    def passes(self, trial: Trial) -> bool:
        """Whether all outputs are within tolerance."""
        return trial.error is not None and trial.error <= self.rtol

    def suspects_of(self, trial: Trial) -> Suspects:
        """Return all that a trial did."""
        return find_suspects(trial.finished, trial.applied, self.common)

    def entries_of(self, trial: Trial) -> list[Entry]:
        """Return the errors of a trial that kept its values, node by node."""
        model = trial.finished.stages[0].graph
        return list(entries_of(trial.graph, model, trial.values, self.values))

    @property
    def n_left(self) -> int:
        """How many more compiles are allowed."""
        return self.most_compiles - self.n_compiles

    def plan_error(self, options: CompileOptions) -> float:
        """Return the error of the offline model, run by its own plan. Raises what compile and run raise."""
        self._count()
        done = compile_graph(self.graph, self.book, replace(options, stop_after=None))
        outputs = Executor(CompiledModel(done).om).run(self.feeds, poison=True)
        return self._error(outputs)

    def _run(self, options: CompileOptions, allowed: Collection[Key] | None, keeps_values: bool) -> Trial:
        listener, values = Listener(), dict[int, Item]()
        try:
            done = self._compile(options, listener, allowed)
            outputs = run_by_meaning(done, self.feeds, keep=values if keeps_values else None)
        except GerulesError as fault:
            return Trial(None, fault=fault)
        return Trial(self._error(outputs), done, listener.applied, values)

    def _compile(
        self, options: CompileOptions, listener: Listener, allowed: Collection[Key] | None
    ) -> Compilation:
        self._count()
        if allowed is None:
            return compile_graph(self.graph, self.book, options, witness=listener)
        rules = self.book.rule_by_name

        def allow(proposal: Proposal) -> bool:
            return self.names.key_of(proposal) in allowed or not rules[proposal.rule].rewrite

        return compile_graph(self.graph, self.book, options, witness=listener, allow=allow)

    def _count(self) -> None:
        if self.n_left <= 0:
            raise OutOfTrialsError
        self.n_compiles += 1

    def _error(self, outputs: Mapping[str, Item]) -> float:
        missing = self.wanted.keys() ^ outputs.keys()
        if missing:
            return float("inf")
        return max((relative_error(outputs[name], item) for name, item in self.wanted.items()), default=0.0)
