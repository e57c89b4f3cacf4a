"""Gates: they see what was built; what one refused is refused again without being built."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tests.engine.graphs import Maker, ops, run

TEXT = """
rule r in s:
    match:
        y = Relu(Tanh(x))
    gate:
        after.time < 0.4 * before.time    else "not faster"
    rewrite:
        y = Neg(x)
"""


class Prices:
    """What nodes cost; `asked` are those that were asked about."""

    def __init__(self, time_of=lambda node, inputs, outputs: 1.0) -> None:
        self.time_of = time_of
        self.asked = []

    def __call__(self, node, inputs, outputs):
        self.asked.append(node.op)
        return SimpleNamespace(time=self.time_of(node, inputs, outputs), bytes=10.0, flops=0.0)


def test_a_gate_sees_what_was_built():
    m = Maker()
    graph = m.graph(m.op("Relu", m.op("Tanh", m.input("x", 2))))
    after, trace = run(TEXT, graph, cost=Prices())
    assert after is graph and trace.rules["r"].refusals == {"not faster": 1}
    assert "time 2 -> 1 us" in trace.rules["r"].best.reason
    assert ops(run(TEXT.replace("0.4", "0.6"), graph, cost=Prices())[0]) == ["Neg"]


def chains(*shapes, dtype=np.float32):
    m = Maker()
    return m.graph(*[m.op("Relu", m.op("Tanh", m.input(f"x{i}", *shape))) for i, shape in enumerate(shapes)])


def test_a_form_that_was_refused_is_not_built_again():
    prices = Prices()
    _, trace = run(TEXT, chains((2, 3), (2, 3), (2, 3), (4,)), cost=prices)
    assert trace.rules["r"].refusals == {"not faster": 4}
    assert prices.asked.count("Neg") == 2, "once for each type"


def test_a_form_of_other_types_is_judged_by_its_own_costs():
    large = Prices(lambda node, inputs, outputs: 1.0 if node.op == "Neg" else float(inputs[0].n_elements))
    after, trace = run(TEXT, chains((1,), (1,), (9,), (1,), (9,)), cost=large)
    assert sorted(ops(after)).count("Neg") == 2
    assert trace.rules["r"].refusals == {"not faster": 3}


REPEATED = """
rule r in s:
    match:
        y = Reshape(Tanh(x), shape=s)
    gate:
        after.time < before.time    else "not faster"
    rewrite:
        y = Tanh(Reshape(x, shape=s))
"""


def test_a_form_with_another_shape_is_another_form():
    m = Maker()
    x = m.input("x", 12)
    made = [
        m.op("Reshape", m.op("Tanh", x), m.const(shape, dtype=np.int64))
        for shape in ([3, 4], [3, 4], [4, 3], [2, 6])
    ]
    prices = Prices()
    run(REPEATED, m.graph(*made), cost=prices)
    assert prices.asked.count("Tanh") == 2 * 3, "before and after, for each shape"


SCALED = """
rule r in s:
    match:
        y = Mul(Tanh(x), k: const)
    gate:
        after.time < before.time    else "not faster"
    rewrite:
        y = Mul(Sinh(x), k)
"""


def test_what_a_matrix_holds_makes_no_other_form_but_a_factor_does():
    for shape, n_forms in (((2, 2), 1), ((2,), 3), ((), 3)):
        m = Maker()
        x = m.input("x", 2, 2)
        made = [m.op("Mul", m.op("Tanh", x), m.const(np.full(shape, k))) for k in (2, 3, 4)]
        prices = Prices()
        _, trace = run(SCALED, m.graph(*made), cost=prices)
        assert trace.rules["r"].refusals == {"not faster": 3}
        assert prices.asked.count("Sinh") == n_forms


class Watcher:
    """Sees everything, and keeps what refused."""

    def __init__(self) -> None:
        self.refused = []

    def wants(self, rule):
        return True

    def see(self, sighting):
        if sighting.stage == "gate":
            self.refused.append(sighting.seen)

    def lack(self, rule, graph, feature, when): ...

    def apply(self, applied): ...


def test_whoever_watches_sees_the_numbers_of_each():
    watcher = Watcher()
    run(TEXT, chains((2, 3), (2, 3), (2, 3)), cost=Prices(), witness=watcher)
    assert len(watcher.refused) >= 3 and all("x the time" in text for text in watcher.refused)
