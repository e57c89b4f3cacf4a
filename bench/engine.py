"""Bench of the rule engine: time per node, growth, and what many rules and many readers cost.

    python bench/engine.py [--rules FOLDER] [--largest N] [--kinds KIND,...]
    python bench/engine.py --files          from an ONNX file to an ONNX file, all in one process

Graphs come from `bench/generate.py`; `Constant` nodes become initializers first, as the front end has
it. Times are processor seconds, the best of three runs, inference of new nodes included, reading excluded
(but not with `--files`). The exponent is the slope of time over nodes between the smallest and the largest
graph, both on a logarithmic scale: 1 is linear.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from dataclasses import replace
from itertools import pairwise
from math import log
from pathlib import Path
from time import process_time

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import generate
from gerules.dsl.book import RuleBook
from gerules.dsl.load import load_rules
from gerules.dsl.selection import Environment, select_rules
from gerules.engine.define import define_extra, make_infer
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.engine.ranking import RulePlans, plan_rules
from gerules.engine.rewrite import rewrite
from gerules.errors import Source
from gerules.frontends.onnx import load_onnx, save_onnx
from gerules.ir import DType, Graph, GraphEditor, TensorType, empty_graph
from gerules.ops import Schemas
from gerules.ops.graph_inference import infer_graph

SIZES = (1_000, 10_000, 100_000, 1_000_000)
KINDS = "transformer,resnet,noop_chain,wide"


def graph_of(kind: str, n_nodes: int) -> Graph:
    """A synthetic graph with inferred types."""
    model = generate.MAKERS[kind](n_nodes)
    editor = GraphEditor(empty_graph(kind, {"": max(generate.OPSET, 20)}))
    infer = make_infer(Schemas(), editor.opsets)
    names: dict[str, int] = {}
    for value in model.graph.input:
        dims = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        names[value.name] = editor.add_input(TensorType(DType.F32, dims), value.name)
    for weight in model.graph.initializer:
        names[weight.name] = editor.add_const(numpy_helper.to_array(weight), weight.name)
    for node in model.graph.node:
        if node.op_type == "Constant":
            names[node.output[0]] = editor.add_const(
                numpy_helper.to_array(node.attribute[0].t), node.output[0]
            )
            continue
        attrs = {a.name: _attr(a, node.op_type) for a in node.attribute}
        inputs = [names[name] if name else None for name in node.input]
        if node.op_type.startswith("Reduce") and "axes" in attrs:
            inputs.append(editor.add_const(np.array(attrs.pop("axes"), np.int64)))
        made = editor.add_node(node.op_type, inputs, attrs=attrs, name=node.name)
        (output,) = made.outputs
        assert output is not None
        types = [None if v is None else editor.values[v].type for v in made.inputs]
        (type,) = infer(made, types, [None if v is None else editor.consts.get(v) for v in made.inputs])
        editor.values[output] = replace(editor.values[output], type=type, name=node.output[0])
        names[node.output[0]] = output
    editor.set_outputs([names[value.name] for value in model.graph.output])
    return editor.commit()


def _attr(attr, op: str):
    if attr.type == 2:
        return DType.F32 if op == "Cast" and attr.name == "to" else attr.i
    return {
        1: lambda: attr.f,
        3: lambda: attr.s.decode(),
        6: lambda: tuple(attr.floats),
        7: lambda: tuple(attr.ints),
    }[attr.type]()


class Bench:
    """Rules made ready once, and what running them takes."""

    def __init__(self, book: RuleBook, sets: str) -> None:
        self.book = book
        self.after = empty_graph("none")
        """What the last run gave."""
        self.schemas = Schemas()
        register_defines(book.defines.values(), self.schemas)
        selection = select_rules(book, Environment())
        self.context = RuleContext(selection.scope, book.patterns)
        wanted = tuple(sets.split(","))
        self.rules = [rule for rule in selection.rules if rule.ruleset.startswith(wanted)]

    def plans(self, extra: RuleBook | None = None) -> RulePlans:
        rules = [*self.rules, *(extra.rules if extra else ())]
        return plan_rules(rules, self.context)

    def run(self, graph: Graph, plans: RulePlans, repeat: int = 3) -> tuple[float, int]:
        """Best time in seconds, and how many rewrites there were."""
        extra = define_extra(self.book.defines, schemas=self.schemas, context=self.context)
        infer = make_infer(self.schemas, graph.opsets, extra)
        best, n_applied = float("inf"), 0
        for _ in range(repeat):
            started = process_time()
            self.after, trace = rewrite(graph, plans, schemas=self.schemas, infer=infer)
            best = min(best, process_time() - started)
            n_applied = len(trace.applications)
        return best, n_applied


def never_matching(n_rules: int) -> RuleBook:
    """Rules over common operators in neighbourhoods that no graph here has."""
    ops = ("Relu", "Add", "Mul", "MatMul", "Softmax", "Transpose", "Reshape", "Div", "Conv", "Erf")
    lines = ["gerules 1"]
    for i in range(n_rules):
        a, b, c = ops[i % 10], ops[i // 10 % 10], ops[i // 100 % 10]
        middle = "Sinh" if i % 2 else "Erf"  # one that does not occur, one that does
        lines.append(f"rule never_{i} in s: {a}({b}({middle}({c}(x, ...), ...), ...), ...) => x")
    return load_rules([Source("never.ger", "\n".join(lines) + "\n")], schemas=None)


def shared_matmuls(n: int) -> Graph:
    """MatMuls that all read one value."""
    editor = GraphEditor(empty_graph("shared", {"": 20}))
    x = editor.add_input(TensorType(DType.F32, (3, 8)), "x")
    outputs: list[int] = []
    for i in range(n):
        weight = editor.add_const(np.full((8, 2), i, np.float32))
        made = editor.add_value(TensorType(DType.F32, (3, 2)), f"y{i}")
        editor.add_node("MatMul", [x, weight], [made])
        outputs.append(made)
    editor.set_outputs(outputs)
    return editor.commit()


def exponent(small: tuple[int, float], large: tuple[int, float]) -> float:
    """The slope between two points of (nodes, seconds) on logarithmic scales."""
    return log(large[1] / small[1]) / log(large[0] / small[0])


def measure_engine(bench: Bench, plans: RulePlans, kind: str, largest: int) -> None:
    """Print what rewriting graphs of one kind takes."""
    points: list[tuple[int, float]] = []
    for size in SIZES:
        if size > largest:
            continue
        graph = graph_of(kind, size)
        took, n_applied = bench.run(graph, plans, 3 if size < 100_000 else 1)
        points.append((size, took))
        done = bench.after
        idle = bench.run(done, plans, 1)[0] / max(1, len(done.nodes)) * 1e6
        print(
            f"{kind:12} {size:8} nodes: {took:8.3f} s  {took / size * 1e6:6.1f} us/node"
            f"  {n_applied} rewrites  {took / max(1, n_applied) * 1e6:6.1f} us/rewrite;"
            f"  again, nothing to do: {idle:.1f} us/node"
        )
    print(f"{kind:12} exponent: {exponent(points[0], points[-1]):.2f}")


def measure_files(bench: Bench, plans: RulePlans, kind: str, largest: int) -> None:
    """Print what reading a model, rewriting it and writing it takes."""
    points: list[tuple[int, float]] = []
    extra = define_extra(bench.book.defines, schemas=bench.schemas, context=bench.context)
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            if size > largest:
                continue
            source, target = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
            onnx.save(generate.MAKERS[kind](size), source)
            marks = [process_time()]
            graph = infer_graph(load_onnx(source, schemas=bench.schemas), bench.schemas, extra=extra)
            marks.append(process_time())
            infer = make_infer(bench.schemas, graph.opsets, extra)
            after, trace = rewrite(graph, plans, schemas=bench.schemas, infer=infer)
            marks.append(process_time())
            # Fused operators are written as they are: opset 13 has no words for what some of them do.
            save_onnx(after, target, schemas=bench.schemas)
            marks.append(process_time())
            load, rules, save = (late - early for early, late in pairwise(marks))
            points.append((size, load + rules + save))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{kind:12} {size:8} nodes: {points[-1][1]:8.3f} s = load {load:.3f} + rules {rules:.3f}"
                f" + save {save:.3f}  {len(trace.applications)} rewrites  peak so far {peak:.2f} GiB"
            )
            del graph, after, trace
    print(f"{kind:12} exponent from file to file: {exponent(points[0], points[-1]):.2f}")


def main() -> None:
    """Print all numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=Path, default=Path(__file__).resolve().parents[1] / "rules")
    parser.add_argument("--sets", default="fuse,fold,cleanup,canonical")
    parser.add_argument("--largest", type=int, default=100_000)
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--files", action="store_true")
    options = parser.parse_args()
    bench = Bench(load_rules([options.rules], schemas=None), options.sets)
    plans = bench.plans()
    print(f"{len(plans.plans)} rules")
    measure = measure_files if options.files else measure_engine
    for kind in options.kinds.split(","):
        measure(bench, plans, kind, options.largest)
    if not options.files:
        measure_rules(bench, plans)
        measure_readers(bench)


