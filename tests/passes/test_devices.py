"""Devices from rule texts: chains of bases, hidden lines, conditions, faults."""

from __future__ import annotations

import pytest

from gerules.dsl import RuleBook, load_rules
from gerules.errors import Source
from gerules.ir import DType, Format, TensorType
from gerules.passes.devices import device_names, find_device
from gerules.target import TargetError
from tests.passes.running import BOOK, SCHEMAS

TEXT = """
const THIN = 4
ops UNARY = {Relu, Neg}
define ge::Conv2D(x, filter, bias?, **a) -> y:
    y = Conv(x, filter, bias, **a)
device base "the base":
    engine cube priority 1: {ge::Conv2D, MatMul} where x.dtype == f16
    engine vector priority 2: UNARY + {Add}
    lacks {Gelu}
    has ge
    set n_cube_cores = 2
    set l1_bytes = 2 * 1024
device child extends base "the child":
    engine vector priority 5: UNARY
    lacks {Mish}
    has more
    set n_cube_cores = 3
    set attached_engines = ["vector"]
formats on base.cube:
    ge::Conv2D(filter: FRACTAL_Z, x: NC1HWC0) -> NC1HWC0 where filter.shape[1] >= $THIN cost 0.5
    MatMul(A: ND, B: ND) -> ND
    MatMul(A: FRACTAL_NZ, B: FRACTAL_NZ) -> FRACTAL_NZ
formats on base.vector:
    _@UNARY(x: f) -> f
    Concat(*: f) -> f
formats on child.cube:
    MatMul(A: ND, B: FRACTAL_NZ) -> ND
"""


def book(text: str) -> RuleBook:
    return load_rules([Source("devices.ger", "gerules 1\n" + text)], schemas=None)


def test_the_chain_of_bases_is_flattened() -> None:
    device = find_device(book(TEXT), "child", schemas=SCHEMAS)
    assert device.doc == "the child"
    assert device.number("n_cube_cores") == 3
    assert device.number("l1_bytes") == 2048
    assert device.features == {"ge", "more"}
    assert device.lacks_ops == {"Gelu", "Mish"}
    assert {engine.name: (engine.priority, engine.is_attached) for engine in device.engines} == {
        "cube": (1, False),
        "vector": (5, True),
    }
    assert device.engines_of("Add") == [], "the child's engine hides its base's"


def test_lines_of_the_device_hide_those_of_its_base() -> None:
    device = find_device(book(TEXT), "child", schemas=SCHEMAS)
    (kernel,) = device.kernels_of("MatMul")
    assert [port.format for port in kernel.inputs] == [Format.ND, Format.FRACTAL_NZ]
    assert len(find_device(book(TEXT), "base", schemas=SCHEMAS).kernels_of("MatMul")) == 2


def test_lines_for_another_engine_hide_nothing() -> None:
    text = TEXT.replace("engine vector priority 5: UNARY", "engine vector priority 5: UNARY + {MatMul}")
    text += "formats on child.vector:\n    MatMul(A: ND, B: ND) -> ND cost 2\n"
    kernels = find_device(book(text), "child", schemas=SCHEMAS).kernels_of("MatMul")
    assert [kernel.engine for kernel in kernels] == ["cube", "vector"]
    text = text.replace("formats on child.cube:\n    MatMul(A: ND, B: FRACTAL_NZ) -> ND\n", "")
    kernels = find_device(book(text), "child", schemas=SCHEMAS).kernels_of("MatMul")
    assert sorted(kernel.engine for kernel in kernels) == ["cube", "cube", "vector"]


def test_a_star_gives_every_further_output_one_format() -> None:
    text = (
        "device d:\n    engine e: {Split}\nformats on d.e:\n    Split(input: ND, split?: ND) -> ND, *: NHWC\n"
    )
    (kernel,) = find_device(book(text), "d", schemas=SCHEMAS).kernels
    assert [port.format for port in kernel.outputs[:3]] == [Format.ND, Format.NHWC, Format.NHWC]


