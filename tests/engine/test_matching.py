"""Matching: what users of other rewriters ran into, each as a small graph."""

from __future__ import annotations

import numpy as np
import pytest

from gerules.dsl.tree import RuleError
from gerules.ir import DType
from tests.engine.graphs import Maker, evaluate, ops, run

RNG = np.random.default_rng(0)


def same(before, after, feeds, tolerance=1e-5, book=None):
    for one, two in zip(evaluate(before, feeds), evaluate(after, feeds, book), strict=True):
        np.testing.assert_allclose(two, one, rtol=tolerance, atol=tolerance)


CHAIN = """
rule relu_tanh in s:
    match:
        r = Relu(x)
        y = Tanh(r)
    rewrite:
        y = Sigmoid(x)
"""


class TestClosedMatches:
    def test_an_inner_value_that_is_a_graph_output_stays(self):
        m = Maker()
        r = m.op("Relu", m.input("x", 2))
        after, trace = run(CHAIN, before := m.graph(m.op("Tanh", r), r))
        assert after is before
        assert trace.rules["relu_tanh"].refusals == {f"{before.values[r].name} is a graph output": 1}

    def test_an_inner_value_with_another_reader_stays(self):
        m = Maker()
        r = m.op("Relu", m.input("x", 2))
        after, trace = run(CHAIN, before := m.graph(m.op("Tanh", r), m.op("Neg", r)))
        assert after is before
        assert "readers outside" in next(iter(trace.rules["relu_tanh"].refusals))

    def test_a_capture_by_a_body_is_a_reader(self):
        from gerules.ir import Body, Graph, Node, TensorType, Value

        m = Maker()
        x, c = m.input("x", 2), m.input("c", dtype=DType.BOOL)
        r = m.op("Relu", x)
        t = m.op("Tanh", r)
        inner = {
            100: Value(100, "r", TensorType(DType.F32, (2,))),
            101: Value(101, "o", TensorType(DType.F32, (2,))),
        }
        branch = Graph(
            "b", (), (101,), inner, {102: Node(102, "Neg", (100,), (101,))}, {}, opsets={"": 20}, next_id=200
        )
        body = Body(branch, ((r, 100),))
        node = m.editor.add_node("If", [c], bodies={"then_branch": body, "else_branch": body})
        after, _ = run(CHAIN, before := m.graph(t, node.outputs[0]))
        assert after is before

    def test_shared_lifts_it_and_the_node_stays_while_it_is_read(self):
        text = CHAIN.replace("r = Relu", "shared r = Relu")
        m = Maker()
        r = m.op("Relu", m.input("x", 2))
        after, _ = run(text, m.graph(m.op("Tanh", r), m.op("Neg", r)))
        assert sorted(ops(after)) == ["Neg", "Relu", "Sigmoid"]
        m = Maker()
        after, _ = run(text, m.graph(m.op("Tanh", m.op("Relu", m.input("x", 2)))))
        assert ops(after) == ["Sigmoid"]

    def test_an_output_that_is_not_listed_must_be_unused(self):
        text = """
rule drop in s:
    match:
        y = Dropout(x, ratio=_, training_mode=_, seed=_)
    rewrite:
        y = Identity(x)
"""
        m = Maker()
        y, mask = m.op("Dropout", m.input("x", 2), n=2)
        assert ops(run(text, m.graph(m.op("Relu", y), mask))[0]) == ["Dropout", "Relu"]
        assert ops(run(text, m.graph(m.op("Relu", y)))[0]) == ["Identity", "Relu"]


