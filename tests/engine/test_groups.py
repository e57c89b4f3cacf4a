"""Rules with several roots, `many` groups, and chains."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from types import SimpleNamespace

import numpy as np
import pytest

from gerules.ir import DType
from tests.engine.graphs import Maker, book_of, evaluate, ops, run

RNG = np.random.default_rng(2)

QKV = """
rule qkv in s:
    match:
        q = MatMul(x, Wq: const T[D, Nq])
        k = MatMul(x, Wk: const T[D, Nk])
        v = MatMul(x, Wv: const T[D, Nv])
    where:
        ordered(q, k, v)
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
            limit sum(N) <= 40
    fold:
        Wall = concat(W, axis=1)
    gate:
        after.time < before.time else "slower"
    rewrite:
        h  = MatMul(x, Wall)
        *y = Split(h, split=N, axis=-1)
"""


def projections(n: int, width=lambda i: 2 + i % 3):
    m = Maker()
    x = m.input("x", 3, 4)
    ys = [m.op("Relu", m.op("MatMul", x, m.const(RNG.random((4, width(i)))))) for i in range(n)]
    return m.graph(*ys)


def same(before, after, feeds):
    for one, two in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)


def cpu_s(work: Callable[[], object]) -> float:
    """Processor seconds, the best of three: other work on the machine does not count."""
    best = 1e9
    for _ in range(3):
        started = process_time()
        work()
        best = min(best, process_time() - started)
    return best


class TestSeveralRoots:
    @pytest.mark.parametrize("n", [3, 4, 8])
    def test_triples_of_one_input(self, n):
        before = projections(n)
        after, trace = run(QKV, before)
        # What is left over joins the merged ones once more.
        assert trace.rules["qkv"].applications == {3: 1, 4: 1, 8: 3}[n]
        assert all(len(a.replaced) == 3 for a in trace.applications)
        same(before, after, {"x": RNG.random((3, 4), np.float32)})

    def test_linear_in_the_readers_of_one_value(self):
        # Every triple is refused in the end: nothing shrinks, all of it is searched.
        text = QKV.replace("ordered(q, k, v)", "ordered(q, k, v)\n        Nq == 999")
        attempts, took = {}, {}
        for n in (100, 800):
            graph = projections(n)
            _, trace = run(text, graph)
            attempts[n] = trace.rules["qkv"].matches
            took[n] = cpu_s(lambda graph=graph: run(text, graph))
        assert attempts[800] < 10 * attempts[100]
        assert took[800] < 16 * took[100]

    def test_two_roots_found_through_an_inner_value(self):
        text = """
rule r in s:
    match:
        a = Neg(Relu(x))
        b = Tanh(Abs(x))
    rewrite:
        a, b = Split(Concat(x, x, axis=0), num_outputs=2, axis=0)
"""
        m = Maker()
        x = m.input("x", 2)
        after, _ = run(text, m.graph(m.op("Neg", m.op("Relu", x)), m.op("Tanh", m.op("Abs", x))))
        assert ops(after) == ["Concat", "Split"]


class TestGroups:
    def test_a_group_takes_as_many_as_limit_and_range_allow(self):
        before = projections(9, lambda i: 4)
        after, trace = run(MANY, before)
        assert trace.rules["merge"].applications >= 1
        assert ops(after).count("MatMul") < 4
        same(before, after, {"x": RNG.random((3, 4), np.float32)})
        before = projections(9, lambda i: 15)  # two fit into 40
        _, trace = run(MANY, before)
        assert {len(a.replaced) for a in trace.applications} == {2}

    def test_members_agree_in_what_is_the_same(self):
        m = Maker()
        x, z = m.input("x", 3, 4), m.input("z", 3, 4)
        before = m.graph(*(m.op("MatMul", v, m.const(RNG.random((4, 2)))) for v in (x, z, x, z, x)))
        after, trace = run(MANY, before)
        assert sorted(len(a.replaced) for a in trace.applications) == [2, 3]
        same(before, after, {"x": RNG.random((3, 4), np.float32), "z": RNG.random((3, 4), np.float32)})

    def test_a_gate_refuses_the_group_as_a_whole(self):
        def price(node, inputs, outputs):
            return SimpleNamespace(time=5.0 if node.op == "Split" else 1.0, bytes=0.0, flops=0.0)

        before = projections(4, lambda i: 4)
        after, trace = run(MANY, before, cost=price)
        assert after is before and "slower" in trace.rules["merge"].refusals

    def test_groups_without_a_shared_value_leave_out_what_depends_on_them(self):
        text = """
rule bucket in s:
    match:
        many 2..64:
            y = ge::AllReduce(x, comm=c)
            same c, T
            limit sum(nbytes(x)) <= 24
    rewrite:
        *y = fn ge::Bucket(*x, comm=c)
define ge::AllReduce(x, comm = "world") -> y:
    y = Identity(x)
