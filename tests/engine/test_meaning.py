"""Random graphs under random subsets of rules keep their meaning, their names and their invariants."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gerules.ir.verify import broken_invariants
from tests.engine.graphs import Maker, book_of, evaluate, run

RULES = """
ops UNARY = {Relu, Tanh, Neg, Abs, Sigmoid}
ops E = UNARY + {Add, Mul, Sub}
rule drop_identity in s: Identity(x) => x
rule drop_add_zero in s: Add(x, 0) => x
rule drop_mul_one in s: Mul(x, 1) => x
rule drop_sub_zero in s: Sub(x, 0) => x
rule double_neg in s: Neg(Neg(x)) => x
rule relu_relu in s: Relu(Relu(x) as r) => r
rule merge_transpose in s: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=compose(p, q))
rule drop_transpose in s: Transpose(x, perm=p) => x where is_identity(p)
rule factor in s: Add(Mul(x, a), Mul(x, b)) => Mul(x, Add(a, b)) where same_shape(a, b) and a.rank <= x.rank
rule sub_to_add in s: Sub(x, Neg(z)) => Add(x, z)
rule fold_scale in s:
    match:
        y = Mul(Mul(x, a: const T[]), b: const T[])
    fold:
        c = cast(a * b, a.dtype)
    rewrite:
        y = Mul(x, c)
rule halves in s:
    match:
        a, b = Split(Neg(x), num_outputs=2, axis=0)
    rewrite:
        c, d = Split(x, num_outputs=2, axis=0)
        a = Neg(c)
        b = Neg(d)
rule sink in s:
    once
    match:
        y = f@UNARY(Transpose(x, perm=p))
    rewrite:
        y = Transpose(@f(x), perm=p)
rule join in s:
    match:
        shared t = Tanh(x)
        y = Add~(t, Abs(x), 0.5)
    rewrite:
        y = Sub(Add(t, Abs(x)), -0.5)
rule pair in s:
    match:
        a = Mul(x, s: const)
        b = Sub(x, r: const)
    rewrite:
        a = Mul(x, s)
        b = Add(x, Neg(r))
rule chain in s:
    match:
        y = ch@E{2..5}(x, ...)
    where:
        same_shape(x, y)
    rewrite:
        y = fn ge::Eltwise(x, *ch.side_inputs)
"""
BOOK = book_of(RULES)
UNARY = ["Relu", "Tanh", "Neg", "Abs", "Sigmoid", "Identity", "Transpose"]
BINARY = ["Add", "Mul", "Sub"]


def _factor(m, x, consts, flip):
    a, b = m.op("Mul", x, consts[2]), m.op("Mul", consts[3], x)
    return [m.op("Add", *((b, a) if flip else (a, b)))]


def _pair(m, x, consts, flip):
    return [m.op("Mul", x, consts[3]), m.op("Tanh" if flip else "Relu", x), m.op("Sub", x, consts[2])]


def _join(m, x, consts, flip):
    t, a = m.op("Tanh", x), m.op("Abs", x)
    inner = m.op("Add", a, consts[4]) if flip else m.op("Add", t, a)
    return [t, m.op("Add", t if flip else consts[2], inner)]


def _scale(m, x, consts, flip):
    return [
        m.op("Mul", consts[2], m.op("Mul", x, consts[3])),
        *([m.op("Sub", x, m.op("Neg", x))] if flip else []),
    ]


MOTIFS = {"factor": _factor, "pair": _pair, "join": _join, "scale": _scale}


@st.composite
def graphs(draw):
    m = Maker()
    values = [m.input("x", 2, 3), m.input("z", 2, 3)]
    shapes = {values[0]: (2, 3), values[1]: (2, 3)}
    consts = [(m.const(c), ()) for c in (0.0, 1.0, 0.5, 2.0, 0.5)]
    for _ in range(draw(st.integers(3, 14))):
        # Recent values more often: chains are where rules meet.
        back = draw(st.integers(0, min(len(values), 4) - 1))
        x = values[-1 - back]
        kind = draw(st.sampled_from([*UNARY, *BINARY, "Split", *MOTIFS]))
        if kind in MOTIFS:
            # Neighbourhoods that single random nodes hardly ever form.
            made = MOTIFS[kind](m, x, [c for c, _ in consts], draw(st.booleans()))
            shapes |= dict.fromkeys(made, shapes[x])
            values += made
            continue
        if kind == "Split":
            if shapes[x][0] != 2:
                continue
            made = m.op("Split", x, n=2, num_outputs=2, axis=0)
            for v in made:
                shapes[v] = (1, shapes[x][1])
            values += made
            continue
        if kind in BINARY:
            partners = [v for v in values if shapes[v] == shapes[x]]
            other = draw(st.sampled_from([*partners, *(c for c, _ in consts)]))
            pair = (other, x) if draw(st.booleans()) else (x, other)
            made = m.op(kind, *pair)
        elif kind == "Transpose":
            made = m.op("Transpose", x, perm=draw(st.sampled_from([(1, 0), (0, 1)])))
            perm = m.editor.producer(made).attrs["perm"]
            shapes[made] = tuple(shapes[x][p] for p in perm)
            values.append(made)
            continue
        else:
            made = m.op(kind, x)
        shapes[made] = shapes[x]
        values.append(made)
    computed = values[2:] or [m.op("Relu", values[0])]
    outputs = draw(st.lists(st.sampled_from(computed[-5:]), min_size=1, max_size=3, unique=True))
    return m.graph(*outputs)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs(),
    st.sets(st.sampled_from([rule.name.name for rule in BOOK.rules]), min_size=1),
    st.sampled_from(["outputs_first", "inputs_first"]),
)
def test_rewriting_keeps_the_meaning(graph, names, order):
    rules = [rule for rule in BOOK.rules if rule.name.name in names]
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((2, 3)).astype(np.float32) for name in ("x", "z")}
    after, trace = run(BOOK, graph, rules=rules, order=order, max_rounds=20)
    assert not broken_invariants(after)
    assert [after.values[v].name for v in after.outputs] == [graph.values[v].name for v in graph.outputs]
    assert [after.type_of(v) for v in after.outputs] == [graph.type_of(v) for v in graph.outputs]
    assert after.inputs == graph.inputs
    assert (after is graph) == (not trace.applications)
    for one, two in zip(evaluate(graph, feeds), evaluate(after, feeds), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_a_second_run_finds_nothing_new(graph):
    names = {
        "drop_identity",
        "drop_add_zero",
        "drop_mul_one",
        "double_neg",
        "merge_transpose",
        "drop_transpose",
    }
    rules = [rule for rule in BOOK.rules if rule.name.name in names]
    after, _ = run(BOOK, graph, rules=rules)
    again, _ = run(BOOK, after, rules=rules)
    assert again is after
