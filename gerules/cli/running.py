"""Running for commands: the plan of an `.om`, or a graph by its meaning; and the runs to judge it by."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import BinaryIO, Final, Protocol, cast

import numpy as np

from gerules.backend.om import OmModel, read_om
from gerules.backend.ports import input_names
from gerules.cli.errors import CliError
from gerules.cli.made_up import are_fixed, run_made_up, sizes_beside, try_sizes
from gerules.cli.models import is_om
from gerules.cli.progress import Steps
from gerules.errors import table
from gerules.ir import Graph, TensorType, ValueType
from gerules.pipeline import load, make_toolchain, save, shipped_rules
from gerules.report.comparison import Array, OutputDifference, compare_outputs, unpack
from gerules.report.run_report import Check
from gerules.runtime.executor import FALLBACK, Executor
from gerules.runtime.program import OpTime
from gerules.runtime.reference import evaluate
from gerules.runtime.tolerances import default_rtol, reason_of_default
from gerules.text.files import write_files

REFERENCE: Final = "reference"
ONNXRUNTIME: Final = "onnxruntime"
JUDGES: Final = (REFERENCE, ONNXRUNTIME)

_ANY_SHAPE: Final = "of any shape"

Run = Callable[[Mapping[str, object]], dict[str, Array]]


@dataclass(frozen=True, slots=True)
class Program:
    """A file ready to run: what it takes, and how it runs. `precision` is empty for a plain graph.

    `gears` has the types of the inputs in each gear of a model that has some; `gear_of` says in which one
    inputs run. `ranges` are the sizes it was compiled for, where some were given.
    """

    inputs: Mapping[str, ValueType]
    optional: frozenset[str]
    precision: str
    how: str
    run: Run
    gears: Mapping[str, Mapping[str, ValueType]] = field(default_factory=dict[str, "Mapping[str, ValueType]"])
    gear_of: Callable[[Mapping[str, object]], str] = lambda _: ""
    is_hybrid: bool = False
    ranges: Mapping[str, Sequence[tuple[int, int]]] = field(
        default_factory=dict[str, "Sequence[tuple[int, int]]"]
    )

    def types_for(
        self, feeds: Mapping[str, Array], *, gear: str | None, has_dims: bool
    ) -> Mapping[str, ValueType]:
        """Return the types that inputs still to be made up have, beside those that are given.

        Args:
            gear: The gear asked for; without it the first that the given ones fit.
            has_dims: Whether sizes of symbolic dimensions are given, which then decide.

        Raises:
            CliError: E10003 for a gear that the model does not have.
        """
        if gear is not None:
            wanted = gear.replace(" ", "")
            if wanted not in self.gears:
                known = "; ".join(self.gears)
                raise CliError(
                    table.BAD_OPTION, option="--gear", value=gear, reason="the model has no such gear",
                    remedy=f"use one of {known}" if known else "leave it out: the model has no gears",
                )  # fmt: skip
            return self.gears[wanted]
        if not self.gears or has_dims:
            return self.inputs
        for types in self.gears.values():
            if all(_takes(types.get(name), array) for name, array in feeds.items()):
                return types
        return self.inputs


def open_program(path: Path, *, poison: bool, threads: bool, times: list[OpTime] | None) -> Program:
    """Read a file and make it ready.

    Args:
        poison: Spoil bytes that the plan says nobody needs.
        threads: Run each stream on a thread of its own.
        times: Gets the time of each launch of the last run.

    Raises:
        GerulesError: what the readers raise; CliError E10003 for switches that need a plan.
    """
    if is_om(path):
        return _open_om(read_om(path), poison=poison, threads=threads, times=times)
    asked = {"--poison": poison, "--streams": threads, "--profile-ops": times is not None}
    for option in (name for name, is_on in asked.items() if is_on):
        raise CliError(
            table.BAD_OPTION, option=option, value="given", reason=f"{path.name} is no .om and has no plan",
            remedy="compile the model, and run the .om",
        )  # fmt: skip
    graph = load(path)
    types = dict(zip(input_names(graph), map(graph.type_of, graph.inputs), strict=True))
    optional = frozenset(
        name for name, value in zip(types, graph.inputs, strict=True) if value in graph.defaults
    )
    return Program(types, optional, "", "by meaning", lambda feeds: evaluate_graph(graph, feeds))


def _open_om(model: OmModel, *, poison: bool, threads: bool, times: list[OpTime] | None) -> Program:
    executor = Executor(model)
    precision = model.attrs.get("_gerules_precision")
    words = ["by its plan", *(["poisoned"] if poison else []), *(["streams on threads"] if threads else [])]

    gears = executor.gears

    def gear_of(feeds: Mapping[str, object]) -> str:
        found = executor.gear_of(feeds)
        if gears is None or found is None:
            return ""
        return f"gear {gears.gears[found].text}" if found != FALLBACK else _ANY_SHAPE

    def run(feeds: Mapping[str, object]) -> dict[str, Array]:
        return executor.run(feeds, poison=poison, threads=threads, profile=times)

    return Program(
        {port.name: port.type for port in executor.io.inputs},
        frozenset(port.name for port in executor.io.inputs if port.has_default),
        precision if isinstance(precision, str) else "",
        ", ".join(words),
        run,
        {
            gear.text: {port.name: port.type for port in executor.io_of(at).inputs}
            for at, gear in enumerate(gears.gears)
        }
        if gears is not None
        else {},
        gear_of,
        gears is not None and gears.is_hybrid,
        executor.ranges,
    )


def _takes(type: ValueType | None, array: Array) -> bool:
    return isinstance(type, TensorType) and type.is_static and array.shape == type.static_shape


def evaluate_graph(graph: Graph, feeds: Mapping[str, object]) -> dict[str, Array]:
    """Run a graph by meaning, operators of the shipped rules included. Raises as `evaluate`."""
    if any("::" in node.op for node in graph.nodes.values()):
        tools = make_toolchain(shipped_rules(), graph.opsets)
        return evaluate(graph, feeds, body_of=tools.body_of)
    return evaluate(graph, feeds)


def timed(run: Run, feeds: Mapping[str, object]) -> tuple[dict[str, Array], float]:
    """Run once and return the outputs and the microseconds it took."""
    started = perf_counter()
    outputs = run(feeds)
    return outputs, (perf_counter() - started) * 1e6


def check_outputs(
    outputs: Mapping[str, Array],
    feeds: Mapping[str, object],
    model: Path,
    *,
    against: str,
    precision: str,
    rtol: float | None,
) -> Check:
    """Run the model that a file was compiled from, and compare.

    Args:
        against: `reference` or `onnxruntime`.
        precision: Decides the tolerance where `rtol` is None.

    Raises:
        GerulesError: what reading and running the model raise; CliError E10003 when the judge cannot.
    """
    wanted = judge(model, feeds, against)
    reason = "given" if rtol is not None else reason_of_default(precision)
    allowed = default_rtol(precision) if rtol is None else rtol
    found: Sequence[OutputDifference] = compare_outputs(outputs, wanted, rtol=allowed)
    return Check(str(model), against, reason, found)


def validate_om(om_path: Path, model: Path, *, is_quiet: bool = False) -> Check:
    """Run an `.om` on made-up inputs, freed bytes spoiled, and compare with the model by meaning.

    Each gear is run, and the plan of any shape of a hybrid model at a shape that is no gear. Sizes that are
    open are those with which the model runs by meaning.

    Raises:
        GerulesError: what reading and running either of them raise; CliError E10048 when no size fits.
    """
    with Steps(f"validating {om_path.name}", 2, is_quiet=is_quiet) as steps:
        steps.begin("running")
        program = open_program(om_path, poison=True, threads=False, times=None)
        graph = load(model)
        names = input_names(graph)
        allowed = default_rtol(program.precision)
        found: list[OutputDifference] = []
        told: list[str] = []

        def run_reference(feeds: Mapping[str, Array]) -> dict[str, Array]:
            return evaluate_graph(graph, _renamed(feeds, names))

        for label, types in _plans(program):
            needed = {name: type for name, type in types.items() if name not in program.optional}
            if label == _ANY_SHAPE:
                trials = sizes_beside(list(program.gears.values()), needed)
                others = (types for types in trials if not _is_gear(program, types))
                tried = try_sizes(others, run_reference)
                label = f"at {tried.sizes}, no gear"
            else:
                tried = run_made_up(needed, run_reference, ranges=program.ranges)
                if not are_fixed(needed):
                    told.append(tried.sizes)
            steps.begin("checking")
            outputs = program.run(tried.feeds)
            found += [
                replace(item, name=f"{item.name} {label}".rstrip())
                for item in compare_outputs(outputs, tried.result, rtol=allowed)
            ]
        reason = reason_of_default(program.precision)
        return Check(str(model), REFERENCE, reason, found, "; ".join(told))


def _plans(program: Program) -> list[tuple[str, Mapping[str, ValueType]]]:
    """The plans of a program, what each is called in a check, and the types of its inputs."""
    found = [(f"in gear {gear}", types) for gear, types in program.gears.items()]
    if not found or program.is_hybrid:
        found.append((_ANY_SHAPE if found else "", program.inputs))
    return found


def _is_gear(program: Program, types: Mapping[str, ValueType]) -> bool:
    return any(all(gear[name] == type for name, type in types.items()) for gear in program.gears.values())


def judge(model: Path, feeds: Mapping[str, object], against: str) -> dict[str, Array]:
    """Run a model by another way than the one that is judged. Raises as `check_outputs`."""
    if against == ONNXRUNTIME and model.suffix.lower() == ".graph":
        with TemporaryDirectory(prefix="gerules-") as folder:
            written = Path(folder) / "model.onnx"
            save(load(model), written)
            return _run_onnxruntime(written, feeds)
    if against == ONNXRUNTIME:
        return _run_onnxruntime(model, feeds)
    graph = load(model)
    return evaluate_graph(graph, _renamed(feeds, input_names(graph)))


def write_outputs(outputs: Mapping[str, Array], path: Path) -> None:
    """Write arrays as an .npz file, whole or not at all; those in a sequence as `name[0]`, `name[1]`.

    Types that such files lack (bf16, f8, ...) are widened to f32 or i8, which loses nothing.

    Raises:
        CliError: E10004 when the system refuses.
    """
    try:
        write_files([(path, lambda file: _write_npz(file, outputs))])
    except OSError as error:
        raise CliError(table.CANNOT_WRITE, path=path, reason=error.strerror or str(error)) from None


def _write_npz(file: BinaryIO, outputs: Mapping[str, Array]) -> None:
    # numpy's own writer takes names as keywords, and one of them is its own.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in unpack(outputs).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, _plain(array), allow_pickle=False)


def _plain(array: Array) -> Array:
    if array.dtype.kind == "O":
        return array.astype(np.str_)
    if array.dtype.isbuiltin == 1:
        return array
    return array.astype(np.int8 if "int" in array.dtype.name else np.float32)


def _renamed(feeds: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    """The feeds by the names of the model; by place where the names are not its own."""
    if len(feeds) != len(names) or set(feeds) <= set(names):
        return dict(feeds)
    return dict(zip(names, feeds.values(), strict=True))


class _OrtPort(Protocol):
    name: str


class _OrtSession(Protocol):
    """What is used of an onnxruntime session, whose own stubs leave most types open."""

    def get_inputs(self) -> Sequence[_OrtPort]: ...

    def get_outputs(self) -> Sequence[_OrtPort]: ...

    def run(self, output_names: None, input_feed: Mapping[str, object]) -> Sequence[Array]: ...


def _run_onnxruntime(model: Path, feeds: Mapping[str, object]) -> dict[str, Array]:
    try:
        onnxruntime = import_module("onnxruntime")
    except ImportError:
        raise _no_judge("onnxruntime is not installed", "pip install onnxruntime") from None
    if not model.is_file():
        raise CliError(table.FILE_NOT_FOUND, path=model, reason="there is no such file")
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = cast(
            _OrtSession,
            onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]),
        )
        given = _renamed(feeds, [port.name for port in session.get_inputs()])
        results = session.run(None, given)
    except Exception as error:  # its exceptions have no base of their own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise _no_judge(reason, "compare with the reference instead") from None
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, results, strict=True))


def _no_judge(reason: str, remedy: str) -> CliError:
    return CliError(table.BAD_OPTION, option="--against", value=ONNXRUNTIME, reason=reason, remedy=remedy)
