"""Building, checking and committing: what comes into the graph, what is refused, and what is remembered."""

from __future__ import annotations

import numpy as np
import pytest

from gerules.dsl.tree import RuleError
from gerules.ir import DType
from tests.engine.graphs import Maker, book_of, evaluate, ops, run

RNG = np.random.default_rng(1)


def same(before, after, feeds, tolerance=1e-5, book=None):
    for one, two in zip(evaluate(before, feeds), evaluate(after, feeds, book), strict=True):
        np.testing.assert_allclose(two, one, rtol=tolerance, atol=tolerance)


BIAS = """
rule conv_bias in s:
    match:
        c = Conv(x, W: const [M, ...], B?: const, **a)
        y = Add(c, k: const [1, M, ...])
    where:
        numel(k) == M    else "the addend is not one value per channel"
    fold:
        B2 = cast(default(B, 0) + reshape(k, [-1]), W.dtype)
    rewrite:
        y = Conv(x, W, B2, **a)
"""


class TestFolds:
    @pytest.mark.parametrize("swap", [False, True])
    def test_a_bias_is_folded_in_either_operand_order(self, swap):
        m = Maker()
        x = m.input("x", 1, 2, 4, 4)
        c = m.op("Conv", x, m.const(RNG.random((3, 2, 3, 3))), m.const(RNG.random(3)), pads=(1, 1, 1, 1))
        k = m.const(RNG.random((1, 3, 1, 1)))
        before = m.graph(m.op("Add", *((k, c) if swap else (c, k))))
        after, _ = run(BIAS, before)
        assert ops(after) == ["Conv"]
        same(before, after, {"x": RNG.random((1, 2, 4, 4), np.float32)})

    def test_the_reason_of_a_guard_and_its_values_are_kept(self):
        m = Maker()
        c = m.op("Conv", m.input("x", 1, 2, 4, 4), m.const(RNG.random((3, 2, 1, 1))))
        _, trace = run(BIAS, m.graph(m.op("Add", c, m.const(RNG.random((1, 3, 4, 4))))))
        count = trace.rules["conv_bias"]
        assert count.refusals == {"the addend is not one value per channel": 1}
        assert "M = 3" in count.best.reason and count.best.span.text.startswith("numel(k)")

    def test_a_constant_with_other_readers_is_copied(self):
        m = Maker()
        x = m.input("x", 1, 2, 4, 4)
        w, bias, k = m.const(RNG.random((3, 2, 1, 1))), m.const([1, 2, 3]), m.const(np.ones((1, 3, 1, 1)))
        one = m.op("Add", m.op("Conv", x, w, bias), k)
        before = m.graph(one, m.op("Conv", m.op("Relu", x), w, bias), m.op("Neg", k))
        after, trace = run(BIAS, before)
        assert trace.rules["conv_bias"].applications == 1
        same(before, after, {"x": RNG.random((1, 2, 4, 4), np.float32)})

    def test_one_initializer_in_two_rewrites(self):
        m = Maker()
        x = m.input("x", 1, 2, 4, 4)
        w, bias, k = m.const(RNG.random((3, 2, 1, 1))), m.const([1, 2, 3]), m.const(np.ones((1, 3, 1, 1)))
        before = m.graph(*(m.op("Add", m.op("Conv", m.op(f, x), w, bias), k) for f in ("Relu", "Neg")))
        after, trace = run(BIAS, before)
        assert trace.rules["conv_bias"].applications == 2 and "Add" not in ops(after)
        same(before, after, {"x": RNG.random((1, 2, 4, 4), np.float32)})

    def test_what_is_no_longer_finite_rejects(self):
        text = """
rule r in s:
    match:
        y = Div(x, k: const)
    fold:
        inverse = cast(1 / k, k.dtype)
    rewrite:
        y = Mul(x, inverse)
"""
        m = Maker()
        x = m.input("x", 2)
        _, trace = run(text, before := m.graph(m.op("Div", x, m.const([1, 0]))))
        assert trace.rules["r"].applications == 0 and len(trace.rules["r"].refusals) == 1
        before = m.graph(m.op("Div", x, m.const([1, 4])))
        assert ops(run(text, before)[0]) == ["Mul"]

    def test_a_broadcast_constant_stays_one_element(self):
        text = """
rule r in s:
    match:
        y = Add(Relu(x), k: const)
    rewrite:
        y = Sub(x, k)
"""
        from gerules.ir import Const

        m = Maker()
        big = m.editor.add_const(Const(np.broadcast_to(np.float32(1), (1 << 12, 1 << 12))))
        after, _ = run(text, m.graph(m.op("Add", m.op("Relu", m.input("x", 1 << 12, 1 << 12)), big)))
        (const,) = after.consts.values()
        assert not any(const.array.strides)