class TestInputs:
    def test_absent_and_missing_inputs(self):
        text = """
rule clip in s: Clip(x, min=lo?, max=hi?) => Relu(x) where lo is none and hi == 6
rule optional in t:
    match:
        y = Conv(x, W, B?)
    rewrite:
        y = Neg(x)
    """
        m = Maker()
        x = m.input("x", 2)
        six, one = m.const(6.0), m.const(1.0)
        assert ops(run(text, m.graph(m.op("Clip", x, None, six)))[0]) == ["Relu"]
        assert ops(run(text, m.graph(m.op("Clip", x, one, six)))[0]) == ["Clip"]
        assert ops(run(text, m.graph(m.op("Clip", x)))[0]) == ["Clip"]

    def test_more_inputs_than_the_pattern_has(self):
        text = "rule r in s: Clip(x) => Relu(x)\n"
        m = Maker()
        x = m.input("x", 2)
        assert ops(run(text, m.graph(m.op("Clip", x, None, m.const(6.0))))[0]) == ["Clip"]
        assert ops(run(text, m.graph(m.op("Clip", x)))[0]) == ["Relu"]

    def test_an_optional_name_that_is_absent_is_none(self):
        text = """
rule r in s:
    match:
        y = Add?(Relu(x), b)
    where:
        b is none
    rewrite:
        y = Abs(x)
"""
        m = Maker()
        x = m.input("x", 2)
        assert ops(run(text, m.graph(m.op("Relu", x)))[0]) == ["Abs"]

    def test_an_initializer_that_a_caller_may_override_is_no_const(self):
        text = "rule r in s: Add(x, w: const) => Neg(x)\n"
        m = Maker()
        x, w = m.input("x", 2), m.input("w", 2, default=np.ones(2, np.float32))
        assert ops(run(text, m.graph(m.op("Add", x, w)))[0]) == ["Add"]
        assert ops(run(text, m.graph(m.op("Add", x, m.const([1, 1]))))[0]) == ["Neg"]

    def test_a_repeated_name_is_one_value_or_equal_constants(self):
        text = "rule r in s: Sub(Mul(x, w), w) => Neg(x)\n"
        m = Maker()
        x = m.input("x", 2)
        w1, w2, w3 = m.const([1, 2]), m.const([1, 2]), m.const([1, 3])
        assert ops(run(text, m.graph(m.op("Sub", m.op("Mul", x, w1), w2)))[0]) == ["Neg"]
        assert ops(run(text, m.graph(m.op("Sub", m.op("Mul", x, w1), w3)))[0]) == ["Mul", "Sub"]


class TestAttributes:
    def test_an_attribute_not_mentioned_must_be_the_default(self):
        text = "rule r in s: Softmax(x) => Relu(x)\n"
        m = Maker()
        x = m.input("x", 2, 3)
        for axis, expected in ((0, "Softmax"), (-1, "Relu"), (1, "Relu"), (None, "Relu")):
            attrs = {} if axis is None else {"axis": axis}
            assert ops(run(text, m.graph(m.op("Softmax", x, **attrs)))[0]) == [expected]

    def test_negative_and_positive_axes_are_one(self):
        text = "rule r in s: ReduceMean(x, axes=[-1], keepdims=1) => Relu(x)\n"
        m = Maker()
        x = m.input("x", 2, 1)
        for axis, expected in ((-1, "Relu"), (1, "Relu"), (0, "ReduceMean")):
            before = m.graph(m.op("ReduceMean", x, m.const([axis], dtype=np.int64)))
            assert ops(run(text, before)[0]) == [expected]

    @pytest.mark.parametrize("opset", [13, 18])
    def test_an_attribute_that_became_an_input(self, opset):
        text = """
rule r in s: ReduceMean(x, axes=a, keepdims=0) => Squeeze(ReduceMean(x, axes=a, keepdims=1), axes=a)
"""
        m = Maker(opset)
        x = m.input("x", 2, 3)
        axes = (1,)
        if opset == 13:
            y = m.op("ReduceMean", x, axes=axes, keepdims=0)
        else:
            y = m.op("ReduceMean", x, m.const(axes, dtype=np.int64), keepdims=0)
        before = m.graph(y)
        after, _ = run(text, before)
        assert ops(after) == ["ReduceMean", "Squeeze"]
        mean = next(iter(after.nodes.values()))
        assert ("axes" in mean.attrs) == (opset == 13)
        same(before, after, {"x": RNG.random((2, 3), np.float32)})

    def test_keepdims_that_is_not_asked_for(self):
        text = "rule r in s: ReduceMax(x, axes=[-1], keepdims=1) => Relu(x)\n"
        m = Maker()
        x = m.input("x", 2, 1)
        y = m.op("ReduceMax", x, m.const([-1], dtype=np.int64), keepdims=0)
        assert ops(run(text, m.graph(y))[0]) == ["ReduceMax"]

    def test_captured_attributes_go_where_they_are_sent_once(self):
        text = """
rule r in s:
    match:
        c = Conv(x, W, **a)
        y = Relu(c)
    rewrite:
        y = Conv(x, W, group=1, **a)
"""
        m = Maker()
        x, w = m.input("x", 1, 2, 4, 4), m.const(RNG.random((3, 2, 1, 1)))
        after, _ = run(text, m.graph(m.op("Relu", m.op("Conv", x, w, strides=(2, 2), group=1))))
        (node,) = after.nodes.values()
        assert dict(node.attrs) == {"strides": (2, 2), "group": 1}


