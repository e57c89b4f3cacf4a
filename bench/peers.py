"""gerules against the other optimisers of ONNX graphs, in one run: CPU time, memory, nodes left, and truth.

    python bench/peers.py                      # chains of 1k and 10k nodes, every tool; C++ ones at 100k too
    python bench/peers.py --quick              # 1k only
    python bench/peers.py --models             # real models: nodes left by each tool
    python bench/peers.py --graphs resnet --tools gerules "ort extended" --sizes 1000

The peers come with `pip install -e '.[peers]'`; one that is not installed is named in the table. Each tool,
graph and size runs in a fresh process (`bench/peer_tools.py`), which the system ends at its limit of CPU
seconds. Every result is judged by onnx's full check, and run in onnxruntime, with its optimisations off, on
two inputs. Prints Markdown.
"""

# The signatures of onnx leave types open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnx

from bench import generate, zoo
from bench.peer_tools import TOOLS, is_installed, version_of

CHAINS = ("resnet", "transformer", "noop_chain", "branches", "wide")
SIZES = (1_000, 10_000, 100_000)
CHAIN_TOOLS = tuple(name for name in TOOLS if "any size" not in name)
_SLOW = frozenset({"onnxscript", "onnxoptimizer fix", "ort basic", "ort all"})
QUICK_TOOLS = tuple(name for name in CHAIN_TOOLS if name not in _SLOW)
QUICK_LIMIT_S = 15.0
LARGEST_TOOLS = ("gerules", "gerules std", "onnxsim", "ort extended")
"""Those whose growth allows 100,000 nodes at all."""

LARGEST_JUDGED = 20_000
"""Results of larger graphs are counted, not run: onnxruntime alone would take longer than all tools."""

MODELS = tuple(name for name in zoo.NAMES if not name.endswith(("_dyn", "_seq")))

WALL_FACTOR = 8
"""Wall seconds a process may take for each CPU second of its limit; more means that the machine is busy."""


@dataclass(slots=True)
class Result:
    """What one tool did with one graph. `stopped` says why there is nothing else."""

    stopped: str = ""
    start_s: float = 0.0
    tool_s: float = 0.0
    whole_s: float = 0.0
    rss_mb: float = 0.0
    found: dict[str, object] = field(default_factory=dict[str, object])

    @property
    def marks(self) -> str:
        """`*` refused by the checker, `!` not loadable, `≠` other numbers, `^` a file of more than x1.05."""
        found = self.found
        marks = "" if found.get("valid", True) else "*"
        if "loads" in found and not found["loads"]:
            marks += "!"
        elif "equal" in found and not found["equal"]:
            marks += "≠"
        return marks + ("^" if found.get("grown", False) else "")

    @property
    def is_good(self) -> bool:
        """Whether it is a model that computes the same, or was too large to be asked."""
        return not self.stopped and not set(self.marks) & set("*!≠")

    @property
    def n_nodes(self) -> int | None:
        """Nodes left; None without a result."""
        nodes = self.found.get("nodes")
        return nodes if isinstance(nodes, int) else None

    def cell(self) -> str:
        """Nodes left, with marks."""
        return self.stopped if self.n_nodes is None else f"{self.n_nodes}{self.marks}"


Row = dict[str, Result]
"""What each tool did with one graph."""


def run_tool(source: Path, limit_s: float, name: str, target: Path) -> Result:
    """Run a tool in a process of its own."""
    if not is_installed(TOOLS[name]):
        return Result("not installed")
    command = [sys.executable, str(_TOOLS_FILE), "run", name, str(source), str(target), str(limit_s)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=limit_s * WALL_FACTOR)
    except subprocess.TimeoutExpired:
        return Result(f"> {limit_s:.0f} s")
    if run.returncode == -_SIGXCPU:
        return Result(f"> {limit_s:.0f} s")
    if run.returncode or not target.exists():
        lines = (run.stderr or run.stdout).strip().splitlines()
        print(f"{name} on {source.stem}: {lines[-1] if lines else run.returncode}", file=sys.stderr)
        return Result("fails")
    return Result(**json.loads(run.stdout.splitlines()[-1]))