class TestChecks:
    def test_a_rewrite_that_changes_nothing_is_refused(self):
        text = "rule same in s: Add(x, z) => Add(x, z)\n"
        m = Maker()
        after, trace = run(text, before := m.graph(m.op("Add", m.input("x", 2), m.input("z", 2))))
        assert after is before and trace.rules["same"].refusals["it would change nothing"] >= 1

    def test_a_match_around_a_node_outside_is_refused(self):
        text = """
rule merge in s:
    match:
        shared a = Relu(x)
        y = Add(a, Tanh(z))
    rewrite:
        y = Sub(x, z)
rule pair in s:
    match:
        a = Neg(x)
        b = Abs(Add(x, q))
    rewrite:
        a, b = Split(x, num_outputs=2, axis=0)
"""
        m = Maker()
        x = m.input("x", 2)
        a = m.op("Neg", x)
        b = m.op("Abs", m.op("Add", x, m.op("Exp", a)))
        before = m.graph(a, b)
        after, trace = run(text, before)
        assert after is before and trace.rules["pair"].matches >= 1 and trace.rules["pair"].applications == 0

    def test_merged_roots_that_depend_on_each_other(self):
        text = """
rule pair in s:
    match:
        a = MatMul(x, W1: const [K, N])
        b = Sub(Exp(MatMul(x, W2: const [K, N])), q)
    where:
        q.rank == 2
    rewrite:
        a, b = Split(MatMul(Add(x, q), W1), num_outputs=2, axis=0)
"""
        m = Maker()
        x = m.input("x", 2, 2)
        w = m.const(np.eye(2))
        a = m.op("MatMul", x, w)
        b = m.op("Sub", m.op("Exp", m.op("MatMul", x, m.const(np.ones((2, 2))))), a)
        after, trace = run(text, before := m.graph(m.op("Relu", a), b))
        assert after is before
        assert trace.rules["pair"].applications == 0

    def test_effects_are_not_dropped(self):
        from tests.engine.graphs import context_of

        text = "rule r in s: Relu(Tanh(x)) => Neg(x)\n"
        m = Maker()
        before = m.graph(m.op("Relu", m.op("Tanh", m.input("x", 2))))
        context = context_of(book_of(text), effects=frozenset(["Tanh"]))
        after, trace = run(text, before, context=context)
        assert after is before and list(trace.rules["r"].refusals) == [
            "Tanh has effects and would be dropped"
        ]

    def test_a_graph_output_keeps_name_and_place(self):
        text = "rule r in s: Add(x, 0) => x\nrule i in s: Identity(x) => x\n"
        m = Maker()
        x = m.input("x", 2)
        before = m.graph(m.op("Add", x, m.const(0.0)))
        after, _ = run(text, before)
        assert ops(after) == ["Identity"] and after.inputs == before.inputs
        assert after.values[after.outputs[0]].name == before.values[before.outputs[0]].name
        m = Maker()
        r = m.op("Relu", m.input("x", 2))
        before = m.graph(m.op("Add", r, m.const(0.0)))
        after, _ = run(text, before)
        assert ops(after) == ["Relu"]
        assert after.values[after.outputs[0]].name == before.values[before.outputs[0]].name

    def test_one_value_cannot_take_the_place_of_two_graph_outputs(self):
        text = "rule i in s: Neg(Neg(x)) => x\n"
        m = Maker()
        r = m.op("Relu", m.input("x", 2))
        before = m.graph(r, m.op("Neg", m.op("Neg", r)))
        after, _ = run(text, before)
        assert len(set(after.outputs)) == 2
        assert [after.values[v].name for v in after.outputs] == [
            before.values[v].name for v in before.outputs
        ]

    def test_the_graph_handed_in_is_not_changed(self):
        m = Maker()
        before = m.graph(m.op("Tanh", m.op("Relu", m.input("x", 2))))
        known = (dict(before.nodes), dict(before.values), before.outputs)
        run("rule r in s: Tanh(Relu(x)) => Sigmoid(x)\n", before)
        assert known == (dict(before.nodes), dict(before.values), before.outputs)

    def test_a_device_without_the_operator(self):
        text = "device d:\n    lacks {Gelu}\nrule r in s: Relu(x) => Gelu(x)\n"
        m = Maker()
        _, trace = run(text, m.graph(m.op("Relu", m.input("x", 2))), device="d")
        assert list(trace.rules["r"].refusals) == ["the device has no kernel for Gelu"]