class TestNumbers:
    @pytest.mark.parametrize(
        ("value", "shape", "dtype", "matches"),
        [
            (1.0, (), np.float32, True),
            (1.0, (1,), np.float32, True),
            (1.0, (1, 1), np.float32, True),
            (1.0, (1, 1, 1), np.float32, False),  # would raise the rank of the result
            (1.0, (2,), np.float32, False),
            (1.0 + 1e-7, (), np.float32, True),
            (1.0 + 1e-3, (), np.float32, False),
            (1.0, (), np.float64, True),
        ],
    )
    def test_a_number_is_a_one_element_constant_that_keeps_the_rank(self, value, shape, dtype, matches):
        text = "rule r in s: Mul(x, 1) => Relu(x)\n"
        m = Maker()
        kind = DType.F64 if dtype == np.float64 else DType.F32
        y = m.op("Mul", m.input("x", 2, 2, dtype=kind), m.const(np.full(shape, value), dtype=dtype))
        after, _ = run(text, m.graph(y))
        assert ops(after) == (["Relu"] if matches else ["Mul"])

    def test_the_number_is_rounded_to_the_type_of_the_constant(self):
        text = "rule r in s: Mul(x, 0.7071067811865476) => Relu(x)\n"
        m = Maker()
        y = m.op("Mul", m.input("x", 2, dtype=DType.F16), m.const(0.70710678, dtype=np.float16))
        assert ops(run(text, m.graph(y))[0]) == ["Relu"]


