"""The graph optimisers of the field: each is run, or its result judged, in a process of its own.

    python bench/peer_tools.py run TOOL IN.onnx OUT.onnx [CPU_SECONDS]
    python bench/peer_tools.py check IN.onnx OUT.onnx ...

Prints one line of JSON a file. `bench/peers.py` makes tables of them.
"""

# Most of these packages have no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUnknownLambdaType=false

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

Optimise = Callable[[Path, Path], float]
"""Reads a model, optimises it and writes it; returns the CPU seconds between reading and writing."""

STANDARD_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
LARGEST_GROWTH, SLACK_BYTES = 1.05, 1 << 20
"""A result may be this much larger than its model and no more; the slack is for the types of small graphs."""
CLOSE = 1e-3
"""Largest max|got - want| / max|want| of an equal output: float32 in another order, through deep networks."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A column: the package it needs, what it is, and how it is made ready (imports, rules read)."""

    package: str
    what: str
    make: Callable[[], Optimise]


def cpu_s() -> float:
    """CPU seconds of this process, all threads, and of what it started."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


# ---------------------------------------------------------------- gerules
def _gerules(**options: Any) -> Callable[[], Optimise]:
    def make() -> Optimise:
        import gerules

        book = gerules.load_rules([])

        def run(source: Path, target: Path) -> float:
            graph = gerules.load(source, rules=book)
            started = cpu_s()
            graph, _ = gerules.rewrite(graph, book, **options)
            took_s = cpu_s() - started
            gerules.save(graph, target, rules=book)
            return took_s

        return run

    return make


# ---------------------------------------------------------------- peers
def _on_protos(make: Callable[[], Callable[[Any], Any]]) -> Callable[[], Optimise]:
    """A tool that takes a ModelProto and gives one."""

    def ready() -> Optimise:
        import onnx

        optimise = make()

        def run(source: Path, target: Path) -> float:
            model = onnx.load(source)
            started = cpu_s()
            model = optimise(model)
            took_s = cpu_s() - started
            onnx.save(model, target)
            return took_s

        return run

    return ready


def _onnxscript() -> Callable[[Any], Any]:
    from onnxscript import optimizer, rewriter

    return lambda model: rewriter.rewrite(optimizer.optimize(model))


def _onnxscript_ort() -> Callable[[Any], Any]:
    import onnx_ir
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    return lambda model: onnx_ir.to_proto(optimize_for_ort(onnx_ir.from_proto(model))[0])


def _onnxsim() -> Callable[[Any], Any]:
    import onnxsim

    return lambda model: onnxsim.simplify(model)[0]


def _onnxslim() -> Callable[[Any], Any]:
    import onnxslim

    return lambda model: onnxslim.slim(model)


def _onnxoptimizer(*, is_whole: bool) -> Callable[[], Callable[[Any], Any]]:
    def make() -> Callable[[Any], Any]:
        import onnxoptimizer

        if not is_whole:
            return lambda model: onnxoptimizer.optimize(model)
        kinds = ("fuse_", "eliminate_", "extract_")
        passes = [name for name in onnxoptimizer.get_available_passes() if name.startswith(kinds)]
        return lambda model: onnxoptimizer.optimize(model, passes, fixed_point=True)

    return make


def _onnxruntime(level: str) -> Callable[[], Optimise]:
    def make() -> Optimise:
        import onnxruntime

        def run(source: Path, target: Path) -> float:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
            options.optimized_model_filepath = str(target)
            options.intra_op_num_threads = 1
            options.log_severity_level = 3
            started = cpu_s()
            onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
            return cpu_s() - started

        return run

    return make


TOOLS: dict[str, Tool] = {
    "gerules": Tool("gerules", "all rules of fusion, for the host", _gerules()),
    "gerules std": Tool("gerules", "the same, standard operators only", _gerules(onnx_only=True)),
    "gerules any size": Tool("gerules", "the file may grow", _gerules(max_growth=None)),
    "gerules std any size": Tool("gerules", "both", _gerules(onnx_only=True, max_growth=None)),
    "onnxscript": Tool("onnxscript", "optimizer.optimize, then rewriter.rewrite", _on_protos(_onnxscript)),
    "onnxscript ort": Tool("onnxscript", "ort_fusions.optimize_for_ort", _on_protos(_onnxscript_ort)),
    "onnxsim": Tool("onnxsim", "simplify", _on_protos(_onnxsim)),
    "onnxslim": Tool("onnxslim", "slim", _on_protos(_onnxslim)),
    "onnxoptimizer": Tool(
        "onnxoptimizer", "optimize, its own choice of passes", _on_protos(_onnxoptimizer(is_whole=False))
    ),
    "onnxoptimizer fix": Tool(
        "onnxoptimizer",
        "all of fuse_, eliminate_, extract_ to a fixed point",
        _on_protos(_onnxoptimizer(is_whole=True)),
    ),
    "ort basic": Tool("onnxruntime", "offline, level basic", _onnxruntime("ORT_ENABLE_BASIC")),
    "ort extended": Tool("onnxruntime", "offline, level extended", _onnxruntime("ORT_ENABLE_EXTENDED")),
    "ort all": Tool("onnxruntime", "offline, level all", _onnxruntime("ORT_ENABLE_ALL")),
}
"""Every tool by name. onnxruntime reads, optimises and writes in one call, so its tool time is all of it."""


# ---------------------------------------------------------------- one run
def run(name: str, source: Path, target: Path, limit_s: float | None) -> dict[str, object]:
    """Run one tool on one file in this process.

    Args:
        limit_s: CPU seconds after imports, after which the system ends this process.
    """
    optimise = TOOLS[name].make()
    start_s = cpu_s()
    if limit_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(start_s + limit_s) + 1, resource.RLIM_INFINITY))
    tool_s = optimise(source, target)
    whole_s = cpu_s() - start_s
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB
    return {"start_s": start_s, "tool_s": tool_s, "whole_s": whole_s, "rss_mb": rss_mb}


# ---------------------------------------------------------------- what came out
def check(source: Path, targets: Iterable[Path]) -> Iterator[dict[str, object]]:
    """Judge results against the model they come from: nodes, checker, and two inputs through onnxruntime."""
    import onnx

    from bench import zoo
    from tests.models.oracle import ort_outputs, relative_error

    symbols = [
        dim.dim_param
        for value in onnx.load(source, load_external_data=False).graph.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    ]
    feeds = [zoo.inputs(source, 1), zoo.inputs(source, 2, dims=dict.fromkeys(symbols, 4))]
    wanted = [ort_outputs(source, feed) for feed in feeds]
    for target in targets:
        model = onnx.load(target)
        domains = {node.domain for node in _nodes(model.graph)}
        found: dict[str, object] = {
            "target": str(target),
            "nodes": sum(1 for _ in _nodes(model.graph)),
            "standard": domains <= STANDARD_DOMAINS,
            "grown": target.stat().st_size > LARGEST_GROWTH * source.stat().st_size + SLACK_BYTES,
            "valid": True,
        }
        try:
            onnx.checker.check_model(str(target), full_check=True)
        except Exception as fault:  # whatever it is, the file is refused, and that is the finding
            found |= {"valid": False, "fault": _short(fault)}
        try:
            results = [ort_outputs(target, feed) for feed in feeds]
            error = max(
                relative_error(got[key], want[key]) if key in got else float("inf")
                for got, want in zip(results, wanted, strict=True)
                for key in want
            )
            found |= {"loads": True, "error": error, "equal": error <= CLOSE}
        except Exception as fault:  # onnxruntime raises a type of its own for each state of failure
            found |= {"loads": False, "fault": _short(fault)}
        yield found


def _nodes(graph: Any) -> Iterator[Any]:
    """Nodes of a graph and the bodies in it; what a function holds counts as the one node that calls it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body)


def _short(fault: Exception) -> str:
    return " ".join(f"{type(fault).__name__}: {fault}".split())[:200]


def is_installed(tool: Tool) -> bool:
    """Whether the package of a tool is there."""
    return version_of(tool.package) is not None


def version_of(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def main(arguments: list[str]) -> None:
    """Do what one line of the command says."""
    verb, *rest = arguments
    if verb == "run":
        name, source, target, *limit = rest
        print(json.dumps(run(name, Path(source), Path(target), float(limit[0]) if limit else None)))
    else:
        for found in check(Path(rest[0]), [Path(item) for item in rest[1:]]):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