class TestBuilding:
    def test_provenance(self):
        text = "rule one in s: Tanh(Relu(x)) => Sigmoid(x)\nrule two in s: Neg(Sigmoid(x)) => Abs(x)\n"
        m = Maker()
        y = m.op("Neg", m.op("Tanh", m.op("Relu", m.input("x", 2), name="r"), name="t"), name="n")
        after, trace = run(text, m.graph(y), phase="p")
        (node,) = after.nodes.values()
        assert node.origin.sources == ("r", "t", "n")
        assert node.origin.rules == ("one", "two") and node.origin.phase == "p"
        assert [(a.rule, a.sources) for a in trace.applications] == [
            ("one", ("r", "t")),
            ("two", ("r", "t", "n")),
        ]
        assert trace.as_json()["applications"][1]["removed"][0].endswith(": Sigmoid")
        assert "two: 1 of 1 matches applied" in trace.render()

    def test_numbers_take_the_type_of_the_other_operand_and_no_rank(self):
        text = "rule r in s: Relu(x) => Mul(Add(x, 1), 0.5)\n"
        m = Maker()
        after, _ = run(text, m.graph(m.op("Relu", m.input("x", 2, dtype=DType.F16))))
        assert [(c.dtype, c.array.shape) for c in after.consts.values()] == [(DType.F16, ())] * 2

    def test_new_names_are_fresh(self):
        text = "rule r in s: Relu(x) => Add(Mul(x, 1.5), Mul(x, 1.5))\n"
        m = Maker()
        after, _ = run(text, m.graph(m.op("Relu", m.op("Relu", m.input("x", 2)))))
        names = [value.name for value in after.values.values()]
        assert len(set(names)) == len(names) and all(names)
        assert len({node.name for node in after.nodes.values()}) == len(after.nodes)

    def test_operator_variables_and_rest_inputs(self):
        text = """
rule r in s:
    match:
        y = f@{Max, Min}(Relu(a), *more)
    rewrite:
        y = @f(a, *more)
"""
        m = Maker()
        a, b, c = (m.input(n, 2) for n in "abc")
        after, _ = run(text, m.graph(m.op("Min", m.op("Relu", a), b, c)))
        (node,) = after.nodes.values()
        assert node.op == "Min" and node.inputs == (a, b, c)

    def test_several_outputs_keep_their_readers_and_order(self):
        text = """
rule r in s:
    match:
        a, b = Split(Relu(x), num_outputs=2)
    rewrite:
        a, b = Split(x, num_outputs=2)
"""
        m = Maker()
        a, b = m.op("Split", m.op("Relu", m.input("x", 4)), n=2, num_outputs=2)
        y = m.op("Sub", m.op("Neg", b), a)
        after, _ = run(text, m.graph(y))
        assert ops(after) == ["Split", "Neg", "Sub"]

    def test_a_function_holds_the_region(self):
        text = """
rule block in s:
    match:
        y = Relu(Add(Mul(x, w: const), 1))
    rewrite:
        y = fn ge::Block(x, w)
"""
        m = Maker()
        x = m.input("x", 2)
        before = m.graph(m.op("Relu", m.op("Add", m.op("Mul", x, m.const([2, 3])), m.const(1.0))))
        after, trace = run(text, before)
        (node,) = after.nodes.values()
        body = node.bodies["body"].graph
        assert node.op == "ge::Block" and ops(body) == ["Mul", "Add", "Relu"]
        assert len(body.inputs) == len(node.inputs) == 2 and len(body.consts) == 1
        assert trace.rules["block"].applications == 1  # not inside its own body
        same(before, after, {"x": RNG.random(2, np.float32)})

    def test_optional_operators_of_a_build(self):
        text = """
rule r in s:
    match:
        y = Add?(Relu(x), b)
    rewrite:
        y = Add?(Neg(x), b)
"""
        m = Maker()
        x = m.input("x", 2)
        assert ops(run(text, m.graph(m.op("Relu", x)))[0]) == ["Neg"]
        assert ops(run(text, m.graph(m.op("Add", m.op("Relu", x), m.input("b", 2))))[0]) == ["Neg", "Add"]