def test_ports_stand_where_the_operator_has_them() -> None:
    device = find_device(book(TEXT), "base", schemas=SCHEMAS)
    (kernel,) = device.kernels_of("ge::Conv2D")
    assert [(port.name, port.format) for port in kernel.inputs] == [
        ("x", Format.NC1HWC0),
        ("filter", Format.FRACTAL_Z),
        ("bias", Format.ND),
    ]
    assert kernel.inputs[2].is_optional
    assert kernel.cost == 0.5
    (concat,) = device.kernels_of("Concat")
    assert concat.inputs[0].is_rest
    assert concat.inputs[0].format == "f"


def test_conditions_are_callable() -> None:
    device = find_device(book(TEXT), "base", schemas=SCHEMAS)
    (kernel,) = device.kernels_of("ge::Conv2D")
    assert kernel.where is not None
    x = TensorType(DType.F16, (1, 8, 4, 4))
    for channels, want in ((8, True), (3, False)):
        weight = TensorType(DType.F16, (4, channels, 3, 3))
        assert kernel.where("ge::Conv2D", [x, weight], [x], {}) is want
    assert kernel.where("ge::Conv2D", [x, None], [x], {}) is False
    guard = device.engines[0].where
    assert guard is not None
    assert guard("MatMul", [x], [x], {})
    assert not guard("MatMul", [x.with_dtype(DType.F32)], [x], {})


WHERE = """
define ge::Concat(*xs, concat_dim = 1) -> y:
    y = Concat(*xs, axis=concat_dim)
device d:
    engine e: {{ge::Concat, Split}} where op.name == "Split" or concat_dim >= 0
formats on d.e:
    ge::Concat(*: NC1HWC0) -> NC1HWC0 where {condition}
    Split(input: ND, split?: ND) -> ND, ND where axis == 0 and y0.rank == 4 and y1.rank == 4
"""


@pytest.mark.parametrize(
    ("condition", "channels", "attrs", "want"),
    [
        ("concat_dim == 1 and dims(inputs[:-1], 1) % c0(y.dtype) == 0", (16, 32, 5), {}, True),
        ("concat_dim == 1 and dims(inputs[:-1], 1) % c0(y.dtype) == 0", (16, 5, 32), {}, False),
        ("concat_dim == 1 and y.rank == 4", (16, 16), {"concat_dim": 2}, False),
        ('op.name == "ge::Concat" and len(outputs) == 1 and len(inputs) == 2', (1, 2), {}, True),
    ],
)
def test_a_kernel_asks_about_every_input_the_outputs_and_attributes(
    condition: str, channels: tuple[int, ...], attrs: dict[str, int], want: bool
) -> None:
    device = find_device(book(WHERE.format(condition=condition)), "d", schemas=SCHEMAS)
    (kernel,) = device.kernels_of("ge::Concat")
    inputs = [TensorType(DType.F16, (1, size, 4, 4)) for size in channels]
    assert kernel.where is not None
    assert kernel.where("ge::Concat", inputs, [inputs[0]], attrs) is want
    (engine,) = device.engines
    assert engine.where is not None
    assert engine.where("ge::Concat", inputs, [inputs[0]], attrs)
    (split,) = device.kernels_of("Split")
    assert split.where is not None
    assert split.where("Split", [inputs[0], None], inputs[:2], {})
    assert not split.where("Split", [inputs[0], None], inputs[:2], {"axis": 1})


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(TargetError, match="did you mean child") as caught:
        find_device(book(TEXT), "chld", schemas=SCHEMAS)
    assert caught.value.code == "E50010"


def test_all_faults_of_a_device_are_reported() -> None:
    text = """
device d:
    engine e: {MatMul}
    set memory_bytes = {"a": 1}
formats on d.e:
    MatMul(A: ND, X: ND) -> NDX
    MatMul(A: ND, B: ND) -> ND cost 0
"""
    with pytest.raises(TargetError) as caught:
        find_device(book(text), "d", schemas=SCHEMAS)
    assert sorted(item.code.code for item in caught.value.diagnostics) == [
        "E40012",
        "E50011",
        "E50012",
        "E50012",
    ]


@pytest.mark.parametrize("name", device_names(BOOK))
def test_shipped_devices_can_be_read(name: str) -> None:
    device = find_device(BOOK, name, schemas=SCHEMAS)
    assert device.engines
    for kernel in device.kernels:
        assert any(engine.name == kernel.engine for engine in device.engines)