def measure_rules(bench: Bench, plans: RulePlans) -> None:
    """Print what rules cost that never match."""
    graph = graph_of("transformer", 10_000)
    n_before = len(graph.nodes)
    quiet, _ = bench.run(graph, plan_rules([], bench.context))
    print(f"no rules at all: {quiet / n_before * 1e6:.2f} us/node")
    never = never_matching(1_000)
    for what in ("with rewrites", "nothing to do"):
        alone, _ = bench.run(graph, plans)
        many, _ = bench.run(graph, bench.plans(never))
        print(f"1,000 more rules that never match, {what}: x{many / alone:.2f} of the time without them")
        graph = bench.after


def measure_readers(bench: Bench) -> None:
    """Print what many readers of one value cost."""
    for name in ("qkv", "many"):
        text = (QKV if name == "qkv" else MANY).replace("@GUARD", "D == 999")
        refused = load_rules([Source("b.ger", "gerules 1\n" + text)], schemas=None)
        applied = load_rules(
            [Source("b.ger", "gerules 1\n" + text.replace("D == 999", "D == 8"))], schemas=None
        )
        for what, book in (("refused", refused), ("applied", applied)):
            times = [
                bench.run(shared_matmuls(n), plan_rules(book.rules, bench.context))[0] for n in (100, 800)
            ]
            few, many = (1e3 * took for took in times)
            print(f"{name:5} {what}: 100 -> 800 readers: {few:.1f} -> {many:.1f} ms, x{many / few:.1f}")


QKV = """
rule qkv in s:
    match:
        q = MatMul(x, Wq: const T[D, Nq])
        k = MatMul(x, Wk: const T[D, Nk])
        v = MatMul(x, Wv: const T[D, Nv])
    where:
        ordered(q, k, v)
        @GUARD
    fold:
        W = concat([Wq, Wk, Wv], axis=1)
    rewrite:
        h = MatMul(x, W)
        q, k, v = Split(h, split=[Nq, Nk, Nv], axis=-1)
"""
MANY = """
rule merge in s:
    match:
        many 2..8:
            y = MatMul(x, W: const T[D, N])
            same x, T, D
    where:
        @GUARD
    fold:
        Wall = concat(W, axis=1)
    rewrite:
        h  = MatMul(x, Wall)
        *y = Split(h, split=N, axis=-1)
"""

if __name__ == "__main__":
    main()