class TestOrder:
    def test_overlapping_matches_apply_once(self):
        text = "rule r in s: Relu(Relu(x)) => Relu(x)\n"
        m = Maker()
        y = m.input("x", 2)
        for _ in range(5):
            y = m.op("Relu", y)
        after, trace = run(text, m.graph(y))
        assert ops(after) == ["Relu"] and trace.rules["r"].applications == 4

    def test_what_overrides_an_urgent_rule_is_as_urgent(self):
        text = (
            "rule low in s:\n    overrides urgent\n    match: y = Tanh(x)\n    rewrite: y = Neg(x)\n"
            "rule middle in s:\n    priority 5\n    match: y = Tanh(x)\n    rewrite: y = Abs(x)\n"
            "rule urgent in s:\n    priority 10\n    match: y = Tanh(x)\n    rewrite: y = Relu(x)\n"
        )
        m = Maker()
        assert ops(run(text, m.graph(m.op("Tanh", m.input("x", 2))))[0]) == ["Neg"]

    def test_priority_then_size_then_overrides(self):
        m = Maker()
        graph = m.graph(m.op("Tanh", m.op("Relu", m.input("x", 2))))
        small, large = "rule a in s: Tanh(x) => Neg(x)\n", "rule b in s: Tanh(Relu(x)) => Abs(x)\n"
        assert ops(run(small + large, graph)[0]) == ["Abs"]
        text = "rule a in s:\n    priority 1\n    match: y = Tanh(x)\n    rewrite: y = Neg(x)\n"
        assert ops(run(text + large, graph)[0]) == ["Relu", "Neg"]
        text = "rule a in s:\n    overrides b\n    match: y = Tanh(x)\n    rewrite: y = Neg(x)\n"
        assert ops(run(large + text, graph)[0]) == ["Relu", "Neg"]

    def test_the_order_of_a_phase(self):
        text = """
rule r in s:
    match:
        y = Relu(x)
    where:
        n_readers(x) == 1
    rewrite:
        y = Neg(x)
"""
        m = Maker()
        x = m.input("x", 2)
        y = m.op("Relu", m.op("Relu", x, name="one"), name="two")
        graph = m.graph(y)
        for order, first in (("outputs_first", "two"), ("inputs_first", "one")):
            _, trace = run(text, graph, order=order)
            assert trace.applications[0].sources == (first,)

    def test_two_runs_give_the_same_graph(self):
        m = Maker()
        x = m.input("x", 2, 2)
        y = m.op("Add", m.op("Relu", m.op("Relu", x)), m.op("Tanh", m.op("Relu", x)))
        graph = m.graph(y)
        text = "rule r in s: Relu(Relu(x)) => Relu(x)\nrule t in s: Tanh(Relu(x)) => Sigmoid(x)\n"
        results = [run(text, graph)[0] for _ in range(3)]
        assert all(result.nodes == results[0].nodes for result in results)

    def test_then_runs_where_something_changed_only(self):
        book = book_of("rule a in s: Tanh(x) => Identity(Neg(x))\nrule b in t: Identity(x) => x\n")
        m = Maker()
        x = m.input("x", 2)
        y = m.op("Abs", m.op("Tanh", m.op("Relu", m.op("Identity", x))))
        a, b = book.rules
        after, _ = run(book, m.graph(y), rules=[a], then=[b])
        assert ops(after) == ["Identity", "Relu", "Neg", "Abs"]


