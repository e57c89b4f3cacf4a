"""What runs in the place of a graph of torch: a compiled model for each set of shapes, or torch itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np

from gerules.backend.ports import input_names, output_names
from gerules.dsl import RuleBook
from gerules.dynamo.conversion import Converted, Output, convert
from gerules.dynamo.fitness import expected_results, unfit_arguments, unfit_graph
from gerules.dynamo.gears import Gears, check_gears, gears_of
from gerules.dynamo.options import BackendOptions
from gerules.dynamo.reports import GraphReport, warn_eager
from gerules.dynamo.tensors import as_array, as_tensor, with_strides
from gerules.errors import Diagnostic, GerulesError, table
from gerules.pipeline import (
    CompiledModel,
    CompileOptions,
    PipelineError,
    compile_graph,
    make_toolchain,
    stage_names,
)
from gerules.pipeline.api import book_of
from gerules.pipeline.cache import cache_settings, compile_cached
from gerules.pipeline.toolchain import HOST

_MOST_CHANGES: Final = 2
"""Changes of a parameter after which it counts as an input: compiling costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor that was taken for a constant, and what tells whether it still has the same elements."""

    at: int
    address: int
    version: int

    def is_unchanged(self, arg: Any) -> bool:
        return arg._version == self.version and arg.data_ptr() == self.address


@dataclass(frozen=True, slots=True)
class Entry:
    """A model for one set of shapes."""

    model: CompiledModel
    inputs: tuple[tuple[int, str], ...]
    names: tuple[str, ...]
    outputs: tuple[Output, ...]
    parameters: tuple[Parameter, ...]


class GraphRunner:
    """Computes a functional graph of torch.

    A model is compiled for each set of shapes when it first comes, and kept, `cache_size` of them. What
    cannot be compiled is run by torch from then on, with one warning.
    """

    def __init__(
        self, torch: Any, graph: Any, options: BackendOptions, report: GraphReport, names: Sequence[str] = ()
    ) -> None:
        self._torch, self._graph, self._options, self._report = torch, graph, options, report
        self._entries: OrderedDict[object, Entry] = OrderedDict()
        self._changes: dict[int, int] = {}
        self._gears: Gears | None = None
        self._names = tuple(names)
        self._expected = expected_results(torch, graph)
        self._lock = threading.Lock()
        self._is_eager = False
        self._book: RuleBook | None = None
        self._refuse(unfit_graph(torch, graph))

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        self._report.n_runs += 1
        around = self._options.hooks.around
        if around is not None:
            self._report.state, self._report.reason = "eager", "the configuration asks for it"
            return around(self._graph, args, self._report.number)
        self._check_gears(args)
        if not self._is_eager:
            with self._lock:
                entry = self._entry_for(args)
            results = None if entry is None else self._run(entry, args)
            if results is not None:
                return results
        return self._graph(*args)

    def _check_gears(self, args: list[Any]) -> None:
        if self._gears is None:
            # Only the tensor of the first call carries the mark.
            self._gears = gears_of(args)
        if self._gears:
            check_gears(self._gears, args, is_zipped=self._options.hooks.zips_gears, names=self._names)

    def _entry_for(self, args: list[Any]) -> Entry | None:
        unfit = unfit_arguments(self._torch, args)
        if unfit:
            self._refuse(unfit)
            return None
        key = tuple(_shape_key(self._torch, arg) for arg in args)
        entry = self._entries.get(key)
        if entry is not None:
            changed = [item.at for item in entry.parameters if not item.is_unchanged(args[item.at])]
            if not changed:
                self._entries.move_to_end(key)
                return entry
            for at in changed:
                self._changes[at] = self._changes.get(at, 0) + 1
            del self._entries[key]
        started = perf_counter()
        self._check_options()
        try:
            entry = self._compile(args)
        except GerulesError as error:
            if self._options.fallback == "error" or self._is_users(error):
                raise
            self._fall_back(self._explain(error))
            return None
        self._report.took_us += (perf_counter() - started) * 1e6
        self._report.n_compiles += 1
        self._report.state = "compiled"
        self._entries[key] = entry
        while len(self._entries) > self._options.cache_size:
            self._entries.popitem(last=False)
        self._keep_reports(entry, args)
        return entry

    def _check_options(self) -> None:
        """Raise for what is wrong whatever the graph: no other graph would fare better."""
        if self._book is None:
            wanted = self._options.compile
            book = book_of(self._options.rules)
            make_toolchain(
                book,
                {},
                device=wanted.device,
                precision=wanted.precision,
                profile=wanted.profile,
                enable=wanted.enable,
                disable=wanted.disable,
                params=wanted.params,
                fusion_switch=wanted.fusion_switch,
            )
            stage_names(book, wanted.pipeline)
            self._book = book

    def _compile(self, args: list[Any]) -> Entry:
        assert self._book is not None
        parameters = self._parameters(args)
        make = self._options.hooks.translations
        found = convert(
            self._torch,
            self._graph,
            args,
            {item.at for item in parameters},
            {} if make is None else make(),
            # The same in every process, for the compile cache; reports have the number.
            "graph",
        )
        wanted = self._options.compile
        here = wanted if wanted.device == HOST else CompileOptions()
        model = self._compiled(found, here)
        names = input_names(found.graph)
        entry = Entry(
            model,
            tuple(zip(found.inputs, names, strict=True)),
            tuple(output_names(found.graph)),
            found.outputs,
            parameters,
        )
        if self._options.verify_rtol is not None:
            self._verify(entry, args, self._options.verify_rtol)
        if wanted.device != HOST:
            self._compile_for_device(found, args)
        if self._options.hooks.on_compiled is not None:
            self._options.hooks.on_compiled(model, self._report.number)
        return entry

    def _compiled(self, found: Converted, options: CompileOptions) -> CompiledModel:
        assert self._book is not None
        cache = self._options.cache
        if cache is False:
            return CompiledModel(compile_graph(found.graph, self._book, options))
        settings = cache_settings(None if cache is True else cache)
        return compile_cached(found.graph, self._book, options, settings)

    def _compile_for_device(self, found: Converted, args: list[Any]) -> None:
        compiled = self._compiled(found, self._options.compile)
        self._report.device_models[self._shapes_of(found.inputs, args)] = compiled

    def _parameters(self, args: list[Any]) -> tuple[Parameter, ...]:
        if not self._options.freeze:
            return ()
        torch = self._torch
        return tuple(
            Parameter(at, arg.data_ptr(), arg._version)
            for at, arg in enumerate(args)
            if isinstance(arg, torch.Tensor)
            and _is_parameter(torch, arg)
            and not arg.is_inference()
            and self._changes.get(at, 0) < _MOST_CHANGES
        )

    def _run(self, entry: Entry, args: list[Any]) -> list[Any] | None:
        """Run a model; None, and never again, when a result is not of the type that torch has for it."""
        torch = self._torch
        feeds = {name: as_array(torch, args[at]) for at, name in entry.inputs}
        run = self._options.hooks.run_model
        given = entry.model.run(feeds) if run is None else run(entry.model, feeds, self._report.number)
        results = [as_tensor(torch, given[name]) for name in entry.names]
        found: list[Any] = []
        for item, wanted in zip(entry.outputs, self._expected, strict=True):
            if item.kind == "value":
                found.append(item.value)
            elif item.kind == "argument":
                found.append(args[item.at])
            else:
                result = results[item.at]
                if not wanted.is_met_by(result):
                    kinds = f"{result.dtype}{list(result.shape)} instead of {wanted.dtype}{wanted.shape}"
                    self._refuse(f"result {len(found)} came out as {kinds}")
                    return None
                found.append(with_strides(torch, result, wanted.strides))
        return found

    def _verify(self, entry: Entry, args: list[Any], rtol: float) -> None:
        """Compare a new model with torch on the arguments at hand. Raises PipelineError E10093."""
        copies = [arg.clone() if isinstance(arg, self._torch.Tensor) else arg for arg in args]
        wanted, got = self._graph(*copies), self._run(entry, args)
        if got is None:
            return
        for at, (want, have) in enumerate(zip(wanted, got, strict=True)):
            if not isinstance(want, self._torch.Tensor):
                continue
            error = _relative_error(as_array(self._torch, have), as_array(self._torch, want))
            if not error <= rtol:
                raise PipelineError(
                    table.VERIFY_FAILED,
                    number=self._report.number,
                    output=at,
                    error=f"{error:.3g}",
                    rtol=rtol,
                )

    def _is_users(self, error: GerulesError) -> bool:
        """Whether an option is wrong for this graph: right numbers by torch would hide that."""
        codes = {item.code for item in error.diagnostics}
        is_limit = self._options.compile.memory_limit_bytes is not None
        return table.UNKNOWN_KEEP in codes or (is_limit and table.OUT_OF_MEMORY in codes)

    def _explain(self, error: GerulesError) -> list[Diagnostic]:
        first = error.diagnostics[0]
        notes = [*first.notes, *([first.hint] if first.hint else [])]
        reason = f"{first.code.code}: {first.message}"
        device = self._options.compile.device
        if device != HOST:
            notes.append(f"there is no model of this graph for {device}")
        facts = {"number": self._report.number, "reason": reason}
        return [Diagnostic(table.RUNS_EAGERLY, facts, notes=tuple(notes), severity="warning")]

    def _refuse(self, reason: str) -> None:
        """Let torch run this graph from now on, when there is a reason."""
        if reason:
            facts = {"number": self._report.number, "reason": reason}
            self._fall_back([Diagnostic(table.RUNS_EAGERLY, facts, severity="warning")])

    def _fall_back(self, found: list[Diagnostic]) -> None:
        if self._options.fallback == "error":
            raise PipelineError(found)
        self._is_eager = True
        self._entries.clear()
        self._report.state = "eager"
        self._report.reason = "; ".join([str(found[0].facts["reason"]), *found[0].notes[:1]])
        warn_eager(found[0])

    def _keep_reports(self, entry: Entry, args: list[Any]) -> None:
        models = self._report.models
        models[self._shapes_of([at for at, _ in entry.inputs], args)] = entry.model
        while len(models) > self._options.cache_size:
            oldest = next(iter(models))
            del models[oldest]
            self._report.device_models.pop(oldest, None)

    def _shapes_of(self, inputs: Sequence[int], args: list[Any]) -> str:
        return ", ".join(
            f"{str(args[at].dtype).removeprefix('torch.')}{list(args[at].shape)}" for at in inputs
        )


def _shape_key(torch: Any, arg: Any) -> object:
    if isinstance(arg, torch.Tensor):
        return (arg.dtype, tuple(arg.shape))
    return (type(arg).__name__, arg)


def _is_parameter(torch: Any, arg: Any) -> bool:
    """Whether a tensor belongs to a module: TorchDynamo marks parameters and buffers that it lifts."""
    return isinstance(arg, torch.nn.Parameter) or hasattr(arg, "_dynamo_static_input_type")


def _relative_error(got: Any, want: Any) -> float:
    """The largest difference over the largest magnitude; infinite where one is finite and the other not."""
    if got.shape != want.shape:
        return float("inf")
    if not want.size:
        return 0.0
    one, two = np.asarray(got, np.float64), np.asarray(want, np.float64)
    finite = np.isfinite(two)
    if not np.array_equal(one[~finite], two[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(one[finite] - two[finite]).max() / max(np.abs(two[finite]).max(), 1e-30))