_TOOLS_FILE = Path(__file__).with_name("peer_tools.py")
_SIGXCPU = 24


def judge(source: Path, results: dict[Path, Result]) -> None:
    """Fill in what came out. A result that takes the process with it is one that does not load."""
    left = [target for target, result in results.items() if not result.stopped]
    while left:
        command = [sys.executable, str(_TOOLS_FILE), "check", str(source), *map(str, left)]
        run = subprocess.run(command, capture_output=True, text=True)
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        for found in lines:
            results[Path(found["target"])].found = found
            if "fault" in found:
                print(f"{Path(found['target']).stem}: {found['fault']}", file=sys.stderr)
        if len(lines) < len(left):
            crashed = left[len(lines)]
            print(f"{crashed.stem}: {run.stderr.strip()[-300:]}", file=sys.stderr)
            results[crashed].found = {"nodes": _count(crashed), "valid": True, "loads": False}
        left = left[len(lines) + 1 :]


def _count(path: Path) -> int:
    return len(onnx.load(path, load_external_data=False).graph.node)


def measure(source: Path, tools: Sequence[str], limit_s: float, n_jobs: int, *, judged: bool = True) -> Row:
    """Run tools on one file, and say what came out."""
    with tempfile.TemporaryDirectory() as folder:
        targets = [Path(folder) / f"{name.replace(' ', '_')}_{source.name}" for name in tools]
        with ThreadPoolExecutor(n_jobs) as pool:
            done = pool.map(partial(run_tool, source, limit_s), tools, targets)
            results = dict(zip(targets, done, strict=True))
        if judged:
            judge(source, results)
        else:
            for target, result in results.items():
                if not result.stopped:
                    result.found = {"nodes": _count(target)}
    return dict(zip(tools, results.values(), strict=True))


