"""Formats of new nodes: they follow the device's kernels, and what no kernel takes is refused."""

from __future__ import annotations

import pytest

from gerules.dsl import load_rules
from gerules.engine.define import make_infer
from gerules.errors import Source
from gerules.ir import Const, DType, Format, Node, Origin, TensorType, ValueType
from gerules.passes.devices import find_device
from gerules.passes.errors import PassError
from gerules.passes.format_types import infer_formats
from tests.passes.running import SCHEMAS

DEVICE_TEXT = """gerules 1
device d:
    engine core priority 1: {Relu, Add, Conv, Softmax}
formats on d.core:
    Conv(X: NC1HWC0, W: FRACTAL_Z, B?: ND) -> NC1HWC0
    Relu(X: f) -> f
    Add(A: f, B: f) -> f
    Softmax(input: ND) -> ND
"""
DEVICE = find_device(load_rules([Source("d.ger", DEVICE_TEXT)], schemas=None), "d", schemas=SCHEMAS)
INFER = infer_formats(make_infer(SCHEMAS, {"": 18}), DEVICE)
CONVERT = infer_formats(lambda _node, inputs, _consts: [plain(inputs[0])], DEVICE)
PICTURE = TensorType(DType.F16, (1, 40, 4, 4))
BLOCKS = PICTURE.with_format(Format.NC1HWC0)
WEIGHTS = TensorType(DType.F16, (8, 40, 1, 1), Format.FRACTAL_Z)
ONE = TensorType(DType.F16, ())


def plain(type: ValueType | None) -> ValueType:
    assert isinstance(type, TensorType)
    return type.with_format(Format.ND)


def typed(op: str, *inputs: ValueType, **attrs: int | str) -> ValueType:
    node = Node(0, op, tuple(range(len(inputs))), (9,), attrs, "", Origin())
    consts: list[Const | None] = [None] * len(inputs)
    infer = CONVERT if op == "ge::TransData" else INFER
    (found,) = infer(node, list(inputs), consts)
    return found


def test_results_lie_as_operands_do() -> None:
    assert typed("Relu", BLOCKS) == BLOCKS
    assert typed("Add", BLOCKS, BLOCKS) == BLOCKS
    assert typed("Identity", WEIGHTS) == WEIGHTS
    assert typed("Relu", PICTURE) == PICTURE


def test_groups_of_weights_are_kept() -> None:
    grouped = WEIGHTS.with_format(Format.FRACTAL_Z, 2)
    assert typed("Relu", grouped) == grouped
    assert typed("Add", grouped, grouped) == grouped
    assert typed("Add", grouped, ONE) == grouped
    assert typed("Identity", grouped) == grouped


def test_a_single_element_lies_next_to_anything() -> None:
    assert typed("Add", BLOCKS, ONE) == BLOCKS
    assert typed("Add", ONE, BLOCKS) == BLOCKS


def test_kernels_name_the_format_that_they_give() -> None:
    found = typed("Conv", BLOCKS, WEIGHTS)
    assert found == TensorType(DType.F16, (1, 8, 4, 4), Format.NC1HWC0)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Softmax", [BLOCKS]),
        ("Add", [BLOCKS, PICTURE]),
        ("Add", [WEIGHTS, WEIGHTS.with_format(Format.FRACTAL_Z, 2)]),
        ("Conv", [BLOCKS, TensorType(DType.F16, (8, 40, 1, 1))]),
        ("Tanh", [BLOCKS]),
    ],
)
def test_what_no_kernel_takes_is_refused(op: str, inputs: list[ValueType]) -> None:
    with pytest.raises(PassError) as caught:
        typed(op, *inputs)
    assert [item.code.code for item in caught.value.diagnostics] == ["E50016"]


def test_conversions_give_what_they_say() -> None:
    made = typed("ge::TransData", PICTURE, dst_format="FRACTAL_Z", groups=4)
    assert made == PICTURE.with_format(Format.FRACTAL_Z, 4)
    assert typed("ge::TransData", BLOCKS, dst_format="NCHW", groups=1) == PICTURE
    with pytest.raises(PassError):
        typed("ge::TransData", TensorType(DType.F16, ("N", 3)), dst_format="NC1HWC0")
