"""Exported passes keep the types of what they replace, and do on our own engine what their rules do."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gerules.compat.ge.error import GeError
from gerules.compat.ge.passes import get_registered_passes
from gerules.compat.ge.passes.registry import unregister_fusion_pass
from gerules.dsl import RuleBook
from gerules.engine.rewrite import rewrite
from gerules.exporting.export import export_rules
from gerules.ir import Graph
from gerules.pipeline import shipped_rules
from gerules.pipeline.toolchain import make_toolchain
from gerules.report.rule_bench import Bench
from gerules.report.rule_graphs import instances
from tests.docs.engine_run import apply_rules, meaning_of
from tests.exporting.passes import cpp_compiler, on_ours, on_stub
from tests.exporting.test_export import book_of, graph_of

RULES = """\
gerules 1

rule twice in my.moves "Two x is x and x":
    once
    match:
        y = Mul(x, k: const)
    where:
        is_scalar(k) and scalar(k) == 2            else "it is no two"
    rewrite:
        y = Add(x, x)

rule one_of_two in my.moves "A sum that does not matter":
    once
    match:
        y = Max(Add(x, z), Add!(z, x))
    rewrite:
        y = Add(x, z)

rule other in my.moves "Another value":
    once
    match:
        y = Relu(Add(x, Abs(z)))
    rewrite:
        y = Abs(z)

rule to_gemm in my.moves "A sum after a product":
    once
    match:
        y = Add!(MatMul(a: f32[M, K], b: f32[K, N]), c)
    rewrite:
        y = Gemm(a, b, c)

rule again in my.moves "Another order of products":
    once
    match:
        y = MatMul(MatMul(a, b), c)
    rewrite:
        y = MatMul(a, MatMul(b, c))

rule to_float in my.moves "A truth value is no number":
    once
    match:
        y = Not(Greater(x, z))
    rewrite:
        y = Sub(x, z)
"""


@pytest.fixture(autouse=True)
def passes() -> Iterator[None]:
    """Passes end with the test."""
    known = set(get_registered_passes())
    yield
    for name in set(get_registered_passes()) - known:
        unregister_fusion_pass(name)


def text_of(book: RuleBook, *names: str, language: Any = "python") -> str:
    return export_rules(book, [book.rule_by_name[name] for name in names], language, source="x").text


def conditions(name: str) -> list[str]:
    return re.findall(r"if not \((.*)\):", text_of(book_of(RULES), name))


def test_what_operators_imply_is_not_asked() -> None:
    assert conditions("one_of_two") == []
    assert len(conditions("twice")) == 4  # two forms: one about the shape, one about the constant


def test_what_is_of_another_type_is_asked() -> None:
    # The types are 12, which is bool, and that of x: no match has both.
    assert any(item.startswith("12 == int(") for item in conditions("to_float"))
    assert any("_product(" in item and "_is_fixed(" in item for item in conditions("again"))


PRODUCTS = """\
b: const f32[3, 1] = [1.0, 2.0, 3.0]
    t = Neg(b)
    c: const f32[1, 2] = [1.0, 2.0]
    m = MatMul(x, t)
    y = MatMul(m, c)"""


@pytest.mark.parametrize(
    ("name", "lines", "changes"),
    [
        ("twice", "k: const f32[] = 2.0\n    y = Mul(x, k)", True),
        ("twice", "k: const f32[1] = [2.0]\n    y = Mul(k, x)", True),
        ("twice", "k: const f32[1, 1] = [2.0]\n    y = Mul(x, k)", True),
        ("twice", "k: const f32[1, 1, 1] = [2.0]\n    y = Mul(x, k)", False),
        ("twice", "k: const f32[1] = [3.0]\n    y = Mul(x, k)", False),
        ("other", "n = ReduceMax(x)\n    a = Abs(n)\n    s = Add(x, a)\n    y = Relu(s)", False),
        ("other", "n = Neg(x)\n    a = Abs(n)\n    s = Add(x, a)\n    y = Relu(s)", True),
        ("again", PRODUCTS, True),
    ],
)  # fmt: skip
def test_a_pass_applies_where_the_engine_takes_the_rule(name: str, lines: str, changes: bool) -> None:
    graph, book = graph_of(lines), book_of(RULES)
    by_rule = apply_rules(book, graph, {name})
    rules = set(on_ours(text_of(book, name)))
    by_pass = apply_rules(shipped_rules(), graph, rules)
    assert meaning_of(by_pass) == meaning_of(by_rule)
    assert (meaning_of(by_pass) != meaning_of(graph)) is changes


def test_gemm_has_its_numbers() -> None:
    text = text_of(book_of(RULES), "to_gemm")
    assert "es.GEMM(x0, x1, x2, 1.0, 1.0, transpose_a=False, transpose_b=False)" in text


# ---------------------------------------------------------------- shapes as both languages compute them
SHAPES = [
    ([2, 3], [3]),
    ([2, 1], [1, 3]),
    ([], [4]),
    ([-1, 3], [1, 3]),
    ([-1, 3], [5, 1]),
    ([0], [1]),
    ([4, 1], []),
]
OPEN = [([-1], [-1]), ([2], [3])]


def test_broadcasting_is_numpys() -> None:
    module = on_stub(text_of(book_of(RULES), "again", "twice"))["module"]
    for one, other in SHAPES:
        found = module["_broadcast"](one, other)
        stand_in = [[5 if size < 0 else size for size in shape] for shape in (one, other)]
        assert [5 if size < 0 else size for size in found] == list(np.broadcast_shapes(*map(tuple, stand_in)))
    for one, other in OPEN:
        with pytest.raises(module["_Unknown"]):
            module["_broadcast"](one, other)
    assert module["_product"]([2, 3, 4], [4, 5]) == [2, 3, 5]


SHOW = """\
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>
{functions}