class TestBacktracking:
    def test_nested_commutative_operators_are_tried_in_every_order(self):
        text = """
rule r in s:
    match:
        y = Add(Add(Relu(x), Neg(x)), Add(Tanh(x), Abs(x)))
    rewrite:
        y = Sigmoid(x)
"""
        for flips in range(8):
            m = Maker()
            x = m.input("x", 2)

            def pair(a, b, bit, m=m, flips=flips):
                return m.op("Add", *((b, a) if flips >> bit & 1 else (a, b)))

            left = pair(m.op("Relu", x), m.op("Neg", x), 0)
            right = pair(m.op("Tanh", x), m.op("Abs", x), 1)
            after, _ = run(text, m.graph(pair(left, right, 2)))
            assert ops(after) == ["Sigmoid"]

    def test_a_later_line_rejects_an_earlier_choice(self):
        # The first order that fits locally binds x and z the wrong way round.
        text = """
rule r in s:
    match:
        a = Add(Relu(x), Relu(z))
        y = Mul(a, Tanh(x))
    rewrite:
        y = Sub(x, z)
"""
        m = Maker()
        p, q = m.input("p", 2), m.input("q", 2)
        y = m.op("Mul", m.op("Add", m.op("Relu", p), m.op("Relu", q)), m.op("Tanh", q))
        after, _ = run(text, m.graph(y))
        (node,) = after.nodes.values()
        assert node.inputs == (q, p)

    def test_ordered_operands_stay_as_written(self):
        text = "rule r in s: Add!(Relu(x), z) => Neg(x)\n"
        m = Maker()
        x, z = m.input("x", 2), m.input("z", 2)
        assert ops(run(text, m.graph(m.op("Add", m.op("Relu", x), z)))[0]) == ["Neg"]
        assert ops(run(text, m.graph(m.op("Add", z, m.op("Relu", x))))[0]) == ["Relu", "Add"]

    def test_alternatives_bind_what_they_derive(self):
        text = """
rule r in s:
    match:
        y = Relu((Mul(x, s: const) with k = s | Div(x, s: const) with k = 1 / s | x with k = 1))
    rewrite:
        y = LeakyRelu(x, alpha=scalar(k))
"""
        for op, alpha in (("Mul", 4.0), ("Div", 0.25), (None, 1.0)):
            m = Maker()
            x = m.input("x", 2)
            inner = m.op(op, x, m.const(4.0)) if op else x
            after, _ = run(text, m.graph(m.op("Relu", inner)))
            (node,) = after.nodes.values()
            assert node.attrs["alpha"] == alpha

    @pytest.mark.parametrize(
        ("pattern", "given", "fits"),
        [
            ("pads=[0, 0, 0, 0]", {}, True),
            ("strides=[1, 1], dilations=[1, 1]", {}, True),
            ("pads=[0, 0]", {}, False),
            ("pads=[1, 1, 1, 1]", {}, False),
            ("pads=none", {}, True),
            ("", {"pads": (0, 0, 0, 0), "strides": (1, 1)}, True),
            ("", {"pads": (0, 0, 1, 0)}, False),
            ("pads=[0, 0, 0, 0], auto_pad=_", {"auto_pad": "SAME_UPPER"}, False),
            ("strides=[1, 1], auto_pad=_", {"auto_pad": "SAME_UPPER"}, True),
        ],
    )
    @pytest.mark.parametrize("op", ["Conv", "MaxPool"])
    def test_a_window_has_steps_of_one_and_no_padding_where_it_says_nothing(self, op, pattern, given, fits):
        m = Maker()
        x = m.input("x", 1, 3, 8, 8)
        args = [x, m.input("W", 4, 3, 3, 3)] if op == "Conv" else [x]
        own = given if op == "Conv" else {**given, "kernel_shape": (3, 3)}
        words = ", ".join(filter(None, ["x, w" if op == "Conv" else "x, kernel_shape=_", pattern]))
        lines = f"        s = {op}({words})\n        y = Neg(s)\n"
        text = f"rule r in s:\n    match:\n{lines}    rewrite: y = Sin(s)\n"
        after, _ = run(text, m.graph(m.op("Neg", m.op(op, *args, **own))))
        assert ops(after) == [op, "Sin" if fits else "Neg"]

    @pytest.mark.parametrize("derived", ["1 / scalar(s)", "s.shape[9]"])
    def test_a_derived_value_that_does_not_exist_is_no_match(self, derived):
        """The next alternative has its turn; without one the trace says which words have no value."""
        ways = "(Div!(x, s: const) with k = WORDS | x with k = 2)"
        text = f"rule r in s: Relu({ways}) => LeakyRelu(x, alpha=k)\n"
        m = Maker()
        graph = m.graph(m.op("Relu", m.op("Div", m.input("x", 2), m.const(0.0))))
        after, _ = run(text.replace("WORDS", derived), graph)
        assert ops(after) == ["Div", "LeakyRelu"]
        after, trace = run(text.replace("WORDS", derived).replace(" | x with k = 2", ""), graph)
        assert ops(after) == ["Div", "Relu"]
        (count,) = trace.rules.values()
        assert count.best.reason.startswith(f"`{derived}` has no value: ")

    @pytest.mark.parametrize("shape", ["(xh)e", "x(he)", "(xe)h", "h(ex)", "(he)x"])
    def test_any_association(self, shape):
        text = "rule r in s: Mul~(x, 0.5, Add(Erf(x), 1)) => Gelu(x)\n"
        m = Maker()
        x = m.input("x", 2)
        part = {"x": x, "h": m.const(0.5), "e": m.op("Add", m.op("Erf", x), m.const(1.0))}
        stack: list[list[int]] = [[]]
        for char in shape:
            if char == "(":
                stack.append([])
            elif char == ")":
                stack[-2].append(m.op("Mul", *stack.pop()))
            else:
                stack[-1].append(part[char])
        after, _ = run(text, m.graph(m.op("Mul", *stack[0])))
        assert ops(after) == ["Gelu"]

    def test_the_maximal_match_wins(self):
        text = """
rule r in s:
    match:
        y = Add?(Relu(x), b: const)
    rewrite:
        y = Neg(x)
"""
        m = Maker()
        y = m.op("Add", m.op("Relu", m.input("x", 2)), m.const([1, 2]))
        assert ops(run(text, m.graph(y))[0]) == ["Neg"]

    def test_a_hostile_pattern_is_given_up_with_a_warning(self):
        # Sixteen commuting levels, and the one thing that never fits comes last.
        nested = "x"
        for level in range(16):
            nested = f"Add({nested}, Add(a{level}, b{level}))"
        text = f"rule hostile in s: Relu(Mul({nested}, Tanh(x))) => x\n"
        m = Maker()
        value = m.op("Add", *(m.input("p", 2), m.input("q", 2)))
        for _ in range(16):
            value = m.op("Add", value, m.op("Add", value, value))
        after, trace = run(
            text, before := m.graph(m.op("Relu", m.op("Mul", value, m.op("Tanh", m.input("z", 2)))))
        )
        assert after is before
        (warning,) = trace.warnings
        assert warning.code.code == "E40031" and "hostile" in warning.message

    @pytest.mark.parametrize("n", [40, 300])
    def test_names_used_at_every_level_do_not_multiply(self, n):
        lines = [f"        v{i} = Add(v{i + 1}, v{i + 1})" for i in range(n)]
        text = "rule r in s:\n    match:\n" + "\n".join(lines) + f"\n    rewrite:\n        v0 = Relu(v{n})\n"
        m = Maker()
        x = y = m.input("x", 2)
        for _ in range(n):
            y = m.op("Add", y, y)
        try:
            after, _ = run(text, m.graph(y))
            assert [node.inputs for node in after.nodes.values()] == [(x,)] or n > 40
        except RuleError as error:
            assert n > 40 and error.code == "E40032"

    def test_a_pattern_that_needs_itself_is_a_fault(self):
        text = """
pattern p(x) -> y:
    y = Relu(p(x))
pattern p(x) -> y:
    y = Neg(p(x))
rule r in s: Abs(p(x)) => x
"""
        m = Maker()
        with pytest.raises(RuleError) as caught:
            run(text, m.graph(m.op("Abs", m.op("Relu", m.input("x", 2)))))
        assert caught.value.code == "E40032"