class TestStopping:
    def test_a_transpose_pushed_for_ever_names_the_cycle(self):
        text = """
rule sink in s:
    match:
        y = Relu(Transpose(x, perm=p))
    rewrite:
        y = Transpose(Relu(x), perm=p)
rule lift in s:
    match:
        y = Transpose(Relu(x), perm=p)
    rewrite:
        y = Relu(Transpose(x, perm=p))
"""
        m = Maker()
        graph = m.graph(m.op("Relu", m.op("Transpose", m.input("x", 2, 3), perm=(1, 0))))
        with pytest.raises(RuleError) as caught:
            run(text, graph)
        assert caught.value.code == "E40030"
        assert "sink" in str(caught.value) and "lift" in str(caught.value)

    def test_growth_without_end(self):
        text = "rule grow in s: Relu(x) => Relu(Neg(x))\n"
        m = Maker()
        with pytest.raises(RuleError) as caught:
            run(text, m.graph(m.op("Relu", m.input("x", 2))), fuel=50)
        assert caught.value.code == "E40030" and "grow -> grow" in str(caught.value)

    def test_once_does_not_apply_to_its_own_results(self):
        text = """
rule widen in s:
    once
    match:
        y = mm@{MatMul}(a, b)
    rewrite:
        y = @mm(Relu(a), b)
"""
        m = Maker()
        after, trace = run(text, m.graph(m.op("MatMul", m.input("a", 2, 2), m.input("b", 2, 2))))
        assert ops(after) == ["Relu", "MatMul"] and trace.rules["widen"].applications == 1
        again, _ = run(text, after)
        assert again is after

    def test_a_phase_that_runs_once(self):
        text = "rule grow in s: Relu(x) => Relu(Neg(x))\n"
        m = Maker()
        after, _ = run(text, m.graph(m.op("Relu", m.op("Relu", m.input("x", 2)))), once=True)
        assert sorted(ops(after)) == ["Neg", "Neg", "Relu", "Relu"]

    def test_a_bound_on_rounds(self):
        text = "rule grow in s: Relu(x) => Relu(Neg(x))\n"
        m = Maker()
        _, trace = run(text, m.graph(m.op("Relu", m.input("x", 2))), max_rounds=3)
        assert trace.rules["grow"].applications == 3

    def test_a_sink_with_nothing_to_cancel_does_not_fire(self):
        text = """
ops UNARY = {Relu, Tanh}
rule sink in s:
    once
    match:
        t = Transpose(x, perm=p)
        y = f@UNARY(t, **a)
    where:
        reaches(y, Transpose, via=UNARY) else "no Transpose below to cancel against"
    rewrite:
        u = @f(x, **a)
        y = Transpose(u, perm=p)
"""
        m = Maker()
        x = m.input("x", 2, 3)
        one = m.op("Tanh", m.op("Transpose", x, perm=(1, 0)))
        assert ops(run(text, m.graph(one))[0]) == ["Transpose", "Tanh"]
        two = m.op("Transpose", m.op("Tanh", m.op("Transpose", x, perm=(1, 0))), perm=(1, 0))
        assert ops(run(text, m.graph(two))[0]) == ["Tanh", "Transpose", "Transpose"]


class TestBodies:
    def test_rules_run_inside_bodies_and_never_across(self):
        from gerules.ir import Body, Graph, Node, TensorType, Value

        m = Maker()
        x, c = m.input("x", 2), m.input("c", dtype=DType.BOOL)
        r = m.op("Relu", x)
        type = TensorType(DType.F32, (2,))
        inner = {i: Value(i, f"v{i}", type) for i in (100, 101, 103)}
        nodes = {105: Node(105, "Relu", (100,), (101,)), 106: Node(106, "Tanh", (101,), (103,))}
        branch = Graph("b", (), (103,), inner, nodes, {}, opsets={"": 20}, next_id=200)
        body = Body(branch, ((r, 100),))
        node = m.editor.add_node("If", [c], bodies={"then_branch": body, "else_branch": body}, name="if")
        text = "rule r in s: Tanh(Relu(x)) => Sigmoid(x)\nrule across in s: Relu(Relu(x)) => Neg(x)\n"
        after, trace = run(text, m.graph(node.outputs[0]))
        made = next(n for n in after.nodes.values() if n.op == "If")
        assert [ops(b.graph) for b in made.bodies.values()] == [["Sigmoid"], ["Sigmoid"]]
        assert [a.graph for a in trace.applications] == ["if.then_branch", "if.else_branch"]
        assert "Relu" in ops(after)

    def test_marks_lie_beside_the_graph(self):
        text = """
rule one in s:
    match: y = Conv(x, W: const [M, ...], ..., **)
    annotate: y.engine = "cube"
rule two in s:
    overrides one
    match: y = Conv(x, W: const [M, 1, ...], ..., group=n, **)
    where: n == M and n > 1
    annotate:
        y.engine = "vector"
        y.lanes = M
"""
        m = Maker()
        x = m.input("x", 1, 2, 4, 4)
        a = m.op("Conv", x, m.const(RNG.random((3, 2, 1, 1))))
        b = m.op("Conv", x, m.const(RNG.random((2, 1, 1, 1))), group=2)
        after, trace = run(text, before := m.graph(a, b))
        assert after is before
        marks = [trace.annotations[before.producer[v]] for v in (a, b)]
        assert marks == [{"engine": "cube"}, {"engine": "vector", "lanes": 2}]