# ---------------------------------------------------------------- chains
def print_chains(
    kinds: Sequence[str], sizes: Sequence[int], tools: Sequence[str], limit_s: float, n_jobs: int
) -> None:
    """One table for each graph, a row for each tool; then who left the fewest nodes."""
    best: list[list[str]] = []
    for kind in kinds:
        rows: list[Row] = []
        for size in sizes:
            chosen = [name for name in tools if size < SIZES[-1] or name in LARGEST_TOOLS]
            with tempfile.TemporaryDirectory() as folder:
                source = Path(folder) / f"{kind}.onnx"
                onnx.save(generate.MAKERS[kind](size), source)
                rows.append(measure(source, chosen, limit_s, n_jobs, judged=size <= LARGEST_JUDGED))
            best.append([kind, _short_size(size), *_against(rows[-1], ("gerules", "gerules std"))])
        print(f"\n### {kind}, {' / '.join(map(_short_size, sizes))} nodes\n")
        growth = [f"growth {_short_size(a)}-{_short_size(b)}" for a, b in pairwise(sizes)]
        head = ["tool", "nodes left", "CPU s in it", "CPU s with load and save", *growth, "peak RSS MB"]
        print_table(head, ([name, *_cells([row.get(name) for row in rows], sizes)] for name in tools))
    print("\n### Fewest nodes of valid, equal results\n")
    heads = ["gerules", "best peer", "gerules std", "best peer, standard operators"]
    print_table(["graph", "nodes", *heads], best)


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print Markdown; the first column is text."""
    print("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def _short_size(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 else str(size)


def _cells(results: Sequence[Result | None], sizes: Sequence[int]) -> list[str]:
    def joined(cell: Iterable[str]) -> str:
        return " / ".join(cell)

    def time_of(result: Result | None, time: str) -> str:
        return "-" if result is None else result.stopped or f"{getattr(result, time):.2f}"

    growth = [
        "-"
        if one is None or two is None or one.stopped or two.stopped
        else f"{math.log(two.whole_s / one.whole_s) / math.log(large / small):.2f}"
        for (one, two), (small, large) in zip(pairwise(results), pairwise(sizes), strict=True)
    ]
    return [
        joined("-" if result is None else result.cell() for result in results),
        joined(time_of(result, "tool_s") for result in results),
        joined(time_of(result, "whole_s") for result in results),
        *growth,
        joined("-" if result is None or result.stopped else f"{result.rss_mb:.0f}" for result in results),
    ]


def _against(row: Row, own: Sequence[str]) -> list[str]:
    """What each of our ways left, and after them the best peer: of any operators, then of standard ones."""
    cells: list[str] = []
    for is_standard in (False, True):
        cells += [row[name].cell() if name in row else "-" for name in own if ("std" in name) == is_standard]
        cells.append(best_peer(row, is_standard=is_standard))
    return cells


def best_peer(row: Row, *, is_standard: bool) -> str:
    """The fewest nodes of good results, and who left them."""
    good = [
        (result.n_nodes, name)
        for name, result in row.items()
        if not name.startswith("gerules")
        and result.n_nodes is not None
        and result.is_good
        and (not is_standard or result.found.get("standard", False))
    ]
    if not good:
        return "-"
    fewest = min(good)[0]
    return f"{fewest} {', '.join(name for n_nodes, name in good if n_nodes == fewest)}"


# ---------------------------------------------------------------- models
def print_models(names: Sequence[str], tools: Sequence[str], limit_s: float, n_jobs: int) -> None:
    """Nodes left on real models; those that would have to be built first are named instead."""
    there = [name for name in names if name not in zoo.BUILT or zoo.entry(name) is not None]
    best: list[list[str]] = []

    def rows() -> Iterator[list[str]]:
        for name in there:
            row = measure(zoo.path(name), tools, limit_s, n_jobs)
            best.append([name, *_against(row, [tool for tool in TOOLS if tool.startswith("gerules")])])
            yield [name, str(_count(zoo.path(name))), *(row[tool].cell() for tool in tools)]

    print_table(["model", "before", *tools], rows())
    print("\n### Fewest nodes of valid, equal results\n")
    heads = ["gerules", "any size", "best peer", "gerules std", "any size", "best peer, standard operators"]
    print_table(["model", *heads], best)
    if len(there) < len(names):
        print(f"\nNot built, so not measured: {', '.join(name for name in names if name not in there)}.")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description="gerules against the other optimisers of ONNX graphs.")
    parser.add_argument("--quick", action="store_true", help="1000 nodes, fewer tools, two at a time")
    parser.add_argument("--models", nargs="*", metavar="NAME", help="real models; all of them unless named")
    parser.add_argument("--graphs", nargs="+", choices=CHAINS)
    parser.add_argument("--tools", nargs="+", choices=list(TOOLS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--limit", type=float, default=120.0, metavar="CPU_SECONDS")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args()
    packages = sorted({tool.package for tool in TOOLS.values()} | {"onnx"})
    versions = [f"{name} {version_of(name) or 'not installed'}" for name in packages]
    print(f"Versions: {', '.join(versions)}.\n")
    started = perf_counter()
    if options.models is not None:
        print_models(options.models or MODELS, options.tools or list(TOOLS), options.limit, options.jobs)
    else:
        kinds, tools = options.graphs or CHAINS, options.tools or CHAIN_TOOLS
        sizes, limit_s, n_jobs = options.sizes, options.limit, options.jobs
        if options.quick:
            kinds, tools = options.graphs or CHAINS[:4], options.tools or QUICK_TOOLS
            sizes, limit_s, n_jobs = SIZES[:1], QUICK_LIMIT_S, 2
        print_chains(kinds, sizes, tools, limit_s, n_jobs)
    print(f"\nTook {perf_counter() - started:.0f} s.")


if __name__ == "__main__":
    main()