class TestTypes:
    def test_names_unify_over_the_rule(self):
        text = "rule r in s: MatMul(a: T[M, K], b: T[K, M]) => Relu(a)\n"
        m = Maker()
        y = m.op("MatMul", m.input("a", 2, 3), m.input("b", 3, 2))
        trace = run(text, m.graph(y))[1]
        assert trace.rules["r"].matches == 1
        m = Maker()
        y = m.op("MatMul", m.input("a", 2, 3), m.input("b", 3, 4))
        assert run(text, m.graph(y))[1].rules["r"].matches == 0

    def test_unknown_dimensions_are_not_equal_and_named_ones_are(self):
        text = "rule r in s: Add(a: [N], b: [N]) => Relu(a)\n"
        for dim, matches in (("N", 1), ("?", 0), (3, 1)):
            m = Maker()
            y = m.op("Add", m.input("a", dim), m.input("b", dim))
            assert run(text, m.graph(y))[1].rules["r"].matches == matches

    def test_a_result_of_another_type_is_refused(self):
        text = "rule r in s: Relu(x) => Cast(x, to=f16)\n"
        m = Maker()
        after, trace = run(text, before := m.graph(m.op("Relu", m.input("x", 2))))
        assert after is before and "would change from f32[2] to f16[2]" in next(
            iter(trace.rules["r"].refusals)
        )

    def test_an_operand_broadcast_along_another_axis_changes_the_shape(self):
        text = "rule r in s: Mul(Relu(x), w: const) => Relu(w)\n"
        m = Maker()
        after, _ = run(
            text, before := m.graph(m.op("Mul", m.op("Relu", m.input("x", 2, 3)), m.const([1, 2, 3])))
        )
        assert after is before

    def test_an_operator_that_does_not_take_the_type_is_refused(self):
        text = "rule r in s: Add(x, x) => Relu(x)\n"
        m = Maker(13)  # Relu takes no integers before opset 14
        x = m.input("x", 2, dtype=DType.I32)
        _, trace = run(text, m.graph(m.op("Add", x, x)))
        assert "Relu does not take i32" in next(iter(trace.rules["r"].refusals))

    def test_an_operator_that_this_opset_lacks_is_refused(self):
        text = "rule r in s: Relu(x) => Gelu(x)\n"
        m = Maker(17)
        _, trace = run(text, m.graph(m.op("Relu", m.input("x", 2))))
        assert list(trace.rules["r"].refusals) == ["Gelu does not exist at this version"]