"""
        m = Maker()
        xs = [m.input(f"x{i}", 2) for i in range(4)]
        first = [m.op("ge::AllReduce", x, comm="world") for x in xs]
        second = m.op("ge::AllReduce", first[0], comm="world")
        third = m.op("ge::AllReduce", xs[0], comm="other")
        for v in (*first, second, third):
            m.editor.set_type(v, m.editor.values[xs[0]].type)
        after, trace = run(text, m.graph(*first[1:], second, third))
        assert len(trace.applications[0].replaced) in (2, 3)
        assert ops(after).count("ge::Bucket") >= 1
        for node in after.nodes.values():
            if node.op == "ge::Bucket":
                assert node.attrs["comm"] == "world"

    def test_linear_in_the_members(self):
        text = MANY.replace("sum(N) <= 40", "sum(N) <= 99999").replace("after.time < before.time", "1 < 0")

        def price(node, inputs, outputs):
            return SimpleNamespace(time=1.0, bytes=0.0, flops=0.0)

        took = {}
        for n in (100, 800):
            graph = projections(n)
            took[n] = cpu_s(lambda graph=graph: run(text, graph, cost=price))
        assert took[800] < 16 * took[100]


CHAIN = """
ops E = {Relu, Tanh, Neg, Add, Mul, Abs}
rule chain in s:
    match:
        y = ch@E{2..}(x, ...)
    where:
        len(ch) <= 4
        same_shape(x, y)  else "broadcast"
    rewrite:
        y = fn ge::Eltwise(x, *ch.side_inputs)
"""


class TestChains:
    def test_the_longest_path_is_taken(self):
        m = Maker()
        x, s = m.input("x", 2), m.input("s", 2)
        before = m.graph(m.op("Tanh", m.op("Add", m.op("Relu", x), s)))
        after, _ = run(CHAIN, before)
        (node,) = after.nodes.values()
        assert node.inputs == (x, s) and ops(node.bodies["body"].graph) == ["Relu", "Add", "Tanh"]
        same(before, after, {"x": RNG.random(2, np.float32), "s": RNG.random(2, np.float32)})

    @pytest.mark.parametrize("n", [9, 100])
    def test_a_long_path_is_cut(self, n):
        m = Maker()
        y = m.input("x", 2)
        for i in range(n):
            y = m.op(("Relu", "Tanh", "Neg")[i % 3], y)
        before = m.graph(y)
        after, _ = run(CHAIN, before)
        assert len(after.nodes) <= n // 4 + 1
        same(before, after, {"x": RNG.random(2, np.float32)})

    def test_a_path_ends_where_somebody_else_reads(self):
        m = Maker()
        x = m.input("x", 2)
        a = m.op("Tanh", m.op("Relu", x))
        before = m.graph(m.op("Neg", m.op("Abs", a)), a)
        after, trace = run(CHAIN, before)
        assert trace.rules["chain"].applications == 2
        same(before, after, {"x": RNG.random(2, np.float32)})

    def test_a_path_that_cannot_be_taken_whole_is_taken_without_its_end(self):
        m = Maker()
        x = m.input("x", 2)
        wide = m.op("Add", m.op("Tanh", m.op("Relu", x)), m.input("w", 3, 2))
        before = m.graph(wide)
        after, _ = run(CHAIN, before)
        assert ops(after) == ["ge::Eltwise", "Add"]

    def test_very_long_paths_take_linear_time(self):
        took = {}
        text = CHAIN.replace("len(ch) <= 4", "len(ch) <= 0")
        book_of(text)
        for n in (500, 4000):
            m = Maker()
            y = m.input("x", 2, dtype=DType.F32)
            for _ in range(n):
                y = m.op("Relu", y)
            graph = m.graph(y)
            took[n] = cpu_s(lambda graph=graph: run(text, graph))
        assert took[4000] < 24 * took[500]


SHARE = """
rule share in s:
    match:
        many 2..8:
            y = Tanh(x)
            same x
    rewrite:
        t = Tanh(x)
        *y = t
"""


@pytest.mark.parametrize("n", [2, 5])
def test_one_value_takes_the_place_of_a_whole_group(n: int):
    m = Maker()
    x = m.input("x", 3)
    before = m.graph(*[m.op("Relu", m.op("Tanh", x)) for _ in range(n)])
    after, _ = run(SHARE, before)
    assert sorted(ops(after)) == ["Relu"] * n + ["Tanh"]
    same(before, after, {"x": RNG.random(3, np.float32)})


def test_members_that_are_graph_outputs_keep_their_names():
    m = Maker()
    x = m.input("x", 3)
    values = [m.op("Tanh", x, name=f"t{i}") for i in range(3)]
    before = m.graph(values[0], m.op("Relu", values[1]), values[2])
    after, _ = run(SHARE, before)
    assert [after.values[v].name for v in after.outputs] == [before.values[v].name for v in before.outputs]
    assert ops(after).count("Tanh") == 1
    same(before, after, {"x": RNG.random(3, np.float32)})