void show(const std::vector<int64_t> &found, bool known) {{
  for (int64_t size : found) {{
    if (known) {{
      std::printf("%d ", static_cast<int>(size));
    }}
  }}
  std::puts(known ? "" : "unknown");
}}

int main() {{
{calls}}}
"""


def test_cpp_computes_the_same_shapes(tmp_path: Path) -> None:
    compiler = cpp_compiler()
    module = on_stub(text_of(book_of(RULES), "again", "twice"))["module"]
    text = text_of(book_of(RULES), "again", "twice", language="cpp")
    parts = [
        part
        for part in text.split("\n\n")
        if part.startswith(("std::vector<int64_t> Broadcast", "std::vector<int64_t> Product"))
    ]
    assert len(parts) == 2
    calls = [
        (f"Broadcast({{{braces(one)}, {braces(other)}}}, known)", module["_broadcast"], one, other)
        for one, other in SHAPES + OPEN
    ]
    calls += [
        (f"Product({braces(one)}, {braces(other)}, known)", module["_product"], one, other)
        for one, other in (([2, 3, 4], [4, 5]), ([3], [3, 1]))
    ]
    shown = "".join(
        f"  {{ bool known = true; auto found = {call}; show(found, known); }}\n" for call, *_ in calls
    )
    source = tmp_path / "shapes.cpp"
    source.write_text(SHOW.format(functions="\n\n".join(parts), calls=shown), encoding="utf-8")
    subprocess.run([compiler, "-std=c++17", "-o", tmp_path / "shapes", source], check=True)
    told = subprocess.run(
        [tmp_path / "shapes"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    wanted: list[str] = []
    for _, function, one, other in calls:
        try:
            wanted.append("".join(f"{size} " for size in function(one, other)))
        except module["_Unknown"]:
            wanted.append("unknown")
    assert told == wanted


def braces(shape: list[int]) -> str:
    return f"std::vector<int64_t>{{{', '.join(map(str, shape))}}}"


# ---------------------------------------------------------------- all shipped rules on our own engine
SAME = {"lower_gelu_tanh", "lower_matmul", "lower_where", "mish_before_18", "swish"}
"""Rules that give an operator which the package makes the ones before of: nothing is to be seen of them."""

OF_THE_MATCH = {"product_of_scaled"}
"""Rules whose replacement reads the match, which a pass on our own engine cannot; it says so."""


def test_shipped_passes_do_on_our_engine_what_their_rules_do() -> None:
    book = shipped_rules()
    names = export_rules(book, book.rules, "python", source="x").passes
    rules: dict[str, list[str]] = {}
    for name in names:
        if name in OF_THE_MATCH:
            with pytest.raises(GeError, match="its replacement reads the match"):
                on_ours(text_of(book, name))
            continue
        found = on_ours(text_of(book, name))
        if name not in SAME:
            rules[name] = found
    both, bench = shipped_rules(), Bench(book)
    n_applied: dict[str, int] = dict.fromkeys(rules, 0)
    for name, of_passes in rules.items():
        rule = book.rule_by_name[name]
        for test in rule.tests:
            for instance in instances(rule, test, bench.place(rule, test).setting, limit=4, seed=1):
                by_rule, n_by_rule = applied(both, instance.graph, [name])
                by_pass, n_by_pass = applied(both, instance.graph, of_passes)
                assert (n_by_pass > 0) is (n_by_rule > 0), (name, test.doc)
                n_applied[name] += n_by_rule > 0
                assert by_pass == by_rule, (name, test.doc)
    assert min(n_applied.values()) > 0, n_applied


def applied(book: RuleBook, graph: Graph, names: list[str]) -> tuple[list[str], int]:
    """A graph after rules, attributes that have their default left out, and how often they applied."""
    tools = make_toolchain(book, graph.opsets)
    rules = [book.rule_by_name[name] for name in names]
    found, trace = rewrite(graph, rules, schemas=tools.schemas, infer=tools.infer, context=tools.context)
    usual = re.compile(r"'(alpha=1\.0|beta=1\.0|transA=0|transB=0)'(, )?")
    return [usual.sub("", line) for line in meaning_of(found)], len(trace.applications)
