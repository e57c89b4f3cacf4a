"""The cost model answers the same however often and in whatever order it is asked."""

from __future__ import annotations

from itertools import permutations

from gerules.ir import NO_ATTRS, Attr, DType, Node, TensorType
from gerules.pipeline.toolchain import make_toolchain, own_rules
from gerules.target.cost import CostModel

X = TensorType(DType.F16, (8, 16, 32, 32))
WEIGHT = TensorType(DType.F16, (16, 16, 3, 3))
POOLED = TensorType(DType.F16, (8, 16, 16, 16))


def node(op: str, n_inputs: int = 1, attrs: dict[str, Attr] | None = None) -> Node:
    return Node(0, op, tuple(range(n_inputs)), (9,), attrs or NO_ATTRS)


ASKED = [
    (node("MaxPool", attrs={"kernel_shape": (2, 2)}), [X], [POOLED]),
    (node("MaxPool", attrs={"kernel_shape": (3, 3)}), [X], [POOLED]),
    (node("Relu"), [X], [X]),
    (node("Relu"), [POOLED], [POOLED]),
    (node("Exp"), [X], [X]),
    (node("Conv", 2), [X, WEIGHT], [X]),
    (node("ge::ConvRelu", 2), [X, WEIGHT], [X]),
    (node("ge::Gelu"), [X], [X]),
]


def model() -> CostModel:
    return make_toolchain(own_rules(), {"": 20}, device="ascend910b").costs


def test_what_was_asked_before_changes_no_cost() -> None:
    alone = [model().node(*asked) for asked in ASKED]
    assert len(set(alone)) == len(alone), "each differs from the others"
    for order in list(permutations(range(len(ASKED))))[::4999]:
        costs = model()
        for place in (*order, *order):
            assert costs.node(*ASKED[place]) == alone[place]
