"""Bench of the rule engine: time per node, growth, and what many rules and many readers cost.

    python bench/engine.py [--rules FOLDER] [--largest N]

Graphs come from `bench/generate.py`; `Constant` nodes become initializers first, as the front end has
it. Times are processor seconds, the best of three runs, inference of new nodes included, reading excluded.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
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
from gerules.ir import DType, Graph, GraphEditor, TensorType, empty_graph
from gerules.ops import Schemas

SIZES = (1_000, 10_000, 100_000)


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


def main() -> None:
    """Print all numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=Path, default=Path(__file__).resolve().parents[1] / "rules")
    parser.add_argument("--sets", default="fuse,fold,cleanup,canonical")
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    options = parser.parse_args()
    bench = Bench(load_rules([options.rules], schemas=None), options.sets)
    plans = bench.plans()
    print(f"{len(plans.plans)} rules")
    for kind in ("transformer", "resnet", "noop_chain"):
        per_node: list[float] = []
        for size in SIZES:
            if size > options.largest:
                continue
            graph = graph_of(kind, size)
            took, n_applied = bench.run(graph, plans, 3 if size < 100_000 else 1)
            per_node.append(took / len(graph.nodes) * 1e6)
            done = bench.after
            idle = bench.run(done, plans, 1)[0] / max(1, len(done.nodes)) * 1e6
            print(
                f"{kind:12} {size:7} nodes: {took:7.3f} s  {per_node[-1]:6.1f} us/node  {n_applied} rewrites;"
                f"  again, nothing to do: {idle:.1f} us/node"
            )
        print(f"{kind:12} growth of time per node: {per_node[-1] / per_node[0]:.2f}")
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
